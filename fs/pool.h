/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pool of workers for what may take long or never end. Workers are started as jobs come, up to a
 * bound, and end when they have had nothing to do for a while. Jobs beyond that wait in a queue of
 * bounded length, from which each can be taken back.
 */
#ifndef FS_POOL_H
#define FS_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"

struct pool;

/* Part of what the job is about, and freed by it. */
struct job {
	void (*run)(struct job *job);
	/* Instead of run, when the pool ends before the job's turn. */
	void (*drop)(struct job *job);
	struct job *next;
};

int pool_create(unsigned int max_workers, size_t max_queue, struct pool **ret);
/* Frees a pool whose workers have ended: see pool_stop(). NULL is fine. */
void pool_destroy(struct pool *pool);
DEFINE_CLEANUP(pool, struct pool *, pool_destroy)
#define _cleanup_pool_ CLEANUP(pool_cleanup)

/*
 * Runs the job on a worker, now or later. -EBUSY: the queue is full, unless `always`. -EAGAIN:
 * there is no worker, and none could be started. -ESHUTDOWN: the pool is stopped.
 */
int pool_submit(struct pool *pool, struct job *job, bool always);
/* Takes a job back that no worker has begun. False: it is not in the queue. */
bool pool_cancel(struct pool *pool, struct job *job);

/*
 * Lets workers finish what they are at, and drops the rest. False if some have not ended after
 * milliseconds: then they hang, and what they use must stay.
 */
bool pool_stop(struct pool *pool, unsigned int milliseconds);

struct pool_stats {
	unsigned int workers, busy;
	size_t queued;
};
void pool_get_stats(struct pool *pool, struct pool_stats *ret);

#endif
