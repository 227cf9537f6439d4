/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mount point: see mount.h.
 *
 * Who mounts holds a lock on the directory below, so that of two daemons that start at once one
 * sees the other's mount. The pid of a daemon is asked of the daemon, through its mount: it cannot
 * be out of date.
 */
#include "fs/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "core/mountinfo.h"
#include "core/mountns.h"
#include "fs/session.h"

/* Dead mounts that can lie on each other before we give up. */
#define MAX_STALE 16
/* The kernel's own 128 KiB make eight times the requests. */
#define READ_AHEAD_KB 1024

static bool can_mount(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN);
}

int mount_resolve(const char *path, char **ret)
{
	*ret = realpath(path, NULL);
	if (*ret)
		return 0;
	if (errno != ENOTCONN)
		return -errno;

	_cleanup_free_ char *copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	size_t len = strlen(copy);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (slash)
		*slash = '\0';
	const char *directory = !slash ? "." : slash == copy ? "/" : copy;
	_cleanup_free_ char *parent = realpath(directory, NULL);
	if (!parent)
		return -errno;
	const char *base = strcmp(parent, "/") == 0 ? "" : parent;
	return asprintf(ret, "%s/%s", base, name) < 0 ? -ENOMEM : 0;
}

static int fail(struct text *error, int r, const char *path, const char *why,
		const char *what_to_do)
{
	text_printf(error, "cannot mount on %s: %s; %s", path, why, what_to_do);
	return r;
}

/* Is what one sees at path one of ours, alive or dead? */
static bool is_ours(const char *path)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};

	if (mountinfo_read(&list) < 0)
		return false;
	const struct mountinfo *mountinfo = mountinfo_at(&list, path);
	return mountinfo && strcmp(mountinfo->type, MOUNT_TYPE) == 0;
}

static int remove_stale(const char *path, struct text *error)
{
	if (!is_ours(path))
		return fail(error, -ENOTCONN, path, "a file system whose server is gone is there",
			    "unmount it first");
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		return fail(error, -errno, path, "a ksymfs that died is there, and it stays",
			    strerror(errno));
	return 0;
}

/* The pid that the daemon of a live mount says it has. 0: it does not say. */
static int daemon_pid(const char *path)
{
	char *file_path;
	int pid = 0;

	if (asprintf(&file_path, "%s/status", path) < 0)
		return 0;
	_cleanup_file_ FILE *file = fopen(file_path, "re");
	free(file_path);
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && !pid && getline(&line, &size, file) >= 0) {
		if (sscanf(line, "pid: %d", &pid) != 1)
			pid = 0;
	}
	return pid;
}

static int refuse_live(const char *path, struct text *error)
{
	char what[128] = "ask its `status` file for the pid";
	int pid = daemon_pid(path);

	if (pid)
		snprintf(what, sizeof(what), "its pid is %d; `ksymfs umount` ends it", pid);
	return fail(error, -EBUSY, path, "a ksymfs is mounted there already", what);
}

static bool is_empty(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	}
	return true;
}

/* What is wrong with a mount point that cannot be opened. */
static int fail_open(const char *path, int r, struct text *error)
{
	switch (r) {
	case -ENOENT:
		return fail(error, r, path, "it does not exist", "make the directory first");
	case -ENOTDIR:
		return fail(error, r, path, "it is not a directory", "choose another one");
	default:
		return fail(error, r, path, strerror(-r), "choose another directory");
	}
}

static int open_directory(const char *mountpoint, struct mount *mount, struct text *error)
{
	for (int i = 0; i < MAX_STALE; i++) {
		int r = mount_resolve(mountpoint, &mount->path);

		if (r == -ENOENT && strcmp(mountpoint, DEFAULT_MOUNTPOINT) == 0 &&
		    mkdir(mountpoint, 0755) == 0)
			continue;
		if (r < 0)
			return fail_open(mountpoint, r, error);
		mount->directory = open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (mount->directory >= 0)
			return 0;
		r = -errno;
		if (r != -ENOTCONN)
			return fail_open(mount->path, r, error);
		r = remove_stale(mount->path, error);
		if (r < 0)
			return r;
		free(take_ptr(mount->path));
	}
	return fail(error, -ENOTCONN, mountpoint, "too many dead mounts lie on each other there",
		    "unmount them first");
}

