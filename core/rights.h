/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The capabilities of one thread, which are its own. */
#ifndef CORE_RIGHTS_H
#define CORE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps of this thread's capabilities those in the mask, 1 << CAP_..., for good. -errno. */
int rights_keep(uint64_t capabilities);
/* May this thread change how threads of the process are scheduled? */
bool rights_have_nice(void);
/* Drops CAP_SYS_NICE, which a thread has from whoever made it real-time. */
void rights_drop_nice(void);
/*
 * To be called first by a thread that any other may start: gives up what it may have from that one,
 * SCHED_IDLE and CAP_SYS_NICE.
 */
void rights_begin_thread(void);

#endif
