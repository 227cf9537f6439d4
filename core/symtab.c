/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbol table: see symtab.h.
 *
 * leaves.c keeps the symbols and the text of their rows. A row's text depends on the symbol and,
 * for its size, on the next higher address and the bounds, or, if it was freed, on what is around
 * it (each further one that was freed lies between the two). So a change at one address drops the
 * text of its own leaf and, of the leaves from the nearest lower to the nearest higher address, the
 * text that has sizes.
 *
 * How far a symbol reaches is decided in symsize.c.
 */
#include "core/symtab.h"

#include <errno.h>
#include <string.h>

#include "core/bounds.h"
#include "core/leaves.h"
#include "core/module_names.h"
#include "core/symsize.h"

#define KINDS (SYMBOL_FREED + 1)

#define NAME_BLOCK_BYTES ((size_t)64 * 1024)

/*
 * Names one behind the other. Most names are vmlinux's, which stay as long as the table: so many
 * allocations would take half as much memory again, and memory that is touched for the first time
 * is most of what a baseline costs.
 */
struct name_block {
	struct name_block *next;
	size_t used, size;
	char data[];
};

struct symtab {
	struct leaves leaves;
	struct name_block *names; /* of symbols without a module; others have theirs alone */
	struct bounds bounds;
	struct module_names modules;
	size_t count;
	size_t kind_count[KINDS];
	uint64_t generation;
	struct snapshot *snapshots[LEAF_FORMATS]; /* of this generation; NULL: not rendered yet */
};

int symtab_create(struct symtab **ret)
{
	struct symtab *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->generation = 1;
	*ret = table;
	return 0;
}

static void free_name(const struct symbol *symbol)
{
	if (symbol->module)
		free((char *)symbol->name);
}

static void drop_snapshots(struct symtab *table)
{
	for (int i = 0; i < LEAF_FORMATS; i++) {
		snapshot_unref(table->snapshots[i]);
		table->snapshots[i] = NULL;
	}
}

void symtab_clear(struct symtab *table)
{
	for (size_t i = 0; i < table->leaves.count; i++) {
		const struct leaf *leaf = table->leaves.array[i];

		for (size_t k = 0; k < leaf->count; k++)
			free_name(&leaf->symbols[k]);
	}
	leaves_deinit(&table->leaves);
	module_names_deinit(&table->modules);
	bounds_deinit(&table->bounds);
	for (struct name_block *next, *block = table->names; block; block = next) {
		next = block->next;
		free(block);
	}
	drop_snapshots(table);
	*table = (struct symtab){.generation = table->generation + 1};
}

void symtab_destroy(struct symtab *table)
{
	if (!table)
		return;
	symtab_clear(table);
	free(table);
}

