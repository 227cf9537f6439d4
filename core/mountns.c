/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The mounts of one file system in other mount namespaces: see mountns.h. */
#include "core/mountns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <xxhash.h>

#include "core/mountinfo.h"

#define PROC_PATH_MAX 64

/* linux/nsfs.h of 6.12: an fd of the next namespace, or of the one before, of those we may enter.
 */
struct mnt_ns_info_v0 {
	uint32_t size;
	uint32_t nr_mounts;
	uint64_t mnt_ns_id;
};
#define NS_MNT_NEXT _IOR(0xb7, 11, struct mnt_ns_info_v0)
#define NS_MNT_PREV _IOR(0xb7, 12, struct mnt_ns_info_v0)

/* What has been looked at: a hash of namespace and root each, of which there are few. */
struct seen {
	uint64_t *hashes;
	size_t count;
};

static void seen_deinit(struct seen *seen)
{
	free(seen->hashes);
}
#define _cleanup_seen_ CLEANUP(seen_deinit)

/* 1: it is new. */
static int seen_add(struct seen *seen, uint64_t hash)
{
	for (size_t i = 0; i < seen->count; i++)
		if (seen->hashes[i] == hash)
			return 0;
	uint64_t *hashes = reallocarray(seen->hashes, seen->count + 1, sizeof(*hashes));

	if (!hashes)
		return -ENOMEM;
	seen->hashes = hashes;
	hashes[seen->count++] = hash;
	return 1;
}

/* The target of a link below PID, cut to its first bytes. -errno. */
static ssize_t read_link(int proc_fd, const char *pid, const char *name, char *buf, size_t size)
{
	char path[PROC_PATH_MAX];

	snprintf(path, sizeof(path), "%.20s/%s", pid, name);
	ssize_t n = readlinkat(proc_fd, path, buf, size);

	return n < 0 ? -errno : n;
}

/* Calls take for one process of each other namespace, and of each root in it. */
static int each_namespace(int proc_fd, int (*take)(void *arg, int proc_fd, pid_t pid), void *arg)
{
	char own[64], text[64 + PATH_MAX];
	ssize_t own_len = read_link(proc_fd, "self", "ns/mnt", own, sizeof(own));
	_cleanup_fd_ int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	_cleanup_seen_ struct seen seen = {};
	int r = 0;

	if (!dir || own_len < 0)
		return !dir ? -errno : own_len;
	take_fd(&fd);
	for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
		pid_t pid = atoi(entry->d_name);
		ssize_t ns = pid > 0 ? read_link(proc_fd, entry->d_name, "ns/mnt", text, 64) : 0;

		if (ns <= 0 || (ns == own_len && memcmp(text, own, ns) == 0))
			continue;
		ssize_t root =
			read_link(proc_fd, entry->d_name, "root", text + ns, sizeof(text) - ns);
		if (root < 0)
			continue;
		r = seen_add(&seen, XXH3_64bits(text, ns + root));
		if (r > 0)
			r = take(arg, proc_fd, pid);
	}
	return r;
}

struct finder {
	dev_t dev;
	pid_t pid;
	struct mountns_places *places;
};

static int find_mount(void *arg, const struct mountinfo *mountinfo)
{
	struct finder *finder = arg;
	struct mountns_places *places = finder->places;

	if (mountinfo->dev != finder->dev || !mountinfo_has_option(mountinfo, MOUNTNS_MARK))
		return 0;
	struct mountns_place *more = reallocarray(places->places, places->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	places->places = more;
	more[places->count] = (struct mountns_place){
		.pid = finder->pid,
		.mountpoint = strdup(mountinfo->mountpoint),
	};
	return more[places->count++].mountpoint ? 0 : -ENOMEM;
}

static int find_in_namespace(void *arg, int proc_fd, pid_t pid)
{
	struct finder *finder = arg;
	char path[PROC_PATH_MAX];

	snprintf(path, sizeof(path), "%d/mountinfo", pid);
	finder->pid = pid;
	int r = mountinfo_each_at(proc_fd, path, find_mount, finder);

	/* One that has ended, or is ending, has no mounts. */
	return r == -ENOMEM ? r : 0;
}

int mountns_find_marked(dev_t dev, struct mountns_places *ret)
{
	_cleanup_mountns_places_ struct mountns_places places = {};
	struct finder finder = {.dev = dev, .places = &places};
	_cleanup_fd_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc_fd < 0)
		return -errno;
	int r = each_namespace(proc_fd, find_in_namespace, &finder);

	if (r < 0)
		return r;
	*ret = places;
	places = (struct mountns_places){};
	return 0;
}

