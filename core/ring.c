/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perf rings: opened on each CPU, drained, merged by time, their losses counted. See ring.h.
 *
 * The event of a ring is a software dummy: it counts nothing and is never scheduled by a timer, so
 * an idle machine has no wake-ups from it; the sideband records come because the event exists.
 *
 * A slot is made once for each CPU and stays where it is until rings_close(), its mapping with it,
 * so that rings_pending() may look at it from any thread. The event behind a mapping dies when its
 * CPU goes offline; rings_cpu_online() then directs a new event into the old ring, and what was not
 * read yet is still there.
 */
#include "core/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* Linux 6.0, commit 119a784c8127. */
#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4)
#endif

struct ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint32_t cpu;
	int fd;

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
	/* A record that wraps around the ring's end is joined here. */
	uint8_t *joined;
	size_t joined_size;
};

struct rings {
	unsigned int wants;
	size_t data_size; /* bytes a ring, a power of two */
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

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* One more than the highest CPU number that this machine can ever have. */
static unsigned int possible_cpus(void)
{
	_cleanup_file_ FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
	unsigned int last = 0;
	char line[256];

	/* Ranges rise ("0-3,8-11"): the last number is the highest. */
	if (file && fgets(line, sizeof(line), file)) {
		const char *number = line + strcspn(line, "\n");

		while (number > line && number[-1] >= '0' && number[-1] <= '9')
			number--;
		if (sscanf(number, "%u", &last) == 1 && last < UINT16_MAX)
			return last + 1;
	}
	return MAX(sysconf(_SC_NPROCESSORS_CONF), 1);
}

/* Opens an event that says nothing until it is enabled. Returns the fd or -errno. */
static int event_open(struct rings *rings, unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.disabled = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	if (rings->wants & RING_SYMBOLS) {
		attr.ksymbol = 1;
		attr.bpf_event = 1;
	}
	if (rings->wants & RING_TASKS) {
		attr.comm = 1;
		attr.comm_exec = 1;
		attr.task = 1;
	}
	if (rings->wants & RING_MMAPS) {
		attr.mmap = 1;
		attr.mmap2 = 1;
		attr.mmap_data = 1;
	}
	if (rings->counts_lost)
		attr.read_format |= PERF_FORMAT_LOST;
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int event_read(const struct ring *ring, struct event_count *ret)
{
	*ret = (struct event_count){};
	return read(ring->fd, ret, sizeof(*ret)) < 0 ? -errno : 0;
}

static int watch(struct rings *rings, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(rings->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static size_t map_size(const struct rings *rings)
{
	return sysconf(_SC_PAGESIZE) + rings->data_size;
}

/* Makes the next slot a ring of an event of this CPU, which it owns on success. */
static int slot_init(struct rings *rings, unsigned int cpu, int fd)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);
	struct ring *ring = &rings->slots[count];
	void *map = mmap(NULL, map_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	int r = watch(rings, fd);

	if (r == 0 && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		r = -errno;
	if (r < 0) {
		munmap(map, map_size(rings));
		return r;
	}
	*ring = (struct ring){
		.page = map,
		.data = (const uint8_t *)map + sysconf(_SC_PAGESIZE),
		.cpu = cpu,
		.fd = fd,
	};
	atomic_store_explicit(&rings->count, count + 1, memory_order_release);
	return 0;
}

static int open_cpu(struct rings *rings, unsigned int cpu)
{
	_cleanup_fd_ int fd = event_open(rings, cpu);

	if (fd == -EINVAL && rings->counts_lost && atomic_load(&rings->count) == 0) {
		rings->counts_lost = false;
		fd = event_open(rings, cpu);
	}
	if (fd < 0)
		return fd;
	int r = slot_init(rings, cpu, fd);

	if (r == 0)
		take_fd(&fd);
	return r;
}

int rings_open(unsigned int wants, unsigned int pages, struct rings **ret)
{
	unsigned int max_cpus = possible_cpus();

	if (!pages || pages & (pages - 1))
		return -EINVAL;
	CLEANUP(rings_cleanup)
	struct rings *rings = calloc(1, sizeof(*rings) + max_cpus * sizeof(rings->slots[0]));

	if (!rings)
		return -ENOMEM;
	rings->wants = wants;
	rings->data_size = (size_t)pages * sysconf(_SC_PAGESIZE);
	rings->counts_lost = true;
	rings->max_cpus = max_cpus;
	rings->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rings->epoll_fd < 0)
		return -errno;
	rings->active = calloc(max_cpus, sizeof(rings->active[0]));
	if (!rings->active)
		return -ENOMEM;
	for (unsigned int cpu = 0; cpu < max_cpus; cpu++) {
		int r = open_cpu(rings, cpu);

		if (r < 0 && r != -ENODEV)
			return r;
	}
	if (atomic_load(&rings->count) == 0)
		return -ENODEV;
	*ret = take_ptr(rings);
	return 0;
}

void rings_close(struct rings *rings)
{
	if (!rings)
		return;
	unsigned int count = atomic_load(&rings->count);

	for (unsigned int i = 0; i < count; i++) {
		struct ring *ring = &rings->slots[i];

		munmap(ring->page, map_size(rings));
		close(ring->fd);
		free(ring->joined);
	}
	if (rings->epoll_fd >= 0)
		close(rings->epoll_fd);
	free(rings->active);
	free(rings);
}

int rings_fd(const struct rings *rings)
{
	return rings->epoll_fd;
}

bool rings_pending(const struct rings *rings)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_acquire);

	for (unsigned int i = 0; i < count; i++)
		if (ring_head(&rings->slots[i]) != ring_tail(&rings->slots[i]))
			return true;
	return false;
}

/* The bytes of the ring at pos, in one piece. NULL: no memory to join them. */
static const uint8_t *ring_bytes(struct ring *ring, size_t data_size, uint64_t pos, size_t len)
{
	size_t offset = pos & (data_size - 1);
	size_t first = data_size - offset;

	if (len <= first)
		return ring->data + offset;
	if (ring->joined_size < len) {
		uint8_t *joined = realloc(ring->joined, len);

		if (!joined)
			return NULL;
		ring->joined = joined;
		ring->joined_size = len;
	}
	memcpy(ring->joined, ring->data + offset, first);
	memcpy(ring->joined + first, ring->data, len - first);
	return ring->joined;
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

/* Decodes the next record that matters. 1, 0 at the end, -ENOMEM. */
static int ring_peek(struct rings *rings, struct ring *ring)
{
	while (ring->pos < ring->end) {
		struct perf_event_header header;
		uint64_t left = ring->end - ring->pos;

		/* Records are multiples of 8 bytes, so a header does not wrap. */
		memcpy(&header, ring->data + (ring->pos & (rings->data_size - 1)), sizeof(header));
		if (header.size < sizeof(header) || header.size % sizeof(uint64_t) ||
		    header.size > left) {
			ring->next_len = left;
			set_malformed(rings, ring);
			return 1;
		}
		const uint8_t *data = ring_bytes(ring, rings->data_size, ring->pos, header.size);

		if (!data)
			return -ENOMEM;
		int r = record_decode(data, header.size, ring->cpu, &ring->next);

		ring->next_len = header.size;
		if (r < 0) {
			set_malformed(rings, ring);
			return 1;
		}
		if (r > 0)
			ring->last_time = ring->next.time;
		if (r > 0 && (ring->next.kind != RECORD_LOST || count_lost(rings, ring)))
			return 1;
		ring->pos += header.size;
	}
	ring_set_tail(ring, ring->end);
	return 0;
}

/* Notes how far each ring is to be read. All heads first, so that they tell of one moment. */
static size_t find_active(struct rings *rings)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);
	size_t active = 0;

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
		ring->crowded = ring->end - ring->pos > rings->data_size / 4;
		rings->active[active++] = ring;
	}
	return active;
}

