/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that were: which name covered an address at a moment in the past.
 *
 * Pure data, as symtab.h is, and locked by its owner. An entry answers for addresses
 * [addr, addr + len) and times [added, removed). Addresses are reused within milliseconds, so one
 * address has many entries; at one moment, ranges do not overlap.
 */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/symtab.h"

struct history;

int history_create(struct history **ret);
void history_destroy(struct history *history); /* NULL is fine */
DEFINE_CLEANUP(history, struct history *, history_destroy)

/*
 * Remembers a symbol that was removed at `removed` (CLOCK_MONOTONIC ns), copying what it points
 * to. symbol->len is the size that it had in ksyms; with added 0 it may be 0 (not known).
 * symbol->added 0 means that its registration was not seen (yet): such an entry answers for no
 * time. -EINVAL for added > removed, -ENOMEM.
 */
int history_add(struct history *history, const struct symbol *symbol, uint64_t removed);
/*
 * A registration that comes after its own removal was applied (records of different CPUs cross):
 * completes the entry of this address and name that was removed soonest after `added` and has no
 * registration yet, with added, observed, len (if the entry's is not known), kind and prog_id of
 * symbol. -ENOENT if there is none, -ENOMEM.
 */
int history_complete(struct history *history, const struct symbol *symbol);
/*
 * A removal that comes after something younger at its address was applied: the entry of this
 * address and name with 0 < added < `removed` < its end, the youngest of several, ends there.
 * *ret_end is the end that it had. -ENOENT if there is none.
 */
int history_close(struct history *history, uint64_t addr, const char *name, uint64_t removed,
		  uint64_t *ret_end);

/* Which symbol covered addr at time? -ENOENT. What ret points to stays valid to the next change. */
int history_lookup(const struct history *history, uint64_t addr, uint64_t time,
		   const struct symbol **ret, uint64_t *ret_removed);

/* Forgets what was removed before `time`. */
void history_expire(struct history *history, uint64_t time);

size_t history_count(const struct history *history);
size_t history_bytes(const struct history *history);
/* The removal time of the oldest entry; 0 if there is none. */
uint64_t history_oldest(const struct history *history);

#endif