void mountns_places_deinit(struct mountns_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		free(places->places[i].mountpoint);
	free(places->places);
	*places = (struct mountns_places){};
}

int mountns_unmount_fd(int proc_fd, int fd)
{
	_cleanup_fd_ int fds = openat(proc_fd, "thread-self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[16];

	if (fds < 0 || fchdir(fds) < 0)
		return -errno;
	snprintf(name, sizeof(name), "%d", fd);
	return umount2(name, MNT_DETACH) < 0 ? -errno : 0;
}

/* Unmounts what is at a path if it is of this file system: something else may lie over it. */
static int unmount_path(int proc_fd, dev_t dev, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	_cleanup_fd_ int fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct statx stx;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) < 0)
		return -errno;
	if (makedev(stx.stx_dev_major, stx.stx_dev_minor) != dev)
		return -ENOENT;
	return mountns_unmount_fd(proc_fd, fd);
}

struct paths {
	dev_t dev;
	char **paths;
	size_t count;
};

static void paths_deinit(struct paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->paths[i]);
	free(paths->paths);
}
#define _cleanup_paths_ CLEANUP(paths_deinit)

static int take_path(void *arg, const struct mountinfo *mountinfo)
{
	struct paths *paths = arg;

	if (mountinfo->dev != paths->dev)
		return 0;
	char **more = reallocarray(paths->paths, paths->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	paths->paths = more;
	more[paths->count] = strdup(mountinfo->mountpoint);
	return more[paths->count++] ? 0 : -ENOMEM;
}

/* In a namespace, unmounts all there is, from its own root: later mounts lie over earlier ones. */
static void unmount_all(int proc_fd, int ns_fd, dev_t dev)
{
	_cleanup_paths_ struct paths all = {.dev = dev};

	if (setns(ns_fd, CLONE_NEWNS) < 0)
		return;
	mountinfo_each_at(proc_fd, "thread-self/mountinfo", take_path, &all);
	for (size_t i = all.count; i-- > 0;)
		unmount_path(proc_fd, dev, all.paths[i]);
}

static int unmount_in_namespace(void *arg, int proc_fd, pid_t pid)
{
	const dev_t *dev = arg;
	_cleanup_paths_ struct paths paths = {.dev = *dev};
	char path[PROC_PATH_MAX];

	/* First from outside: most have nothing of ours. */
	snprintf(path, sizeof(path), "%d/mountinfo", pid);
	if (mountinfo_each_at(proc_fd, path, take_path, &paths) < 0 || !paths.count)
		return 0;
	snprintf(path, sizeof(path), "%d/ns/mnt", pid);
	_cleanup_fd_ int ns_fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	/* Now from the namespace's own root, which may be above the process's. */
	if (ns_fd >= 0)
		unmount_all(proc_fd, ns_fd, *dev);
	return 0;
}

/*
 * In each namespace that the kernel names before or after our own. -errno where it does not: before
 * 6.12.
 */
static int unmount_beside(int proc_fd, int own_fd, unsigned long direction, dev_t dev)
{
	struct mnt_ns_info_v0 info = {.size = sizeof(info)};
	_cleanup_fd_ int fd = fcntl(own_fd, F_DUPFD_CLOEXEC, 0);
	int next;

	while ((next = ioctl(fd, direction, &info)) >= 0) {
		close(fd);
		fd = next;
		unmount_all(proc_fd, fd, dev);
	}
	return errno == ENOENT ? 0 : -errno;
}

/* Those too that no process is in any more, which somebody's fd or bind mount keeps. */
static int unmount_by_kernel(int proc_fd, dev_t dev)
{
	_cleanup_fd_ int own_fd = openat(proc_fd, "thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (own_fd < 0)
		return -errno;
	int r = unmount_beside(proc_fd, own_fd, NS_MNT_NEXT, dev);

	return r < 0 ? r : unmount_beside(proc_fd, own_fd, NS_MNT_PREV, dev);
}

static void *unmount_thread(void *arg)
{
	_cleanup_fd_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	/* setns(2) refuses who shares root and working directory with others. */
	if (proc_fd >= 0 && unshare(CLONE_FS) == 0 &&
	    unmount_by_kernel(proc_fd, *(const dev_t *)arg) < 0)
		each_namespace(proc_fd, unmount_in_namespace, arg);
	return NULL;
}

void mountns_unmount(dev_t dev)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, unmount_thread, &dev) == 0)
		pthread_join(thread, NULL);
}
