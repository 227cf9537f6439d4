/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The set of BPF programs, loaded and retained: by id, by the tags of their functions, by name,
 * and in the order of their unload, which is the order in which they leave.
 *
 * Pure data, locked by its owner. Costs a search, whatever it holds; listings cost what they list.
 */
#ifndef CORE_PROGSET_H
#define CORE_PROGSET_H

#include <stddef.h>
#include <stdint.h>

#include "core/prog.h"

struct progset;

/* A list of referenced programs. */
struct prog_list {
	struct prog **progs;
	size_t count;
};
void prog_list_deinit(struct prog_list *list);

/* pool: where the programs' blobs live; it outlives the set. -ENOMEM. */
int progset_create(struct blob_pool *pool, struct progset **ret);
void progset_destroy(struct progset *set); /* NULL is fine */
DEFINE_CLEANUP(progset, struct progset *, progset_destroy)

/* Adds a loaded program, taking a reference. -EEXIST for an id that is there, -ENOMEM. */
int progset_add(struct progset *set, struct prog *prog);
/* The program of this id, not referenced; NULL. */
struct prog *progset_find(const struct progset *set, uint32_t id);
/* Marks a loaded program unloaded and starts to retain it. -ENOENT if no such one is loaded. */
int progset_unload(struct progset *set, uint32_t id, uint64_t mono, uint64_t unix_ns);
/*
 * The program whose main function was at addr until `freed` (CLOCK_MONOTONIC ns), of those that
 * were not captured; not referenced, NULL if there is none.
 */
struct prog *progset_find_missed(const struct progset *set, uint64_t addr, uint64_t freed);
/*
 * Puts a program in the place of the one of its id, taking a reference: of the same age, and loaded
 * or retained, as that one is. -ENOENT if there is none, -ENOMEM.
 */
int progset_replace(struct progset *set, struct prog *prog);
/* Forgets a program. -ENOENT. */
int progset_remove(struct progset *set, uint32_t id);

/* The retained program that was unloaded first, not referenced; NULL if none is retained. */
struct prog *progset_oldest_retained(const struct progset *set);
/* Bytes of the heap that retained programs hold, equal contents counted once. */
size_t progset_retained_bytes(const struct progset *set);
size_t progset_loaded(const struct progset *set);
size_t progset_retained(const struct progset *set);

/* All, by id. -ENOMEM. */
int progset_list(const struct progset *set, struct prog_list *ret);
/*
 * Those with a function of this tag, the one that stands for the tag first: own tag before a
 * subprogram's, loaded before retained, newest first. -ENOENT if there is none, -ENOMEM.
 */
int progset_of_tag(const struct progset *set, const uint8_t tag[BPF_TAG_SIZE],
		   struct prog_list *ret);
/* The first of those alone, not referenced; NULL if there is none. */
struct prog *progset_standing_for_tag(const struct progset *set, const uint8_t tag[BPF_TAG_SIZE]);
/*
 * A program's name as a file name, a string of the caller's. A name may have 511 bytes, and no file
 * system that the tree is copied to takes more than NAME_MAX: what is longer is cut, between two
 * bytes of the name. -ENOMEM.
 */
int prog_file_name(const struct prog *prog, char **ret);
/* Those of a file name, as they were added. -ENOENT, -ENOMEM. */
int progset_of_file_name(const struct progset *set, const char *file_name, struct prog_list *ret);
/* One program of each file name, sorted by it. -ENOMEM. */
int progset_names(const struct progset *set, struct prog_list *ret);

/* Every tag, sorted, each once; the caller frees. -ENOMEM. */
int progset_tags(const struct progset *set, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count);

#endif
