/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many programs at once: KSYMFS_PROGRAMS of them, 200 else. Each is in the tree when its load has
 * returned, ksyms is the kernel's list with all of them there and with all gone, and an instance
 * that finds them there says the same. `scripts/vm --long KERNEL` has 20,000.
 */
#include "tests/live/support.h"

#include <sys/resource.h>

#define PROGRAMS 200
/* What the daemon may take for each, captured, its symbol, its directory and its rows: KiB. */
#define KIB_EACH 16

static size_t programs(void)
{
	const char *asked = getenv("KSYMFS_PROGRAMS");

	return asked ? strtoul(asked, NULL, 10) : PROGRAMS;
}

static size_t resident_kib(const struct ksymfs *fs)
{
	char path[64];
	size_t kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", fs->daemon);
	_cleanup_free_ char *status = read_path(path, NULL);
	const char *line = strstr(status, "VmRSS:");

	assert_non_null(line);
	assert_int_equal(sscanf(line, "VmRSS: %zu", &kib), 1);
	return kib;
}

/* Is it where its own information says, under its own tag? */
static void assert_named(const struct ksymfs *fs, int prog)
{
	struct oracle oracle;
	char expected[64];

	oracle_read(prog, &oracle);
	snprintf(expected, sizeof(expected), "bpf_prog_%s", oracle.tag);
	_cleanup_free_ char *text =
		ksymfs_read(fs, NULL, "addr/%" PRIx64, (uint64_t)oracle.ksyms[0]);
	oracle_deinit(&oracle);
	if (strncmp(text, expected, strlen(expected)) != 0)
		fail_msg("not %s: %s", expected, text);
}

static size_t count_programs(const struct ksymfs *fs)
{
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/programs");

	return count_lines_with(text, " loaded ");
}

static void test_many_programs(void **state)
{
	struct ksymfs *fs = *state;
	size_t count = programs(), before = resident_kib(fs), others = count_programs(fs);
	struct rlimit files = {count + 1024, count + 1024};
	_cleanup_free_ int *progs = calloc(count, sizeof(*progs));

	assert_non_null(progs);
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		skip_because("%zu files cannot be open: %s", count, strerror(errno));
	for (size_t i = 0; i < count; i++) {
		progs[i] = load_simple("big", 0x42000000 + i);
		if (i % 64 == 0)
			assert_named(fs, progs[i]);
	}
	/* Strangers' may come and go. */
	assert_in_range(count_programs(fs), count, count + others + 64);
	assert_ksyms_is_kallsyms(fs);
	size_t kib = resident_kib(fs);

	fprintf(stderr, "# %zu programs: %zu KiB, %zu before\n", count, kib, before);
	assert_true(kib < before + count * KIB_EACH + 32768);
	{
		_cleanup_ksymfs_ struct ksymfs *late = ksymfs_start(NULL);

		assert_in_range(count_programs(late), count, count + others + 64);
		assert_ksyms_is_kallsyms(late);
		assert_named(late, progs[count - 1]);
	}
	for (size_t i = 0; i < count; i++)
		close(progs[i]);
	assert_ksyms_is_kallsyms(fs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_programs)};

	return live_run(tests);
}
