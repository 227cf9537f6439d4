/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open handles by number. Numbers are never used again, so that a handle of before a crash is never
 * taken for another one. A handle's fields but these are its user's.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct handle {
	uint64_t number;
	struct handle *next;
};

#define HANDLE_BUCKETS 256

struct handles {
	pthread_mutex_t lock; /* an outer one: a stream may be asked for its size with it held */
	uint64_t last;
	size_t count;
	struct handle *buckets[HANDLE_BUCKETS];
};

void handles_init(struct handles *handles);
/* Hands each handle that is left to destroy. */
void handles_deinit(struct handles *handles, void (*destroy)(void *arg, struct handle *handle),
		    void *arg);

/* Numbers a handle and puts it in. */
void handles_add(struct handles *handles, struct handle *handle);
/*
 * NULL: there is none. The kernel does not release a handle while it asks something of it, so what
 * is found stays.
 */
struct handle *handles_find(struct handles *handles, uint64_t number);
/* The same, and takes it out. */
struct handle *handles_remove(struct handles *handles, uint64_t number);
/* With the lock held: the one after handle, or the first. */
struct handle *handles_next(struct handles *handles, struct handle *handle);

#endif
