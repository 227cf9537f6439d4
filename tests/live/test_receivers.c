/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the daemon's threads run: one receiver where its caller is, for a while, and no other. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/live/support.h"

/* The one CPU of a thread; -1: it may run on more. */
static int only_cpu(const char *status)
{
	const char *list = strstr(status, "\nCpus_allowed_list:\t");
	int cpu = -1, end = 0;

	assert_non_null(list);
	list += strlen("\nCpus_allowed_list:\t");
	return sscanf(list, "%d%n", &cpu, &end) == 1 && list[end] == '\n' ? cpu : -1;
}

static bool is_on(pid_t tid, const char *status, void *arg)
{
	return only_cpu(status) == *(int *)arg;
}

static bool is_elsewhere(pid_t tid, const char *status, void *arg)
{
	return !is_on(tid, status, arg);
}

/* How many of its threads are bound to the CPU. Each CPU has one that reads its ring. */
static size_t bound_to(const struct ksymfs *fs, int cpu)
{
	return ksymfs_count_threads(fs, is_on, &cpu);
}

struct awaited {
	const struct ksymfs *fs;
	int cpu;
	size_t count;
	bool ask;
};

static bool is_bound(void *arg)
{
	const struct awaited *awaited = arg;
	struct stat st;

	/* It goes when it has answered, and on a busy CPU is soon called home. */
	if (bound_to(awaited->fs, awaited->cpu) == awaited->count)
		return true;
	/* Two requests in a row tell another caller from one that passes by. */
	for (int i = 0; i < 2 && awaited->ask; i++)
		ksymfs_stat(awaited->fs, &st, "nothing");
	return bound_to(awaited->fs, awaited->cpu) == awaited->count;
}

static void assert_follows(struct ksymfs *fs, unsigned int nth)
{
	if (!pin_to_cpu(nth))
		skip_because("there are fewer than %u CPUs", nth + 1);
	int cpu = sched_getcpu();
	struct awaited alone = {fs, cpu, 1, false};
	struct awaited followed = {fs, cpu, 2, true};

	assert_true(wait_until(is_bound, &alone, 10));
	assert_true(wait_until(is_bound, &followed, 30));
	/* Workers that are started meanwhile are nobody's company. */
	free(ksymfs_read(fs, NULL, "usdt/self/objects"));
	assert_true(bound_to(fs, cpu) <= 2);
	assert_true(wait_until(is_bound, &alone, 10));
}

static void test_follows_caller(void **state)
{
	assert_follows(*state, 0);
	assert_follows(*state, 1);
	unpin_cpu();
}

/* From one CPU to the next without a rest, and nothing stays bound at the end. */
static void test_follows_moving_caller(void **state)
{
	struct ksymfs *fs = *state;

	for (unsigned int i = 0; i < 50; i++) {
		if (!pin_to_cpu(i % 2))
			skip_because("there is one CPU");
		struct awaited followed = {fs, sched_getcpu(), 2, true};

		assert_true(wait_until(is_bound, &followed, 30));
	}
	struct awaited alone = {fs, sched_getcpu(), 1, false};

	assert_true(wait_until(is_bound, &alone, 10));
	unpin_cpu();
}

struct hog {
	int cpu, policy;
	atomic_bool running, answered;
	bool gave_up;
	int error;
};

/* Takes a CPU for itself, until somebody on another one is answered. */
static void *hog_cpu(void *arg)
{
	struct hog *hog = arg;
	struct sched_param priority = {.sched_priority = hog->policy == SCHED_FIFO ? 50 : 0};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(hog->cpu, &cpus);
	hog->error = pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	if (!hog->error)
		hog->error = pthread_setschedparam(pthread_self(), hog->policy, &priority);
	/* Less than the kernel lets it, so that nobody else can have done it. */
	uint64_t end = monotonic_ns() + NSEC_PER_SEC / 2;

	hog->running = true;
	while (!hog->error && !hog->answered && !hog->gave_up)
		hog->gave_up = hog->policy == SCHED_FIFO && monotonic_ns() > end;
	return NULL;
}

struct move {
	int from;
	cpu_set_t to;
};

static bool move_other(pid_t tid, const char *status, void *arg)
{
	const struct move *move = arg;

	return only_cpu(status) != move->from &&
	       sched_setaffinity(tid, sizeof(move->to), &move->to) == 0;
}

/* Moves all but who is bound to one CPU to another: so that none of them waits for the first. */
static void clear_cpu(const struct ksymfs *fs, int cpu, int other)
{
	struct move move = {.from = cpu};

	CPU_SET(other, &move.to);
	ksymfs_count_threads(fs, move_other, &move);
}

