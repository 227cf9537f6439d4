/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Little to live on: see scarcity.h. */
#include "tests/live/scarcity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/cleanup.h"

#define FILES_MAX  256
#define MEMORY_MAX (UINT64_C(128) << 20)

static const struct hierarchy {
	const char *root;
	const char *limit, *no_limit, *usage, *events;
	const char *swap; /* what allows none, by 0 */
} hierarchies[] = {
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "-1", "memory.usage_in_bytes",
	 "memory.oom_control", "memory.swappiness"},
	{"/sys/fs/cgroup", "memory.max", "max", "memory.current", "memory.events",
	 "memory.swap.max"},
};

static int open_in(const char *directory, const char *name, int flags)
{
	_cleanup_fd_ int dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return openat(dir_fd, name, flags | O_CLOEXEC);
}

static bool write_to(const char *directory, const char *name, const char *text)
{
	_cleanup_fd_ int fd = open_in(directory, name, O_WRONLY);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* The number behind a word at the start of a line; 0. */
static uint64_t read_number(const char *directory, const char *name, const char *word)
{
	int fd = open_in(directory, name, O_RDONLY);
	_cleanup_file_ FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	size_t len = strlen(word);
	char line[64];

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, word, len) == 0)
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

static void find(const struct hierarchy *hierarchy, const char *name, struct memory_cgroup *ret)
{
	ret->hierarchy = hierarchy;
	snprintf(ret->path, sizeof(ret->path), "%s/%s", hierarchy->root, name);
}

bool memory_cgroup_make(const char *name, struct memory_cgroup *ret)
{
	/* It is refused where there is no such controller, or it is there already. */
	write_to("/sys/fs/cgroup", "cgroup.subtree_control", "+memory");
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		find(&hierarchies[i], name, ret);
		if (mkdir(ret->path, 0755) < 0)
			continue;
		if (write_to(ret->path, ret->hierarchy->limit, ret->hierarchy->no_limit))
			return true;
		rmdir(ret->path);
	}
	return false;
}

void memory_cgroup_add(const struct memory_cgroup *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	write_to(cgroup->path, "cgroup.procs", text);
}

void memory_cgroup_limit(const struct memory_cgroup *cgroup, uint64_t bytes)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	write_to(cgroup->path, cgroup->hierarchy->swap, "0");
	write_to(cgroup->path, cgroup->hierarchy->limit,
		 bytes == MEMORY_UNLIMITED ? cgroup->hierarchy->no_limit : text);
}

uint64_t memory_cgroup_usage(const struct memory_cgroup *cgroup)
{
	return read_number(cgroup->path, cgroup->hierarchy->usage, "");
}

uint64_t memory_cgroup_shmem(const struct memory_cgroup *cgroup)
{
	return read_number(cgroup->path, "memory.stat", "shmem ");
}

uint64_t memory_cgroup_kills(const struct memory_cgroup *cgroup)
{
	return read_number(cgroup->path, cgroup->hierarchy->events, "oom_kill ");
}

void memory_cgroup_remove(struct memory_cgroup *cgroup)
{
	rmdir(cgroup->path);
}

void scarcity_enter(const char *name)
{
	const struct rlimit files = {FILES_MAX, FILES_MAX};
	struct memory_cgroup cgroup;

	if (!getenv("KSYMFS_LIMITS"))
		return;
	setrlimit(RLIMIT_NOFILE, &files);
	if (memory_cgroup_make(name, &cgroup)) {
		memory_cgroup_limit(&cgroup, MEMORY_MAX);
		memory_cgroup_add(&cgroup, 0);
	} else {
		dprintf(STDOUT_FILENO, "# lacks: a cgroup to limit memory with\n");
	}
}

bool scarcity_leave(const char *name)
{
	struct memory_cgroup cgroup;
	bool killed = false;

	if (!getenv("KSYMFS_LIMITS"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		find(&hierarchies[i], name, &cgroup);
		killed = killed || memory_cgroup_kills(&cgroup);
		memory_cgroup_remove(&cgroup);
	}
	return killed;
}
