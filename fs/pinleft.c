/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Nodes behind pins that outlive the process: each is told of in a block of core/carry.h, from when
 * it is made until the kernel has forgotten it. Who takes over makes them again, under the numbers
 * that the kernel knows, where the pin still has the root, and the file, that they were of.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/carry.h"
#include "fs/pinroot_internal.h"

struct saved_node {
	uint64_t id, parent;
	uint64_t lookups;
	int32_t pid; /* of the pin, with start_ticks; 0: none */
	uint32_t kind;
	uint64_t start_ticks;
	uint64_t root; /* root_number() */
	uint64_t file; /* held_file_keep() */
	struct root_identity identity;
	uint32_t closed;
	char name[];
};

struct saved_node *pinleft_save(const struct pinnode *node)
{
	size_t name_size = strlen(node->name) + 1;
	const struct pinnode_what *what = &node->what;
	struct saved_node *saved;

	if (!node->parent || !carry_is_open())
		return NULL;
	saved = carry_alloc(sizeof(*saved) + name_size);
	if (!saved)
		return NULL;
	*saved = (struct saved_node){
		.id = node->id,
		.parent = node->parent->id,
		.kind = what->kind,
		.identity = what->identity,
		.closed = what->closed,
		.file = what->file ? held_file_keep(what->file) : 0,
	};
	if (what->tree) {
		saved->pid = pin_pid(what->tree->pin);
		saved->start_ticks = pin_start_ticks(what->tree->pin);
		saved->root = what->tree->number;
	}
	memcpy(saved->name, node->name, name_size);
	carry_publish(saved, CARRY_FOREIGN_NODE);
	return saved;
}

void pinleft_count(struct saved_node *saved, uint64_t lookups)
{
	if (saved)
		saved->lookups = lookups;
}

void pinleft_forget(struct saved_node *saved)
{
	carry_free(saved);
}

static bool is_sound(const void *block, size_t room)
{
	const struct saved_node *saved = block;

	return room > sizeof(*saved) && memchr(saved->name, '\0', room - sizeof(*saved)) &&
	       saved->id & FOREIGN_NODE && saved->id > saved->parent && saved->lookups &&
	       saved->kind > PINNODE_HIDDEN && saved->kind <= PINNODE_HELD;
}

/* A directory has a lower number than what was found in it. */
static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct saved_node *)a)->id;
	uint64_t y = ((const struct saved_node *)b)->id;

	return x < y ? -1 : x > y;
}

/* The tree that a node was in, if its pin has that root still; the caller's reference, or NULL. */
static struct pintree *find_tree(struct pinroot *pinroot, const struct saved_node *saved)
{
	_cleanup_pin_ struct pin *pin = NULL;
	struct pintree *tree;
	char key[PIN_NAME_SIZE];

	snprintf(key, sizeof(key), "%d@%" PRIu64, saved->pid, saved->start_ticks);
	if (pinset_find_key(pinroot->pins, key, &pin) < 0 ||
	    pinroot_get_tree(pinroot, pin, &tree) < 0)
		return NULL;
	if (saved->root && tree->number == saved->root)
		return tree;
	pintree_unref(tree);
	return NULL;
}

/* Returns whether the node is there again. */
static bool restore(struct pinroot *pinroot, struct saved_node *saved, struct pintree *tree)
{
	struct pinnodes *nodes = &pinroot->nodes;
	struct pinnode *parent = pinnode_get(nodes, saved->parent), *node = NULL;
	_cleanup_held_file_ struct held_file *file = NULL;
	const bool is_held = saved->kind == PINNODE_HELD;

	if (parent && (!is_held || pinset_kept_file(pinroot->pins, saved->file, &file) == 0)) {
		const struct pinnode_what what = {
			.kind = saved->kind,
			.tree = tree,
			.identity = saved->identity,
			.closed = saved->closed,
			.file = file,
		};

		node = pinnode_restore(nodes, parent, saved->name, &what, saved->id, saved->lookups,
				       saved);
	}
	if (node && is_held && parent == pinroot->hidden)
		pinroot_set_exe(pinroot, tree, node);
	else
		pinnode_put(nodes, node);
	pinnode_put(nodes, parent);
	return node;
}

struct resumption {
	struct pinroot *pinroot;
	struct pintree *tree; /* of the node before, as most are in the same */
};

static bool take_node(void *block, size_t room, void *arg)
{
	struct resumption *resumption = arg;
	struct saved_node *saved = block;

	if (!resumption->tree || resumption->tree->number != saved->root) {
		pintree_unref(resumption->tree);
		resumption->tree = find_tree(resumption->pinroot, saved);
	}
	return resumption->tree && restore(resumption->pinroot, saved, resumption->tree);
}

void pinleft_resume(struct pinroot *pinroot)
{
	struct resumption resumption = {pinroot};

	carry_sort(CARRY_FOREIGN_NODE, is_sound, compare_ids);
	carry_take(CARRY_FOREIGN_NODE, take_node, &resumption);
	pintree_unref(resumption.tree);
}
