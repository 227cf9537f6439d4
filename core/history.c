/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that were: see history.h.
 *
 * A site is an address at which symbols began, with its entries by the time of their registration.
 * Sites stand in a treap by address, each knowing how far the entries of its subtree reach, so that
 * a question passes over what ends below the address asked for. Within a site, each entry knows
 * until when it and those before it lasted, so that a question about the distant past does not walk
 * the thousands of programs that one address has had.
 *
 * Entries outlive the process (carry.h): whoever takes over puts them in again.
 *
 * All entries also stand in a list by the time of their removal, for expiry. Removals come nearly
 * in order: most are put at its end at once.
 */
#include "core/history.h"

#include <errno.h>
#include <string.h>

#include "core/carry.h"
#include "core/heap.h"

struct entry {
	struct symbol symbol; /* name and module lie behind the entry */
	uint64_t removed;
	struct entry *earlier, *later; /* by removed */
	size_t bytes;
	char strings[];
};

struct visit {
	struct entry *entry;
	uint64_t
		until; /* the latest removal of this and all before, of those with a registration */
};

struct site {
	uint64_t addr;
	uint64_t reach;	   /* the end of the longest entry that it has had */
	uint64_t furthest; /* of this site and all below it in the treap */
	uint32_t priority;
	struct site *left, *right;
	struct visit *visits; /* by added, then in order of arrival; those with 0 stand first */
	size_t count;
	size_t unregistered; /* those with 0 */
	struct visit
		*base; /* what is allocated: entries expire at the front, and more come behind */
	size_t room;
};

struct history {
	struct site *root;
	struct entry *oldest, *newest;
	size_t count, bytes;
	uint32_t random;
};

static void destroy_sites(struct site *site)
{
	while (site) {
		struct site *right = site->right;

		destroy_sites(site->left);
		free(site->base);
		free(site);
		site = right;
	}
}

void history_destroy(struct history *history)
{
	if (!history)
		return;
	for (struct entry *later, *entry = history->oldest; entry; entry = later) {
		later = entry->later;
		carry_free(entry);
	}
	destroy_sites(history->root);
	free(history);
}

/* Treap priorities only need to be without order (Marsaglia's xorshift). */
static uint32_t next_random(struct history *history)
{
	history->random ^= history->random << 13;
	history->random ^= history->random >> 17;
	history->random ^= history->random << 5;
	return history->random;
}

static uint64_t entry_end(const struct entry *entry)
{
	uint64_t end;

	if (__builtin_add_overflow(entry->symbol.addr, entry->symbol.len, &end))
		return UINT64_MAX;
	return end;
}

static void measure_site(struct site *site)
{
	site->furthest = site->reach;
	if (site->left)
		site->furthest = MAX(site->furthest, site->left->furthest);
	if (site->right)
		site->furthest = MAX(site->furthest, site->right->furthest);
}

static struct site *find_site(const struct history *history, uint64_t addr)
{
	struct site *site = history->root;

	while (site && site->addr != addr)
		site = addr < site->addr ? site->left : site->right;
	return site;
}

/* Cuts a subtree into what lies below addr and the rest. */
static void split_sites(struct site *site, uint64_t addr, struct site **below, struct site **rest)
{
	if (!site) {
		*below = *rest = NULL;
		return;
	}
	if (site->addr < addr) {
		*below = site;
		split_sites(site->right, addr, &site->right, rest);
	} else {
		*rest = site;
		split_sites(site->left, addr, below, &site->left);
	}
	measure_site(site);
}

/* Joins two subtrees, all of the first lying below all of the second. */
static struct site *join_sites(struct site *below, struct site *above)
{
	if (!below || !above)
		return below ?: above;
	if (below->priority >= above->priority) {
		below->right = join_sites(below->right, above);
		measure_site(below);
		return below;
	}
	above->left = join_sites(below, above->left);
	measure_site(above);
	return above;
}

