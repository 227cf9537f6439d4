/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program's machine code, disassembled: names for what it calls, labels for its jumps, its source
 * lines between. By capstone, where this was built with it and it is installed.
 *
 * A pure function of a captured program and of the names it is given. Takes no lock.
 */
#ifndef CORE_ASM_H
#define CORE_ASM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codename.h"
#include "core/lineinfo.h"
#include "core/prog.h"
#include "core/text.h"

/* Was this built with a disassembler, and is it there? Loads it, the first time. */
bool asm_is_available(void);

/*
 * Writes all functions in the kernel's order. machine is an ELF e_machine; lines and names may be
 * NULL. Bytes that are no instruction are written as such. -ENODATA if there is no code that we may
 * see, -EOPNOTSUPP without a disassembler or with one that does not know the machine, -ENOMEM.
 */
int asm_write(const struct prog *prog, const struct lineinfo *lines, const struct code_names *names,
	      uint16_t machine, struct text *text);

#endif
