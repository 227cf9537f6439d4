/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An instance with little to live on: see scarcity.h. */
#include "tests/live/scarcity.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/cleanup.h"

#define FILES_MAX  256
#define MEMORY_MAX "134217728"

static const struct hierarchy {
	const char *root;
	const char *limit, *events;
} hierarchies[] = {
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
	{"/sys/fs/cgroup", "memory.max", "memory.events"},
};

static bool write_to(const char *directory, const char *name, const char *text)
{
	_cleanup_fd_ int dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool enter_cgroup(const char *name)
{
	char path[128];

	/* It is refused where there is no such controller, or it is there already. */
	write_to("/sys/fs/cgroup", "cgroup.subtree_control", "+memory");
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		snprintf(path, sizeof(path), "%s/%s", hierarchies[i].root, name);
		if (mkdir(path, 0755) < 0)
			continue;
		if (write_to(path, hierarchies[i].limit, MEMORY_MAX) &&
		    write_to(path, "cgroup.procs", "0"))
			return true;
		rmdir(path);
	}
	return false;
}

void scarcity_enter(const char *name)
{
	const struct rlimit files = {FILES_MAX, FILES_MAX};

	if (!getenv("KSYMFS_LIMITS"))
		return;
	setrlimit(RLIMIT_NOFILE, &files);
	if (!enter_cgroup(name))
		dprintf(STDOUT_FILENO, "# lacks: a cgroup to limit memory with\n");
}

/* `oom_kill N` among the events. */
static bool has_killed(const char *directory, const char *events)
{
	_cleanup_fd_ int dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(dir_fd, events, O_RDONLY | O_CLOEXEC);
	_cleanup_file_ FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	unsigned long kills = 0;
	char line[64];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "oom_kill %lu", &kills) == 1)
			break;
	return kills;
}

bool scarcity_leave(const char *name)
{
	bool killed = false;
	char path[128];

	if (!getenv("KSYMFS_LIMITS"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		snprintf(path, sizeof(path), "%s/%s", hierarchies[i].root, name);
		killed = killed || has_killed(path, hierarchies[i].events);
		rmdir(path);
	}
	return killed;
}
