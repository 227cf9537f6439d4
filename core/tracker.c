/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Joins the sources into one state, in the one order that loses nothing:
 *
 *   1. subscribe: rings and uevent socket are opened, and fill from here on;
 *   2. baseline: kallsyms is read and program ids are walked, while things go on changing;
 *   3. replay: the records since 1 are applied on top.
 *
 * Whatever changed between 1 and 3 has its records in the rings; the last record about an address
 * decides, and what has no record was there unchanged all the time. So it does not matter what the
 * baseline caught of it. A resync after a loss is the same again, from 2 on: it looks first and
 * applies afterwards what waits in the rings.
 *
 * Read your own writes: the kernel writes a record before the call that it tells of returns.
 * tracker_sync() applies, under the lock, all records that are there; whoever holds the lock after
 * it sees everything that had finished before. Readers, one a CPU and real-time where allowed, do
 * the same as soon as records arrive, so that a program which lives for microseconds is read before
 * it is gone. Within a drain, programs are captured ahead of all else, for the same reason. What is
 * gone all the same leaves its image and instructions when the kernel frees it (unload.h): they are
 * taken first and applied last, so that the records of its load have been applied in between.
 */
#include "core/tracker_internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

#include "core/carry.h"
#include "core/clock.h"
#include "core/rights.h"
#include "core/uevent.h"

/* 512 KiB a CPU: some 5,000 records, a burst of 1,500 loads and unloads. */
#define DEFAULT_RING_PAGES 128
/* Tries of the lock, some 50 us. */
#define LOCK_SPINS 3000
/* How long a reader waits for the lock, and holds what is loaded, before it lends its priority. */
#define HOLD_NS (NSEC_PER_SEC / 20)
/* Rounds of drain and resync in one go before others get their turn. */
#define MAX_ROUNDS 4
/* When to look again at rings that could not be drained. */
#define STUCK_MS 1000

uint64_t mono_to_unix_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec - monotonic_ns();
}

static void collect(const struct record *record, void *arg)
{
	struct batch *batch = arg;

	if (batch->count == batch->size) {
		size_t size = MAX(batch->size * 2, (size_t)64);
		struct record *records = reallocarray(batch->records, size, sizeof(*records));

		if (!records) {
			batch->failed = true;
			return;
		}
		batch->records = records;
		batch->size = size;
	}
	struct record *copy = &batch->records[batch->count];

	*copy = *record;
	if (record->kind == RECORD_KSYMBOL) {
		copy->ksymbol.name = (const char *)batch->names.len;
		text_append(&batch->names, record->ksymbol.name, strlen(record->ksymbol.name) + 1);
		if (batch->names.failed) {
			batch->failed = true;
			return;
		}
	}
	batch->count++;
}

int tracker_capture(struct tracker *tracker, uint32_t id, struct prog **ret)
{
	int r = prog_capture(tracker->reader, id, ret);

	if (r < 0)
		return r;
	if (tracker->unload)
		unload_know(tracker->unload, (*ret)->info.load_time, (*ret)->tag);
	for (size_t i = 0; i < ARRAY_SIZE(tracker->own_progs); i++) {
		if (tracker->own_progs[i] != id)
			continue;
		/* Ours were loaded before there were rings: no record says whose they are. */
		(*ret)->loader_pid = getpid();
		strcpy((*ret)->loader_comm, "ksymfs");
	}
	return 0;
}

static void capture_one(struct tracker *tracker, uint32_t id)
{
	struct batch *batch = &tracker->batch;
	struct capture capture = {.id = id};
	const struct prog *known = progset_find(tracker->state.programs, id);

	if (known && prog_is_loaded(known))
		return;
	if (batch->capture_count == batch->capture_size) {
		size_t size = MAX(batch->capture_size * 2, (size_t)16);
		struct capture *captures = reallocarray(batch->captures, size, sizeof(*captures));

		if (!captures)
			return; /* apply_load() tries again */
		batch->captures = captures;
		batch->capture_size = size;
	}
	capture.error = tracker_capture(tracker, id, &capture.prog);
	batch->captures[batch->capture_count++] = capture;
}

