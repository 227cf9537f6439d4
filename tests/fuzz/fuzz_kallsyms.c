/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as /proc/kallsyms and as /proc/modules: refused, or rows that a table can hold, whose
 * ranges do not overlap and which read as they were written.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/kallsyms.h"
#include "core/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

struct range {
	uint64_t addr, end;
};

static int check_range(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct range *last = arg;

	check(symbol->addr >= last->addr);
	check(symbol->addr == last->addr || symbol->addr >= last->end);
	check(size <= UINT64_MAX - symbol->addr);
	if (symbol->addr != last->addr)
		last->end = 0;
	last->addr = symbol->addr;
	if (symbol->addr + size > last->end)
		last->end = symbol->addr + size;
	return 0;
}

/* What a table renders is a list again: of as many rows. */
static void check_text(struct symtab *table)
{
	struct snapshot *snapshot;
	struct kallsyms again;

	if (symtab_render(table, SYMTAB_KALLSYMS, &snapshot) < 0)
		return;

	uint64_t size = snapshot_size(snapshot);
	char *text = malloc(size + 1);

	if (text) {
		bool escaped;

		snapshot_read(snapshot, 0, text, size);
		text[size] = '\0';
		/* An escaped byte takes four, so that a name can become too long. */
		escaped = strchr(text, '\\') != NULL;
		if (!escaped) {
			check(kallsyms_parse(text, size, false, &again, NULL) == 0);
			check(again.count == symtab_count(table));
			kallsyms_deinit(&again);
		}
	}
	free(text);
	snapshot_unref(snapshot);
}

static void check_table(const struct kallsyms *list)
{
	struct range last = {};
	struct layout layout = {};
	struct symtab *table;
	struct symtab_hit hit;

	if (symtab_create(&table) < 0)
		return;
	layout_see(&layout, list->symbols, list->count);
	layout_add_bounds(&layout, table);
	if (symtab_add_all(table, list->symbols, list->count) >= 0) {
		check(symtab_visit(table, 0, check_range, &last) == 0);
		check_text(table);
		for (size_t i = 0; i < list->count; i++) {
			const struct symbol *symbol = &list->symbols[i];

			if (symtab_lookup(table, symbol->addr, &hit) == 0)
				check(hit.symbol->addr == symbol->addr && hit.size > 0);
		}
		/* Without a module the first of that name is meant: those with one go before. */
		for (size_t i = 0; i < list->count; i++) {
			if (list->symbols[i].module)
				symtab_remove(table, list->symbols[i].addr, list->symbols[i].name,
					      list->symbols[i].module);
		}
		for (size_t i = 0; i < list->count; i++)
			symtab_remove(table, list->symbols[i].addr, list->symbols[i].name, NULL);
		check(symtab_count(table) == 0);
	}
	symtab_destroy(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct kallsyms list;
	struct module_list modules;
	size_t line = 0;

	if (kallsyms_parse(text, size, false, &list, &line) == 0) {
		check_table(&list);
		kallsyms_deinit(&list);
	} else {
		check(line > 0);
	}
	if (kallsyms_parse(text, size, true, &list, NULL) == 0) {
		for (size_t i = 0; i < list.count; i++)
			check(list.symbols[i].module && *list.symbols[i].module);
		kallsyms_deinit(&list);
	}
	if (module_list_parse(text, size, &modules, &line) == 0)
		module_list_deinit(&modules);
	return 0;
}
