/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts by fanotify how often a file is opened, until its input ends:
 *
 *	opens FILE PID
 *
 * Prints a line when it watches; at the end, how often PID and how often others opened it. It opens
 * the file once itself at the end, so a count of others of 0 says that nothing was seen at all.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include "core/cleanup.h"

struct counts {
	pid_t pid;
	unsigned long by_pid, by_others;
};

static void drain(int fanotify, struct counts *counts)
{
	_Alignas(struct fanotify_event_metadata) char buffer[16384];
	ssize_t size;

	while ((size = read(fanotify, buffer, sizeof(buffer))) > 0) {
		const struct fanotify_event_metadata *event = (void *)buffer;

		for (; FAN_EVENT_OK(event, size); event = FAN_EVENT_NEXT(event, size)) {
			if (event->mask & FAN_Q_OVERFLOW)
				errx(1, "events were lost");
			if (event->pid == counts->pid)
				counts->by_pid++;
			else
				counts->by_others++;
			close(event->fd);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: opens FILE PID");
	struct counts counts = {.pid = (pid_t)strtol(argv[2], NULL, 10)};
	_cleanup_fd_ int fanotify = fanotify_init(FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE,
						  O_RDONLY | O_CLOEXEC);

	if (fanotify < 0)
		err(1, "fanotify_init");
	if (fanotify_mark(fanotify, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, argv[1]) < 0)
		err(1, "fanotify_mark %s", argv[1]);
	puts("watching");
	fflush(stdout);

	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			       {.fd = fanotify, .events = POLLIN}};
	while (poll(fds, ARRAY_SIZE(fds), -1) >= 0 && !fds[0].revents)
		drain(fanotify, &counts);
	_cleanup_fd_ int own = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (own < 0)
		err(1, "%s", argv[1]);
	drain(fanotify, &counts);
	printf("%lu %lu\n", counts.by_pid, counts.by_others);
	return 0;
}
