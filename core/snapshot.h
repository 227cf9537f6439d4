/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a reader sees: bytes that never change, shared by reference count.
 *
 * A snapshot is a list of chunks. Chunks are shared between snapshots, so a new version of a large
 * file costs the chunks that changed and one pointer for each that did not. The bytes stand alone:
 * nothing in them points back to what they were made from. References may be taken and dropped on
 * any thread; nothing here takes a lock.
 */
#ifndef CORE_SNAPSHOT_H
#define CORE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/cleanup.h"

struct chunk;
struct snapshot;

/*
 * Makes a chunk of len bytes at data, which must come from malloc() and belongs to the chunk from
 * here on, also on failure. -ENOMEM.
 */
int chunk_take(void *data, size_t len, struct chunk **ret);
struct chunk *chunk_ref(struct chunk *chunk);
void chunk_unref(struct chunk *chunk); /* NULL is fine */
const void *chunk_data(const struct chunk *chunk, size_t *ret_len);

/* Makes a snapshot of chunks[0..count), taking a reference of its own to each. -ENOMEM. */
int snapshot_from_chunks(struct chunk *const *chunks, size_t count, struct snapshot **ret);
/* Makes a snapshot of malloc()ed bytes, which belong to it from here on, also on failure. */
int snapshot_take(void *data, size_t len, struct snapshot **ret);
/* Makes a snapshot of a copy of bytes. -ENOMEM. */
int snapshot_copy(const void *data, size_t len, struct snapshot **ret);
struct snapshot *snapshot_ref(struct snapshot *snapshot);
void snapshot_unref(struct snapshot *snapshot); /* NULL is fine */
DEFINE_CLEANUP(snapshot, struct snapshot *, snapshot_unref)
#define _cleanup_snapshot_ CLEANUP(snapshot_cleanup)

uint64_t snapshot_size(const struct snapshot *snapshot);
/* How many bytes at the start of both are the same for sure: those of the chunks that they share.
 */
uint64_t snapshot_shared_prefix(const struct snapshot *a, const struct snapshot *b);

/*
 * Describes up to len bytes from offset on with at most max pieces of iov; they stay valid while
 * the caller holds its reference. Returns how many pieces were filled: 0 at or past the end, and
 * fewer bytes than asked for where the end or max came first.
 */
int snapshot_iov(const struct snapshot *snapshot, uint64_t offset, size_t len, struct iovec *iov,
		 int max);
/* Copies up to len bytes from offset on. Returns how many. */
size_t snapshot_read(const struct snapshot *snapshot, uint64_t offset, void *buf, size_t len);

/*
 * Copies the bytes to where they outlive this process (carry.h), once, for as long as the snapshot
 * is there; chunks that were copied before are not again. Returns what snapshot_restore() of the
 * next process takes, or 0: without a region, and for want of memory.
 */
uint64_t snapshot_keep(struct snapshot *snapshot);
/* A snapshot that another process kept: a reference. -ENOENT, -EBADMSG, -ENOMEM. */
int snapshot_restore(uint64_t ref, struct snapshot **ret);
/* Lets go of those that were kept and that nobody has restored. */
void snapshots_forget_unrestored(void);

#endif
