/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbol table: see symtab.h.
 *
 * An array of pointers to leaves; in each leaf, symbols sorted by address, those of one address in
 * the order of their arrival (they may straddle leaves). No leaf is empty. A leaf keeps the text of
 * its rows for each format until one of them changes; a row's text depends on the symbol and, for
 * its size, on the next higher address and the bounds. So a change at one address drops the text of
 * its own leaf and, of the leaves that hold the nearest lower address, the text that has sizes.
 *
 * How far a symbol reaches is decided in one place, symbol_size().
 */
#include "core/symtab.h"

#include <errno.h>
#include <string.h>

#include "core/text.h"

#define LEAF_SYMBOLS 256
/* Neighbours that fit into this many become one leaf: less than all, or they would split at once.
 */
#define LEAF_MERGED 128

#define FORMATS 2
#define KINDS	(SYMBOL_OUT_OF_LINE + 1)

/* What the kernel makes room for code and data in; the smallest of all its page sizes. */
#define AREA_UNIT UINT64_C(4096)

struct leaf {
	size_t count;
	struct chunk *text[FORMATS]; /* NULL: not rendered since the last change */
	struct symbol symbols[LEAF_SYMBOLS];
};

struct bound {
	uint64_t start, end;
};

struct bounds {
	struct bound *array; /* by start, which is unique */
	size_t count;
};

/* The name of a module, shared by its symbols. */
struct module_name {
	size_t refs;
	char name[];
};

struct symtab {
	struct leaf **leaves;
	size_t leaf_count, leaf_room;
	struct bounds bounds;
	struct module_name **modules; /* by name */
	size_t module_count, module_room;
	size_t count;
	size_t kind_count[KINDS];
	uint64_t generation;
	struct snapshot *snapshots[FORMATS]; /* of this generation; NULL: not rendered yet */
};

/* Where a symbol is, or would go: leaf_count and 0 past the last. */
struct place {
	size_t leaf, index;
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

static void leaf_destroy(struct leaf *leaf)
{
	for (int i = 0; i < FORMATS; i++)
		chunk_unref(leaf->text[i]);
	free(leaf);
}

void symtab_destroy(struct symtab *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->leaf_count; i++) {
		for (size_t k = 0; k < table->leaves[i]->count; k++)
			free((char *)table->leaves[i]->symbols[k].name);
		leaf_destroy(table->leaves[i]);
	}
	free(table->leaves);
	for (size_t i = 0; i < table->module_count; i++)
		free(table->modules[i]);
	free(table->modules);
	free(table->bounds.array);
	for (int i = 0; i < FORMATS; i++)
		snapshot_unref(table->snapshots[i]);
	free(table);
}

/* Makes room for one more pointer in a growing array. */
static int reserve_pointer(void *array, size_t count, size_t *room)
{
	if (count < *room)
		return 0;

	size_t larger = MAX(*room * 2, (size_t)16);
	void *moved = reallocarray(*(void **)array, larger, sizeof(void *));

	if (!moved)
		return -ENOMEM;
	*(void **)array = moved;
	*room = larger;
	return 0;
}

