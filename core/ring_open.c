/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perf rings made: opened on each CPU, closed, and opened again for a CPU that comes back. See
 * ring.h; ring.c drains them.
 *
 * The event of a ring is a software dummy: it counts nothing and no timer ever schedules it, so an
 * idle machine has no wake-ups from it; the sideband records come because the event exists. It dies
 * when its CPU goes offline. rings_cpu_online() then directs a new event into the old ring, and
 * what was not read yet is still there.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/ring.h"
#include "core/ring_priv.h"

#define CLOCK_TICK_MS 12

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

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Makes the next slot a ring of an event of this CPU, which it owns on success. */
static int slot_init(struct rings *rings, unsigned int cpu, int fd)
{
	unsigned int count = atomic_load_explicit(&rings->count, memory_order_relaxed);
	struct ring *ring = &rings->slots[count];
	_cleanup_fd_ int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	_cleanup_free_ uint8_t *joined = malloc(RING_RECORD_MAX);

	if (epoll_fd < 0)
		return -errno;
	if (!joined)
		return -ENOMEM;
	void *map = mmap(NULL, ring_map_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	int r = watch(epoll_fd, fd);

	if (r == 0)
		r = watch(rings->epoll_fd, epoll_fd);
	if (r == 0 && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		r = -errno;
	if (r < 0) {
		munmap(map, ring_map_size(rings));
		return r;
	}
	*ring = (struct ring){
		.page = map,
		.data = (const uint8_t *)map + sysconf(_SC_PAGESIZE),
		.cpu = cpu,
		.fd = fd,
		.epoll_fd = take_fd(&epoll_fd),
		.left_at = UINT64_MAX,
		.joined = take_ptr(joined),
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

		munmap(ring->page, ring_map_size(rings));
		close(ring->fd);
		close(ring->epoll_fd);
		free(ring->joined);
	}
	if (rings->epoll_fd >= 0)
		close(rings->epoll_fd);
	free(rings->active);
	free(rings);
}

/* An event that lives is enabled for longer each time one looks; a dead one's time stands still. */
static bool ring_is_alive(const struct ring *ring)
{
	struct event_count before, after;

	if (ring_read_count(ring, &before) < 0)
		return false;
	/* The kernel's clock may be one of ticks, of up to 10 ms. */
	for (int ms = 0; ms < CLOCK_TICK_MS; ms++) {
		if (ring_read_count(ring, &after) < 0)
			return false;
		if (after.enabled_ns > before.enabled_ns)
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

/* Puts a new event behind the ring of one that died with its CPU. */
static int revive(struct rings *rings, struct ring *ring)
{
	_cleanup_fd_ int fd = event_open(rings, ring->cpu);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0)
		return -errno;
	int r = watch(ring->epoll_fd, fd);

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
	struct ring *ring = NULL;

	for (unsigned int i = 0; i < count; i++)
		if (rings->slots[i].cpu == cpu)
			ring = &rings->slots[i];
	if (ring && ring_is_alive(ring))
		return 0;
	if (!ring && count == rings->max_cpus)
		return -ENOSPC;
	int r = ring ? revive(rings, ring) : open_cpu(rings, cpu);

	return r < 0 ? r : 1;
}
