/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work that can hang, done by threads that can be left behind.
 *
 * Whoever opens, stats or reads what another process maps may wait for a server that never answers,
 * and no timeout or signal of ours ends such a wait. So the work is cut into steps, a thread of the
 * offload does them one after the other, and who asked waits for that thread only as long as it
 * gets on: a step that takes longer than the patience allows is given up, and another thread goes
 * on behind it. The thread that hangs comes back or not; while it does not, further steps with the
 * same key are given up at once, so that a dead server costs one thread and one wait.
 *
 * A step that uses the time to compute does not hang, and is given up only after a dozen times the
 * patience. It is to bound its work so that this does not happen, for its key goes with it.
 *
 * Threads are made when there is work, and idle ones sleep without waking up. Lock order: the
 * offload's lock is not held while a step runs; it is held for count(), key() and done(), which
 * take no lock.
 */
#ifndef CORE_OFFLOAD_H
#define CORE_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct offload;

struct offload_work {
	/* How many steps there are. Asked again after each, so that one can make others. NULL: 1.
	 */
	size_t (*count)(void *arg);
	/* Does step `index`. It owns what it writes until it returns. */
	void (*step)(void *arg, size_t index);
	/*
	 * Called right after a step that came to its end in time, before the next one: what it
	 * wrote may be looked at from here on. What the others write, never.
	 */
	void (*done)(void *arg, size_t index);
	/* What the step could hang on: a device, a process. */
	uint64_t (*key)(void *arg, size_t index);
	/* Called once, on any thread, when neither the asker nor a step uses arg any more. */
	void (*release)(void *arg);
};

#define OFFLOAD_PATIENCE_NS (UINT64_C(5) * 1000000000)

/* patience_ns: how long a step may wait for somebody else. -ENOMEM. */
int offload_create(uint64_t patience_ns, struct offload **ret);
/* Returns at once. What still hangs keeps what it needs. NULL is fine. */
void offload_destroy(struct offload *offload);
DEFINE_CLEANUP(offload, struct offload *, offload_destroy)

/*
 * Does the steps in order and waits for them, as far as they come to an end. arg is the job's from
 * here on, also on failure, and is there until offload_drop() at least. -ENOMEM; -EAGAIN when too
 * many threads hang already or none could be had.
 */
struct offload_job;
int offload_run(struct offload *offload, const struct offload_work *work, void *arg,
		struct offload_job **ret);
/* Gives the job back, in a thread that holds no lock. NULL is fine. */
void offload_drop(struct offload_job *job);
DEFINE_CLEANUP(offload_job, struct offload_job *, offload_drop)

/* Threads that hang in a step right now, and steps given up since the start. */
void offload_counts(struct offload *offload, unsigned int *ret_hung, uint64_t *ret_given_up);

#endif