/* The module's place among the names: where it is, or would go. */
static size_t module_index(const struct symtab *table, const char *name)
{
	size_t low = 0, high = table->module_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(table->modules[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Takes a reference to the shared copy of a module's name; NULL, for vmlinux, is its own. */
static int module_get(struct symtab *table, const char *name, const char **ret)
{
	if (!name) {
		*ret = NULL;
		return 0;
	}

	size_t i = module_index(table, name);

	if (i == table->module_count || strcmp(table->modules[i]->name, name) != 0) {
		size_t len = strlen(name) + 1;
		struct module_name *module;

		if (reserve_pointer(&table->modules, table->module_count, &table->module_room) < 0)
			return -ENOMEM;
		module = malloc(sizeof(*module) + len);
		if (!module)
			return -ENOMEM;
		module->refs = 0;
		memcpy(module->name, name, len);
		memmove(&table->modules[i + 1], &table->modules[i],
			(table->module_count - i) * sizeof(table->modules[0]));
		table->modules[i] = module;
		table->module_count++;
	}
	table->modules[i]->refs++;
	*ret = table->modules[i]->name;
	return 0;
}

static void module_put(struct symtab *table, const char *name)
{
	if (!name)
		return;

	size_t i = module_index(table, name);

	if (--table->modules[i]->refs)
		return;
	free(table->modules[i]);
	table->module_count--;
	memmove(&table->modules[i], &table->modules[i + 1],
		(table->module_count - i) * sizeof(table->modules[0]));
}

/* The first symbol at addr or above. */
static struct place find_place(const struct symtab *table, uint64_t addr)
{
	struct place end = {table->leaf_count, 0};

	if (!table->leaf_count)
		return end;
	/* A baseline comes in order, each symbol above all others. */
	const struct leaf *leaf = table->leaves[table->leaf_count - 1];

	if (leaf->symbols[leaf->count - 1].addr < addr)
		return end;

	size_t low = 0, high = table->leaf_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->leaves[mid]->symbols[0].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return (struct place){0, 0};

	/* This leaf begins below addr, the next one at it or above. */
	struct place place = {low - 1, 0};

	leaf = table->leaves[place.leaf];
	low = 1;
	high = leaf->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (leaf->symbols[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == leaf->count)
		return (struct place){place.leaf + 1, 0};
	place.index = low;
	return place;
}

/* The first symbol above addr. */
static struct place find_place_above(const struct symtab *table, uint64_t addr)
{
	return addr == UINT64_MAX ? (struct place){table->leaf_count, 0}
				  : find_place(table, addr + 1);
}

/* NULL past the last. */
static struct symbol *symbol_at(const struct symtab *table, struct place place)
{
	return place.leaf < table->leaf_count ? &table->leaves[place.leaf]->symbols[place.index]
					      : NULL;
}

static struct place place_after(const struct symtab *table, struct place place)
{
	if (++place.index == table->leaves[place.leaf]->count)
		place = (struct place){place.leaf + 1, 0};
	return place;
}

/* There is no place before the first. */
static bool place_before(const struct symtab *table, struct place place, struct place *ret)
{
	if (place.index > 0) {
		*ret = (struct place){place.leaf, place.index - 1};
		return true;
	}
	if (place.leaf == 0)
		return false;
	*ret = (struct place){place.leaf - 1, table->leaves[place.leaf - 1]->count - 1};
	return true;
}

static bool same_string(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The first symbol of this address that has this name and, where one is given, this module. */
static struct symbol *find_named(const struct symtab *table, uint64_t addr, const char *name,
				 const char *module, struct place *ret)
{
	struct place place = find_place(table, addr);
	struct symbol *symbol;

	for (; (symbol = symbol_at(table, place)) && symbol->addr == addr;
	     place = place_after(table, place)) {
		if (name && strcmp(symbol->name, name) != 0)
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
	struct place place = find_place(table, wanted->addr);
	struct symbol *symbol;

	for (; (symbol = symbol_at(table, place)) && symbol->addr == wanted->addr;
	     place = place_after(table, place)) {
		if (strcmp(symbol->name, wanted->name) == 0 &&
		    same_string(symbol->module, wanted->module)) {
			*ret = place;
			return symbol;
		}
	}
	return NULL;
}

/* How many bounds start at addr or below. */
static size_t bounds_up_to(const struct bounds *bounds, uint64_t addr)
{
	size_t low = 0, high = bounds->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (bounds->array[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Where the bound ends that addr is in; 0 if it is in none. One ends where the next one starts. */
static uint64_t bound_end(const struct bounds *bounds, uint64_t addr)
{
	size_t i = bounds_up_to(bounds, addr);

	if (i == 0 || addr >= bounds->array[i - 1].end)
		return 0;
	if (i < bounds->count && bounds->array[i].start < bounds->array[i - 1].end)
		return bounds->array[i].start;
	return bounds->array[i - 1].end;
}

/* How far a symbol reaches, next being the first one of a higher address, or NULL. */
static uint64_t symbol_size(const struct bounds *bounds, const struct symbol *symbol,
			    const struct symbol *next)
{
	uint64_t addr = symbol->addr;
	uint64_t room = (next ? next->addr : UINT64_MAX) - addr;

	if (symbol->len)
		return MIN(symbol->len, room);
	if (symbol->kind == SYMBOL_BPF_PROG)
		return 0;
	if (symbol->kind != SYMBOL_CORE && symbol->kind != SYMBOL_MODULE)
		return MIN(AREA_UNIT, room);

	uint64_t end = bound_end(bounds, addr);

	if (end)
		return MIN(end - addr, room);
	/* Marks the end of a section, or is in one of which the kernel names nothing. */
	if (symbol->kind == SYMBOL_CORE && bounds->count)
		return 0;
	if (next && next->module == symbol->module && !bound_end(bounds, next->addr))
		return room;
	return MIN(AREA_UNIT - addr % AREA_UNIT, room);
}

static uint64_t size_at(const struct symtab *table, const struct symbol *symbol)
{
	return symbol_size(&table->bounds, symbol,
			   symbol_at(table, find_place_above(table, symbol->addr)));
}

/* The sizes of all symbols of a leaf. */
static void leaf_sizes(const struct symtab *table, const struct bounds *bounds, size_t i,
		       uint64_t sizes[LEAF_SYMBOLS])
{
	const struct leaf *leaf = table->leaves[i];
	const struct symbol *last = &leaf->symbols[leaf->count - 1];
	const struct symbol *next = symbol_at(table, find_place_above(table, last->addr));

	for (size_t k = leaf->count; k-- > 0;) {
		const struct symbol *symbol = &leaf->symbols[k];

		if (symbol < last && symbol[1].addr != symbol->addr)
			next = &symbol[1];
		sizes[k] = symbol_size(bounds, symbol, next);
	}
}

static void leaf_drop_text(struct leaf *leaf, enum symtab_format format)
{
	chunk_unref(leaf->text[format]);
	leaf->text[format] = NULL;
}

static void leaf_changed(struct leaf *leaf)
{
	leaf_drop_text(leaf, SYMTAB_KSYMS);
	leaf_drop_text(leaf, SYMTAB_KALLSYMS);
}

/* A reader of the whole would see a difference. */
static void table_changed(struct symtab *table)
{
	table->generation++;
	for (int i = 0; i < FORMATS; i++) {
		snapshot_unref(table->snapshots[i]);
		table->snapshots[i] = NULL;
	}
}

/* The nearest symbols below addr may reach more or less far than they did. */
static void sizes_below_changed(struct symtab *table, uint64_t addr)
{
	struct place last;

	if (!place_before(table, find_place(table, addr), &last))
		return;

	struct place first = find_place(table, symbol_at(table, last)->addr);

	for (size_t i = first.leaf; i <= last.leaf; i++)
		leaf_drop_text(table->leaves[i], SYMTAB_KSYMS);
}

static int insert_leaf(struct symtab *table, size_t at)
{
	if (reserve_pointer(&table->leaves, table->leaf_count, &table->leaf_room) < 0)
		return -ENOMEM;

	struct leaf *leaf = malloc(sizeof(*leaf));

	if (!leaf)
		return -ENOMEM;
	leaf->count = 0;
	leaf->text[SYMTAB_KSYMS] = leaf->text[SYMTAB_KALLSYMS] = NULL;
	memmove(&table->leaves[at + 1], &table->leaves[at],
		(table->leaf_count - at) * sizeof(table->leaves[0]));
	table->leaves[at] = leaf;
	table->leaf_count++;
	return 0;
}

static void remove_leaf(struct symtab *table, size_t at)
{
	leaf_destroy(table->leaves[at]);
	table->leaf_count--;
	memmove(&table->leaves[at], &table->leaves[at + 1],
		(table->leaf_count - at) * sizeof(table->leaves[0]));
}

/* Moves the symbols of a leaf from `from` on to the end of another. */
static void move_symbols(struct leaf *to, struct leaf *leaf, size_t from)
{
	memcpy(&to->symbols[to->count], &leaf->symbols[from],
	       (leaf->count - from) * sizeof(leaf->symbols[0]));
	to->count += leaf->count - from;
	leaf->count = from;
	leaf_changed(to);
	leaf_changed(leaf);
}

/* Turns a place into one of a leaf that has room. */
static int make_room(struct symtab *table, struct place *place)
{
	/* The end of a leaf and the start of the next are the same place. */
	if (place->index == 0 && place->leaf > 0) {
		size_t count = table->leaves[place->leaf - 1]->count;

		if (count < LEAF_SYMBOLS) {
			*place = (struct place){place->leaf - 1, count};
			return 0;
		}
	}
	if (place->leaf == table->leaf_count)
		return insert_leaf(table, place->leaf);
	if (table->leaves[place->leaf]->count < LEAF_SYMBOLS)
		return 0;
	if (insert_leaf(table, place->leaf + 1) < 0)
		return -ENOMEM;
	move_symbols(table->leaves[place->leaf + 1], table->leaves[place->leaf], LEAF_SYMBOLS / 2);
	if (place->index > LEAF_SYMBOLS / 2)
		*place = (struct place){place->leaf + 1, place->index - LEAF_SYMBOLS / 2};
	return 0;
}

/* Puts a copy of a symbol behind those of its address. */
static int insert_symbol(struct symtab *table, const struct symbol *symbol)
{
	struct place place = find_place_above(table, symbol->addr);
	_cleanup_free_ char *name = strdup(symbol->name);
	const char *module;

	if (!name || module_get(table, symbol->module, &module) < 0)
		return -ENOMEM;
	if (make_room(table, &place) < 0) {
		module_put(table, module);
		return -ENOMEM;
	}

	struct leaf *leaf = table->leaves[place.leaf];
	struct symbol *new = &leaf->symbols[place.index];

	memmove(new + 1, new, (leaf->count - place.index) * sizeof(*new));
	*new = *symbol;
	new->name = take_ptr(name);
	new->module = module;
	leaf->count++;
	table->count++;
	table->kind_count[new->kind]++;
	leaf_changed(leaf);
	sizes_below_changed(table, symbol->addr);
	table_changed(table);
	return 0;
}

static void remove_symbol(struct symtab *table, struct place place)
{
	struct leaf *leaf = table->leaves[place.leaf];
	struct symbol *symbol = &leaf->symbols[place.index];
	uint64_t addr = symbol->addr;

	free((char *)symbol->name);
	module_put(table, symbol->module);
	table->kind_count[symbol->kind]--;
	table->count--;
	leaf->count--;
	memmove(symbol, symbol + 1, (leaf->count - place.index) * sizeof(*symbol));
	leaf_changed(leaf);

	size_t after = place.leaf + 1;

	if (leaf->count == 0) {
		remove_leaf(table, place.leaf);
	} else if (after < table->leaf_count &&
		   leaf->count + table->leaves[after]->count <= LEAF_MERGED) {
		move_symbols(leaf, table->leaves[after], 0);
		remove_leaf(table, after);
	} else if (place.leaf > 0 &&
		   table->leaves[place.leaf - 1]->count + leaf->count <= LEAF_MERGED) {
		move_symbols(table->leaves[place.leaf - 1], leaf, 0);
		remove_leaf(table, place.leaf);
	}
	sizes_below_changed(table, addr);
	table_changed(table);
}

int symtab_add(struct symtab *table, const struct symbol *symbol)
{
	struct place place;

	if (find_same(table, symbol, &place))
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

static void sort_by_address(const struct symbol **order, size_t count)
{
	/* The kernel lists its own symbols sorted: most of the time there is nothing to do. */
	for (size_t i = 1; i < count; i++) {
		if (by_address(&order[i - 1], &order[i]) > 0) {
			qsort(order, count, sizeof(order[0]), by_address);
			return;
		}
	}
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

		if (strcmp(last->name, order[i]->name) != 0 ||
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
	int r = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = &symbols[i];
	sort_by_address(order, count);

	for (size_t start = 0, end; start < count && r == 0; start = end) {
		struct place place = find_place(table, order[start]->addr);
		const struct symbol *first = symbol_at(table, place);
		bool known = first && first->addr == order[start]->addr;

		for (end = start + 1; end < count && order[end]->addr == order[start]->addr; end++)
			;

		size_t distinct = start + drop_repeated(&order[start], end - start);

		for (size_t i = start; i < distinct && r == 0; i++) {
			if (known && find_same(table, order[i], &place))
				continue;
			r = insert_symbol(table, order[i]);
			if (r == 0)
				order[added++] = order[i];
		}
	}
	if (r == 0)
		return added;
	while (added > 0) {
		struct place place;

		if (find_same(table, order[--added], &place))
			remove_symbol(table, place);
	}
	return r;
}

int symtab_update(struct symtab *table, const struct symbol *symbol)
{
	struct place place;
	struct symbol *found =
		find_named(table, symbol->addr, symbol->name, symbol->module, &place);

	if (!found)
		return -ENOENT;

	uint64_t size = size_at(table, found);

	table->kind_count[found->kind]--;
	found->len = symbol->len;
	found->added = symbol->added;
	found->observed = symbol->observed;
	found->prog_id = symbol->prog_id;
	found->kind = symbol->kind;
	table->kind_count[found->kind]++;
	if (size_at(table, found) != size) {
		leaf_drop_text(table->leaves[place.leaf], SYMTAB_KSYMS);
		table_changed(table);
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

const struct symbol *symtab_find(const struct symtab *table, uint64_t addr, const char *name)
{
	struct place place;

	return find_named(table, addr, name, NULL, &place);
}

/* Takes over new bounds, which differ from the old ones in what they say of [start, end). */
static void replace_bounds(struct symtab *table, const struct bounds *new, uint64_t start,
			   uint64_t end)
{
	bool first_or_last = !new->count || !table->bounds.count;
	bool changed = false;
	struct place place = {0, 0};

	if (!first_or_last && place_before(table, find_place(table, start), &place))
		place = find_place(table, symbol_at(table, place)->addr);
	for (size_t i = place.leaf; i < table->leaf_count; i++) {
		struct leaf *leaf = table->leaves[i];
		uint64_t was[LEAF_SYMBOLS], is[LEAF_SYMBOLS];

		if (!first_or_last && leaf->symbols[0].addr >= end)
			break;
		leaf_sizes(table, &table->bounds, i, was);
		leaf_sizes(table, new, i, is);
		if (memcmp(was, is, leaf->count * sizeof(was[0])) != 0) {
			leaf_drop_text(leaf, SYMTAB_KSYMS);
			changed = true;
		}
	}
	free(table->bounds.array);
	table->bounds = *new;
	if (changed)
		table_changed(table);
}

/* Up to where a bound, or the one before it where they overlap, says anything. */
static uint64_t bound_reach(const struct bounds *bounds, size_t i)
{
	return i > 0 ? MAX(bounds->array[i].end, bounds->array[i - 1].end) : bounds->array[i].end;
}

int symtab_add_bound(struct symtab *table, uint64_t start, uint64_t end)
{
	const struct bounds *old = &table->bounds;
	size_t i = bounds_up_to(old, start);
	struct bounds new = {NULL, old->count + 1};

	if (start >= end)
		return -EINVAL;
	if (i > 0 && old->array[i - 1].start == start)
		return -EEXIST;
	new.array = reallocarray(NULL, new.count, sizeof(new.array[0]));
	if (!new.array)
		return -ENOMEM;
	if (old->count) {
		memcpy(new.array, old->array, i * sizeof(new.array[0]));
		memcpy(&new.array[i + 1], &old->array[i], (old->count - i) * sizeof(new.array[0]));
	}
	new.array[i] = (struct bound){start, end};
	replace_bounds(table, &new, start, bound_reach(&new, i));
	return 0;
}

int symtab_remove_bound(struct symtab *table, uint64_t start)
{
	const struct bounds *old = &table->bounds;
	size_t i = bounds_up_to(old, start);

	if (i == 0 || old->array[i - 1].start != start)
		return -ENOENT;
	i--;

	struct bounds new = {malloc(old->count * sizeof(new.array[0])), old->count - 1};

	if (!new.array)
		return -ENOMEM;
	memcpy(new.array, old->array, i * sizeof(new.array[0]));
	memcpy(&new.array[i], &old->array[i + 1], (new.count - i) * sizeof(new.array[0]));
	replace_bounds(table, &new, start, bound_reach(old, i));
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

int symtab_lookup(const struct symtab *table, uint64_t addr, struct symtab_hit *ret)
{
	struct place above = find_place_above(table, addr), place;

	if (!place_before(table, above, &place))
		return -ENOENT;

	uint64_t start = symbol_at(table, place)->addr;
	struct symtab_hit hit = {};
	size_t sharing = 0;

	for (place = find_place(table, start);
	     place.leaf != above.leaf || place.index != above.index;
	     place = place_after(table, place), sharing++) {
		const struct symbol *symbol = symbol_at(table, place);

		if (hit.symbol || is_offset(symbol))
			continue;
		hit.size = symbol_size(&table->bounds, symbol, symbol_at(table, above));
		if (addr - start < hit.size)
			hit.symbol = symbol;
	}
	if (!hit.symbol)
		return -ENOENT;
	hit.aliases = sharing - 1;
	*ret = hit;
	return 0;
}

const struct symbol *symtab_alias(const struct symtab *table, const struct symtab_hit *hit,
				  size_t n)
{
	struct place place = find_place(table, hit->symbol->addr);
	const struct symbol *symbol;

	for (; (symbol = symbol_at(table, place)) && symbol->addr == hit->symbol->addr;
	     place = place_after(table, place)) {
		if (symbol != hit->symbol && n-- == 0)
			return symbol;
	}
	return NULL;
}

int symtab_visit(const struct symtab *table, uint64_t start, symtab_visit_fn *visit, void *arg)
{
	struct place place = find_place(table, start);

	for (; place.leaf < table->leaf_count; place = (struct place){place.leaf + 1, 0}) {
		const struct leaf *leaf = table->leaves[place.leaf];
		uint64_t sizes[LEAF_SYMBOLS];

		leaf_sizes(table, &table->bounds, place.leaf, sizes);
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

static char *put_hex16(char *at, uint64_t value)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[(value >> shift) & 0xf];
	*at++ = ' ';
	return at;
}

/* Nearly every name is one that text_escape() would leave as it is. */
static void put_name(struct text *text, const char *name)
{
	size_t len = strlen(name);
	unsigned int escaped = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = name[i];

		escaped |= (c <= ' ') | (c > '~') | (c == '\\');
	}
	if (escaped)
		text_escape(text, name, len);
	else
		text_append(text, name, len);
}

static int render_leaf(const struct symtab *table, enum symtab_format format, size_t i)
{
	struct leaf *leaf = table->leaves[i];
	uint64_t sizes[LEAF_SYMBOLS];
	_cleanup_text_ struct text text = {};

	/* Without sizes 24 bytes are needed for the rest of a row, and a name has some 25. */
	text_reserve(&text, leaf->count * 72);
	if (format == SYMTAB_KSYMS)
		leaf_sizes(table, &table->bounds, i, sizes);
	for (size_t k = 0; k < leaf->count; k++) {
		const struct symbol *symbol = &leaf->symbols[k];
		char row[2 * 17 + 2], *at = put_hex16(row, symbol->addr);

		if (format == SYMTAB_KSYMS)
			at = put_hex16(at, sizes[k]);
		*at++ = symbol->type;
		*at++ = ' ';
		text_append(&text, row, at - row);
		put_name(&text, symbol->name);
		if (symbol->module) {
			text_append(&text, "\t[", 2);
			put_name(&text, symbol->module);
			text_putc(&text, ']');
		}
		text_putc(&text, '\n');
	}
	return text_take_chunk(&text, &leaf->text[format]);
}

int symtab_render(struct symtab *table, enum symtab_format format, struct snapshot **ret)
{
	if (!table->snapshots[format]) {
		_cleanup_free_ struct chunk **chunks =
			reallocarray(NULL, MAX(table->leaf_count, 1u), sizeof(chunks[0]));

		if (!chunks)
			return -ENOMEM;
		for (size_t i = 0; i < table->leaf_count; i++) {
			struct leaf *leaf = table->leaves[i];
			int r = leaf->text[format] ? 0 : render_leaf(table, format, i);

			if (r < 0)
				return r;
			chunks[i] = leaf->text[format];
		}
		int r = snapshot_from_chunks(chunks, table->leaf_count, &table->snapshots[format]);

		if (r < 0)
			return r;
	}
	*ret = snapshot_ref(table->snapshots[format]);
	return 0;
}
