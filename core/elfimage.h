/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ELF object of a program's JITed code at its real addresses, for everyday tools: a section and
 * a segment a function, symbols with exact sizes, a build id, and DWARF line tables.
 *
 * A pure function of a captured program; it serves retained programs as well as loaded ones. Takes
 * no lock.
 */
#ifndef CORE_ELFIMAGE_H
#define CORE_ELFIMAGE_H

#include <stdint.h>

#include "core/lineinfo.h"
#include "core/prog.h"
#include "core/snapshot.h"

/* e_machine of the machine this was built for; EM_NONE if it is not known. */
uint16_t elfimage_host_machine(void);

/*
 * Writes the object. lines may be NULL. Functions that have no code (of length 0, past the image,
 * inside another one) are left out. -ENODATA if none has any, -EOPNOTSUPP for EM_NONE, -E2BIG for
 * more functions than ELF has section numbers, -ENOMEM, -EIO.
 */
int elfimage_write(const struct prog *prog, const struct lineinfo *lines, uint16_t machine,
		   struct snapshot **ret);

#endif
