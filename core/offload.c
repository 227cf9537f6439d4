/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads for work that can hang: see offload.h. */
#include "core/offload.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/clock.h"
#include "core/rights.h"

/* Working at a time; more would not help, for what they do is mostly the kernel's work. */
#define RUNNING_MAX 4
/* Left behind at a time. Past it whatever would need a thread is given up. */
#define HUNG_MAX 256
/* Sleeping for the next work. */
#define IDLE_MAX 2
/*
 * A step is at work, and not waiting, if it was on a CPU for that part of the second half of the
 * patience: it gets no more of one that many want. Then it has another half. But a server that
 * hands out a byte at a time keeps one at work too, so it is believed no more than so often.
 */
#define BUSY_PART 64
#define BUSY_MAX  24

struct offload_job {
	struct offload *offload;
	struct offload_job *next_queued;
	unsigned int refs; /* the asker's and a thread's each */
	const struct offload_work *work;
	void *arg;

	size_t next; /* the step to be done next */
	bool finished;
	bool running;	     /* step next - 1 is being done by the present thread */
	uint64_t started_ns; /* as if: a step that is at work begins anew */
	clockid_t cpu_clock; /* of the present thread */
	bool half_over;	     /* of the patience, and then that clock said cpu_ns */
	uint64_t cpu_ns;
	unsigned int busy; /* how often it was found at work */
	/* Raised when a thread is left behind: it then knows that it is no longer the one. */
	unsigned int generation;
	pthread_cond_t changed;
};

struct offload {
	pthread_mutex_t lock;
	unsigned int refs; /* the owner's and a thread's each */
	uint64_t patience_ns;
	bool closed;
	struct offload_job *queue, **queue_end;
	unsigned int queued;
	pthread_cond_t work;
	unsigned int running, idle;
	uint64_t hung_keys[HUNG_MAX];
	unsigned int hung;
	uint64_t given_up;
};

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	return clock_gettime(clock, &now) < 0 ? 0 : now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static int init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr) != 0)
		return -ENOMEM;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int r = pthread_cond_init(cond, &attr);

	pthread_condattr_destroy(&attr);
	return -r;
}

int offload_create(uint64_t patience_ns, struct offload **ret)
{
	_cleanup_free_ struct offload *offload = calloc(1, sizeof(*offload));

	if (!offload)
		return -ENOMEM;
	int r = init_cond(&offload->work);

	if (r < 0)
		return r;
	pthread_mutex_init(&offload->lock, NULL);
	offload->refs = 1;
	offload->patience_ns = patience_ns;
	offload->queue_end = &offload->queue;
	*ret = take_ptr(offload);
	return 0;
}

/* Drops a reference and the lock. */
static void unlock_unref(struct offload *offload)
{
	bool last = --offload->refs == 0;

	pthread_mutex_unlock(&offload->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&offload->lock);
	pthread_cond_destroy(&offload->work);
	free(offload);
}

void offload_destroy(struct offload *offload)
{
	if (!offload)
		return;
	pthread_mutex_lock(&offload->lock);
	offload->closed = true;
	pthread_cond_broadcast(&offload->work);
	unlock_unref(offload);
}

/* With the lock held, which is let go of where the last reference goes. */
static void drop_job(struct offload_job *job)
{
	struct offload *offload = job->offload;

	if (--job->refs)
		return;
	pthread_mutex_unlock(&offload->lock);
	job->work->release(job->arg);
	pthread_cond_destroy(&job->changed);
	free(job);
	pthread_mutex_lock(&offload->lock);
}

void offload_drop(struct offload_job *job)
{
	if (!job)
		return;
	struct offload *offload = job->offload;

	pthread_mutex_lock(&offload->lock);
	drop_job(job);
	unlock_unref(offload);
}

static bool key_hangs(const struct offload *offload, uint64_t key)
{
	for (unsigned int i = 0; i < offload->hung; i++)
		if (offload->hung_keys[i] == key)
			return true;
	return false;
}

static void forget_hung(struct offload *offload, uint64_t key)
{
	for (unsigned int i = 0; i < offload->hung; i++) {
		if (offload->hung_keys[i] != key)
			continue;
		offload->hung_keys[i] = offload->hung_keys[--offload->hung];
		return;
	}
}

static size_t count_steps(const struct offload_job *job)
{
	return job->work->count ? job->work->count(job->arg) : 1;
}

/* Does the steps of a job until its end, or until this thread was left behind: true, then. */
static bool run_job(struct offload *offload, struct offload_job *job)
{
	unsigned int generation = job->generation;

	pthread_getcpuclockid(pthread_self(), &job->cpu_clock);
	while (job->next < count_steps(job)) {
		size_t index = job->next++;
		uint64_t key = job->work->key(job->arg, index);

		if (key_hangs(offload, key)) {
			offload->given_up++;
			continue;
		}
		job->running = true;
		job->started_ns = monotonic_ns();
		job->half_over = false;
		job->busy = 0;
		pthread_mutex_unlock(&offload->lock);
		job->work->step(job->arg, index);
		pthread_mutex_lock(&offload->lock);
		if (job->generation != generation) {
			forget_hung(offload, key);
			return true;
		}
		job->running = false;
		job->work->done(job->arg, index);
	}
	job->finished = true;
	pthread_cond_signal(&job->changed);
	return false;
}