/* Puts a site where its priority has it stand. */
static struct site *insert_site(struct site *root, struct site *site)
{
	if (!root || root->priority < site->priority) {
		split_sites(root, site->addr, &site->left, &site->right);
		root = site;
	} else if (site->addr < root->addr) {
		root->left = insert_site(root->left, site);
	} else {
		root->right = insert_site(root->right, site);
	}
	measure_site(root);
	return root;
}

static struct site *remove_site(struct site *root, struct site *site)
{
	if (root == site)
		return join_sites(site->left, site->right);
	if (site->addr < root->addr)
		root->left = remove_site(root->left, site);
	else
		root->right = remove_site(root->right, site);
	measure_site(root);
	return root;
}

/* A site reaches more or less far: so do those above it in the treap. */
static void measure_path(struct site *root, const struct site *site)
{
	if (root != site)
		measure_path(site->addr < root->addr ? root->left : root->right, site);
	measure_site(root);
}

static int get_site(struct history *history, uint64_t addr, struct site **ret)
{
	struct site *site = find_site(history, addr);

	if (!site) {
		site = calloc(1, sizeof(*site));
		if (!site)
			return -ENOMEM;
		site->addr = addr;
		site->reach = addr;
		site->priority = next_random(history);
		history->root = insert_site(history->root, site);
		history->bytes += heap_bytes(sizeof(*site));
	}
	*ret = site;
	return 0;
}

static size_t visits_bytes(size_t room)
{
	return room ? heap_bytes(room * sizeof(struct visit)) : 0;
}

static void drop_site(struct history *history, struct site *site)
{
	history->root = remove_site(history->root, site);
	history->bytes -= heap_bytes(sizeof(*site)) + visits_bytes(site->room);
	free(site->base);
	free(site);
}

/* Makes room for one entry more, behind the others. */
static int reserve_visit(struct history *history, struct site *site)
{
	size_t before = site->visits - site->base;

	if (before + site->count < site->room)
		return 0;
	if (before > site->room / 2) {
		memcpy(site->base, site->visits, site->count * sizeof(site->base[0]));
		site->visits = site->base;
		return 0;
	}

	size_t room = MAX(site->room * 2, (size_t)2);
	struct visit *base = reallocarray(site->base, room, sizeof(*base));

	if (!base)
		return -ENOMEM;
	history->bytes += visits_bytes(room) - visits_bytes(site->room);
	site->base = base;
	site->visits = base + before;
	site->room = room;
	return 0;
}

/*
 * How many entries of the site were registered at time or before. Each look at one is a cache miss,
 * and most new ones are the last: that one is looked at first.
 */
