/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node table: what the kernel holds of the tree, by node id.
 *
 * A file's node is one version of it. When the content changes, a lookup answers another node id
 * with the same inode number, so that the kernel keeps a page cache for each version, and an open
 * file or a mapping of an old one never sees new bytes. Directories and symlinks have one node a
 * path.
 *
 * Ids are computed from path and generation, and a node is no more than those two, its counts and a
 * snapshot. It outlives the process (core/carry.h): the next one finds the nodes, and whoever knows
 * of open handles says of which node (node_resume()). An id that is not in the table is ESTALE.
 *
 * A node is rendered when somebody asks for its size or opens it; when it is looked up, only where
 * that is quick (view.h). Once it is rendered, its size is told at each lookup, and while a handle
 * is open its content stays: all handles of a node share one snapshot. Before, each thread that
 * looks it up gets a node of its own. Unopened snapshots are kept
 * in a cache of bounded size, and sizes are remembered past that.
 *
 * The table renders nothing: where content is needed, it says so (NODE_RENDER) and takes the result
 * in a second call, so its lock, an inner one, is held for moments.
 */
#ifndef FS_NODE_H
#define FS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot.h"
#include "fs/view.h"

#define NODE_ROOT UINT64_C(1)

struct backing;

/* Which bytes: a generation of the view's, or, where it has none to give, a number of our own. */
struct content {
	bool unique;
	uint64_t number;
};

/* What never changes may be read by whoever holds the node; the rest is the table's. */
struct node {
	uint64_t id;
	uint64_t ino;	     /* the same for all versions of a path */
	uint64_t generation; /* the view's at lookup, VIEW_VOLATILE too */
	enum view_kind kind;
	bool fixed, slow; /* as in struct view_attr */

	uint64_t lookups; /* the kernel's, until it forgets them */
	uint64_t opens;
	unsigned int holds; /* requests that work on it now */

	struct view_attr attr; /* of what was rendered last */
	bool rendered;
	struct content content; /* of what was rendered */
	uint64_t size;
	struct snapshot *snapshot; /* while open, or as long as the cache has room */
	uint64_t kept;		   /* where its bytes outlive us, once it was kept; 0 */
	/* While open: how it is read, and the file that the kernel reads, or NULL. */
	bool reading_settled;
	struct backing *backing;
	int32_t backing_id; /* its number, also where another process made it; 0 */
	bool has_pages;	    /* the kernel may have pages, of page_content */
	struct content page_content;
	/*
	 * Of volatile content: the thread whose stat rendered this, until anyone asks again. An
	 * open(2) is a lookup, a stat for the permission check, and an open: one rendering will do.
	 */
	pid_t rendered_for;
	/*
	 * Before it is rendered: the thread that looked it up last, and was told a size of 0. It is
	 * nobody else's: the kernel might take that for the size when another has the true one
	 * already, and drop a true one that is under way. Who reads page by page, or copies by
	 * sendfile(2), would meet the end at once. The thread itself has its answer before it goes
	 * on. 0: nobody that we can see.
	 */
	pid_t looked_up_by;

	struct node *next_id, *next_path; /* hash chains */
	bool in_cache;			  /* unopened, with a snapshot */
	struct node *cache_older, *cache_newer;

	char path[]; /* within the tree, without a leading slash */
};

struct node_table;

/*
 * cache_bytes: how much unopened snapshots may hold. The root is in it from the start, and so are
 * the nodes of a process that is gone, without open handles. -ENOMEM.
 */
int node_table_create(size_t cache_bytes, struct node_table **ret);
void node_table_destroy(struct node_table *table); /* NULL is fine */
DEFINE_CLEANUP(node_table, struct node_table *, node_table_destroy)
#define _cleanup_node_table_ CLEANUP(node_table_cleanup)

/* The inode number of a path. */
uint64_t node_ino(const char *path, size_t len);

/*
 * The node that a lookup of path by a thread answers: found or made, held, one lookup counted.
 * *ret_size is the size to tell: true for what is rendered and for streams, 0 for what is not.
 * -ENOMEM.
 */
int node_lookup(struct node_table *table, const char *path, const struct view_attr *attr, pid_t tid,
		struct node **ret, uint64_t *ret_size);
/* The node with this id, held; NULL: ESTALE. */
struct node *node_get(struct node_table *table, uint64_t id);
void node_put(struct node_table *table, struct node *node);
/* The kernel drops count lookups of id. */
void node_forget(struct node_table *table, uint64_t id, uint64_t count);

/* What a step needs next. */
enum node_step {
	NODE_READY,
	NODE_RENDER, /* render, then call the step's second half */
};

/*
 * Is what the node's path is now, `now`, still what the node belongs to? -ESTALE for a directory
 * or a fixed name whose generation has passed, or another kind of thing.
 */
int node_check(const struct node *node, const struct view_attr *now);

/* A rendering: snapshot is NULL for a stream. */
struct rendering {
	struct snapshot *snapshot; /* the caller's reference */
	struct view_attr attr;
	/* The generation was the same before and after: the bytes are of attr.generation. */
	bool settled;
};

/* Does the node have handles open? Then its own attributes and size, whatever the path is now. */
bool node_stat_open(struct node_table *table, struct node *node, struct view_attr *ret_attr,
		    uint64_t *ret_size);
/* The size of a file without open handles, whose path is `now`; or NODE_RENDER. */
enum node_step node_stat(struct node_table *table, struct node *node, const struct view_attr *now,
			 struct view_attr *ret_attr, uint64_t *ret_size);
void node_stat_rendered(struct node_table *table, struct node *node, pid_t tid,
			const struct rendering *rendering, struct view_attr *ret_attr,
			uint64_t *ret_size);

/* How a handle was opened. */
struct node_open {
	bool keep_pages; /* what the kernel has cached is of the same bytes */
	bool direct;	 /* what it has cached is not to be used */
};

/*
 * Opens a file or a stream whose path is `now`, for a thread. NODE_READY: opened. NODE_RENDER: as
 * *ret says, once there is a rendering. -ESTALE: the node is an older version than the path has;
 * the kernel then walks the path once more.
 */
int node_open(struct node_table *table, struct node *node, const struct view_attr *now, pid_t tid,
	      struct node_open *ret);
/* -ESTALE: meanwhile another one has opened other bytes. A retry is given those. */
int node_open_rendered(struct node_table *table, struct node *node,
		       const struct rendering *rendering, pid_t tid, struct node_open *ret);
/*
 * Settles how an open node is read, which is one way for all who have it open. file is what the
 * caller has for the kernel to read, or NULL: by requests. True for the first who has it open: then
 * the file is the node's. *ret is what the first had.
 */
bool node_settle_reading(struct node_table *table, struct node *node, struct backing *file,
			 struct backing **ret);
/* Returns the file that nobody reads any more, the caller's to give back, or NULL. */
struct backing *node_release(struct node_table *table, struct node *node);

/* Keeps an open node's bytes for a process that takes over, before its handle is told. */
void node_keep(struct node_table *table, struct node *node);
/* One handle of a node that this process did not open: held. NULL: its bytes are not there. */
struct node *node_resume(struct node_table *table, uint64_t id);
/* No more of those come: what has no handle is as if it had never been read. */
void node_table_settle(struct node_table *table);

/* The open node's snapshot, with a reference for the caller; NULL if it is not open. */
struct snapshot *node_snapshot(struct node_table *table, struct node *node);

struct node_stats {
	size_t nodes, open, cached_bytes;
};
void node_table_stats(struct node_table *table, struct node_stats *ret);

#endif
