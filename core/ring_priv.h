/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ring.c and ring_open.c share. Tests make rings of plain memory with it.
 *
 * A slot is made once for each CPU and stays where it is until rings_close(), its mapping with it,
 * so that rings_pending() may look at it from any thread.
 */
#ifndef CORE_RING_PRIV_H
#define CORE_RING_PRIV_H

#include <linux/perf_event.h>
#include <stdatomic.h>

#include "core/ring.h"

/* The size in a record's header has 16 bits. */
#define RING_RECORD_MAX (1 << 16)

struct ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint32_t cpu;
	int fd;
	int epoll_fd; /* stays when the event behind it dies with its CPU */

	/*
	 * Two counters tell of the same losses: LOST records, late, and read(), costly. Both start
	 * with the ring; what either is ahead of lost_told is told.
	 */
	uint64_t lost_records; /* the sum of all LOST records */
	uint64_t lost_told;
	uint64_t lost_base; /* lost_told when the present event was opened: its counter was 0 */

	/* Of a drain: what is still to take is [pos, end), `next` is what lies at pos. */
	uint64_t pos, end;
	bool crowded;
	struct record next;
	size_t next_len;
	uint64_t last_time;
	uint64_t left_at; /* pos of a record that was too young: left once, it is taken next */
	/*
	 * A record that wraps around the ring's end is joined here: RING_RECORD_MAX bytes, there
	 * from the start, so that draining cannot fail and always gets further.
	 */
	uint8_t *joined;
};

struct rings {
	unsigned int wants;
	size_t data_size; /* bytes a ring, a power of two */
	uint64_t cutoff;  /* CLOCK_MONOTONIC ns: younger records stay for the next drain */
	bool counts_lost; /* the kernel knows PERF_FORMAT_LOST */
	int epoll_fd;
	struct rings_stats stats;
	struct ring **active; /* of a drain: rings that have records; max_cpus of them fit */
	unsigned int max_cpus;
	atomic_uint count; /* slots in use; one is whole before it is counted */
	struct ring slots[];
};

/* What read() of an event gives. */
struct event_count {
	uint64_t value;
	uint64_t enabled_ns;
	uint64_t lost;
};

int ring_read_count(const struct ring *ring, struct event_count *ret);

/* Bytes of a ring's mapping: the page of the head and the tail, and the data. */
static inline size_t ring_map_size(const struct rings *rings)
{
	return sysconf(_SC_PAGESIZE) + rings->data_size;
}

#endif
