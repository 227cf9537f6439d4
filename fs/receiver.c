/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads that receive requests: see receiver.h. */
#include "fs/receiver.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "core/clock.h"
#include "core/pidstat.h"
#include "fs/request.h"

/* For how long a caller that does not ask is waited for where it was. */
#define STAY_MS 100
/* How often to look meanwhile whether a request lies there, which nobody was free to take. */
#define WATCH_MS 20
/* How often to look where a caller is: another one than before, and one that may have moved. */
#define LOOK_NS	      1000000
#define LOOK_AGAIN_NS 10000000

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
	if (!atomic_exchange(&receiver->away, true))
		eventfd_write(receiver->left_fd, 1);
}

/* Goes to the CPU of the thread whose request was answered last. */
static void follow(struct receiver *receiver, pid_t caller)
{
	uint64_t now = monotonic_ns(), since = now - receiver->looked_ns;
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

static int patience(const struct receiver *receiver)
{
	if (receiver->watched)
		return receiver->watched->away ? WATCH_MS : -1;
	return receiver->away ? STAY_MS : -1;
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
			int count = epoll_wait(receiver->epoll, &event, 1, patience(receiver));

			if (count == 0 && receiver->follows)
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

int receiver_start(struct session *session, struct receiver *watched, struct receiver *ret)
{
	*ret = (struct receiver){.session = session, .watched = watched, .left_fd = -1};
	/* More CPUs than a set has room for: then it stays. */
	ret->follows = !watched && sched_getaffinity(0, sizeof(ret->home), &ret->home) == 0;
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
