/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The DWARF sections that tell debuggers which source line JITed code comes from: one compile unit
 * of functions, and a line table with a sequence a function.
 *
 * It is DWARF 4, since that is what everything of the last ten years reads without complaint, and
 * written by hand: there is no type, no variable and no inlined function to describe, as BTF does
 * not tell where those live in machine code. Pure; takes no lock.
 *
 * Source: DWARF 4 standard, 6.1.2 (aranges), 6.2 (line table), 7.5 (info).
 */
#ifndef CORE_DEBUGINFO_H
#define CORE_DEBUGINFO_H

#include <stddef.h>
#include <stdint.h>

#include "core/lineinfo.h"
#include "core/text.h"

/* A function with code; in a list, by address and without overlap. */
struct code_func {
	uint32_t index; /* into prog->funcs */
	uint64_t addr;
	uint32_t len;
	const void *code;
};

struct debuginfo {
	struct text info, abbrev, line, str, ranges, aranges;
};

void debuginfo_deinit(struct debuginfo *debug);
#define _cleanup_debuginfo_ CLEANUP(debuginfo_deinit)

/*
 * Fills the sections in, in the byte order of this machine. Without lines (NULL, or none by
 * address) there is no line table, and ret->line stays empty. -ENOMEM.
 */
int debuginfo_build(const struct prog *prog, const struct code_func *funcs, size_t count,
		    const struct lineinfo *lines, struct debuginfo *ret);

#endif
