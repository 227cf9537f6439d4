/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is behind pins: roots, mapped files and executables of pinned processes, as foreign nodes of
 * the session (fs/session.h). It is below a hidden directory, into which symlinks of pins/ lead:
 *
 *	.roots/PID@STARTTICKS			the root of the process
 *	.roots/PID@STARTTICKS.files/START-END	a file that it has mapped
 *
 * The trees are live, and nothing of them is kept: the kernel asks again for each name and each
 * attribute, and reads past the page cache (or by passthrough). Permissions are those of the files:
 * the kernel checks them by the modes and owners given here. What can block is done for the one
 * caller who asked, and if too many calls hang in one root, others into it are refused, so that
 * there are workers left for the other roots.
 */
#ifndef FS_PINROOT_H
#define FS_PINROOT_H

#include <stdint.h>

#include "core/cleanup.h"
#include "core/pinset.h"
#include "core/text.h"
#include "fs/session.h"

struct pinroot;

#define PINROOT_NAME ".roots"

extern const struct foreign_ops pinroot_ops;

/* -ENOMEM. */
int pinroot_create(struct session *session, struct pinroot **ret);
/* With what another process had open of them. Before the session starts. The set outlives it. */
void pinroot_set_pins(struct pinroot *pinroot, struct pinset *pins);
void pinroot_destroy(struct pinroot *pinroot); /* NULL is fine */
DEFINE_CLEANUP(pinroot, struct pinroot *, pinroot_destroy)

/* The node of a pin's executable, for VIEW_FOREIGN. -ENOENT, -ESTALE, -ENOMEM. */
int pinroot_exe(struct pinroot *pinroot, struct pin *pin, uint64_t *ret_id);
/* A pin was let go of: all that is open of it is closed, and says ESTALE from here on. */
void pinroot_drop(struct pinroot *pinroot, struct pin *pin);

void pinroot_status(struct pinroot *pinroot, struct text *text);
void pinroot_metrics(struct pinroot *pinroot, struct text *text);

#endif
