/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pins that outlive the process: see pinkeep.h. */
#include "core/pinkeep.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/carry.h"
#include "core/maps.h"
#include "core/pidstat.h"
#include "core/pin_internal.h"

/* Blocks of carry.h. */
struct saved_root {
	uint64_t numbers[ROOT_FDS];
};

struct saved_mapping {
	uint64_t start, end;
	uint64_t dev, inode;
	uint64_t file; /* its number; 0: it is not held */
};

struct saved_mappings {
	uint64_t count;
	struct saved_mapping mappings[];
};

/* ---- what changes ---- */

/* Under the lock: tells of another block, and frees the one that was told of before. */
static void replace(uint64_t *ref, void *block, enum carry_kind kind)
{
	uint64_t before = *ref;
	size_t room;

	carry_publish(block, kind);
	__atomic_store_n(ref, carry_ref(block), __ATOMIC_RELEASE);
	carry_free(carry_at(before, kind, &room));
}

void pinkeep_text(struct pin *pin, enum pin_text text)
{
	if (pin->saved)
		pin->saved->texts[text] = pin->texts[text] ? snapshot_keep(pin->texts[text]) : 0;
}

void pinkeep_mappings(struct pin *pin)
{
	if (!pin->saved)
		return;
	struct saved_mappings *saved =
		carry_alloc(sizeof(*saved) + pin->mapping_count * sizeof(saved->mappings[0]));

	/* Better none than those that are held no longer. */
	if (!saved) {
		replace(&pin->saved->mappings, NULL, CARRY_PIN_MAPPINGS);
		return;
	}
	for (; saved->count < pin->mapping_count; saved->count++) {
		const struct pin_mapping *mapping = &pin->mappings[saved->count];

		saved->mappings[saved->count] = (struct saved_mapping){
			.start = mapping->start,
			.end = mapping->end,
			.dev = mapping->dev,
			.inode = mapping->inode,
			.file = mapping->file ? held_file_keep(mapping->file) : 0,
		};
	}
	replace(&pin->saved->mappings, saved, CARRY_PIN_MAPPINGS);
}

void pinkeep_root(struct pin *pin)
{
	if (!pin->saved || !pin->root)
		return;
	struct saved_root *saved = carry_alloc(sizeof(*saved));

	if (saved)
		root_keep(pin->root, pin->keeper, saved->numbers);
	replace(&pin->saved->root, saved, CARRY_PIN_ROOT);
}

void pinkeep_exe(struct pin *pin)
{
	if (pin->saved)
		pin->saved->exe = pin->exe ? held_file_keep(pin->exe) : 0;
}

void pinkeep_exit(struct pin *pin)
{
	struct pin_saved *saved = pin->saved;

	if (!saved || !pin->exit.exited)
		return;
	saved->exit_status = pin->exit.status;
	saved->has_status = pin->exit.has_status;
	__atomic_store_n(&saved->exited_unix, pin->exit.unix_ns, __ATOMIC_RELEASE);
	/* It has told all that it had to tell. */
	keeper_drop(pin->keeper, __atomic_exchange_n(&saved->pidfd, 0, __ATOMIC_RELAXED));
}

void pinkeep_drop(struct pin *pin)
{
	if (!pin->saved)
		return;
	keeper_drop(pin->keeper, pin->saved->pidfd);
	pin_saved_free(take_ptr(pin->saved));
}

void pin_saved_free(struct pin_saved *saved)
{
	size_t room;
	/* First of all the pin itself, which tells of the others. */
	uint64_t root = saved->root, mappings = saved->mappings;

	carry_free(saved);
	carry_free(carry_at(root, CARRY_PIN_ROOT, &room));
	carry_free(carry_at(mappings, CARRY_PIN_MAPPINGS, &room));
}

void pin_saved_sweep(void)
{
	carry_sweep(CARRY_PIN_ROOT);
	carry_sweep(CARRY_PIN_MAPPINGS);
}

struct pin_saved *pin_keep(struct pin *pin, const struct keeper *keeper, struct pin_saved *saved)
{
	LOCKED(&pin->lock);
	bool is_new = !saved;

	if (pin->released || pin->saved)
		return pin->saved;
	if (is_new)
		saved = carry_alloc(sizeof(*saved));
	if (!saved)
		return NULL;
	saved->pid = pin->pid;
	saved->own_pid = pin->own_pid;
	saved->start_ticks = pin->start_ticks;
	saved->started_unix = pin->started_unix;
	saved->pinned_unix = pin->pinned_unix;
	pin->saved = saved;
	pin->keeper = keeper;
	keeper_drop(keeper, saved->pidfd);
	saved->pidfd = pin->pidfd >= 0 ? keeper_keep(keeper, pin->pidfd) : 0;
	pinkeep_root(pin);
	pinkeep_mappings(pin);
	pinkeep_exe(pin);
	for (enum pin_text text = 0; text < PIN_TEXTS; text++)
		pinkeep_text(pin, text);
	pinkeep_exit(pin);
	if (is_new)
		carry_publish(saved, CARRY_PIN);
	return saved;
}

