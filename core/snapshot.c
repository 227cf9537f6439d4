/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reference-counted chunks of bytes, and snapshots made of them: see snapshot.h. */
#include "core/snapshot.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct chunk {
	atomic_uint refs;
	size_t len;
	void *data;
};

struct snapshot {
	atomic_uint refs;
	size_t count;
	uint64_t size;
	/* Where each chunk ends, so that an offset is found by bisection. */
	uint64_t *ends;
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
	free(chunk->data);
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
