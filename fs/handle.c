/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Open handles by number: see handle.h. */
#include "fs/handle.h"

#include "core/cleanup.h"

void handles_init(struct handles *handles, enum carry_kind kind, uint64_t *last,
		  void (*destroy)(struct handle *handle))
{
	*handles = (struct handles){.kind = kind, .last = last, .destroy = destroy};
	inheriting_mutex_init(&handles->lock);
}

void handles_clear(struct handles *handles)
{
	for (size_t i = 0; i < HANDLE_BUCKETS; i++) {
		struct handle *handle;

		while ((handle = handles->buckets[i]))
			handles_close(handles, handle->number);
	}
}

void handles_deinit(struct handles *handles)
{
	handles_clear(handles);
	pthread_mutex_destroy(&handles->lock);
}

/* Under the lock. */
static void insert(struct handles *handles, struct handle *handle)
{
	struct handle **bucket = &handles->buckets[handle->number % HANDLE_BUCKETS];

	handle->refs = 1;
	handle->next = *bucket;
	*bucket = handle;
}

uint64_t handles_add(struct handles *handles, struct handle *handle, uint64_t unique)
{
	LOCKED(&handles->lock);
	handle->number = ++*handles->last;
	handle->unique = unique;
	insert(handles, handle);
	if (handles->kind)
		carry_publish(handle, handles->kind);
	return handle->number;
}

void handles_resume(struct handles *handles, struct handle *handle)
{
	handles_close(handles, handle->number);
	LOCKED(&handles->lock);
	insert(handles, handle);
}

uint64_t handles_opened_by(struct handles *handles, uint64_t unique)
{
	struct handle *handle = NULL;

	LOCKED(&handles->lock);
	while ((handle = handles_next(handles, handle)))
		if (handle->unique == unique)
			return handle->number;
	return 0;
}

static struct handle **find_link(struct handles *handles, uint64_t number)
{
	struct handle **link = &handles->buckets[number % HANDLE_BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

bool handles_replace(struct handles *handles, uint64_t number, struct handle *handle)
{
	pthread_mutex_lock(&handles->lock);
	struct handle **link = find_link(handles, number);
	struct handle *before = *link;
	if (before) {
		*link = before->next;
		handle->number = number;
		handle->unique = before->unique;
		insert(handles, handle);
		if (handles->kind)
			carry_publish(handle, handles->kind);
	}
	pthread_mutex_unlock(&handles->lock);
	if (before)
		handles_put(handles, before);
	return before;
}

struct handle *handles_get(struct handles *handles, uint64_t number)
{
	LOCKED(&handles->lock);
	struct handle *handle = *find_link(handles, number);

	if (handle)
		handle->refs++;
	return handle;
}

void handles_put(struct handles *handles, struct handle *handle)
{
	pthread_mutex_lock(&handles->lock);
	unsigned int refs = --handle->refs;
	pthread_mutex_unlock(&handles->lock);
	if (!refs)
		handles->destroy(handle);
}

bool handles_close(struct handles *handles, uint64_t number)
{
	pthread_mutex_lock(&handles->lock);
	struct handle **link = find_link(handles, number);
	struct handle *handle = *link;
	if (handle)
		*link = handle->next;
	pthread_mutex_unlock(&handles->lock);
	if (handle)
		handles_put(handles, handle);
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

size_t handles_count(struct handles *handles)
{
	struct handle *handle = NULL;
	size_t count = 0;

	LOCKED(&handles->lock);
	while ((handle = handles_next(handles, handle)))
		count++;
	return count;
}
