/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What pinset.c (who is pinned) and pinwatch.c (what happens to them) share. */
#ifndef CORE_PINSET_INTERNAL_H
#define CORE_PINSET_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/pinkeep.h"
#include "core/pinset.h"
#include "core/ring.h"

#define _cleanup_pinset_ CLEANUP(pinset_cleanup)

struct pinset_slot {
	char name[PIN_NAME_SIZE];
	struct pin *pin;
	struct pin_saved *saved; /* the pin's; NULL: it is not kept */
	unsigned int look;	 /* enum pin_look: what records say has changed */
	bool exited;
	uint64_t expires; /* CLOCK_MONOTONIC ns, once exited */
};

struct pinset_notice {
	struct pinset_notice *next;
	struct pin *pin;
	bool added;
};

/*
 * Pins by the low bits of their pids: most records are about nobody who is pinned, and this says so
 * without a lock.
 */
#define PIN_FILTER 4096

struct pinset {
	struct pinset_options options;
	struct held_files *files;

	pthread_mutex_t lock;	   /* of what follows */
	struct pinset_slot *slots; /* options.max of them, oldest first */
	size_t count;
	struct pinset_stats stats;
	struct pinset_notice *notices, **notices_end;
	atomic_uint filter[PIN_FILTER];

	pthread_mutex_t tell_lock; /* before lock */

	pthread_mutex_t ring_lock; /* before lock; of rings */
	struct rings *_Atomic rings;
	int uevent_fd;
	atomic_uint holders; /* want rings though nobody is pinned yet */
	uint64_t rings_lost; /* by rings that are closed */
	int ring_error;

	pthread_t thread;
	bool started;
	bool realtime;
	int epoll_fd;
	int stop_fd;

	struct cmdline_readers *readers;
};

/* With the lock held: */
struct pinset_slot *pinset_find_slot(struct pinset *set, const struct pin *pin);
void pinset_note_exit(struct pinset *set, struct pinset_slot *slot);
void pinset_drop(struct pinset *set, struct pinset_slot *slot);
int pinwatch_follow(struct pinset *set, struct pin *pin);
void pinwatch_forget(struct pinset *set, struct pin *pin);

/* Without it: */
/*
 * Has a pin outlive this process. A whole root and its files are told of. left: what was left of
 * it, or NULL. A pin that is let go of meanwhile has nothing more to keep.
 */
void pinset_keep(struct pinset *set, struct pin *pin, struct pin_saved *left);
void pinset_tell(struct pinset *set);
/*
 * Pins who has the number pid in options.ns. Whoever calls tells after. by_record: he also takes
 * the records that come from here on, and nothing but them.
 */
int pinset_pin(struct pinset *set, pid_t pid, bool by_record);
int pinwatch_start(struct pinset *set);
void pinwatch_stop(struct pinset *set);
void pinwatch_deinit(struct pinset *set);
/* Opens the rings, if they are not, and keeps them open. */
void pinwatch_hold(struct pinset *set);
void pinwatch_unhold(struct pinset *set);
/* Closes the rings if there is nothing left to follow. */
void pinwatch_close_idle(struct pinset *set);
/* Reads a pin's command line on a thread of its own; waits a little for it if told to. */
void pinwatch_read_cmdline(struct pinset *set, struct pin *pin, bool wait);
void pinwatch_stats(struct pinset *set, struct pinset_stats *ret);

#endif
