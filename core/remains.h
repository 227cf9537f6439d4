/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a freed program leaves: the pieces that unload.bpf.c wrote, put together, and a struct prog
 * made of them.
 *
 * Pure data, so that tests feed it; no lock. The kernel wrote the pieces, but nothing here relies
 * on that: what does not fit is refused.
 */
#ifndef CORE_REMAINS_H
#define CORE_REMAINS_H

#include "core/prog.h"
#include "core/unload_piece.h"

struct remains_func {
	uint64_t addr;
	uint32_t len;
	uint8_t tag[BPF_TAG_SIZE];
};

/* One program. Of head: as many maps, functions (one at least) and instructions as it says. */
struct remains {
	struct unload_head head;
	uint64_t loaded_mono; /* head.load_time as CLOCK_MONOTONIC, or earlier: the reader's to set
			       */
	struct unload_map *maps;
	struct remains_func *funcs;
	struct bpf_insn *insns; /* as the kernel ran them: see prog_from_remains() */
	uint8_t *jited;		/* all functions, in their order */
	size_t jited_len;
	struct remains *next; /* for whoever has several */
};

void remains_destroy(struct remains *remains); /* NULL is fine */
DEFINE_CLEANUP(remains, struct remains *, remains_destroy)

/* Puts pieces together, those of each CPU by themselves. */
struct remains_joiner;

/* cpus: how many there can be. -ENOMEM. */
int remains_joiner_create(unsigned int cpus, struct remains_joiner **ret);
void remains_joiner_destroy(struct remains_joiner *joiner); /* NULL is fine */
DEFINE_CLEANUP(remains_joiner, struct remains_joiner *, remains_joiner_destroy)

/*
 * Takes a piece, of len bytes, header included. Returns 1 and the program if it was the last of
 * one, 0 if more are to come. -EBADMSG: it does not continue what was there, so that program (or
 * what is left of it) is lost; -ENOMEM, likewise.
 */
int remains_join(struct remains_joiner *joiner, const void *piece, size_t len,
		 struct remains **ret);

/*
 * The program `known`, of which only records told, with what remained of it. Its BTF and its line
 * info are gone. Instructions are given as BPF_OBJ_GET_INFO_BY_FD would have: it names maps by id
 * where the kernel has their address. -ENOMEM.
 */
int prog_from_remains(struct blob_pool *pool, const struct prog *known,
		      const struct remains *remains, struct prog **ret);

#endif
