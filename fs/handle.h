/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open handles by number. Numbers are never used again, so that a handle of before a crash is never
 * taken for another one. A handle goes when it is closed and nobody works on it any more.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of what its user makes. */
struct handle {
	uint64_t number;
	unsigned int refs;
	struct handle *next;
};

#define HANDLE_BUCKETS 256

struct handles {
	/* Also guards what changes in a handle. A stream may be asked for its size with it held. */
	pthread_mutex_t lock;
	uint64_t last;
	struct handle *buckets[HANDLE_BUCKETS];
	void (*destroy)(struct handle *handle);
};

/* destroy is called with no lock held. */
void handles_init(struct handles *handles, void (*destroy)(struct handle *handle));
/* Closes those that are left, when nobody else uses the table any more. */
void handles_clear(struct handles *handles);
void handles_deinit(struct handles *handles);

/* Numbers a handle and puts it in; it belongs to the table from here on. Returns its number. */
uint64_t handles_add(struct handles *handles, struct handle *handle);
/* NULL: there is none. */
struct handle *handles_get(struct handles *handles, uint64_t number);
void handles_put(struct handles *handles, struct handle *handle);
void handles_close(struct handles *handles, uint64_t number);
/* With the lock held: the one after handle, or the first. */
struct handle *handles_next(struct handles *handles, struct handle *handle);

#endif
