/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is denied takes away what needs it, says so in status, and leaves the rest working: each
 * source of the tracker's in turn.
 */
#include "tests/live/support.h"

/* An instance that is denied something: see deny.c. */
static struct ksymfs *start_without(const char *what)
{
	const char *binary = getenv("KSYMFS");
	_cleanup_free_ char *real = strdup(binary);

	assert_non_null(real);
	setenv("DENY", what, 1);
	setenv("DENY_RUN", real, 1);
	setenv("KSYMFS", getenv("KSYMFS_DENY"), 1);
	struct ksymfs *fs = ksymfs_start(NULL);

	setenv("KSYMFS", real, 1);
	return fs;
}

static void assert_value(const struct ksymfs *fs, const char *file, const char *key,
			 const char *expected)
{
	_cleanup_free_ char *value = ksymfs_value(fs, key, "%s", file);

	assert_non_null(value);
	if (strncmp(value, expected, strlen(expected)) != 0)
		fail_msg("%s: %s is '%s', not '%s'", file, key, value, expected);
}

/* Is this program's function in ksyms, with its true length? */
static bool in_ksyms(const struct ksymfs *fs, const struct oracle *oracle)
{
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "ksyms");
	char row[64];

	snprintf(row, sizeof(row), "%016" PRIx64 " %016" PRIx64 " t bpf_prog_", oracle->ksyms[0],
		 (uint64_t)oracle->func_lens[0]);
	return count_lines_with_prefix(text, row) == 1;
}

static void test_without_perf(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start_without("perf_event_open");
	_cleanup_free_ char *ksyms = ksymfs_read(fs, NULL, "ksyms");
	struct stat st;

	assert_value(fs, "status", "health", "degraded");
	assert_value(fs, "status", "perf-rings", "missing: ");
	assert_value(fs, "status", "kallsyms", "ok");
	assert_true(count_lines_with(ksyms, " T vfs_read") > 0);
	/* Nothing would tell when one goes. */
	assert_int_equal(count_lines_with(ksyms, " bpf__tcp_congestion_ops_"), 0);
	for (int i = 0; i < 100; i++) {
		struct oracle oracle;
		int fd = load_simple("polled", i);

		oracle_read(fd, &oracle);
		assert_true(in_ksyms(fs, &oracle));
		assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%u", oracle.info.id), 0);
		unload(fd);
		assert_false(in_ksyms(fs, &oracle));
		assert_value(fs, "status", "health", "degraded");
		oracle_deinit(&oracle);
	}
}

static void test_without_bpf(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start_without("bpf");
	struct oracle oracle;
	int fd = load_simple("unread", 1);
	char file[64];

	assert_value(fs, "status", "health", "degraded");
	assert_value(fs, "status", "program-ids", "missing: ");
	assert_value(fs, "status", "image-lengths", "missing: ");
	/* The records tell of its symbol, and that it is there; its contents cannot be had. */
	oracle_read(fd, &oracle);
	assert_true(in_ksyms(fs, &oracle));
	snprintf(file, sizeof(file), "bpf/by-id/%u/info", oracle.info.id);
	assert_value(fs, file, "state", "loaded");
	assert_value(fs, file, "missing", "jited: ");
	assert_int_equal(ksymfs_open(fs, "bpf/by-id/%u/jited", oracle.info.id), -ENOENT);
	unload(fd);
	assert_false(in_ksyms(fs, &oracle));
	assert_value(fs, file, "state", "unloaded");
	oracle_deinit(&oracle);
}

static void test_without_addresses(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start_without("cap_syslog");
	_cleanup_fd_ int fd = load_simple("hidden", 1);
	struct oracle oracle;
	char addr[20], load[64];

	assert_value(fs, "status", "health", "degraded");
	assert_value(fs, "status", "kallsyms", "missing: ");
	assert_int_equal(ksymfs_open(fs, "ksyms"), -EACCES);
	assert_int_equal(ksymfs_open(fs, "kallsyms"), -EACCES);
	oracle_read(fd, &oracle);
	snprintf(addr, sizeof(addr), "%" PRIx64, oracle.ksyms[0]);
	assert_int_equal(ksymfs_open(fs, "addr/%s", addr), -EACCES);
	/* Nowhere is an address, this one's or 0. */
	_cleanup_free_ char *functions = ksymfs_read(fs, NULL, "bpf/functions");
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");

	assert_string_equal(functions, "");
	assert_int_equal(count_lines_with(events, addr), 0);
	assert_int_equal(count_lines_with(events, "ksym-"), 0);
	snprintf(load, sizeof(load), " prog-load id=%u ", oracle.info.id);
	assert_int_equal(count_lines_with(events, load), 1);
	assert_int_equal(ksymfs_open(fs, "bpf/by-id/%u/jited", oracle.info.id), -ENOENT);
	assert_int_equal(ksymfs_open(fs, "bpf/by-id/%u/ksyms", oracle.info.id), -ENOENT);
	oracle_deinit(&oracle);
}

static void test_without_uevents(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start_without("socket");

	assert_value(fs, "status", "health", "degraded");
	assert_value(fs, "status", "uevents", "missing: ");
	assert_value(fs, "status", "perf-rings", "ok");
}

static void test_without_priority(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start_without("sched_setscheduler");
	_cleanup_free_ char *readers = ksymfs_value(fs, "readers", "status");

	assert_value(fs, "status", "health", kernel_health());
	assert_non_null(strstr(readers, "real-time: 0; needs CAP_SYS_NICE"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_perf),	  cmocka_unit_test(test_without_bpf),
		cmocka_unit_test(test_without_addresses), cmocka_unit_test(test_without_uevents),
		cmocka_unit_test(test_without_priority),
	};

	return live_run_bare(tests);
}
