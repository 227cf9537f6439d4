/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads that receive requests: see receiver.h. */
#include "fs/receiver.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "core/clock.h"
#include "core/pidstat.h"
#include "core/rights.h"
#include "fs/request.h"
#include "fs/sandbox.h"

/* For how long a caller that does not ask is waited for where it was. */
#define STAY_MS 100
/* How often to look meanwhile whether the one that follows gets on. */
#define WATCH_MS 10
/* How often to look where a caller is: another one than before, and one that may have moved. */
#define LOOK_NS	      1000000
#define LOOK_AGAIN_NS 10000000
/* More callers than that, between two looks at one, are many. */
#define MANY_TURNS 4
/* For how long it follows nobody after it was called home, or found many. */
#define REST_NS (2 * NSEC_PER_SEC)

static int make_epoll(const struct receiver *receiver)
{
	const struct session *session = receiver->session;
	/* A request wakes one thread, the end all. */
	struct epoll_event request = {.events = EPOLLIN | EPOLLEXCLUSIVE};
	struct epoll_event end = {.events = EPOLLIN};
	struct epoll_event left = {.events = EPOLLIN | EPOLLET};
	_cleanup_fd_ int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, session->fd, &request) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, session->exit_fd, &end) < 0)
		return -errno;
	if (receiver->watched &&
	    epoll_ctl(epoll, EPOLL_CTL_ADD, receiver->watched->left_fd, &left) < 0)
		return -errno;
	return take_fd(&epoll);
}

static void set_policy(pid_t tid, int policy)
{
	const struct sched_param none = {};

	sched_setscheduler(tid, policy, &none);
}

/*
 * Where it may run is what the administrator has said last, also while it was away. Is it bound by
 * itself?
 */
static bool learn_home(struct receiver *receiver)
{
	cpu_set_t now;

	if (sched_getaffinity(0, sizeof(now), &now) < 0)
		return false;
	if (receiver->away && CPU_EQUAL(&now, &receiver->there))
		return true;
	receiver->home = now;
	return false;
}

static void go_home(struct receiver *receiver)
{
	set_policy(0, SCHED_OTHER);
	if (learn_home(receiver))
		sched_setaffinity(0, sizeof(receiver->home), &receiver->home);
	receiver->away = false;
}

static void go_to(struct receiver *receiver, unsigned int cpu)
{
	learn_home(receiver);
	if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &receiver->home))
		return;
	CPU_ZERO(&receiver->there);
	CPU_SET(cpu, &receiver->there);
	if (sched_setaffinity(0, sizeof(receiver->there), &receiver->there) < 0)
		return;
	if (atomic_exchange(&receiver->away, true))
		return;
	set_policy(0, SCHED_IDLE);
	eventfd_write(receiver->left_fd, 1);
}

static bool is_resting(struct receiver *receiver, uint64_t now)
{
	uint64_t rests_since = receiver->rests_since;

	return rests_since && now - rests_since < REST_NS;
}

/* Goes to the CPU of the thread whose request was answered last. */
static void follow(struct receiver *receiver, pid_t caller)
{
	uint64_t now = monotonic_ns(), since = now - receiver->looked_ns;
	bool again = caller == receiver->last_caller;
	unsigned int cpu;

	/* The kernel asks in nobody's name. */
	if (!caller)
		return;
	receiver->last_caller = caller;
	receiver->turns += !again;
	if (receiver->away && receiver->turns > MANY_TURNS)
		receiver->rests_since = now;
	if (is_resting(receiver, now)) {
		if (receiver->away)
			go_home(receiver);
		return;
	}
	/* Callers that take turns are left where they are. */
	if (!again ||
	    (receiver->away && since < (caller == receiver->followed ? LOOK_AGAIN_NS : LOOK_NS)))
		return;
	receiver->turns = 0;
	receiver->looked_ns = now;
	receiver->followed = caller;
	if (pid_cpu(receiver->session->proc_fd, caller, &cpu) == 0)
		go_to(receiver, cpu);
}

