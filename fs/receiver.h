/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads that receive requests, and serve what takes a moment. Each reads the device without
 * waiting and, when there is nothing, waits for the device and for the end together: libfuse's own
 * loop cannot be woken.
 *
 * To be woken on another CPU and to wake the caller from there is most of what a small request
 * costs: several times the work itself in a virtual machine, where a CPU that has nothing to do is
 * given up. The scheduler wakes a thread on an idle CPU rather than behind its waker, so one
 * receiver follows: it binds itself to its caller's CPU, until nobody has asked for a while. There
 * it is SCHED_IDLE: a CPU that runs nothing else is idle to the scheduler, which then leaves the
 * caller there too when it is answered.
 *
 * So whatever else runs on that CPU keeps it from the one that follows. Another receiver, which
 * follows nobody, looks from time to time whether it gets on; if not, it takes what lies there and
 * calls it home, to follow nobody for some seconds.
 */
#ifndef FS_RECEIVER_H
#define FS_RECEIVER_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct session;

struct receiver {
	struct session *session;
	pthread_t thread;
	int epoll;

	/* Of the one that follows: */
	bool follows;
	pid_t tid;	  /* set by itself, before it is away */
	cpu_set_t home;	  /* where it may run */
	cpu_set_t there;  /* what it is bound to of that, while it is away */
	atomic_bool away; /* told to the other by left_fd */
	int left_fd;
	pid_t last_caller, followed;
	uint64_t looked_ns; /* CLOCK_MONOTONIC */
	unsigned int turns; /* from one caller to another since */
	atomic_uint steps;  /* one more when it takes a request, and when it has served it */
	_Atomic uint64_t rests_since; /* CLOCK_MONOTONIC */

	/* Of the other one: */
	struct receiver *watched;
	unsigned int seen_steps;
};

/*
 * Starts a thread: one that follows, or, with `watched`, the other one. The kernel wakes those that
 * do nothing in the order of their start. -errno.
 */
int receiver_start(struct session *session, struct receiver *watched, struct receiver *ret);
/* Waits for its end, which session_stop() brings. */
void receiver_join(struct receiver *receiver);

#endif
