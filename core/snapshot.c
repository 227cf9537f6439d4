/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reference-counted chunks of bytes, and snapshots made of them: see snapshot.h. */
#include "core/snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/carry.h"

struct chunk {
	atomic_uint refs;
	size_t len;
	void *data;
	struct kept_chunk *kept; /* a copy that outlives the process, or where data is; NULL */
};

/* Blocks of carry.h. Whose generation is of this process has been claimed, and the pointer is good.
 */
struct kept_chunk {
	uint64_t generation;
	struct chunk *chunk;
	uint64_t len;
	char data[];
};

struct kept_snapshot {
	uint64_t generation;
	struct snapshot *snapshot;
	uint64_t count;
	uint64_t chunks[]; /* carry_ref() */
};

/* Of all `kept`. */
static pthread_mutex_t keep_lock = PTHREAD_MUTEX_INITIALIZER;

struct snapshot {
	atomic_uint refs;
	size_t count;
	uint64_t size;
	/* Where each chunk ends, so that an offset is found by bisection. */
	uint64_t *ends;
	struct kept_snapshot *kept;
	struct chunk *chunks[];
};

int chunk_take(void *data, size_t len, struct chunk **ret)
{
	struct chunk *chunk = malloc(sizeof(*chunk));

	if (!chunk) {
		free(data);
		return -ENOMEM;
	}
	atomic_init(&chunk->refs, 1);
	chunk->len = len;
	chunk->data = data;
	chunk->kept = NULL;
	*ret = chunk;
	return 0;
}

struct chunk *chunk_ref(struct chunk *chunk)
{
	atomic_fetch_add_explicit(&chunk->refs, 1, memory_order_relaxed);
	return chunk;
}

void chunk_unref(struct chunk *chunk)
{
	if (!chunk || atomic_fetch_sub_explicit(&chunk->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (!chunk->kept || chunk->data != chunk->kept->data)
		free(chunk->data);
	carry_free(chunk->kept);
	free(chunk);
}

const void *chunk_data(const struct chunk *chunk, size_t *ret_len)
{
	*ret_len = chunk->len;
	return chunk->data;
}

int snapshot_from_chunks(struct chunk *const *chunks, size_t count, struct snapshot **ret)
{
	struct snapshot *snapshot = malloc(sizeof(*snapshot) + count * sizeof(chunks[0]));
	uint64_t *ends = malloc(MAX(count, (size_t)1) * sizeof(*ends));

	if (!snapshot || !ends) {
		free(snapshot);
		free(ends);
		return -ENOMEM;
	}
	atomic_init(&snapshot->refs, 1);
	snapshot->count = count;
	snapshot->size = 0;
	snapshot->kept = NULL;
	snapshot->ends = ends;
	for (size_t i = 0; i < count; i++) {
		snapshot->chunks[i] = chunk_ref(chunks[i]);
		snapshot->size += chunks[i]->len;
		ends[i] = snapshot->size;
	}
	*ret = snapshot;
	return 0;
}

int snapshot_take(void *data, size_t len, struct snapshot **ret)
{
	struct chunk *chunk;
	int r = chunk_take(data, len, &chunk);

	if (r < 0)
		return r;
	r = snapshot_from_chunks(&chunk, 1, ret);
	chunk_unref(chunk);
	return r;
}

int snapshot_copy(const void *data, size_t len, struct snapshot **ret)
{
	void *copy = malloc(MAX(len, (size_t)1));

	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, data, len);
	return snapshot_take(copy, len, ret);
}

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
	atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
	return snapshot;
}

void snapshot_unref(struct snapshot *snapshot)
{
	if (!snapshot || atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel) != 1)
		return;
	carry_free(snapshot->kept);
	for (size_t i = 0; i < snapshot->count; i++)
		chunk_unref(snapshot->chunks[i]);
	free(snapshot->ends);
	free(snapshot);
}

uint64_t snapshot_size(const struct snapshot *snapshot)
{
	return snapshot->size;
}

uint64_t snapshot_shared_prefix(const struct snapshot *a, const struct snapshot *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && a->chunks[i] == b->chunks[i])
		i++;
	return i ? a->ends[i - 1] : 0;
}