static int check_directory(const struct mount *mount, bool nonempty, struct text *error)
{
	struct stat below, now;

	if (flock(mount->directory, LOCK_EX | LOCK_NB) < 0)
		return fail(error, -EBUSY, mount->path, "another ksymfs is being mounted there",
			    "wait for it");
	if (is_ours(mount->path))
		return refuse_live(mount->path, error);
	if (fstat(mount->directory, &below) < 0 || stat(mount->path, &now) < 0)
		return fail(error, -errno, mount->path, strerror(errno), "try again");
	if (below.st_dev != now.st_dev || below.st_ino != now.st_ino)
		return fail(error, -EBUSY, mount->path, "it has just changed", "try again");
	if (!nonempty && !is_empty(mount->directory))
		return fail(error, -ENOTEMPTY, mount->path, "it is not empty",
			    "choose another directory, or hide what it has with -o nonempty");
	return 0;
}

static int open_device(struct mount *mount, struct text *error)
{
	mount->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (mount->fd >= 0)
		return 0;
	int r = -errno;
	if (r == -ENOENT || r == -ENODEV || r == -ENXIO)
		text_puts(error, "cannot open /dev/fuse: the kernel has no FUSE, or this container "
				 "no such device; try modprobe fuse");
	else
		text_printf(error, "cannot open /dev/fuse: %s; run as root", strerror(-r));
	return r;
}

/* Does /proc show this process by its own pid? Callers and processes are told apart by it. */
static bool has_own_proc(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

int mount_prepare(const struct options *options, struct mount *ret, struct text *error)
{
	_cleanup_mount_ struct mount mount = {.directory = -1, .fd = -1};
	int r;

	if (!can_mount())
		return fail(error, -EPERM, options->mountpoint, "that takes CAP_SYS_ADMIN",
			    "run as root");
	if (!has_own_proc())
		return fail(error, -EINVAL, "/proc", "it is none of this pid namespace",
			    "mount one: mount -t proc proc /proc");
	r = open_directory(options->mountpoint, &mount, error);
	if (r < 0)
		return r;
	r = check_directory(&mount, options->nonempty, error);
	if (r < 0)
		return r;
	r = open_device(&mount, error);
	if (r < 0)
		return r;
	*ret = mount;
	mount = (struct mount){.directory = -1, .fd = -1};
	return 0;
}

int mount_attach(struct mount *target, const struct options *options, struct text *error)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME;
	char data[256];

	if (options->read_only)
		flags |= MS_RDONLY;
	/*
	 * allow_other lets in who is not root in the first user namespace: a group, an owner, a
	 * container's root. What they may see is up to the modes, which the kernel heeds only with
	 * default_permissions.
	 */
	snprintf(data, sizeof(data),
		 "fd=%d,rootmode=%o,user_id=%u,group_id=%u,default_permissions,allow_other,"
		 "max_read=%u",
		 target->fd, S_IFDIR, geteuid(), getegid(), SESSION_MAX_READ);
	if (mount("ksymfs", target->path, MOUNT_TYPE, flags, data) < 0)
		return fail(error, -errno, target->path, strerror(errno),
			    errno == ENODEV ? "the kernel has no FUSE; try modprobe fuse"
					    : "see dmesg");
	close(take_fd(&target->directory));
	int r = mountinfo_read(&list);
	const struct mountinfo *mountinfo = r < 0 ? NULL : mountinfo_at(&list, target->path);
	if (!mountinfo) {
		umount2(target->path, MNT_DETACH);
		return fail(error, r < 0 ? r : -ENOENT, target->path,
			    "/proc/self/mountinfo does not show the mount", "mount /proc");
	}
	__atomic_store_n(&target->dev, mountinfo->dev, __ATOMIC_RELAXED);
	return 0;
}

