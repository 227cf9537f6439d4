/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perf's sideband records from every CPU, in time order.
 *
 * One perf ring a CPU (a record goes to the ring of the CPU that it happened on), each drained by
 * bytes into typed records, all merged by time. It knows no symbols and no programs.
 *
 * A kernel call that has returned has written its records before it returned; so whoever drains
 * first sees all that was finished before. rings_pending() is the cheap form of that question.
 *
 * Records that were overwritten are counted: by PERF_RECORD_LOST, which the kernel writes only
 * ahead of the next record that fits, and by PERF_FORMAT_LOST, read after a drain that found a ring
 * well filled. Each loss is told once, whichever knew of it first.
 *
 * One thread at a time may drain, hotplug, ask for stats or close; rings_pending() and
 * rings_find_loads() may be called by any other thread meanwhile. Source: perf_event_open(2),
 * kernel/events/core.c.
 */
#ifndef CORE_RING_H
#define CORE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

enum record_kind {
	RECORD_KSYMBOL,
	RECORD_BPF_EVENT,
	RECORD_LOST,
	RECORD_COMM, /* with .exec where an exec made it */
	RECORD_FORK,
	RECORD_EXIT,
	RECORD_MMAP2,
};

struct record {
	enum record_kind kind;
	uint64_t time; /* CLOCK_MONOTONIC ns */
	uint32_t pid;  /* thread group, in the initial pid namespace; 0: idle or the kernel's */
	uint32_t tid;
	uint32_t cpu; /* of the ring that it came from */
	union {
		struct {
			uint64_t addr;
			uint32_t len;
			uint16_t type; /* PERF_RECORD_KSYMBOL_TYPE_* */
			bool unregister;
			const char *name; /* may be empty */
		} ksymbol;
		struct {
			uint32_t id;
			uint16_t type; /* PERF_BPF_EVENT_PROG_LOAD or _UNLOAD */
			uint8_t tag[8];
		} bpf;
		struct {
			uint64_t count; /* records; 1 for one that did not parse */
		} lost;
		struct {
			const char *comm;
			bool exec;
		} comm;
		struct {
			uint32_t ppid;
		} task; /* FORK and EXIT */
		struct {
			uint64_t addr, len, offset;
			uint32_t major, minor;
			uint64_t inode;
			uint32_t prot, flags;
			const char *path;
		} mmap;
	};
};

/* What a set of rings asks the kernel for. */
enum ring_wants {
	RING_SYMBOLS = 1 << 0, /* KSYMBOL and BPF_EVENT */
	RING_TASKS = 1 << 1,   /* COMM, FORK, EXIT */
	RING_MMAPS = 1 << 2,   /* MMAP2 of files */
};

struct rings;

/*
 * Opens a ring of `pages` (a power of two) data pages on every CPU that is online. Needs
 * CAP_PERFMON or perf_event_paranoid < 0. -EACCES, -EPERM, -ENOSYS, -EINVAL (the kernel does not
 * know one of the records asked for), -EMFILE, -ENOMEM.
 */
int rings_open(unsigned int wants, unsigned int pages, struct rings **ret);
void rings_close(struct rings *rings); /* NULL is fine */
DEFINE_CLEANUP(rings, struct rings *, rings_close)

/*
 * An fd for poll() and epoll that becomes readable when a record is written. It says so once (a
 * perf event forgets that it was ready when it is polled), so whoever is woken drains. Belongs to
 * rings.
 */
int rings_fd(const struct rings *rings);
/*
 * The same for the ring of one CPU, for a reader that waits on that CPU: an epoll, which the reader
 * may add others to; data of the ring's own events is 0. -ENOENT if it has none.
 */
int rings_cpu_fd(const struct rings *rings, unsigned int cpu);
/*
 * Has the kernel written what was not drained? A load a CPU; no system call. A record is pending
 * until the call that took it has returned: false means that all that was written has been taken,
 * and that the caller sees what its taker did.
 */
bool rings_pending(const struct rings *rings);

/*
 * Hands all records that are there to take, oldest first; the record and its strings are valid
 * within that call only. Records that are written while this runs stay for the next drain. Returns
 * how many were handed out.
 */
typedef void rings_take_fn(const struct record *record, void *arg);
size_t rings_drain(struct rings *rings, rings_take_fn *take, void *arg);

/*
 * Calls drain, which is to drain the rings, until nothing is pending. False: call after call it
 * took nothing of what is pending. That would be a fault; but whoever follows the rings is
 * real-time, and must not spin on one.
 */
typedef void rings_follow_fn(void *arg);
bool rings_follow(const struct rings *rings, rings_follow_fn *drain, void *arg);

/*
 * Finds loads of programs among what was not drained of a CPU's ring, from *from on (0 at first),
 * which moves past what was looked at: ids into ret_ids, up to max, whose number it returns. Takes
 * nothing, and may be called by one thread while another one drains.
 */
size_t rings_find_loads(const struct rings *rings, unsigned int cpu, uint64_t *from,
			uint32_t *ret_ids, size_t max);

/*
 * Opens a ring for a CPU that has come online, if it has none that works. Returns 0 if there was
 * nothing to do, 1 if it did so: what ran there in between was not heard. Errors as rings_open().
 */
int rings_cpu_online(struct rings *rings, unsigned int cpu);

struct rings_stats {
	unsigned int cpus;
	uint64_t records;   /* handed out */
	uint64_t lost;	    /* records that the kernel had no room for */
	uint64_t malformed; /* records that did not parse, told as RECORD_LOST */
	size_t bytes;	    /* of ring memory */
};
void rings_stats(const struct rings *rings, struct rings_stats *ret);

/*
 * Decodes one record (header included) of a ring opened as above: what rings_drain() does with each
 * one, for tests and fuzzing. Strings point into data. Returns 1 for a record, 0 for one of a kind
 * that nobody asked for, -EBADMSG.
 */
int record_decode(const void *data, size_t len, uint32_t cpu, struct record *ret);

#endif
