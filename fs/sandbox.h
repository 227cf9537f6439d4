/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's rights: what it needs to go on, and nothing else.
 *
 * First all capabilities go but those that reading takes, and none can come back (no_new_privs, the
 * bounding set). Once everything that is made at the start is there, a filter lets through the
 * system calls that serving takes: no program is executed, no process is made, traced or moved to
 * other namespaces, nothing is mounted, no module and no BPF program is loaded.
 */
#ifndef FS_SANDBOX_H
#define FS_SANDBOX_H

#include "core/text.h"

/* What RLIMIT_NICE calls nice 0. */
#define NICE_USUAL 20

/*
 * Before there are other threads. What would need a right of its own later is arranged for by
 * limits: real-time readers for CPUs that come, memory of perf rings, a receiver that is SCHED_IDLE
 * at times. Where the limits cannot be raised CAP_SYS_NICE stays: to be dropped (core/rights.h)
 * once the readers are made, but by the two receivers, which need it. -errno.
 */
int sandbox_drop_rights(void);
/* For all threads, those to come too. Refused calls say EPERM. -errno: they are not filtered. */
int sandbox_filter_calls(void);

/* `key: value` lines: what is left, and whether calls are filtered. */
void sandbox_status(struct text *text);

#endif
