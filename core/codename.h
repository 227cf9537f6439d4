/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How disassemblers name what a program calls in the kernel. They know no symbol table: whoever
 * renders gives them this.
 */
#ifndef CORE_CODENAME_H
#define CORE_CODENAME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text.h"

struct code_names {
	/*
	 * Writes what is at an address, NAME or NAME+0xOFF, escaped, and returns true; or writes
	 * nothing and returns false. May be NULL.
	 */
	bool (*address)(void *arg, uint64_t addr, struct text *text);
	/* The same for a function's id in the kernel's own BTF. May be NULL. */
	bool (*kfunc)(void *arg, uint32_t btf_id, struct text *text);
	void *arg;
	/* Where __bpf_call_base is: the kernel gives a call as the distance from there. 0: not
	 * known. */
	uint64_t call_base;
};

#endif
