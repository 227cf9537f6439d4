/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * events: the tracker's log as a file that grows.
 *
 * The log is a window of offsets that only grow, and an open handle is a place in it: its offset 0
 * is the oldest byte that was kept when it was opened, for as long as it is open. What leaves the
 * window while the handle is open and unread becomes a gap of that handle: a `lost bytes=N` line
 * and newlines up to where the log goes on. A gap that was once shown stays as it is, so a reader
 * who takes it in pieces gets one line whole, and what leaves after it is a gap of its own.
 *
 * Locks: each handle has one, taken before the log's.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/carry.h"
#include "core/tracker.h"
#include "fs/views.h"

/* "\nlost bytes=" with 20 digits and "\n": a gap that is shorter takes the next lines along. */
#define GAP_MIN 33
/*
 * How many gaps a handle remembers. A reader who goes forward is done with all but the last; only
 * one who went back and forth past this many would find another text in the lowest of them.
 */
#define GAPS_MAX 16

struct gap {
	uint64_t from, to; /* offsets of the log */
	char header[GAP_MIN + 1];
	size_t header_len; /* the rest is newlines */
};

struct stream {
	pthread_mutex_t lock;
	uint64_t base; /* the log's offset of the handle's first byte */
	/* Where the last read ended, and whether at the end of a line. */
	uint64_t read_end;
	bool at_line_start;
	struct gap gaps[GAPS_MAX]; /* sorted, apart */
	size_t gap_count;
};

static int lookup(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	struct eventlog_span span;

	if (path->count)
		return -ENOENT;
	tracker_events_span(view, &span);
	*ret = (struct view_attr){
		.kind = VIEW_STREAM,
		.generation = span.epoch,
		.mtime = view_time(span.changed_unix),
		.size = span.end - span.start,
	};
	return 0;
}

static int stream_open(void *view, const struct view_path *path, void **ret)
{
	struct stream *stream = carry_alloc(sizeof(*stream));
	struct eventlog_span span;

	if (!stream)
		return -ENOMEM;
	tracker_events_span(view, &span);
	pthread_mutex_init(&stream->lock, NULL);
	stream->base = span.start;
	stream->read_end = span.start;
	stream->at_line_start = true;
	carry_publish(stream, CARRY_VIEW_STREAM);
	*ret = stream;
	return 0;
}

static void stream_close(void *view, void *data)
{
	struct stream *stream = data;

	pthread_mutex_destroy(&stream->lock);
	carry_free(stream);
}

/* It may have died in the middle of adding a gap: then they are forgotten. */
static bool gaps_make_sense(const struct stream *stream)
{
	uint64_t end = stream->base;

	if (stream->gap_count > GAPS_MAX)
		return false;
	for (size_t i = 0; i < stream->gap_count; i++) {
		const struct gap *gap = &stream->gaps[i];

		if (gap->from < end || gap->to <= gap->from || gap->header_len > GAP_MIN)
			return false;
		end = gap->to;
	}
	return true;
}

static bool stream_resume(void *view, void *data, size_t room)
{
	struct stream *stream = data;

	if (room < sizeof(*stream) || stream->base > INT64_MAX)
		return false;
	pthread_mutex_init(&stream->lock, NULL);
	if (!gaps_make_sense(stream))
		stream->gap_count = 0;
	return true;
}

static uint64_t stream_size(void *view, void *data)
{
	struct stream *stream = data;
	struct eventlog_span span;

	tracker_events_span(view, &span);
	return span.end - stream->base;
}

/* The first gap that ends past `at`, or gap_count. */
static size_t find_gap(const struct stream *stream, uint64_t at)
{
	size_t i = 0;

	while (i < stream->gap_count && stream->gaps[i].to <= at)
		i++;
	return i;
}

/*
 * Where a gap that starts at `from` ends, when the log now starts at `start`: there, or at the end
 * of the line that makes it long enough to say that it is one. -ESTALE if the log moved on.
 */
