/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times what scripts/bench compares, in one process and in turns, so that what disturbs the machine
 * disturbs every side. After one round that does not count, prints a line a side:
 * its nanoseconds, round by round.
 *
 *	timer read ROUNDS FILE...		open, read to the end as cat does, close
 *	timer pieces ROUNDS FILE...		the same in 128 KiB, whatever the file's stat says
 *	timer change ROUNDS FILE...		the same, a BPF program loaded before each
 *	timer run ROUNDS 'COMMAND' ...		fork to wait; words are split at blanks
 *	timer parse ROUNDS FILE...		CPU time to read a kallsyms and parse it
 */
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "tests/bench/programs.h"

#define READ_SIZE     (128 * 1024)
#define MAX_READ_SIZE (4 * READ_SIZE)
#define MAX_WORDS     16
#define MAX_ROUNDS    100000

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* In blocks of 128 KiB, or of what stat says if that is more: as cat, cp and tools like them do. */
static void read_whole(const char *path, size_t max_block)
{
	static char buffer[MAX_READ_SIZE];
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	ssize_t size;

	if (fd < 0 || fstat(fd, &stat) < 0)
		err(1, "%s", path);
	size_t block = MIN(MAX((size_t)stat.st_blksize, (size_t)READ_SIZE), max_block);
	while ((size = read(fd, buffer, block)) > 0)
		;
	if (size < 0)
		err(1, "%s", path);
}

static uint64_t time_read(const char *path)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);

	read_whole(path, MAX_READ_SIZE);
	return clock_ns(CLOCK_MONOTONIC) - begin;
}

static uint64_t time_pieces(const char *path)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);

	read_whole(path, READ_SIZE);
	return clock_ns(CLOCK_MONOTONIC) - begin;
}

static uint64_t time_read_after_change(const char *path)
{
	static uint32_t variant;
	_cleanup_fd_ int fd = program_load("bench_change", variant++);

	if (fd < 0)
		errx(1, "loading a BPF program: %s", strerror(-fd));
	return time_read(path);
}

static uint64_t time_command(const char *command)
{
	_cleanup_free_ char *words = strdup(command);
	char *argv[MAX_WORDS + 1] = {};
	char *rest = words, *word;
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	for (size_t i = 0; i < MAX_WORDS && (word = strsep(&rest, " ")); i++)
		argv[i] = word;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	if (error)
		errx(1, "%s: %s", command, strerror(error));
	if (waitpid(pid, &status, 0) < 0 || status)
		errx(1, "%s: status %#x", command, status);
	uint64_t end = clock_ns(CLOCK_MONOTONIC);
	posix_spawn_file_actions_destroy(&actions);
	return end - begin;
}

/* What a tool that symbolizes must do at the least: an array of addresses, types and names. */
struct parsed {
	uint64_t address;
	const char *name;
	char type;
};

static uint64_t time_parse(const char *path)
{
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ struct parsed *symbols = NULL;
	size_t size = 0, capacity = 0, count = 0, room = 0;
	ssize_t got;

	if (fd < 0)
		err(1, "%s", path);
	do {
		if (capacity - size < READ_SIZE + 1) {
			capacity = capacity ? 2 * capacity : 4 * READ_SIZE;
			text = realloc(text, capacity);
			if (!text)
				err(1, "realloc");
		}
		got = read(fd, text + size, READ_SIZE);
		size += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	text[size] = '\0';
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
		char *end;

		if (count == room) {
			room = room ? 2 * room : 1024;
			symbols = reallocarray(symbols, room, sizeof(*symbols));
			if (!symbols)
				err(1, "realloc");
		}
		symbols[count].address = strtoull(line, &end, 16);
		symbols[count].type = end[1];
		symbols[count++].name = end + 3;
	}
	if (!count)
		errx(1, "%s: no symbols", path);
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
}

static uint64_t (*find_timer(const char *name))(const char *)
{
	static const struct {
		const char *name;
		uint64_t (*time)(const char *);
	} timers[] = {
		{"read", time_read},   {"pieces", time_pieces}, {"change", time_read_after_change},
		{"run", time_command}, {"parse", time_parse},
	};

	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		if (!strcmp(timers[i].name, name))
			return timers[i].time;
	}
	errx(2, "no timer `%s'", name);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		errx(2, "usage: timer read|pieces|change|run|parse ROUNDS WHAT...");
	uint64_t (*timer)(const char *) = find_timer(argv[1]);
	size_t rounds = strtoul(argv[2], NULL, 10);
	size_t sides = (size_t)argc - 3;
	if (!rounds || rounds > MAX_ROUNDS)
		errx(2, "1 to %d rounds", MAX_ROUNDS);
	_cleanup_free_ uint64_t *taken = calloc(rounds * sides, sizeof(*taken));
	if (!taken)
		err(1, "calloc");
	for (size_t side = 0; side < sides; side++)
		timer(argv[3 + side]);
	for (size_t round = 0; round < rounds; round++) {
		for (size_t side = 0; side < sides; side++)
			taken[side * rounds + round] = timer(argv[3 + side]);
	}
	for (size_t side = 0; side < sides; side++) {
		for (size_t round = 0; round < rounds; round++)
			printf("%s%llu", round ? " " : "",
			       (unsigned long long)taken[side * rounds + round]);
		putchar('\n');
	}
	return 0;
}
