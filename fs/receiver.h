/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads that receive requests, and serve what takes a moment. Each reads the device without
 * waiting and, when there is nothing, waits for the device and for the end together: libfuse's own
 * loop cannot be woken.
 *
 * To be woken on another CPU and to wake the caller from there is most of what a small request
 * costs: several times the work itself in a virtual machine, where a CPU that has nothing to do is
 * given up. The scheduler wakes a thread on an idle CPU rather than behind its waker, so a receiver
 * that follows makes itself stay on its caller's CPU, until nobody has asked for a while.
 *
 * One receiver follows, and it is the first one that the kernel wakes. The CPU that it is bound to
 * may be kept from it by work of a higher priority: so while it is bound, another receiver, which
 * never is, looks from time to time whether something was left lying.
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
	cpu_set_t home;	  /* where it may run */
	cpu_set_t there;  /* what it is bound to of that, while it is away */
	atomic_bool away; /* told to the other by left_fd */
	int left_fd;
	pid_t last_caller, followed;
	uint64_t looked_ns; /* CLOCK_MONOTONIC */

	struct receiver *watched; /* of the other one */
};

/*
 * Starts a thread: one that follows, or, with `watched`, the other one. The kernel wakes those that
 * do nothing in the order of their start. -errno.
 */
int receiver_start(struct session *session, struct receiver *watched, struct receiver *ret);
/* Waits for its end, which session_stop() brings. */
void receiver_join(struct receiver *receiver);

#endif
