/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of the tracker that follows modules. They raise no perf records, only uevents.
 *
 * A module's uevent comes when it is live, while its init part is still there; the kernel drops
 * that, and its symbols, before finit_module() returns. /sys/module/NAME/initsize says when: once
 * it is 0 the module's list is final. Until then each request asks again, and the list is re-read
 * when it has happened.
 */
#include "core/tracker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define MODULES "/proc/modules"

static bool same_bound(const struct module_bound *a, const struct module_bound *b)
{
	return a->start == b->start && a->size == b->size;
}

static bool has_bound(const struct module_list *list, const struct module_bound *module)
{
	for (size_t i = 0; i < list->count; i++)
		if (same_bound(&list->modules[i], module))
			return true;
	return false;
}

int tracker_read_module_bounds(struct tracker *tracker)
{
	_cleanup_fd_ int fd = open(MODULES, O_RDONLY | O_CLOEXEC);
	struct module_list list = {};
	int r = fd < 0 ? -errno : module_list_read(fd, &list, NULL);

	/* A kernel without modules has no list, and needs none. */
	if (r == -ENOENT)
		r = 0;
	tracker->modules_source.error = r;
	if (r < 0)
		return r;
	for (size_t i = 0; i < tracker->modules.count; i++)
		if (!has_bound(&list, &tracker->modules.modules[i]))
			symtab_remove_bound(tracker->state.symbols,
					    tracker->modules.modules[i].start);
	for (size_t i = 0; i < list.count; i++) {
		const struct module_bound *module = &list.modules[i];

		if (module->start && module->size && !has_bound(&tracker->modules, module))
			symtab_add_bound(tracker->state.symbols, module->start,
					 module->start + module->size);
	}
	module_list_deinit(&tracker->modules);
	tracker->modules = list;
	return 0;
}

/* Bytes of a module's init part; 0 once it is dropped, or if the module is gone. */
static unsigned long init_size(const char *name)
{
	char path[128], text[32] = "";

	snprintf(path, sizeof(path), "/sys/module/%s/initsize", name);
	_cleanup_file_ FILE *file = fopen(path, "re");

	if (!file || !fgets(text, sizeof(text), file))
		return 0;
	return strtoul(text, NULL, 0);
}

void tracker_module_added(struct tracker *tracker, const char *name)
{
	tracker->modules_due = true;
	if (!init_size(name))
		return;
	if (tracker->settling_count == ARRAY_SIZE(tracker->settling)) {
		/* More at once than are kept by name: the oldest has had its time. */
		free(tracker->settling[0]);
		memmove(tracker->settling, tracker->settling + 1,
			--tracker->settling_count * sizeof(tracker->settling[0]));
	}
	char *copy = strdup(name);

	if (copy)
		tracker->settling[tracker->settling_count++] = copy;
}

void tracker_update_modules(struct tracker *tracker)
{
	struct differences found = {};
	size_t kept = 0;

	/* Asked before the list is read: what is dropped by now is not in it. */
	for (size_t i = 0; i < tracker->settling_count; i++) {
		if (init_size(tracker->settling[i])) {
			tracker->settling[kept++] = tracker->settling[i];
			continue;
		}
		free(tracker->settling[i]);
		tracker->modules_due = true;
	}
	tracker->settling_count = kept;
	if (!tracker->modules_due || tracker->state.hidden)
		return;
	tracker->modules_due = false;
	tracker_read_module_bounds(tracker);
	tracker_compare(tracker, false, false, &found);
}
