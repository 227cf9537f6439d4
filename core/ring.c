/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perf rings drained: records taken out, merged by time, their losses counted. See ring.h;
 * ring_open.c makes the rings.
 *
 * A record is decoded where it lies, and its place given back to the kernel when whoever took it
 * is done: nothing is copied but a record that wraps around, nothing is allocated for a record.
 */
#include "core/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/ring_priv.h"

/* A drain leaves a record that is too young to the next one; more than one in vain means a fault.
 */
#define MAX_IN_VAIN 8
/* Bytes, more than a record needs to tell of a load. */
#define LOAD_RECORD_MAX 64

int ring_read_count(const struct ring *ring, struct event_count *ret)
{
	*ret = (struct event_count){};
	return read(ring->fd, ret, sizeof(*ret)) < 0 ? -errno : 0;
}

/* Pairs with the kernel's release in perf_output_put_handle(): what lies below the head is whole.
 */
static uint64_t ring_head(const struct ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

/* Says that all below tail was taken, with everything that its taker did. */
static void ring_set_tail(struct ring *ring, uint64_t tail)
{
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static uint64_t ring_tail(const struct ring *ring)
{
	return __atomic_load_n(&ring->page->data_tail, __ATOMIC_ACQUIRE);
}

/* The tail as it is when all that was read of the ring before has been read. */
static uint64_t ring_tail_after(const struct ring *ring)
{
	/* An acquiring load would let reads that come before it pass; adding nothing does not. */
	return __atomic_fetch_add(&ring->page->data_tail, 0, __ATOMIC_ACQ_REL);
}

int rings_fd(const struct rings *rings)
{
	return rings->epoll_fd;
}

static const struct ring *find_slot(const struct rings *rings, unsigned int cpu)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_acquire);

	for (unsigned int i = 0; i < count; i++)
		if (rings->slots[i].cpu == cpu)
			return &rings->slots[i];
	return NULL;
}

int rings_cpu_fd(const struct rings *rings, unsigned int cpu)
{
	const struct ring *ring = find_slot(rings, cpu);

	return ring ? ring->epoll_fd : -ENOENT;
}

bool rings_pending(const struct rings *rings)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_acquire);

	for (unsigned int i = 0; i < count; i++)
		if (ring_head(&rings->slots[i]) != ring_tail(&rings->slots[i]))
			return true;
	return false;
}

static void ring_copy(const struct ring *ring, size_t data_size, uint64_t pos, void *ret,
		      size_t len)
{
	size_t offset = pos & (data_size - 1);
	size_t first = MIN(data_size - offset, len);

	memcpy(ret, ring->data + offset, first);
	memcpy((uint8_t *)ret + first, ring->data, len - first);
}

/* The bytes of the ring at pos, in one piece. */
static const uint8_t *ring_bytes(struct ring *ring, size_t data_size, uint64_t pos, size_t len)
{
	size_t offset = pos & (data_size - 1);

	if (len <= data_size - offset)
		return ring->data + offset;
	ring_copy(ring, data_size, pos, ring->joined, len);
	return ring->joined;
}

/* The id of the program whose load a record tells of, 0 if it tells of something else. */
static uint32_t loaded_id(const void *data, size_t len, uint32_t cpu)
{
	struct record record;

	if (record_decode(data, len, cpu, &record) > 0 && record.kind == RECORD_BPF_EVENT &&
	    record.bpf.type == PERF_BPF_EVENT_PROG_LOAD)
		return record.bpf.id;
	return 0;
}

size_t rings_find_loads(const struct rings *rings, unsigned int cpu, uint64_t *from,
			uint32_t *ret_ids, size_t max)
{
	const struct ring *ring = find_slot(rings, cpu);
	union {
		struct perf_event_header header;
		uint8_t bytes[LOAD_RECORD_MAX];
	} copy;
	size_t found = 0;

	if (!ring)
		return 0;
	uint64_t end = ring_head(ring), tail = ring_tail(ring);

	*from = MAX(*from, tail);
	while (found < max && *from < end) {
		size_t len = MIN(sizeof(copy), end - *from);

		copy.header.size = 0;
		ring_copy(ring, rings->data_size, *from, &copy, len);
		/* Another thread has taken it, and what the kernel wrote there since was copied? */
		tail = ring_tail_after(ring);
		if (tail > *from) {
			*from = tail;
			continue;
		}
		uint64_t next = *from + copy.header.size;

		/* It may be longer, by what tells nothing. */
		copy.header.size = MIN(copy.header.size, len);
		uint32_t id = loaded_id(&copy, copy.header.size, cpu);

		if (id)
			ret_ids[found++] = id;
		/* What is malformed whoever drains will tell of. */
		*from = copy.header.size >= sizeof(copy.header) ? next : end;
	}
	return found;
}

/*
 * Gives taken records back to the kernel. The last one of a crowded ring is kept until its losses
 * are told too: while anything is left to tell, rings_pending() has to say so.
 */
static void ring_release(struct ring *ring)
{
	if (!ring->crowded || ring->pos != ring->end)
		ring_set_tail(ring, ring->pos);
}

/* What could not be read may have been anything: it is told as lost, so that somebody looks. */
static void set_malformed(struct rings *rings, struct ring *ring)
{
	rings->stats.malformed++;
	ring->next = (struct record){
		.kind = RECORD_LOST,
		.time = ring->last_time,
		.cpu = ring->cpu,
		.lost.count = 1,
	};
}

/* Is there something in this LOST record that read() has not told already? */
static bool count_lost(struct rings *rings, struct ring *ring)
{
	ring->lost_records += ring->next.lost.count;
	if (ring->lost_records <= ring->lost_told)
		return false;
	ring->next.lost.count = ring->lost_records - ring->lost_told;
	ring->lost_told = ring->lost_records;
	rings->stats.lost += ring->next.lost.count;
	return true;
}

