/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whatever bytes lie in a ring: records are decoded within their bounds, and a drain ends with the
 * ring empty. The first two bytes say where in the ring the rest begins, so that all of it wraps.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ring.h"
#include "core/ring_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DATA_SIZE 4096

/* Touches all that a record points to; a sanitizer watches. */
static void touch(const struct record *record, void *arg)
{
	size_t *total = arg;

	switch (record->kind) {
	case RECORD_KSYMBOL:
		*total += strlen(record->ksymbol.name);
		if (strlen(record->ksymbol.name) > 511)
			abort();
		break;
	case RECORD_COMM:
		*total += strlen(record->comm.comm);
		break;
	case RECORD_MMAP2:
		*total += strlen(record->mmap.path);
		break;
	default:
		*total += 1;
		break;
	}
}

static void decode_alone(const uint8_t *data, size_t size, size_t *total)
{
	/* Of its own length, so that each byte too many is seen. */
	uint8_t *copy = malloc(size ? size : 1);
	struct record record;

	if (!copy)
		return;
	memcpy(copy, data, size);
	if (record_decode(copy, size, 0, &record) > 0)
		touch(&record, total);
	free(copy);
}

static void drain(const uint8_t *data, size_t size, uint64_t start, size_t *total)
{
	struct perf_event_mmap_page *page = calloc(1, sizeof(*page));
	uint8_t *ring_data = malloc(DATA_SIZE);
	struct rings *rings = calloc(1, sizeof(*rings) + sizeof(rings->slots[0]));
	struct ring *active;

	if (!page || !ring_data || !rings)
		abort();
	memset(ring_data, 0, DATA_SIZE);
	for (size_t i = 0; i < size && i < DATA_SIZE; i++)
		ring_data[(start + i) % DATA_SIZE] = data[i];
	page->data_tail = start;
	page->data_head = start + size;
	rings->data_size = DATA_SIZE;
	rings->active = &active;
	rings->count = 1;
	rings->slots[0].page = page;
	rings->slots[0].data = ring_data;
	rings->slots[0].left_at = UINT64_MAX;
	rings->slots[0].joined = malloc(RING_RECORD_MAX);
	if (!rings->slots[0].joined)
		abort();
	uint64_t from = 0;
	uint32_t ids[16];

	for (size_t i = 0; rings_find_loads(rings, 0, &from, ids, ARRAY_SIZE(ids)); i++)
		if (i > size)
			abort();
	/* A time to come is left to the next drain once: each takes a record or notes one. */
	for (size_t i = 0; rings_pending(rings) && i <= 2 * size / sizeof(struct perf_event_header);
	     i++)
		rings_drain(rings, touch, total);
	if (rings_pending(rings))
		abort();
	free(rings->slots[0].joined);
	free(rings);
	free(ring_data);
	free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t total = 0;
	uint16_t start;

	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	decode_alone(data + sizeof(start), size - sizeof(start), &total);
	drain(data + sizeof(start), size - sizeof(start), start & ~UINT64_C(7), &total);
	return 0;
}
