/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What allocations really cost, for bounds on memory that are to hold. */
#ifndef CORE_HEAP_H
#define CORE_HEAP_H

#include <stddef.h>

/* Bytes of the heap for an allocation of size: glibc adds a word, and rounds up to two. */
static inline size_t heap_bytes(size_t size)
{
	size_t bytes = (size + sizeof(size_t) + 15) & ~(size_t)15;

	return bytes < 32 ? 32 : bytes;
}

#endif
