/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon: everything that the tree is made of. It mounts nothing and unmounts nothing, and may
 * die at any time: see supervise.h.
 */
#ifndef FS_DAEMON_H
#define FS_DAEMON_H

#include "fs/options.h"

/* Serves what the supervisor at options->serve hands over. Returns the exit status. */
int daemon_serve(const struct options *options);

#endif
