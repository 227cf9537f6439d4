/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A probe with a semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "provider.h"

__extension__ unsigned short kstest_counted_semaphore
	__attribute__((unused, section(".probes"), visibility("hidden")));

void kstest_fire_counted(int value)
{
	if (__builtin_expect(kstest_counted_semaphore, 0))
		STAP_PROBE1(kstest, counted, value);
}
