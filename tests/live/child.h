/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that does what a test tells it to: a fork of the test, so that a function of the test
 * can be called in it by its address.
 *
 *	static long map_file(const char *path) { ... }	runs in the child
 *
 *	_cleanup_child_ struct child *child = child_start();
 *	child_call(child, map_file, "/tmp/x");
 *	ksymfs_read(fs, NULL, "usdt/%d/notes", child->pid);
 */
#ifndef TESTS_LIVE_CHILD_H
#define TESTS_LIVE_CHILD_H

#include <sys/types.h>

#include "core/cleanup.h"

struct child {
	pid_t pid;
	int socket;
};

typedef long (*child_fn)(const char *arg);

struct child *child_start(void);
/* What the function returned; a child that died meanwhile fails the test. */
long child_call(struct child *child, child_fn fn, const char *arg);
/* Kills it. NULL is fine. */
void child_stop(struct child *child);
DEFINE_CLEANUP(child, struct child *, child_stop)
#define _cleanup_child_ CLEANUP(child_cleanup)

/* For children: dlopen() and dlclose() of what was opened last, and kstest_fire() of it. */
long child_dlopen(const char *path);
long child_dlclose(const char *unused);
long child_fire(const char *number);
/* dlopen()s a copy of an object in a memfd, as libstapsdt does: the fd is closed, or kept. */
long child_dlopen_memfd(const char *path);
long child_dlopen_memfd_kept(const char *path);
/* Maps a whole file, to read it and no more. */
long child_map(const char *path);

#endif
