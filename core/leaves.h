/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the symbol table keeps its symbols: an array of pointers to leaves, in each of them symbols
 * sorted by address, those of one address in the order of their arrival (they may straddle leaves).
 * No leaf is empty. A leaf keeps the text of its rows for each format until somebody drops it.
 *
 * Part of symtab.c, which owns what symbols point to and knows when text must go because of a
 * change elsewhere; what moves within and between leaves drops their text here. symsize.c reads it.
 */
#ifndef CORE_LEAVES_H
#define CORE_LEAVES_H

#include <stdbool.h>

#include "core/symtab.h"

#define LEAF_SYMBOLS 256
#define LEAF_FORMATS 2

struct leaf {
	size_t count;
	struct chunk *text[LEAF_FORMATS]; /* NULL: not rendered since the last change */
	struct symbol symbols[LEAF_SYMBOLS];
};

struct leaves {
	struct leaf **array;
	size_t count, room;
};

/* Where a symbol is, or would go: {count, 0} past the last. */
struct place {
	size_t leaf, index;
};

void leaves_deinit(struct leaves *leaves);

/* The first symbol at addr or above; the first one above. */
struct place leaves_find(const struct leaves *leaves, uint64_t addr);
struct place leaves_find_above(const struct leaves *leaves, uint64_t addr);

/* NULL past the last. */
static inline struct symbol *leaves_at(const struct leaves *leaves, struct place place)
{
	return place.leaf < leaves->count ? &leaves->array[place.leaf]->symbols[place.index] : NULL;
}

static inline struct place leaves_after(const struct leaves *leaves, struct place place)
{
	if (++place.index == leaves->array[place.leaf]->count)
		place = (struct place){place.leaf + 1, 0};
	return place;
}

/* There is no place before the first. */
bool leaves_before(const struct leaves *leaves, struct place place, struct place *ret);

/* Puts a symbol, as it is, before the one at a place. -ENOMEM. */
int leaves_insert(struct leaves *leaves, struct place place, const struct symbol *symbol);
void leaves_remove(struct leaves *leaves, struct place place);

void leaf_drop_text(struct leaf *leaf, enum symtab_format format);
/* Renders the rows of a leaf that has no text of this format; sizes are theirs, in order. -ENOMEM.
 */
int leaf_render(struct leaf *leaf, enum symtab_format format, const uint64_t *sizes);

#endif