/* Decodes the next record that matters; false at the end. */
static bool ring_peek(struct rings *rings, struct ring *ring)
{
	while (ring->pos != ring->end) {
		struct perf_event_header header = {};
		uint64_t left = ring->end - ring->pos;

		/* Records are multiples of 8 bytes, so a header does not wrap. */
		if (ring->pos % sizeof(uint64_t) == 0 && left % sizeof(uint64_t) == 0 &&
		    left <= rings->data_size)
			memcpy(&header, ring->data + (ring->pos & (rings->data_size - 1)),
			       sizeof(header));
		if (header.size < sizeof(header) || header.size % sizeof(uint64_t) ||
		    header.size > left) {
			ring->next_len = left;
			set_malformed(rings, ring);
			return true;
		}
		const uint8_t *data = ring_bytes(ring, rings->data_size, ring->pos, header.size);

		int r = record_decode(data, header.size, ring->cpu, &ring->next);

		ring->next_len = header.size;
		if (r < 0) {
			set_malformed(rings, ring);
			return true;
		}
		if (r > 0 && ring->next.time > rings->cutoff && ring->left_at != ring->pos) {
			ring->left_at = ring->pos;
			ring_release(ring);
			return false;
		}
		if (r > 0)
			ring->last_time = ring->next.time;
		if (r > 0 && (ring->next.kind != RECORD_LOST || count_lost(rings, ring)))
			return true;
		ring->pos += header.size;
	}
	ring_release(ring);
	return false;
}

/*
 * Notes how far each ring is to be read. Heads cannot be read at one moment: between two of them a
 * program may be unloaded on one CPU and another loaded at its address on the next, and only the
 * second be seen. So what was written after the first look stays for the next drain; whatever had
 * to happen before a record that is taken is then taken too.
 */
static size_t find_active(struct rings *rings)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);
	size_t active = 0;

	rings->cutoff = monotonic_ns();

	for (unsigned int i = 0; i < count; i++) {
		struct ring *ring = &rings->slots[i];

		ring->end = ring_head(ring);
		ring->pos = ring_tail(ring);
		if (ring->end == ring->pos)
			continue;
		/*
		 * Losing takes a full ring. A quarter also catches one that filled up while the
		 * drain before this was at work.
		 */
		ring->crowded = rings->counts_lost && ring->end - ring->pos > rings->data_size / 4;
		rings->active[active++] = ring;
	}
	return active;
}

/* Tells what read() knows of losses that no LOST record has told of yet. */
static void take_lost(struct rings *rings, struct ring *ring, rings_take_fn *take, void *arg)
{
	struct event_count count;

	if (ring_read_count(ring, &count) < 0 || ring->lost_base + count.lost <= ring->lost_told)
		return;
	struct record record = {
		.kind = RECORD_LOST,
		.time = monotonic_ns(),
		.cpu = ring->cpu,
		.lost.count = ring->lost_base + count.lost - ring->lost_told,
	};

	ring->lost_told += record.lost.count;
	rings->stats.lost += record.lost.count;
	rings->stats.records++;
	take(&record, arg);
}

/* Gives away the oldest record of all rings. They are few, so a scan beats a heap. */
static void take_oldest(struct rings *rings, size_t *active, rings_take_fn *take, void *arg)
{
	size_t oldest = 0;

	for (size_t i = 1; i < *active; i++)
		if (rings->active[i]->next.time < rings->active[oldest]->next.time)
			oldest = i;
	struct ring *ring = rings->active[oldest];

	take(&ring->next, arg);
	rings->stats.records++;
	ring->pos += ring->next_len;
	ring_release(ring);
	if (ring_peek(rings, ring))
		return;
	(*active)--;
	memmove(&rings->active[oldest], &rings->active[oldest + 1],
		(*active - oldest) * sizeof(rings->active[0]));
}

/* Takes all that lies in the rings that were found to have something. */
static void take_all(struct rings *rings, size_t found, rings_take_fn *take, void *arg)
{
	size_t active = 0;

	for (size_t i = 0; i < found; i++)
		if (ring_peek(rings, rings->active[i]))
			rings->active[active++] = rings->active[i];
	while (active)
		take_oldest(rings, &active, take, arg);
}

size_t rings_drain(struct rings *rings, rings_take_fn *take, void *arg)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);
	uint64_t before = rings->stats.records;
	size_t found = find_active(rings);

	take_all(rings, found, take, arg);
	for (unsigned int i = 0; i < count && found; i++) {
		struct ring *ring = &rings->slots[i];

		if (!ring->crowded)
			continue;
		take_lost(rings, ring, take, arg);
		ring->crowded = false;
		ring_release(ring);
	}
	return rings->stats.records - before;
}

/* How much was given back to the kernel since the rings were made. */
static uint64_t bytes_taken(const struct rings *rings)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_acquire);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < count; i++)
		sum += ring_tail(&rings->slots[i]);
	return sum;
}

bool rings_follow(const struct rings *rings, rings_follow_fn *drain, void *arg)
{
	unsigned int in_vain = 0;

	do {
		uint64_t before = bytes_taken(rings);

		drain(arg);
		if (!rings_pending(rings))
			return true;
		in_vain = bytes_taken(rings) == before ? in_vain + 1 : 0;
	} while (in_vain < MAX_IN_VAIN);
	return false;
}

void rings_stats(const struct rings *rings, struct rings_stats *ret)
{
	*ret = rings->stats;
	ret->cpus = atomic_load_explicit(&rings->count, memory_order_relaxed);
	ret->bytes = ret->cpus * ring_map_size(rings);
}