void mount_set_readahead(const struct mount *mount)
{
	char path[64];

	/* Where /sys is not to be had, files are read in smaller pieces. */
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(mount->dev),
		 minor(mount->dev));
	_cleanup_file_ FILE *file = fopen(path, "we");
	if (file)
		fprintf(file, "%d\n", READ_AHEAD_KB);
}

bool mount_is_dead(const struct mount *mount)
{
	struct pollfd device = {.fd = mount->fd};

	return poll(&device, 1, 0) > 0 && device.revents & POLLERR;
}

static bool is_dead_at(const char *path)
{
	struct statfs unused;

	return statfs(path, &unused) < 0 && errno == ENOTCONN;
}

void mount_detach(struct mount *mount)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	bool is_dead = mount_is_dead(mount), is_there = !is_dead;

	if (!mount->dev || mount->detached || mountinfo_read(&list) < 0)
		return;
	for (size_t i = list.count; i-- > 0;) {
		const struct mountinfo *mountinfo = &list.mounts[i];

		/* Not what somebody has mounted over it. */
		if (mountinfo->dev != mount->dev ||
		    mountinfo_at(&list, mountinfo->mountpoint)->dev != mount->dev)
			continue;
		/* Once a file system is gone its number is the next one's. */
		if (is_dead && (strcmp(mountinfo->type, MOUNT_TYPE) != 0 ||
				!is_dead_at(mountinfo->mountpoint)))
			continue;
		is_there = true;
		umount2(mountinfo->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW);
	}
	if (is_there)
		mountns_unmount(mount->dev);
	mount->detached = true;
}

void mount_deinit(struct mount *mount)
{
	free(take_ptr(mount->path));
	if (mount->directory >= 0)
		close(take_fd(&mount->directory));
	if (mount->fd >= 0)
		close(take_fd(&mount->fd));
}

/* Once our own namespace is rid of it, containers go without as well, and the daemon ends. */
static void unmount_copies(dev_t dev)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};

	if (mountinfo_read(&list) < 0)
		return;
	for (size_t i = 0; i < list.count; i++)
		if (list.mounts[i].dev == dev)
			return;
	mountns_unmount(dev);
}

int mount_umount(const char *mountpoint, bool lazy, struct text *error)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	_cleanup_free_ char *path = NULL;
	int r = mount_resolve(mountpoint, &path);

	if (r == 0)
		r = mountinfo_read(&list);
	if (r < 0) {
		text_printf(error, "cannot unmount %s: %s", mountpoint, strerror(-r));
		return r;
	}
	const struct mountinfo *mountinfo = mountinfo_at(&list, path);
	if (!mountinfo || strcmp(mountinfo->type, MOUNT_TYPE) != 0) {
		text_printf(error, "cannot unmount %s: no ksymfs is mounted there", path);
		return -EINVAL;
	}
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) {
		unmount_copies(mountinfo->dev);
		return 0;
	}
	r = -errno;
	if (r == -EBUSY)
		text_printf(error,
			    "cannot unmount %s: files in it are open, or somebody's working "
			    "directory is in it; end them, or detach it at once with umount -l %s",
			    path, path);
	else
		text_printf(error, "cannot unmount %s: %s", path, strerror(-r));
	return r;
}

bool mount_check(struct text *text)
{
	_cleanup_fd_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		text_printf(text, "mount: no: cannot open /dev/fuse: %s\n", strerror(errno));
		return false;
	}
	if (!can_mount()) {
		text_puts(text, "mount: no: that takes CAP_SYS_ADMIN; run as root\n");
		return false;
	}
	if (!has_own_proc()) {
		text_puts(text,
			  "mount: no: /proc is none of this pid namespace; mount one: mount -t "
			  "proc proc /proc\n");
		return false;
	}
	text_puts(text, "mount: ok\n");
	return true;
}
