/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An instance with little to live on, where KSYMFS_LIMITS is set: 256 open files, and 128 MiB of
 * memory in a cgroup of its own, of version 1 or 2.
 */
#ifndef TESTS_LIVE_SCARCITY_H
#define TESTS_LIVE_SCARCITY_H

#include <stdbool.h>

/* Puts the calling process under the limits. name: of the cgroup. */
void scarcity_enter(const char *name);
/*
 * Removes the cgroup of processes that are gone. Returns whether the kernel has killed one of them
 * for want of memory, which the supervisor makes up for.
 */
bool scarcity_leave(const char *name);

#endif
