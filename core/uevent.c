/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's uevents: see uevent.h. A message is "ACTION@DEVPATH", a NUL, and KEY=VALUE strings;
 * the first line says all that is wanted here. (kobject_uevent_env())
 */
#include "core/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/cleanup.h"

/* The kernel's multicast group; udev speaks to another. */
#define KERNEL_GROUP 1
/* A device that is plugged in brings hundreds of messages, about a KiB each in the buffer. */
#define RECEIVE_BYTES (2 << 20)

int uevent_open(void)
{
	_cleanup_fd_ int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};
	int bytes = RECEIVE_BYTES;

	if (fd < 0)
		return -errno;
	/* Without CAP_NET_ADMIN the limit applies; a smaller buffer only overflows sooner. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Past a prefix of string, or NULL if it begins otherwise. */
static const char *after(const char *string, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(string, prefix, len) == 0 ? string + len : NULL;
}

static int parse_module(const char *action, const char *name, struct uevent *ret)
{
	if (!*name || strchr(name, '/'))
		return 0;
	if (after(action, "add@"))
		ret->kind = UEVENT_MODULE_ADD;
	else if (after(action, "remove@"))
		ret->kind = UEVENT_MODULE_REMOVE;
	else
		return 0;
	ret->module = name;
	return 1;
}

static int parse_cpu(const char *action, const char *number, struct uevent *ret)
{
	char *end;

	if (*number < '0' || *number > '9')
		return 0;
	unsigned long cpu = strtoul(number, &end, 10);

	if (*end || cpu > UINT16_MAX)
		return 0;
	if (after(action, "online@"))
		ret->kind = UEVENT_CPU_ONLINE;
	else if (after(action, "offline@"))
		ret->kind = UEVENT_CPU_OFFLINE;
	else
		return 0;
	ret->cpu = cpu;
	return 1;
}

int uevent_parse(const char *data, size_t len, struct uevent *ret)
{
	if (!memchr(data, '\0', len))
		return 0;
	const char *path = strchr(data, '@');

	if (!path)
		return 0;
	const char *name = after(++path, "/module/");

	*ret = (struct uevent){};
	if (name)
		return parse_module(data, name, ret);
	name = after(path, "/devices/system/cpu/cpu");
	return name ? parse_cpu(data, name, ret) : 0;
}

int uevent_next(int fd, char *buf, size_t size, struct uevent *ret)
{
	for (;;) {
		struct sockaddr_nl sender = {};
		socklen_t sender_len = sizeof(sender);
		ssize_t len = recvfrom(fd, buf, size, 0, (struct sockaddr *)&sender, &sender_len);

		if (len < 0 && errno == ENOBUFS) {
			*ret = (struct uevent){.kind = UEVENT_LOST};
			return 1;
		}
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return errno == EAGAIN ? 0 : -errno;
		/* The kernel alone has port 0. */
		if (sender_len == sizeof(sender) && sender.nl_pid == 0 &&
		    uevent_parse(buf, len, ret) > 0)
			return 1;
	}
}
