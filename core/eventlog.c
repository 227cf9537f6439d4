/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A window of text in blocks, oldest first: see eventlog.h.
 *
 * Each block outlives the process (carry.h) with where in the log it is, so that whoever takes over
 * puts them in order again. A line is there once len is behind it.
 */
#include "core/eventlog.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/carry.h"

/* Blocks that the window is made of: one of them leaves at a time. */
#define BLOCKS	  16
#define MIN_BLOCK 4096

struct block {
	uint64_t start; /* offset of its first byte */
	uint64_t len;
	uint64_t changed_unix;
	char data[];
};

struct eventlog {
	pthread_mutex_t lock;
	size_t block_size;
	struct block *blocks[BLOCKS];
	size_t count;
	uint64_t end;
	uint64_t epoch; /* as in carry_root() */
	uint64_t changed_unix;
	uint64_t failures;
};

/* Takes a block that was left, keeping blocks sorted; of too many, or too large ones, none. */
static bool take_block(void *data, size_t room, void *arg)
{
	struct eventlog *log = arg;
	struct block *block = data;

	if (log->count == BLOCKS || room < sizeof(*block) || block->len > room - sizeof(*block) ||
	    log->block_size > room - sizeof(*block) || block->start > INT64_MAX)
		return false;
	size_t i = log->count++;
	for (; i > 0 && log->blocks[i - 1]->start > block->start; i--)
		log->blocks[i] = log->blocks[i - 1];
	log->blocks[i] = block;
	return true;
}

/* Goes on with the log of the process before this one. */
static void inherit(struct eventlog *log)
{
	carry_take(CARRY_EVENTS, take_block, log);
	/* Each begins where the one before it ends; what does not fit leaves with all before it. */
	for (size_t i = log->count; i-- > 1;) {
		const struct block *before = log->blocks[i - 1];

		if (before->start + before->len == log->blocks[i]->start)
			continue;
		for (size_t k = 0; k < i; k++)
			carry_free(log->blocks[k]);
		log->count -= i;
		memmove(log->blocks, log->blocks + i, log->count * sizeof(log->blocks[0]));
		break;
	}
	if (log->count) {
		const struct block *last = log->blocks[log->count - 1];

		log->end = last->start + last->len;
		log->changed_unix = last->changed_unix;
	}
}

static void next_epoch(struct eventlog *log)
{
	log->epoch++;
	carry_root()->events_epoch = log->epoch;
}

int eventlog_create(uint64_t max_bytes, struct eventlog **ret)
{
	struct eventlog *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	inheriting_mutex_init(&log->lock);
	log->block_size = MAX(max_bytes / BLOCKS, (uint64_t)MIN_BLOCK);
	if (carry_is_open())
		log->epoch = carry_root()->events_epoch;
	if (carry_is_inherited())
		inherit(log);
	/* What was lost with the process that died began where this begins: one more epoch. */
	if (!log->count)
		next_epoch(log);
	*ret = log;
	return 0;
}

void eventlog_destroy(struct eventlog *log)
{
	if (!log)
		return;
	for (size_t i = 0; i < log->count; i++)
		carry_free(log->blocks[i]);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

static void drop_oldest(struct eventlog *log)
{
	next_epoch(log);
	carry_free(log->blocks[0]);
	log->count--;
	memmove(log->blocks, log->blocks + 1, log->count * sizeof(log->blocks[0]));
}

/* The newest block, if len bytes have room there, or a new one behind it. */
static struct block *block_for(struct eventlog *log, size_t len)
{
	struct block *last = log->count ? log->blocks[log->count - 1] : NULL;

	if (last && last->len + len <= log->block_size)
		return last;
	if (log->count == BLOCKS)
		drop_oldest(log);
	struct block *block = carry_alloc(sizeof(*block) + log->block_size);
	if (!block)
		return NULL;
	block->start = log->end;
	carry_publish(block, CARRY_EVENTS);
	log->blocks[log->count++] = block;
	return block;
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
	atomic_signal_fence(memory_order_seq_cst);
	block->len += len;
	block->changed_unix = now_unix;
	log->end += len;
	log->changed_unix = now_unix;
	return 0;
}

static uint64_t start_of(const struct eventlog *log)
{
	return log->count ? log->blocks[0]->start : log->end;
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
		const struct block *block = log->blocks[i];
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
		bytes += log->blocks[i]->len;
	return bytes;
}

uint64_t eventlog_failures(struct eventlog *log)
{
	LOCKED(&log->lock);
	return log->failures;
}
