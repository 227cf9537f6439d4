/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A container, made by hand: a process with mount and pid namespaces of its own and, if wanted, all
 * others too, and a root with nothing but busybox in it.
 *
 *	_cleanup_container_ struct container *container = container_start(CONTAINER_USER);
 *	assert_int_equal(container_run(container, "cat /mnt/README"), 0);
 */
#ifndef TESTS_LIVE_CONTAINER_H
#define TESTS_LIVE_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/cleanup.h"

enum container_flags {
	CONTAINER_ALL = 1 << 0,	  /* network, IPC, UTS and cgroup namespaces too */
	CONTAINER_USER = 1 << 1,  /* and a user namespace, whose root is CONTAINER_ROOT_ID */
	CONTAINER_PIVOT = 1 << 2, /* a root of its own: what was mounted before is not there */
	CONTAINER_SLAVE = 1 << 3, /* what is mounted outside comes in, as with rslave */
};

#define CONTAINER_ROOT_ID 100000

struct container {
	pid_t pid; /* its init, as we see it */
	unsigned int flags;
	char dir[64]; /* where its root was made */
};

/* First in a test that uses `ksymfs attach`: skips it where the kernel gives a copy of a mount no
 * attributes (mount_setattr(2), 5.12). */
void need_copies(void);

/* A failure fails the test. */
struct container *container_start(unsigned int flags);
/* Kills it, and all that is in it. NULL is fine. */
void container_stop(struct container *container);
DEFINE_CLEANUP(container, struct container *, container_stop)
#define _cleanup_container_ CLEANUP(container_cleanup)

/* Runs a shell command as its root, output to our stderr; its exit status. */
int container_run(const struct container *container, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same: what it writes to stdout. The caller frees. */
char *container_output(const struct container *container, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* How many mounts of type fuse.ksymfs does it have at this path, or, for NULL, at all? */
size_t container_mounts(const struct container *container, const char *path);

#endif
