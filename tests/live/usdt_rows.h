/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of usdt/PID/notes taken apart, and processes that run a provider. */
#ifndef TESTS_LIVE_USDT_ROWS_H
#define TESTS_LIVE_USDT_ROWS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

struct usdt_row {
	const char *probe, *object, *kind;
	const char *invalid; /* NULL: it is valid */
	const char *args;
	uint64_t pc, offset, semaphore, semaphore_offset;
};

#define USDT_ROWS_MAX 64

/* Strings point into `text`. */
struct usdt_rows {
	char *text;
	size_t count;
	struct usdt_row rows[USDT_ROWS_MAX];
};

struct ksymfs;
/*
 * Reads a file of usdt/PID, without the lines that are about libstdc++: sanitizers bring it into
 * our children, and it has probes. The caller frees.
 */
char *usdt_read(const struct ksymfs *fs, pid_t pid, const char *name);

/* The rows of one object. A line that is not as it should be fails the test. */
struct usdt_rows usdt_rows_of(const char *notes, const char *object);
void usdt_rows_deinit(struct usdt_rows *rows);
/* The nth row of a probe; NULL. */
const struct usdt_row *usdt_row(const struct usdt_rows *rows, const char *probe, size_t nth);
/* The five sites of four probes of usdt/provider.c are there, and lead to their nops. */
void assert_whole_provider(const struct ksymfs *fs, pid_t pid, const char *path, const char *kind);

/* One of the objects of tests/live/usdt; the caller frees. */
char *kstest_path(const char *name);
/* A file has the instruction there that a probe is until somebody attaches. */
void assert_nop(const char *path, uint64_t offset);

/* A program of tests/live/usdt that has passed its probes and waits. */
struct program {
	pid_t pid;
	int stdin_fd;
};
struct program program_start(const char *path);
void program_stop(struct program *program);

#endif
