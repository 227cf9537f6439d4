/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mount point: whether it can be used, taking it over from a daemon that died, mounting,
 * unmounting. On failure one line for people, without a newline, is written to `error`.
 */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/text.h"
#include "fs/options.h"

/* Of the mount, in mountinfo. */
#define MOUNT_TYPE "fuse.ksymfs"

struct mount {
	char *path;    /* absolute, without symlinks */
	int directory; /* what is below, locked until it is hidden; -1 */
	int fd;	       /* /dev/fuse; -1 */
	/*
	 * 0 until it is mounted. Set once, and stays: threads that hold files of others look at it.
	 */
	dev_t dev;
	bool detached;
};

/*
 * Looks whether options->mountpoint can be used, makes it if it is the default one, removes what a
 * dead daemon left there, and locks it against others who do the same. -errno.
 */
int mount_prepare(const struct options *options, struct mount *ret, struct text *error);
/* Mounts. From then on whoever goes there waits for the session to serve target->fd. -errno. */
int mount_attach(struct mount *target, const struct options *options, struct text *error);
/* Once the kernel has its first answer, which sets it too: makes it read ahead far enough. */
void mount_set_readahead(const struct mount *mount);
/* Has the kernel cut it off from us: unmounted, or aborted? */
bool mount_is_dead(const struct mount *mount);
/* Unmounts every mount of this file system, in all mount namespaces, whatever is open in it. */
void mount_detach(struct mount *mount);
/* Closes everything: then whoever still waits for an answer gets an error. */
void mount_deinit(struct mount *mount);
#define _cleanup_mount_ CLEANUP(mount_deinit)

/*
 * The absolute path without symlinks, also of a mount whose daemon is dead: then only what leads to
 * it is resolved. -errno, -ENOMEM.
 */
int mount_resolve(const char *path, char **ret);
/*
 * `ksymfs umount`: -EBUSY, -EINVAL where there is none of ours. lazy: whatever is open in it, which
 * goes on until it is closed.
 */
int mount_umount(const char *mountpoint, bool lazy, struct text *error);
/* `ksymfs check`: a line on what mounting needs. Whether it is there. */
bool mount_check(struct text *text);

#endif
