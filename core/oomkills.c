/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of the memory cgroup: see oomkills.h. */
#include "core/oomkills.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/mountinfo.h"

/* Of version 1 first: where both are mounted, it has the memory. */
static const struct hierarchy {
	const char *prefix; /* of its line in /proc/PID/cgroup, behind the number */
	const char *type, *directory;
	const char *events[2]; /* the first that is there */
} hierarchies[] = {
	{"memory:", "cgroup", "/sys/fs/cgroup/memory", {"memory.oom_control"}},
	/* Before there was the first (5.2), the second left those below out too. */
	{":", "cgroup2", "/sys/fs/cgroup", {"memory.events.local", "memory.events"}},
};

/* One that is mounted later hides the others. */
static int note_mount(void *arg, const struct mountinfo *mount)
{
	bool *is_there = arg;

	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		if (strcmp(mount->mountpoint, hierarchies[i].directory) == 0)
			is_there[i] = strcmp(mount->type, hierarchies[i].type) == 0;
	}
	return 0;
}

/* Our path in a hierarchy, a string of the caller's; NULL. */
static char *read_own_path(const struct hierarchy *hierarchy)
{
	_cleanup_file_ FILE *file = fopen("/proc/self/cgroup", "re");
	size_t size = 0, len = strlen(hierarchy->prefix);
	_cleanup_free_ char *line = NULL;

	while (file && getline(&line, &size, file) > 0) {
		const char *rest = strchr(line, ':');

		if (rest && strncmp(rest + 1, hierarchy->prefix, len) == 0)
			return strndup(rest + 1 + len, strcspn(rest + 1 + len, "\n"));
	}
	return NULL;
}

/* `oom_kill N` among the events of a cgroup. */
static bool read_count(const char *directory, const char *path, const char *events, uint64_t *ret)
{
	char name[PATH_MAX], line[128];

	if (snprintf(name, sizeof(name), "%s%s/%s", directory, path, events) >= (int)sizeof(name))
		return false;
	_cleanup_file_ FILE *file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "oom_kill %" SCNu64, ret) == 1)
			return true;
	}
	return false;
}

static bool count_in(const struct hierarchy *hierarchy, uint64_t *ret)
{
	_cleanup_free_ char *own = read_own_path(hierarchy);
	/* A container has often no more of the tree than its own cgroup, and a path from above. */
	const char *paths[] = {own, ""};

	for (size_t i = 0; own && i < ARRAY_SIZE(paths); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(hierarchy->events) && hierarchy->events[j]; j++) {
			if (read_count(hierarchy->directory, paths[i], hierarchy->events[j], ret))
				return true;
		}
	}
	return false;
}

bool oom_kills_count(uint64_t *ret)
{
	bool is_there[ARRAY_SIZE(hierarchies)] = {};

	if (mountinfo_each_at(AT_FDCWD, "/proc/self/mountinfo", note_mount, is_there) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		if (is_there[i] && count_in(&hierarchies[i], ret))
			return true;
	}
	return false;
}
