/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program's translated instructions as text, in the notation of the verifier's log and of
 * `bpftool prog dump xlated`, with names for what it refers to, labels for jumps, and its source
 * lines between.
 *
 * A pure function of a captured program and of the names it is given. Takes no lock.
 *
 * Source: the instruction set, Documentation/bpf/standardization/instruction-set.rst; the notation,
 * kernel/bpf/disasm.c; what the kernel changes in a dump, kernel/bpf/syscall.c
 * bpf_insn_prepare_dump(), and in calls, kernel/bpf/verifier.c jit_subprogs().
 */
#ifndef CORE_XLATED_H
#define CORE_XLATED_H

#include "core/codename.h"
#include "core/lineinfo.h"
#include "core/prog.h"
#include "core/text.h"

/*
 * Writes all instructions. lines may be NULL. -ENODATA if the program has none that we may see,
 * -ENOMEM (also where the text has failed).
 */
int xlated_write(const struct prog *prog, const struct lineinfo *lines,
		 const struct code_names *names, struct text *text);

#endif
