/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages between supervisor and daemon: see handover.h. */
#include "fs/handover.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "core/clock.h"

/* A supervisor that was stopped keeps nobody waiting. */
#define SEND_SECONDS 1
#define SYNC_NS	     NSEC_PER_SEC

#define HEADER offsetof(struct handover_message, data)

union fd_control {
	char buf[CMSG_SPACE(HANDOVER_FDS * sizeof(int))];
	struct cmsghdr align;
};

int handover_send(int socket, const struct handover_message *message, const int *fds, size_t count)
{
	struct iovec iov = {(void *)message, HEADER + message->len};
	union fd_control control = {};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (count) {
		header.msg_control = control.buf;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
	}
	do {
		n = sendmsg(socket, &header, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void take_fds(struct msghdr *header, int ret_fds[HANDOVER_FDS])
{
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(header);

	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(cmsg), cmsg->cmsg_len - CMSG_LEN(0));
}

int handover_receive(int socket, int flags, struct handover_message *ret, int ret_fds[HANDOVER_FDS])
{
	struct iovec iov = {ret, sizeof(*ret)};
	union fd_control control = {};
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n;

	for (size_t i = 0; i < HANDOVER_FDS; i++)
		ret_fds[i] = -1;
	*ret = (struct handover_message){};
	do {
		n = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (n == 0)
		return 0;
	take_fds(&header, ret_fds);
	if ((size_t)n >= HEADER && ret->len <= n - HEADER)
		return 1;
	for (size_t i = 0; i < HANDOVER_FDS; i++)
		fd_cleanup(&ret_fds[i]);
	return -EBADMSG;
}

static int add_kept(struct handover *handover, uint64_t key, int fd)
{
	struct kept_fd *kept =
		reallocarray(handover->kept, handover->kept_count + 1, sizeof(*kept));

	if (!kept) {
		close(fd);
		return -ENOMEM;
	}
	handover->kept = kept;
	kept[handover->kept_count++] = (struct kept_fd){key, fd};
	return 0;
}

int handover_begin(int socket, struct handover *ret)
{
	static const struct timeval patience = {.tv_sec = SEND_SECONDS};
	_cleanup_handover_ struct handover handover = {
		.socket = socket,
		.device = -1,
		.region = -1,
		.sync_lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct handover_message message;
	int fds[HANDOVER_FDS], r;

	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	while ((r = handover_receive(socket, 0, &message, fds)) > 0) {
		if (message.op == HANDOVER_HELLO && message.len == sizeof(message.hello) &&
		    message.hello.init_len <= sizeof(message.hello.init)) {
			handover.hello = message.hello;
			handover.device = fds[0];
			handover.region = fds[1];
		} else if (message.op == HANDOVER_FD) {
			/* Past what we may open it did not come. */
			r = fds[0] < 0 ? 0 : add_kept(&handover, message.key, fds[0]);
		} else if (message.op == HANDOVER_GO && handover.device >= 0 &&
			   handover.region >= 0) {
			*ret = handover;
			handover = (struct handover){.socket = -1, .device = -1, .region = -1};
			return 0;
		} else {
			r = -EBADMSG;
		}
		if (r < 0)
			return r;
	}
	return r < 0 ? r : -EPIPE;
}

void handover_deinit(struct handover *handover)
{
	for (size_t i = 0; i < handover->kept_count; i++)
		fd_cleanup(&handover->kept[i].fd);
	free(handover->kept);
	fd_cleanup(&handover->socket);
	fd_cleanup(&handover->device);
	fd_cleanup(&handover->region);
	*handover = (struct handover){.socket = -1, .device = -1, .region = -1};
}

size_t kept_fds_find(const struct kept_fd *kept, size_t count, uint64_t key)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (kept[mid].key < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int handover_take(struct handover *handover, uint64_t key)
{
	size_t i = kept_fds_find(handover->kept, handover->kept_count, key);

	if (i == handover->kept_count || handover->kept[i].key != key)
		return -1;
	return take_fd(&handover->kept[i].fd);
}

/* If nobody is there any more, we are about to be told to end. */
static void tell(const struct handover *handover, const struct handover_message *message, int fd)
{
	if (handover->socket >= 0)
		handover_send(handover->socket, message, &fd, fd >= 0);
}

void handover_init(const struct handover *handover, const void *init, size_t len)
{
	struct handover_message message = {.op = HANDOVER_INIT, .len = len};

	if (len > sizeof(message.data))
		return;
	memcpy(message.data, init, len);
	tell(handover, &message, -1);
}

void handover_ready(const struct handover *handover)
{
	const struct handover_message message = {.op = HANDOVER_READY};

	tell(handover, &message, -1);
}

void handover_keep(const struct handover *handover, uint64_t key, int fd)
{
	const struct handover_message message = {.op = HANDOVER_KEEP, .key = key};

	tell(handover, &message, fd);
}

void handover_drop(const struct handover *handover, uint64_t key)
{
	const struct handover_message message = {.op = HANDOVER_DROP, .key = key};

	tell(handover, &message, -1);
}

/* ---- numbers ---- */

static void keep_number(void *arg, uint64_t number, int fd)
{
	handover_keep(arg, HANDOVER_KEY_NUMBERS + number, fd);
}

static void drop_number(void *arg, uint64_t number)
{
	handover_drop(arg, HANDOVER_KEY_NUMBERS + number);
}

static int take_number(void *arg, uint64_t number)
{
	return handover_take(arg, HANDOVER_KEY_NUMBERS + number);
}

static void drop_rest(void *arg)
{
	struct handover *handover = arg;

	for (size_t i = 0; i < handover->kept_count; i++) {
		struct kept_fd *kept = &handover->kept[i];

		if (kept->fd < 0 || kept->key < HANDOVER_KEY_NUMBERS)
			continue;
		close(take_fd(&kept->fd));
		handover_drop(handover, kept->key);
	}
}

/* Answers that nobody has waited for come first. */
static void wait_for_answer(struct handover *handover, uint64_t until)
{
	struct handover_message answer;
	int fds[HANDOVER_FDS];

	for (;;) {
		struct pollfd pollfd = {.fd = handover->socket, .events = POLLIN};
		uint64_t now = monotonic_ns();

		if (now >= until || poll(&pollfd, 1, (until - now) / 1000000 + 1) < 0)
			return;
		int r = handover_receive(handover->socket, MSG_DONTWAIT, &answer, fds);

		if (r > 0 && answer.op == HANDOVER_SYNC && answer.key == handover->last_sync)
			return;
		if (r <= 0 && r != -EAGAIN)
			return;
	}
}

static void settle(void *arg)
{
	struct handover *handover = arg;

	if (handover->socket < 0)
		return;
	LOCKED(&handover->sync_lock);
	const struct handover_message message = {
		.op = HANDOVER_SYNC,
		.key = ++handover->last_sync,
	};

	if (handover_send(handover->socket, &message, NULL, 0) == 0)
		wait_for_answer(handover, monotonic_ns() + SYNC_NS);
}

void handover_keeper(struct handover *handover, struct keeper *ret)
{
	*ret = (struct keeper){
		.keep = keep_number,
		.drop = drop_number,
		.settle = settle,
		.take = take_number,
		.drop_rest = drop_rest,
		.arg = handover,
	};
}
