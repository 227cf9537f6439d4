/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What went wrong, said to who started the program. */
#ifndef FS_COMPLAIN_H
#define FS_COMPLAIN_H

#include "core/text.h"

/* To stderr: error, or, where that says nothing, what the -errno r means; and what helps. */
void complain(const struct text *error, int r);

#endif
