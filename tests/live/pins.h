/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests of pins stand on: processes in roots and mount namespaces of their own, pinned by the
 * instance under test.
 */
#ifndef TESTS_LIVE_PINS_H
#define TESTS_LIVE_PINS_H

#include "tests/deadfuse.h"
#include "tests/live/support.h"

/*
 * A process in a mount namespace of its own, whose root is a tmpfs that nobody else sees. It sleeps
 * until it is killed.
 */
struct jail {
	pid_t pid;
};

/*
 * Starts one. fill is called in it with the root as working directory, before it becomes the root;
 * what it mounts stays in there. It exits with a status that is not 0 where something fails.
 */
struct jail *jail_start(void (*fill)(void *arg), void *arg);
/* Kills it, if it lives, and waits for it. NULL is fine. */
void jail_stop(struct jail *jail);
DEFINE_CLEANUP(jail, struct jail *, jail_stop)
#define _cleanup_jail_ CLEANUP(jail_cleanup)

/* Whatever fails in a child ends it. */
void must(bool ok, const char *what);
#define MUST(expression) must((expression), #expression)
/* A file with these bytes, and a directory, made where they are not yet. */
void put_file(const char *path, const char *bytes);
void make_dir(const char *path);
void make_link(const char *target, const char *path);

/* A program that runs until it is killed; argv is NULL-terminated. */
pid_t spawn(const char *const *argv);
void kill_and_wait(pid_t pid);

/* mkdir and rmdir in pins/, which must work; errors of them. */
void pin(const struct ksymfs *fs, pid_t pid);
void unpin(const struct ksymfs *fs, pid_t pid);
int pin_error(const struct ksymfs *fs, const char *name);
int unpin_error(const struct ksymfs *fs, const char *name);

/* How it ended, as info says it: key is exit_code or exit_signal. It may say nothing only where the
 * kernel tells nobody of a process that is reaped (before 6.15). */
void assert_exit_told(const struct ksymfs *fs, const char *name, const char *key,
		      const char *value);

/* fds that the daemon has open. */
size_t count_fds(pid_t pid);
/* Resident anonymous memory of the daemon, in KiB. */
size_t anon_kib(pid_t pid);

/* A child that calls func(arg) and exits with what it returns; -1 if it takes longer: then it is
 * killed, which must work within a second. */
int run_for(int (*func)(void *arg), void *arg, unsigned int seconds);

#endif
