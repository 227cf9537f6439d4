/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that outlives the process: what a daemon that is killed at any instruction must leave to
 * the one that takes its place.
 *
 * It is one region a process, as the heap is, in a memfd that another process keeps open. A block
 * has a kind, and from carry_publish() to carry_free(), each of which is one store, the next
 * process finds it. So a structure is carried over by being made of blocks each of which makes
 * sense alone: counts, lists and trees are rebuilt from them. Pointers in a block mean nothing to
 * the next process.
 *
 * Without a region, in tests and where nobody would take over, a block is a piece of the heap.
 *
 * Any thread may call. The lock is an innermost one.
 */
#ifndef CORE_CARRY_H
#define CORE_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To be changed with every change of a kind's layout: a region of another version is not read. */
#define CARRY_VERSION 5

enum carry_kind {
	CARRY_FREE, /* and what is not published yet */
	CARRY_NODE,
	CARRY_RETRIES,
	CARRY_CHUNK,
	CARRY_SNAPSHOT,
	CARRY_INFLIGHT,
	CARRY_REQUEST,
	CARRY_FILE,
	CARRY_BACKING,
	CARRY_DIRECTORY,
	CARRY_STREAM,
	CARRY_VIEW_STREAM,
	CARRY_EVENTS,
	CARRY_BLOB,
	CARRY_PROGRAM,
	CARRY_HISTORY,
	CARRY_PIN,
	CARRY_PIN_ROOT,
	CARRY_PIN_MAPPINGS,
	CARRY_FOREIGN_NODE,
	CARRY_FOREIGN_FILE,
	CARRY_KINDS,
};

/* Numbers that go on counting. Each is written by whoever has the lock of what it counts. */
struct carry_root {
	uint64_t generation; /* of processes: which one this is */
	uint64_t last_file, last_directory, last_stream, last_foreign; /* handles */
	uint64_t last_foreign_node;
	uint64_t events_epoch;
	uint64_t started_mono, started_unix; /* CLOCK_MONOTONIC and CLOCK_REALTIME ns */
	uint64_t whole_at;		     /* CLOCK_MONOTONIC ns up to which nothing was missed */
	uint64_t history_since;		     /* see kstate.h */
	uint64_t last_kept;		     /* see keeper.h */
	uint64_t last_pin;
};

/*
 * Uses the memfd: an empty one, or one that a process left which is gone. generation: one more than
 * that of any process before, of those too whose region this is not, for there are things left that
 * they have numbered. -EPROTO: it is of another version; -EBADMSG: it makes no sense; errors of
 * mmap(2). Before any other thread runs.
 */
int carry_open(int fd, uint64_t generation);
bool carry_is_open(void);
/* Has another process left something? */
bool carry_is_inherited(void);
/* Of the region, or, without one, of this process alone. */
struct carry_root *carry_root(void);

/* A zeroed block, aligned to 16 bytes; NULL: no memory. */
void *carry_alloc(size_t len);
/* Copies into a block. */
void carry_write(void *to, const void *from, size_t len);
void carry_publish(void *block, enum carry_kind kind);
void carry_free(void *block); /* NULL is fine */

/*
 * Frees those that were left of a kind and are not sound, and has carry_take() take the others in
 * the order of `compare`, which is given two blocks as qsort(3) would. Returns how many.
 */
size_t carry_sort(enum carry_kind kind, bool (*is_sound)(const void *block, size_t len),
		  int (*compare)(const void *a, const void *b));

/*
 * Hands every block of a kind that was left to `take`; one for which it returns false is freed. len
 * is what the block has room for. Once for each kind, before this process makes blocks of it.
 */
void carry_take(enum carry_kind kind, bool (*take)(void *block, size_t len, void *arg), void *arg);

/* A block as a number that means the same to the next process. 0 for NULL, and without a region. */
uint64_t carry_ref(const void *block);
/* NULL: there is no such block of that kind. It is asked for from here on. */
void *carry_at(uint64_t ref, enum carry_kind kind, size_t *ret_len);

/* Frees what was left of a kind and that carry_at() was not asked for. */
void carry_sweep(enum carry_kind kind);

/* Bytes of memory that a block of len bytes takes; 0 for NULL. */
size_t carry_size(const void *block, size_t len);
/* Bytes of memory that blocks have. */
size_t carry_bytes(void);

#endif
