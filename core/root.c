/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process's root, held: see root.h.
 *
 * With the directory alone, the mounts of a private namespace are gone when its last process is; so
 * the namespace is held too. An open mountinfo goes on telling of that namespace from that root,
 * and poll() on it says whether it changed. The lock guards the table parsed from it, and is the
 * innermost one.
 */
#include "core/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "core/mounts.h"
#include "core/slurp.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

#define ROOT_STATX (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID)

/* 100,000 mounts, which is what a namespace may have, in some 400 bytes each. */
#define MOUNTINFO_MAX (64u << 20)

struct root {
	atomic_uint refs;
	const struct root_policy *policy;
	int fd;
	int ns_fd;
	int mountinfo_fd;
	struct root_identity top;
	uint64_t ns_ino;
	const struct keeper *keeper; /* NULL: it is not kept */
	uint64_t numbers[ROOT_FDS];

	pthread_mutex_t lock;
	struct mounts mounts;
	bool mounts_read;
	/* What the type of the root's own mount says; asked for once, it can block. */
	bool type_known;
	char closed_type[64];
};

static int stat_fd(int fd, unsigned int flags, struct statx *ret)
{
	return statx(fd, "", AT_EMPTY_PATH | flags, ROOT_STATX, ret) < 0 ? -errno : 0;
}

/* Takes the fds, also on failure. */
static int make_root(int root_fd, int mnt_fd, int info_fd, const struct root_policy *policy,
		     struct root **ret)
{
	_cleanup_fd_ int fd = root_fd;
	_cleanup_fd_ int ns_fd = mnt_fd;
	_cleanup_fd_ int mountinfo_fd = info_fd;
	struct stat ns;
	struct statx stx;

	if (fstat(ns_fd, &ns) < 0)
		return -errno;
	/* The root may be on a file system that does not answer. */
	int r = stat_fd(fd, AT_STATX_DONT_SYNC, &stx);

	if (r < 0)
		return r;
	if (!(stx.stx_mask & STATX_MNT_ID))
		return -EOPNOTSUPP;

	struct root *root = calloc(1, sizeof(*root));

	if (!root)
		return -ENOMEM;
	atomic_init(&root->refs, 1);
	root->policy = policy;
	root->fd = take_fd(&fd);
	root->ns_fd = take_fd(&ns_fd);
	root->mountinfo_fd = take_fd(&mountinfo_fd);
	root_identify(&stx, &root->top);
	root->ns_ino = ns.st_ino;
	pthread_mutex_init(&root->lock, NULL);
	*ret = root;
	return 0;
}

