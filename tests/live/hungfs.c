/* SPDX-License-Identifier: GPL-2.0-or-later */
#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include "tests/live/hungfs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/live/support.h"

#define FILE_NODE 2

struct hungfs {
	char dir[128];
	pid_t pid;
};

static char *bytes;
static size_t size;

static void fill_stat(fuse_ino_t node, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = node,
		.st_mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.st_nlink = 1,
		.st_size = node == FILE_NODE ? size : 0,
		.st_mtim.tv_sec = 1000000000,
		.st_ctim.tv_sec = 1000000000,
	};
}

/* Nothing is remembered by the kernel: each question comes here. */
static void lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {.ino = FILE_NODE, .generation = 1};

	if (strcmp(name, "lib.so") != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill_stat(FILE_NODE, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	struct stat st;

	fill_stat(node, &st);
	fuse_reply_attr(req, &st, 0);
}

static void open_file(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	fuse_reply_open(req, fi);
}

static void read_file(fuse_req_t req, fuse_ino_t node, size_t len, off_t offset,
		      struct fuse_file_info *fi)
{
	size_t at = MIN((size_t)offset, size);

	fuse_reply_buf(req, bytes + at, MIN(len, size - at));
}

/* Serves in this process, single-threaded: stopped, it answers nothing. */
static void serve(const char *dir, const char *source)
{
	static const struct fuse_lowlevel_ops ops = {
		.lookup = lookup,
		.getattr = getattr,
		.open = open_file,
		.read = read_file,
	};
	char name[] = "hungfs", *argv[] = {name, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bytes = read_path(source, &size);
	struct fuse_session *session = fuse_session_new(&args, &ops, sizeof(ops), NULL);

	if (!session || fuse_session_mount(session, dir) != 0)
		_exit(1);
	fuse_session_loop(session);
	fuse_session_unmount(session);
	_exit(0);
}

static bool file_there(void *arg)
{
	return access(arg, R_OK) == 0;
}

struct hungfs *hungfs_start(const char *dir, const char *source)
{
	struct hungfs *hungfs = calloc(1, sizeof(*hungfs));

	assert_non_null(hungfs);
	snprintf(hungfs->dir, sizeof(hungfs->dir), "%s", dir);
	fflush(NULL);
	hungfs->pid = fork();
	assert_true(hungfs->pid >= 0);
	if (hungfs->pid == 0)
		serve(dir, source);
	_cleanup_free_ char *path = hungfs_path(hungfs);

	assert_true(wait_until(file_there, path, 10));
	return hungfs;
}

char *hungfs_path(const struct hungfs *hungfs)
{
	char *path;

	assert_true(asprintf(&path, "%s/lib.so", hungfs->dir) > 0);
	return path;
}

void hungfs_hang(struct hungfs *hungfs)
{
	int status;

	kill(hungfs->pid, SIGSTOP);
	assert_int_equal(waitpid(hungfs->pid, &status, WUNTRACED), hungfs->pid);
}

void hungfs_answer(struct hungfs *hungfs)
{
	kill(hungfs->pid, SIGCONT);
}

void hungfs_stop(struct hungfs *hungfs)
{
	umount2(hungfs->dir, MNT_DETACH);
	kill(hungfs->pid, SIGKILL);
	waitpid(hungfs->pid, NULL, 0);
	free(hungfs);
}