/* Its CPU is kept from it: it is to have its share of that, and then to leave. */
static void call_home(struct receiver *receiver)
{
	receiver->rests_since = monotonic_ns();
	set_policy(receiver->tid, SCHED_OTHER);
}

static bool is_asked(const struct session *session)
{
	struct pollfd device = {.fd = session->fd, .events = POLLIN};

	return poll(&device, 1, 0) > 0;
}

/*
 * While the one that follows is away it alone is woken: on its way to the next wait it does not
 * count as waiting, and the other one would be woken, on another CPU, for what it is about to take.
 */
static void watch(struct receiver *receiver)
{
	struct session *session = receiver->session;
	struct receiver *watched = receiver->watched;
	struct pollfd end = {.fd = session->exit_fd, .events = POLLIN};

	while (watched->away && poll(&end, 1, WATCH_MS) == 0) {
		unsigned int steps = watched->steps;
		bool gets_on = steps != receiver->seen_steps;

		receiver->seen_steps = steps;
		if (!gets_on && (steps % 2 || is_asked(session))) {
			call_home(watched);
			return;
		}
	}
}

static void wait_for_request(struct receiver *receiver)
{
	struct epoll_event event;

	if (receiver->watched && receiver->watched->away)
		watch(receiver);
	else if (epoll_wait(receiver->epoll, &event, 1, receiver->away ? STAY_MS : -1) == 0)
		go_home(receiver);
}

static void receive_all(struct receiver *receiver, struct fuse_buf *buf)
{
	struct session *session = receiver->session;

	while (!atomic_load(&session->stopping)) {
		int n = fuse_session_receive_buf(session->fuse, buf);

		if (n > 0) {
			receiver->steps++;
			fuse_session_process_buf(session->fuse, buf);
			receiver->steps++;
			if (receiver->follows)
				follow(receiver, fuseext_caller(buf->mem, n));
		} else if (n == -EAGAIN) {
			wait_for_request(receiver);
		} else if (n != -EINTR) {
			return; /* unmounted */
		}
	}
}

/* May a thread that is SCHED_IDLE become what the others are? */
static bool may_leave_idle(void)
{
	struct rlimit nice;

	return rights_have_nice() ||
	       (getrlimit(RLIMIT_NICE, &nice) == 0 && nice.rlim_cur >= NICE_USUAL);
}

static void *receive(void *arg)
{
	struct receiver *receiver = arg;
	struct fuse_buf buf = {};

	receiver->tid = gettid();
	receive_all(receiver, &buf);
	if (receiver->away)
		go_home(receiver);
	/* The end is not to wait for a CPU that is kept from it. */
	if (receiver->watched && receiver->watched->away)
		call_home(receiver->watched);
	free(buf.mem);
	session_stop(receiver->session);
	return NULL;
}

int receiver_start(struct session *session, struct receiver *watched, struct receiver *ret)
{
	*ret = (struct receiver){.session = session, .watched = watched, .left_fd = -1};
	/* More CPUs than a set has room for: then it stays. */
	ret->follows = !watched && may_leave_idle() &&
		       sched_getaffinity(0, sizeof(ret->home), &ret->home) == 0;
	_cleanup_fd_ int left_fd = watched ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	_cleanup_fd_ int epoll = make_epoll(ret);
	if (epoll < 0)
		return epoll;
	if (!watched && left_fd < 0)
		return -errno;
	ret->epoll = epoll;
	ret->left_fd = left_fd;
	int r = -pthread_create(&ret->thread, NULL, receive, ret);
	if (r < 0)
		return r;
	take_fd(&epoll);
	take_fd(&left_fd);
	return 0;
}

void receiver_join(struct receiver *receiver)
{
	pthread_join(receiver->thread, NULL);
	close(receiver->epoll);
	if (receiver->left_fd >= 0)
		close(receiver->left_fd);
}
