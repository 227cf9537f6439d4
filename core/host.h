/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What identifies this boot and ties its clocks together, for who compares what two machines, or
 * two boots of one, have written down. Takes no lock.
 */
#ifndef CORE_HOST_H
#define CORE_HOST_H

#include <stddef.h>
#include <stdint.h>

/* A UUID as text and a NUL. */
#define HOST_BOOT_ID_SIZE 37
/* random(4), /proc/sys/kernel/random/boot_id. -errno. */
int host_boot_id(char ret[HOST_BOOT_ID_SIZE]);

/*
 * What to add to CLOCK_MONOTONIC ns of the initial time namespace to have CLOCK_REALTIME ns, as of
 * now: it moves when somebody sets the clock. Good to a microsecond or so.
 */
int64_t host_monotonic_to_unix(void);

#endif
