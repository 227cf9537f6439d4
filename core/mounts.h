/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process's mounts, as /proc/PID/mountinfo tells them, to be asked what is mounted where; and
 * which types of file system are fit to be walked by somebody who only wants to read files.
 *
 * Pure: text in, answers out. Paths are from the process's root, `/` for the root itself. Source:
 * proc_pid_mountinfo(5), fs/proc_namespace.c show_mountinfo().
 */
#ifndef CORE_MOUNTS_H
#define CORE_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct mount {
	uint64_t id; /* statx(2) calls it stx_mnt_id */
	uint64_t parent;
	dev_t dev;
	const char *path; /* unescaped, NUL-terminated */
	size_t path_len;
	const char *type; /* with its subtype: fuse.sshfs */
};

struct mounts {
	struct mount *mounts; /* by parent and path */
	size_t count;
	struct mount **by_id;
	char *strings;
};

/* Copies what it needs. -EBADMSG for a line that the kernel would not write, -ENOMEM. */
int mounts_parse(const char *text, size_t len, struct mounts *ret);
void mounts_deinit(struct mounts *mounts);
#define _cleanup_mounts_ CLEANUP(mounts_deinit)

/* What is on top at path for one who comes from the mount `parent`, or NULL: no mount is there. */
const struct mount *mounts_at(const struct mounts *mounts, uint64_t parent, const char *path,
			      size_t path_len);
/* Could mounts_at() say something for an entry of this directory? */
bool mounts_below(const struct mounts *mounts, uint64_t parent, const char *path, size_t path_len);
const struct mount *mounts_by_id(const struct mounts *mounts, uint64_t id);

enum mount_class {
	MOUNT_STORAGE,	  /* holds files, on this machine */
	MOUNT_NO_STORAGE, /* the kernel's own state: reading can act, block or lie about sizes */
	MOUNT_USER,	  /* FUSE: some process answers, or does not */
	MOUNT_NETWORK,	  /* as FUSE, and even a look at the mount point can block */
	MOUNT_KSYMFS,	  /* us, or another instance */
};
enum mount_class mount_class_of(const char *type);
/*
 * May a walk go into this type? Those with storage, always; ksymfs, never; of the others those that
 * `cross` names. `fuse` there stands for all FUSE types but ours.
 */
bool mount_is_open(const char *type, const char *const *cross, size_t cross_count);
/* The type for a statfs(2) magic number that mount_class_of() has an opinion on, or NULL. */
const char *mount_type_of_magic(long magic);

#endif
