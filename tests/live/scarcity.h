/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Little to live on: cgroups with a limit on memory, of version 1 or 2; and where KSYMFS_LIMITS is
 * set, 256 open files and 128 MiB of memory for each instance.
 */
#ifndef TESTS_LIVE_SCARCITY_H
#define TESTS_LIVE_SCARCITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY_UNLIMITED UINT64_MAX

struct memory_cgroup {
	char path[128];
	const struct hierarchy *hierarchy;
};

/* Makes one, empty and without a limit. False: there is no such controller to be had. */
bool memory_cgroup_make(const char *name, struct memory_cgroup *ret);
/* Puts a process in, and what it forks from here on. 0: the caller. */
void memory_cgroup_add(const struct memory_cgroup *cgroup, pid_t pid);
/* In bytes, swap included. Those who have more already are killed, or only kept from more. */
void memory_cgroup_limit(const struct memory_cgroup *cgroup, uint64_t bytes);
uint64_t memory_cgroup_usage(const struct memory_cgroup *cgroup);
/* Of that, what memory files have. */
uint64_t memory_cgroup_shmem(const struct memory_cgroup *cgroup);
/* How many processes the kernel has killed in it for want of memory. */
uint64_t memory_cgroup_kills(const struct memory_cgroup *cgroup);
/* Its processes are gone. */
void memory_cgroup_remove(struct memory_cgroup *cgroup);

/* Puts the calling process under the limits. name: of the cgroup. */
void scarcity_enter(const char *name);
/*
 * Removes the cgroup of processes that are gone. Returns whether the kernel has killed one of them
 * for want of memory, which the supervisor makes up for.
 */
bool scarcity_leave(const char *name);

#endif
