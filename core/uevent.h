/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's own uevents (NETLINK_KOBJECT_UEVENT): modules that come and go, CPUs that come
 * online. Modules raise no perf record, so this is how the symbol table hears of them.
 *
 * Source: lib/kobject_uevent.c, kernel/module/sysfs.c; kernel-facts on the order at load.
 */
#ifndef CORE_UEVENT_H
#define CORE_UEVENT_H

#include <stddef.h>

enum uevent_kind {
	UEVENT_MODULE_ADD,
	UEVENT_MODULE_REMOVE,
	UEVENT_CPU_ONLINE,
	UEVENT_CPU_OFFLINE,
	UEVENT_LOST, /* the socket's buffer overflowed: anything may have happened */
};

struct uevent {
	enum uevent_kind kind;
	const char *module; /* of the module events */
	unsigned int cpu;   /* of the CPU events */
};

/* Opens a non-blocking socket that hears the kernel, not udev. Returns the fd or -errno. */
int uevent_open(void);
/*
 * Takes the next event that matters; others are passed over. Strings point into buf, which is the
 * caller's. Returns 1, 0 when nothing waits, -errno. Messages that the kernel did not send are
 * dropped.
 */
int uevent_next(int fd, char *buf, size_t size, struct uevent *ret);
/* Parses one message, for tests and fuzzing: 1, or 0 for one that does not matter. */
int uevent_parse(const char *data, size_t len, struct uevent *ret);

#endif
