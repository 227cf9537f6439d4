/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole files of /proc: see slurp.h. */
#include "core/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/cleanup.h"

/* seq_file hands out a page at a time, most files of /proc are smaller than that. */
#define STEP 4096

int slurp_fd(int fd, size_t max, struct text *text)
{
	for (size_t done = 0;;) {
		char *at = text_reserve(text, STEP);

		if (!at)
			return -ENOMEM;
		ssize_t n = read(fd, at, STEP);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		done += n;
		if (done > max)
			return -EFBIG;
		text->len += n;
	}
}

int slurp_at(int dir_fd, const char *name, size_t max, struct text *text)
{
	_cleanup_fd_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : slurp_fd(fd, max, text);
}
