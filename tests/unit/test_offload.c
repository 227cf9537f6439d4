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

#include "core/clock.h"
#include "core/offload.h"

#define PATIENCE_NS (UINT64_C(100) * 1000000)

/* Steps that count, or wait for `gate` where `hangs` says so. */
struct steps {
	_Atomic(uint64_t) hangs; /* a bit a step */
	uint64_t keys;		 /* how many different keys */
	sem_t gate;
	size_t count;
	atomic_int entered[64];
	bool done[64];
	atomic_int released;
};

static void step(void *arg, size_t index)
{
	struct steps *steps = arg;

	atomic_fetch_add(&steps->entered[index], 1);
	if (atomic_load(&steps->hangs) & UINT64_C(1) << index)
		sem_wait(&steps->gate);
}

static size_t count(void *arg)
{
	struct steps *steps = arg;

	return steps->count;
}

static void done(void *arg, size_t index)
{
	struct steps *steps = arg;

	steps->done[index] = true;
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

static const struct offload_work work = {count, step, done, key, release};

static void init(struct steps *steps, uint64_t hangs, uint64_t keys)
{
	*steps = (struct steps){.hangs = hangs, .keys = keys};
	sem_init(&steps->gate, 0, 0);
}

static int run_steps(struct offload *offload, const struct offload_work *how, struct steps *steps,
		     size_t number, struct offload_job **ret)
{
	steps->count = number;
	for (size_t i = 0; i < ARRAY_SIZE(steps->done); i++)
		steps->done[i] = false;
	return offload_run(offload, how, steps, ret);
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
	assert_int_equal(run_steps(offload, &work, &steps, 64, &job), 0);
	for (int i = 0; i < 64; i++) {
		assert_true(steps.done[i]);
		assert_int_equal(atomic_load(&steps.entered[i]), 1);
	}
	assert_int_equal(atomic_load(&steps.released), 0);
	offload_drop(job);
	wait_for(&steps.released, 1);
	assert_int_equal(run_steps(offload, &work, &steps, 0, &job), 0);
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
	uint64_t start = monotonic_ns();

	assert_int_equal(run_steps(offload, &work, &steps, 16, &job), 0);
	assert_true(monotonic_ns() - start >= PATIENCE_NS);
	for (int i = 0; i < 16; i++) {
		/* Step 10 has the key of step 2. */
		assert_int_equal(steps.done[i], i != 2 && i != 10);
		assert_int_equal(atomic_load(&steps.entered[i]), i != 10);
	}
	offload_counts(offload, &hung, &given_up);
	assert_int_equal(hung, 1);
	assert_int_equal(given_up, 2);
	offload_drop(job);

	/* The next one does not wait, and does not touch it. */
	start = monotonic_ns();
	assert_int_equal(run_steps(offload, &work, &steps, 4, &job), 0);
	assert_true(monotonic_ns() - start < PATIENCE_NS);
	assert_int_equal(atomic_load(&steps.entered[2]), 1);
	assert_false(steps.done[2]);
	assert_true(steps.done[3]);
	offload_drop(job);
	wait_for(&steps.released, 1);

	/* It comes back: what was kept for it goes, and the key works again. */
	atomic_store(&steps.hangs, 0);
	sem_post(&steps.gate);
	wait_for(&steps.released, 2);
	for (int i = 0; i < 10000 && hung; i++) {
		offload_counts(offload, &hung, &given_up);
		usleep(1000);
	}
	assert_int_equal(hung, 0);
	assert_int_equal(run_steps(offload, &work, &steps, 4, &job), 0);
	assert_true(steps.done[2]);
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
	uint64_t start = monotonic_ns();

	assert_int_equal(run_steps(offload, &work, &steps, 9, &job), 0);
	assert_true(monotonic_ns() - start >= 3 * PATIENCE_NS);
	for (int i = 0; i < 9; i++)
		assert_false(steps.done[i]);
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
	static const struct offload_work slow = {count, slow_step, done, key, release};
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, 0, 64);
	/* Much more than a step takes, for the machine may be busy. */
	assert_int_equal(offload_create(PATIENCE_NS * 10, &offload), 0);
	assert_int_equal(run_steps(offload, &slow, &steps, 60, &job), 0);
	for (int i = 0; i < 60; i++)
		assert_true(steps.done[i]);
	offload_drop(job);
	offload_destroy(offload);
}

