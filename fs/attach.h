/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `ksymfs attach` and `ksymfs detach`: a copy of the mount, read-only, in the mount namespace of a
 * running process.
 *
 * All of it is done by the command, which root runs; the daemon is not asked and keeps nothing. It
 * finds the copies when it must (core/mountns.h). The copy takes part in no propagation. Where the
 * process's user namespace does not have the tree's owner, the copy is id-mapped by it, so that the
 * owner of the tree is the container's root there; what that root may see is up to fs/access.h all
 * the same.
 *
 * In the container nothing is trusted: its paths are looked up below the process's root, links in
 * them too, and what was found is held by an fd from there on.
 */
#ifndef FS_ATTACH_H
#define FS_ATTACH_H

#include "core/text.h"
#include "fs/options.h"

/*
 * -errno, after one line for people, without a newline, was written to `message`. On success too
 * there can be one, on what the user should know.
 */
int attach(const struct options *options, struct text *message);
int detach(const struct options *options, struct text *message);

#endif
