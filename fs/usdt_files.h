/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files that show the USDT probes of one process, wherever they are in the tree: usdt/PID and
 * pins/PID/usdt.
 *
 *	notes probes uprobe_events objects
 *	providers/PROVIDER/NAME
 *
 * Each function takes the names below that directory and a way to scan the process, which is used
 * only if need be.
 */
#ifndef FS_USDT_FILES_H
#define FS_USDT_FILES_H

#include "core/usdt.h"
#include "fs/view.h"

struct usdt_files_owner {
	/* Scans the process now. -ESRCH: it is gone. */
	int (*scan)(void *arg, struct usdt_scan **ret);
	void *arg;
};

/* As in struct view_ops. count 0 is the directory itself. -ENOENT, also for a process gone. */
int usdt_files_lookup(const struct usdt_files_owner *owner, const char *const *names, int count,
		      struct view_attr *ret);
int usdt_files_list(const struct usdt_files_owner *owner, const char *const *names, int count,
		    struct view_list *list);
int usdt_files_render(const struct usdt_files_owner *owner, const char *const *names, int count,
		      struct snapshot **ret);

#endif