/* Tells what read() knows of losses that no LOST record has told of yet. */
static int take_lost(struct rings *rings, struct ring *ring, rings_take_fn *take, void *arg)
{
	struct event_count count;

	if (event_read(ring, &count) < 0 || ring->lost_base + count.lost <= ring->lost_told)
		return 0;
	struct record record = {
		.kind = RECORD_LOST,
		.time = monotonic_ns(),
		.cpu = ring->cpu,
		.lost.count = ring->lost_base + count.lost - ring->lost_told,
	};

	ring->lost_told += record.lost.count;
	rings->stats.lost += record.lost.count;
	take(&record, arg);
	return 1;
}

/* Gives the oldest record of all active rings away. Rings are few, so a scan beats a heap. */
static int take_oldest(struct rings *rings, size_t *active, rings_take_fn *take, void *arg)
{
	size_t oldest = 0;

	for (size_t i = 1; i < *active; i++)
		if (rings->active[i]->next.time < rings->active[oldest]->next.time)
			oldest = i;
	struct ring *ring = rings->active[oldest];

	take(&ring->next, arg);
	ring->pos += ring->next_len;
	ring_set_tail(ring, ring->pos);
	int r = ring_peek(rings, ring);

	if (r == 0) {
		(*active)--;
		memmove(&rings->active[oldest], &rings->active[oldest + 1],
			(*active - oldest) * sizeof(rings->active[0]));
	}
	return r;
}

