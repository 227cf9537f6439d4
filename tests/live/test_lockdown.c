/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel that is locked down, a step further with each test: none, integrity, confidentiality. It
 * never goes back, so this is the last that a guest runs; `scripts/vm --append lockdown=LEVEL`
 * starts it there.
 */
#include "tests/live/support.h"

#include <fcntl.h>

#define LOCKDOWN "/sys/kernel/security/lockdown"

static const char *const levels[] = {"none", "integrity", "confidentiality"};

/* Which of the levels it is: the one in brackets. */
static size_t level_now(void)
{
	_cleanup_free_ char *text = read_path(LOCKDOWN, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		char bracketed[32];

		snprintf(bracketed, sizeof(bracketed), "[%s]", levels[i]);
		if (strstr(text, bracketed))
			return i;
	}
	fail_msg("%s says %s", LOCKDOWN, text);
	return 0;
}

/* Locks down so far; skips the test where that cannot be, or is behind us. */
static void need_level(size_t level)
{
	if (!getenv("KSYMFS_GUEST"))
		skip_because("locks the whole machine down: for scripts/vm");
	if (access(LOCKDOWN, F_OK) < 0)
		skip_because("no lockdown: %s", strerror(errno));
	if (level_now() > level)
		skip_because("the kernel is locked down to %s already", levels[level_now()]);
	_cleanup_fd_ int fd = open(LOCKDOWN, O_WRONLY | O_CLOEXEC);

	if (level > level_now() && (fd < 0 || dprintf(fd, "%s\n", levels[level]) < 0))
		fail_msg("locking down to %s: %s", levels[level], strerror(errno));
	assert_int_equal(level_now(), level);
}

/* What `check` says of a source is what the file `status` says. Returns how many are missing. */
static size_t assert_check_is_status(const struct ksymfs *fs)
{
	size_t missing = 0;
	int status = run("exec %s check > /tmp/check.out", getenv("KSYMFS"));
	_cleanup_free_ char *said = read_path("/tmp/check.out", NULL);
	char *cursor = said, *line;

	unlink("/tmp/check.out");
	while ((line = next_line(&cursor))) {
		char *value = strstr(line, ": ");

		assert_non_null(value);
		*value = '\0';
		value += strlen(": ");
		_cleanup_free_ char *known = ksymfs_value(fs, line, "status");
		bool is_missing = strncmp(value, "missing: ", strlen("missing: ")) == 0;

		fprintf(stderr, "# %s: %s\n", line, value);
		missing += is_missing;
		if (known)
			assert_int_equal(strncmp(known, "missing: ", strlen("missing: ")) == 0,
					 is_missing);
	}
	assert_int_equal(status, missing ? 1 : 0);
	return missing;
}

/*
 * Nothing that the daemon does is what lockdown is about: no level writes memory, and addresses and
 * programs' contents are for who has the capabilities. So all is there at each level.
 */
static void check_level(size_t level)
{
	need_level(level);
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_fd_ int prog = load_with_subprogram("locked_down", 3, 0x4c4b0000 + level);
	struct oracle oracle;
	size_t len;

	assert_ksyms_has_program(fs, prog);
	oracle_read(prog, &oracle);
	_cleanup_free_ char *jited =
		ksymfs_read(fs, &len, "bpf/by-id/%" PRIu32 "/jited", oracle.info.id);
	assert_int_equal(len, oracle.info.jited_prog_len);
	oracle_deinit(&oracle);
	const char *expected = kernel_health();
	_cleanup_free_ char *health = ksymfs_value(fs, "health", "status");

	assert_string_equal(health, expected);
	assert_int_equal(assert_check_is_status(fs), strcmp(expected, "ok") != 0);
	assert_ksyms_is_kallsyms(fs);
}

static void test_none(void **state)
{
	check_level(0);
}

static void test_integrity(void **state)
{
	check_level(1);
}

static void test_confidentiality(void **state)
{
	check_level(2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_integrity),
		cmocka_unit_test(test_confidentiality),
	};

	return live_run_bare(tests);
}