static void *worker(void *arg)
{
	struct offload *offload = arg;

	rights_begin_thread();
	pthread_mutex_lock(&offload->lock);
	for (;;) {
		struct offload_job *job = offload->queue;

		if (job) {
			offload->queue = job->next_queued;
			if (!offload->queue)
				offload->queue_end = &offload->queue;
			offload->queued--;
			bool left_behind = run_job(offload, job);

			drop_job(job);
			/* Whoever left it behind has counted it out already. */
			if (left_behind)
				break;
		} else if (offload->closed || offload->idle >= IDLE_MAX) {
			offload->running--;
			break;
		} else {
			offload->idle++;
			offload->running--;
			pthread_cond_wait(&offload->work, &offload->lock);
			offload->idle--;
			offload->running++;
		}
	}
	unlock_unref(offload);
	return NULL;
}

static int start_thread(struct offload *offload)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	offload->refs++;
	offload->running++;
	int r = pthread_create(&thread, &attr, worker, offload);

	if (r != 0) {
		offload->refs--;
		offload->running--;
	}
	pthread_attr_destroy(&attr);
	return -r;
}

/* Queues a job, with a reference of the queue's, and sees to it that somebody takes it. */
static int queue_job(struct offload *offload, struct offload_job *job)
{
	if (offload->idle > offload->queued) {
		pthread_cond_signal(&offload->work);
	} else if (offload->running < RUNNING_MAX) {
		int r = start_thread(offload);

		if (r < 0 && !offload->running)
			return r;
	}
	job->refs++;
	job->next_queued = NULL;
	*offload->queue_end = job;
	offload->queue_end = &job->next_queued;
	offload->queued++;
	return 0;
}

/*
 * The thread that does a step of the job has been at it for too long: another one goes on. Where
 * there can be none, the job ends here.
 */
static void leave_behind(struct offload *offload, struct offload_job *job)
{
	job->generation++;
	job->running = false;
	offload->running--;
	offload->given_up++;
	if (offload->hung < HUNG_MAX) {
		offload->hung_keys[offload->hung++] = job->work->key(job->arg, job->next - 1);
		if (queue_job(offload, job) == 0)
			return;
	}
	job->finished = true;
}

static void wait_until(struct offload *offload, struct offload_job *job, uint64_t deadline)
{
	struct timespec until = {deadline / NSEC_PER_SEC, deadline % NSEC_PER_SEC};

	pthread_cond_timedwait(&job->changed, &offload->lock, &until);
}

/* Half of the patience is over, and the other half begins. */
static void begin_half(const struct offload *offload, struct offload_job *job, uint64_t now)
{
	job->half_over = true;
	job->cpu_ns = read_clock(job->cpu_clock);
	job->started_ns = now - offload->patience_ns / 2;
}

/* All of it is: is the step at work all the same? */
static bool is_busy(const struct offload *offload, const struct offload_job *job)
{
	uint64_t enough = offload->patience_ns / 2 / BUSY_PART;

	return job->busy < BUSY_MAX && read_clock(job->cpu_clock) >= job->cpu_ns + enough;
}

/* Waits for a job that was queued, for as long as it gets on. */
static void wait_for(struct offload *offload, struct offload_job *job)
{
	while (!job->finished) {
		uint64_t now = monotonic_ns();
		uint64_t started = job->running ? job->started_ns : now;
		uint64_t half = started + offload->patience_ns / 2;
		uint64_t deadline = started + offload->patience_ns;

		if (now < half) {
			wait_until(offload, job, half);
		} else if (!job->half_over) {
			begin_half(offload, job, now);
		} else if (now < deadline) {
			wait_until(offload, job, deadline);
		} else if (is_busy(offload, job)) {
			job->busy++;
			begin_half(offload, job, now);
		} else {
			leave_behind(offload, job);
		}
	}
}

static int create_job(struct offload *offload, const struct offload_work *work, void *arg,
		      struct offload_job **ret)
{
	_cleanup_free_ struct offload_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	int r = init_cond(&job->changed);

	if (r < 0)
		return r;
	job->offload = offload;
	job->refs = 1;
	job->work = work;
	job->arg = arg;
	*ret = take_ptr(job);
	return 0;
}

int offload_run(struct offload *offload, const struct offload_work *work, void *arg,
		struct offload_job **ret)
{
	struct offload_job *job;
	int r = create_job(offload, work, arg, &job);

	if (r < 0) {
		work->release(arg);
		return r;
	}
	pthread_mutex_lock(&offload->lock);
	offload->refs++;
	r = offload->hung == HUNG_MAX ? -EAGAIN : queue_job(offload, job);
	if (r == 0)
		wait_for(offload, job);
	pthread_mutex_unlock(&offload->lock);
	if (r < 0)
		offload_drop(job);
	else
		*ret = job;
	return r;
}

void offload_counts(struct offload *offload, unsigned int *ret_hung, uint64_t *ret_given_up)
{
	LOCKED(&offload->lock);
	*ret_hung = offload->hung;
	*ret_given_up = offload->given_up;
}
