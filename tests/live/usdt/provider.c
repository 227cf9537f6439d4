/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probes without semaphores: one without arguments, one with each kind, one at two sites. */
#include <sys/sdt.h>

#include "provider.h"

static long far_away = 77;

long kstest_fire(int value)
{
	struct {
		long pad[4];
		short in_memory;
	} local = {.in_memory = -7};
	long wide = (long)value << 32;

	/* So that the compiler knows nothing of them. */
	__asm__ volatile("" : "+r"(wide), "+m"(local), "+m"(far_away));
	STAP_PROBE(kstest, plain);
	STAP_PROBE4(kstest, args, value, wide, 42, local.in_memory);
	if (value & 1)
		STAP_PROBE1(kstest, twice, value);
	else
		STAP_PROBE2(kstest, twice, value, wide);
	kstest_fire_counted(value);
	return wide + far_away;
}
