/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The heap in huge pages: see heap.h. */
#include "core/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((uintptr_t)2 << 20)
/* More than glibc asks for at once by itself. */
#define GROWING_STEP ((size_t)256 << 10)

/* What is asked for in huge pages. */
static struct {
	void *start;
	size_t len;
} huge;

/*
 * glibc asks for memory by sbrk(), and for M_TOP_PAD more than it needs: that is what huge pages
 * are asked for. What lies ahead of the first of them stays allocated, and untouched, or it would
 * be used up first. Up to its end nothing may have been touched of what comes after: the kernel
 * makes a huge page only where there is no small one.
 */
void heap_use_huge_pages(size_t bytes)
{
	static void *ahead;

	/* Blocks of some MiB are to come from there too, and all of it is kept until it is used. */
	mallopt(M_MMAP_THRESHOLD, 8 << 20);
	mallopt(M_TRIM_THRESHOLD, 2 * bytes);
	mallopt(M_TOP_PAD, bytes);
	ahead = malloc(GROWING_STEP);
	mallopt(M_TOP_PAD, 128 << 10);
	if (!ahead)
		return;

	uintptr_t here = (uintptr_t)ahead;
	uintptr_t start = (here + GROWING_STEP + HUGE_PAGE) & ~(HUGE_PAGE - 1);
	uintptr_t end = (uintptr_t)sbrk(0) & ~(HUGE_PAGE - 1);

	/* An allocator of another kind has its memory elsewhere. */
	if (start >= end) {
		free(ahead);
		return;
	}
	ahead = realloc(ahead, start - here - 2 * sizeof(size_t)) ?: ahead;
	/* A kernel without huge pages goes on with small ones. */
	huge.start = (void *)start;
	huge.len = end - start;
	madvise(huge.start, huge.len, MADV_HUGEPAGE);
}

void heap_use_small_pages(void)
{
	if (huge.len)
		madvise(huge.start, huge.len, MADV_NOHUGEPAGE);
	huge.len = 0;
}