int root_open(int proc_fd, const struct root_policy *policy, struct root **ret)
{
	_cleanup_fd_ int fd = openat(proc_fd, "root", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	_cleanup_fd_ int ns_fd = openat(proc_fd, "ns/mnt", O_RDONLY | O_CLOEXEC);

	if (ns_fd < 0)
		return -errno;
	int mountinfo_fd = openat(proc_fd, "mountinfo", O_RDONLY | O_CLOEXEC);

	/* Of one who is about to be gone: that is how the kernel says that there is no namespace.
	 */
	if (mountinfo_fd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	return make_root(take_fd(&fd), take_fd(&ns_fd), mountinfo_fd, policy, ret);
}

void root_keep(struct root *root, const struct keeper *keeper, uint64_t ret[static ROOT_FDS])
{
	const int fds[ROOT_FDS] = {root->fd, root->ns_fd, root->mountinfo_fd};

	if (!root->keeper) {
		for (size_t i = 0; i < ROOT_FDS; i++)
			root->numbers[i] = keeper_keep(keeper, fds[i]);
		root->keeper = keeper;
	}
	memcpy(ret, root->numbers, sizeof(root->numbers));
}

uint64_t root_number(const struct root *root)
{
	return root->numbers[0];
}

int root_restore(const struct keeper *keeper, const uint64_t numbers[static ROOT_FDS],
		 const struct root_policy *policy, struct root **ret)
{
	_cleanup_fd_ int fd = keeper_take(keeper, numbers[0]);
	_cleanup_fd_ int ns_fd = keeper_take(keeper, numbers[1]);
	_cleanup_fd_ int mountinfo_fd = keeper_take(keeper, numbers[2]);
	int r = -ENOENT;

	if (fd >= 0 && ns_fd >= 0 && mountinfo_fd >= 0)
		r = make_root(take_fd(&fd), take_fd(&ns_fd), take_fd(&mountinfo_fd), policy, ret);
	if (r < 0) {
		for (size_t i = 0; i < ROOT_FDS; i++)
			keeper_drop(keeper, numbers[i]);
		return r;
	}
	(*ret)->keeper = keeper;
	memcpy((*ret)->numbers, numbers, sizeof((*ret)->numbers));
	return 0;
}

struct root *root_ref(struct root *root)
{
	atomic_fetch_add_explicit(&root->refs, 1, memory_order_relaxed);
	return root;
}

void root_unref(struct root *root)
{
	if (!root || atomic_fetch_sub_explicit(&root->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < ROOT_FDS; i++)
		keeper_drop(root->keeper, root->numbers[i]);
	close(root->fd);
	close(root->ns_fd);
	close(root->mountinfo_fd);
	mounts_deinit(&root->mounts);
	pthread_mutex_destroy(&root->lock);
	free(root);
}

bool root_is_of(const struct root *root, int proc_fd)
{
	_cleanup_fd_ int fd = openat(proc_fd, "root", O_PATH | O_CLOEXEC);
	struct statx stx;
	struct stat ns;

	/* A process that has no root any more had this one. */
	if (fd < 0 || fstatat(proc_fd, "ns/mnt", &ns, 0) < 0 ||
	    stat_fd(fd, AT_STATX_DONT_SYNC, &stx) < 0)
		return true;
	struct root_identity now;

	root_identify(&stx, &now);
	return root_same_file(&now, &root->top) && ns.st_ino == root->ns_ino;
}

uint64_t root_mount_ns(const struct root *root)
{
	return root->ns_ino;
}

static int read_mountinfo(struct root *root, struct text *text)
{
	if (lseek(root->mountinfo_fd, 0, SEEK_SET) < 0)
		return -errno;
	return slurp_fd(root->mountinfo_fd, MOUNTINFO_MAX, text);
}

int root_mountinfo(struct root *root, struct text *text)
{
	LOCKED(&root->lock);
	return read_mountinfo(root, text);
}

/* Under the lock: the table as it is, or with `again` even if nothing says that it changed. */
static int update_mounts(struct root *root, bool again)
{
	struct pollfd poll_fd = {.fd = root->mountinfo_fd, .events = POLLPRI};
	bool changed = poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLPRI | POLLERR);

	if (root->mounts_read && !changed && !again)
		return 0;
	_cleanup_text_ struct text text = {};
	struct mounts mounts;
	int r = read_mountinfo(root, &text);

	if (r < 0)
		return r;
	r = mounts_parse(text.data ? text.data : "", text.len, &mounts);
	if (r < 0)
		return r;
	mounts_deinit(&root->mounts);
	root->mounts = mounts;
	root->mounts_read = true;
	return 0;
}

/* What a walk would find mounted at an entry. */
struct crossing {
	bool mounted;
	bool open;
	enum mount_class class;
	uint64_t id;
};

static int find_crossing(struct root *root, const struct root_dir *dir, const char *name,
			 bool again, struct crossing *ret)
{
	*ret = (struct crossing){.open = true, .id = dir->mount};
	LOCKED(&root->lock);
	int r = update_mounts(root, again);

	if (r < 0 || !mounts_below(&root->mounts, dir->mount, dir->path, dir->path_len))
		return r;
	_cleanup_text_ struct text path = {};

	if (dir->path_len > 1)
		text_append(&path, dir->path, dir->path_len);
	text_putc(&path, '/');
	text_puts(&path, name);
	if (path.failed)
		return -ENOMEM;
	const struct mount *mount = mounts_at(&root->mounts, dir->mount, path.data, path.len);

	if (!mount)
		return 0;
	ret->mounted = true;
	ret->id = mount->id;
	ret->class = mount_class_of(mount->type);
	ret->open = mount_is_open(mount->type, root->policy->cross, root->policy->cross_count);
	return 0;
}

static bool class_may_hang(enum mount_class class)
{
	return class == MOUNT_USER || class == MOUNT_NETWORK;
}

uint64_t root_entry_may_hang(struct root *root, const struct root_dir *dir, const char *name)
{
	struct crossing crossing;

	if (!root->policy->cross_count || find_crossing(root, dir, name, false, &crossing) < 0)
		return 0;
	if (crossing.mounted)
		return crossing.open && class_may_hang(crossing.class) ? crossing.id : 0;
	LOCKED(&root->lock);
	const struct mount *mount = mounts_by_id(&root->mounts, dir->mount);

	return mount && class_may_hang(mount_class_of(mount->type)) ? mount->id : 0;
}

uint64_t root_links_may_hang(struct root *root)
{
	if (!root->policy->cross_count)
		return 0;
	LOCKED(&root->lock);
	for (size_t i = 0; i < root->mounts.count; i++) {
		const char *type = root->mounts.mounts[i].type;

		if (class_may_hang(mount_class_of(type)) &&
		    mount_is_open(type, root->policy->cross, root->policy->cross_count))
			/* No mount has such a number. */
			return UINT64_MAX - root->ns_ino;
	}
	return 0;
}

/* An entry that leads into what a walk does not enter: its type, and nothing of its own. */
static int stat_closed(const struct root_dir *dir, const char *name,
		       const struct crossing *crossing, struct root_entry *ret)
{
	struct statx stx = {.stx_mode = S_IFDIR, .stx_ino = crossing->id};

	/* To come to the root of a network mount is to ask its server. */
	if (crossing->class != MOUNT_NETWORK) {
		_cleanup_fd_ int fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		int r = stat_fd(fd, AT_STATX_DONT_SYNC, &stx);

		if (r < 0)
			return r;
		if (stx.stx_mnt_id != crossing->id)
			return -EAGAIN;
	}
	mode_t type = stx.stx_mode & S_IFMT;

	*ret = (struct root_entry){.closed = true};
	ret->stx.stx_mode = type | (type == S_IFDIR ? 0555 : 0444);
	ret->stx.stx_nlink = 1;
	ret->stx.stx_ino = stx.stx_ino;
	ret->stx.stx_dev_major = stx.stx_dev_major;
	ret->stx.stx_dev_minor = stx.stx_dev_minor;
	ret->stx.stx_mnt_id = crossing->id;
	ret->stx.stx_blksize = 4096;
	return 0;
}

/* Under the lock. */
static void set_type(struct root *root, const char *type)
{
	if (!mount_is_open(type, root->policy->cross, root->policy->cross_count))
		snprintf(root->closed_type, sizeof(root->closed_type), "%s", type);
	root->type_known = true;
}

/* Under the lock. */
static void set_type_from_mounts(struct root *root)
{
	if (update_mounts(root, false) < 0)
		return;
	const struct mount *mount = mounts_by_id(&root->mounts, root->top.mount);

	if (mount)
		set_type(root, mount->type);
}

const char *root_closed_type(struct root *root)
{
	pthread_mutex_lock(&root->lock);
	if (!root->type_known)
		set_type_from_mounts(root);
	bool known = root->type_known;
	pthread_mutex_unlock(&root->lock);

	/* After chroot() into a directory its own mount is in no table that we have. */
	if (!known) {
		struct statfs fs;
		int r = fstatfs(root->fd, &fs);
		const char *type = r == 0 ? mount_type_of_magic(fs.f_type) : NULL;

		LOCKED(&root->lock);
		set_type(root, type ? type : "storage");
	}
	return *root->closed_type ? root->closed_type : NULL;
}

static int stat_top(struct root *root, struct root_entry *ret)
{
	bool closed = root_closed_type(root) != NULL;
	int r = stat_fd(root->fd, closed ? AT_STATX_DONT_SYNC : 0, &ret->stx);

	ret->closed = closed;
	return r;
}

void root_top(const struct root *root, struct root_dir *ret)
{
	*ret = (struct root_dir){
		.fd = root->fd,
		.mount = root->top.mount,
		.path = "/",
		.path_len = 1,
	};
}

int root_stat(struct root *root, const struct root_dir *dir, const char *name,
	      struct root_entry *ret)
{
	*ret = (struct root_entry){};
	if (!name)
		return stat_top(root, ret);

	/* A mount can come or go between the look at the table and the step. */
	for (int attempt = 0; attempt < 4; attempt++) {
		struct crossing crossing;
		int r = find_crossing(root, dir, name, attempt > 0, &crossing);

		if (r < 0)
			return r;
		if (!crossing.open) {
			r = stat_closed(dir, name, &crossing, ret);
			if (r != -EAGAIN)
				return r;
			continue;
		}
		if (statx(dir->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, ROOT_STATX,
			  &ret->stx) < 0)
			return -errno;
		if (ret->stx.stx_mnt_id == crossing.id)
			return 0;
	}
	return -ESTALE;
}

void root_identify(const struct statx *stx, struct root_identity *ret)
{
	*ret = (struct root_identity){
		.ino = stx->stx_ino,
		.mount = stx->stx_mnt_id,
		.dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.type = stx->stx_mode & S_IFMT,
	};
	if (stx->stx_mask & STATX_BTIME)
		ret->birth = (struct timespec){stx->stx_btime.tv_sec, stx->stx_btime.tv_nsec};
}

bool root_same_file(const struct root_identity *a, const struct root_identity *b)
{
	return a->ino == b->ino && a->mount == b->mount && a->dev == b->dev && a->type == b->type &&
	       a->birth.tv_sec == b->birth.tv_sec && a->birth.tv_nsec == b->birth.tv_nsec;
}

int root_check_fd(int fd, const struct root_identity *seen)
{
	struct root_identity now;
	struct statx stx;
	int r = stat_fd(fd, 0, &stx);

	if (r < 0)
		return r;
	root_identify(&stx, &now);
	return root_same_file(&now, seen) ? 0 : -ESTALE;
}

int root_open_entry(const struct root_dir *dir, const char *name, const struct root_identity *seen,
		    int *ret_fd)
{
	_cleanup_fd_ int fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = root_check_fd(fd, seen);

	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Where to cut a path that the kernel would not take whole: at a slash. */
static size_t segment_length(const char *path, size_t len)
{
	if (len < PATH_MAX)
		return len;
	for (size_t i = PATH_MAX - 1; i > 0; i--)
		if (path[i] == '/')
			return i;
	return 0;
}

int root_open_path(const struct root *root, const char *path, size_t path_len, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};
	_cleanup_fd_ int fd = openat(root->fd, ".", O_PATH | O_CLOEXEC);
	const char *end = path + path_len;
	char segment[PATH_MAX];

	if (fd < 0)
		return -errno;
	for (;;) {
		while (path < end && *path == '/')
			path++;
		if (path == end)
			break;
		size_t len = segment_length(path, end - path);

		if (!len)
			return -ENAMETOOLONG;
		memcpy(segment, path, len);
		segment[len] = '\0';

		int next = syscall(SYS_openat2, fd, segment, &how, sizeof(how));

		if (next < 0)
			return -errno;
		close(fd);
		fd = next;
		path += len;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int root_reopen(int fd, mode_t mode, int *ret_fd)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(fd)];
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

	if (!S_ISREG(mode) && !S_ISDIR(mode))
		return -ENXIO;
	if (S_ISDIR(mode)) {
		flags |= O_DIRECTORY;
		strcpy(path, ".");
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	/* Looking changes nothing; where the owner is nobody of ours, that cannot be asked for. */
	int opened = openat(fd, path, flags | O_NOATIME);

	if (opened < 0 && errno == EPERM)
		opened = openat(fd, path, flags);
	if (opened < 0)
		return -errno;
	*ret_fd = opened;
	return 0;
}
