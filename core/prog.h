/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BPF programs as the kernel tells of them: BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID and
 * BPF_OBJ_GET_INFO_BY_FD. Knows no kallsyms and no perf.
 *
 * A struct prog is one program, captured whole: everything that can be read of it while it is
 * loaded, so that nothing needs the kernel any more once it is unloaded. It is immutable (but for
 * unloaded_at) once published, and reference-counted; the fd that it was read through is closed at
 * once, since holding it would keep the program alive.
 */
#ifndef CORE_PROG_H
#define CORE_PROG_H

#include <linux/bpf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/blob.h"
#include "core/cleanup.h"

/* One JITed function: [0] is the main program's, then the subprograms in the kernel's order. */
struct prog_func {
	uint64_t addr;	   /* where it was JITed to */
	uint32_t len;	   /* bytes of machine code */
	uint32_t insn_off; /* where its translated instructions begin; UINT32_MAX: not known */
	uint8_t tag[BPF_TAG_SIZE];
	char *symbol; /* as kallsyms has it: bpf_prog_TAG[_NAME] */
	char *name;   /* the BTF name without the prefix; NULL if there is none */
};

struct prog_map {
	uint32_t id;
	uint32_t type;
	uint32_t key_size;
	uint32_t value_size;
	uint32_t max_entries;
	char name[BPF_OBJ_NAME_LEN];
};

/* Why a part of a program is missing; PROG_PART_OK where it is there (it may still be empty). */
enum prog_part_state {
	PROG_PART_OK,
	PROG_PART_NONE,	     /* the kernel has none: no BTF, no line info, not JITed */
	PROG_PART_FORBIDDEN, /* the kernel does not show it to this reader, or hardening hides it */
	PROG_PART_GONE,	     /* the program was unloaded before it could be read */
	PROG_PART_FAILED,    /* reading failed: prog->error says how */
};

struct prog {
	atomic_uint refs;

	uint32_t id;
	uint8_t tag[BPF_TAG_SIZE];
	bool captured;	/* false: gone before it was read; only what the records said is below */
	bool at_unload; /* captured as the kernel freed it: see remains.h */
	int error;	/* -errno of a capture that failed, else 0 */
	struct bpf_prog_info info; /* as read, pointers zeroed; zeros if not captured */
	char *name;		   /* the full (BTF) name, else info.name, else NULL */

	/* The tracker fills these in before it publishes the program. */
	uint64_t loaded_mono; /* CLOCK_MONOTONIC ns of the load: the record's, else load_time's */
	uint64_t loaded_unix; /* CLOCK_REALTIME ns */
	uint32_t loader_pid;  /* 0: not known */
	char loader_comm[16]; /* empty: not known */
	/* 0 while loaded; the only fields that change once published, unloaded_mono last. */
	_Atomic uint64_t unloaded_unix;
	_Atomic uint64_t unloaded_mono; /* CLOCK_MONOTONIC ns */

	struct prog_func *funcs; /* none if not JITed, or not permitted */
	size_t func_count;

	enum prog_part_state jited_state, xlated_state, btf_state, lines_state;
	struct blob *jited;	 /* all functions, in the kernel's order, byte for byte */
	struct blob *xlated;	 /* struct bpf_insn[] */
	struct blob *btf;	 /* raw .BTF */
	struct blob *func_info;	 /* struct bpf_func_info[], of info.func_info_rec_size */
	struct blob *line_info;	 /* struct bpf_line_info[], of info.line_info_rec_size */
	struct blob *jited_line; /* uint64_t[], an address for each line_info */
	struct prog_map *maps;
	size_t map_count;
	/*
	 * What the first of several functions is called on its own account, as opposed to the whole
	 * program. Kernels before 6.4 list it so as well (jit_subprogs() added all functions to
	 * kallsyms, bpf_prog_load() then the program). NULL if there are no others.
	 */
	char *first_symbol;
	char *attach_target; /* what it is attached to by BTF (a kernel function's or program's
				name); NULL: nothing, or not known */
};

struct prog *prog_ref(struct prog *prog);
void prog_unref(struct prog *prog); /* NULL is fine */
DEFINE_CLEANUP(prog, struct prog *, prog_unref)

static inline bool prog_is_loaded(const struct prog *prog)
{
	return atomic_load_explicit(&prog->unloaded_mono, memory_order_acquire) == 0;
}

/* Reads BPF programs, remembering BTF by id. One thread at a time. */
struct prog_reader;

/* pool outlives the reader. -ENOMEM. */
int prog_reader_create(struct blob_pool *pool, struct prog_reader **ret);
void prog_reader_destroy(struct prog_reader *reader);
DEFINE_CLEANUP(prog_reader, struct prog_reader *, prog_reader_destroy)

/*
 * Captures program id, if it is still loaded. -ENOENT when it is gone, -EPERM when the kernel does
 * not let this reader (CAP_SYS_ADMIN) have it, -ENOMEM, -EMFILE. A part that could not be read says
 * so in its state and does not fail the capture. Cost: a handful of system calls.
 */
int prog_capture(struct prog_reader *reader, uint32_t id, struct prog **ret);
/*
 * The name of a type in a BTF object by its id: the kernel's, a module's or a program's. It is how
 * what a program or a trampoline is attached to gets its name. -ENOENT when there is no such object
 * or it has no name, -EPERM, -ENOMEM, and errors of reading /sys/kernel/btf.
 */
int prog_btf_name(struct prog_reader *reader, uint32_t obj_id, uint32_t type_id, char **ret);
/*
 * A program that was gone before it could be read: what the records said, with parts of
 * PROG_PART_GONE. Takes funcs, which were malloc()ed, also on failure. -ENOMEM.
 */
int prog_from_records(uint32_t id, const uint8_t tag[BPF_TAG_SIZE], struct prog_func *funcs,
		      size_t func_count, int error, struct prog **ret);
/* bpf_prog_TAG[_NAME], as kallsyms names a function: a string of the caller's. NULL: no memory. */
char *prog_symbol_name(const uint8_t tag[BPF_TAG_SIZE], const char *name);
/* The id after `id`, from 0 on. -ENOENT at the end, -EPERM, -EINVAL, -ENOSYS. */
int prog_next_id(uint32_t id, uint32_t *ret);

/* "socket_filter", "xdp", ...: libbpf's names; NULL for a type that is newer than libbpf. */
const char *prog_type_name(uint32_t type);
/* "hash", "array", ...; NULL likewise. */
const char *map_type_name(uint32_t type);

/* The kernel's running counters of a loaded program. -ENOENT, -EPERM. */
struct prog_stats {
	uint64_t run_cnt;
	uint64_t run_time_ns;
	uint64_t recursion_misses;
};
int prog_read_stats(uint32_t id, struct prog_stats *ret);

#endif