static int take_capture(void *arg, uint32_t id, struct prog **ret)
{
	struct tracker *tracker = arg;

	for (size_t i = 0; i < tracker->batch.capture_count; i++) {
		struct capture *capture = &tracker->batch.captures[i];

		if (capture->id != id)
			continue;
		*ret = take_ptr(capture->prog);
		return *ret ? 0 : capture->error ? capture->error : -ENOENT;
	}
	return tracker_capture(tracker, id, ret);
}

static uint64_t image_len(void *arg, uint64_t addr, const char *name)
{
	struct tracker *tracker = arg;
	struct kernelname_answer answer;

	/* At the first byte the kernel may name the neighbour that ends there. */
	if (!tracker->kernelname || kernelname_ask(tracker->kernelname, addr + 1, &answer) < 0 ||
	    answer.offset != 1 || strcmp(answer.name, name) != 0)
		return 0;
	return answer.size;
}

static int ask(void *arg, uint64_t addr, uint64_t *ret_start, uint64_t *ret_len, char ret_name[512])
{
	struct tracker *tracker = arg;
	struct kernelname_answer answer;
	int r = tracker->kernelname ? kernelname_ask(tracker->kernelname, addr, &answer) : -ENOENT;

	if (r < 0)
		return r;
	*ret_start = addr - answer.offset;
	*ret_len = answer.size;
	memcpy(ret_name, answer.name, sizeof(answer.name));
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/*
 * The present comm of a process. The file stays open, for who loads one program loads more; it is
 * that process's for good, also when another one has its pid.
 */
static ssize_t pread_comm(struct tracker *tracker, uint32_t pid, char comm[16])
{
	char path[32];

	if (pid == tracker->comm_file.pid) {
		ssize_t len = pread(tracker->comm_file.fd, comm, 16, 0);

		if (len > 0)
			return len;
	}
	close_fd(tracker->comm_file.fd);
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", pid);
	tracker->comm_file.fd = open(path, O_RDONLY | O_CLOEXEC);
	tracker->comm_file.pid = tracker->comm_file.fd >= 0 ? pid : 0;
	return pread(tracker->comm_file.fd, comm, 16, 0);
}

/* A load's records all name one task: it is looked up once for a drain. */
static void read_comm(void *arg, uint32_t pid, char ret[16])
{
	struct tracker *tracker = arg;
	struct batch *batch = &tracker->batch;

	if (pid != batch->comm_pid) {
		char *comm = batch->comm;
		ssize_t len = pread_comm(tracker, pid, comm);

		/* 15 bytes and a newline at the most. */
		if (len > 0 && comm[len - 1] == '\n')
			len--;
		comm[MAX(MIN(len, 15), 0)] = '\0';
		batch->comm_pid = pid;
	}
	memcpy(ret, batch->comm, 16);
}

static const struct kstate_ops tracker_kstate_ops = {
	.capture = take_capture,
	.image_len = image_len,
	.ask = ask,
	.comm = read_comm,
};

static void drain_rings(struct tracker *tracker)
{
	struct batch *batch = &tracker->batch;
	bool unloaded = false;

	batch->count = 0;
	batch->names.len = 0;
	batch->names.failed = false;
	batch->failed = false;
	batch->comm_pid = 0;
	rings_drain(tracker->rings, collect, batch);

	for (size_t i = 0; i < batch->count; i++)
		if (batch->records[i].kind == RECORD_BPF_EVENT &&
		    batch->records[i].bpf.type == PERF_BPF_EVENT_PROG_LOAD)
			capture_one(tracker, batch->records[i].bpf.id);

	for (size_t i = 0; i < batch->count; i++) {
		struct record *record = &batch->records[i];

		if (record->kind == RECORD_KSYMBOL)
			record->ksymbol.name = batch->names.data + (uintptr_t)record->ksymbol.name;
		if (record->kind == RECORD_LOST)
			tracker->resync_due = true;
		unloaded |= record->kind == RECORD_BPF_EVENT &&
			    record->bpf.type == PERF_BPF_EVENT_PROG_UNLOAD;
		kstate_apply(&tracker->state, record);
	}
	for (size_t i = 0; i < batch->capture_count; i++)
		prog_unref(batch->captures[i].prog);
	batch->capture_count = 0;
	if (batch->failed || tracker->state.out_of_memory) {
		tracker->state.out_of_memory = 0;
		tracker->resync_due = true;
	}
	if (unloaded)
		tracker_check_unclaimed(tracker);
}

/* What freed programs left, the first to be freed first. */
static void apply_remains(struct tracker *tracker, struct remains *first)
{
	while (first) {
		CLEANUP(remains_cleanup) struct remains *remains = first;

		kstate_apply_remains(&tracker->state, remains);
		first = remains->next;
	}
}

static void cpu_came_online(struct tracker *tracker, unsigned int cpu);

static void drain_uevents(struct tracker *tracker)
{
	char buf[8192];
	struct uevent event;
	int r;

	while ((r = uevent_next(tracker->uevents, buf, sizeof(buf), &event)) > 0) {
		switch (event.kind) {
		case UEVENT_MODULE_ADD:
			kstate_log(&tracker->state, monotonic_ns(), "module-load name=%s",
				   event.module);
			tracker_module_added(tracker, event.module);
			break;
		case UEVENT_MODULE_REMOVE:
			kstate_log(&tracker->state, monotonic_ns(), "module-unload name=%s",
				   event.module);
			tracker->modules_due = true;
			break;
		case UEVENT_CPU_ONLINE:
			cpu_came_online(tracker, event.cpu);
			break;
		case UEVENT_CPU_OFFLINE:
			break;
		case UEVENT_LOST:
			tracker->modules_due = true;
			tracker->resync_due = true;
			break;
		}
	}
	if (r < 0)
		tracker->uevents_source.error = r;
}

/*
 * With the lock held. With rings_only, as the readers of rings ask for, which are woken by a
 * record, uevents and remains are left out: an empty socket costs as much as the record, remains
 * are in no hurry, and the reader of both is woken by itself.
 */
static void catch_up(struct tracker *tracker, bool rings_only)
{
	struct differences found = {};

	tracker->state.mono_to_unix = mono_to_unix_now();
	for (int round = 0; round < MAX_ROUNDS; round++) {
		uint64_t now = monotonic_ns();
		struct remains *remains = NULL;

		if (!rings_only && tracker->unload)
			remains = unload_drain(tracker->unload);
		if (!rings_only && tracker->uevents >= 0)
			drain_uevents(tracker);
		if (tracker->rings && rings_pending(tracker->rings))
			drain_rings(tracker);
		apply_remains(tracker, remains);
		if (tracker->modules_due || tracker->modules_unsettled || tracker->settling_count)
			tracker_update_modules(tracker);
		if (!tracker->rings)
			tracker_walk_programs(tracker, true, &found);
		if (!tracker->resync_due) {
			tracker->whole_at = now;
			carry_root()->whole_at = now;
			break;
		}
		tracker->resync_due = false;
		tracker_resync(tracker);
	}
}

static void arm_expiry(struct tracker *tracker, uint64_t due)
{
	struct itimerspec at = {};

	if (due == tracker->next_expiry || tracker->timer < 0)
		return;
	tracker->next_expiry = due;
	if (due != UINT64_MAX) {
		at.it_value.tv_sec = due / NSEC_PER_SEC;
		at.it_value.tv_nsec = due % NSEC_PER_SEC;
	}
	timerfd_settime(tracker->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Spins first: whoever holds it is done soon. */
static bool spin_for_lock(pthread_mutex_t *lock)
{
	for (int i = 0; i < LOCK_SPINS; i++)
		if (pthread_mutex_trylock(lock) == 0)
			return true;
	return false;
}

/* Waits, up to timeout_ms if it is not -1, on the ring's own epoll: one file to look up, where each
 * load and unload comes by. */
static bool wait_for_ring(const struct tracker *tracker, int ring, int timeout_ms)
{
	struct epoll_event events[2];
	bool stop = false;
	int count;

	while ((count = epoll_wait(ring, events, ARRAY_SIZE(events), timeout_ms)) < 0)
		if (errno != EINTR)
			return false;
	for (int i = 0; i < count; i++)
		stop |= events[i].data.fd == tracker->stop;
	return !stop;
}

/* Keeps what was loaded on the reader's CPU, and not read yet, from going away. */
static void hold_loads(struct reader *reader)
{
	uint32_t ids[16];
	size_t found;

	do {
		size_t room = MIN(ARRAY_SIZE(ids), reader->held_max - reader->held_count);

		found = rings_find_loads(reader->tracker->rings, reader->cpu, &reader->held_to, ids,
					 room);
		for (size_t i = 0; i < found; i++) {
			int fd = bpf_prog_get_fd_by_id(ids[i]);

			if (fd >= 0)
				reader->held[reader->held_count++] = fd;
		}
	} while (found);
}

static void release_loads(struct reader *reader)
{
	while (reader->held_count)
		close(reader->held[--reader->held_count]);
}

/*
 * Whoever holds the lock may be at work for long, or be kept off its CPU, by a hypervisor if by
 * nobody else. A reader that slept until then would leave its own CPU to the loader, whose programs
 * go as they come: so it holds what they load until it can be read.
 */
static void lock_for_reader(struct reader *reader)
{
	pthread_mutex_t *lock = &reader->tracker->lock;

	if (pthread_mutex_trylock(lock) == 0)
		return;
	uint64_t until = monotonic_ns() + HOLD_NS;

	hold_loads(reader);
	if (spin_for_lock(lock))
		return;
	while (reader->held_count < reader->held_max && monotonic_ns() < until &&
	       wait_for_ring(reader->tracker, reader->ring_fd, 1)) {
		if (pthread_mutex_trylock(lock) == 0)
			return;
		hold_loads(reader);
	}
	pthread_mutex_lock(lock);
}

/* For a reader of a ring, or, if NULL, for whoever wants to know all that has happened. */
static void sync_for(struct tracker *tracker, struct reader *reader)
{
	struct eventlog_span before, after;

	{
		if (reader)
			lock_for_reader(reader);
		else if (!spin_for_lock(&tracker->lock))
			pthread_mutex_lock(&tracker->lock);
		pthread_mutex_t *lock CLEANUP(unlock_cleanup) = &tracker->lock;
		eventlog_span(tracker->state.events, &before);
		uint64_t recovered = tracker->state.recovered;

		catch_up(tracker, reader != NULL);
		eventlog_span(tracker->state.events, &after);
		if (after.end != before.end || tracker->state.recovered != recovered ||
		    monotonic_ns() >= tracker->next_expiry)
			arm_expiry(tracker, kstate_expire(&tracker->state, monotonic_ns(),
							  tracker->options.retain_ns,
							  tracker->options.retain_bytes));
	}
	if (after.end != before.end && tracker->options.events_grew)
		tracker->options.events_grew(tracker->options.arg);
}

void tracker_sync(struct tracker *tracker)
{
	sync_for(tracker, NULL);
}

static void follow(void *arg)
{
	struct reader *reader = arg;

	sync_for(reader->tracker, reader);
}

/* Waits for what no ring tells of; false: time to stop. */
static bool wait_for_the_rest(const struct tracker *tracker)
{
	struct pollfd fds[] = {
		{tracker->stop, POLLIN, 0},
		{tracker->uevents, POLLIN, 0},
		{tracker->timer, POLLIN, 0},
		{tracker->unload ? unload_fd(tracker->unload) : -1, POLLIN, 0},
	};

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		if (errno != EINTR)
			return false;
	return !fds[0].revents;
}

/*
 * Reads the ring of one CPU, on that CPU: the kernel wakes it in the middle of the load that it
 * tells of, and being real-time it runs before the loader does anything else, such as closing the
 * program again.
 */
static void *read_cpu(void *arg)
{
	struct reader *reader = arg;
	struct tracker *tracker = reader->tracker;
	struct epoll_event stop = {.events = EPOLLIN, .data.fd = tracker->stop};
	struct rlimit limit;
	bool done = true;

	rights_drop_nice();
	reader->ring_fd = rings_cpu_fd(tracker->rings, reader->cpu);
	/* Others need files meanwhile. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		reader->held_max = MIN(limit.rlim_cur / 32, HELD_MAX);
	if (epoll_ctl(reader->ring_fd, EPOLL_CTL_ADD, tracker->stop, &stop) < 0)
		return NULL;
	/* A ring wakes once for what it holds: go on until it holds nothing. */
	while (wait_for_ring(tracker, reader->ring_fd, done ? -1 : STUCK_MS)) {
		done = rings_follow(tracker->rings, follow, reader);
		release_loads(reader);
	}
	return NULL;
}

static void *read_the_rest(void *arg)
{
	const struct reader *reader = arg;
	struct tracker *tracker = reader->tracker;
	uint64_t count;

	rights_drop_nice();
	while (wait_for_the_rest(tracker)) {
		if (read(tracker->timer, &count, sizeof(count)) < 0 && errno != EAGAIN)
			return NULL;
		tracker_sync(tracker);
	}
	return NULL;
}

static void put_on_cpu(const struct reader *reader)
{
	size_t size = CPU_ALLOC_SIZE(reader->cpu + 1);
	cpu_set_t *cpus = CPU_ALLOC(reader->cpu + 1);

	if (!cpus)
		return;
	CPU_ZERO_S(size, cpus);
	CPU_SET_S(reader->cpu, size, cpus);
	pthread_setaffinity_np(reader->thread, size, cpus);
	CPU_FREE(cpus);
}

/* With the lock held, or before there are others. */
static int start_reader(struct tracker *tracker, void *(*run)(void *), unsigned int cpu)
{
	struct sched_param priority = {.sched_priority = 1};
	struct reader **readers =
		reallocarray(tracker->readers, tracker->reader_count + 1, sizeof(readers[0]));
	struct reader *reader = malloc(sizeof(*reader));
	char name[16];

	if (readers)
		tracker->readers = readers;
	if (!readers || !reader) {
		free(reader);
		return -ENOMEM;
	}
	*reader = (struct reader){.tracker = tracker, .cpu = cpu};
	int r = -pthread_create(&reader->thread, NULL, run, reader);

	if (r < 0) {
		free(reader);
		return r;
	}
	readers[tracker->reader_count++] = reader;
	if (run != read_cpu)
		return 0;
	/* Without the right place or priority it works too, and comes too late more often. */
	put_on_cpu(reader);
	snprintf(name, sizeof(name), "ksymfs-ring/%u", cpu);
	pthread_setname_np(reader->thread, name);
	if (pthread_setschedparam(reader->thread, SCHED_FIFO, &priority) == 0)
		tracker->realtime++;
	return 0;
}

static int start_readers(struct tracker *tracker)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	tracker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tracker->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (tracker->timer < 0 || tracker->stop < 0)
		return -errno;
	int r = start_reader(tracker, read_the_rest, 0);

	for (long cpu = 0; r == 0 && tracker->rings && cpu < cpus; cpu++)
		if (rings_cpu_fd(tracker->rings, cpu) >= 0)
			r = start_reader(tracker, read_cpu, cpu);
	return r;
}

static const struct reader *find_reader(const struct tracker *tracker, unsigned int cpu)
{
	for (size_t i = 1; i < tracker->reader_count; i++)
		if (tracker->readers[i]->cpu == cpu)
			return tracker->readers[i];
	return NULL;
}

static void cpu_came_online(struct tracker *tracker, unsigned int cpu)
{
	if (!tracker->rings || rings_cpu_online(tracker->rings, cpu) <= 0)
		return;
	const struct reader *reader = find_reader(tracker, cpu);

	/* The kernel lets it run anywhere once its CPU has gone. */
	if (reader)
		put_on_cpu(reader);
	/* Before the readers are started, they are started for this one too. */
	else if (tracker->reader_count)
		start_reader(tracker, read_cpu, cpu);
	/* What it did before it had a ring nobody has seen. */
	tracker->resync_due = true;
}

static void open_sources(struct tracker *tracker)
{
	unsigned int pages = tracker->options.ring_pages;

	/* Those that load programs come ahead of the rings, so that these are of the baseline. */
	tracker->kernelname_source.error = kernelname_open(&tracker->kernelname);
	if (tracker->kernelname)
		tracker->own_progs[0] = kernelname_prog_id(tracker->kernelname);
	tracker->unload_source.error =
		tracker->options.capture_at_unload ? unload_open(&tracker->unload) : -ECANCELED;
	tracker->unload_since = monotonic_ns();
	if (tracker->unload)
		tracker->own_progs[1] = unload_prog_id(tracker->unload);
	tracker->rings_source.error =
		rings_open(RING_SYMBOLS, pages ? pages : DEFAULT_RING_PAGES, &tracker->rings);
	tracker->uevents = uevent_open();
	tracker->uevents_source.error = tracker->uevents < 0 ? tracker->uevents : 0;
}

int tracker_create(const struct tracker_options *options, struct tracker **ret)
{
	struct tracker *allocated = calloc(1, sizeof(*allocated));

	if (!allocated)
		return -ENOMEM;
	CLEANUP(tracker_cleanup) struct tracker *tracker = allocated;

	inheriting_mutex_init(&tracker->lock);
	tracker->options = *options;
	tracker->uevents = tracker->timer = tracker->stop = tracker->comm_file.fd = -1;
	tracker->started = tracker->whole_at = monotonic_ns();
	if (carry_is_inherited())
		tracker->whole_at = carry_root()->whole_at;
	tracker->inherited_at = tracker->whole_at;
	int r = blob_pool_create(&tracker->pool);
	if (r == 0)
		r = prog_reader_create(tracker->pool, &tracker->reader);
	if (r == 0)
		r = kstate_init(&tracker->state, tracker->pool, options->events_bytes,
				tracker->started, &tracker_kstate_ops, tracker);
	if (r < 0)
		return r;
	tracker->state.mono_to_unix = mono_to_unix_now();
	open_sources(tracker);
	if (options->opened)
		options->opened(options->arg);
	if (carry_is_inherited()) {
		_cleanup_text_ struct text since = {};

		text_seconds(&since, tracker->inherited_at);
		kstate_log(&tracker->state, tracker->started, "takeover since=%.*s", (int)since.len,
			   since.data);
	} else {
		kstate_log(&tracker->state, tracker->started, "start");
	}
	r = tracker_baseline(tracker);
	if (r < 0)
		return r;
	tracker_sync(tracker);
	r = start_readers(tracker);
	if (r < 0)
		return r;
	*ret = take_ptr(tracker);
	return 0;
}

void tracker_destroy(struct tracker *tracker)
{
	if (!tracker)
		return;
	if (tracker->stop >= 0)
		eventfd_write(tracker->stop, 1);
	for (size_t i = 0; i < tracker->reader_count; i++) {
		pthread_join(tracker->readers[i]->thread, NULL);
		free(tracker->readers[i]);
	}
	free(tracker->readers);
	close_fd(tracker->timer);
	close_fd(tracker->stop);
	close_fd(tracker->uevents);
	close_fd(tracker->comm_file.fd);
	rings_close(tracker->rings);
	kernelname_close(tracker->kernelname);
	unload_close(tracker->unload);
	kstate_deinit(&tracker->state);
	prog_reader_destroy(tracker->reader);
	if (tracker->pool)
		blob_pool_destroy(tracker->pool);
	module_list_deinit(&tracker->modules);
	for (size_t i = 0; i < tracker->settling_count; i++)
		free(tracker->settling[i]);
	for (size_t i = 0; i < tracker->unclaimed_count; i++)
		free(tracker->unclaimed[i].name);
	free(tracker->unclaimed);
	free(tracker->batch.records);
	free(tracker->batch.captures);
	text_deinit(&tracker->batch.names);
	pthread_mutex_destroy(&tracker->lock);
	free(tracker);
}
