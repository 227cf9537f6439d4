/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The views that there are. To add one: write view_NAME_create() in a file of its own and put
 * X(NAME) into the list.
 */
#ifndef FS_VIEWS_H
#define FS_VIEWS_H

#include <stddef.h>
#include <sys/types.h>

#include "fs/view.h"

struct handover;
struct options;
struct pidns;
struct session;
struct tracker;

/* What a view may stand on. All of it outlives the views. */
struct view_context {
	const struct options *options;
	struct tracker *tracker;
	struct session *session;
	const struct pidns *pidns; /* whose pids usdt/ and pins/ have */
	/* The device of the mount; 0 until it is mounted, which is before anybody asks. */
	const dev_t *own_dev;
	/* What a supervisor has handed over, and where to give what it is to keep. */
	struct handover *handover;
	const struct keeper *keeper; /* the same, for fds by number */
	/* All views, for the ones that tell of the others. Complete once every view is created. */
	const struct view *views;
	const size_t *view_count;
};

#define VIEWS(X)                                                                                   \
	X(readme)                                                                                  \
	X(status)                                                                                  \
	X(metrics)                                                                                 \
	X(ksyms)                                                                                   \
	X(kallsyms)                                                                                \
	X(addr)                                                                                    \
	X(events)                                                                                  \
	X(bpf)                                                                                     \
	X(usdt)                                                                                    \
	X(pins)

/* Makes the view: ret->ops with the name, ret->data whatever it keeps. -errno. */
#define VIEW_DECLARE(name) int view_##name##_create(const struct view_context *, struct view *ret);
VIEWS(VIEW_DECLARE)
#undef VIEW_DECLARE

#define VIEWS_MAX 32

/* Makes all views, in the order of the list, into views. On failure none is left. */
int views_create(const struct view_context *context, struct view views[VIEWS_MAX],
		 size_t *ret_count);
void views_destroy(struct view *views, size_t count);

#endif
