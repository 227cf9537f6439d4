/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pins that a process left which is gone: see pinset.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/carry.h"
#include "core/clock.h"
#include "core/pinset_internal.h"

static bool is_sound(const void *block, size_t room)
{
	return room >= sizeof(struct pin_saved);
}

static int compare_sequence(const void *a, const void *b)
{
	uint64_t x = ((const struct pin_saved *)a)->sequence;
	uint64_t y = ((const struct pin_saved *)b)->sequence;

	return x < y ? -1 : x > y;
}

/* What it held was not all kept; but it lives still. */
static int pin_anew(struct pinset *set, const struct pin_saved *saved, struct pin **ret)
{
	_cleanup_pin_ struct pin *pin = NULL;

	if (saved->exited_unix)
		return -ESRCH;
	int r = pin_open(set->options.ns, saved->pid, set->files, set->options.policy, &pin);

	if (r < 0)
		return r;
	if (pin_start_ticks(pin) != saved->start_ticks)
		return -ESRCH;
	pin_set_pinned_unix(pin, saved->pinned_unix);
	*ret = take_ptr(pin);
	return 0;
}

static int add(struct pinset *set, struct pin *pin, const struct pin_saved *saved)
{
	struct pinset_slot slot = {.pin = pin, .exited = !pin_is_alive(pin)};

	if (saved->renamed)
		pin_key(pin, slot.name);
	else
		snprintf(slot.name, sizeof(slot.name), "%d", pin_pid(pin));
	LOCKED(&set->lock);
	if (set->count >= set->options.max)
		return -ENOSPC;
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->slots[i].name, slot.name) == 0)
			return -EEXIST;
	int r = pinwatch_follow(set, pin);

	if (r < 0)
		return r;
	if (slot.exited) {
		uint64_t latest = monotonic_ns() + set->options.keep_ns;

		slot.expires = saved->expires ? MIN(saved->expires, latest) : latest;
		set->stats.exited++;
	} else {
		set->stats.alive++;
	}
	pin_ref(pin);
	set->slots[set->count++] = slot;
	set->stats.added++;
	set->stats.resumed++;
	return 0;
}

static int resume(struct pinset *set, struct pin_saved *saved)
{
	const struct pinset_options *options = &set->options;
	_cleanup_pin_ struct pin *pin = NULL;
	int r = pin_restore(saved, options->ns, set->files, options->policy, options->keeper, &pin);

	if (r < 0)
		r = pin_anew(set, saved, &pin);
	if (r < 0) {
		pin_saved_free(saved);
		return r;
	}
	r = add(set, pin, saved);
	pinset_keep(set, pin, saved);
	if (r < 0) {
		pin_release(pin);
		return r;
	}
	if (pin_is_alive(pin)) {
		pin_look(pin, PIN_LOOK_ALL);
		pinwatch_read_cmdline(set, pin, false);
	}
	return 0;
}

struct resumption {
	struct pinset *set;
	void (*lost)(void *arg, pid_t pid);
	void *arg;
};

static bool take_saved(void *block, size_t room, void *arg)
{
	const struct resumption *resumption = arg;
	struct pin_saved *saved = block;
	pid_t pid = saved->pid;

	if (resume(resumption->set, saved) < 0) {
		resumption->set->stats.resume_lost++;
		resumption->lost(resumption->arg, pid);
	}
	return true;
}

void pinset_resume(struct pinset *set, void (*lost)(void *arg, pid_t pid), void *arg)
{
	struct resumption resumption = {set, lost, arg};

	if (carry_sort(CARRY_PIN, is_sound, compare_sequence)) {
		pinwatch_hold(set);
		carry_take(CARRY_PIN, take_saved, &resumption);
		pinwatch_unhold(set);
	}
	pin_saved_sweep();
	keeper_drop_rest(set->options.keeper);
}
