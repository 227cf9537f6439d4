/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The nodes behind pins: one for each path that the kernel knows of, found by number, and by the
 * directory and name that they were found under.
 *
 * A node is what it was when it was looked up: if its name leads to another file now, that file
 * gets a node of its own, and this one is `gone`. Numbers start at a random one and are never used
 * again, also not by the next process that serves this mount: it has the nodes that are left
 * (pinleft.c), and what it does not know is stale.
 *
 * fds are a cache: directories keep the one that they were last opened with, as long as there are
 * not too many of them. A node without one is opened again by its path.
 *
 * The table's lock is an inner one and never held across a system call that could block.
 */
#ifndef FS_PINNODE_H
#define FS_PINNODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/heldfile.h"
#include "core/root.h"
#include "core/text.h"

struct pintree;
struct saved_node;

enum pinnode_kind {
	PINNODE_HIDDEN, /* the directory that all others are below of */
	PINNODE_TOP,	/* a root */
	PINNODE_ENTRY,	/* what is in a root */
	PINNODE_FILES,	/* the directory of a process's mapped files */
	PINNODE_HELD,	/* one of them, or the executable */
};

/* What a node is; all but kind is empty where it does not apply. */
struct pinnode_what {
	enum pinnode_kind kind;
	struct pintree *tree;
	struct root_identity identity;
	bool closed; /* not to be entered or opened: see root.h */
	struct held_file *file;
};

struct pinnode {
	uint64_t id;
	struct pinnode *parent;
	const char *name;
	struct pinnode_what what; /* with references */

	/* The table's, under its lock. */
	uint64_t lookups; /* of the kernel's */
	struct saved_node *saved;
	unsigned int refs;
	bool gone;
	int fd;
	unsigned int fd_users;
	bool fd_unwanted;	       /* closed by its last user */
	struct pinnode *newer, *older; /* among those with an fd */
	struct pinnode *next_by_id, *next_by_name;

	/* Those of pinfile.c, under its lock. */
	unsigned int opens;
	int32_t backing;
	struct pinfile *files;
};

struct pinnodes {
	pthread_mutex_t lock;
	uint64_t *last_id;
	struct pinnode **by_id, **by_name;
	size_t buckets, count;
	struct pinnode *newest, *oldest;
	size_t fds, max_fds;
};

int pinnodes_init(struct pinnodes *nodes, size_t max_fds);
/* All nodes go, whatever the kernel thinks of them. */
void pinnodes_deinit(struct pinnodes *nodes);

/* References, of calls in progress and of parents. */
struct pinnode *pinnode_get(struct pinnodes *nodes, uint64_t id); /* NULL: not there */
struct pinnode *pinnode_ref(struct pinnodes *nodes, struct pinnode *node);
void pinnode_put(struct pinnodes *nodes, struct pinnode *node); /* NULL is fine */

/*
 * The node of parent/name, which is `what` now: the one that there is, if it is the same, or a new
 * one. Takes references of its own to what is in `what`. The caller owns a reference. -ENOMEM.
 */
int pinnode_find(struct pinnodes *nodes, struct pinnode *parent, const char *name,
		 const struct pinnode_what *what, struct pinnode **ret);
/*
 * A node that another process has made, with its number: in the order of numbers.
 * The caller owns a reference. NULL: there is one of that number, or no memory.
 */
struct pinnode *pinnode_restore(struct pinnodes *nodes, struct pinnode *parent, const char *name,
				const struct pinnode_what *what, uint64_t id, uint64_t lookups,
				struct saved_node *saved);
/* One more lookup that the kernel will forget. */
void pinnode_count(struct pinnodes *nodes, struct pinnode *node);
void pinnode_forget(struct pinnodes *nodes, uint64_t id, uint64_t count);
bool pinnode_is_gone(struct pinnodes *nodes, const struct pinnode *node);

/* Appends a node's path in its root, `/` for the root, and a NUL that does not count. */
int pinnode_path(const struct pinnode *node, struct text *text);

/* The fd that a node has, to be used until pinnode_release_fd(). -1: it has none. */
int pinnode_use_fd(struct pinnodes *nodes, struct pinnode *node);
/* Gives a node an fd, unless it has one by now; used as above. Returns the one it has. */
int pinnode_set_fd(struct pinnodes *nodes, struct pinnode *node, int fd);
void pinnode_release_fd(struct pinnodes *nodes, struct pinnode *node);
/* Closes the fds that nobody is using. */
void pinnodes_close_fds(struct pinnodes *nodes);
/*
 * A tree is dead: its nodes let go of their fds and files, of what is in use as soon as it is not.
 */
void pinnodes_drop_tree(struct pinnodes *nodes, const struct pintree *tree);
/* With any lock held but the table's. */
bool pinnode_is_in_tree(struct pinnodes *nodes, uint64_t id, const struct pintree *tree);
/* The file of a node; a reference of the caller's. NULL: it has none, or not any more. */
struct held_file *pinnode_file(struct pinnodes *nodes, const struct pinnode *node);

/* pinleft.c: what of a node outlives this process. NULL: nothing does, and is fine. */
struct saved_node *pinleft_save(const struct pinnode *node);
void pinleft_count(struct saved_node *saved, uint64_t lookups);
void pinleft_forget(struct saved_node *saved);

/* The tree's references: pinroot.c. */
struct pintree *pintree_ref(struct pintree *tree);
void pintree_unref(struct pintree *tree); /* NULL is fine */

#endif
