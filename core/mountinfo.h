/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is mounted in our mount namespace, as /proc/self/mountinfo has it (proc(5)): read without
 * asking any file system, so a dead one does not matter.
 */
#ifndef CORE_MOUNTINFO_H
#define CORE_MOUNTINFO_H

#include <stddef.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct mountinfo {
	dev_t dev;
	char *mountpoint; /* unescaped */
	char *type;	  /* fuse.ksymfs */
};

struct mountinfo_list {
	struct mountinfo *mounts; /* a later one at the same place hides the earlier ones */
	size_t count;
};

/* -errno of the file, -EINVAL for a line that is none, -ENOMEM. */
int mountinfo_read(struct mountinfo_list *ret);
int mountinfo_parse(FILE *file, struct mountinfo_list *ret);
void mountinfo_list_deinit(struct mountinfo_list *list);
#define _cleanup_mountinfo_ CLEANUP(mountinfo_list_deinit)

/* What one sees at this absolute path without symlinks; NULL: it is no mount point. */
const struct mountinfo *mountinfo_at(const struct mountinfo_list *list, const char *path);

#endif