int rings_drain(struct rings *rings, rings_take_fn *take, void *arg)
{
	size_t found = find_active(rings), active = 0;
	int taken = 0;

	for (size_t i = 0; i < found; i++) {
		int r = ring_peek(rings, rings->active[i]);

		if (r < 0)
			return r;
		if (r > 0)
			rings->active[active++] = rings->active[i];
	}
	while (active) {
		int r = take_oldest(rings, &active, take, arg);

		if (r < 0)
			return r;
		taken++;
	}
	if (found && rings->counts_lost) {
		unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);

		for (unsigned int i = 0; i < count; i++) {
			if (!rings->slots[i].crowded)
				continue;
			rings->slots[i].crowded = false;
			taken += take_lost(rings, &rings->slots[i], take, arg);
		}
	}
	rings->stats.records += taken;
	return taken;
}

/* An event that lives is enabled for longer each time one looks; a dead one's time stands still. */
static bool ring_is_alive(const struct ring *ring)
{
	struct event_count before, after;

	return event_read(ring, &before) == 0 && event_read(ring, &after) == 0 &&
	       after.enabled_ns > before.enabled_ns;
}

/* Puts a new event behind the ring of one that died with its CPU. */
static int revive(struct rings *rings, struct ring *ring)
{
	_cleanup_fd_ int fd = event_open(rings, ring->cpu);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0)
		return -errno;
	int r = watch(rings, fd);

	if (r < 0)
		return r;
	/* The mapping holds on to the first event of all: it must not speak again. */
	ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	ring->lost_base = ring->lost_told;
	close(ring->fd);
	ring->fd = take_fd(&fd);
	return 0;
}

int rings_cpu_online(struct rings *rings, unsigned int cpu)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);

	for (unsigned int i = 0; i < count; i++)
		if (rings->slots[i].cpu == cpu)
			return ring_is_alive(&rings->slots[i]) ? 0
							       : revive(rings, &rings->slots[i]);
	if (count == rings->max_cpus)
		return -ENOSPC;
	return open_cpu(rings, cpu);
}

void rings_stats(const struct rings *rings, struct rings_stats *ret)
{
	*ret = rings->stats;
	ret->cpus = atomic_load_explicit(&rings->count, memory_order_relaxed);
	ret->bytes = ret->cpus * map_size(rings);
}
