/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in memory from which the kernel reads big snapshots by itself (passthrough, 6.9): no
 * request for what is read, no page cache of its own, and huge pages where it has them.
 *
 * A file is written when the first handle of a snapshot is opened. It is written again, from where
 * the two differ, for a later snapshot, but never while anybody has it open or mapped, and that is
 * the kernel's word: a mapping outlives its handle, of whose end we are told. So a new version of a
 * big file costs what changed.
 *
 * What is registered outlives the process, as the connection does: so the numbers do too
 * (core/carry.h).
 *
 * One lock, which is not held while a file is written; any thread.
 */
#ifndef FS_BACKING_H
#define FS_BACKING_H

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/snapshot.h"

/* Below this, what is read in one or two requests is as fast. */
#define BACKING_MIN (UINT64_C(1) << 20)

struct session;
struct backing;
struct backings;

/* The session is asked for passthrough, and outlives this. -ENOMEM. */
int backings_create(struct session *session, struct backings **ret);
void backings_destroy(struct backings *backings); /* NULL is fine */
DEFINE_CLEANUP(backings, struct backings *, backings_destroy)
#define _cleanup_backings_ CLEANUP(backings_cleanup)

/*
 * The file of a snapshot, to be given back with backings_put(). NULL: the kernel does not read by
 * itself, there is no memory, or the files hold as much as they may; then it is to be read by
 * requests.
 */
struct backing *backings_get(struct backings *backings, struct snapshot *snapshot);
void backings_put(struct backings *backings, struct backing *backing); /* NULL is fine */
/*
 * One that another process has registered with the connection, and that a handle of before is read
 * from: as backings_get() gives it, but for its file, which is the kernel's alone. size: of what it
 * has. NULL: -ENOMEM.
 */
struct backing *backings_inherit(struct backings *backings, int32_t id, uint64_t size);
/* No more of those come: the others that were registered are not needed any more. */
void backings_forget_others(struct backings *backings);
/*
 * Of another process's nothing is known any more, whoever's they were: all go. Before any are made.
 */
void backings_forget_unknown(struct backings *backings);
/* What a reply to OPEN names it by. */
int32_t backing_id(const struct backing *backing);
/* What all files hold. */
uint64_t backings_bytes(struct backings *backings);

#endif
