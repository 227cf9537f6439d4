/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All pins: who is pinned, under which name, for how long.
 *
 * It has perf rings of its own, open while there is something to follow (a pin, or a rule). An exec
 * is held against the rules, and tells a pin that its process is another program now; a mapping
 * tells it to look at its maps. An exit is told by the pidfd, which speaks for a whole process
 * where the EXIT record speaks for one thread. One thread waits for all of these, real-time where
 * it may be: at exec a process that is to live for some milliseconds is only just there to be held.
 *
 * Names: PID, or PID@STARTTICKS of a pin whose process has exited and whose pid is pinned anew.
 *
 * Any thread may call anything. The set's lock comes before a pin's.
 */
#ifndef CORE_PINSET_H
#define CORE_PINSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pin.h"
#include "core/pinrule.h"
#include "core/text.h"

struct pinset;

struct pinset_options {
	const struct pidns *ns; /* whose pids names have; others are not pinned */
	const struct pin_rule *rules;
	size_t rule_count;
	unsigned int max;	 /* pins, alive and exited */
	uint64_t keep_ns;	 /* after exit */
	unsigned int ring_pages; /* data pages of each CPU's ring, a power of two; 0: default */
	const struct root_policy *policy;
	const dev_t *own_dev;	     /* see heldfile.h */
	const struct keeper *keeper; /* NULL: pins go with this process */
	/* A pin was made, or let go of. With no lock of the set held. May be NULL. */
	void (*changed)(void *arg, struct pin *pin, bool added);
	void *arg;
};

/* What options point to must outlive the set and what is found in it. -ENOMEM, errors of making a
 * thread. */
int pinset_create(const struct pinset_options *options, struct pinset **ret);
void pinset_destroy(struct pinset *set); /* NULL is fine */
DEFINE_CLEANUP(pinset, struct pinset *, pinset_destroy)

/*
 * Takes over what a process that is gone had pinned, under the same names. What cannot be, `lost`
 * is told of. Before anything else is pinned.
 */
void pinset_resume(struct pinset *set, void (*lost)(void *arg, pid_t pid), void *arg);

/*
 * Applies what the kernel has recorded: every process that has finished an exec is held against the
 * rules, pins whose time is up go. Cheap when there is nothing.
 */
void pinset_sync(struct pinset *set);

/*
 * Pins a process, by the name that its directory has: a pid, without sign or leading zeros. -EINVAL
 * for any other name, -ESRCH, -EEXIST, -ENOSPC where all that may be are alive; else as pin_open().
 */
int pinset_add(struct pinset *set, const char *name);
/* Lets go of a pin. -ENOENT. */
int pinset_remove(struct pinset *set, const char *name);

/* A file that a pin holds, by its number of keeper.h. -ENOENT. */
int pinset_kept_file(struct pinset *set, uint64_t number, struct held_file **ret);

/* A reference of the caller's. -ENOENT. */
int pinset_find(struct pinset *set, const char *name, struct pin **ret);
/* By PID@STARTTICKS, whatever it is named now. */
int pinset_find_key(struct pinset *set, const char *key, struct pin **ret);
void pin_key(const struct pin *pin, char ret[static PIN_NAME_SIZE]);

struct pinset_entry {
	char name[PIN_NAME_SIZE];
	struct pin *pin;
};
struct pinset_list {
	struct pinset_entry *entries;
	size_t count;
};
/* All pins, oldest first, referenced. */
int pinset_list(struct pinset *set, struct pinset_list *ret);
void pinset_list_deinit(struct pinset_list *list);
#define _cleanup_pinset_list_ CLEANUP(pinset_list_deinit)

struct pinset_stats {
	unsigned int alive, exited;
	unsigned int files;    /* held, each once */
	uint64_t added;	       /* since the start */
	uint64_t resumed;      /* of those, taken over from a process that is gone */
	uint64_t resume_lost;  /* could not be */
	uint64_t matched;      /* execs that a rule matched */
	uint64_t missed;       /* of those, processes that had gone before they were held */
	uint64_t refused;      /* for want of room: all were alive */
	uint64_t evicted;      /* exited ones that made room */
	uint64_t records_lost; /* by the rings: execs among them were not seen */
	int ring_error;	       /* why there are no rings, -errno; 0 */
	bool rings_open;
	bool realtime; /* the thread that reads them */
};
void pinset_stats(struct pinset *set, struct pinset_stats *ret);

#endif
