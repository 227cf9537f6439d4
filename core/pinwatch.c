/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens to pinned processes, and which ones exec: see pinset.h.
 *
 * set->ring_lock guards the rings and is held while they are drained, so that records are applied
 * once and in order: an exec pins there and then, what else is heard only marks the pin, to be
 * looked at when the drain is through. It comes before set->lock.
 *
 * A pin's pidfd is in the epoll set, by the address of the pin, until the pin is let go of.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "core/clock.h"
#include "core/pinset_internal.h"
#include "core/rights.h"
#include "core/slurp.h"
#include "core/uevent.h"

/* 512 KiB a CPU: some 5,000 mappings between two looks of a thread that is real-time. */
#define DEFAULT_RING_PAGES 128

/* Of threads that read command lines; each can hang for as long as a process wants it to. */
#define MAX_CMDLINE_THREADS 4
#define CMDLINE_WAIT_NS	    (NSEC_PER_SEC / 20)

#define CGROUP_TEXT_MAX (1u << 16)

static unsigned int filter_index(pid_t pid)
{
	return (unsigned int)pid % PIN_FILTER;
}

int pinwatch_follow(struct pinset *set, struct pin *pin)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = pin};

	/* It had exited before this process was there. */
	if (pin_pidfd(pin) < 0)
		return 0;
	if (epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, pin_pidfd(pin), &event) < 0)
		return -errno;
	atomic_fetch_add(&set->filter[filter_index(pin_own_pid(pin))], 1);
	return 0;
}

void pinwatch_forget(struct pinset *set, struct pin *pin)
{
	if (pin_pidfd(pin) < 0)
		return;
	atomic_fetch_sub(&set->filter[filter_index(pin_own_pid(pin))], 1);
	epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, pin_pidfd(pin), NULL);
}

/* Who reads command lines. It outlives the set where a process holds one of the threads up. */
struct cmdline_readers {
	pthread_mutex_t lock;
	pthread_cond_t done;
	unsigned int threads;
	unsigned int refs; /* under the lock, all of what is here */
};

struct cmdline_job {
	struct cmdline_readers *readers;
	struct pin *pin;
	unsigned int refs;
	bool done;
};

static int create_readers(struct cmdline_readers **ret)
{
	struct cmdline_readers *readers = calloc(1, sizeof(*readers));
	pthread_condattr_t attr;

	if (!readers)
		return -ENOMEM;
	pthread_mutex_init(&readers->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&readers->done, &attr);
	pthread_condattr_destroy(&attr);
	readers->refs = 1;
	*ret = readers;
	return 0;
}

static void unref_readers(struct cmdline_readers *readers)
{
	pthread_mutex_lock(&readers->lock);
	bool last = --readers->refs == 0;
	pthread_mutex_unlock(&readers->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&readers->lock);
	pthread_cond_destroy(&readers->done);
	free(readers);
}

/* Under the readers' lock. */
static void unref_job(struct cmdline_job *job)
{
	if (--job->refs)
		return;
	pin_unref(job->pin);
	free(job);
}

static void *cmdline_thread(void *arg)
{
	struct cmdline_job *job = arg;
	struct cmdline_readers *readers = job->readers;

	rights_begin_thread();
	pin_look_cmdline(job->pin);
	pthread_mutex_lock(&readers->lock);
	readers->threads--;
	job->done = true;
	unref_job(job);
	pthread_cond_broadcast(&readers->done);
	pthread_mutex_unlock(&readers->lock);
	unref_readers(readers);
	return NULL;
}

/* Under the lock. The thread is none of the real-time ones, whoever starts it. */
static bool start_reader(struct cmdline_readers *readers, struct cmdline_job *job)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (readers->threads == MAX_CMDLINE_THREADS)
		return false;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	bool started = pthread_create(&thread, &attr, cmdline_thread, job) == 0;

	pthread_attr_destroy(&attr);
	return started;
}

static void wait_for_cmdline(struct cmdline_readers *readers, const struct cmdline_job *job)
{
	uint64_t until = monotonic_ns() + CMDLINE_WAIT_NS;
	struct timespec deadline = {until / NSEC_PER_SEC, until % NSEC_PER_SEC};

	while (!job->done && pthread_cond_timedwait(&readers->done, &readers->lock, &deadline) == 0)
		;
}

void pinwatch_read_cmdline(struct pinset *set, struct pin *pin, bool wait)
{
	struct cmdline_readers *readers = set->readers;
	struct cmdline_job *job = malloc(sizeof(*job));

	if (!job)
		return;
	*job = (struct cmdline_job){.readers = readers, .pin = pin_ref(pin), .refs = 1};
	LOCKED(&readers->lock);
	if (start_reader(readers, job)) {
		readers->threads++;
		readers->refs++;
		job->refs++;
		if (wait)
			wait_for_cmdline(readers, job);
	}
	unref_job(job);
}

