/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is mounted, in our mount namespace or another one, as /proc/PID/mountinfo has it (proc(5)):
 * read without asking any file system, so a dead one does not matter.
 */
#ifndef CORE_MOUNTINFO_H
#define CORE_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct mountinfo {
	int id;
	dev_t dev;
	char *mountpoint; /* unescaped */
	char *options;	  /* of the mount, not of the file system: rw,noatime */
	char *type;	  /* fuse.ksymfs */
};

struct mountinfo_list {
	struct mountinfo *mounts; /* a later one at the same place hides the earlier ones */
	size_t count;
};

/* -errno of the file, -EINVAL for a line that is none, -ENOMEM. */
int mountinfo_read(struct mountinfo_list *ret);
int mountinfo_parse(FILE *file, struct mountinfo_list *ret);
/*
 * Another one's, which is as long as he likes: calls take for each mount until it is not 0, and
 * returns that. A line that is none is passed over. Errors else as above.
 */
typedef int (*mountinfo_take_fn)(void *arg, const struct mountinfo *mountinfo);
int mountinfo_each_at(int dir_fd, const char *path, mountinfo_take_fn take, void *arg);
void mountinfo_list_deinit(struct mountinfo_list *list);
#define _cleanup_mountinfo_ CLEANUP(mountinfo_list_deinit)

/* Is this one of the words between the commas? */
bool mountinfo_has_option(const struct mountinfo *mountinfo, const char *option);

/* What one sees at this absolute path without symlinks; NULL: it is no mount point. */
const struct mountinfo *mountinfo_at(const struct mountinfo_list *list, const char *path);

#endif
