/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranges of addresses that nothing which starts in them reaches out of: sections of the kernel,
 * modules. They may overlap: then one ends where the next one starts. No lock.
 */
#ifndef CORE_BOUNDS_H
#define CORE_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

struct bound {
	uint64_t start, end;
};

struct bounds {
	struct bound *array; /* by start, which is unique */
	size_t count;
};

void bounds_deinit(struct bounds *bounds);

/* Where the bound ends that addr is in; 0 if it is in none. */
uint64_t bounds_end(const struct bounds *bounds, uint64_t addr);

/*
 * Make a copy with one bound more or less, so that both can be asked. Up to *ret_reach, from start
 * on, they can differ in what they say; below start, they do where the bound that reaches over
 * start ends. -EINVAL for an empty range, -EEXIST for a start that is there, -ENOENT for one that
 * is not, -ENOMEM.
 */
int bounds_with(const struct bounds *bounds, uint64_t start, uint64_t end, struct bounds *ret,
		uint64_t *ret_reach);
int bounds_without(const struct bounds *bounds, uint64_t start, struct bounds *ret,
		   uint64_t *ret_reach);

#endif
