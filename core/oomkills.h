/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whom the kernel kills for want of memory, as the memory cgroup that we are in counts them: what
 * tells such a death from that of a process that somebody has killed. Takes no lock, and asks no
 * file system that is not the kernel's own.
 */
#ifndef CORE_OOMKILLS_H
#define CORE_OOMKILLS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How many there were, of processes of this one's cgroup alone, and whoever's limit it was; one is
 * counted before it is killed (mm/oom_kill.c, __oom_kill_process()). False: there is no such
 * cgroup, as in the root of version 2, or it is not mounted at its usual place.
 */
bool oom_kills_count(uint64_t *ret);

#endif
