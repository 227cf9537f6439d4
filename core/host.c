/* SPDX-License-Identifier: GPL-2.0-or-later */
/* This boot's name and clocks: see host.h. */
#include "core/host.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/cleanup.h"

int host_boot_id(char ret[HOST_BOOT_ID_SIZE])
{
	_cleanup_file_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file)
		return -errno;
	if (!fgets(ret, HOST_BOOT_ID_SIZE, file))
		return -EIO;
	for (int i = 0; i < HOST_BOOT_ID_SIZE - 1; i++) {
		if (ret[i] != '-' && !(ret[i] >= '0' && ret[i] <= '9') &&
		    !(ret[i] >= 'a' && ret[i] <= 'f'))
			return -EIO;
	}
	return 0;
}

static int64_t to_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * (int64_t)NSEC_PER_SEC + time->tv_nsec;
}

/* What this process's time namespace adds to CLOCK_MONOTONIC; 0 where there are none (before 5.5).
 */
static int64_t time_namespace_offset(void)
{
	_cleanup_file_ FILE *file = fopen("/proc/self/timens_offsets", "re");
	struct timespec offset;

	if (!file || fscanf(file, "monotonic %ld %ld", &offset.tv_sec, &offset.tv_nsec) != 2)
		return 0;
	return to_ns(&offset);
}

int64_t host_monotonic_to_unix(void)
{
	struct timespec before, unix_time, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	clock_gettime(CLOCK_REALTIME, &unix_time);
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* The middle of the two is when the other clock was read. */
	int64_t monotonic = to_ns(&before) + (to_ns(&after) - to_ns(&before)) / 2;

	return to_ns(&unix_time) - (monotonic - time_namespace_offset());
}
