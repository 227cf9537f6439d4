/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls behind pins, from a request's arrival on a worker to its answer: see pinroot_internal.h.
 *
 * A call keeps what it uses: its node, the tree and the root. Those that hang are counted, by tree
 * and by what they work on, so that some are refused before all workers hang.
 */
#include <errno.h>
#include <fcntl.h>

#include "core/clock.h"
#include "fs/pinroot_internal.h"

/* Workers that other people's file systems can hold up, all roots together and one alone. */
#define STUCK_MAX	  (PINROOT_WORKERS / 2)
#define STUCK_MAX_OF_TREE 12

/* A process that is pinned once more has another tree, but the same files that do not answer. */
static bool is_alike(const struct pincall *call, const struct pinnode *node,
		     const struct pintree *tree)
{
	const struct root_identity *a = &call->node->what.identity, *b = &node->what.identity;

	return call->tree == tree || (a->type == S_IFREG && b->type == S_IFREG && a->dev == b->dev);
}

/* Under the lock: is there room for one more call that could hang? -EBUSY; -EAGAIN: not yet. */
static int find_room(const struct pinroot *pinroot, const struct pinnode *node,
		     const struct pintree *tree)
{
	unsigned int own = 0, own_stuck = 0, stuck = 0;
	uint64_t now = monotonic_ns();

	for (const struct pincall *call = pinroot->calls; call; call = call->next) {
		bool is_stuck = now - call->since > PINCALL_STUCK_NS,
		     own_one = is_alike(call, node, tree);

		own += own_one;
		own_stuck += own_one && is_stuck;
		stuck += is_stuck;
	}
	if (own_stuck >= STUCK_MAX_OF_TREE || (own_stuck && stuck >= STUCK_MAX))
		return -EBUSY;
	return own >= STUCK_MAX ? -EAGAIN : 0;
}

/* Under the lock. So many at once may all hang: then that is known within PINCALL_STUCK_NS. */
static int wait_for_room(struct pincall *call, const struct pintree *tree)
{
	struct pinroot *pinroot = call->pinroot;
	uint64_t until = call->since + PINCALL_STUCK_NS;
	const struct timespec deadline = {until / NSEC_PER_SEC, until % NSEC_PER_SEC};
	int r;

	while (!tree->dead && (r = find_room(pinroot, call->node, tree)) != 0) {
		if (r == -EBUSY || pthread_cond_timedwait(&pinroot->left, &pinroot->lock,
							  &deadline) == ETIMEDOUT) {
			pinroot->refused++;
			return -EBUSY;
		}
	}
	call->since = monotonic_ns();
	return tree->dead ? -ESTALE : 0;
}

/* From here on the call is one of those into this tree. */
int pincall_join(struct pincall *call, struct pintree *tree)
{
	struct pinroot *pinroot = call->pinroot;

	LOCKED(&pinroot->lock);
	int r = wait_for_room(call, tree);

	if (r < 0)
		return r;
	call->tree = pintree_ref(tree);
	call->root = root_ref(tree->root);
	call->next = pinroot->calls;
	pinroot->calls = call;
	return 0;
}

int pincall_begin(struct pincall *call, void *arg, uint64_t id)
{
	struct pinroot *pinroot = arg;
	struct pinnode *node = pinnode_get(&pinroot->nodes, id);

	if (!node)
		return -ESTALE;
	*call = (struct pincall){.pinroot = pinroot, .node = node, .since = monotonic_ns()};
	int r = node->what.tree ? pincall_join(call, node->what.tree) : 0;

	if (r == 0 && node->what.kind == PINNODE_HELD) {
		call->file = pinnode_file(&pinroot->nodes, node);
		if (!call->file)
			r = -ESTALE;
	}
	return r;
}

/* Returns whether the tree was dropped meanwhile. */
static bool leave_tree(struct pincall *call)
{
	struct pinroot *pinroot = call->pinroot;

	LOCKED(&pinroot->lock);
	struct pincall **at = &pinroot->calls;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	pthread_cond_broadcast(&pinroot->left);
	return call->tree->dead;
}

void pincall_end(struct pincall *call)
{
	struct pinroot *pinroot = call->pinroot;

	if (!call->node)
		return;
	if (call->dir_node)
		pinnode_release_fd(&pinroot->nodes, call->dir_node);
	/* What the call itself has opened since. */
	if (call->tree && leave_tree(call))
		pinnodes_drop_tree(&pinroot->nodes, call->tree);
	held_file_unref(call->file);
	root_unref(call->root);
	pintree_unref(call->tree);
	text_deinit(&call->path);
	pinnode_put(&pinroot->nodes, call->node);
}

bool pinroot_make_room(struct pinroot *pinroot, int r)
{
	if (r != -EMFILE && r != -ENFILE)
		return false;
	pinnodes_close_fds(&pinroot->nodes);
	return true;
}

/* A directory's fd, opened anew: by its parent's if that has one, else by the path from the root.
 */
static int open_dir(struct pincall *call, struct pinnode *node, int *ret_fd)
{
	struct pinnodes *nodes = &call->pinroot->nodes;
	int parent_fd = pinnode_use_fd(nodes, node->parent), r;

	if (parent_fd >= 0) {
		const struct root_dir dir = {.fd = parent_fd};

		r = root_open_entry(&dir, node->name, &node->what.identity, ret_fd);
		pinnode_release_fd(nodes, node->parent);
	} else {
		r = root_open_path(call->root, call->path.data, call->path.len, ret_fd);
		if (r == 0) {
			r = root_check_fd(*ret_fd, &node->what.identity);
			if (r < 0)
				close(*ret_fd);
		}
	}
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? -ESTALE : r;
}

int pincall_use_dir(struct pincall *call, struct pinnode *node)
{
	struct pinnodes *nodes = &call->pinroot->nodes;

	if (node->what.kind == PINNODE_TOP) {
		root_top(call->root, &call->dir);
		return 0;
	}
	int r = pinnode_path(node, &call->path), fd = pinnode_use_fd(nodes, node);

	if (r == 0 && fd < 0) {
		r = open_dir(call, node, &fd);
		if (pinroot_make_room(call->pinroot, r))
			r = open_dir(call, node, &fd);
		if (r == 0)
			fd = pinnode_set_fd(nodes, node, fd);
	}
	if (fd >= 0)
		call->dir_node = node;
	call->dir = (struct root_dir){
		.fd = fd,
		.mount = node->what.identity.mount,
		.path = call->path.data,
		.path_len = call->path.len,
	};
	return r;
}

int pincall_open(struct pincall *call, int *ret_fd)
{
	const struct pinnode *node = call->node;

	if (node->what.kind == PINNODE_HELD) {
		int fd = fcntl(held_file_fd(call->file), F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		*ret_fd = fd;
		return 0;
	}
	int r = pincall_use_dir(call, node->parent);

	if (r < 0)
		return r;
	r = root_open_entry(&call->dir, node->name, &node->what.identity, ret_fd);
	if (pinroot_make_room(call->pinroot, r))
		r = root_open_entry(&call->dir, node->name, &node->what.identity, ret_fd);
	return r == -ENOENT || r == -ENOTDIR ? -ESTALE : r;
}
