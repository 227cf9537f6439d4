/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of addr/: `ADDR[-1][@SECONDS|@NNNns]`, which ask what is at an address, now or then.
 *
 * The grammar is strict, so that what is no question is no file: hex of up to 16 digits, with or
 * without 0x, in either case; then `-1` for the byte before, which is what a return address wants;
 * then `@` and decimal seconds with up to nine decimals, or nanoseconds with `ns`. No signs, no
 * blanks, nothing that does not fit in 64 bits.
 */
#ifndef CORE_ADDRQUERY_H
#define CORE_ADDRQUERY_H

#include <stdbool.h>
#include <stdint.h>

struct addrquery {
	uint64_t addr; /* the byte asked for: with -1, the one before */
	bool has_time;
	uint64_t time; /* CLOCK_MONOTONIC ns, never UINT64_MAX; 0 without has_time */
};

/* -EINVAL for what is not such a name. */
int addrquery_parse(const char *name, struct addrquery *ret);

#endif
