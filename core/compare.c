/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares the symbols that come and go (modules, images) with the kernel's own list, and mends the
 * table where they differ. For module changes and after losses only: it reads all of kallsyms.
 */
#include "core/clock.h"
#include "core/tracker_internal.h"

#include <errno.h>
#include <string.h>

/* One row of the table, copied, since the table changes under the comparison. */
struct row {
	uint64_t addr;
	char *name, *module;
};

struct rows {
	struct row *rows;
	size_t count, size;
	bool modules, images, out_of_line;
};

static bool wanted(const struct rows *rows, const struct symbol *symbol)
{
	return (rows->modules && symbol->kind == SYMBOL_MODULE) ||
	       (rows->images && symbol->kind == SYMBOL_BPF_IMAGE) ||
	       (rows->out_of_line && symbol->kind == SYMBOL_OUT_OF_LINE);
}

static int copy_row(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct rows *rows = arg;

	if (!wanted(rows, symbol))
		return 0;
	if (rows->count == rows->size) {
		size_t more = MAX(rows->size * 2, (size_t)256);
		struct row *grown = reallocarray(rows->rows, more, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		rows->rows = grown;
		rows->size = more;
	}
	struct row *row = &rows->rows[rows->count];

	*row = (struct row){symbol->addr, strdup(symbol->name), strdup(symbol->module)};
	rows->count++;
	return row->name && row->module ? 0 : -ENOMEM;
}

static void rows_deinit(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free(rows->rows[i].name);
		free(rows->rows[i].module);
	}
	free(rows->rows);
}

/* By address, name and module. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = (left->addr > right->addr) - (left->addr < right->addr);

	order = order ? order : strcmp(left->name, right->name);
	return order ? order : strcmp(left->module, right->module);
}

static int compare_row_with_symbol(const struct row *row, const struct symbol *symbol)
{
	const struct row other = {symbol->addr, (char *)symbol->name, (char *)symbol->module};

	return compare_rows(row, &other);
}

/* The same, and what is alike by its place in the list. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *left = *(struct symbol *const *)a, *right = *(struct symbol *const *)b;
	const struct row row = {left->addr, (char *)left->name, (char *)left->module};
	int order = compare_row_with_symbol(&row, right);

	return order ? order : (left > right) - (left < right);
}

/*
 * Walks both, sorted. Rows that the kernel has not are removed; symbols that the table has not stay
 * in `sorted`, the others become NULL. Either may have a row several times.
 */
static void match_rows(struct tracker *tracker, const struct rows *rows, struct symbol **sorted,
		       size_t count, bool announce, struct differences *found)
{
	size_t at = 0, removed = 0, renamed = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->rows[i];

		while (at < count && compare_row_with_symbol(row, sorted[at]) > 0)
			at++;
		if (at < count && compare_row_with_symbol(row, sorted[at]) == 0) {
			sorted[at++] = NULL;
			continue;
		}
		removed += kstate_missed_removal(&tracker->state, row->addr, row->name, row->module,
						 tracker->whole_at, announce);
		renamed += (at < count && sorted[at]->addr == row->addr) ||
			   (at > 0 && sorted[at - 1] && sorted[at - 1]->addr == row->addr);
	}
	found->removed += removed - MIN(renamed, removed);
	found->changed += renamed;
}

static int by_place(const void *a, const void *b)
{
	const struct symbol *left = *(struct symbol *const *)a, *right = *(struct symbol *const *)b;

	return (left > right) - (left < right);
}

/* Adds what is left of the list, in the list's order: the kernel's own, of symbols of one address.
 */
static size_t add_missing(struct tracker *tracker, struct symbol **missing, size_t count,
			  uint64_t seen, bool announce)
{
	size_t added = 0;

	qsort(missing, count, sizeof(*missing), by_place);
	for (size_t i = 0; i < count; i++) {
		struct symbol *symbol = missing[i];

		if (!symbol)
			continue;
		if (symbol->kind != SYMBOL_MODULE)
			tracker_complete_image(tracker, symbol);
		added += kstate_found_symbol(&tracker->state, symbol, seen, announce) > 0;
	}
	return added;
}

/*
 * Those that were freed are put in anew, in the kernel's order: the latest to be freed is its
 * first.
 */
static int replace_freed(struct tracker *tracker, const struct kallsyms *list, uint64_t seen)
{
	struct symtab *symbols = tracker->state.symbols;
	bool had_any = symtab_count_kind(symbols, SYMBOL_FREED);

	symtab_remove_kind(symbols, SYMBOL_FREED);
	for (size_t i = 0; i < list->count; i++) {
		struct symbol symbol = list->symbols[i];

		if (symbol.kind != SYMBOL_FREED)
			continue;
		symbol.added = seen;
		symbol.observed = true;
		int r = symtab_add(symbols, &symbol);

		if (r < 0)
			return r;
	}
	if (had_any || symtab_count_kind(symbols, SYMBOL_FREED))
		kstate_changed(&tracker->state, KSTATE_SYMBOLS, seen);
	return 0;
}

static int compare_rows_with_kernel(struct tracker *tracker, struct rows *rows, bool announce,
				    struct differences *found)
{
	uint64_t seen = monotonic_ns();
	struct kallsyms list = {};
	size_t listed = 0;
	int r = tracker_read_kallsyms(tracker, &list);

	/* Hidden meanwhile (kptr_restrict): it tells nothing. */
	if (r == 0 && list.hidden)
		r = tracker->kallsyms_source.error = -EACCES;
	if (r < 0) {
		kallsyms_deinit(&list);
		return r;
	}
	rows->images &= tracker->images_source.error == 0;
	_cleanup_free_ struct symbol **sorted = calloc(list.count + 1, sizeof(*sorted));

	r = sorted ? symtab_visit(tracker->state.symbols, 0, copy_row, rows) : -ENOMEM;
	if (r == 0) {
		for (size_t i = 0; i < list.count; i++)
			if (wanted(rows, &list.symbols[i]))
				sorted[listed++] = &list.symbols[i];
		qsort(sorted, listed, sizeof(*sorted), compare_symbols);
		qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);

		size_t renamed = found->changed;

		match_rows(tracker, rows, sorted, listed, announce, found);
		renamed = found->changed - renamed;
		size_t added = add_missing(tracker, sorted, listed, seen, announce);

		found->added += added - MIN(renamed, added);
		r = replace_freed(tracker, &list, seen);
	}
	kallsyms_deinit(&list);
	return r;
}

int tracker_compare(struct tracker *tracker, bool images, bool announce, struct differences *found)
{
	struct rows rows = {.modules = true, .images = images, .out_of_line = images};
	int r = compare_rows_with_kernel(tracker, &rows, announce, found);

	rows_deinit(&rows);
	return r;
}
