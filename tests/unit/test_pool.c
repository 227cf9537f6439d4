/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pool of workers: bounds, taking back, and the end while something hangs. */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fs/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define WORKERS 2
#define QUEUE	3

struct test_job {
	struct job job; /* first */
	sem_t begun, go;
	atomic_bool ran, dropped;
};

static void run(struct job *job)
{
	struct test_job *test = (struct test_job *)job;

	sem_post(&test->begun);
	sem_wait(&test->go);
	atomic_store(&test->ran, true);
}

static void drop(struct job *job)
{
	atomic_store(&((struct test_job *)job)->dropped, true);
}

static void init(struct test_job *jobs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		jobs[i] = (struct test_job){.job = {.run = run, .drop = drop}};
		sem_init(&jobs[i].begun, 0, 0);
		sem_init(&jobs[i].go, 0, 0);
	}
}

static struct pool *make(void)
{
	struct pool *pool;

	assert_int_equal(pool_create(WORKERS, QUEUE, &pool), 0);
	return pool;
}

/* As many workers as may be, each at a job that waits. */
static void fill(struct pool *pool, struct test_job *jobs)
{
	for (size_t i = 0; i < WORKERS; i++) {
		assert_int_equal(pool_submit(pool, &jobs[i].job, false), 0);
		sem_wait(&jobs[i].begun);
	}
}

static void workers_come_as_they_are_needed(void **state)
{
	_cleanup_pool_ struct pool *pool = make();
	struct test_job jobs[WORKERS];
	struct pool_stats stats;

	init(jobs, WORKERS);
	pool_get_stats(pool, &stats);
	assert_int_equal(stats.workers, 0);
	fill(pool, jobs);
	pool_get_stats(pool, &stats);
	assert_int_equal(stats.workers, WORKERS);
	assert_int_equal(stats.busy, WORKERS);
	for (size_t i = 0; i < WORKERS; i++)
		sem_post(&jobs[i].go);
	assert_true(pool_stop(pool, 10000));
	for (size_t i = 0; i < WORKERS; i++)
		assert_true(jobs[i].ran);
}

static void the_queue_is_bounded(void **state)
{
	_cleanup_pool_ struct pool *pool = make();
	struct test_job jobs[WORKERS + QUEUE + 2];
	struct pool_stats stats;

	init(jobs, ARRAY_SIZE(jobs));
	fill(pool, jobs);
	for (size_t i = 0; i < QUEUE; i++)
		assert_int_equal(pool_submit(pool, &jobs[WORKERS + i].job, false), 0);
	assert_int_equal(pool_submit(pool, &jobs[WORKERS + QUEUE].job, false), -EBUSY);
	/* But for what must not be refused. */
	assert_int_equal(pool_submit(pool, &jobs[WORKERS + QUEUE + 1].job, true), 0);
	pool_get_stats(pool, &stats);
	assert_int_equal(stats.queued, QUEUE + 1);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		sem_post(&jobs[i].go);
	/* In the order in which they came. */
	sem_wait(&jobs[WORKERS + QUEUE + 1].begun);
	assert_true(pool_stop(pool, 10000));
	assert_true(jobs[WORKERS].ran);
	assert_false(jobs[WORKERS + QUEUE].ran || jobs[WORKERS + QUEUE].dropped);
	assert_true(jobs[WORKERS + QUEUE + 1].ran);
}

static void what_waits_can_be_taken_back(void **state)
{
	_cleanup_pool_ struct pool *pool = make();
	struct test_job jobs[WORKERS + 3];

	init(jobs, ARRAY_SIZE(jobs));
	fill(pool, jobs);
	for (size_t i = WORKERS; i < ARRAY_SIZE(jobs); i++)
		assert_int_equal(pool_submit(pool, &jobs[i].job, false), 0);
	/* The last, then the first; not what runs, nor what is gone. */
	assert_true(pool_cancel(pool, &jobs[WORKERS + 2].job));
	assert_true(pool_cancel(pool, &jobs[WORKERS].job));
	assert_false(pool_cancel(pool, &jobs[WORKERS].job));
	assert_false(pool_cancel(pool, &jobs[0].job));
	assert_int_equal(pool_submit(pool, &jobs[WORKERS].job, false), 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		sem_post(&jobs[i].go);
	sem_wait(&jobs[WORKERS].begun);
	assert_true(pool_stop(pool, 10000));
	assert_true(jobs[WORKERS].ran);
	assert_true(jobs[WORKERS + 1].ran);
	assert_false(jobs[WORKERS + 2].ran || jobs[WORKERS + 2].dropped);
}

static void what_hangs_does_not_hold_up_the_end(void **state)
{
	_cleanup_pool_ struct pool *pool = make();
	struct test_job jobs[WORKERS + 1];

	init(jobs, ARRAY_SIZE(jobs));
	fill(pool, jobs);
	assert_int_equal(pool_submit(pool, &jobs[WORKERS].job, false), 0);
	assert_false(pool_stop(pool, 10));
	assert_true(jobs[WORKERS].dropped);
	assert_false(jobs[WORKERS].ran);
	init(&jobs[WORKERS], 1);
	assert_int_equal(pool_submit(pool, &jobs[WORKERS].job, true), -ESHUTDOWN);
	for (size_t i = 0; i < WORKERS; i++)
		sem_post(&jobs[i].go);
	assert_true(pool_stop(pool, 10000));
}

static void a_worker_serves_many(void **state)
{
	_cleanup_pool_ struct pool *pool = make();
	struct pool_stats stats;

	for (int i = 0; i < 1000; i++) {
		struct test_job job;

		init(&job, 1);
		sem_post(&job.go);
		assert_int_equal(pool_submit(pool, &job.job, false), 0);
		sem_wait(&job.begun);
		while (!atomic_load(&job.ran))
			sched_yield();
	}
	pool_get_stats(pool, &stats);
	assert_in_range(stats.workers, 1, WORKERS);
	assert_true(pool_stop(pool, 10000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_come_as_they_are_needed),
		cmocka_unit_test(the_queue_is_bounded),
		cmocka_unit_test(what_waits_can_be_taken_back),
		cmocka_unit_test(what_hangs_does_not_hold_up_the_end),
		cmocka_unit_test(a_worker_serves_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