static size_t visits_up_to(const struct site *site, uint64_t time)
{
	size_t low = 0, high = site->count;

	if (high && site->visits[high - 1].entry->symbol.added <= time)
		return high;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (site->visits[mid].entry->symbol.added <= time)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void measure_visits(struct site *site, size_t from)
{
	uint64_t until = from ? site->visits[from - 1].until : 0;

	for (size_t i = from; i < site->count; i++) {
		const struct entry *entry = site->visits[i].entry;

		if (entry->symbol.added)
			until = MAX(until, entry->removed);
		/* The same from here on as it was. */
		if (site->visits[i].until == until)
			return;
		site->visits[i].until = until;
	}
}

/* Puts an entry among those of its site, which has room for it. */
static void insert_visit(struct history *history, struct site *site, struct entry *entry)
{
	size_t i = visits_up_to(site, entry->symbol.added);

	memmove(&site->visits[i + 1], &site->visits[i],
		(site->count - i) * sizeof(site->visits[0]));
	site->visits[i] = (struct visit){.entry = entry};
	site->count++;
	site->unregistered += !entry->symbol.added;
	measure_visits(site, i);
	if (entry_end(entry) > site->reach) {
		site->reach = entry_end(entry);
		measure_path(history->root, site);
	}
}

static void remove_visit(struct site *site, size_t i)
{
	site->count--;
	site->unregistered -= !site->visits[i].entry->symbol.added;
	if (i < site->count / 2) {
		memmove(site->visits + 1, site->visits, i * sizeof(site->visits[0]));
		site->visits++;
	} else {
		memmove(&site->visits[i], &site->visits[i + 1],
			(site->count - i) * sizeof(site->visits[0]));
	}
	measure_visits(site, i);
}

static size_t find_visit(const struct site *site, const struct entry *entry)
{
	size_t i = visits_up_to(site, entry->symbol.added) - 1;

	while (site->visits[i].entry != entry)
		i--;
	return i;
}

/* Puts an entry into the list by removal, behind those of the same time. */
static void link_entry(struct history *history, struct entry *entry)
{
	struct entry *earlier = history->newest;

	while (earlier && earlier->removed > entry->removed)
		earlier = earlier->earlier;
	entry->earlier = earlier;
	entry->later = earlier ? earlier->later : history->oldest;
	*(entry->earlier ? &entry->earlier->later : &history->oldest) = entry;
	*(entry->later ? &entry->later->earlier : &history->newest) = entry;
}

static void unlink_entry(struct history *history, struct entry *entry)
{
	*(entry->earlier ? &entry->earlier->later : &history->oldest) = entry->later;
	*(entry->later ? &entry->later->earlier : &history->newest) = entry->earlier;
}

static int new_entry(const struct symbol *symbol, uint64_t removed, struct entry **ret)
{
	size_t name_len = strlen(symbol->name) + 1;
	size_t module_len = symbol->module ? strlen(symbol->module) + 1 : 0;
	size_t bytes = sizeof(struct entry) + name_len + module_len;
	struct entry *entry = carry_alloc(bytes);

	if (!entry)
		return -ENOMEM;
	*entry = (struct entry){
		.symbol = *symbol, .removed = removed, .bytes = carry_size(entry, bytes)};
	entry->symbol.name = memcpy(entry->strings, symbol->name, name_len);
	if (symbol->module)
		entry->symbol.module =
			memcpy(entry->strings + name_len, symbol->module, module_len);
	*ret = entry;
	return 0;
}

static int insert_entry(struct history *history, struct entry *entry)
{
	struct site *site;

	if (get_site(history, entry->symbol.addr, &site) < 0)
		return -ENOMEM;
	if (reserve_visit(history, site) < 0) {
		if (!site->count)
			drop_site(history, site);
		return -ENOMEM;
	}
	history->count++;
	history->bytes += entry->bytes;
	link_entry(history, entry);
	insert_visit(history, site, entry);
	return 0;
}

/* Puts in an entry that another process left. */
static bool take_entry(void *block, size_t room, void *arg)
{
	struct history *history = arg;
	struct entry *entry = block;

	if (room <= sizeof(*entry) || entry->symbol.added > entry->removed)
		return false;
	room -= sizeof(*entry);
	size_t name_len = strnlen(entry->strings, room) + 1;
	const char *module = entry->strings + name_len;

	if (name_len > room ||
	    (entry->symbol.module && strnlen(module, room - name_len) == room - name_len))
		return false;
	entry->symbol.name = entry->strings;
	if (entry->symbol.module)
		entry->symbol.module = module;
	return insert_entry(history, entry) == 0;
}

int history_create(struct history **ret)
{
	struct history *history = calloc(1, sizeof(*history));

	if (!history)
		return -ENOMEM;
	history->random = 1;
	carry_take(CARRY_HISTORY, take_entry, history);
	*ret = history;
	return 0;
}

int history_add(struct history *history, const struct symbol *symbol, uint64_t removed)
{
	struct entry *entry;

	if (symbol->added > removed)
		return -EINVAL;
	int r = new_entry(symbol, removed, &entry);
	if (r < 0)
		return r;
	r = insert_entry(history, entry);
	if (r < 0)
		carry_free(entry);
	else
		carry_publish(entry, CARRY_HISTORY);
	return r;
}

int history_complete(struct history *history, const struct symbol *symbol)
{
	struct site *site = find_site(history, symbol->addr);
	struct entry *entry = NULL;

	/* Those without a registration stand first. */
	for (size_t i = 0; site && i < site->unregistered; i++) {
		struct entry *other = site->visits[i].entry;

		if (other->removed > symbol->added && (!entry || other->removed < entry->removed) &&
		    strcmp(other->symbol.name, symbol->name) == 0)
			entry = other;
	}
	if (!entry)
		return -ENOENT;
	if (reserve_visit(history, site) < 0)
		return -ENOMEM;
	remove_visit(site, find_visit(site, entry));
	entry->symbol.observed = symbol->observed;
	if (!entry->symbol.len)
		entry->symbol.len = symbol->len;
	entry->symbol.kind = symbol->kind;
	entry->symbol.prog_id = symbol->prog_id;
	/* Last: with it the entry answers, also to a process that finds it. */
	entry->symbol.added = symbol->added;
	insert_visit(history, site, entry);
	return 0;
}

int history_close(struct history *history, uint64_t addr, const char *name, uint64_t removed,
		  uint64_t *ret_end)
{
	struct site *site = find_site(history, addr);

	for (size_t i = site ? visits_up_to(site, removed) : 0; i-- > 0;) {
		struct entry *entry = site->visits[i].entry;

		if (site->visits[i].until <= removed)
			break;
		if (!entry->symbol.added || entry->symbol.added == removed ||
		    entry->removed <= removed || strcmp(entry->symbol.name, name) != 0)
			continue;
		*ret_end = entry->removed;
		unlink_entry(history, entry);
		entry->removed = removed;
		link_entry(history, entry);
		measure_visits(site, i);
		return 0;
	}
	return -ENOENT;
}

/* The youngest entry of a site that covered addr at time. */
static const struct entry *site_lookup(const struct site *site, uint64_t addr, uint64_t time)
{
	for (size_t i = visits_up_to(site, time); i-- > 0 && site->visits[i].until > time;) {
		const struct entry *entry = site->visits[i].entry;

		if (entry->symbol.added && entry->removed > time &&
		    addr - site->addr < entry->symbol.len)
			return entry;
	}
	return NULL;
}

/* What covered addr at time, the nearest start first. */
static const struct entry *lookup(const struct site *site, uint64_t addr, uint64_t time)
{
	if (!site || site->furthest <= addr)
		return NULL;
	if (site->addr > addr)
		return lookup(site->left, addr, time);

	const struct entry *entry = lookup(site->right, addr, time);

	if (!entry && site->reach > addr)
		entry = site_lookup(site, addr, time);
	return entry ?: lookup(site->left, addr, time);
}

int history_lookup(const struct history *history, uint64_t addr, uint64_t time,
		   const struct symbol **ret, uint64_t *ret_removed)
{
	const struct entry *entry = lookup(history->root, addr, time);

	if (!entry)
		return -ENOENT;
	*ret = &entry->symbol;
	*ret_removed = entry->removed;
	return 0;
}

void history_expire(struct history *history, uint64_t time)
{
	struct entry *entry;

	while ((entry = history->oldest) && entry->removed < time) {
		struct site *site = find_site(history, entry->symbol.addr);

		remove_visit(site, find_visit(site, entry));
		if (!site->count)
			drop_site(history, site);
		unlink_entry(history, entry);
		history->count--;
		history->bytes -= entry->bytes;
		carry_free(entry);
	}
}

size_t history_count(const struct history *history)
{
	return history->count;
}

size_t history_bytes(const struct history *history)
{
	return history->bytes;
}

uint64_t history_oldest(const struct history *history)
{
	return history->oldest ? history->oldest->removed : 0;
}
