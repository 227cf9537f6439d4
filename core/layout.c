/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's sections, by the linker's marks: see layout.h. */
#include "core/layout.h"

#include <errno.h>
#include <string.h>

#include "core/cleanup.h"

static const char *const marker_names[LAYOUT_MARKERS] = {
	[MARKER_TEXT] = "_text",
	[MARKER_STEXT] = "_stext",
	[MARKER_ETEXT] = "_etext",
	[MARKER_SINITTEXT] = "_sinittext",
	[MARKER_EINITTEXT] = "_einittext",
	[MARKER_END] = "_end",
	[MARKER_PER_CPU_START] = "__per_cpu_start",
	[MARKER_PER_CPU_END] = "__per_cpu_end",
};

static void see_name(struct layout *layout, const struct symbol *symbol)
{
	if (symbol->name[0] != '_')
		return;
	for (int k = 0; k < LAYOUT_MARKERS; k++) {
		if (layout->found[k] || symbol->name[1] != marker_names[k][1] ||
		    strcmp(symbol->name, marker_names[k]) != 0)
			continue;
		layout->marker[k] = symbol->addr;
		layout->found[k] = true;
	}
}

void layout_see(struct layout *layout, const struct symbol *symbols, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct symbol *symbol = &symbols[i];

		if (symbol->kind != SYMBOL_CORE)
			continue;
		/* A static variable is never in a list of text alone; marks of sections are. */
		if (symbol->type == 'b')
			layout->has_data = true;
		if (symbol->addr >> 63) {
			layout->first =
				layout->first ? MIN(layout->first, symbol->addr) : symbol->addr;
			layout->last = MAX(layout->last, symbol->addr);
		}
		see_name(layout, symbol);
	}
}

static int add_bound(struct symtab *table, uint64_t start, uint64_t end)
{
	int r = start < end ? symtab_add_bound(table, start, end) : 0;

	/* Again, after the list was read again. */
	return r == -EEXIST ? 0 : r;
}

static int add_between(struct symtab *table, const struct layout *layout, enum layout_marker start,
		       enum layout_marker end)
{
	if (!layout->found[start] || !layout->found[end])
		return 0;
	return add_bound(table, layout->marker[start], layout->marker[end]);
}

/*
 * Where kernel/kallsyms.c is_ksym_addr() is true, cut where its get_symbol_pos() ends a symbol:
 * text and init text; with CONFIG_KALLSYMS_ALL all from _stext to _end. Sections of data need no
 * cuts of their own: their marks are symbols of such a list.
 */
int layout_add_bounds(const struct layout *layout, struct symtab *table)
{
	int r;

	/* On arm64 the image's header lies between _text and _stext. */
	enum layout_marker start = layout->found[MARKER_STEXT] ? MARKER_STEXT : MARKER_TEXT;

	if (!layout->found[start] || !layout->found[MARKER_ETEXT])
		return add_bound(table, layout->first, layout->last);
	r = add_between(table, layout, start, MARKER_ETEXT);
	if (r < 0)
		return r;
	r = add_between(table, layout, MARKER_SINITTEXT, MARKER_EINITTEXT);
	if (r < 0)
		return r;
	if (layout->has_data) {
		r = add_between(table, layout, MARKER_ETEXT, MARKER_SINITTEXT);
		if (r < 0)
			return r;
		r = add_between(table, layout, MARKER_EINITTEXT, MARKER_END);
		if (r < 0)
			return r;
	}
	/* Offsets, where they are not part of the image (x86 up to 6.14). */
	if (layout->found[MARKER_PER_CPU_START] && !(layout->marker[MARKER_PER_CPU_START] >> 63))
		return add_between(table, layout, MARKER_PER_CPU_START, MARKER_PER_CPU_END);
	return 0;
}
