/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/eventlog.h"

/* The smallest window: 16 blocks of 4 KiB. */
#define WINDOW 65536

static void test_grows(void **state)
{
	struct eventlog *log;
	struct eventlog_span span;
	char buf[16];

	assert_int_equal(eventlog_create(WINDOW, &log), 0);
	eventlog_span(log, &span);
	assert_int_equal(span.start, 0);
	assert_int_equal(span.end, 0);
	assert_int_equal(eventlog_read(log, 0, buf, sizeof(buf)), 0);

	assert_int_equal(eventlog_append(log, "one\n", 4, 7), 0);
	assert_int_equal(eventlog_append(log, "two\n", 4, 8), 0);
	eventlog_span(log, &span);
	assert_int_equal(span.end, 8);
	assert_int_equal(span.changed_unix, 8);
	assert_int_equal(eventlog_read(log, 2, buf, sizeof(buf)), 6);
	assert_memory_equal(buf, "e\ntwo\n", 6);
	assert_int_equal(eventlog_read(log, 2, buf, 3), 3);
	assert_memory_equal(buf, "e\nt", 3);
	assert_int_equal(eventlog_read(log, 100, buf, sizeof(buf)), 0);
	eventlog_destroy(log);
}

/* Whatever is kept equals what was written at those offsets, and starts at a line. */
static void test_drops_whole_lines(void **state)
{
	_cleanup_free_ char *all = malloc(40000 * 32), *back = malloc(WINDOW * 2);
	struct eventlog_span span, before = {.epoch = 1};
	struct eventlog *log;
	size_t written = 0;

	assert_non_null(all);
	assert_non_null(back);
	assert_int_equal(eventlog_create(WINDOW, &log), 0);
	for (int i = 0; i < 40000; i++) {
		int len = sprintf(all + written, "line %d %.*s\n", i, i % 13, "abcdefghijklm");

		assert_int_equal(eventlog_append(log, all + written, len, i), 0);
		written += len;
		eventlog_span(log, &span);
		assert_int_equal(span.end, written);
		assert_true(span.end - span.start <= WINDOW);
		assert_int_equal(span.epoch != before.epoch, span.start != before.start);
		assert_true(span.start == 0 || all[span.start - 1] == '\n');
		before = span;
	}
	assert_true(span.end - span.start >= WINDOW - 2 * WINDOW / 16);
	assert_int_equal(eventlog_read(log, span.start, back, WINDOW * 2), span.end - span.start);
	assert_memory_equal(back, all + span.start, span.end - span.start);
	assert_int_equal(eventlog_read(log, span.start - 1, back, 1), -ESTALE);
	assert_true(eventlog_memory(log) <= WINDOW);
	eventlog_destroy(log);
}

static void test_too_large(void **state)
{
	static char line[WINDOW];
	struct eventlog_span span;
	struct eventlog *log;

	assert_int_equal(eventlog_create(WINDOW, &log), 0);
	assert_int_equal(eventlog_append(log, line, sizeof(line), 1), -ENOMEM);
	assert_int_equal(eventlog_failures(log), 1);
	eventlog_span(log, &span);
	assert_int_equal(span.end, 0);
	eventlog_destroy(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_drops_whole_lines),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
