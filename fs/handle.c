/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Open handles by number: see handle.h. */
#include "fs/handle.h"

#include "core/cleanup.h"

void handles_init(struct handles *handles)
{
	*handles = (struct handles){};
	pthread_mutex_init(&handles->lock, NULL);
}

void handles_deinit(struct handles *handles, void (*destroy)(void *arg, struct handle *handle),
		    void *arg)
{
	for (size_t i = 0; i < HANDLE_BUCKETS; i++) {
		for (struct handle *handle = handles->buckets[i], *next; handle; handle = next) {
			next = handle->next;
			destroy(arg, handle);
		}
	}
	pthread_mutex_destroy(&handles->lock);
}

void handles_add(struct handles *handles, struct handle *handle)
{
	LOCKED(&handles->lock);
	handle->number = ++handles->last;
	struct handle **bucket = &handles->buckets[handle->number % HANDLE_BUCKETS];
	handle->next = *bucket;
	*bucket = handle;
	handles->count++;
}

static struct handle **find_link(struct handles *handles, uint64_t number)
{
	struct handle **link = &handles->buckets[number % HANDLE_BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

struct handle *handles_find(struct handles *handles, uint64_t number)
{
	LOCKED(&handles->lock);
	return *find_link(handles, number);
}

struct handle *handles_remove(struct handles *handles, uint64_t number)
{
	LOCKED(&handles->lock);
	struct handle **link = find_link(handles, number);
	struct handle *handle = *link;

	if (handle) {
		*link = handle->next;
		handles->count--;
	}
	return handle;
}

struct handle *handles_next(struct handles *handles, struct handle *handle)
{
	size_t i = 0;

	if (handle) {
		if (handle->next)
			return handle->next;
		i = handle->number % HANDLE_BUCKETS + 1;
	}
	for (; i < HANDLE_BUCKETS; i++) {
		if (handles->buckets[i])
			return handles->buckets[i];
	}
	return NULL;
}
