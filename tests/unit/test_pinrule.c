/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "core/pidstat.h"
#include "core/pinrule.h"

static void test_parse(void **state)
{
	struct pin_rule rule;

	assert_int_equal(pin_rule_parse("comm:ngin*", &rule), 0);
	assert_int_equal(rule.field, PIN_COMM);
	assert_string_equal(rule.glob, "ngin*");
	assert_int_equal(pin_rule_parse("exe:/usr/bin/*", &rule), 0);
	assert_int_equal(rule.field, PIN_EXE);
	assert_int_equal(pin_rule_parse("cgroup:docker-*", &rule), 0);
	assert_int_equal(rule.field, PIN_CGROUP);
	assert_int_equal(pin_rule_parse("java", &rule), 0);
	assert_int_equal(rule.field, PIN_COMM);
	assert_string_equal(rule.glob, "java");
	/* A colon of its own. */
	assert_int_equal(pin_rule_parse("kworker/0:1", &rule), 0);
	assert_string_equal(rule.glob, "kworker/0:1");
	assert_int_equal(pin_rule_parse("", &rule), -EINVAL);
	assert_int_equal(pin_rule_parse("exe:", &rule), -EINVAL);
}

static bool matches(const char *string, const char *subject)
{
	struct pin_rule rule;

	assert_int_equal(pin_rule_parse(string, &rule), 0);
	return pin_rule_matches(&rule, subject);
}

static void test_globs(void **state)
{
	assert_true(matches("comm:ngin*", "nginx"));
	assert_false(matches("comm:ngin", "nginx"));
	assert_true(matches("[jJ]ava", "Java"));
	/* comms have slashes that mean nothing */
	assert_false(matches("comm:1", "worker/1"));
	assert_true(matches("comm:worker/?", "worker/1"));
	/* without a slash, the last name */
	assert_true(matches("exe:python3*", "/usr/bin/python3.11"));
	assert_false(matches("exe:bin", "/usr/bin/python3.11"));
	/* with one, all of it, and a star goes over slashes */
	assert_true(matches("exe:/usr/*", "/usr/bin/python3.11"));
	assert_false(matches("exe:/usr", "/usr/bin/python3.11"));
	assert_true(matches("exe:*/bin/*", "/usr/bin/python3.11"));
}

static void test_cgroups(void **state)
{
	static const struct {
		const char *rule, *text;
		bool matches;
	} cases[] = {
		{"cgroup:docker-*", "0::/system.slice/docker-12.scope\n", true},
		{"cgroup:/system.slice/*", "0::/system.slice/docker-12.scope\n", true},
		{"cgroup:system.slice", "0::/system.slice/docker-12.scope\n", false},
		{"cgroup:a", "3:cpu,cpuacct:/b\n2:name=systemd:/x/a\n", true},
		{"cgroup:/b", "3:cpu:/b\n", true},
		{"cgroup:*", "nothing like it\n", false},
		{"cgroup:*", "", false},
		{"cgroup:*:*", "0::/with:colon\n", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = strdup(cases[i].text);
		struct pin_rule rule;

		assert_non_null(text);
		assert_int_equal(pin_rule_parse(cases[i].rule, &rule), 0);
		assert_int_equal(pin_rule_matches_cgroups(&rule, text), cases[i].matches);
		free(text);
	}
}

#define STAT_TAIL                                                                                  \
	" S 1 2 2 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 123456 1000 200 18446744073709551615 1 1 " \
	"0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 256"

static void test_stat(void **state)
{
	static const char *const good[] = {
		"2 (sh)" STAT_TAIL,
		"2 (a) S 1 (b)" STAT_TAIL,
		"2 (\n) )" STAT_TAIL "\n",
	};
	static const char *const bad[] = {"", "2", "2 (sh)", "2 (sh) S 1 2", "2 (sh) S x"};
	struct pid_stat stat;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(pid_stat_parse(good[i], strlen(good[i]), &stat), 0);
		assert_int_equal(stat.start_ticks, 123456);
		assert_int_equal(stat.state, 'S');
		assert_int_equal(stat.exit_status, 256);
		assert_int_equal(stat.cpu, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(pid_stat_parse(bad[i], strlen(bad[i]), &stat), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_globs),
		cmocka_unit_test(test_cgroups),
		cmocka_unit_test(test_stat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
