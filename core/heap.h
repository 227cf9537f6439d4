/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What allocations really cost, for bounds on memory that are to hold, and huge pages for the many
 * that a start makes.
 */
#ifndef CORE_HEAP_H
#define CORE_HEAP_H

#include <stddef.h>

/* Bytes of the heap for an allocation of size: glibc adds a word, and rounds up to two. */
static inline size_t heap_bytes(size_t size)
{
	size_t bytes = (size + sizeof(size_t) + 15) & ~(size_t)15;

	return bytes < 32 ? 32 : bytes;
}

/*
 * Has the next so many bytes of the heap come in huge pages, where the kernel has them, so that
 * they are made by a few faults and not by thousands: most of the time of a start went into those.
 * What is not used costs nothing. For a process that is about to need most of it, with one thread
 * so far.
 */
void heap_use_huge_pages(size_t bytes);
/*
 * Has what was not used of them come in small pages from now on: to clear a huge one takes
 * milliseconds, in which whoever needs a few bytes of it holds up all that wait for him.
 */
void heap_use_small_pages(void);

#endif