static int find_gap_end(struct tracker *tracker, uint64_t from, uint64_t start, uint64_t *ret)
{
	uint64_t at = from + GAP_MIN - 1;
	char buf[512];

	*ret = start;
	if (start - from >= GAP_MIN)
		return 0;
	for (;;) {
		ssize_t n = tracker_events_read(tracker, at, buf, sizeof(buf));

		if (n < 0)
			return n;
		if (n == 0)
			return 0;
		const char *newline = memchr(buf, '\n', n);

		if (newline) {
			*ret = at + (newline - buf) + 1;
			return 0;
		}
		at += n;
	}
}

/* Makes [at, ...), which is no longer in the log, a gap; i is the index of the first one above. */
static int add_gap(struct tracker *tracker, struct stream *stream, uint64_t at, size_t i,
		   uint64_t start)
{
	struct gap gap = {.from = at};
	bool at_line_start =
		at == stream->base || (at == stream->read_end && stream->at_line_start);
	int r = find_gap_end(tracker, at, start, &gap.to);

	if (r < 0)
		return r;
	if (i < stream->gap_count)
		gap.to = MIN(gap.to, stream->gaps[i].from);
	gap.header_len = snprintf(gap.header, sizeof(gap.header), "%slost bytes=%" PRIu64 "\n",
				  at_line_start ? "" : "\n", gap.to - gap.from);
	if (gap.header_len > gap.to - gap.from)
		gap.header_len = 0;
	if (stream->gap_count == GAPS_MAX) {
		stream->gap_count--;
		memmove(&stream->gaps[0], &stream->gaps[1],
			stream->gap_count * sizeof(stream->gaps[0]));
		if (i > 0)
			i--;
	}
	memmove(&stream->gaps[i + 1], &stream->gaps[i],
		(stream->gap_count - i) * sizeof(stream->gaps[0]));
	stream->gaps[i] = gap;
	stream->gap_count++;
	return 0;
}

static size_t read_gap(const struct gap *gap, uint64_t at, char *buf, size_t len)
{
	uint64_t skip = at - gap->from;
	size_t take = MIN(gap->to - at, len), header = 0;

	if (skip < gap->header_len) {
		header = MIN(gap->header_len - skip, take);
		memcpy(buf, gap->header + skip, header);
	}
	memset(buf + header, '\n', take - header);
	return take;
}

/* One piece of what is at `at`: of a gap or of the log. 0: the end, for now. */
static ssize_t read_piece(struct tracker *tracker, struct stream *stream, uint64_t at, char *buf,
			  size_t len)
{
	for (;;) {
		struct eventlog_span span;
		size_t i = find_gap(stream, at);
		ssize_t r;

		if (i < stream->gap_count && stream->gaps[i].from <= at)
			return read_gap(&stream->gaps[i], at, buf, len);
		if (i < stream->gap_count)
			len = MIN(stream->gaps[i].from - at, len);
		tracker_events_span(tracker, &span);
		if (at < span.start)
			r = add_gap(tracker, stream, at, i, span.start);
		else
			r = tracker_events_read(tracker, at, buf, len);
		/* -ESTALE: the log dropped lines meanwhile, so that next time there is a gap. */
		if (r != -ESTALE && (r != 0 || at >= span.start))
			return r;
	}
}

static ssize_t stream_read(void *view, void *data, uint64_t offset, void *buf, size_t len)
{
	struct stream *stream = data;
	size_t done = 0;
	uint64_t at;

	LOCKED(&stream->lock);
	if (__builtin_add_overflow(stream->base, offset, &at) || at > INT64_MAX)
		return 0;
	while (done < len) {
		ssize_t n = read_piece(view, stream, at + done, (char *)buf + done, len - done);

		if (n < 0)
			return done ? (ssize_t)done : n;
		if (n == 0)
			break;
		done += n;
		stream->read_end = at + done;
		stream->at_line_start = ((const char *)buf)[done - 1] == '\n';
	}
	return done;
}

int view_events_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "events",
		.access = ACCESS_ADDRESSES,
		.lookup = lookup,
		.stream_open = stream_open,
		.stream_size = stream_size,
		.stream_read = stream_read,
		.stream_close = stream_close,
		.stream_resume = stream_resume,
	};

	*ret = (struct view){&ops, context->tracker};
	return 0;
}
