/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Strings stored once, in one piece of memory: a string is known by where it starts there, so equal
 * numbers are equal strings, and the piece can outlive the table that made it. Not for sharing
 * between threads.
 */
#ifndef CORE_INTERN_H
#define CORE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct intern_slot;

struct intern {
	char *data; /* NUL-terminated strings, one after the other */
	size_t len, size;
	struct intern_slot *slots;
	size_t slot_count, used;
	uint64_t seed;
};

/*
 * The number of the string of len bytes, none of which is NUL. ret_tag: a number of the caller's
 * for it, 0 at first; valid to the next call. -ENOMEM, -EFBIG past 4 GiB.
 */
int intern_add(struct intern *intern, const char *string, size_t len, uint32_t *ret,
	       uint32_t **ret_tag);
void intern_deinit(struct intern *intern);
#define _cleanup_intern_ CLEANUP(intern_deinit)

/* Hands the strings over, cut to their length, and frees the rest. NULL if there are none. */
char *intern_take(struct intern *intern, size_t *ret_len);

#endif
