/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See notify.h. */
#include "fs/notify.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/cleanup.h"

void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;

	if (!len || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(address.sun_path, path, len);
	/* In the abstract namespace, which the environment writes in its own way. */
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		       offsetof(struct sockaddr_un, sun_path) + len);
}
