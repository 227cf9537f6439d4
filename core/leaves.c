/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols in sorted leaves: see leaves.h. */
#include "core/leaves.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/text.h"

/* Neighbours that fit into this many become one leaf: less than all, or they would split at once.
 */
#define LEAF_MERGED 128

static void leaf_destroy(struct leaf *leaf)
{
	for (int i = 0; i < LEAF_FORMATS; i++)
		chunk_unref(leaf->text[i]);
	free(leaf);
}

void leaves_deinit(struct leaves *leaves)
{
	for (size_t i = 0; i < leaves->count; i++)
		leaf_destroy(leaves->array[i]);
	free(leaves->array);
	*leaves = (struct leaves){};
}

/* How many leaves begin below addr. */
static size_t leaves_below(const struct leaves *leaves, uint64_t addr)
{
	size_t low = 0, high = leaves->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (leaves->array[mid]->symbols[0].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Does a baseline's next symbol, in order as it comes, belong behind all others? */
static bool is_past_all(const struct leaves *leaves, uint64_t addr)
{
	if (!leaves->count)
		return true;

	const struct leaf *last = leaves->array[leaves->count - 1];

	return last->symbols[last->count - 1].addr < addr;
}

struct place leaves_find(const struct leaves *leaves, uint64_t addr)
{
	if (is_past_all(leaves, addr))
		return (struct place){leaves->count, 0};

	size_t next = leaves_below(leaves, addr);

	if (next == 0)
		return (struct place){0, 0};

	const struct leaf *leaf = leaves->array[next - 1];
	size_t low = 1, high = leaf->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (leaf->symbols[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < leaf->count ? (struct place){next - 1, low} : (struct place){next, 0};
}

struct place leaves_find_above(const struct leaves *leaves, uint64_t addr)
{
	return addr == UINT64_MAX ? (struct place){leaves->count, 0}
				  : leaves_find(leaves, addr + 1);
}

bool leaves_before(const struct leaves *leaves, struct place place, struct place *ret)
{
	if (place.index > 0) {
		*ret = (struct place){place.leaf, place.index - 1};
		return true;
	}
	if (place.leaf == 0)
		return false;
	*ret = (struct place){place.leaf - 1, leaves->array[place.leaf - 1]->count - 1};
	return true;
}

void leaf_drop_text(struct leaf *leaf, enum symtab_format format)
{
	chunk_unref(leaf->text[format]);
	leaf->text[format] = NULL;
}

static void leaf_changed(struct leaf *leaf)
{
	leaf_drop_text(leaf, SYMTAB_KSYMS);
	leaf_drop_text(leaf, SYMTAB_KALLSYMS);
}

static int insert_leaf(struct leaves *leaves, size_t at)
{
	if (leaves->count == leaves->room) {
		size_t room = MAX(leaves->room * 2, (size_t)16);
		struct leaf **array = reallocarray(leaves->array, room, sizeof(*array));

		if (!array)
			return -ENOMEM;
		leaves->array = array;
		leaves->room = room;
	}

	struct leaf *leaf = malloc(sizeof(*leaf));

	if (!leaf)
		return -ENOMEM;
	leaf->count = 0;
	leaf->text[SYMTAB_KSYMS] = leaf->text[SYMTAB_KALLSYMS] = NULL;
	memmove(&leaves->array[at + 1], &leaves->array[at],
		(leaves->count - at) * sizeof(leaves->array[0]));
	leaves->array[at] = leaf;
	leaves->count++;
	return 0;
}

static void remove_leaf(struct leaves *leaves, size_t at)
{
	leaf_destroy(leaves->array[at]);
	leaves->count--;
	memmove(&leaves->array[at], &leaves->array[at + 1],
		(leaves->count - at) * sizeof(leaves->array[0]));
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
static int make_room(struct leaves *leaves, struct place *place)
{
	/* The end of a leaf and the start of the next are the same place. */
	if (place->index == 0 && place->leaf > 0) {
		size_t count = leaves->array[place->leaf - 1]->count;

		if (count < LEAF_SYMBOLS) {
			*place = (struct place){place->leaf - 1, count};
			return 0;
		}
	}
	if (place->leaf == leaves->count)
		return insert_leaf(leaves, place->leaf);
	if (leaves->array[place->leaf]->count < LEAF_SYMBOLS)
		return 0;
	if (insert_leaf(leaves, place->leaf + 1) < 0)
		return -ENOMEM;
	move_symbols(leaves->array[place->leaf + 1], leaves->array[place->leaf], LEAF_SYMBOLS / 2);
	if (place->index > LEAF_SYMBOLS / 2)
		*place = (struct place){place->leaf + 1, place->index - LEAF_SYMBOLS / 2};
	return 0;
}

int leaves_insert(struct leaves *leaves, struct place place, const struct symbol *symbol)
{
	if (make_room(leaves, &place) < 0)
		return -ENOMEM;

	struct leaf *leaf = leaves->array[place.leaf];
	struct symbol *new = &leaf->symbols[place.index];

	memmove(new + 1, new, (leaf->count - place.index) * sizeof(*new));
	*new = *symbol;
	leaf->count++;
	leaf_changed(leaf);
	return 0;
}

void leaves_remove(struct leaves *leaves, struct place place)
{
	struct leaf *leaf = leaves->array[place.leaf];
	struct symbol *symbol = &leaf->symbols[place.index];
	size_t after = place.leaf + 1;

	leaf->count--;
	memmove(symbol, symbol + 1, (leaf->count - place.index) * sizeof(*symbol));
	leaf_changed(leaf);
	if (leaf->count == 0) {
		remove_leaf(leaves, place.leaf);
	} else if (after < leaves->count &&
		   leaf->count + leaves->array[after]->count <= LEAF_MERGED) {
		move_symbols(leaf, leaves->array[after], 0);
		remove_leaf(leaves, after);
	} else if (place.leaf > 0 &&
		   leaves->array[place.leaf - 1]->count + leaf->count <= LEAF_MERGED) {
		move_symbols(leaves->array[place.leaf - 1], leaf, 0);
		remove_leaf(leaves, place.leaf);
	}
}

/* The eight hex digits of a number at once: a nibble a byte, then each a digit or a letter. */
static char *put_hex8(char *at, uint32_t value)
{
	uint64_t x = value;

	x = (x & 0xffff0000) << 16 | (x & 0xffff);
	x = (x & 0x0000ff000000ff00) << 8 | (x & 0x000000ff000000ff);
	x = (x & 0x00f000f000f000f0) << 4 | (x & 0x000f000f000f000f);

	uint64_t letters = (x + 0x0606060606060606) >> 4 & 0x0101010101010101;

	x = htobe64(x + 0x3030303030303030 + letters * ('a' - '0' - 10));
	memcpy(at, &x, sizeof(x));
	return at + sizeof(x);
}

static char *put_hex16(char *at, uint64_t value)
{
	at = put_hex8(put_hex8(at, value >> 32), value);
	*at++ = ' ';
	return at;
}

/* Nearly every name is one that text_escape() would leave as it is. */
static bool is_plain(const char *name, size_t len)
{
	unsigned int odd = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = name[i];

		odd |= (c <= ' ') | (c > '~') | (c == '\\');
	}
	return !odd;
}

static void put_name(struct text *text, const char *name)
{
	size_t len = strlen(name);

	if (is_plain(name, len))
		text_append(text, name, len);
	else
		text_escape(text, name, len);
}

int leaf_render(struct leaf *leaf, enum symtab_format format, const uint64_t *sizes)
{
	_cleanup_text_ struct text text = {};

	/* Two numbers, a letter and blanks, and a name of some 25 bytes. */
	text_reserve(&text, leaf->count * 72);
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
			text_append(&text, "]\n", 2);
		} else {
			text_append(&text, "\n", 1);
		}
	}
	return text_take_chunk(&text, &leaf->text[format]);
}
