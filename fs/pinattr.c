/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attributes of what is behind pins: see pinroot.h. No lock is held here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "fs/pinroot_internal.h"

/* Such a file is read by cat and cp, who ask, in such blocks: one answer each. */
#define BIG_FILE  (16 << 20)
#define BIG_BLOCK (512 << 10)

/*
 * One number space for many file systems: the same numbers on two of them would make tar and cp
 * take two files for hard links of one.
 */
uint64_t pinattr_ino(dev_t dev, uint64_t ino)
{
	uint64_t x = ino ^ (uint64_t)dev * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static struct timespec time_of(const struct statx_timestamp *time)
{
	return (struct timespec){time->tv_sec, time->tv_nsec};
}

/* Big files are best read in pieces that cost more than it takes to ask for them. */
static blksize_t block_size(const struct statx *stx)
{
	return S_ISREG(stx->stx_mode) && stx->stx_size >= BIG_FILE ? BIG_BLOCK : 0;
}

void pinattr_fill(const struct statx *stx, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino =
			pinattr_ino(makedev(stx->stx_dev_major, stx->stx_dev_minor), stx->stx_ino),
		.st_mode = stx->stx_mode,
		.st_nlink = stx->stx_nlink,
		.st_uid = stx->stx_uid,
		.st_gid = stx->stx_gid,
		.st_rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor),
		.st_size = stx->stx_size,
		.st_blksize = MAX((blksize_t)stx->stx_blksize, block_size(stx)),
		.st_blocks = stx->stx_blocks,
		.st_atim = time_of(&stx->stx_atime),
		.st_mtim = time_of(&stx->stx_mtime),
		.st_ctim = time_of(&stx->stx_ctime),
	};
}

/*
 * For the kernel to check permissions by: it asks for a directory's attributes at each step into it
 * otherwise, which was half of all requests of a walk. What leads into it is asked for each time
 * all the same, and files are always what they are.
 */
double pinattr_timeout(const struct stat *attr)
{
	return S_ISDIR(attr->st_mode) ? 0.01 : 0;
}

void pinattr_fill_dir(const struct pincall *call, const struct pinnode *node, struct stat *ret)
{
	const struct pintree *tree = node->what.tree;
	struct timespec time = call->pinroot->created;

	if (tree) {
		uint64_t ns = pin_pinned_unix(tree->pin);

		time = (struct timespec){ns / NSEC_PER_SEC, ns % NSEC_PER_SEC};
	}
	*ret = (struct stat){
		.st_ino = node->id,
		.st_mode = S_IFDIR | 0500,
		.st_nlink = 1,
		.st_blksize = 4096,
		.st_atim = time,
		.st_mtim = time,
		.st_ctim = time,
	};
}

void pinattr_fill_entry(const struct root_entry *entry, const char *target, struct stat *ret)
{
	pinattr_fill(&entry->stx, ret);
	if (target)
		ret->st_size = strlen(target);
}

/* What the node's name leads to now, if that is still the node. */
static int stat_entry(struct pincall *call, struct stat *ret)
{
	struct pinnode *node = call->node;
	struct root_identity now;
	struct root_entry entry;
	_cleanup_free_ char *target = NULL;
	int r = pincall_use_dir(call, node->parent);

	if (r == 0)
		r = pincall_look(call, node->name, &entry, &target);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? -ESTALE : r;
	root_identify(&entry.stx, &now);
	if (!root_same_file(&now, &node->what.identity) || entry.closed != node->what.closed)
		return -ESTALE;
	pinattr_fill_entry(&entry, target, ret);
	return 0;
}

/* An entry of a root that has no name any more, if somebody has it open: by that. */
static int stat_open(struct pincall *call, struct stat *ret)
{
	struct pinnodes *nodes = &call->pinroot->nodes;
	struct pinnode *node = call->node;
	struct statx stx;
	int r = pinfile_stat(call->pinroot, node, &stx);

	if (r == -ENOENT) {
		int fd = pinnode_use_fd(nodes, node);

		if (fd < 0)
			return -ESTALE;
		r = statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) < 0 ? -errno : 0;
		pinnode_release_fd(nodes, node);
	}
	if (r == 0)
		pinattr_fill(&stx, ret);
	return r;
}

int pinroot_getattr(void *pinroot, uint64_t id, const struct view_caller *caller, struct stat *ret,
		    double *ret_timeout)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	int r = pincall_begin(&call, pinroot, id);

	if (r < 0)
		return r;
	if (call.node->what.kind == PINNODE_ENTRY) {
		r = stat_entry(&call, ret);
		if (r == -ESTALE)
			r = stat_open(&call, ret);
	} else {
		r = pinroot_stat_node(&call, call.node, ret);
	}
	if (r == 0)
		*ret_timeout = pinattr_timeout(ret);
	return r;
}

int pinroot_readlink(void *pinroot, uint64_t id, const struct view_caller *caller, char **ret)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	int r = pincall_begin(&call, pinroot, id);

	if (r < 0)
		return r;
	if (call.node->what.kind != PINNODE_ENTRY || call.node->what.identity.type != S_IFLNK)
		return -EINVAL;
	r = pincall_use_dir(&call, call.node->parent);
	if (r == 0)
		r = root_readlink(call.root, &call.dir, call.node->name, ret);
	/* Another file has that name by now. */
	return r == -EINVAL || r == -ENOENT ? -ESTALE : r;
}

/* A path that leads to the very file, a symlink too, and opens nothing. */
struct fd_path {
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
};

static int open_for_xattr(struct pincall *call, void *pinroot, uint64_t id, int *ret_fd,
			  struct fd_path *ret)
{
	int r = pincall_begin(call, pinroot, id);

	if (r < 0)
		return r;
	const struct pinnode_what *what = &call->node->what;

	if (what->closed || what->kind == PINNODE_HIDDEN || what->kind == PINNODE_FILES)
		return -ENODATA;
	if (what->kind == PINNODE_TOP) {
		root_top(call->root, &call->dir);
		*ret_fd = fcntl(call->dir.fd, F_DUPFD_CLOEXEC, 0);
		r = *ret_fd < 0 ? -errno : 0;
	} else {
		r = pincall_open(call, ret_fd);
	}
	if (r == 0)
		snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", *ret_fd);
	return r;
}

ssize_t pinroot_getxattr(void *pinroot, uint64_t id, const struct view_caller *caller,
			 const char *name, void *buf, size_t size)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	_cleanup_fd_ int fd = -1;
	struct fd_path path;
	int r = open_for_xattr(&call, pinroot, id, &fd, &path);

	if (r < 0)
		return r;
	ssize_t n = getxattr(path.path, name, buf, size);

	return n < 0 ? -errno : n;
}

ssize_t pinroot_listxattr(void *pinroot, uint64_t id, const struct view_caller *caller, void *buf,
			  size_t size)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	_cleanup_fd_ int fd = -1;
	struct fd_path path;
	int r = open_for_xattr(&call, pinroot, id, &fd, &path);

	if (r < 0)
		return r == -ENODATA ? 0 : r;
	ssize_t n = listxattr(path.path, buf, size);

	return n < 0 ? -errno : n;
}

int pinroot_statfs(void *pinroot, uint64_t id, struct statvfs *ret)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	_cleanup_fd_ int fd = -1;
	struct fd_path path;
	int r = open_for_xattr(&call, pinroot, id, &fd, &path);

	if (r == -ENODATA) {
		ret->f_bsize = ret->f_frsize = 4096;
		ret->f_namemax = 255;
		return 0;
	}
	if (r < 0)
		return r;
	return fstatvfs(fd, ret) < 0 ? -errno : 0;
}
