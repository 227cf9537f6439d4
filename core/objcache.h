/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The notes of ELF objects, each file read once: known by device, inode, size, mtime and ctime, for
 * all processes together. What is used least goes when there is too much.
 *
 * Any thread may ask. Those who ask for an object that is being read wait for that one reading, on
 * a file system that may never answer: ask in a thread that can be left behind (offload.h). The
 * cache has one lock, which is not held while a file is read.
 */
#ifndef CORE_OBJCACHE_H
#define CORE_OBJCACHE_H

#include "core/cleanup.h"
#include "core/notes.h"
#include "core/procfile.h"

struct objcache;

/* Immutable. */
struct object {
	struct notes notes;
	int error; /* why there are none: -ENOEXEC, -EFBIG; 0 otherwise */
		   /* the rest is the cache's */
};

/* Bytes of notes to keep. */
#define OBJCACHE_BYTES (64u << 20)

int objcache_create(size_t bytes_max, struct objcache **ret);
/* Objects that are referenced, and threads that read, outlive it. NULL is fine. */
void objcache_destroy(struct objcache *cache);
struct objcache *objcache_ref(struct objcache *cache);
DEFINE_CLEANUP(objcache, struct objcache *, objcache_destroy)

/*
 * The object that a file is, read if need be; the caller owns a reference. Can hang. A file without
 * notes, or that is no ELF object, is an object with none. -ENOMEM, or what the kernel says when it
 * is read; neither is remembered.
 */
int objcache_get(struct objcache *cache, const struct mapped_file *file, struct object **ret);
/* The same if it is there and read; NULL if not. Never waits for a file. */
struct object *objcache_find(struct objcache *cache, const struct file_state *state);
struct object *object_ref(struct object *object);
void object_unref(struct object *object); /* NULL is fine */
DEFINE_CLEANUP(object, struct object *, object_unref)

struct objcache_stats {
	size_t objects, bytes; /* kept */
	uint64_t reads, hits;
	uint64_t too_large; /* reads that ended with -EFBIG, and what was left out */
};

/* Somebody had to leave one out: counts it as too large. */
void objcache_left_out(struct objcache *cache);
void objcache_stats(struct objcache *cache, struct objcache_stats *ret);

#endif
