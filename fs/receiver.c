/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads that receive requests: see receiver.h. */
#include "fs/receiver.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

#include "core/pidstat.h"
#include "fs/request.h"

/* For how long a caller that does not ask is waited for where it was. */
#define STAY_MS 100
/* How often to look where a caller is: another one than before, and one that may have moved. */
#define LOOK_NS	      1000000
#define LOOK_AGAIN_NS 10000000

static int make_epoll(const struct session *session)
{
	/* A request wakes one thread, the end all. */
	struct epoll_event request = {.events = EPOLLIN | EPOLLEXCLUSIVE};
	struct epoll_event end = {.events = EPOLLIN};
	_cleanup_fd_ int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, session->fd, &request) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, session->exit_fd, &end) < 0)
		return -errno;
	return take_fd(&epoll);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static void go_home(struct receiver *receiver)
{
	if (receiver->away)
		sched_setaffinity(0, sizeof(receiver->home), &receiver->home);
	receiver->away = false;
}

static void go_to(struct receiver *receiver, unsigned int cpu)
{
	cpu_set_t there;

	if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &receiver->home))
		return;
	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (sched_setaffinity(0, sizeof(there), &there) == 0)
		receiver->away = true;
}

/* Goes to the CPU of the thread whose request was answered last. */
static void follow(struct receiver *receiver, pid_t caller)
{
	uint64_t now = now_ns(), since = now - receiver->looked_ns;
	bool again = caller == receiver->last_caller;
	unsigned int cpu;

	receiver->last_caller = caller;
	if (!caller)
		return;
	/* Callers that take turns are left where they are. */
	if (receiver->away &&
	    (!again || since < (caller == receiver->followed ? LOOK_AGAIN_NS : LOOK_NS)))
		return;
	receiver->looked_ns = now;
	receiver->followed = caller;
	if (pid_cpu(receiver->session->proc_fd, caller, &cpu) == 0)
		go_to(receiver, cpu);
}

static void receive_all(struct receiver *receiver, struct fuse_buf *buf)
{
	struct session *session = receiver->session;
	struct epoll_event event;

	while (!atomic_load(&session->stopping)) {
		int n = fuse_session_receive_buf(session->fuse, buf);

		if (n > 0) {
			fuse_session_process_buf(session->fuse, buf);
			if (receiver->follows)
				follow(receiver, fuseext_caller(buf->mem, n));
		} else if (n == -EAGAIN) {
			if (epoll_wait(receiver->epoll, &event, 1, receiver->away ? STAY_MS : -1) ==
			    0)
				go_home(receiver);
		} else if (n != -EINTR) {
			return; /* unmounted */
		}
	}
}

static void *receive(void *arg)
{
	struct receiver *receiver = arg;
	struct fuse_buf buf = {};

	receive_all(receiver, &buf);
	free(buf.mem);
	session_stop(receiver->session);
	return NULL;
}

int receiver_start(struct session *session, bool follows, struct receiver *ret)
{
	*ret = (struct receiver){.session = session};
	/* More CPUs than a set has room for: then it stays. */
	ret->follows = follows && sched_getaffinity(0, sizeof(ret->home), &ret->home) == 0;
	ret->epoll = make_epoll(session);
	if (ret->epoll < 0)
		return ret->epoll;
	int r = -pthread_create(&ret->thread, NULL, receive, ret);
	if (r < 0)
		close(ret->epoll);
	return r;
}

void receiver_join(struct receiver *receiver)
{
	pthread_join(receiver->thread, NULL);
	close(receiver->epoll);
}
