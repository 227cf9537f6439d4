/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A window of text in blocks, oldest first: see eventlog.h. */
#include "core/eventlog.h"

#include <errno.h>
#include <string.h>

/* Blocks that the window is made of: one of them leaves at a time. */
#define BLOCKS	  16
#define MIN_BLOCK 4096

struct block {
	uint64_t start; /* offset of its first byte */
	size_t len;
	size_t size;
	char *data;
};

struct eventlog {
	pthread_mutex_t lock;
	size_t block_size;
	struct block blocks[BLOCKS];
	size_t count;
	uint64_t end;
	uint64_t epoch;
	uint64_t changed_unix;
	uint64_t failures;
};

int eventlog_create(uint64_t max_bytes, struct eventlog **ret)
{
	struct eventlog *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	pthread_mutex_init(&log->lock, NULL);
	log->block_size = MAX(max_bytes / BLOCKS, (uint64_t)MIN_BLOCK);
	log->epoch = 1;
	*ret = log;
	return 0;
}

void eventlog_destroy(struct eventlog *log)
{
	if (!log)
		return;
	for (size_t i = 0; i < log->count; i++)
		free(log->blocks[i].data);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

static void drop_oldest(struct eventlog *log)
{
	free(log->blocks[0].data);
	log->count--;
	memmove(log->blocks, log->blocks + 1, log->count * sizeof(log->blocks[0]));
	log->epoch++;
}

/* Makes room for len bytes in the newest block, or a new one behind it. */
static struct block *block_for(struct eventlog *log, size_t len)
{
	struct block *last = log->count ? &log->blocks[log->count - 1] : NULL;

	if (!last || last->len + len > log->block_size) {
		if (log->count == BLOCKS)
			drop_oldest(log);
		last = &log->blocks[log->count++];
		*last = (struct block){.start = log->end};
	}
	if (last->len + len > last->size) {
		size_t size = MIN(MAX(last->size * 2, last->len + len + 1024), log->block_size);
		char *data = realloc(last->data, size);

		if (!data)
			return NULL;
		last->data = data;
		last->size = size;
	}
	return last;
}

int eventlog_append(struct eventlog *log, const char *lines, size_t len, uint64_t now_unix)
{
	LOCKED(&log->lock);
	struct block *block = len <= log->block_size ? block_for(log, len) : NULL;

	if (!block) {
		log->failures++;
		return -ENOMEM;
	}
	memcpy(block->data + block->len, lines, len);
	block->len += len;
	log->end += len;
	log->changed_unix = now_unix;
	return 0;
}

static uint64_t start_of(const struct eventlog *log)
{
	return log->count ? log->blocks[0].start : log->end;
}

void eventlog_span(struct eventlog *log, struct eventlog_span *ret)
{
	LOCKED(&log->lock);
	*ret = (struct eventlog_span){
		.start = start_of(log),
		.end = log->end,
		.epoch = log->epoch,
		.changed_unix = log->changed_unix,
	};
}

ssize_t eventlog_read(struct eventlog *log, uint64_t offset, void *buf, size_t len)
{
	LOCKED(&log->lock);
	size_t done = 0;

	if (offset < start_of(log))
		return -ESTALE;
	for (size_t i = 0; i < log->count && done < len; i++) {
		const struct block *block = &log->blocks[i];
		uint64_t at = offset + done;

		if (at < block->start || at >= block->start + block->len)
			continue;
		size_t skip = at - block->start;
		size_t take = MIN(block->len - skip, len - done);

		memcpy((char *)buf + done, block->data + skip, take);
		done += take;
	}
	return done;
}

size_t eventlog_memory(struct eventlog *log)
{
	LOCKED(&log->lock);
	size_t bytes = 0;

	for (size_t i = 0; i < log->count; i++)
		bytes += log->blocks[i].size;
	return bytes;
}

uint64_t eventlog_failures(struct eventlog *log)
{
	LOCKED(&log->lock);
	return log->failures;
}
