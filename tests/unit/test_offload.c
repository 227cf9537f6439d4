/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "core/offload.h"

#define PATIENCE_NS (UINT64_C(100) * 1000000)

/* Steps that count, or wait for `gate` where `hangs` says so. */
struct steps {
	uint64_t hangs; /* a bit a step */
	uint64_t keys;	/* how many different keys */
	sem_t gate;
	atomic_int entered[64];
	atomic_int released;
};

static void step(void *arg, size_t index)
{
	struct steps *steps = arg;

	atomic_fetch_add(&steps->entered[index], 1);
	if (steps->hangs & UINT64_C(1) << index)
		sem_wait(&steps->gate);
}

static uint64_t key(void *arg, size_t index)
{
	struct steps *steps = arg;

	return index % steps->keys;
}

static void release(void *arg)
{
	struct steps *steps = arg;

	atomic_fetch_add(&steps->released, 1);
}

static const struct offload_work work = {step, key, release};

static void init(struct steps *steps, uint64_t hangs, uint64_t keys)
{
	*steps = (struct steps){.hangs = hangs, .keys = keys};
	sem_init(&steps->gate, 0, 0);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Waits for what another thread is about to do. */
static void wait_for(atomic_int *value, int wanted)
{
	for (int i = 0; i < 10000 && atomic_load(value) != wanted; i++)
		usleep(1000);
	assert_int_equal(atomic_load(value), wanted);
}

static void test_all_done(void **state)
{
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, 0, 64);
	assert_int_equal(offload_create(PATIENCE_NS, &offload), 0);
	assert_int_equal(offload_run(offload, &work, &steps, 64, &job), 0);
	for (int i = 0; i < 64; i++) {
		assert_true(offload_done(job, i));
		assert_int_equal(atomic_load(&steps.entered[i]), 1);
	}
	assert_int_equal(atomic_load(&steps.released), 0);
	offload_drop(job);
	wait_for(&steps.released, 1);
	assert_int_equal(offload_run(offload, &work, &steps, 0, &job), 0);
	offload_drop(job);
	wait_for(&steps.released, 2);
	offload_destroy(offload);
}

/* One step hangs: it alone is given up, and its key with it for as long as it hangs. */
static void test_hung_step(void **state)
{
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;
	unsigned int hung;
	uint64_t given_up;

	init(&steps, 1 << 2, 8);
	assert_int_equal(offload_create(PATIENCE_NS, &offload), 0);
	uint64_t start = now_ns();

	assert_int_equal(offload_run(offload, &work, &steps, 16, &job), 0);
	assert_true(now_ns() - start >= PATIENCE_NS);
	for (int i = 0; i < 16; i++) {
		/* Step 10 has the key of step 2. */
		assert_int_equal(offload_done(job, i), i != 2 && i != 10);
		assert_int_equal(atomic_load(&steps.entered[i]), i != 10);
	}
	offload_counts(offload, &hung, &given_up);
	assert_int_equal(hung, 1);
	assert_int_equal(given_up, 2);
	offload_drop(job);

	/* The next one does not wait, and does not touch it. */
	start = now_ns();
	assert_int_equal(offload_run(offload, &work, &steps, 4, &job), 0);
	assert_true(now_ns() - start < PATIENCE_NS);
	assert_int_equal(atomic_load(&steps.entered[2]), 1);
	assert_false(offload_done(job, 2));
	assert_true(offload_done(job, 3));
	offload_drop(job);
	wait_for(&steps.released, 1);

	/* It comes back: what was kept for it goes, and the key works again. */
	steps.hangs = 0;
	sem_post(&steps.gate);
	wait_for(&steps.released, 2);
	for (int i = 0; i < 10000 && hung; i++) {
		offload_counts(offload, &hung, &given_up);
		usleep(1000);
	}
	assert_int_equal(hung, 0);
	assert_int_equal(offload_run(offload, &work, &steps, 4, &job), 0);
	assert_true(offload_done(job, 2));
	offload_drop(job);
	offload_destroy(offload);
}

/* All of them hang: a wait for each key, and then the end. */
static void test_all_hang(void **state)
{
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, UINT64_MAX, 3);
	assert_int_equal(offload_create(PATIENCE_NS, &offload), 0);
	uint64_t start = now_ns();

	assert_int_equal(offload_run(offload, &work, &steps, 9, &job), 0);
	assert_true(now_ns() - start >= 3 * PATIENCE_NS);
	for (int i = 0; i < 9; i++)
		assert_false(offload_done(job, i));
	offload_drop(job);
	/* Destroyed with threads inside: they keep what they need. */
	offload_destroy(offload);
	assert_int_equal(atomic_load(&steps.released), 0);
	for (int i = 0; i < 3; i++)
		sem_post(&steps.gate);
	wait_for(&steps.released, 1);
}

/* Steps that are slow, but not too slow, are waited for, however many they are. */
static void slow_step(void *arg, size_t index)
{
	usleep(PATIENCE_NS / 1000 / 5);
	step(arg, index);
}

static void test_slow_steps(void **state)
{
	static const struct offload_work slow = {slow_step, key, release};
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, 0, 64);
	/* Much more than a step takes, for the machine may be busy. */
	assert_int_equal(offload_create(PATIENCE_NS * 10, &offload), 0);
	assert_int_equal(offload_run(offload, &slow, &steps, 60, &job), 0);
	for (int i = 0; i < 60; i++)
		assert_true(offload_done(job, i));
	offload_drop(job);
	offload_destroy(offload);
}

struct asker {
	struct offload *offload;
	struct steps *steps;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	struct offload_job *job;

	for (int i = 0; i < 200; i++) {
		if (offload_run(asker->offload, &work, asker->steps, 16, &job) != 0)
			return (void *)1;
		for (int j = 0; j < 16; j++)
			if (!offload_done(job, j))
				return (void *)2;
		offload_drop(job);
	}
	return NULL;
}

static void test_many_askers(void **state)
{
	struct offload *offload;
	struct steps steps;
	pthread_t threads[8];

	init(&steps, 0, 64);
	assert_int_equal(offload_create(PATIENCE_NS * 100, &offload), 0);
	struct asker asker = {offload, &steps};

	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &asker), 0);
	for (int i = 0; i < 8; i++) {
		void *failed;

		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	wait_for(&steps.released, 1600);
	assert_int_equal(atomic_load(&steps.entered[15]), 1600);
	offload_destroy(offload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_done),    cmocka_unit_test(test_hung_step),
		cmocka_unit_test(test_all_hang),    cmocka_unit_test(test_slow_steps),
		cmocka_unit_test(test_many_askers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
