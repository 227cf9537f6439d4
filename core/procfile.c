/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes and the files that they map: see procfile.h. */
#include "core/procfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* What fstatat() needs of a path such as PID/task/TID/exe. */
#define PROC_PATH_MAX 64

/*
 * A task has an executable as long as it has memory. The link needs the same permission as all
 * else that is looked at here, and never touches the file system that it leads to.
 */
static int has_memory(int dir_fd, pid_t tid)
{
	char path[PROC_PATH_MAX], first;

	snprintf(path, sizeof(path), "%d/exe", tid);
	return readlinkat(dir_fd, path, &first, 1) < 0 ? -errno : 0;
}

/* Does a process have threads beside the main one? Its task directory has a link for each. */
static bool has_threads(int proc_fd, pid_t pid)
{
	char path[PROC_PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%d/task", pid);
	return fstatat(proc_fd, path, &st, 0) == 0 && st.st_nlink > 3;
}

/* A thread that still has the memory which the main thread of pid has left. */
static int find_thread(int proc_fd, pid_t pid, pid_t *ret)
{
	char path[PROC_PATH_MAX];

	if (!has_threads(proc_fd, pid))
		return -ESRCH;
	snprintf(path, sizeof(path), "%d/task", pid);
	_cleanup_fd_ int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	_cleanup_dir_ DIR *dir = fdopendir(fd);

	if (!dir)
		return -errno;
	take_fd(&fd);
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t tid = atoi(entry->d_name);

		if (tid > 0 && tid != pid && has_memory(dirfd(dir), tid) == 0) {
			*ret = tid;
			return 0;
		}
	}
	return -ESRCH;
}

int process_find(int proc_fd, pid_t pid, pid_t *ret)
{
	int r = has_memory(proc_fd, pid);

	*ret = pid;
	if (r == -ENOENT)
		r = find_thread(proc_fd, pid, ret);
	return r == -ENOENT ? -ESRCH : r;
}

/*
 * Every task has a /proc/TID, but a thread is no process, and a number can be another's by now.
 */
int process_of_task(int dir_fd, pid_t *ret)
{
	char status[512];
	_cleanup_fd_ int fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = read(fd, status, sizeof(status) - 1);

	if (n < 0)
		return -errno;
	status[n] = '\0';
	/* Of what comes before only the name is not the kernel's own, and it has no newline. */
	const char *line = strstr(status, "\nTgid:\t");

	if (!line)
		return -ESRCH;
	*ret = atoi(line + strlen("\nTgid:\t"));
	return 0;
}

int task_process(int proc_fd, pid_t tid, pid_t *ret)
{
	char name[PROC_PATH_MAX];

	snprintf(name, sizeof(name), "%d", tid);
	_cleanup_fd_ int dir = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return process_of_task(dir, ret);
}

int process_open(int proc_fd, pid_t pid, struct process *ret)
{
	char name[PROC_PATH_MAX];
	pid_t tid, tgid = 0;
	int r = process_find(proc_fd, pid, &tid);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%d", tid);
	_cleanup_fd_ int dir = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	r = process_of_task(dir, &tgid);
	if (r < 0)
		return r;
	if (tgid != pid)
		return -ESRCH;
	*ret = (struct process){.pid = pid, .tid = tid, .dir = take_fd(&dir)};
	return 0;
}

void process_close(struct process *process)
{
	if (process->dir >= 0)
		close(process->dir);
	*process = PROCESS_NONE;
}

