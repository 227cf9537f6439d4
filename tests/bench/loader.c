/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads BPF programs and closes them, for scripts/bench:
 *
 *	loader COUNT ALIVE_US NAME [FIRST]	one after the other, each closed after ALIVE_US
 *	loader COUNT keep NAME [FIRST]		all at once: says so, and keeps them until its input
 *ends
 *
 * The program I, from FIRST on, is named NAME followed by I in hex and is unlike all others. Prints
 * the nanoseconds that it took, each time.
 */
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/programs.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int load(const char *prefix, uint32_t i)
{
	char name[16];

	snprintf(name, sizeof(name), "%.8s%x", prefix, i);
	int fd = program_load(name, i);
	if (fd < 0)
		errx(1, "loading program %" PRIu32 ": %s", i, strerror(-fd));
	return fd;
}

static void say_elapsed(uint64_t begin)
{
	printf("%" PRIu64 "\n", now_ns() - begin);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	if (argc < 4)
		errx(2, "usage: loader COUNT ALIVE_US|keep NAME [FIRST]");
	uint32_t count = (uint32_t)strtoul(argv[1], NULL, 10);
	bool keep = !strcmp(argv[2], "keep");
	long alive_us = keep ? 0 : strtol(argv[2], NULL, 10);
	uint32_t first = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	struct timespec alive = {alive_us / 1000000, alive_us % 1000000 * 1000};

	getrlimit(RLIMIT_NOFILE, &limit);
	if (keep && limit.rlim_cur < count + 64) {
		limit.rlim_cur = limit.rlim_max = count + 64;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			err(1, "setrlimit");
	}
	uint64_t begin = now_ns();
	for (uint32_t i = 0; i < count; i++) {
		int fd = load(argv[3], first + i);

		if (keep)
			continue;
		if (alive_us)
			nanosleep(&alive, NULL);
		close(fd);
	}
	say_elapsed(begin);
	if (keep) {
		/* The programs go with this process. */
		while (getchar() != EOF)
			;
	}
	return 0;
}
