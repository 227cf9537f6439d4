/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pool of blobs: a hash table of chains, under one mutex. See blob.h.
 *
 * Blobs outlive the process (carry.h); what refers to them says which are still needed.
 *
 * Dropping a reference that may be the last one also takes the mutex, so that a blob found in the
 * table is never one that is on its way out.
 */
#include "core/blob.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "core/carry.h"

#define FIRST_BUCKETS 256

struct entry {
	struct blob blob; /* first: a blob is its entry */
	struct blob_pool *pool;
	struct entry *next;
	uint64_t hash;
	size_t refs;
	size_t retained;
	uint64_t bytes[];
};

struct blob_pool {
	pthread_mutex_t lock; /* guards all of this, entries too; innermost */
	struct entry **buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
	size_t bytes;
	size_t retained_bytes;
	bool owned;
};

static struct entry *blob_entry(struct blob *blob)
{
	return (struct entry *)blob;
}

int blob_pool_create(struct blob_pool **ret)
{
	struct blob_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->buckets = calloc(FIRST_BUCKETS, sizeof(pool->buckets[0]));
	if (!pool->buckets) {
		free(pool);
		return -ENOMEM;
	}
	pool->bucket_count = FIRST_BUCKETS;
	pool->owned = true;
	inheriting_mutex_init(&pool->lock);
	*ret = pool;
	return 0;
}

static void pool_free(struct blob_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
	free(pool->buckets);
	free(pool);
}

void blob_pool_destroy(struct blob_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->owned = false;
	bool last = pool->count == 0;
	pthread_mutex_unlock(&pool->lock);
	if (last)
		pool_free(pool);
}

static struct entry **bucket(struct blob_pool *pool, uint64_t hash)
{
	return &pool->buckets[hash & (pool->bucket_count - 1)];
}

/* Twice the buckets when chains grow; without memory for them they just stay long. */
static void maybe_grow(struct blob_pool *pool)
{
	if (pool->count < pool->bucket_count)
		return;
	size_t old_count = pool->bucket_count;
	struct entry **old = pool->buckets;
	struct entry **grown = calloc(old_count * 2, sizeof(grown[0]));

	if (!grown)
		return;
	pool->buckets = grown;
	pool->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		for (struct entry *entry = old[i], *next; entry; entry = next) {
			struct entry **at = bucket(pool, entry->hash);

			next = entry->next;
			entry->next = *at;
			*at = entry;
		}
	}
	free(old);
}

/* Under the lock: the first reference of an entry whose bytes are there. */
static void insert_entry(struct blob_pool *pool, struct entry *entry, size_t len, uint64_t hash)
{
	maybe_grow(pool);
	struct entry **at = bucket(pool, hash);

	*entry = (struct entry){
		.blob = {.data = len ? entry->bytes : NULL, .len = len},
		.pool = pool,
		.next = *at,
		.hash = hash,
		.refs = 1,
	};
	*at = entry;
	pool->count++;
	pool->bytes += len;
}

int blob_intern(struct blob_pool *pool, const void *data, size_t len, struct blob **ret)
{
	uint64_t hash = XXH3_64bits(data, len);
	LOCKED(&pool->lock);

	for (struct entry *entry = *bucket(pool, hash); entry; entry = entry->next) {
		if (entry->hash == hash && entry->blob.len == len &&
		    (len == 0 || memcmp(entry->bytes, data, len) == 0)) {
			entry->refs++;
			*ret = &entry->blob;
			return 0;
		}
	}
	if (len > SIZE_MAX - sizeof(struct entry))
		return -ENOMEM;
	struct entry *entry = carry_alloc(sizeof(*entry) + len);

	if (!entry)
		return -ENOMEM;
	carry_write(entry->bytes, data, len);
	insert_entry(pool, entry, len, hash);
	carry_publish(entry, CARRY_BLOB);
	*ret = &entry->blob;
	return 0;
}

uint64_t blob_keep(const struct blob *blob)
{
	return carry_ref(blob);
}

int blob_restore(struct blob_pool *pool, uint64_t kept, struct blob **ret)
{
	size_t room;
	struct entry *entry = carry_at(kept, CARRY_BLOB, &room);

	if (!entry || room < sizeof(*entry) || entry->blob.len > room - sizeof(*entry))
		return -ENOENT;
	size_t len = entry->blob.len;
	uint64_t hash = XXH3_64bits(entry->bytes, len);
	LOCKED(&pool->lock);

	for (struct entry *other = *bucket(pool, hash); other; other = other->next) {
		if (other == entry) {
			entry->refs++;
			*ret = &entry->blob;
			return 0;
		}
	}
	insert_entry(pool, entry, len, hash);
	*ret = &entry->blob;
	return 0;
}

struct blob *blob_ref(struct blob *blob)
{
	LOCKED(&blob_entry(blob)->pool->lock);

	blob_entry(blob)->refs++;
	return blob;
}

/* Takes an entry without references out of the table. Under the pool's lock. */
static void unlink_entry(struct blob_pool *pool, struct entry *entry)
{
	struct entry **at = bucket(pool, entry->hash);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	pool->count--;
	pool->bytes -= entry->blob.len;
}

void blob_unref(struct blob *blob)
{
	if (!blob)
		return;
	struct entry *entry = blob_entry(blob);
	struct blob_pool *pool = entry->pool;

	pthread_mutex_lock(&pool->lock);
	bool gone = --entry->refs == 0;

	if (gone)
		unlink_entry(pool, entry);
	bool last = gone && !pool->owned && pool->count == 0;

	pthread_mutex_unlock(&pool->lock);
	if (gone)
		carry_free(entry);
	if (last)
		pool_free(pool);
}

void blob_retain(struct blob *blob)
{
	struct blob_pool *pool = blob_entry(blob)->pool;
	LOCKED(&pool->lock);

	if (blob_entry(blob)->retained++ == 0)
		pool->retained_bytes += carry_size(blob, sizeof(struct entry) + blob->len);
}

void blob_release(struct blob *blob)
{
	struct blob_pool *pool = blob_entry(blob)->pool;
	LOCKED(&pool->lock);

	if (--blob_entry(blob)->retained == 0)
		pool->retained_bytes -= carry_size(blob, sizeof(struct entry) + blob->len);
}

size_t blob_pool_bytes(const struct blob_pool *pool)
{
	/* A pool is never const in itself: only what callers may do with it is. */
	LOCKED((pthread_mutex_t *)&pool->lock);

	return pool->bytes;
}

size_t blob_pool_retained_bytes(const struct blob_pool *pool)
{
	LOCKED((pthread_mutex_t *)&pool->lock);

	return pool->retained_bytes;
}