/* One that computes for longer than the patience does not hang, and costs its key nothing. */
#define BUSY_PATIENCE_NS (4 * PATIENCE_NS) /* with a share of a CPU that many want */

static void busy_step(void *arg, size_t index)
{
	uint64_t start = monotonic_ns();

	while (index == 1 && monotonic_ns() - start < 3 * BUSY_PATIENCE_NS)
		;
	step(arg, index);
}

static void test_busy_step(void **state)
{
	static const struct offload_work busy = {count, busy_step, done, key, release};
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;
	unsigned int hung;
	uint64_t given_up;

	init(&steps, 1 << 3, 2);
	assert_int_equal(offload_create(BUSY_PATIENCE_NS, &offload), 0);
	assert_int_equal(run_steps(offload, &busy, &steps, 4, &job), 0);
	/* Steps 1 and 3 have one key. The last one hangs after all. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(steps.done[i], i != 3);
	offload_counts(offload, &hung, &given_up);
	assert_int_equal(hung, 1);
	assert_int_equal(given_up, 1);
	sem_post(&steps.gate);
	offload_drop(job);
	wait_for(&steps.released, 1);
	offload_destroy(offload);
}

/* But not for ever: it may be somebody else who lets it compute. */
static void endless_step(void *arg, size_t index)
{
	struct steps *steps = arg;

	while (index == 0 && atomic_load(&steps->hangs))
		;
	step(arg, index);
}

static void test_endless_step(void **state)
{
	static const struct offload_work endless = {count, endless_step, done, key, release};
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, UINT64_C(1) << 63, 64);
	assert_int_equal(offload_create(PATIENCE_NS, &offload), 0);
	assert_int_equal(run_steps(offload, &endless, &steps, 2, &job), 0);
	assert_false(steps.done[0]);
	assert_true(steps.done[1]);
	atomic_store(&steps.hangs, 0);
	offload_drop(job);
	wait_for(&steps.released, 1);
	offload_destroy(offload);
}

/* Each asker has steps of its own. */
struct asker {
	struct offload *offload;
	struct steps steps;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	struct offload_job *job;

	for (int i = 0; i < 200; i++) {
		if (run_steps(asker->offload, &work, &asker->steps, 16, &job) != 0)
			return (void *)1;
		for (int j = 0; j < 16; j++)
			if (!asker->steps.done[j])
				return (void *)2;
		offload_drop(job);
	}
	return NULL;
}

static void test_many_askers(void **state)
{
	static struct asker askers[8];
	struct offload *offload;
	pthread_t threads[8];

	assert_int_equal(offload_create(PATIENCE_NS * 100, &offload), 0);
	for (int i = 0; i < 8; i++) {
		init(&askers[i].steps, 0, 64);
		askers[i].offload = offload;
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
	}
	for (int i = 0; i < 8; i++) {
		void *failed;

		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
		wait_for(&askers[i].steps.released, 200);
		assert_int_equal(atomic_load(&askers[i].steps.entered[15]), 200);
	}
	offload_destroy(offload);
}

/* A step that makes another: the way of a scan, whose maps say which files there are. */
static void growing_step(void *arg, size_t index)
{
	struct steps *steps = arg;

	if (index < 9)
		steps->count++;
}

static void test_growing(void **state)
{
	static const struct offload_work growing = {count, growing_step, done, key, release};
	struct offload *offload;
	struct offload_job *job;
	struct steps steps;

	init(&steps, 0, 64);
	assert_int_equal(offload_create(PATIENCE_NS * 10, &offload), 0);
	assert_int_equal(run_steps(offload, &growing, &steps, 1, &job), 0);
	assert_int_equal(steps.count, 10);
	for (int i = 0; i < 10; i++)
		assert_true(steps.done[i]);
	offload_drop(job);
	offload_destroy(offload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_done),    cmocka_unit_test(test_hung_step),
		cmocka_unit_test(test_all_hang),    cmocka_unit_test(test_slow_steps),
		cmocka_unit_test(test_many_askers), cmocka_unit_test(test_growing),
		cmocka_unit_test(test_busy_step),   cmocka_unit_test(test_endless_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
