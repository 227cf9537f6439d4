/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pid namespaces, and numbers in them: see pidns.h. */
#include "core/pidns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "core/pidstat.h"
#include "core/procfile.h"
#include "core/slurp.h"

/* include/uapi/linux/magic.h, 6.9. */
#ifndef PID_FS_MAGIC
#define PID_FS_MAGIC 0x50494446
#endif

/* As deep as the kernel nests them. */
#define MAX_DEPTH     33
#define STATUS_MAX    (1u << 20)
#define PROC_PATH_MAX 64

struct pidns {
	int own_proc_fd;
	int ns_fd, proc_fd; /* -1: it is our own */
	dev_t dev;	    /* of the namespace's own file, with ino its identity */
	ino_t ino;
};

/* A procfs of the pid namespace that we are in, mounted nowhere. */
static int make_procfs(void)
{
	_cleanup_fd_ int context = fsopen("proc", FSOPEN_CLOEXEC);

	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int fd = fsmount(context, FSMOUNT_CLOEXEC,
			 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);

	return fd < 0 ? -errno : fd;
}

/* As fork(2), but what the child opens is ours as well. */
static pid_t fork_with_files(void)
{
	return syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static void tell(int pipe_fd, int result)
{
	if (write(pipe_fd, &result, sizeof(result)) < 0)
		_exit(1);
}

/* Only a child of who has entered a pid namespace is in it. */
static void make_procfs_in(int ns_fd, int pipe_fd)
{
	pid_t pid = setns(ns_fd, CLONE_NEWPID) < 0 ? -1 : fork_with_files();

	if (pid == 0)
		tell(pipe_fd, make_procfs());
	else if (pid < 0)
		tell(pipe_fd, -errno);
	else
		waitpid(pid, NULL, 0);
	_exit(0);
}

static int open_procfs(int ns_fd)
{
	int fds[2], result = -EIO;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork_with_files();
	if (pid == 0)
		make_procfs_in(ns_fd, fds[1]);
	if (pid < 0)
		result = -errno;
	else
		waitpid(pid, NULL, 0);
	close(fds[1]);
	if (pid > 0 && read(fds[0], &result, sizeof(result)) != sizeof(result))
		result = -EIO;
	close(fds[0]);
	return result;
}

static int create(struct pidns **ret)
{
	_cleanup_pidns_ struct pidns *ns = calloc(1, sizeof(*ns));

	if (!ns)
		return -ENOMEM;
	ns->ns_fd = ns->proc_fd = -1;
	ns->own_proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ns->own_proc_fd < 0)
		return -errno;
	*ret = take_ptr(ns);
	return 0;
}

static bool is_own(const struct pidns *ns)
{
	struct stat st;

	return fstatat(ns->own_proc_fd, "self/ns/pid", &st, 0) == 0 && st.st_dev == ns->dev &&
	       st.st_ino == ns->ino;
}

static int identify(struct pidns *ns)
{
	struct stat st;

	if (fstat(ns->ns_fd, &st) < 0)
		return -errno;
	ns->dev = st.st_dev;
	ns->ino = st.st_ino;
	return 0;
}

