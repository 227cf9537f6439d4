/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbol table: every kernel symbol by address, with sizes.
 *
 * Pure data. It reads nothing and knows nobody: the tracker feeds it, tests feed it byte literals.
 * It takes no lock; its owner lets one thread in at a time. What it renders are snapshots, which
 * need no lock at all.
 *
 * Symbols lie sorted in leaves of a few hundred, each with the text of its rows once somebody has
 * read them. Adding or removing a symbol costs a search and a shift within one leaf, whatever the
 * table holds; rendering costs the leaves that changed, and a pointer for each that did not.
 */
#ifndef CORE_SYMTAB_H
#define CORE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot.h"

enum symbol_kind {
	SYMBOL_CORE,	  /* of vmlinux: len unknown, ends at the next one of its section */
	SYMBOL_MODULE,	  /* of a module: the same, within the module */
	SYMBOL_BPF_PROG,  /* a JITed function: len exact */
	SYMBOL_BPF_AUX,	  /* belongs to a program, and only kallsyms has it: __cfi_, exception
			     callback */
	SYMBOL_BPF_IMAGE, /* trampoline, struct_ops, dispatcher: len exact, or a page to be clipped
			   */
	SYMBOL_OUT_OF_LINE, /* ftrace and kprobe pages: len as its event said, to be clipped */
	SYMBOL_FREED,	    /* code that is gone, which the kernel lists on: see below */
};

struct symbol {
	uint64_t addr;
	uint64_t len;	    /* bytes that the source knows of; 0: see below */
	uint64_t added;	    /* CLOCK_MONOTONIC ns of the registration; 0: before anything we know */
	const char *name;   /* the kernel's, unescaped, up to 511 bytes */
	const char *module; /* as kallsyms prints it between brackets; NULL for vmlinux */
	uint32_t prog_id;   /* of SYMBOL_BPF_PROG and SYMBOL_BPF_AUX; 0 if not known */
	char type;	    /* nm's letter */
	bool observed;	    /* added is when it was first seen there, not when it was registered */
	uint8_t kind;	    /* enum symbol_kind */
};

/*
 * How far a symbol reaches: never past the next higher address that has a symbol, so that no two
 * ranges overlap, aliases of one address apart. SYMBOL_FREED ones do not count there: where code
 * has been freed other code may lie, which must have its own name and length. So they reach over
 * what is left between what is there, and nowhere if they begin inside of that. Within that
 *
 * - one with a len, of whatever kind: that;
 * - in a bound: to its end;
 * - of vmlinux, in no bound, where there are bounds: nowhere (size 0): it marks an end (_etext,
 *   _end) or is one of the few that lists of text alone have of data, which the kernel's own %pS
 *   does not know either;
 * - of a module, in no bound: to the module's next symbol if that is in none either, else to the
 *   end of its page, since that is what the kernel makes room in;
 * - an image or a page out of line: a page; a symbol that only kallsyms has: the same;
 * - a program, or what was freed: nowhere, its length is known or there is none.
 */

enum symtab_format {
	SYMTAB_KSYMS,	 /* ADDR SIZE TYPE NAME[<TAB>[module]] */
	SYMTAB_KALLSYMS, /* ADDR TYPE NAME[<TAB>[module]] */
};

struct symtab;

int symtab_create(struct symtab **ret);
/* Removes all symbols and bounds. */
void symtab_clear(struct symtab *table);
void symtab_destroy(struct symtab *table); /* NULL is fine */
DEFINE_CLEANUP(symtab, struct symtab *, symtab_destroy)

/*
 * Says that no symbol that starts in [start, end) and has no len of its own reaches past end: a
 * section of the kernel, or all of a module. Where bounds overlap, one ends where the next one
 * starts: since 6.4 a module's parts lie apart and /proc/modules tells where the first one is and
 * how large all are together. -EINVAL for an empty range, -EEXIST for a start that is there,
 * -ENOMEM.
 */
int symtab_add_bound(struct symtab *table, uint64_t start, uint64_t end);
/* Takes back a bound by its start. -ENOENT, -ENOMEM. */
int symtab_remove_bound(struct symtab *table, uint64_t start);

/*
 * Adds a symbol, copying what it points to. Symbols of one address stay in the kernel's own order:
 * those of the kernel and of modules, what was freed, the others, and within these as they were
 * added. -EEXIST for the same address, name and module again, unless it is the kernel's or a
 * module's, whose lists have such; -ENOMEM.
 */
int symtab_add(struct symtab *table, const struct symbol *symbol);
/*
 * Adds many at once, in any order, for a baseline: as symtab_add() one by one, but in O(n log n),
 * with no search for those that belong behind all others, and with those left out that would be
 * -EEXIST. Returns how many were added; -ENOMEM, when some may have been.
 */
int symtab_add_all(struct symtab *table, const struct symbol *symbols, size_t count);
/*
 * Changes what is known of one symbol, in each of its rows: len, added, observed, prog_id and kind
 * become those of symbol, found by address and name. What is there does not become SYMBOL_FREED,
 * nor the other way around. -ENOENT.
 */
int symtab_update(struct symtab *table, const struct symbol *symbol);
/* Removes the symbol of this address and name (and module, where one is given). -ENOENT. */
int symtab_remove(struct symtab *table, uint64_t addr, const char *name, const char *module);
/* Removes all symbols of a kind. */
void symtab_remove_kind(struct symtab *table, enum symbol_kind kind);

/*
 * The first symbol that starts at addr and has this name (and module, where one is given); the n-th
 * of all that start there, from 0. NULL if there is none. What is returned stays valid to the next
 * change of the table.
 */
const struct symbol *symtab_find(const struct symtab *table, uint64_t addr, const char *name,
				 const char *module);
const struct symbol *symtab_at(const struct symtab *table, uint64_t addr, size_t n);

struct symtab_hit {
	const struct symbol *symbol; /* the kernel's first of its address (that reaches so far) */
	uint64_t size;		     /* as ksyms shows it: clipped, bounded */
	size_t aliases;		     /* others of its address, but freed ones: see symtab_alias() */
};

/*
 * Which symbol covers addr? -ENOENT if none does; per-CPU offsets and other numbers, which lists
 * have near 0, cover none. O(log n). What ret points to stays valid to the next change of the
 * table; its aliases are found with symtab_alias().
 */
int symtab_lookup(const struct symtab *table, uint64_t addr, struct symtab_hit *ret);
/* The n-th alias of a hit, 0 to hit->aliases - 1, in the kernel's order; NULL past the last. */
const struct symbol *symtab_alias(const struct symtab *table, const struct symtab_hit *hit,
				  size_t n);

/* Calls visit for every symbol from the first at or above start, in order, with the size that it
 * has in ksyms, until it returns other than 0, which is then returned. visit changes nothing. */
typedef int symtab_visit_fn(const struct symbol *symbol, uint64_t size, void *arg);
int symtab_visit(const struct symtab *table, uint64_t start, symtab_visit_fn *visit, void *arg);

/* How many symbols there are, of all kinds or of one. */
size_t symtab_count(const struct symtab *table);
size_t symtab_count_kind(const struct symtab *table, enum symbol_kind kind);
/* Rises with every change that a reader of ksyms could see. Starts at 1. */
uint64_t symtab_generation(const struct symtab *table);

/* All rows, sorted by address, names escaped as text_escape() does. -ENOMEM. */
int symtab_render(struct symtab *table, enum symtab_format format, struct snapshot **ret);

#endif
