/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Open handles on a log whose oldest lines leave. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_tracker.h"

#define LOG_BYTES 65536

static struct tracker tracker;
static struct view view;
static unsigned int next_line;

static int setup(void **state)
{
	const struct view_context context = {.tracker = &tracker};

	fake_tracker_init(&tracker, LOG_BYTES);
	next_line = 0;
	return view_events_create(&context, &view);
}

static int teardown(void **state)
{
	fake_tracker_deinit(&tracker);
	return 0;
}

/* Lines of 16 bytes, numbered. */
static void write_lines(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		char line[32];

		snprintf(line, sizeof(line), "event %09u\n", next_line++);
		assert_int_equal(eventlog_append(tracker.log, line, 16, 5 * NSEC_PER_SEC), 0);
	}
}

static struct eventlog_span span(void)
{
	struct eventlog_span ret;

	eventlog_span(tracker.log, &ret);
	return ret;
}

/* Writes until the log's oldest byte is another one. */
static void drop(void)
{
	uint64_t start = span().start;

	while (span().start == start)
		write_lines(1);
}

static void *open_stream(void)
{
	const struct view_path path = {};
	void *stream;

	assert_int_equal(view.ops->stream_open(view.data, &path, &stream), 0);
	return stream;
}

static size_t read_at(void *stream, uint64_t offset, char *buf, size_t len)
{
	ssize_t n = view.ops->stream_read(view.data, stream, offset, buf, len);

	assert_true(n >= 0 && (size_t)n <= len);
	return n;
}

static void test_attr(void **state)
{
	struct view_attr attr, after;

	write_lines(3);
	assert_int_equal(view_lookup(&view, "", &attr), 0);
	assert_int_equal(attr.kind, VIEW_STREAM);
	assert_int_equal(attr.size, 48);
	assert_int_equal(attr.mtime.tv_sec, 5);
	assert_int_equal(view_lookup(&view, "x", &after), -ENOENT);
	drop();
	assert_int_equal(view_lookup(&view, "", &after), 0);
	assert_int_not_equal(after.generation, attr.generation);
	assert_int_equal(after.size, span().end - span().start);
}

/* A handle that keeps up sees every line once, whatever leaves behind it. */
static void test_keeps_up(void **state)
{
	void *stream = open_stream();
	uint64_t offset = 0;
	unsigned int expected = 0;

	for (int round = 0; round < 3000; round++) {
		char buf[1024];

		write_lines(round % 7 + 1);
		assert_int_equal(view.ops->stream_size(view.data, stream), next_line * 16);
		size_t n = read_at(stream, offset, buf, sizeof(buf));

		for (size_t i = 0; i < n; i += 16, expected++) {
			char line[32];

			snprintf(line, sizeof(line), "event %09u\n", expected);
			assert_memory_equal(buf + i, line, 16);
		}
		offset += n;
		assert_int_equal(read_at(stream, offset, buf, sizeof(buf)), 0);
	}
	assert_int_equal(expected, next_line);
	assert_true(span().start > 0);
	view.ops->stream_close(view.data, stream);
}

/* A handle that was opened late starts with the oldest line, at its own offset 0. */
static void test_base(void **state)
{
	char buf[64], line[32];

	drop();
	unsigned int oldest = span().start / 16;
	void *stream = open_stream();

	assert_int_equal(view.ops->stream_size(view.data, stream), span().end - span().start);
	assert_int_equal(read_at(stream, 0, buf, 16), 16);
	snprintf(line, sizeof(line), "event %09u\n", oldest);
	assert_memory_equal(buf, line, 16);
	assert_int_equal(read_at(stream, 1 << 20, buf, sizeof(buf)), 0);
	assert_int_equal(read_at(stream, UINT64_MAX, buf, sizeof(buf)), 0);
	view.ops->stream_close(view.data, stream);
}

/* Reads on from offset, a few bytes at a time, into buf. */
static size_t read_all(void *stream, uint64_t offset, char *buf, size_t size, size_t step)
{
	size_t done = 0;

	for (size_t n; (n = read_at(stream, offset + done, buf + done, MIN(step, size - done)));)
		done += n;
	assert_true(done < size);
	return done;
}

static void assert_gap(const char *text, const char *lead, uint64_t bytes)
{
	char header[64];
	int len = snprintf(header, sizeof(header), "%slost bytes=%" PRIu64 "\n", lead, bytes);

	assert_memory_equal(text, header, len);
	for (uint64_t i = len; i < bytes; i++)
		assert_int_equal(text[i], '\n');
	assert_memory_equal(text + bytes, "event ", 6);
}