static int open_other(pid_t pid, struct pidns *ns)
{
	char path[PROC_PATH_MAX];

	snprintf(path, sizeof(path), "%d/ns/pid", pid);
	ns->ns_fd = openat(ns->own_proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (ns->ns_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	int r = identify(ns);
	if (r < 0)
		return r;
	if (is_own(ns)) {
		close(take_fd(&ns->ns_fd));
		return 0;
	}
	ns->proc_fd = open_procfs(ns->ns_fd);
	return ns->proc_fd < 0 ? ns->proc_fd : 0;
}

int pidns_open(pid_t pid, struct pidns **ret)
{
	_cleanup_pidns_ struct pidns *ns = NULL;
	int r = create(&ns);

	if (r == 0 && pid)
		r = open_other(pid, ns);
	if (r < 0)
		return r;
	*ret = take_ptr(ns);
	return 0;
}

int pidns_reopen(int ns_fd, int proc_fd, struct pidns **ret)
{
	_cleanup_pidns_ struct pidns *ns = NULL;
	int r = create(&ns);

	if (r < 0) {
		close(ns_fd);
		close(proc_fd);
		return r;
	}
	ns->ns_fd = ns_fd;
	ns->proc_fd = proc_fd;
	r = identify(ns);
	if (r < 0)
		return r;
	*ret = take_ptr(ns);
	return 0;
}

void pidns_close(struct pidns *ns)
{
	if (!ns)
		return;
	fd_cleanup(&ns->own_proc_fd);
	fd_cleanup(&ns->ns_fd);
	fd_cleanup(&ns->proc_fd);
	free(ns);
}

int pidns_fd(const struct pidns *ns)
{
	return ns->ns_fd;
}

int pidns_proc_fd(const struct pidns *ns)
{
	return ns->ns_fd < 0 ? ns->own_proc_fd : ns->proc_fd;
}

int pidns_own_proc_fd(const struct pidns *ns)
{
	return ns->own_proc_fd;
}

/* How many levels below the namespace is the one that a process is in? -ESRCH: not below it. */
static int depth_below(const struct pidns *ns, pid_t own_pid)
{
	char path[PROC_PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%d/ns/pid", own_pid);
	_cleanup_fd_ int fd = openat(ns->own_proc_fd, path, O_RDONLY | O_CLOEXEC);

	for (int depth = 0; fd >= 0 && depth < MAX_DEPTH; depth++) {
		if (fstat(fd, &st) < 0)
			return -errno;
		if (st.st_dev == ns->dev && st.st_ino == ns->ino)
			return depth;
		/* Past our own, it refuses. */
		int parent = ioctl(fd, NS_GET_PARENT);
		if (parent < 0)
			return -ESRCH;
		close(fd);
		fd = parent;
	}
	return -ESRCH;
}

/* The number of a process in its own namespace is the last one, that in ours the first. */
static int read_numbers(const struct pidns *ns, pid_t own_pid, pid_t ret[MAX_DEPTH], int *ret_count)
{
	_cleanup_text_ struct text text = {};
	char path[PROC_PATH_MAX], *end;

	snprintf(path, sizeof(path), "%d/status", own_pid);
	int r = slurp_at(ns->own_proc_fd, path, STATUS_MAX, &text);
	text_putc(&text, '\0');
	if (r < 0 || text.failed)
		return r == -ENOENT ? -ESRCH : r < 0 ? r : -ENOMEM;
	const char *line = strstr(text.data, "\nNSpid:");
	if (!line)
		return -ESRCH;
	*ret_count = 0;
	for (const char *at = line + strlen("\nNSpid:"); *ret_count < MAX_DEPTH; at = end) {
		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			break;
		ret[(*ret_count)++] = strtol(at, &end, 10);
	}
	return 0;
}

int pidns_number(const struct pidns *ns, pid_t own_pid, pid_t *ret)
{
	pid_t numbers[MAX_DEPTH];
	int count;

	if (ns->ns_fd < 0) {
		*ret = own_pid;
		return 0;
	}
	int depth = depth_below(ns, own_pid);
	int r = depth < 0 ? depth : read_numbers(ns, own_pid, numbers, &count);
	if (r < 0)
		return r;
	if (depth >= count)
		return -ESRCH;
	*ret = numbers[count - 1 - depth];
	return 0;
}

int pidns_own_pid(const struct pidns *ns, pid_t number, pid_t *ret)
{
	pid_t found;

	if (ns->ns_fd < 0) {
		*ret = number;
		return 0;
	}
	_cleanup_fd_ int fd = openat(ns->own_proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return -errno;
	take_fd(&fd);
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t own_pid = atoi(entry->d_name);

		if (own_pid > 0 && pidns_number(ns, own_pid, &found) == 0 && found == number) {
			*ret = own_pid;
			return 0;
		}
	}
	return -ESRCH;
}

static bool pidfs_has_numbers;

static void find_pidfs(void)
{
	struct statfs st;
	_cleanup_fd_ int pidfd = syscall(SYS_pidfd_open, getpid(), 0);

	pidfs_has_numbers = pidfd >= 0 && fstatfs(pidfd, &st) == 0 && st.f_type == PID_FS_MAGIC;
}

static int identify_by_pidfd(pid_t pid, uint64_t *ret)
{
	struct stat st;
	_cleanup_fd_ int pidfd = syscall(SYS_pidfd_open, pid, 0);

	/* A thread is EINVAL, and ENOENT since 6.16. */
	if (pidfd < 0)
		return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
	if (fstat(pidfd, &st) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

static int identify_by_proc(int proc_fd, pid_t pid, uint64_t *ret)
{
	char name[PROC_PATH_MAX];
	struct pid_stat stat;
	pid_t tgid;

	snprintf(name, sizeof(name), "%d", pid);
	_cleanup_fd_ int dir = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	int r = process_of_task(dir, &tgid);

	if (r == 0)
		r = tgid == pid ? pid_stat_read(dir, &stat) : -ESRCH;
	if (r < 0)
		return r;
	*ret = stat.start_ticks + 1;
	return 0;
}

int pidns_identify(const struct pidns *ns, pid_t number, uint64_t *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_pidfs);
	if (ns->ns_fd < 0 && pidfs_has_numbers)
		return identify_by_pidfd(number, ret);
	return identify_by_proc(pidns_proc_fd(ns), number, ret);
}
