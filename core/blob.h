/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes stored once: equal contents (images, BTF, instructions) share one blob, found by hash and
 * compared whole. Blobs are immutable and reference-counted; a pool may be used by any thread (it
 * has a lock of its own, the innermost one).
 *
 * For the bounds of what is retained after an unload a pool counts, beside all its bytes, what
 * those that retained programs hold take of the heap, each content once.
 */
#ifndef CORE_BLOB_H
#define CORE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct blob_pool;

struct blob {
	const void *data; /* 8-byte aligned, NULL when len is 0 */
	size_t len;
	/* the rest is the pool's */
};

int blob_pool_create(struct blob_pool **ret);
/* The pool goes when its owner and its last blob are gone. */
void blob_pool_destroy(struct blob_pool *pool);

/* The blob with these bytes, made if there is none; the caller owns a reference. -ENOMEM. */
int blob_intern(struct blob_pool *pool, const void *data, size_t len, struct blob **ret);
struct blob *blob_ref(struct blob *blob);
void blob_unref(struct blob *blob); /* NULL is fine */
DEFINE_CLEANUP(blob, struct blob *, blob_unref)

/* For a process that takes over (carry.h): what blob_restore() finds it by; 0 without a region. */
uint64_t blob_keep(const struct blob *blob);
/* A blob that another process kept: a reference. -ENOENT: it is not there, or makes no sense. */
int blob_restore(struct blob_pool *pool, uint64_t kept, struct blob **ret);

/* Counts a blob among the retained ones, or no longer; calls nest. */
void blob_retain(struct blob *blob);
void blob_release(struct blob *blob);

/* Bytes of distinct contents: all, and those counted by blob_retain(). */
size_t blob_pool_bytes(const struct blob_pool *pool);
size_t blob_pool_retained_bytes(const struct blob_pool *pool);

#endif
