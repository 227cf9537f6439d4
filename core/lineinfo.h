/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From machine code back to source: the line info that a program's BTF carries, checked record by
 * record, by machine address and by translated instruction.
 *
 * A pure function of a captured program. What is wrong in it (a string outside the BTF, an address
 * in no function, records out of order) is left out and counted: a line that is shown is right.
 * Takes no lock.
 *
 * Source: kernel/bpf/verifier.c check_btf_line(), kernel/bpf/core.c bpf_prog_fill_jited_linfo().
 */
#ifndef CORE_LINEINFO_H
#define CORE_LINEINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/prog.h"
#include "core/text.h"

struct line {
	const char *file; /* as the compiler wrote it; never empty; lives in the program's BTF */
	const char *text; /* without the blanks at its front; likewise */
	uint32_t number;  /* 0 where the compiler knew none */
	uint32_t column;
	uint32_t record; /* which of the program's line records */
	uint32_t insn;	 /* index of a translated instruction */
	uint32_t func;	 /* index into prog->funcs; only of those in by_addr */
	uint64_t addr;	 /* of machine code, likewise */
};

/* Records that could not be placed, each counted once, under the first reason. */
struct lineinfo_left_out {
	size_t strings; /* file name or text outside the BTF's strings */
	size_t range;	/* in no function of the program, or in another than its instruction */
	size_t order;	/* before its predecessor in the same function */
};

struct lineinfo {
	struct line *lines; /* all with good strings, in the program's order */
	size_t count;
	/* By address; those that share one, in the program's order. The last of them is the one
	 * that has code. */
	const struct line **by_addr;
	size_t addr_count;
	const struct line **by_insn; /* one an instruction at most, ascending */
	size_t insn_count;
	struct lineinfo_left_out addr_left_out, insn_left_out;
	/* See lineinfo_is_shifted(): nothing was placed. */
	bool shifted;
};

/* How many line records the program has, good ones and bad. */
size_t lineinfo_record_count(const struct prog *prog);
/* Would lineinfo_read() succeed? Cheap. */
bool lineinfo_is_readable(const struct prog *prog);

/*
 * Do the records not fit the program's functions? The verifier lets no program of several functions
 * in unless each begins with a record, all of them ascending and within the program. Constant
 * blinding breaks that: the kernel blinds each function by itself but moves the records of the
 * whole program, since bpf_adj_linfo() is given offsets within the function. Every record after
 * the first blinded constant is off then, and with it the address that the JIT gives it. (In a
 * program of one function the two offsets are the same, and all is well.)
 */
bool lineinfo_is_shifted(const struct prog *prog);

/*
 * Reads the line info of a program; it points into prog, which must outlive it. -ENODATA for a
 * program that has none (or none that we could read), -EBADMSG for BTF or records that cannot be
 * read at all, -ENOMEM.
 */
int lineinfo_read(const struct prog *prog, struct lineinfo *ret);
void lineinfo_deinit(struct lineinfo *info);
#define _cleanup_lineinfo_ CLEANUP(lineinfo_deinit)

/*
 * The line of the machine code at addr: of the nearest entry at or below it within the same
 * function. NULL if there is none. O(log n).
 */
const struct line *lineinfo_find(const struct lineinfo *info, const struct prog *prog,
				 uint64_t addr);

/* How many entries of by_addr are below addr: the index of the first that is not. */
size_t lineinfo_count_below(const struct lineinfo *info, uint64_t addr);

/* FILE:LINE:COL: TEXT */
void line_write(const struct line *line, struct text *text);
/* ADDR FUNCTION+0xOFF FILE:LINE:COL: TEXT, a row an entry, by address. */
void lineinfo_write_lines(const struct lineinfo *info, const struct prog *prog, struct text *text);
/* FILE:LINE:COL: TEXT, each source line once, by file and line. -ENOMEM. */
int lineinfo_write_source(const struct lineinfo *info, struct text *text);

#endif
