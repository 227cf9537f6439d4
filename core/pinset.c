/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The set of pins: see pinset.h. Who execs and who exits is pinwatch.c's.
 *
 * set->lock guards the entries, their names and the figures. Pins are opened and looked at without
 * it. What changed is told when it is free again, in the order in which it happened.
 */
#include "core/pinset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/carry.h"
#include "core/clock.h"
#include "core/pinset_internal.h"

void pin_key(const struct pin *pin, char ret[static PIN_NAME_SIZE])
{
	snprintf(ret, PIN_NAME_SIZE, "%d@%" PRIu64, pin_pid(pin), pin_start_ticks(pin));
}

/* Under the lock. */
static struct pinset_slot *find_name(struct pinset *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->slots[i].name, name) == 0)
			return &set->slots[i];
	return NULL;
}

struct pinset_slot *pinset_find_slot(struct pinset *set, const struct pin *pin)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->slots[i].pin == pin)
			return &set->slots[i];
	return NULL;
}

static void add_notice(struct pinset *set, struct pin *pin, bool added)
{
	struct pinset_notice *notice = malloc(sizeof(*notice));

	/* The tree is right without it; only the log of events has a gap. */
	if (!notice)
		return;
	*notice = (struct pinset_notice){.pin = pin_ref(pin), .added = added};
	*set->notices_end = notice;
	set->notices_end = &notice->next;
}

void pinset_tell(struct pinset *set)
{
	/* One at a time, so that the order stays. */
	LOCKED(&set->tell_lock);
	for (;;) {
		pthread_mutex_lock(&set->lock);
		struct pinset_notice *notice = set->notices;

		if (notice) {
			set->notices = notice->next;
			if (!set->notices)
				set->notices_end = &set->notices;
		}
		pthread_mutex_unlock(&set->lock);
		if (!notice)
			return;
		if (set->options.changed)
			set->options.changed(set->options.arg, notice->pin, notice->added);
		pin_unref(notice->pin);
		free(notice);
	}
}

/* Under the lock: the slot is gone after. */
void pinset_drop(struct pinset *set, struct pinset_slot *slot)
{
	struct pin *pin = slot->pin;

	if (slot->exited)
		set->stats.exited--;
	else
		set->stats.alive--;
	set->count--;
	memmove(slot, slot + 1, (char *)&set->slots[set->count] - (char *)slot);
	pinwatch_forget(set, pin);
	pin_release(pin);
	add_notice(set, pin, false);
	pin_unref(pin);
}

void pinset_note_exit(struct pinset *set, struct pinset_slot *slot)
{
	if (slot->exited || pin_is_alive(slot->pin))
		return;
	slot->exited = true;
	slot->expires = monotonic_ns() + set->options.keep_ns;
	if (slot->saved)
		slot->saved->expires = slot->expires;
	set->stats.alive--;
	set->stats.exited++;
}

/* Under the lock. */
static int make_room(struct pinset *set)
{
	if (set->count < set->options.max)
		return 0;
	for (size_t i = 0; i < set->count; i++)
		pinset_note_exit(set, &set->slots[i]);
	for (size_t i = 0; i < set->count; i++) {
		if (set->slots[i].exited) {
			set->stats.evicted++;
			pinset_drop(set, &set->slots[i]);
			return 0;
		}
	}
	set->stats.refused++;
	return -ENOSPC;
}

/*
 * Is there a pin that keeps `pid` from being pinned: of a process that lives? If the name is one's
 * that has exited, it moves out of the way as soon as the new pin is there.
 */
static int check_name(struct pinset *set, const char *name)
{
	LOCKED(&set->lock);
	struct pinset_slot *slot = find_name(set, name);

	if (!slot)
		return 0;
	pinset_note_exit(set, slot);
	return slot->exited ? 0 : -EEXIST;
}

void pinset_keep(struct pinset *set, struct pin *pin, struct pin_saved *left)
{
	struct pin_saved *saved = pin_keep(pin, set->options.keeper, left);

	LOCKED(&set->lock);
	struct pinset_slot *slot = pinset_find_slot(set, pin);

	if (!slot || !saved)
		return;
	slot->saved = saved;
	/* What has happened to it before it was kept. */
	saved->expires = slot->expires;
	saved->renamed = strchr(slot->name, '@') != NULL;
	if (!left)
		saved->sequence = ++carry_root()->last_pin;
}

static int insert(struct pinset *set, struct pin *pin, const char *name)
{
	LOCKED(&set->lock);
	struct pinset_slot *slot = find_name(set, name);

	if (slot) {
		pinset_note_exit(set, slot);
		if (!slot->exited)
			return -EEXIST;
	}
	int r = make_room(set);

	if (r < 0)
		return r;
	r = pinwatch_follow(set, pin);
	if (r < 0)
		return r;
	/* It can have been what made room. */
	slot = find_name(set, name);
	if (slot) {
		pin_key(slot->pin, slot->name);
		if (slot->saved)
			slot->saved->renamed = true;
	}
	slot = &set->slots[set->count++];
	*slot = (struct pinset_slot){.pin = pin_ref(pin)};
	snprintf(slot->name, sizeof(slot->name), "%s", name);
	set->stats.alive++;
	set->stats.added++;
	add_notice(set, pin, true);
	return 0;
}