/* ---- what was left ---- */

static int restore_mapping(struct pin *pin, const struct saved_mapping *saved,
			   struct pin_mapping *ret)
{
	const struct mapping mapping = {.start = saved->start, .end = saved->end};

	mapping_name(&mapping, ret->name);
	ret->start = saved->start;
	ret->end = saved->end;
	ret->dev = saved->dev;
	ret->inode = saved->inode;
	if (held_file_restore(pin->files, saved->file, &ret->file) < 0)
		ret->file = NULL;
	/* They are searched by address. */
	return saved->start < saved->end ? 0 : -EBADMSG;
}

static int restore_mappings(struct pin *pin)
{
	size_t room;
	const struct saved_mappings *saved =
		carry_at(pin->saved->mappings, CARRY_PIN_MAPPINGS, &room);

	if (!saved || room < sizeof(*saved) ||
	    saved->count > (room - sizeof(*saved)) / sizeof(saved->mappings[0]))
		return -ENOENT;
	pin->mappings = calloc(MAX(saved->count, UINT64_C(1)), sizeof(*pin->mappings));
	if (!pin->mappings)
		return -ENOMEM;
	for (size_t i = 0; i < saved->count; i++) {
		pin->mapping_count++;
		int r = restore_mapping(pin, &saved->mappings[i], &pin->mappings[i]);

		if (r == 0 && i && pin->mappings[i].start < pin->mappings[i - 1].end)
			r = -EBADMSG;
		if (r < 0)
			return r;
	}
	return 0;
}

static int restore_root(struct pin *pin)
{
	size_t room;
	const struct saved_root *saved = carry_at(pin->saved->root, CARRY_PIN_ROOT, &room);

	if (!saved || room < sizeof(*saved))
		return -ENOENT;
	return root_restore(pin->keeper, saved->numbers, pin->policy, &pin->root);
}

static int restore_texts(struct pin *pin)
{
	for (enum pin_text text = 0; text < PIN_TEXTS; text++) {
		int r = snapshot_restore(pin->saved->texts[text], &pin->texts[text]);

		if (r < 0)
			return r;
	}
	return 0;
}

static void restore_exit(struct pin *pin)
{
	const struct pin_saved *saved = pin->saved;

	pin->exit = (struct pin_exit){
		.exited = true,
		.unix_ns = saved->exited_unix,
		.has_status = saved->has_status,
		.status = saved->exit_status,
	};
}

/* It ended while nobody looked: how, its pidfd knows. */
static void note_exit(struct pin *pin, int pidfd, bool is_zombie)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	pin->exit.has_status = pidfd >= 0 && pid_exit_status(pidfd, is_zombie ? pin->proc_fd : -1,
							     &pin->exit.status) == 0;
	pin->exit.unix_ns = now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
	pin->exit.exited = true;
	fd_cleanup(&pin->pidfd);
	fd_cleanup(&pin->proc_fd);
	pin->pidfd = pin->proc_fd = -1;
	pin->own_pid = pin->saved->own_pid;
	pinkeep_exit(pin);
}

/* The process as it is now, if it is there still. */
static void restore_process(struct pin *pin)
{
	_cleanup_fd_ int pidfd = keeper_take(pin->keeper, pin->saved->pidfd);
	struct pid_stat stat;

	pin->own_pid = pin->saved->own_pid;
	if (pin->saved->exited_unix) {
		restore_exit(pin);
		return;
	}
	int r = pin_find_process(pin);
	bool is_same = pin->proc_fd >= 0 && pid_stat_read(pin->proc_fd, &stat) == 0 &&
		       stat.start_ticks == pin->start_ticks;

	if (r < 0 || !is_same)
		note_exit(pin, pidfd, is_same);
}

int pin_restore(struct pin_saved *saved, const struct pidns *ns, struct held_files *files,
		const struct root_policy *policy, const struct keeper *keeper, struct pin **ret)
{
	_cleanup_pin_ struct pin *pin = NULL;
	int r = pin_create(ns, saved->pid, files, policy, &pin);

	if (r < 0)
		return r;
	pin->keeper = keeper;
	pin->start_ticks = saved->start_ticks;
	pin->started_unix = saved->started_unix;
	pin->pinned_unix = saved->pinned_unix;
	pin->saved = saved;
	r = restore_root(pin);
	if (r == 0)
		r = restore_mappings(pin);
	if (r == 0)
		r = restore_texts(pin);
	if (r < 0) {
		/* It may still be pinned anew. */
		pin->saved = NULL;
		return r;
	}
	/* There may be none, or none to be had. */
	if (held_file_restore(files, saved->exe, &pin->exe) < 0)
		pin->exe = NULL;
	restore_process(pin);
	*ret = take_ptr(pin);
	return 0;
}
