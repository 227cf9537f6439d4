/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's %pS prints, taken apart. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "core/kernelname.h"

static void test_answers(void **state)
{
	static const struct {
		const char *text, *name, *module;
		uint64_t offset, size;
	} cases[] = {
		{"vfs_read+0x0/0x3c0", "vfs_read", "", 0, 0x3c0},
		{"dummy_xmit+0x1f/0x80 [dummy]", "dummy_xmit", "dummy", 0x1f, 0x80},
		{"bpf__tcp_congestion_ops_init+0x1/0x9f", "bpf__tcp_congestion_ops_init", "", 1,
		 0x9f},
		{"f+0xffffffffffffffff/0xfffffffffffffffe", "f", "", UINT64_MAX, UINT64_MAX - 1},
		/* Names may hold what follows them too. */
		{"a+0x1/0x2+0x3/0x4", "a+0x1/0x2", "", 3, 4},
		{"a [b]+0x3/0x4 [c]", "a [b]", "c", 3, 4},
		{"]+0x1/0x2", "]", "", 1, 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kernelname_answer answer;

		assert_int_equal(kernelname_parse(cases[i].text, &answer), 0);
		assert_string_equal(answer.name, cases[i].name);
		assert_string_equal(answer.module, cases[i].module);
		assert_true(answer.offset == cases[i].offset);
		assert_true(answer.size == cases[i].size);
	}
}

static void test_not_symbols(void **state)
{
	static const char *const texts[] = {
		"",
		"0xffffffffc0021a08",
		"(null)",
		"(____ptrval____)",
		"name",
		"name+0x1",
		"name/0x1",
		"+0x1/0x2",
		"name+0x/0x2",
		"name+0x1/0x",
		"name+1/2",
		"name+0x1/0x2 ",
		"name+0x1/0x2 []",
		"name+0x1/0x22[m]",
		"[m]",
		" [m]",
		"]",
		"name+0x1 0x2",
		"name+0xG/0x2",
		"name+0x1/0x11112222333344445",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct kernelname_answer answer;

		if (kernelname_parse(texts[i], &answer) != -ENOENT)
			fail_msg("\"%s\" was taken for a symbol", texts[i]);
	}
}

/* Names as long as the kernel's longest fit, and longer ones are refused, not cut. */
static void test_lengths(void **state)
{
	struct kernelname_answer answer;
	char name[513], text[700];

	memset(name, 'n', sizeof(name));
	for (int len = 510; len <= 512; len++) {
		snprintf(text, sizeof(text), "%.*s+0x1/0x2", len, name);
		assert_int_equal(kernelname_parse(text, &answer), len < 512 ? 0 : -ENOENT);
	}
	for (int len = 62; len <= 64; len++) {
		snprintf(text, sizeof(text), "f+0x1/0x2 [%.*s]", len, name);
		assert_int_equal(kernelname_parse(text, &answer), len < 64 ? 0 : -ENOENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_not_symbols),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
