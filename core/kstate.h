/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is in the kernel, and what was, as the records tell it: symbols, their history, programs and
 * the log of events, changed one record at a time.
 *
 * It does no I/O: what must be asked of the kernel for a record (a program's contents, an image's
 * length, a task's name) is asked through kstate_ops, so that tests can feed it. It takes no lock
 * of its own; the tracker lets one thread in.
 *
 * Records may come in any order of time. Which of two things at one address is the younger is told
 * by their times alone, so every order of the same records ends in the same symbols:
 *
 * - a removal of something that is not there (yet) is remembered, and its registration, when it
 *   comes, goes to history instead of the table;
 * - a registration that is older than what lives at its address goes to history too;
 * - a symbol that was only seen (by a baseline or a resync) carries the time from before the look;
 *   any record from then on is younger than it.
 */
#ifndef CORE_KSTATE_H
#define CORE_KSTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/eventlog.h"
#include "core/history.h"
#include "core/progset.h"
#include "core/remains.h"
#include "core/ring.h"
#include "core/symtab.h"
#include "core/text.h"

struct kstate_ops {
	/* Captures a program whose load has been recorded: see prog_capture(). */
	int (*capture)(void *arg, uint32_t id, struct prog **ret);
	/* The true length of the image that starts at addr; 0 if it cannot be asked. */
	uint64_t (*image_len)(void *arg, uint64_t addr, const char *name);
	/*
	 * The symbol that the kernel has at addr: 0 and its start, length and name, or -errno if it
	 * cannot be asked.
	 */
	int (*ask)(void *arg, uint64_t addr, uint64_t *ret_start, uint64_t *ret_len,
		   char ret_name[512]);
	/* The comm of a process; empty if it is gone. */
	void (*comm)(void *arg, uint32_t pid, char ret[16]);
};

/* Parts whose changes are numbered. */
enum kstate_part {
	KSTATE_SYMBOLS,
	KSTATE_PROGRAMS,
	KSTATE_IMAGES,
	KSTATE_PARTS,
};

/* A function that was registered and whose program's LOAD record has not come yet. */
struct pending_func {
	uint32_t tid;
	uint64_t time;
	uint64_t addr;
	uint32_t len;
	char *symbol; /* NULL: the record had no name */
};

#define KSTATE_PENDING 1024
#define KSTATE_ORPHANS 256

struct kstate {
	struct symtab *symbols;
	struct history *history;
	struct progset *programs;
	struct eventlog *events;

	const struct kstate_ops *ops;
	void *arg;
	struct blob_pool *pool;

	/* The kernel shows this process no addresses: none are kept or logged. */
	bool hidden;
	/* This kernel gives each JITed function a __cfi_ symbol of 16 bytes ahead of it (FineIBT).
	 */
	bool has_cfi;
	/* This kernel lists the first of several functions under a name of its own as well: see
	 * prog->first_symbol. */
	bool has_first;
	/* CLOCK_REALTIME - CLOCK_MONOTONIC, ns; the owner keeps it fresh. */
	uint64_t mono_to_unix;

	struct {
		uint64_t generation;
		uint64_t changed_unix;
	} parts[KSTATE_PARTS];

	/* Oldest first. */
	struct pending_func pending[KSTATE_PENDING];
	size_t pending_count;
	/* Unloads of programs that were not known: their LOAD may still come. */
	struct orphan {
		uint32_t id;
		uint64_t time;
	} orphans[KSTATE_ORPHANS];
	size_t orphan_next;

	uint64_t history_since; /* CLOCK_MONOTONIC ns from which on history is whole */
	uint64_t lost_records;
	uint64_t captured, gone; /* programs read in time, and not */
	uint64_t recovered;	 /* of those that were not: what they left came later */
	uint64_t out_of_memory;	 /* changes that could not be kept: a resync is due */
};

/* pool outlives the state. events_bytes: see eventlog_create(). -ENOMEM. */
int kstate_init(struct kstate *state, struct blob_pool *pool, uint64_t events_bytes, uint64_t now,
		const struct kstate_ops *ops, void *arg);
void kstate_deinit(struct kstate *state);

/* Applies a KSYMBOL, BPF_EVENT or LOST record; others are ignored. */
void kstate_apply(struct kstate *state, const struct record *record);

/*
 * A program was freed and left this. The records of its load have been applied, if there were any.
 * What is known already changes nothing.
 */
void kstate_apply_remains(struct kstate *state, const struct remains *remains);

/*
 * Adds a program that was found loaded at or after `seen` (CLOCK_MONOTONIC ns, taken before the
 * look), with its functions. With `announce`, events say so. Takes the reference. Returns 1 if it
 * was new, 0 if not, -ENOMEM.
 */
int kstate_found_program(struct kstate *state, struct prog *prog, uint64_t seen, bool announce);
/*
 * After a look at what is not a program's: the symbols of those that another process left as
 * loaded. Whether they still are is for kstate_found_program() and kstate_missed_unload() to say.
 */
void kstate_restore_symbols(struct kstate *state);
/*
 * A row of kallsyms of a program's, once the programs themselves are known: whether this kernel
 * lists first functions under names of their own can be told by it.
 */
void kstate_found_row(struct kstate *state, const struct symbol *row);
/* A program is not loaded any more, and no record said when: it was seen last at `last`. */
void kstate_missed_unload(struct kstate *state, uint32_t id, uint64_t last);

/*
 * Which symbol covered addr at `time`, UINT64_MAX being now? -ENOENT: none, or nobody knows any
 * more. What ret points to stays valid to the next change.
 */
int kstate_resolve(const struct kstate *state, uint64_t addr, uint64_t time,
		   struct symtab_hit *ret);

/*
 * Symbols that a list of the kernel's shows, and those that it does not show any more: seen and
 * last as above. Returns as kstate_found_program().
 */
int kstate_found_symbol(struct kstate *state, const struct symbol *symbol, uint64_t seen,
			bool announce);
int kstate_missed_removal(struct kstate *state, uint64_t addr, const char *name, const char *module,
			  uint64_t last, bool announce);

/* Drops what is older than retain_ns or more than retain_bytes. Returns when (CLOCK_MONOTONIC ns)
 * the next one is due; UINT64_MAX: never. */
uint64_t kstate_expire(struct kstate *state, uint64_t now, uint64_t retain_ns,
		       uint64_t retain_bytes);

/* Appends a line to events: time, then the text, then a newline. */
void kstate_log(struct kstate *state, uint64_t time, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void kstate_vlog(struct kstate *state, uint64_t time, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

/* Counts a change of a part: what depends on it is rendered anew. */
void kstate_changed(struct kstate *state, enum kstate_part part, uint64_t time);

#endif
