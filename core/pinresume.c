/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pins that a process left which is gone: see pinset.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/carry.h"
#include "core/clock.h"
#include "core/pinset_internal.h"

struct left_pins {
	struct pin_saved **pins;
	size_t count, size;
};

static bool take_saved(void *block, size_t room, void *arg)
{
	struct left_pins *left = arg;

	if (room < sizeof(struct pin_saved))
		return false;
	if (left->count == left->size) {
		size_t size = MAX(left->size * 2, (size_t)16);
		struct pin_saved **pins =
			reallocarray(left->pins, size, sizeof(struct pin_saved *));

		if (!pins)
			return false;
		left->pins = pins;
		left->size = size;
	}
	left->pins[left->count++] = block;
	return true;
}

static int compare_sequence(const void *a, const void *b)
{
	uint64_t x = (*(struct pin_saved *const *)a)->sequence;
	uint64_t y = (*(struct pin_saved *const *)b)->sequence;

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

void pinset_resume(struct pinset *set, void (*lost)(void *arg, pid_t pid), void *arg)
{
	struct left_pins left = {};

	carry_take(CARRY_PIN, take_saved, &left);
	if (left.count) {
		qsort(left.pins, left.count, sizeof(left.pins[0]), compare_sequence);
		pinwatch_hold(set);
		for (size_t i = 0; i < left.count; i++) {
			pid_t pid = left.pins[i]->pid;

			if (resume(set, left.pins[i]) == 0)
				continue;
			set->stats.resume_lost++;
			lost(arg, pid);
		}
		pinwatch_unhold(set);
	}
	free(left.pins);
	pin_saved_sweep();
	keeper_drop_rest(set->options.keeper);
}
