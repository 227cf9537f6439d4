/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's layout, as the marks that its linker script makes tell it: so that no symbol of
 * vmlinux runs past its section. Pure data, no lock.
 *
 * Source: include/asm-generic/sections.h, is_ksym_addr() in kernel/kallsyms.c.
 */
#ifndef CORE_LAYOUT_H
#define CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symtab.h"

enum layout_marker {
	MARKER_TEXT,
	MARKER_STEXT,
	MARKER_ETEXT,
	MARKER_SINITTEXT,
	MARKER_EINITTEXT,
	MARKER_END,
	MARKER_PER_CPU_START,
	MARKER_PER_CPU_END,
	LAYOUT_MARKERS,
};

/* Begins as zeros. */
struct layout {
	uint64_t marker[LAYOUT_MARKERS];
	bool found[LAYOUT_MARKERS];
	bool has_data;	      /* CONFIG_KALLSYMS_ALL: not of text alone */
	uint64_t first, last; /* addresses in the kernel's half; first 0: none */
};

/* Takes in what rows of vmlinux tell; others are passed over. */
void layout_see(struct layout *layout, const struct symbol *symbols, size_t count);

/* Adds what was seen to the table's bounds; those that are there already stay. -ENOMEM. */
int layout_add_bounds(const struct layout *layout, struct symtab *table);

#endif
