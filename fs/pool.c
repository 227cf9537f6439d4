/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pool of workers: see pool.h. One lock a pool; no job is run or dropped with it held. */
#include "fs/pool.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "core/rights.h"

#define IDLE_SECONDS 5

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work;  /* a job has come, or the end */
	pthread_cond_t ended; /* a worker has ended */
	struct job *first, **last;
	size_t queued, max_queue;
	unsigned int workers, idle, max_workers;
	bool stopped;
	/* Where workers may run, whatever the thread that starts them is bound to. */
	cpu_set_t cpus;
	bool has_cpus;
};

int pool_create(unsigned int max_workers, size_t max_queue, struct pool **ret)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	pthread_condattr_t attr;

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->work, &attr);
	pthread_cond_init(&pool->ended, &attr);
	pthread_condattr_destroy(&attr);
	pool->last = &pool->first;
	pool->max_workers = max_workers;
	pool->max_queue = max_queue;
	pool->has_cpus = sched_getaffinity(0, sizeof(pool->cpus), &pool->cpus) == 0;
	*ret = pool;
	return 0;
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	pthread_cond_destroy(&pool->ended);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

static struct timespec in_milliseconds(uint64_t milliseconds)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	uint64_t ns = time.tv_nsec + milliseconds * 1000000;
	time.tv_sec += ns / NSEC_PER_SEC;
	time.tv_nsec = ns % NSEC_PER_SEC;
	return time;
}

static struct job *take_first(struct pool *pool)
{
	struct job *job = pool->first;

	pool->first = job->next;
	if (!pool->first)
		pool->last = &pool->first;
	pool->queued--;
	return job;
}

/* Waits for a job. NULL: it is time to end. */
static struct job *next_job(struct pool *pool)
{
	struct timespec deadline = in_milliseconds(IDLE_SECONDS * 1000);
	int r = 0;

	while (!pool->stopped && !pool->first && r != ETIMEDOUT) {
		pool->idle++;
		r = pthread_cond_timedwait(&pool->work, &pool->lock, &deadline);
		pool->idle--;
	}
	return pool->stopped || !pool->first ? NULL : take_first(pool);
}

static void *work(void *arg)
{
	struct pool *pool = arg;
	struct job *job;

	rights_begin_thread();
	pthread_mutex_lock(&pool->lock);
	while ((job = next_job(pool))) {
		pthread_mutex_unlock(&pool->lock);
		job->run(job);
		pthread_mutex_lock(&pool->lock);
	}
	pool->workers--;
	pthread_cond_broadcast(&pool->ended);
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static int start_worker(struct pool *pool)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pool->has_cpus)
		pthread_attr_setaffinity_np(&attr, sizeof(pool->cpus), &pool->cpus);
	int r = pthread_create(&thread, &attr, work, pool);
	pthread_attr_destroy(&attr);
	if (r == 0)
		pool->workers++;
	return -r;
}

int pool_submit(struct pool *pool, struct job *job, bool always)
{
	LOCKED(&pool->lock);

	if (pool->stopped)
		return -ESHUTDOWN;
	/* A worker that was woken counts as idle until it runs. */
	if (pool->idle <= pool->queued) {
		if (pool->workers < pool->max_workers) {
			if (start_worker(pool) < 0 && !pool->workers)
				return -EAGAIN;
		} else if (!always && pool->queued >= pool->max_queue) {
			return -EBUSY;
		}
	}
	job->next = NULL;
	*pool->last = job;
	pool->last = &job->next;
	pool->queued++;
	pthread_cond_signal(&pool->work);
	return 0;
}

bool pool_cancel(struct pool *pool, struct job *job)
{
	LOCKED(&pool->lock);

	for (struct job **link = &pool->first; *link; link = &(*link)->next) {
		if (*link != job)
			continue;
		*link = job->next;
		if (!job->next)
			pool->last = link;
		pool->queued--;
		return true;
	}
	return false;
}

bool pool_stop(struct pool *pool, unsigned int milliseconds)
{
	struct timespec deadline = in_milliseconds(milliseconds);
	int r = 0;

	pthread_mutex_lock(&pool->lock);
	pool->stopped = true;
	pthread_cond_broadcast(&pool->work);
	while (pool->workers && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&pool->ended, &pool->lock, &deadline);
	while (pool->first) {
		struct job *job = take_first(pool);

		pthread_mutex_unlock(&pool->lock);
		job->drop(job);
		pthread_mutex_lock(&pool->lock);
	}
	bool ended = !pool->workers;
	pthread_mutex_unlock(&pool->lock);
	return ended;
}

void pool_get_stats(struct pool *pool, struct pool_stats *ret)
{
	LOCKED(&pool->lock);
	ret->workers = pool->workers;
	ret->busy = pool->workers - pool->idle;
	ret->queued = pool->queued;
}
