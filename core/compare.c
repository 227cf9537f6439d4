/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares the symbols that come and go (modules, images) with the kernel's own list, and mends the
 * table where they differ. For module changes and after losses only: it reads all of kallsyms.
 */
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
	bool modules, images;
};

static bool wanted(const struct rows *rows, const struct symbol *symbol)
{
	return (rows->modules && symbol->kind == SYMBOL_MODULE) ||
	       (rows->images &&
		(symbol->kind == SYMBOL_BPF_IMAGE || symbol->kind == SYMBOL_OUT_OF_LINE));
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

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;
	int order = (left->addr > right->addr) - (left->addr < right->addr);

	return order ? order : strcmp(left->name, right->name);
}

static int compare_addresses(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;

	return (left->addr > right->addr) - (left->addr < right->addr);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = (left->addr > right->addr) - (left->addr < right->addr);

	return order ? order : strcmp(left->name, right->name);
}

static int compare_rows_with_kernel(struct tracker *tracker, struct rows *rows, bool announce,
				    struct differences *found)
{
	struct kstate *state = &tracker->state;
	uint64_t seen = monotonic_now();
	struct kallsyms list = {};
	int r = tracker_read_kallsyms(tracker, &list);

	if (r < 0)
		return r;
	r = symtab_visit(state->symbols, 0, copy_row, rows);
	if (r < 0) {
		kallsyms_deinit(&list);
		return r;
	}
	size_t listed = 0, added = 0, removed = 0, renamed = 0;

	for (size_t i = 0; i < list.count; i++)
		if (wanted(rows, &list.symbols[i]))
			list.symbols[listed++] = list.symbols[i];
	/* Rows of one address and name are alike, whatever their order; others keep the kernel's.
	 */
	_cleanup_free_ struct symbol *sorted = calloc(listed + 1, sizeof(*sorted));

	if (!sorted) {
		kallsyms_deinit(&list);
		return -ENOMEM;
	}
	memcpy(sorted, list.symbols, listed * sizeof(*sorted));
	qsort(sorted, listed, sizeof(*sorted), compare_symbols);
	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->rows[i];
		struct symbol key = {.addr = row->addr, .name = row->name};

		if (bsearch(&key, sorted, listed, sizeof(*sorted), compare_symbols))
			continue;
		removed += kstate_missed_removal(state, row->addr, row->name, row->module,
						 tracker->whole_at, announce);
		renamed +=
			bsearch(&key, sorted, listed, sizeof(*sorted), compare_addresses) != NULL;
	}
	for (size_t i = 0; i < listed; i++) {
		struct symbol *symbol = &list.symbols[i];

		if (symtab_find(state->symbols, symbol->addr, symbol->name))
			continue;
		if (symbol->kind != SYMBOL_MODULE)
			tracker_complete_image(tracker, symbol);
		added += kstate_found_symbol(state, symbol, seen, announce) > 0;
	}
	kallsyms_deinit(&list);
	found->added += added - MIN(renamed, added);
	found->removed += removed - MIN(renamed, removed);
	found->changed += renamed;
	return 0;
}

int tracker_compare(struct tracker *tracker, bool images, bool announce, struct differences *found)
{
	struct rows rows = {.modules = true, .images = images};
	int r = compare_rows_with_kernel(tracker, &rows, announce, found);

	rows_deinit(&rows);
	return r;
}
