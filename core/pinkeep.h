/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pin that outlives the process that made it: what it holds open is kept by another process
 * (keeper.h), and what it knows is in memory that is carried over (carry.h).
 *
 * Each thing that a pin has is told of by one number in its block, which changes in one store, from
 * what was whole to what is whole. So a process that takes over at any moment finds the pin as it
 * was, also of a process that has exited, or does so in between.
 */
#ifndef CORE_PINKEEP_H
#define CORE_PINKEEP_H

#include "core/keeper.h"
#include "core/pin.h"

/* A block of carry.h. What is not the set's (pinset.c) is the pin's, under its lock. */
struct pin_saved {
	uint64_t sequence; /* the set's: rises from pin to pin */
	uint64_t renamed;  /* the set's: another one has its pid for a name */
	uint64_t expires;  /* the set's: CLOCK_MONOTONIC ns, once it is known to have exited */
	int32_t pid, own_pid;
	uint64_t start_ticks;
	uint64_t started_unix, pinned_unix;
	uint64_t exited_unix; /* 0: it lives, as far as is known */
	int32_t exit_status;
	uint32_t has_status;
	/* Numbers of keeper.h, */
	uint64_t pidfd, exe;
	/* of carry.h, */
	uint64_t root, mappings;
	/* and of snapshot_keep(). */
	uint64_t texts[PIN_TEXTS];
};

/*
 * Has a pin outlive this process. saved: what was left of it, or NULL; it is the pin's from here
 * on. The keeper outlives the pin. Returns its block, for as long as it is not released; NULL: no
 * memory, or it is released.
 */
struct pin_saved *pin_keep(struct pin *pin, const struct keeper *keeper, struct pin_saved *saved);

/*
 * Makes a pin again of what was left, which is the pin's from here on. The process may be gone by
 * now, or have been. -ENOENT: not enough is left; -EBADMSG, -ENOMEM.
 */
int pin_restore(struct pin_saved *saved, const struct pidns *ns, struct held_files *files,
		const struct root_policy *policy, const struct keeper *keeper, struct pin **ret);
/* Gives up what could not be restored. */
void pin_saved_free(struct pin_saved *saved);
/* The pieces of all that is given up: after all else is restored. */
void pin_saved_sweep(void);

#endif
