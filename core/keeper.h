/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fds that outlive the process: another process keeps a copy of each, for whoever takes over. What
 * an fd is for is told in memory that outlives the process too (carry.h), by the number that the
 * fd was given here. A number is never used again.
 *
 * An fd is kept before it is told of there, and dropped after; so one that is told of is there, and
 * one that is not is let go of by whoever takes over.
 */
#ifndef CORE_KEEPER_H
#define CORE_KEEPER_H

#include <stdint.h>

/* How the other process is spoken to. Any thread may call, but for take() and drop_rest(). */
struct keeper {
	void (*keep)(void *arg, uint64_t number, int fd);
	void (*drop)(void *arg, uint64_t number);
	/* Returns once all that was dropped is closed, or after a while. */
	void (*settle)(void *arg);
	/* An fd that was kept before this process: the caller's. -1: there is none. */
	int (*take)(void *arg, uint64_t number);
	/* Drops those that nobody has taken. */
	void (*drop_rest)(void *arg);
	void *arg;
};

/*
 * A keeper may be NULL, where nobody would take over: then nothing is kept. 0 is no fd's number,
 * and may be dropped and taken.
 */
uint64_t keeper_keep(const struct keeper *keeper, int fd);
void keeper_drop(const struct keeper *keeper, uint64_t number);
void keeper_settle(const struct keeper *keeper);
int keeper_take(const struct keeper *keeper, uint64_t number);
void keeper_drop_rest(const struct keeper *keeper);

#endif
