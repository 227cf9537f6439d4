/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The capabilities of one thread, which are its own. */
#ifndef CORE_RIGHTS_H
#define CORE_RIGHTS_H

#include <stdint.h>

/* Keeps of this thread's capabilities those in the mask, 1 << CAP_..., for good. -errno. */
int rights_keep(uint64_t capabilities);
/* Drops CAP_SYS_NICE, which a thread has from whoever made it real-time. */
void rights_drop_nice(void);

#endif
