/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes behind pins, and the cache of their fds: see pinnode.h. */
#include "fs/pinnode.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/carry.h"
#include "fs/session.h"

#define FIRST_BUCKETS 1024

static uint64_t hash_id(uint64_t id)
{
	return id * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static uint64_t hash_name(const struct pinnode *parent, const char *name)
{
	uint64_t hash = parent ? parent->id : 0;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash_id(hash);
}

int pinnodes_init(struct pinnodes *nodes, size_t max_fds)
{
	*nodes = (struct pinnodes){.buckets = FIRST_BUCKETS, .max_fds = max_fds};
	nodes->by_id = calloc(nodes->buckets, sizeof(*nodes->by_id));
	nodes->by_name = calloc(nodes->buckets, sizeof(*nodes->by_name));
	if (!nodes->by_id || !nodes->by_name) {
		free(nodes->by_id);
		free(nodes->by_name);
		return -ENOMEM;
	}
	pthread_mutex_init(&nodes->lock, NULL);
	nodes->last_id = &carry_root()->last_foreign_node;
	if (*nodes->last_id)
		return 0;
	if (getrandom(nodes->last_id, sizeof(*nodes->last_id), 0) < 0)
		*nodes->last_id = 0;
	/* Far from the end of its bits, and above the first one, which is always the same. */
	*nodes->last_id = FOREIGN_NODE | (*nodes->last_id >> 2);
	return 0;
}

static void free_node(struct pinnode *node)
{
	if (node->fd >= 0)
		close(node->fd);
	pinleft_forget(node->saved);
	held_file_unref(node->what.file);
	pintree_unref(node->what.tree);
	free((char *)node->name);
	free(node);
}

void pinnodes_deinit(struct pinnodes *nodes)
{
	for (size_t i = 0; i < nodes->buckets; i++) {
		for (struct pinnode *node = nodes->by_id[i], *next; node; node = next) {
			next = node->next_by_id;
			free_node(node);
		}
	}
	free(nodes->by_id);
	free(nodes->by_name);
	pthread_mutex_destroy(&nodes->lock);
}

/* All below with the lock held, but where it says otherwise. */

static struct pinnode **slot_of_id(struct pinnodes *nodes, uint64_t id)
{
	struct pinnode **at = &nodes->by_id[hash_id(id) % nodes->buckets];

	while (*at && (*at)->id != id)
		at = &(*at)->next_by_id;
	return at;
}

static struct pinnode **slot_of_name(struct pinnodes *nodes, const struct pinnode *parent,
				     const char *name)
{
	struct pinnode **at = &nodes->by_name[hash_name(parent, name) % nodes->buckets];

	while (*at && ((*at)->parent != parent || strcmp((*at)->name, name) != 0))
		at = &(*at)->next_by_name;
	return at;
}

/* Where it is full, it stays as it is, only slower. */
static void grow(struct pinnodes *nodes)
{
	size_t buckets = nodes->buckets * 4;
	struct pinnode **by_id = calloc(buckets, sizeof(*by_id));
	struct pinnode **by_name = calloc(buckets, sizeof(*by_name));

	if (!by_id || !by_name) {
		free(by_id);
		free(by_name);
		return;
	}
	for (size_t i = 0; i < nodes->buckets; i++) {
		for (struct pinnode *node = nodes->by_id[i], *next; node; node = next) {
			struct pinnode **at = &by_id[hash_id(node->id) % buckets];

			next = node->next_by_id;
			node->next_by_id = *at;
			*at = node;
			if (node->gone)
				continue;
			at = &by_name[hash_name(node->parent, node->name) % buckets];
			node->next_by_name = *at;
			*at = node;
		}
	}
	free(nodes->by_id);
	free(nodes->by_name);
	nodes->by_id = by_id;
	nodes->by_name = by_name;
	nodes->buckets = buckets;
}

static void unlink_fd(struct pinnodes *nodes, struct pinnode *node)
{
	*(node->newer ? &node->newer->older : &nodes->newest) = node->older;
	*(node->older ? &node->older->newer : &nodes->oldest) = node->newer;
	node->newer = node->older = NULL;
	nodes->fds--;
}

static void link_fd(struct pinnodes *nodes, struct pinnode *node)
{
	node->older = nodes->newest;
	*(nodes->newest ? &nodes->newest->newer : &nodes->oldest) = node;
	nodes->newest = node;
	nodes->fds++;
}

/* O_PATH fds: closing one asks no file system. */
static void close_node_fd(struct pinnodes *nodes, struct pinnode *node)
{
	unlink_fd(nodes, node);
	close(node->fd);
	node->fd = -1;
	node->fd_unwanted = false;
}

static void make_gone(struct pinnodes *nodes, struct pinnode *node)
{
	if (node->gone)
		return;
	*slot_of_name(nodes, node->parent, node->name) = node->next_by_name;
	node->gone = true;
}

/* Takes out what nobody knows any more, and then its parents; they are put on a list to be freed.
 */
static void put_locked(struct pinnodes *nodes, struct pinnode *node, struct pinnode **freed)
{
	while (node && --node->refs == 0 && node->lookups == 0) {
		struct pinnode *parent = node->parent;

		make_gone(nodes, node);
		*slot_of_id(nodes, node->id) = node->next_by_id;
		nodes->count--;
		if (node->fd >= 0)
			close_node_fd(nodes, node);
		node->next_by_id = *freed;
		*freed = node;
		node = parent;
	}
}

/* Without the lock: a tree may go with its last node. */
static void free_list(struct pinnode *freed)
{
	while (freed) {
		struct pinnode *next = freed->next_by_id;

		free_node(freed);
		freed = next;
	}
}

struct pinnode *pinnode_get(struct pinnodes *nodes, uint64_t id)
{
	LOCKED(&nodes->lock);
	struct pinnode *node = *slot_of_id(nodes, id);

	if (node)
		node->refs++;
	return node;
}

bool pinnode_is_in_tree(struct pinnodes *nodes, uint64_t id, const struct pintree *tree)
{
	LOCKED(&nodes->lock);
	const struct pinnode *node = *slot_of_id(nodes, id);

	return node && node->what.tree == tree;
}

struct pinnode *pinnode_ref(struct pinnodes *nodes, struct pinnode *node)
{
	LOCKED(&nodes->lock);
	node->refs++;
	return node;
}

void pinnode_put(struct pinnodes *nodes, struct pinnode *node)
{
	struct pinnode *freed = NULL;

	if (!node)
		return;
	pthread_mutex_lock(&nodes->lock);
	put_locked(nodes, node, &freed);
	pthread_mutex_unlock(&nodes->lock);
	free_list(freed);
}

static bool is_same(const struct pinnode_what *a, const struct pinnode_what *b)
{
	return a->kind == b->kind && a->tree == b->tree && a->closed == b->closed &&
	       a->file == b->file && root_same_file(&a->identity, &b->identity);
}

static struct pinnode *make_node(struct pinnode *parent, const char *name,
				 const struct pinnode_what *what)
{
	struct pinnode *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->name = strdup(name);
	if (!node->name) {
		free(node);
		return NULL;
	}
	node->parent = parent;
	node->what = *what;
	if (what->tree)
		pintree_ref(what->tree);
	if (what->file)
		held_file_ref(what->file);
	node->fd = -1;
	node->refs = 1;
	return node;
}

/* Puts in a new node, which has that name from here on. */
static void insert(struct pinnodes *nodes, struct pinnode *made)
{
	struct pinnode *before = *slot_of_name(nodes, made->parent, made->name);

	if (before)
		make_gone(nodes, before);
	if (nodes->count >= nodes->buckets)
		grow(nodes);
	if (made->parent)
		made->parent->refs++;
	*slot_of_id(nodes, made->id) = made;
	*slot_of_name(nodes, made->parent, made->name) = made;
	nodes->count++;
}

int pinnode_find(struct pinnodes *nodes, struct pinnode *parent, const char *name,
		 const struct pinnode_what *what, struct pinnode **ret)
{
	LOCKED(&nodes->lock);
	struct pinnode *node = *slot_of_name(nodes, parent, name);

	if (node && is_same(&node->what, what)) {
		node->refs++;
		*ret = node;
		return 0;
	}
	struct pinnode *made = make_node(parent, name, what);

	if (!made)
		return -ENOMEM;
	made->id = parent ? ++*nodes->last_id : FOREIGN_NODE;
	insert(nodes, made);
	made->saved = pinleft_save(made);
	*ret = made;
	return 0;
}

struct pinnode *pinnode_restore(struct pinnodes *nodes, struct pinnode *parent, const char *name,
				const struct pinnode_what *what, uint64_t id, uint64_t lookups,
				struct saved_node *saved)
{
	LOCKED(&nodes->lock);
	if (*slot_of_id(nodes, id))
		return NULL;
	struct pinnode *made = make_node(parent, name, what);

	if (!made)
		return NULL;
	made->id = id;
	made->lookups = lookups;
	made->saved = saved;
	insert(nodes, made);
	return made;
}

void pinnode_count(struct pinnodes *nodes, struct pinnode *node)
{
	LOCKED(&nodes->lock);
	pinleft_count(node->saved, ++node->lookups);
}

void pinnode_forget(struct pinnodes *nodes, uint64_t id, uint64_t count)
{
	struct pinnode *freed = NULL;

	pthread_mutex_lock(&nodes->lock);
	struct pinnode *node = *slot_of_id(nodes, id);

	if (node) {
		node->lookups -= MIN(count, node->lookups);
		pinleft_count(node->saved, node->lookups);
		node->refs++;
		put_locked(nodes, node, &freed);
	}
	pthread_mutex_unlock(&nodes->lock);
	free_list(freed);
}

bool pinnode_is_gone(struct pinnodes *nodes, const struct pinnode *node)
{
	LOCKED(&nodes->lock);
	return node->gone;
}

int pinnode_path(const struct pinnode *node, struct text *text)
{
	size_t len = 0;

	/* Names and parents never change: no lock. */
	for (const struct pinnode *at = node; at->what.kind == PINNODE_ENTRY; at = at->parent)
		len += 1 + strlen(at->name);
	char *path = text_reserve(text, MAX(len, (size_t)1) + 1);

	if (!path)
		return -ENOMEM;
	char *to = path + len;

	*to = '\0';
	for (const struct pinnode *at = node; at->what.kind == PINNODE_ENTRY; at = at->parent) {
		size_t name_len = strlen(at->name);

		to -= name_len;
		memcpy(to, at->name, name_len);
		*--to = '/';
	}
	if (!len)
		strcpy(path, "/");
	text->len += MAX(len, (size_t)1);
	return 0;
}

int pinnode_use_fd(struct pinnodes *nodes, struct pinnode *node)
{
	LOCKED(&nodes->lock);
	if (node->fd < 0)
		return -1;
	node->fd_users++;
	unlink_fd(nodes, node);
	link_fd(nodes, node);
	return node->fd;
}

int pinnode_set_fd(struct pinnodes *nodes, struct pinnode *node, int fd)
{
	LOCKED(&nodes->lock);
	if (node->fd < 0) {
		node->fd = fd;
		link_fd(nodes, node);
	} else {
		close(fd);
	}
	node->fd_users++;
	struct pinnode *at = nodes->oldest;

	while (nodes->fds > nodes->max_fds && at) {
		struct pinnode *newer = at->newer;

		if (!at->fd_users)
			close_node_fd(nodes, at);
		at = newer;
	}
	return node->fd;
}

void pinnode_release_fd(struct pinnodes *nodes, struct pinnode *node)
{
	LOCKED(&nodes->lock);
	if (--node->fd_users == 0 && node->fd_unwanted)
		close_node_fd(nodes, node);
}

void pinnodes_close_fds(struct pinnodes *nodes)
{
	LOCKED(&nodes->lock);
	for (struct pinnode *at = nodes->oldest, *newer; at; at = newer) {
		newer = at->newer;
		if (!at->fd_users)
			close_node_fd(nodes, at);
	}
}

void pinnodes_drop_tree(struct pinnodes *nodes, const struct pintree *tree)
{
	LOCKED(&nodes->lock);
	for (size_t i = 0; i < nodes->buckets; i++) {
		for (struct pinnode *node = nodes->by_id[i]; node; node = node->next_by_id) {
			if (node->what.tree != tree)
				continue;
			held_file_unref(take_ptr(node->what.file));
			if (node->fd < 0)
				continue;
			if (node->fd_users)
				node->fd_unwanted = true;
			else
				close_node_fd(nodes, node);
		}
	}
}

struct held_file *pinnode_file(struct pinnodes *nodes, const struct pinnode *node)
{
	LOCKED(&nodes->lock);
	return node->what.file ? held_file_ref(node->what.file) : NULL;
}