static bool read_exe(pid_t pid, char path[static PATH_MAX])
{
	static const char deleted[] = " (deleted)";
	char link[sizeof("/proc//exe") + 3 * sizeof(pid)];

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	ssize_t len = readlink(link, path, PATH_MAX - 1);

	if (len < 0)
		return false;
	path[len] = '\0';
	if ((size_t)len >= sizeof(deleted) &&
	    strcmp(path + len + 1 - sizeof(deleted), deleted) == 0)
		path[len + 1 - sizeof(deleted)] = '\0';
	return true;
}

static bool read_cgroups(pid_t pid, struct text *text)
{
	char path[sizeof("/proc//cgroup") + 3 * sizeof(pid)];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	int r = slurp_at(AT_FDCWD, path, CGROUP_TEXT_MAX, text);

	text_putc(text, '\0');
	return r == 0 && !text->failed;
}

/* Whoever has the pid by now, if it is not who exec'd, is known for another when it is pinned. */
static bool rule_matches(const struct pin_rule *rule, pid_t pid, const char *comm)
{
	switch (rule->field) {
	case PIN_COMM:
		return pin_rule_matches(rule, comm);
	case PIN_EXE: {
		char path[PATH_MAX];

		return read_exe(pid, path) && pin_rule_matches(rule, path);
	}
	case PIN_CGROUP: {
		_cleanup_text_ struct text text = {};

		return read_cgroups(pid, &text) && pin_rule_matches_cgroups(rule, text.data);
	}
	}
	return false;
}

static void count(struct pinset *set, uint64_t *figure)
{
	LOCKED(&set->lock);
	(*figure)++;
}

static void discover(struct pinset *set, pid_t pid, const char *comm)
{
	pid_t number;

	/* One of another namespace, or that has gone before it could be told. */
	if (!set->options.rule_count || pidns_number(set->options.ns, pid, &number) < 0)
		return;
	for (size_t i = 0; i < set->options.rule_count; i++) {
		if (!rule_matches(&set->options.rules[i], pid, comm))
			continue;
		count(set, &set->stats.matched);
		if (pinset_pin(set, number, true) == -ESRCH)
			count(set, &set->stats.missed);
		return;
	}
}

/* Marks who is pinned and lives under this pid. */
static bool mark(struct pinset *set, pid_t pid, unsigned int look)
{
	bool found = false;

	if (!atomic_load_explicit(&set->filter[filter_index(pid)], memory_order_relaxed))
		return false;
	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++) {
		struct pinset_slot *slot = &set->slots[i];

		if (pin_own_pid(slot->pin) != pid)
			continue;
		/* Not when it is somebody else's pid by now. */
		pinset_note_exit(set, slot);
		if (slot->exited)
			continue;
		slot->look |= look;
		found = true;
	}
	return found;
}

static void mark_all(struct pinset *set)
{
	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++)
		if (!set->slots[i].exited)
			set->slots[i].look |= PIN_LOOK_ALL;
}

static void take_record(const struct record *record, void *arg)
{
	struct pinset *set = arg;

	switch (record->kind) {
	case RECORD_COMM:
		if (!mark(set, record->pid, record->comm.exec ? PIN_LOOK_ALL : PIN_LOOK_TEXTS) &&
		    record->comm.exec)
			discover(set, record->pid, record->comm.comm);
		break;
	case RECORD_MMAP2:
		mark(set, record->pid, PIN_LOOK_MAPS | PIN_LOOK_ROOT);
		break;
	case RECORD_LOST:
		mark_all(set);
		break;
	default:
		break;
	}
}

/* One pin that records have marked, its mark taken; or NULL. */
static struct pin *next_marked(struct pinset *set, unsigned int *ret_look)
{
	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++) {
		struct pinset_slot *slot = &set->slots[i];

		if (!slot->look)
			continue;
		*ret_look = slot->look;
		slot->look = 0;
		return pin_ref(slot->pin);
	}
	return NULL;
}

/* Under the ring lock. */
static void drain(struct pinset *set)
{
	struct rings *rings = atomic_load_explicit(&set->rings, memory_order_relaxed);
	unsigned int look;

	if (!rings)
		return;
	rings_drain(rings, take_record, set);
	for (struct pin *pin; (pin = next_marked(set, &look));) {
		pin_look(pin, look);
		if (look & PIN_LOOK_EXE)
			pinwatch_read_cmdline(set, pin, false);
		pin_unref(pin);
	}
}

static void expire(struct pinset *set)
{
	uint64_t now = monotonic_ns();

	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count;) {
		if (set->slots[i].exited && set->slots[i].expires <= now)
			pinset_drop(set, &set->slots[i]);
		else
			i++;
	}
}

void pinset_sync(struct pinset *set)
{
	struct rings *rings = atomic_load_explicit(&set->rings, memory_order_acquire);

	expire(set);
	if (rings) {
		LOCKED(&set->ring_lock);
		rings = atomic_load_explicit(&set->rings, memory_order_relaxed);
		if (rings && rings_pending(rings))
			drain(set);
	}
	pinwatch_close_idle(set);
	pinset_tell(set);
}

