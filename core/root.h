/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process's root, held past its exit: a directory, the mount namespace that keeps its mounts
 * alive, and the table of those mounts.
 *
 * Whoever walks it trusts nothing in it. No symlink is ever followed by the kernel for us: each
 * name is one step from a directory that is held, what is met is looked at (O_PATH, statx) and
 * never opened, and steps into file systems that act, block or are ourselves are not made. A link's
 * target is shown as linkpath.h says.
 *
 * Any thread may call anything. Calls block as long as the file systems behind them do.
 */
#ifndef CORE_ROOT_H
#define CORE_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "core/cleanup.h"
#include "core/keeper.h"
#include "core/text.h"

struct root;

/* Types that a walk may enter though they are without storage, FUSE or network ones. */
struct root_policy {
	const char *const *cross;
	size_t cross_count;
};

/*
 * Holds the root of the process whose /proc directory, or that of a thread of it, is proc_fd. The
 * policy must outlive the root. -ENOENT, -ESRCH: it has none any more; -EOPNOTSUPP: no
 * STATX_MNT_ID (before 5.8).
 */
int root_open(int proc_fd, const struct root_policy *policy, struct root **ret);
struct root *root_ref(struct root *root);
void root_unref(struct root *root); /* NULL is fine */
DEFINE_CLEANUP(root, struct root *, root_unref)
#define _cleanup_root_ CLEANUP(root_cleanup)

/* What root_keep() gives numbers to. */
#define ROOT_FDS 3

/* Has the root outlive this process, for as long as it is held. The keeper outlives the root. */
void root_keep(struct root *root, const struct keeper *keeper, uint64_t ret[static ROOT_FDS]);
/* A number that no other root has; 0: it is not kept. */
uint64_t root_number(const struct root *root);
/* A root that was kept. -ENOENT: not all of it is there; otherwise as root_open(). */
int root_restore(const struct keeper *keeper, const uint64_t numbers[static ROOT_FDS],
		 const struct root_policy *policy, struct root **ret);

/* Is this what the process still has as its root, in the same mount namespace? */
bool root_is_of(const struct root *root, int proc_fd);

/* Inode number of the mount namespace, as in `mnt:[4026531841]`. */
uint64_t root_mount_ns(const struct root *root);
/* Appends the text of the mount table as it is now. */
int root_mountinfo(struct root *root, struct text *text);

/* A directory in a root, as callers hold it. */
struct root_dir {
	int fd;		  /* O_PATH */
	uint64_t mount;	  /* id of the mount that it is in */
	const char *path; /* in the root, without symlinks; `/` for the root. NUL-terminated */
	size_t path_len;
};
/* The root's own directory; the fd belongs to the root. */
void root_top(const struct root *root, struct root_dir *ret);

struct root_entry {
	struct statx stx;
	/*
	 * A walk must not go in, nor open it. If it is the root of such a file system, stx has the
	 * type and nothing else that is the file's own.
	 */
	bool closed;
};

/*
 * Looks at a name in a directory, or at the root's top with name NULL. Errors are statx(2)'s;
 * -ESTALE when the mounts change faster than one can look.
 */
int root_stat(struct root *root, const struct root_dir *dir, const char *name,
	      struct root_entry *ret);
/*
 * Could looking at a name, or at where a link of this root leads, wait for a server that does not
 * answer: because the policy lets a walk into FUSE or network mounts? 0, or a number for what would
 * be waited for: the mount.
 */
uint64_t root_entry_may_hang(struct root *root, const struct root_dir *dir, const char *name);
uint64_t root_links_may_hang(struct root *root);

/* What a name has to have for it to be the same file still. */
struct root_identity {
	uint64_t ino;
	uint64_t mount;
	dev_t dev;
	mode_t type;
	struct timespec birth; /* zero where the file system does not know */
};
void root_identify(const struct statx *stx, struct root_identity *ret);
bool root_same_file(const struct root_identity *a, const struct root_identity *b);

/* Opens (O_PATH) what root_stat() saw. -ESTALE if something else is there now. */
int root_open_entry(const struct root_dir *dir, const char *name, const struct root_identity *seen,
		    int *ret_fd);
/* The same of an fd: 0 or -ESTALE. */
int root_check_fd(int fd, const struct root_identity *seen);
/* Opens (O_PATH) a path without symlinks, of any length. -ELOOP if there is one now. */
int root_open_path(const struct root *root, const char *path, size_t path_len, int *ret_fd);
/* The target to be shown of the link dir/name. A string of the caller's. */
int root_readlink(struct root *root, const struct root_dir *dir, const char *name, char **ret);

/* Opens to read what fd (O_PATH) is, a regular file or a directory. Never acts on anything else:
 * -ENXIO. */
int root_reopen(int fd, mode_t mode, int *ret_fd);

/* The type of the root's own mount, if it is one that is not walked into, or NULL. */
const char *root_closed_type(struct root *root);

#endif
