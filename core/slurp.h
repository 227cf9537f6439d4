/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole files of /proc, which say nothing of their size. */
#ifndef CORE_SLURP_H
#define CORE_SLURP_H

#include <stddef.h>

#include "core/text.h"

/*
 * Appends what fd has from its present offset to its end, not more than max bytes: what is longer
 * is -EFBIG. -ESRCH where the process that it tells of has gone, other errors of read(2), -ENOMEM.
 */
int slurp_fd(int fd, size_t max, struct text *text);
/* The same for dir_fd/name. */
int slurp_at(int dir_fd, const char *name, size_t max, struct text *text);

#endif