/* The first chunk that ends past offset. */
static size_t find_chunk(const struct snapshot *snapshot, uint64_t offset)
{
	size_t low = 0, high = snapshot->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (snapshot->ends[mid] <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int snapshot_iov(const struct snapshot *snapshot, uint64_t offset, size_t len, struct iovec *iov,
		 int max)
{
	int n = 0;

	for (size_t i = find_chunk(snapshot, offset); i < snapshot->count && len && n < max; i++) {
		const struct chunk *chunk = snapshot->chunks[i];
		size_t skip = offset - (snapshot->ends[i] - chunk->len);
		size_t take = MIN(chunk->len - skip, len);

		if (!take)
			continue;
		iov[n++] = (struct iovec){(char *)chunk->data + skip, take};
		offset += take;
		len -= take;
	}
	return n;
}

size_t snapshot_read(const struct snapshot *snapshot, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;
	struct iovec iov;

	while (done < len && snapshot_iov(snapshot, offset + done, len - done, &iov, 1) == 1) {
		memcpy((char *)buf + done, iov.iov_base, iov.iov_len);
		done += iov.iov_len;
	}
	return done;
}

/* Under the lock. False: no memory. */
static bool keep_chunk(struct chunk *chunk)
{
	if (chunk->kept)
		return true;
	struct kept_chunk *kept = carry_alloc(sizeof(*kept) + chunk->len);

	if (!kept)
		return false;
	kept->generation = carry_root()->generation;
	kept->chunk = chunk;
	kept->len = chunk->len;
	carry_write(kept->data, chunk->data, chunk->len);
	carry_publish(kept, CARRY_CHUNK);
	chunk->kept = kept;
	return true;
}

uint64_t snapshot_keep(struct snapshot *snapshot)
{
	if (!carry_is_open())
		return 0;
	LOCKED(&keep_lock);
	if (snapshot->kept)
		return carry_ref(snapshot->kept);
	struct kept_snapshot *kept =
		carry_alloc(sizeof(*kept) + snapshot->count * sizeof(kept->chunks[0]));

	if (!kept)
		return 0;
	kept->generation = carry_root()->generation;
	kept->snapshot = snapshot;
	for (; kept->count < snapshot->count; kept->count++) {
		struct chunk *chunk = snapshot->chunks[kept->count];

		if (!keep_chunk(chunk)) {
			carry_free(kept);
			return 0;
		}
		kept->chunks[kept->count] = carry_ref(chunk->kept);
	}
	carry_publish(kept, CARRY_SNAPSHOT);
	snapshot->kept = kept;
	return carry_ref(kept);
}

static struct chunk *restore_chunk(uint64_t ref)
{
	size_t room;
	struct kept_chunk *kept = carry_at(ref, CARRY_CHUNK, &room);

	if (!kept || room < sizeof(*kept) || kept->len > room - sizeof(*kept))
		return NULL;
	if (kept->generation == carry_root()->generation)
		return chunk_ref(kept->chunk);
	struct chunk *chunk = malloc(sizeof(*chunk));

	if (!chunk)
		return NULL;
	atomic_init(&chunk->refs, 1);
	chunk->len = kept->len;
	chunk->data = kept->data;
	chunk->kept = kept;
	kept->chunk = chunk;
	kept->generation = carry_root()->generation;
	return chunk;
}

int snapshot_restore(uint64_t ref, struct snapshot **ret)
{
	size_t room;
	struct kept_snapshot *kept = carry_at(ref, CARRY_SNAPSHOT, &room);
	_cleanup_free_ struct chunk **chunks = NULL;
	int r = 0;

	if (!kept || room < sizeof(*kept) ||
	    kept->count > (room - sizeof(*kept)) / sizeof(kept->chunks[0]))
		return -ENOENT;
	if (kept->generation == carry_root()->generation) {
		*ret = snapshot_ref(kept->snapshot);
		return 0;
	}
	chunks = calloc(MAX(kept->count, UINT64_C(1)), sizeof(struct chunk *));
	if (!chunks)
		return -ENOMEM;
	for (size_t i = 0; i < kept->count && r == 0; i++) {
		chunks[i] = restore_chunk(kept->chunks[i]);
		if (!chunks[i])
			r = -EBADMSG;
	}
	if (r == 0)
		r = snapshot_from_chunks(chunks, kept->count, ret);
	if (r == 0) {
		(*ret)->kept = kept;
		kept->snapshot = *ret;
		kept->generation = carry_root()->generation;
	}
	for (size_t i = 0; i < kept->count && chunks[i]; i++)
		chunk_unref(chunks[i]);
	return r;
}

void snapshots_forget_unrestored(void)
{
	carry_sweep(CARRY_SNAPSHOT);
	carry_sweep(CARRY_CHUNK);
}
