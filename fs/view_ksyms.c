/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms and kallsyms: every kernel symbol, one table in two formats. The tracker has the text; a
 * kernel that hides its addresses makes reading them EACCES.
 */
#include <errno.h>

#include "core/tracker.h"
#include "fs/views.h"

static int lookup(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	struct tracker *tracker = view;

	if (path->count)
		return -ENOENT;
	*ret = (struct view_attr){
		.kind = VIEW_FILE,
		.generation = tracker_generation(tracker, TRACKER_SYMBOLS),
		.mtime = view_time(tracker_changed_unix(tracker, TRACKER_SYMBOLS)),
	};
	return 0;
}

static int render_ksyms(void *view, const struct view_path *path, const struct view_caller *caller,
			struct snapshot **ret)
{
	return tracker_ksyms(view, SYMTAB_KSYMS, ret);
}

static int render_kallsyms(void *view, const struct view_path *path,
			   const struct view_caller *caller, struct snapshot **ret)
{
	return tracker_ksyms(view, SYMTAB_KALLSYMS, ret);
}

int view_ksyms_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "ksyms",
		.access = ACCESS_ADDRESSES,
		.lookup = lookup,
		.render = render_ksyms,
	};

	*ret = (struct view){&ops, context->tracker};
	return 0;
}

int view_kallsyms_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "kallsyms",
		.access = ACCESS_ADDRESSES,
		.lookup = lookup,
		.render = render_kallsyms,
	};

	*ret = (struct view){&ops, context->tracker};
	return 0;
}