static void watch_fd(struct pinset *set, int fd, void *ptr)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = ptr};

	epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void pinwatch_hold(struct pinset *set)
{
	unsigned int pages = set->options.ring_pages;
	struct rings *rings;

	atomic_fetch_add(&set->holders, 1);
	LOCKED(&set->ring_lock);
	if (set->rings)
		return;
	set->ring_error =
		rings_open(RING_TASKS | RING_MMAPS, pages ? pages : DEFAULT_RING_PAGES, &rings);
	if (set->ring_error)
		return;
	watch_fd(set, rings_fd(rings), &set->rings);
	set->uevent_fd = uevent_open();
	if (set->uevent_fd >= 0)
		watch_fd(set, set->uevent_fd, &set->uevent_fd);
	atomic_store_explicit(&set->rings, rings, memory_order_release);
}

/* Under the ring lock. */
static void close_rings(struct pinset *set)
{
	struct rings *rings = atomic_exchange(&set->rings, NULL);
	struct rings_stats stats;

	if (!rings)
		return;
	rings_stats(rings, &stats);
	set->rings_lost += stats.lost;
	rings_close(rings);
	if (set->uevent_fd >= 0)
		close(set->uevent_fd);
	set->uevent_fd = -1;
}

void pinwatch_close_idle(struct pinset *set)
{
	LOCKED(&set->ring_lock);
	if (!set->rings || set->options.rule_count || atomic_load(&set->holders))
		return;
	pthread_mutex_lock(&set->lock);
	bool idle = set->stats.alive == 0;
	pthread_mutex_unlock(&set->lock);
	if (idle)
		close_rings(set);
}

void pinwatch_unhold(struct pinset *set)
{
	atomic_fetch_sub(&set->holders, 1);
	pinwatch_close_idle(set);
}

void pinwatch_stats(struct pinset *set, struct pinset_stats *ret)
{
	LOCKED(&set->ring_lock);
	struct rings_stats stats = {};

	if (set->rings)
		rings_stats(set->rings, &stats);
	ret->rings_open = set->rings;
	ret->records_lost = set->rings_lost + stats.lost;
	ret->ring_error = set->ring_error;
	ret->realtime = set->realtime;
}

static void take_uevents(struct pinset *set)
{
	LOCKED(&set->ring_lock);
	struct uevent event;
	char buf[8192];

	if (!set->rings || set->uevent_fd < 0)
		return;
	while (uevent_next(set->uevent_fd, buf, sizeof(buf), &event) > 0)
		if (event.kind == UEVENT_CPU_ONLINE)
			rings_cpu_online(set->rings, event.cpu);
}

static void note_exits(struct pinset *set)
{
	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++)
		pinset_note_exit(set, &set->slots[i]);
}

/* Milliseconds to the next pin whose time is up, -1 if there is none. */
static int next_timeout(struct pinset *set)
{
	uint64_t now = monotonic_ns(), next = UINT64_MAX;

	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++)
		if (set->slots[i].exited)
			next = MIN(next, set->slots[i].expires);
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : MIN((next - now) / 1000000 + 1, (uint64_t)INT_MAX);
}

static void *watch_thread(void *arg)
{
	static const struct sched_param param = {.sched_priority = 1};
	struct pinset *set = arg;

	set->realtime = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
	rights_drop_nice();
	for (;;) {
		struct epoll_event events[16];
		int count =
			epoll_wait(set->epoll_fd, events, ARRAY_SIZE(events), next_timeout(set));

		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == &set->stop_fd)
				return NULL;
			if (events[i].data.ptr == &set->uevent_fd)
				take_uevents(set);
		}
		pthread_mutex_lock(&set->ring_lock);
		drain(set);
		pthread_mutex_unlock(&set->ring_lock);
		note_exits(set);
		expire(set);
		pinwatch_close_idle(set);
		pinset_tell(set);
	}
}

int pinwatch_start(struct pinset *set)
{
	int r = create_readers(&set->readers);

	if (r < 0)
		return r;
	set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	set->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (set->epoll_fd < 0 || set->stop_fd < 0)
		return -errno;
	watch_fd(set, set->stop_fd, &set->stop_fd);
	if (set->options.rule_count) {
		pinwatch_hold(set);
		pinwatch_unhold(set);
	}
	r = pthread_create(&set->thread, NULL, watch_thread, set);
	set->started = r == 0;
	return -r;
}

void pinwatch_stop(struct pinset *set)
{
	if (set->started) {
		eventfd_write(set->stop_fd, 1);
		pthread_join(set->thread, NULL);
	}
	pthread_mutex_lock(&set->ring_lock);
	close_rings(set);
	pthread_mutex_unlock(&set->ring_lock);
}

void pinwatch_deinit(struct pinset *set)
{
	if (set->epoll_fd >= 0)
		close(set->epoll_fd);
	if (set->stop_fd >= 0)
		close(set->stop_fd);
	if (set->readers)
		unref_readers(set->readers);
}