/* What went unread is one line and newlines of its length, however it is taken. */
static void test_gap(void **state)
{
	static const size_t steps[] = {1, 5, 16, 4096, 65536};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		char buf[3 * LOG_BYTES];
		void *stream = open_stream();
		uint64_t base = span().start;

		write_lines(1);
		drop();
		uint64_t lost = span().start - base;
		size_t n = read_all(stream, 0, buf, sizeof(buf), steps[i]);

		assert_int_equal(n, span().end - base);
		assert_gap(buf, "", lost);
		view.ops->stream_close(view.data, stream);
	}
}

/* In the middle of a line, the gap ends it first. */
static void test_gap_after_half_a_line(void **state)
{
	char buf[3 * LOG_BYTES];
	void *stream = open_stream();

	write_lines(2);
	assert_int_equal(read_at(stream, 0, buf, 20), 20);
	drop();
	uint64_t lost = span().start - 20;

	read_all(stream, 20, buf, sizeof(buf), 4096);
	assert_gap(buf, "\n", lost);
	view.ops->stream_close(view.data, stream);
}

/* A gap that was partly read stays; what leaves after it is another one. */
static void test_gap_stays(void **state)
{
	char before[64], again[64], buf[4 * LOG_BYTES];
	void *stream = open_stream();

	write_lines(1);
	drop();
	uint64_t first = span().start;

	assert_int_equal(read_at(stream, 0, before, sizeof(before)), sizeof(before));
	drop();
	uint64_t second = span().start - first;

	assert_int_equal(read_at(stream, 0, again, sizeof(again)), sizeof(again));
	assert_memory_equal(before, again, sizeof(again));
	size_t n = read_all(stream, 0, buf, sizeof(buf), 100);

	assert_int_equal(n, span().end);
	assert_memory_equal(buf, before, sizeof(before));
	assert_int_equal(buf[first - 1], '\n');
	assert_gap(buf + first, "", second);
	view.ops->stream_close(view.data, stream);
}

/* One that falls behind again and again is told each time. */
static void test_many_gaps(void **state)
{
	char *buf = malloc(2 * LOG_BYTES);
	void *stream = open_stream();
	uint64_t offset = 0;

	for (int i = 0; i < 40; i++) {
		do
			drop();
		while (span().start <= offset);
		uint64_t lost = span().start - offset;
		/* Past the gap, but not all that there is. */
		size_t n = read_at(stream, offset, buf, lost + 4096);

		assert_int_equal(n, lost + 4096);
		assert_gap(buf, "", lost);
		offset += n;
	}
	view.ops->stream_close(view.data, stream);
	free(buf);
}

/* A few lost bytes take the next lines along, so that there is room to say so. */
static void test_short_gap(void **state)
{
	char buf[3 * LOG_BYTES];
	void *stream = open_stream();

	write_lines(1);
	drop();
	uint64_t lost = span().start;

	view.ops->stream_close(view.data, stream);
	/* The same again, with a handle that has read all but the last 6 bytes of what goes. */
	teardown(state);
	setup(state);
	stream = open_stream();
	write_lines(lost / 16);
	assert_int_equal(read_at(stream, 0, buf, lost - 6), lost - 6);
	drop();
	assert_int_equal(span().start, lost);
	size_t n = read_all(stream, lost - 6, buf, sizeof(buf), 4096);

	assert_int_equal(n, span().end - (lost - 6));
	assert_gap(buf, "\n", 6 + 32);
	view.ops->stream_close(view.data, stream);
}

/* Going back to what has left shows a gap there; what was shown above it stays. */
static void test_going_back(void **state)
{
	char above[256], again[256], buf[512];
	void *stream = open_stream();

	write_lines(40);
	drop();
	uint64_t start = span().start;

	assert_true(start > 512);
	assert_int_equal(read_at(stream, start - 256, above, 256), 256);
	assert_memory_equal(above, "\nlost bytes=256\n\n", 17);
	assert_int_equal(read_at(stream, start - 512, buf, 512), 512);
	assert_memory_equal(buf, "\nlost bytes=256\n\n", 17);
	assert_memory_equal(buf + 256, above, 256);
	/* More places than are remembered: still whole, and no byte outside. */
	for (uint64_t at = start; at-- > start - 64;)
		assert_int_equal(read_at(stream, at, buf, 1), 1);
	assert_int_equal(read_at(stream, start - 256, again, 256), 256);
	assert_memory_equal(again, above, 17);
	view.ops->stream_close(view.data, stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_attr, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keeps_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_base, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_after_half_a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_gaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_going_back, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