/* What asks on another CPU does not wait for who has taken the one of the last caller. */
static void test_cpu_taken_for_real_time(void **state)
{
	if (!pin_to_cpu(1))
		skip_because("there is one CPU");
	int other = sched_getcpu();
	int taken = 0;

	for (unsigned int i = 0; i < 10; i++) {
		/* Its own, with all CPUs: threads stay where they are put here. */
		unpin_cpu();
		_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
		pthread_t thread;
		struct stat st;

		assert_true(pin_to_cpu(0));
		struct hog hog = {.cpu = sched_getcpu(), .policy = SCHED_FIFO};
		struct awaited followed = {fs, hog.cpu, 2, true};

		assert_true(wait_until(is_bound, &followed, 30));
		clear_cpu(fs, hog.cpu, other);
		/* Others may have kept that CPU from it. */
		if (bound_to(fs, hog.cpu) != followed.count)
			continue;
		assert_true(pin_to_cpu(1));
		assert_int_equal(pthread_create(&thread, NULL, hog_cpu, &hog), 0);
		while (!hog.running)
			sched_yield();
		assert_int_equal(ksymfs_stat(fs, &st, "nothing"), -ENOENT);
		hog.answered = true;
		pthread_join(thread, NULL);
		if (hog.error)
			skip_because("no real-time thread: %s", strerror(hog.error));
		assert_false(hog.gave_up);
		taken++;
	}
	assert_true(taken);
	unpin_cpu();
}

static bool is_idle(pid_t tid, const char *status, void *arg)
{
	return sched_getscheduler(tid) == SCHED_IDLE;
}

static bool is_bound_and_idle(void *arg)
{
	struct awaited *awaited = arg;

	return is_bound(awaited) &&
	       ksymfs_count_threads(awaited->fs, is_idle, NULL) == (awaited->ask ? 1 : 0);
}

/* To the scheduler a CPU where it runs is idle, and the caller is not sent to another one. */
static void test_idle_beside_its_caller(void **state)
{
	struct ksymfs *fs = *state;

	assert_true(pin_to_cpu(0));
	struct awaited followed = {fs, sched_getcpu(), 2, true};
	struct awaited alone = {fs, sched_getcpu(), 1, false};

	assert_true(wait_until(is_bound_and_idle, &followed, 30));
	assert_true(wait_until(is_bound_and_idle, &alone, 30));
	unpin_cpu();
}

/*
 * The receiver that follows has less of a CPU than anybody else there, and goes home where it gets
 * too little.
 */
static void test_cpu_shared_with_others(void **state)
{
	struct ksymfs *fs = *state;
	pthread_t thread;

	assert_true(pin_to_cpu(0));
	struct hog hog = {.cpu = sched_getcpu(), .policy = SCHED_OTHER};
	struct awaited followed = {fs, hog.cpu, 2, true};
	struct awaited called_home = {fs, hog.cpu, 1, true};

	assert_true(wait_until(is_bound_and_idle, &followed, 30));
	assert_int_equal(pthread_create(&thread, NULL, hog_cpu, &hog), 0);
	bool was_called = wait_until(is_bound, &called_home, 30);
	hog.answered = true;
	pthread_join(thread, NULL);
	assert_true(was_called);
	unpin_cpu();
}

struct moved {
	const struct ksymfs *fs;
	int cpu;
};

static bool all_are_there(void *arg)
{
	struct moved *moved = arg;

	return ksymfs_count_threads(moved->fs, is_elsewhere, &moved->cpu) == 0;
}

/* Where the administrator puts its threads they stay, also the one that was somewhere else. */
static void test_told_where_to_run(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);

	if (!pin_to_cpu(1))
		skip_because("there is one CPU");
	struct awaited followed = {fs, sched_getcpu(), 2, true};

	assert_true(wait_until(is_bound, &followed, 30));
	assert_true(pin_to_cpu(0));
	struct moved moved = {fs, sched_getcpu()};

	assert_int_equal(run("taskset -ap -c %d %d >/dev/null", moved.cpu, fs->daemon), 0);
	assert_true(wait_until(all_are_there, &moved, 10));
	/* Longer than anybody is waited for. */
	poll(NULL, 0, 300);
	assert_true(wait_until(all_are_there, &moved, 10));
	unpin_cpu();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_shared_with_others),
		cmocka_unit_test(test_cpu_taken_for_real_time),
		cmocka_unit_test(test_follows_caller),
		cmocka_unit_test(test_follows_moving_caller),
		cmocka_unit_test(test_idle_beside_its_caller),
		cmocka_unit_test(test_told_where_to_run),
	};

	return live_run(tests);
}