static bool time_equal(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool file_state_equal(const struct file_state *a, const struct file_state *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       time_equal(&a->mtime, &b->mtime) && time_equal(&a->ctime, &b->ctime);
}

static void fill_state(const struct stat *st, struct file_state *ret)
{
	*ret = (struct file_state){.dev = st->st_dev,
				   .ino = st->st_ino,
				   .size = st->st_size,
				   .mtime = st->st_mtim,
				   .ctime = st->st_ctim};
}

int file_state_of(int fd, struct file_state *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	fill_state(&st, ret);
	return 0;
}

static int openat2_path(int dir, const char *path, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = resolve | RESOLVE_NO_MAGICLINKS};
	int fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static bool is_mapped(const struct stat *st, const struct mapping *mapping)
{
	return st->st_dev == mapping->dev && st->st_ino == mapping->inode;
}

/* An fd for path if it leads to what is mapped, else -1. */
static int try_path(int dir, const char *path, uint64_t resolve, const struct mapping *mapping)
{
	_cleanup_fd_ int fd = openat2_path(dir, path, resolve);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && is_mapped(&st, mapping) ? take_fd(&fd) : -1;
}

/* \012 to newline, which is the one thing that the kernel writes so. */
static void unescape_newlines(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

/*
 * A path in maps is as the reader's root sees it, which is why our own is tried first. For a
 * process in another mount namespace the kernel gives it from that namespace's root, so the
 * process's root comes next, and then without the root's own path, of which a process that has
 * changed root within another namespace has a prefix.
 */
static int try_roots(int proc_dir_fd, const char *path, const struct mapping *mapping)
{
	char prefix[PATH_MAX];
	_cleanup_fd_ int own = try_path(AT_FDCWD, path, 0, mapping);

	if (own >= 0)
		return take_fd(&own);
	_cleanup_fd_ int root = openat(proc_dir_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -1;
	int fd = try_path(root, path, RESOLVE_IN_ROOT, mapping);

	if (fd >= 0)
		return fd;
	ssize_t n = readlinkat(proc_dir_fd, "root", prefix, sizeof(prefix) - 1);

	if (n <= 1 || strncmp(path, prefix, n) != 0 || path[n] != '/')
		return -1;
	return try_path(root, path + n, RESOLVE_IN_ROOT, mapping);
}

static int open_by_path(int proc_dir_fd, const struct mapping *mapping)
{
	if (mapping->path_len >= PATH_MAX || !mapping->path_len || mapping->path[0] != '/')
		return -ENOENT;
	_cleanup_free_ char *path = strndup(mapping->path, mapping->path_len);

	if (!path)
		return -ENOMEM;
	int fd = try_roots(proc_dir_fd, path, mapping);

	if (fd < 0 && strstr(path, "\\012")) {
		unescape_newlines(path);
		fd = try_roots(proc_dir_fd, path, mapping);
	}
	return fd < 0 ? -ESTALE : fd;
}

/*
 * Does the entry in map_files still lead to what maps has? Its link and the line in maps are made
 * from the same path; only the escaping of newlines differs. For file systems whose device or inode
 * numbers in maps are not those of stat(): overlayfs, btrfs.
 */
static bool link_matches(int proc_dir_fd, const char *entry, const struct mapping *mapping)
{
	_cleanup_text_ struct text text = {};
	_cleanup_free_ char *link = malloc(PATH_MAX);

	if (!link)
		return false;
	ssize_t n = readlinkat(proc_dir_fd, entry, link, PATH_MAX);

	if (n < 0 || n == PATH_MAX)
		return false;
	for (ssize_t i = 0; i < n; i++)
		if (link[i] == '\n')
			text_puts(&text, "\\012");
		else
			text_putc(&text, link[i]);
	return !text.failed && text.len == mapping->path_len &&
	       memcmp(text.data, mapping->path, text.len) == 0;
}

/* Judges what stat() said of a mapped file. */
static int fill_mapped(const struct stat *st, dev_t own_dev, struct mapped_file *ret)
{
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if (own_dev && st->st_dev == own_dev)
		return -EXDEV;
	fill_state(st, &ret->state);
	ret->nlink = st->st_nlink;
	return 0;
}

int mapped_file_from_fd(int fd, dev_t own_dev, struct mapped_file *ret)
{
	_cleanup_fd_ int owned = fd;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	int r = fill_mapped(&st, own_dev, ret);

	if (r == 0)
		ret->fd = take_fd(&owned);
	return r;
}

#define ENTRY_SIZE (sizeof("map_files/") + MAP_FILES_NAME_SIZE)

static void make_entry(const struct mapping *mapping, char ret[static ENTRY_SIZE])
{
	strcpy(ret, "map_files/");
	mapping_name(mapping, ret + strlen(ret));
}

int mapped_file_stat(int proc_dir_fd, const struct mapping *mapping, dev_t own_dev,
		     struct mapped_file *ret)
{
	char entry[ENTRY_SIZE];
	struct stat st;

	/* Before anything is asked of it. */
	if (own_dev && mapping->dev == own_dev)
		return -EXDEV;
	make_entry(mapping, entry);
	if (fstatat(proc_dir_fd, entry, &st, 0) < 0)
		return -errno;
	if (!is_mapped(&st, mapping) && !link_matches(proc_dir_fd, entry, mapping))
		return -ESTALE;
	ret->fd = -1;
	return fill_mapped(&st, own_dev, ret);
}

int mapped_file_open(int proc_dir_fd, const struct mapping *mapping, dev_t own_dev,
		     struct mapped_file *ret)
{
	char entry[ENTRY_SIZE];
	struct stat st;

	if (own_dev && mapping->dev == own_dev)
		return -EXDEV;
	make_entry(mapping, entry);
	_cleanup_fd_ int fd = openat(proc_dir_fd, entry, O_PATH | O_CLOEXEC);

	if (fd < 0) {
		if (errno != EPERM && errno != EACCES && errno != ENOENT)
			return -errno;
		fd = open_by_path(proc_dir_fd, mapping);
		return fd < 0 ? fd : mapped_file_from_fd(take_fd(&fd), own_dev, ret);
	}
	if (fstat(fd, &st) < 0 ||
	    (!is_mapped(&st, mapping) && !link_matches(proc_dir_fd, entry, mapping)))
		return -ESTALE;
	int r = fill_mapped(&st, own_dev, ret);

	if (r == 0)
		ret->fd = take_fd(&fd);
	return r;
}

void mapped_file_close(struct mapped_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	*file = MAPPED_FILE_NONE;
}

int mapped_file_reopen(const struct mapped_file *file)
{
	char path[PROC_PATH_MAX];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : fd;
}

bool path_is_file(const char *path, size_t len, const struct file_state *state)
{
	_cleanup_free_ char *name = strndup(path, len);
	struct stat st;

	if (!name)
		return false;
	_cleanup_fd_ int fd = openat2_path(AT_FDCWD, name, 0);

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == state->dev && st.st_ino == state->ino;
}
