/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How far symbols reach: see symsize.h. */
#include "core/symsize.h"

#include "core/cleanup.h"

/* What the kernel makes room for code and data in; the smallest of all its page sizes. */
#define AREA_UNIT UINT64_C(4096)

const struct symbol *symsize_next(const struct leaves *leaves, struct place place)
{
	const struct symbol *symbol;

	while ((symbol = leaves_at(leaves, place)) && symbol_is_freed(symbol))
		place = leaves_after(leaves, place);
	return symbol;
}

struct place symsize_below(const struct leaves *leaves, uint64_t addr)
{
	struct place place = leaves_find(leaves, addr);

	while (leaves_before(leaves, place, &place)) {
		const struct symbol *symbol = leaves_at(leaves, place);

		if (!symbol_is_freed(symbol))
			return leaves_find(leaves, symbol->addr);
	}
	return (struct place){0, 0};
}

uint64_t symsize_of(const struct bounds *bounds, const struct symbol *symbol,
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

	uint64_t end = bounds_end(bounds, addr);

	if (end)
		return MIN(end - addr, room);
	/* Marks the end of a section, or is in one of which the kernel names nothing. */
	if (symbol->kind == SYMBOL_CORE && bounds->count)
		return 0;
	if (next && next->module == symbol->module && !bounds_end(bounds, next->addr))
		return room;
	return MIN(AREA_UNIT - addr % AREA_UNIT, room);
}

/* Does one of the symbols of the nearest address below, or of this one, reach over addr? */
static bool is_covered(const struct leaves *leaves, const struct bounds *bounds, uint64_t addr)
{
	const struct symbol *next = symsize_next(leaves, leaves_find_above(leaves, addr));
	struct place place = leaves_find(leaves, addr);
	const struct symbol *symbol;

	for (; (symbol = leaves_at(leaves, place)) && symbol->addr == addr;
	     place = leaves_after(leaves, place))
		if (!symbol_is_freed(symbol))
			return true;
	for (place = symsize_below(leaves, addr);
	     (symbol = leaves_at(leaves, place)) && symbol->addr < addr;
	     place = leaves_after(leaves, place))
		if (!symbol_is_freed(symbol) &&
		    symsize_of(bounds, symbol, next) > addr - symbol->addr)
			return true;
	return false;
}

uint64_t symsize_freed(const struct leaves *leaves, const struct bounds *bounds,
		       const struct symbol *symbol, const struct symbol *next)
{
	uint64_t room = (next ? next->addr : UINT64_MAX) - symbol->addr;

	return is_covered(leaves, bounds, symbol->addr) ? 0 : MIN(symbol->len, room);
}

uint64_t symsize_at(const struct leaves *leaves, const struct bounds *bounds,
		    const struct symbol *symbol)
{
	struct place above = leaves_find_above(leaves, symbol->addr);

	if (symbol_is_freed(symbol))
		return symsize_freed(leaves, bounds, symbol, leaves_at(leaves, above));
	return symsize_of(bounds, symbol, symsize_next(leaves, above));
}

void symsize_leaf(const struct leaves *leaves, const struct bounds *bounds, size_t i,
		  uint64_t ret[LEAF_SYMBOLS])
{
	const struct leaf *leaf = leaves->array[i];
	const struct symbol *last = &leaf->symbols[leaf->count - 1];
	struct place above = leaves_find_above(leaves, last->addr);
	const struct symbol *any = leaves_at(leaves, above);
	const struct symbol *next = symsize_next(leaves, above);
	/* Of the last address there may be more in the next leaf. */
	const struct symbol *lowest = symsize_next(leaves, (struct place){i + 1, 0});

	for (size_t k = leaf->count; k-- > 0;) {
		const struct symbol *symbol = &leaf->symbols[k];

		if (symbol < last && symbol[1].addr != symbol->addr) {
			any = &symbol[1];
			next = lowest;
		}
		if (symbol_is_freed(symbol)) {
			ret[k] = symsize_freed(leaves, bounds, symbol, any);
		} else {
			ret[k] = symsize_of(bounds, symbol, next);
			lowest = symbol;
		}
	}
}
