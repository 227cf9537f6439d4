/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of kstate share: kstate.c, kstate_symbols.c, kstate_programs.c. */
#ifndef CORE_KSTATE_INTERNAL_H
#define CORE_KSTATE_INTERNAL_H

#include "core/kstate.h"

/* A line of events: its time first, then what the caller appends. */
void kstate_begin_line(struct text *line, uint64_t time);
void kstate_end_line(struct kstate *state, struct text *line, uint64_t time);
/* ` pid=N comm=NAME`, with - for what is not known. */
void kstate_append_task(struct kstate *state, struct text *line, uint32_t pid, const char *comm);
/* pid: who did it; NULL for a line that does not say. */
void kstate_log_symbol(struct kstate *state, uint64_t time, const char *what,
		       const struct symbol *symbol, const uint32_t *pid);

/* What lives at an address that the kernel allocates and frees at run time; NULL. */
const struct symbol *kstate_dynamic_symbol(const struct kstate *state, uint64_t addr);
void kstate_add_symbol(struct kstate *state, const struct symbol *symbol, uint64_t time);
/* Takes a symbol out of the table and into history. symbol points into the table. */
void kstate_retire_symbol(struct kstate *state, const struct symbol *symbol, uint64_t time);
/*
 * Gives the main function of a program the name that only kallsyms has: see prog->first_symbol.
 * main is in the table; its strings are the caller's.
 */
void kstate_add_first(struct kstate *state, const struct symbol *main, const char *name);
/* A registration, which may be older than what is known of its address. */
void kstate_register_symbol(struct kstate *state, const struct symbol *symbol);

void kstate_apply_ksymbol(struct kstate *state, const struct record *record);
void kstate_apply_load(struct kstate *state, const struct record *record);
void kstate_apply_unload(struct kstate *state, const struct record *record);
/* Takes over the programs, loaded and retained, of a process that is gone. -ENOMEM. */
int kstate_restore_programs(struct kstate *state);
/* Forgets a program, and all history that is as old. */
void kstate_evict(struct kstate *state, uint32_t id, uint64_t now);

#endif
