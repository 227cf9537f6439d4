/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far symbols reach: the length that the source knows, or up to the next symbol, and never over
 * it or over the end of a section, a module or a page, where nothing better is known. What is freed
 * is there for nobody else: it ends nothing, and has a size only where nothing reaches.
 *
 * Pure: of sorted symbols (leaves.h) and the bounds of sections (bounds.h). Sizes are in bytes.
 */
#ifndef CORE_SYMSIZE_H
#define CORE_SYMSIZE_H

#include "core/bounds.h"
#include "core/leaves.h"

static inline bool symbol_is_freed(const struct symbol *symbol)
{
	return symbol->kind == SYMBOL_FREED;
}

/* The first one at a place or behind it that is there; NULL. */
const struct symbol *symsize_next(const struct leaves *leaves, struct place place);
/*
 * The first symbol of the nearest address below that has one which is there. Without such an
 * address: the first of all.
 */
struct place symsize_below(const struct leaves *leaves, uint64_t addr);

/* Of one that was not freed, next being the first such one of a higher address, or NULL. */
uint64_t symsize_of(const struct bounds *bounds, const struct symbol *symbol,
		    const struct symbol *next);
/* Of one that was freed, next being the first of any kind of a higher address, or NULL. */
uint64_t symsize_freed(const struct leaves *leaves, const struct bounds *bounds,
		       const struct symbol *symbol, const struct symbol *next);
/* Of any that is among the leaves. */
uint64_t symsize_at(const struct leaves *leaves, const struct bounds *bounds,
		    const struct symbol *symbol);
/* Of all symbols of the leaf of index i: as many of ret are set as it has. */
void symsize_leaf(const struct leaves *leaves, const struct bounds *bounds, size_t i,
		  uint64_t ret[LEAF_SYMBOLS]);

#endif