int pinset_pin(struct pinset *set, pid_t pid, bool by_record)
{
	_cleanup_pin_ struct pin *pin = NULL;
	char name[PIN_NAME_SIZE];

	snprintf(name, sizeof(name), "%d", pid);
	int r = check_name(set, name);

	if (r < 0)
		return r;
	r = pin_open(set->options.ns, pid, set->files, set->options.policy, &pin);
	if (r < 0)
		return r;
	r = insert(set, pin, name);
	if (r < 0)
		return r;
	pinset_keep(set, pin, NULL);
	/* What was mapped between that look and the first record that counts. */
	if (!by_record)
		pin_look(pin, PIN_LOOK_MAPS | PIN_LOOK_ROOT);
	pinwatch_read_cmdline(set, pin, !by_record);
	return 0;
}

static int parse_pid(const char *name, pid_t *ret)
{
	size_t len = strlen(name);
	char *end;

	if (name[0] < '1' || name[0] > '9' || strspn(name, "0123456789") != len)
		return -EINVAL;
	errno = 0;
	long pid = strtol(name, &end, 10);

	if (errno || pid > INT32_MAX)
		return -ESRCH;
	*ret = pid;
	return 0;
}

int pinset_add(struct pinset *set, const char *name)
{
	pid_t pid;
	int r = parse_pid(name, &pid);

	if (r < 0)
		return r;
	/* A pin without records is still one that looks again when it is asked. */
	pinwatch_hold(set);
	r = pinset_pin(set, pid, false);
	pinwatch_unhold(set);
	pinset_tell(set);
	/* The name is taken, by one whose pid nobody else has. */
	if (r == -ESRCH) {
		LOCKED(&set->lock);
		return find_name(set, name) ? -EEXIST : r;
	}
	return r;
}

int pinset_remove(struct pinset *set, const char *name)
{
	pthread_mutex_lock(&set->lock);
	struct pinset_slot *slot = find_name(set, name);

	if (slot)
		pinset_drop(set, slot);
	pthread_mutex_unlock(&set->lock);
	if (!slot)
		return -ENOENT;
	pinwatch_close_idle(set);
	pinset_tell(set);
	/* What it held can be unmounted. */
	keeper_settle(set->options.keeper);
	return 0;
}

int pinset_find(struct pinset *set, const char *name, struct pin **ret)
{
	LOCKED(&set->lock);
	struct pinset_slot *slot = find_name(set, name);

	if (!slot)
		return -ENOENT;
	*ret = pin_ref(slot->pin);
	return 0;
}

int pinset_find_key(struct pinset *set, const char *key, struct pin **ret)
{
	LOCKED(&set->lock);
	for (size_t i = 0; i < set->count; i++) {
		char own[PIN_NAME_SIZE];

		pin_key(set->slots[i].pin, own);
		if (strcmp(own, key) == 0) {
			*ret = pin_ref(set->slots[i].pin);
			return 0;
		}
	}
	return -ENOENT;
}

int pinset_kept_file(struct pinset *set, uint64_t number, struct held_file **ret)
{
	return held_file_restore(set->files, number, ret);
}

int pinset_list(struct pinset *set, struct pinset_list *ret)
{
	LOCKED(&set->lock);
	ret->entries = calloc(MAX(set->count, (size_t)1), sizeof(*ret->entries));
	if (!ret->entries)
		return -ENOMEM;
	ret->count = set->count;
	for (size_t i = 0; i < set->count; i++) {
		memcpy(ret->entries[i].name, set->slots[i].name, PIN_NAME_SIZE);
		ret->entries[i].pin = pin_ref(set->slots[i].pin);
	}
	return 0;
}

void pinset_list_deinit(struct pinset_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		pin_unref(list->entries[i].pin);
	free(list->entries);
	*list = (struct pinset_list){};
}

void pinset_stats(struct pinset *set, struct pinset_stats *ret)
{
	{
		LOCKED(&set->lock);
		for (size_t i = 0; i < set->count; i++)
			pinset_note_exit(set, &set->slots[i]);
		*ret = set->stats;
	}
	ret->files = held_files_count(set->files);
	pinwatch_stats(set, ret);
}

/* Half of what this process may open: the rest is for roots, rings and whoever reads. */
static unsigned int max_held_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 1u << 20;
	return limit.rlim_cur / 2;
}

int pinset_create(const struct pinset_options *options, struct pinset **ret)
{
	_cleanup_pinset_ struct pinset *set = calloc(1, sizeof(*set));

	if (!set)
		return -ENOMEM;
	set->options = *options;
	set->notices_end = &set->notices;
	set->epoll_fd = -1;
	set->stop_fd = -1;
	set->uevent_fd = -1;
	pthread_mutex_init(&set->lock, NULL);
	pthread_mutex_init(&set->ring_lock, NULL);
	pthread_mutex_init(&set->tell_lock, NULL);
	set->slots = calloc(MAX(options->max, 1u), sizeof(*set->slots));
	if (!set->slots)
		return -ENOMEM;
	int r = held_files_create(max_held_files(), options->own_dev, &set->files);

	if (r < 0)
		return r;
	held_files_set_keeper(set->files, options->keeper);
	r = pinwatch_start(set);
	if (r < 0)
		return r;
	*ret = take_ptr(set);
	return 0;
}

void pinset_destroy(struct pinset *set)
{
	if (!set)
		return;
	pinwatch_stop(set);
	while (set->count) {
		LOCKED(&set->lock);
		pinset_drop(set, &set->slots[set->count - 1]);
	}
	pinset_tell(set);
	pinwatch_deinit(set);
	held_files_destroy(set->files);
	free(set->slots);
	pthread_mutex_destroy(&set->lock);
	pthread_mutex_destroy(&set->ring_lock);
	pthread_mutex_destroy(&set->tell_lock);
	free(set);
}
