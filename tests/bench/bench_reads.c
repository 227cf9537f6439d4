/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What reading costs, in a mounted tree and elsewhere, side by side in one run: whole files with
 * 128 KiB reads, open and close included, medians of several. Prints rows as scripts/bench shows
 * them: FIGURE, TAB, MEASURED, TAB, WANTED.
 *
 *	bench_reads MOUNT TMPFS_DIR
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"

#define ROUNDS	    21
#define ADDR_ROUNDS 2001
#define MANY	    5000
#define BLOCK	    (128 << 10)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static void die(const char *what, const char *path)
{
	fprintf(stderr, "bench_reads: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

/* ns for one whole read; with `copy` the bytes are written there, outside of the time. */
static uint64_t read_whole(const char *path, int copy)
{
	static char block[BLOCK];
	uint64_t begin = now_ns(), copying = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		die("open", path);
	while ((n = read(fd, block, sizeof(block))) > 0) {
		uint64_t start = now_ns();

		if (copy >= 0 && write(copy, block, n) != n)
			die("copying", path);
		copying += now_ns() - start;
	}
	if (n < 0)
		die("read", path);
	close(fd);
	return now_ns() - begin - copying;
}

static int load(int variant)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = variant},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "bench", "GPL", insns, 2, NULL);

	if (fd < 0)
		die("loading", "a BPF program");
	return fd;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double median(uint64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

/* Both sides of a ratio are measured in turn, so that a busy moment hits both. */
static void ratio(const char *figure, const char *slow, const char *fast, bool change, int rounds,
		  const char *wanted)
{
	uint64_t slow_ns[ROUNDS], fast_ns[ROUNDS];

	read_whole(fast, -1);
	for (int i = 0; i < rounds; i++) {
		slow_ns[i] = read_whole(slow, -1);
		int fd = change ? load(i) : -1;
		fast_ns[i] = read_whole(fast, -1);
		if (fd >= 0)
			close(fd);
	}
	printf("%s\t%.2f times\t%s\n", figure, median(slow_ns, rounds) / median(fast_ns, rounds),
	       wanted);
	fflush(stdout);
}

static void addr_cost(const char *mount)
{
	_cleanup_free_ char *ksyms = NULL, *path = NULL;
	uint64_t ns[ADDR_ROUNDS], addr = 0;

	if (asprintf(&ksyms, "%s/ksyms", mount) < 0)
		die("path", mount);
	_cleanup_file_ FILE *file = fopen(ksyms, "re");
	char line[1024];

	while (file && !addr && fgets(line, sizeof(line), file))
		if (strstr(line, " vfs_read\n"))
			addr = strtoull(line, NULL, 16);
	for (int i = 0; i < ADDR_ROUNDS; i++) {
		free(path);
		if (asprintf(&path, "%s/addr/%" PRIx64, mount, addr + i % 64) < 0)
			die("path", mount);
		ns[i] = read_whole(path, -1);
	}
	printf("addr/ADDR open, read, close\t%.0f us\tunder 150 us\n",
	       median(ns, ADDR_ROUNDS) / 1000);
}

static double load_cost(void)
{
	uint64_t ns[ADDR_ROUNDS];

	for (int i = 0; i < ADDR_ROUNDS; i++) {
		uint64_t begin = now_ns();

		close(load(i));
		ns[i] = now_ns() - begin;
	}
	return median(ns, ADDR_ROUNDS);
}

static void with_many_programs(const char *ksyms)
{
	int *fds = calloc(MANY, sizeof(*fds));
	double few = load_cost();

	for (int i = 0; fds && i < MANY; i++)
		fds[i] = load(i);
	printf("one load and unload with 5,000 programs against few\t%.2f times\twithin 1.5 "
	       "times\n",
	       load_cost() / few);
	ratio("ksyms with 5,000 programs, against /proc/kallsyms then", "/proc/kallsyms", ksyms,
	      false, 5, "100 times faster");
	for (int i = 0; fds && i < MANY; i++)
		close(fds[i]);
	free(fds);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *ksyms = NULL, *copy = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: bench_reads MOUNT TMPFS_DIR\n");
		return 2;
	}
	if (asprintf(&ksyms, "%s/ksyms", argv[1]) < 0 || asprintf(&copy, "%s/ksyms", argv[2]) < 0)
		return 1;
	_cleanup_fd_ int fd = open(copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die("create", copy);
	read_whole(ksyms, fd);

	ratio("ksyms unchanged, against /proc/kallsyms", "/proc/kallsyms", ksyms, false, ROUNDS,
	      "30 times faster");
	ratio("the same bytes on tmpfs, against ksyms unchanged", ksyms, copy, false, ROUNDS,
	      "within 2 times");
	ratio("ksyms right after a change, against /proc/kallsyms", "/proc/kallsyms", ksyms, true,
	      ROUNDS, "10 times faster");
	addr_cost(argv[1]);
	with_many_programs(ksyms);
	return 0;
}
