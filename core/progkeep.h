/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that outlive the process (carry.h): what was captured of one is kept as one block,
 * beside the blobs that it refers to, which are blocks themselves.
 */
#ifndef CORE_PROGKEEP_H
#define CORE_PROGKEEP_H

#include "core/prog.h"

struct prog_record;

/* A record of a program: carry_free() lets go of it. NULL: no region, or no memory. */
struct prog_record *prog_keep(const struct prog *prog);
/* It was unloaded. NULL is fine. */
void prog_keep_unload(struct prog_record *record, const struct prog *prog);

/* All that another process kept, by the time of their unload, the loaded ones last, referenced. */
int progs_restore(struct blob_pool *pool, struct prog ***ret, size_t *ret_count);

#endif
