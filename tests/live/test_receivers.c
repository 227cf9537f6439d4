/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the daemon's threads run: one receiver where its caller is, for a while, and no other. */
#include <dirent.h>
#include <sched.h>

#include "tests/live/support.h"

/* A thread of the daemon's, and its one CPU; -1: it may run on more. */
static int only_cpu(pid_t daemon, const char *tid)
{
	char path[320];
	int first = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", daemon, tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1; /* has ended */
	for (char line[256]; fgets(line, sizeof(line), file);) {
		char after = 0;

		if (sscanf(line, "Cpus_allowed_list: %d%c", &first, &after) == 2 && after != '\n')
			first = -1;
	}
	fclose(file);
	return first;
}

/* How many of its threads are bound to the CPU. Each CPU has one that reads its ring. */
static unsigned int bound_to(pid_t daemon, int cpu)
{
	unsigned int bound = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", daemon);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		bound += entry->d_name[0] != '.' && only_cpu(daemon, entry->d_name) == cpu;
	closedir(dir);
	return bound;
}

struct awaited {
	const struct ksymfs *fs;
	int cpu;
	unsigned int count;
	bool ask;
};

static bool is_bound(void *arg)
{
	const struct awaited *awaited = arg;
	struct stat st;

	/* Two requests in a row tell another caller from one that passes by. */
	for (int i = 0; i < 2 && awaited->ask; i++)
		ksymfs_stat(awaited->fs, &st, "nothing");
	return bound_to(awaited->fs->daemon, awaited->cpu) == awaited->count;
}

static void assert_follows(struct ksymfs *fs, unsigned int nth)
{
	if (!pin_to_cpu(nth))
		skip_because("there are fewer than %u CPUs", nth + 1);
	int cpu = sched_getcpu();
	struct awaited alone = {fs, cpu, 1, false};
	struct awaited followed = {fs, cpu, 2, true};

	assert_true(wait_until(is_bound, &alone, 10));
	assert_true(wait_until(is_bound, &followed, 10));
	/* Workers that are started meanwhile are nobody's company. */
	free(ksymfs_read(fs, NULL, "usdt/self/objects"));
	assert_true(bound_to(fs->daemon, cpu) <= 2);
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

		assert_true(wait_until(is_bound, &followed, 10));
	}
	struct awaited alone = {fs, sched_getcpu(), 1, false};

	assert_true(wait_until(is_bound, &alone, 10));
	unpin_cpu();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows_caller),
		cmocka_unit_test(test_follows_moving_caller),
	};

	return live_run(tests);
}
