/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mounts of one file system in all mount namespaces but our own: where it was attached to
 * containers, and how to take it away again.
 *
 * Nobody keeps a list, and no namespace is held open, which would keep a container's mounts past
 * its end: who wants to know looks at the processes that there are, in our /proc, and at the mount
 * table of each namespace once. What has ended has nothing left to be found; a namespace that is
 * kept without a process is found by who unmounts, where the kernel names them all (6.12). A copy
 * that was attached, and was not mounted in any other way, is marked in the kernel itself by a flag
 * that means nothing where noatime is set.
 *
 * No file system is asked anything, so dead ones and those of others do not matter. No lock.
 */
#ifndef CORE_MOUNTNS_H
#define CORE_MOUNTNS_H

#include <stddef.h>
#include <sys/types.h>

#include "core/cleanup.h"

/* The mark: MOUNT_ATTR_NODIRATIME, and as mountinfo has it. */
#define MOUNTNS_MARK "nodiratime"

struct mountns_place {
	pid_t pid;	  /* one of those who see it: the lowest number */
	char *mountpoint; /* from that process's root */
};

struct mountns_places {
	struct mountns_place *places;
	size_t count;
};

/* Where a file system's marked mounts are. -ENOMEM, or that there is no /proc. */
int mountns_find_marked(dev_t dev, struct mountns_places *ret);
void mountns_places_deinit(struct mountns_places *places);
#define _cleanup_mountns_places_ CLEANUP(mountns_places_deinit)

/*
 * Unmounts every mount of a file system in all other namespaces, marked or not, whatever is open in
 * it. What cannot be unmounted, for it is locked together with others, goes with its namespace.
 * Takes CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE. A thread of its own visits the
 * namespaces, so that all others stay where they are.
 */
void mountns_unmount(dev_t dev);

/*
 * Unmounts, at once and whatever is open in it, what fd, O_PATH, is the root of: no path is looked
 * up. proc_fd is a directory fd on our /proc, wherever our root is by now. Changes the working
 * directory of the thread. -errno.
 */
int mountns_unmount_fd(int proc_fd, int fd);

#endif
