/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/addrquery.h"
#include "core/cleanup.h"

#define NO_TIME UINT64_MAX

static void test_questions(void **state)
{
	static const struct {
		const char *name;
		uint64_t addr, time;
	} cases[] = {
		{"ffffffffc0021a10", 0xffffffffc0021a10, NO_TIME},
		{"0xffffffffc0021a10", 0xffffffffc0021a10, NO_TIME},
		{"0XFFFFFFFFC0021A10", 0xffffffffc0021a10, NO_TIME},
		{"FFFFffffC0021a10", 0xffffffffc0021a10, NO_TIME},
		{"0", 0, NO_TIME},
		{"00000000000000ab", 0xab, NO_TIME},
		{"ffffffffffffffff", UINT64_MAX, NO_TIME},
		{"1000-1", 0xfff, NO_TIME},
		{"0x1-1", 0, NO_TIME},
		{"b00@0", 0xb00, 0},
		{"b00@1", 0xb00, 1000000000},
		{"b00@1.5", 0xb00, 1500000000},
		{"b00@1234.567890123", 0xb00, 1234567890123},
		{"b00@1.000000001", 0xb00, 1000000001},
		{"b00@007.050", 0xb00, 7050000000},
		{"b00@1234567890123ns", 0xb00, 1234567890123},
		{"b00@0ns", 0xb00, 0},
		{"b00-1@2.25", 0xaff, 2250000000},
		{"b00@18446744073.709551614", 0xb00, UINT64_MAX - 1},
		{"b00@18446744073709551614ns", 0xb00, UINT64_MAX - 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct addrquery query;

		assert_int_equal(addrquery_parse(cases[i].name, &query), 0);
		assert_int_equal(query.addr, cases[i].addr);
		assert_int_equal(query.has_time, cases[i].time != NO_TIME);
		assert_int_equal(query.time, query.has_time ? cases[i].time : 0);
	}
}

static void test_no_questions(void **state)
{
	static const char *const bad[] = {
		"",
		"zz",
		"0x",
		"x1",
		"0x0x1",
		"g",
		"-1",
		"0-1",
		"1-",
		"1-2",
		"1-11",
		"1-1-1",
		"+1",
		" 1",
		"1 ",
		"1\n",
		"fffffffffffffffff",
		"00000000000000001",
		"1@",
		"1@-5",
		"1@+5",
		"1@ 5",
		"1@.5",
		"1@5.",
		"1@5.ns",
		"1@1.5ns",
		"1@1e3",
		"1@0x10",
		"1@1s",
		"1@1n",
		"1@1nsx",
		"1@ns",
		"1@1.1234567890",
		"1@1.5.5",
		"1@1@1",
		"1@1-1",
		"1@99999999999",
		"1@18446744073.709551615",
		"1@18446744073.709551616",
		"1@18446744073709551615ns",
		"1@18446744073709551616ns",
		"1/2",
		"1@1/2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct addrquery query;

		assert_int_equal(addrquery_parse(bad[i], &query), -EINVAL);
	}
}

static void test_long_numbers(void **state)
{
	struct addrquery query;
	char name[256];

	memset(name, '1', 100);
	name[100] = '\0';
	assert_int_equal(addrquery_parse(name, &query), -EINVAL);
	name[1] = '@';
	assert_int_equal(addrquery_parse(name, &query), -EINVAL);
	name[3] = '.';
	assert_int_equal(addrquery_parse(name, &query), -EINVAL);
	memset(name + 4, '0', 96);
	assert_int_equal(addrquery_parse(name, &query), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_no_questions),
		cmocka_unit_test(test_long_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
