/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers for what is read of foreign files. A few are kept: memory that is fresh for each answer
 * comes a page fault a page, which takes several times as long as to read into it.
 *
 * One lock; any thread.
 */
#ifndef FS_READBUF_H
#define FS_READBUF_H

#include <stddef.h>

#include "core/cleanup.h"

struct readbuf;
struct readbufs;

/* -ENOMEM. */
int readbufs_create(struct readbufs **ret);
void readbufs_destroy(struct readbufs *bufs); /* NULL is fine */

/* To be given back with readbuf_put(). NULL: no memory. */
struct readbuf *readbuf_get(struct readbufs *bufs, size_t size);
void *readbuf_data(struct readbuf *buf);
void readbuf_put(struct readbuf *buf); /* NULL is fine */
DEFINE_CLEANUP(readbuf, struct readbuf *, readbuf_put)
#define _cleanup_readbuf_ CLEANUP(readbuf_cleanup)

#endif
