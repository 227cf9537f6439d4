/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes the views that the list in views.h names. */
#include "fs/views.h"

#include <errno.h>

#include "core/cleanup.h"

static int (*const creators[])(const struct view_context *, struct view *) = {
#define VIEW_CREATE(name) view_##name##_create,
	VIEWS(VIEW_CREATE)
#undef VIEW_CREATE
};

_Static_assert(ARRAY_SIZE(creators) <= VIEWS_MAX, "more views than VIEWS_MAX");

int views_create(const struct view_context *context, struct view views[VIEWS_MAX],
		 size_t *ret_count)
{
	*ret_count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		int r = creators[i](context, &views[i]);

		if (r < 0) {
			views_destroy(views, *ret_count);
			*ret_count = 0;
			return r;
		}
		*ret_count = i + 1;
	}
	return 0;
}

void views_destroy(struct view *views, size_t count)
{
	while (count--) {
		if (views[count].ops->destroy)
			views[count].ops->destroy(views[count].data);
	}
}