static bool same_string(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The first symbol of this address that has this name and, where one is given, this module. */
static struct symbol *find_named(const struct symtab *table, uint64_t addr, const char *name,
				 const char *module, struct place *ret)
{
	struct place place = leaves_find(&table->leaves, addr);
	struct symbol *symbol;

	for (; (symbol = leaves_at(&table->leaves, place)) && symbol->addr == addr;
	     place = leaves_after(&table->leaves, place)) {
		if (strcmp(symbol->name, name) != 0)
			continue;
		if (module && !same_string(symbol->module, module))
			continue;
		*ret = place;
		return symbol;
	}
	return NULL;
}

/* Is this very symbol there, one of vmlinux being none of a module? */
static struct symbol *find_same(const struct symtab *table, const struct symbol *wanted,
				struct place *ret)
{
	struct place place = leaves_find(&table->leaves, wanted->addr);
	struct symbol *symbol;

	for (; (symbol = leaves_at(&table->leaves, place)) && symbol->addr == wanted->addr;
	     place = leaves_after(&table->leaves, place)) {
		if (strcmp(symbol->name, wanted->name) == 0 &&
		    same_string(symbol->module, wanted->module)) {
			*ret = place;
			return symbol;
		}
	}
	return NULL;
}

/* A reader of the whole would see a difference. */
static void table_changed(struct symtab *table)
{
	table->generation++;
	drop_snapshots(table);
}

/* The nearest symbols below addr, and those freed around it, may reach more or less far. */
static void sizes_around_changed(struct symtab *table, uint64_t addr)
{
	struct place place = symsize_below(&table->leaves, addr);
	const struct symbol *symbol;

	for (; (symbol = leaves_at(&table->leaves, place)) &&
	       (symbol->addr <= addr || symbol_is_freed(symbol));
	     place = leaves_after(&table->leaves, place))
		leaf_drop_text(table->leaves.array[place.leaf], SYMTAB_KSYMS);
}

/* A copy of the name of a symbol that is to be added; NULL without memory. */
static char *copy_name(struct symtab *table, const struct symbol *symbol)
{
	struct name_block *block = table->names;

	if (symbol->module)
		return strdup(symbol->name);

	size_t len = strlen(symbol->name) + 1;

	if (!block || len > block->size - block->used) {
		size_t size = MAX(len, NAME_BLOCK_BYTES - sizeof(*block));

		block = malloc(sizeof(*block) + size);
		if (!block)
			return NULL;
		*block = (struct name_block){.next = table->names, .size = size};
		table->names = block;
	}

	char *name = block->data + block->used;

	block->used += len;
	return memcpy(name, symbol->name, len);
}

/* Which come first at one address: kernel/kallsyms.c update_iter_mod(). */
static int rank(const struct symbol *symbol)
{
	if (symbol->kind == SYMBOL_CORE || symbol->kind == SYMBOL_MODULE)
		return 0;
	return symbol_is_freed(symbol) ? 1 : 2;
}

/* Behind those of its address that come before it. */
static struct place place_for(const struct symtab *table, const struct symbol *symbol)
{
	struct place place = leaves_find_above(&table->leaves, symbol->addr), before;

	while (leaves_before(&table->leaves, place, &before)) {
		const struct symbol *last = leaves_at(&table->leaves, before);

		if (last->addr != symbol->addr || rank(last) <= rank(symbol))
			break;
		place = before;
	}
	return place;
}

/* Puts a copy of a symbol where it belongs. */
static int insert_symbol(struct symtab *table, const struct symbol *symbol)
{
	struct place place = place_for(table, symbol);
	struct symbol new = *symbol;

	new.name = copy_name(table, symbol);
	if (!new.name)
		return -ENOMEM;
	if (module_names_get(&table->modules, symbol->module, &new.module) < 0) {
		free_name(&new);
		return -ENOMEM;
	}
	sizes_around_changed(table, new.addr);
	if (leaves_insert(&table->leaves, place, &new) < 0) {
		free_name(&new);
		module_names_put(&table->modules, new.module);
		return -ENOMEM;
	}
	table->count++;
	table->kind_count[new.kind]++;
	table_changed(table);
	return 0;
}

static void remove_symbol(struct symtab *table, struct place place)
{
	struct symbol gone = *leaves_at(&table->leaves, place);

	leaves_remove(&table->leaves, place);
	free_name(&gone);
	module_names_put(&table->modules, gone.module);
	table->kind_count[gone.kind]--;
	table->count--;
	sizes_around_changed(table, gone.addr);
	table_changed(table);
}

/*
 * Lists of the kernel and of modules have rows twice: static variables without a size
 * (lock_class_key without lockdep) of one name, one after the other.
 */
static bool may_repeat(const struct symbol *symbol)
{
	return rank(symbol) < 2;
}

int symtab_add(struct symtab *table, const struct symbol *symbol)
{
	struct place place;

	if (!may_repeat(symbol) && find_same(table, symbol, &place))
		return -EEXIST;
	return insert_symbol(table, symbol);
}

/* The symbols lie in one array, in the order in which they came: an address tells it. */
static int by_address(const void *a, const void *b)
{
	const struct symbol *x = *(const struct symbol *const *)a;
	const struct symbol *y = *(const struct symbol *const *)b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b)
{
	const struct symbol *x = *(const struct symbol *const *)a;
	const struct symbol *y = *(const struct symbol *const *)b;
	int r = strcmp(x->name, y->name);

	if (!r)
		r = strcmp(x->module ?: "", y->module ?: "");
	if (!r)
		r = !!x->module - !!y->module;
	return r ?: by_address(a, b);
}

static bool is_sorted(const struct symbol *const *order, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (order[i - 1]->addr > order[i]->addr)
			return false;
	return true;
}

/* Leaves out what comes again of the symbols of one address; returns how many are left. */
static size_t drop_repeated(const struct symbol **order, size_t count)
{
	size_t kept = 1;

	if (count == 1)
		return 1;
	qsort(order, count, sizeof(order[0]), by_name);
	for (size_t i = 1; i < count; i++) {
		const struct symbol *last = order[kept - 1];

		if (may_repeat(order[i]) || strcmp(last->name, order[i]->name) != 0 ||
		    !same_string(last->module, order[i]->module))
			order[kept++] = order[i];
	}
	qsort(order, kept, sizeof(order[0]), by_address);
	return kept;
}

int symtab_add_all(struct symtab *table, const struct symbol *symbols, size_t count)
{
	_cleanup_free_ const struct symbol **order =
		reallocarray(NULL, MAX(count, 1u), sizeof(order[0]));
	size_t added = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = &symbols[i];
	/* The kernel lists its own symbols sorted. */
	if (!is_sorted(order, count))
		qsort(order, count, sizeof(order[0]), by_address);

	for (size_t start = 0, end; start < count; start = end) {
		struct place place = leaves_find(&table->leaves, order[start]->addr);
		const struct symbol *first = leaves_at(&table->leaves, place);
		bool known = first && first->addr == order[start]->addr;

		for (end = start + 1; end < count && order[end]->addr == order[start]->addr; end++)
			;

		size_t distinct = start + drop_repeated(&order[start], end - start);

		for (size_t i = start; i < distinct; i++) {
			if (known && !may_repeat(order[i]) && find_same(table, order[i], &place))
				continue;
			if (insert_symbol(table, order[i]) < 0)
				return -ENOMEM;
			added++;
		}
	}
	return added;
}

static void update_symbol(struct symtab *table, struct place place, const struct symbol *symbol)
{
	struct symbol *found = leaves_at(&table->leaves, place);
	uint64_t size = symsize_at(&table->leaves, &table->bounds, found);

	table->kind_count[found->kind]--;
	found->len = symbol->len;
	found->added = symbol->added;
	found->observed = symbol->observed;
	found->prog_id = symbol->prog_id;
	found->kind = symbol->kind;
	table->kind_count[found->kind]++;
	if (symsize_at(&table->leaves, &table->bounds, found) != size) {
		sizes_around_changed(table, found->addr);
		table_changed(table);
	}
}

int symtab_update(struct symtab *table, const struct symbol *symbol)
{
	struct place place;
	struct symbol *found =
		find_named(table, symbol->addr, symbol->name, symbol->module, &place);

	if (!found)
		return -ENOENT;
	/* The strings may be found's own. */
	const struct symbol same = *found;

	for (; found && found->addr == same.addr; found = leaves_at(&table->leaves, place)) {
		if (symbol_is_freed(found) == symbol_is_freed(symbol) &&
		    strcmp(found->name, same.name) == 0 && same_string(found->module, same.module))
			update_symbol(table, place, symbol);
		place = leaves_after(&table->leaves, place);
	}
	return 0;
}

int symtab_remove(struct symtab *table, uint64_t addr, const char *name, const char *module)
{
	struct place place;

	if (!find_named(table, addr, name, module, &place))
		return -ENOENT;
	remove_symbol(table, place);
	return 0;
}

void symtab_remove_kind(struct symtab *table, enum symbol_kind kind)
{
	struct place place = {0, 0};

	while (table->kind_count[kind]) {
		const struct symbol *symbol = leaves_at(&table->leaves, place);
		uint64_t addr = symbol->addr;

		if (symbol->kind != kind) {
			place = leaves_after(&table->leaves, place);
			continue;
		}
		remove_symbol(table, place);
		/* Leaves may have become one. */
		place = leaves_find(&table->leaves, addr);
	}
}

const struct symbol *symtab_find(const struct symtab *table, uint64_t addr, const char *name,
				 const char *module)
{
	struct place place;

	return find_named(table, addr, name, module, &place);
}

const struct symbol *symtab_at(const struct symtab *table, uint64_t addr, size_t n)
{
	struct place place = leaves_find(&table->leaves, addr);
	const struct symbol *symbol = leaves_at(&table->leaves, place);

	for (; n > 0 && symbol; n--) {
		place = leaves_after(&table->leaves, place);
		symbol = leaves_at(&table->leaves, place);
	}
	return symbol && symbol->addr == addr ? symbol : NULL;
}

/* Takes over new bounds, which differ from the old ones in what they say of [start, end). */
static void replace_bounds(struct symtab *table, const struct bounds *new, uint64_t start,
			   uint64_t end)
{
	bool first_or_last = !new->count || !table->bounds.count;
	bool changed = false;
	struct place place =
		first_or_last ? (struct place){0, 0} : symsize_below(&table->leaves, start);

	for (size_t i = place.leaf; i < table->leaves.count; i++) {
		struct leaf *leaf = table->leaves.array[i];
		uint64_t was[LEAF_SYMBOLS], is[LEAF_SYMBOLS];

		if (!first_or_last && leaf->symbols[0].addr >= end)
			break;
		symsize_leaf(&table->leaves, &table->bounds, i, was);
		symsize_leaf(&table->leaves, new, i, is);
		if (memcmp(was, is, leaf->count * sizeof(was[0])) != 0) {
			leaf_drop_text(leaf, SYMTAB_KSYMS);
			changed = true;
		}
	}
	bounds_deinit(&table->bounds);
	table->bounds = *new;
	if (changed)
		table_changed(table);
}

int symtab_add_bound(struct symtab *table, uint64_t start, uint64_t end)
{
	struct bounds new;
	uint64_t reach;
	int r = bounds_with(&table->bounds, start, end, &new, &reach);

	if (r < 0)
		return r;
	replace_bounds(table, &new, start, reach);
	return 0;
}

int symtab_remove_bound(struct symtab *table, uint64_t start)
{
	struct bounds new;
	uint64_t reach;
	int r = bounds_without(&table->bounds, start, &new, &reach);

	if (r < 0)
		return r;
	replace_bounds(table, &new, start, reach);
	return 0;
}

/*
 * An offset into each CPU's area, or a number, is no address, though it has a size: the kernel
 * lists per-CPU variables (x86 up to 6.14) and those of modules as if they lay near 0.
 */
static bool is_offset(const struct symbol *symbol)
{
	bool may_be = symbol->kind == SYMBOL_MODULE || symbol->type == 'A' || symbol->type == 'a';

	return may_be && !(symbol->addr >> 63);
}

/* The first symbol of the nearest address below that is there and reaches so far. */
static bool lookup_there(const struct symtab *table, uint64_t addr, struct place above,
			 struct symtab_hit *ret)
{
	const struct symbol *next = symsize_next(&table->leaves, above), *symbol;
	struct place place = addr == UINT64_MAX ? above : symsize_below(&table->leaves, addr + 1);
	size_t sharing = 0;

	for (; (symbol = leaves_at(&table->leaves, place)) && symbol->addr <= addr;
	     place = leaves_after(&table->leaves, place)) {
		if (symbol_is_freed(symbol))
			continue;
		sharing++;
		if (ret->symbol || is_offset(symbol))
			continue;
		ret->size = symsize_of(&table->bounds, symbol, next);
		if (addr - symbol->addr < ret->size)
			ret->symbol = symbol;
	}
	ret->aliases = sharing - 1;
	return ret->symbol;
}

/* The same of those that were freed, for where there is nothing else. */
static bool lookup_freed(const struct symtab *table, uint64_t addr, struct place above,
			 struct symtab_hit *ret)
{
	const struct symbol *next = leaves_at(&table->leaves, above), *symbol;
	struct place place;

	if (!leaves_before(&table->leaves, above, &place))
		return false;
	place = leaves_find(&table->leaves, leaves_at(&table->leaves, place)->addr);
	for (; (symbol = leaves_at(&table->leaves, place)) && symbol->addr <= addr;
	     place = leaves_after(&table->leaves, place)) {
		uint64_t size =
			symbol_is_freed(symbol)
				? symsize_freed(&table->leaves, &table->bounds, symbol, next)
				: 0;

		if (addr - symbol->addr < size) {
			*ret = (struct symtab_hit){.symbol = symbol, .size = size};
			return true;
		}
	}
	return false;
}

int symtab_lookup(const struct symtab *table, uint64_t addr, struct symtab_hit *ret)
{
	struct place above = leaves_find_above(&table->leaves, addr);
	struct symtab_hit hit = {};

	if (!lookup_there(table, addr, above, &hit) && !lookup_freed(table, addr, above, &hit))
		return -ENOENT;
	*ret = hit;
	return 0;
}

const struct symbol *symtab_alias(const struct symtab *table, const struct symtab_hit *hit,
				  size_t n)
{
	struct place place = leaves_find(&table->leaves, hit->symbol->addr);
	const struct symbol *symbol;

	for (; (symbol = leaves_at(&table->leaves, place)) && symbol->addr == hit->symbol->addr;
	     place = leaves_after(&table->leaves, place)) {
		if (symbol != hit->symbol && !symbol_is_freed(symbol) && n-- == 0)
			return symbol;
	}
	return NULL;
}

int symtab_visit(const struct symtab *table, uint64_t start, symtab_visit_fn *visit, void *arg)
{
	struct place place = leaves_find(&table->leaves, start);

	for (; place.leaf < table->leaves.count; place = (struct place){place.leaf + 1, 0}) {
		const struct leaf *leaf = table->leaves.array[place.leaf];
		uint64_t sizes[LEAF_SYMBOLS];

		symsize_leaf(&table->leaves, &table->bounds, place.leaf, sizes);
		for (size_t k = place.index; k < leaf->count; k++) {
			int r = visit(&leaf->symbols[k], sizes[k], arg);

			if (r)
				return r;
		}
	}
	return 0;
}

size_t symtab_count(const struct symtab *table)
{
	return table->count;
}

size_t symtab_count_kind(const struct symtab *table, enum symbol_kind kind)
{
	return table->kind_count[kind];
}

uint64_t symtab_generation(const struct symtab *table)
{
	return table->generation;
}

int symtab_render(struct symtab *table, enum symtab_format format, struct snapshot **ret)
{
	if (!table->snapshots[format]) {
		_cleanup_free_ struct chunk **chunks =
			reallocarray(NULL, MAX(table->leaves.count, 1u), sizeof(chunks[0]));

		if (!chunks)
			return -ENOMEM;
		for (size_t i = 0; i < table->leaves.count; i++) {
			struct leaf *leaf = table->leaves.array[i];

			if (!leaf->text[format]) {
				uint64_t sizes[LEAF_SYMBOLS];

				symsize_leaf(&table->leaves, &table->bounds, i, sizes);

				int r = leaf_render(leaf, format, sizes);

				if (r < 0)
					return r;
			}
			chunks[i] = leaf->text[format];
		}
		int r = snapshot_from_chunks(chunks, table->leaves.count,
					     &table->snapshots[format]);

		if (r < 0)
			return r;
	}
	*ret = snapshot_ref(table->snapshots[format]);
	return 0;
}
