/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open handles by number. Numbers are never used again, so that a handle of before a crash is never
 * taken for another one. A handle goes when it is closed and nobody works on it any more. One that
 * is a block of carry.h outlives the process, and each knows the request that opened it: a request
 * that was not answered is sent again to the next process, and must not count twice.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/carry.h"

/* The first member of what its user makes. */
struct handle {
	uint64_t number;
	uint64_t unique; /* of the request that opened it */
	unsigned int refs;
	struct handle *next;
};

#define HANDLE_BUCKETS 256

struct handles {
	/* Also guards what changes in a handle. A stream may be asked for its size with it held. */
	pthread_mutex_t lock;
	enum carry_kind kind; /* CARRY_FREE: they are not blocks */
	uint64_t *last;
	struct handle *buckets[HANDLE_BUCKETS];
	void (*destroy)(struct handle *handle);
};

/* destroy is called with no lock held. last: the last number that was given, kept by the caller. */
void handles_init(struct handles *handles, enum carry_kind kind, uint64_t *last,
		  void (*destroy)(struct handle *handle));
/* Closes those that are left, when nobody else uses the table any more. */
void handles_clear(struct handles *handles);
void handles_deinit(struct handles *handles);

/* Numbers a handle and puts it in; it belongs to the table from here on. Returns its number. */
uint64_t handles_add(struct handles *handles, struct handle *handle, uint64_t unique);
/* Puts in one that another process has numbered, in place of what has its number. */
void handles_resume(struct handles *handles, struct handle *handle);
/* The number of the handle that this request has opened; 0: there is none. */
uint64_t handles_opened_by(struct handles *handles, uint64_t unique);
/* Has a number stand for another handle, which belongs to the table then. False: there is none. */
bool handles_replace(struct handles *handles, uint64_t number, struct handle *handle);
/* NULL: there is none. */
struct handle *handles_get(struct handles *handles, uint64_t number);
void handles_put(struct handles *handles, struct handle *handle);
/* False: there is none. */
bool handles_close(struct handles *handles, uint64_t number);
size_t handles_count(struct handles *handles);
/* With the lock held: the one after handle, or the first. */
struct handle *handles_next(struct handles *handles, struct handle *handle);

#endif
