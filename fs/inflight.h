/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which requests have been received and not answered, for kernels that cannot send them again
 * (before 6.9): whoever takes over answers them, so that nobody waits for ever, and who walked a
 * path walks it again.
 *
 * The list outlives the process (core/carry.h). It has no lock: a request is one number.
 */
#ifndef FS_INFLIGHT_H
#define FS_INFLIGHT_H

#include <stddef.h>
#include <stdint.h>

struct inflight;

/* The list that a process left, or an empty one. -ENOMEM. */
int inflight_create(struct inflight **ret);
void inflight_destroy(struct inflight *list); /* NULL is fine */

void inflight_add(struct inflight *list, uint64_t unique, uint32_t opcode);
void inflight_remove(struct inflight *list, uint64_t unique);

/*
 * Where this thread receives requests of up to len bytes: what it has received last is known to
 * whoever takes over though it died before it could say so. NULL: no memory.
 */
void *inflight_buffer(size_t len);

/* Answers all that are there on the device; undo is told of those that were not answered before. */
void inflight_answer(struct inflight *list, int dev_fd, void (*undo)(void *arg, uint64_t unique),
		     void *arg);

#endif
