/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of holders_write() that walk the kernel's ids: see holders.h. Each writes its lines. */
#ifndef CORE_HOLDERS_PARTS_H
#define CORE_HOLDERS_PARTS_H

#include "core/prog.h"
#include "core/text.h"

void holders_write_links(const struct prog *prog, struct text *text);
void holders_write_maps(const struct prog *prog, struct text *text);

#endif
