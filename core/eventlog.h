/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The event log: lines of text in a window of offsets that only grow. What was read never changes;
 * past its size the oldest lines leave in blocks, and each such drop is an epoch.
 *
 * Any thread may call; it has a lock of its own, an innermost one.
 */
#ifndef CORE_EVENTLOG_H
#define CORE_EVENTLOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct eventlog;

struct eventlog_span {
	uint64_t start;	       /* offset of the oldest byte kept */
	uint64_t end;	       /* offset past the newest */
	uint64_t epoch;	       /* rises when start does */
	uint64_t changed_unix; /* CLOCK_REALTIME ns of the last line */
};

/* max_bytes: how much text is kept; a little less right after a drop. -ENOMEM. */
int eventlog_create(uint64_t max_bytes, struct eventlog **ret);
void eventlog_destroy(struct eventlog *log); /* NULL is fine */
DEFINE_CLEANUP(eventlog, struct eventlog *, eventlog_destroy)

/* Appends whole lines, newlines included. What is larger than the window is cut to nothing.
 * -ENOMEM, and then the lines are counted as lost. */
int eventlog_append(struct eventlog *log, const char *lines, size_t len, uint64_t now_unix);
void eventlog_span(struct eventlog *log, struct eventlog_span *ret);
/* Copies what is kept of [offset, offset + len): how many bytes, 0 at the end, -ESTALE below start.
 */
ssize_t eventlog_read(struct eventlog *log, uint64_t offset, void *buf, size_t len);
/* Bytes of memory held, and appends that found no memory. */
size_t eventlog_memory(struct eventlog *log);
uint64_t eventlog_failures(struct eventlog *log);

#endif
