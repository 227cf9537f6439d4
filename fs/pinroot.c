/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trees behind pins, and lookups in them: see pinroot.h.
 *
 * A tree belongs to a pin and a root; when the process has another root it gets another tree, and
 * the nodes of the old one are stale. A tree that is dropped loses at once what no call (pincall.c)
 * uses, and the rest with the last one.
 */
#include "fs/pinroot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/clock.h"
#include "core/metric.h"
#include "fs/pinroot_internal.h"

/* How long a lookup may take: see pinlook.c. */
#define PATIENCE_NS (2 * NSEC_PER_SEC)

#define FILES_SUFFIX ".files"

struct pintree *pintree_ref(struct pintree *tree)
{
	__atomic_add_fetch(&tree->refs, 1, __ATOMIC_RELAXED);
	return tree;
}

void pintree_unref(struct pintree *tree)
{
	if (!tree || __atomic_sub_fetch(&tree->refs, 1, __ATOMIC_ACQ_REL))
		return;
	root_unref(tree->root);
	pin_unref(tree->pin);
	free(tree);
}

/* Under the lock. */
static void kill_tree(struct pinroot *pinroot, struct pintree *tree)
{
	struct pintree **at = &pinroot->trees;

	while (*at != tree)
		at = &(*at)->next;
	*at = tree->next;
	tree->dead = true;
	pthread_cond_broadcast(&pinroot->left);
}

struct meant {
	struct pinroot *pinroot;
	const struct pintree *tree;
};

static bool is_meant(void *arg, uint64_t id)
{
	const struct meant *meant = arg;

	return pinnode_is_in_tree(&meant->pinroot->nodes, id, meant->tree);
}

/* Without it: lets go of what a tree that was killed holds. Calls have references of their own. */
static void empty_tree(struct pinroot *pinroot, struct pintree *tree)
{
	pthread_mutex_lock(&pinroot->lock);
	struct pinnode *exe = take_ptr(tree->exe);
	struct root *root = take_ptr(tree->root);
	pthread_mutex_unlock(&pinroot->lock);

	/* Whoever waits for an answer, of a file system that may have none, has waited enough. */
	session_refuse(pinroot->session, ESTALE, is_meant,
		       &(struct meant){.pinroot = pinroot, .tree = tree});
	pinfiles_drop(pinroot, tree);
	pinnodes_drop_tree(&pinroot->nodes, tree);
	pinnode_put(&pinroot->nodes, exe);
	root_unref(root);
	pintree_unref(tree);
}

/* Under the lock. */
static struct pintree *find_tree(struct pinroot *pinroot, const struct pin *pin)
{
	struct pintree *tree = pinroot->trees;

	while (tree && tree->pin != pin)
		tree = tree->next;
	return tree;
}

int pinroot_get_tree(struct pinroot *pinroot, struct pin *pin, struct pintree **ret)
{
	_cleanup_root_ struct root *root = NULL;
	struct pintree *old, *tree;

	pin_look(pin, PIN_LOOK_ROOT);
	int r = pin_root(pin, &root);

	if (r < 0)
		return r;
	{
		LOCKED(&pinroot->lock);
		old = find_tree(pinroot, pin);
		if (old && old->root == root) {
			*ret = pintree_ref(old);
			return 0;
		}
		tree = calloc(1, sizeof(*tree));
		if (!tree)
			return -ENOMEM;
		if (old)
			kill_tree(pinroot, old);
		*tree = (struct pintree){
			.pinroot = pinroot,
			.next = pinroot->trees,
			.refs = 2,
			.pin = pin_ref(pin),
			.root = root,
			.number = root_number(root),
		};
		take_ptr(root);
		pinroot->trees = tree;
	}
	if (old)
		empty_tree(pinroot, old);
	/* The pin may have been let go of, and the tree dropped, before there was one. */
	if (pin_is_released(pin))
		pinroot_drop(pinroot, pin);
	*ret = tree;
	return 0;
}

void pinroot_drop(struct pinroot *pinroot, struct pin *pin)
{
	pthread_mutex_lock(&pinroot->lock);
	struct pintree *tree = find_tree(pinroot, pin);

	if (tree)
		kill_tree(pinroot, tree);
	pthread_mutex_unlock(&pinroot->lock);
	if (tree)
		empty_tree(pinroot, tree);
}

/* What a held file is, without asking a file system that may not answer. */
static int describe_held(struct held_file *file, struct pintree *tree, struct pinnode_what *ret)
{
	struct statx stx;

	if (statx(held_file_fd(file), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO, &stx) < 0)
		return -errno;
	*ret = (struct pinnode_what){.kind = PINNODE_HELD, .tree = tree, .file = file};
	root_identify(&stx, &ret->identity);
	return 0;
}

void pinroot_set_exe(struct pinroot *pinroot, struct pintree *tree, struct pinnode *node)
{
	pthread_mutex_lock(&pinroot->lock);
	if (!tree->dead) {
		struct pinnode *before = tree->exe;

		/* Until another one takes its place the kernel can come and ask for it. */
		tree->exe = node;
		node = before;
	}
	pthread_mutex_unlock(&pinroot->lock);
	pinnode_put(&pinroot->nodes, node);
}

int pinroot_exe(struct pinroot *pinroot, struct pin *pin, uint64_t *ret_id)
{
	_cleanup_held_file_ struct held_file *file = NULL;
	char name[PIN_NAME_SIZE + sizeof(".exe")];
	struct pintree *tree;
	struct pinnode_what what;
	struct pinnode *node;
	int r = pin_exe(pin, &file);

	if (r < 0)
		return r;
	r = pinroot_get_tree(pinroot, pin, &tree);
	if (r < 0)
		return r;
	pin_key(pin, name);
	strcat(name, ".exe");
	r = describe_held(file, tree, &what);
	if (r == 0)
		r = pinnode_find(&pinroot->nodes, pinroot->hidden, name, &what, &node);
	if (r == 0) {
		*ret_id = node->id;
		pinroot_set_exe(pinroot, tree, node);
	}
	pintree_unref(tree);
	return r;
}

/* Below the hidden directory: the top of a root, or the directory of mapped files. */
static int find_pin(struct pincall *call, const char *name, struct pinnode **ret)
{
	struct pinroot *pinroot = call->pinroot;
	_cleanup_pin_ struct pin *pin = NULL;
	_cleanup_free_ char *key = strdup(name);
	struct pinnode_what what = {.kind = PINNODE_TOP};
	struct root_entry entry;

	if (!key)
		return -ENOMEM;
	char *suffix = strchr(key, '.');

	if (suffix && strcmp(suffix, FILES_SUFFIX) == 0) {
		what.kind = PINNODE_FILES;
		*suffix = '\0';
	}
	int r = pinset_find_key(pinroot->pins, key, &pin);

	if (r < 0)
		return r;
	r = pinroot_get_tree(pinroot, pin, &what.tree);
	if (r < 0)
		return r;
	r = pincall_join(call, what.tree);
	if (r == 0 && what.kind == PINNODE_TOP) {
		r = root_stat(call->root, NULL, NULL, &entry);
		if (r == 0)
			root_identify(&entry.stx, &what.identity);
		what.closed = entry.closed;
	}
	if (r == 0)
		r = pinnode_find(&pinroot->nodes, call->node, name, &what, ret);
	pintree_unref(what.tree);
	return r;
}

static int find_held(struct pincall *call, const char *name, struct pinnode **ret)
{
	_cleanup_held_file_ struct held_file *file = NULL;
	struct pintree *tree = call->node->what.tree;
	struct pinnode_what what;
	int r = pin_mapped_file(tree->pin, name, &file);

	if (r < 0)
		return r;
	r = describe_held(file, tree, &what);
	return r < 0 ? r : pinnode_find(&call->pinroot->nodes, call->node, name, &what, ret);
}

static int find_entry(struct pincall *call, const char *name, struct pinnode **ret,
		      struct stat *attr)
{
	const struct pinnode *node = call->node;
	struct root_entry entry;

	if (node->what.identity.type != S_IFDIR)
		return -ENOTDIR;
	if (node->what.closed)
		return -ENOENT;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/'))
		return -EINVAL;
	_cleanup_free_ char *target = NULL;
	int r = pincall_use_dir(call, call->node);

	if (r == 0)
		r = pincall_look(call, name, &entry, &target);
	if (r < 0)
		return r;
	struct pinnode_what what = {
		.kind = PINNODE_ENTRY,
		.tree = node->what.tree,
		.closed = entry.closed,
	};

	root_identify(&entry.stx, &what.identity);
	pinattr_fill_entry(&entry, target, attr);
	return pinnode_find(&call->pinroot->nodes, call->node, name, &what, ret);
}

static int stat_held(struct pincall *call, const struct pinnode *node, struct stat *attr)
{
	_cleanup_held_file_ struct held_file *file = pinnode_file(&call->pinroot->nodes, node);
	struct statx stx;

	if (!file)
		return -ESTALE;
	if (statx(held_file_fd(file), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) < 0)
		return -errno;
	pinattr_fill(&stx, attr);
	return 0;
}

int pinroot_stat_node(struct pincall *call, struct pinnode *node, struct stat *attr)
{
	struct root_entry entry;

	switch (node->what.kind) {
	case PINNODE_TOP: {
		int r = root_stat(call->root, NULL, NULL, &entry);

		if (r == 0)
			pinattr_fill(&entry.stx, attr);
		return r;
	}
	case PINNODE_HELD:
		return stat_held(call, node, attr);
	default:
		pinattr_fill_dir(call, node, attr);
		return 0;
	}
}

static int lookup_in(struct pincall *call, const char *name, struct pinnode **ret,
		     struct stat *attr)
{
	int r;

	switch (call->node->what.kind) {
	case PINNODE_HIDDEN:
		r = find_pin(call, name, ret);
		break;
	case PINNODE_FILES:
		r = find_held(call, name, ret);
		break;
	case PINNODE_HELD:
		r = -ENOTDIR;
		break;
	default:
		return find_entry(call, name, ret, attr);
	}
	if (r == 0) {
		r = pinroot_stat_node(call, *ret, attr);
		if (r < 0)
			pinnode_put(&call->pinroot->nodes, *ret);
	}
	return r;
}

static int lookup(void *arg, uint64_t parent, const char *name, const struct view_caller *caller,
		  struct fuse_entry_param *ret)
{
	struct pinroot *pinroot = arg;
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	bool top = parent == FUSE_ROOT_ID;
	struct pinnode *node = NULL;
	int r = pincall_begin(&call, pinroot, top ? pinroot->hidden->id : parent);

	if (r < 0)
		return r;
	if (top || (strcmp(name, ".") == 0 && call.node->what.kind == PINNODE_HELD)) {
		node = pinnode_ref(&pinroot->nodes, call.node);
		r = pinroot_stat_node(&call, node, &ret->attr);
	} else {
		r = lookup_in(&call, name, &node, &ret->attr);
	}
	if (r == 0) {
		pinnode_count(&pinroot->nodes, node);
		ret->ino = node->id;
		ret->generation = 1;
		ret->attr_timeout = pinattr_timeout(&ret->attr);
	}
	pinnode_put(&pinroot->nodes, node);
	return r;
}

static void forget(void *arg, uint64_t id, uint64_t count)
{
	struct pinroot *pinroot = arg;

	pinnode_forget(&pinroot->nodes, id, count);
}

const struct foreign_ops pinroot_ops = {
	.name = PINROOT_NAME,
	.workers = PINROOT_WORKERS,
	.lookup = lookup,
	.forget = forget,
	.getattr = pinroot_getattr,
	.readlink = pinroot_readlink,
	.open = pinfile_open,
	.read = pinfile_read,
	.release = pinfile_release,
	.opendir = pinfile_opendir,
	.readdir = pinfile_readdir,
	.releasedir = pinfile_release,
	.getxattr = pinroot_getxattr,
	.listxattr = pinroot_listxattr,
	.statfs = pinroot_statfs,
};

/* A quarter of what this process may open. */
static size_t max_node_fds(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 16384)
		return 4096;
	return MAX(limit.rlim_cur / 4, (rlim_t)8);
}

static void init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attr);
	pthread_condattr_destroy(&attr);
}

int pinroot_create(struct session *session, struct pinroot **ret)
{
	static const struct pinnode_what hidden = {.kind = PINNODE_HIDDEN};
	struct pinroot *pinroot = calloc(1, sizeof(*pinroot));

	if (!pinroot)
		return -ENOMEM;
	pinroot->session = session;
	clock_gettime(CLOCK_REALTIME, &pinroot->created);
	int r = offload_create(PATIENCE_NS, &pinroot->offload);

	if (r == 0)
		r = pinnodes_init(&pinroot->nodes, max_node_fds());
	if (r < 0) {
		offload_destroy(pinroot->offload);
		free(pinroot);
		return r;
	}
	pthread_mutex_init(&pinroot->lock, NULL);
	init_condition(&pinroot->left);
	pthread_mutex_init(&pinroot->file_lock, NULL);
	handles_init(&pinroot->handles, CARRY_FOREIGN_FILE, &carry_root()->last_foreign,
		     pinfile_destroy_handle);
	r = pinnode_find(&pinroot->nodes, NULL, PINROOT_NAME, &hidden, &pinroot->hidden);
	if (r < 0) {
		pinroot_destroy(pinroot);
		return r;
	}
	*ret = pinroot;
	return 0;
}

void pinroot_set_pins(struct pinroot *pinroot, struct pinset *pins)
{
	pinroot->pins = pins;
	pinleft_resume(pinroot);
	pinfiles_resume(pinroot);
	pinroot->resumed_nodes = pinroot->nodes.count - 1;
	pinroot->resumed_files = handles_count(&pinroot->handles);
}

void pinroot_destroy(struct pinroot *pinroot)
{
	if (!pinroot)
		return;
	while (pinroot->trees)
		pinroot_drop(pinroot, pinroot->trees->pin);
	handles_deinit(&pinroot->handles);
	offload_destroy(pinroot->offload);
	pinnodes_deinit(&pinroot->nodes);
	pthread_cond_destroy(&pinroot->left);
	pthread_mutex_destroy(&pinroot->lock);
	pthread_mutex_destroy(&pinroot->file_lock);
	free(pinroot);
}

struct figures {
	size_t nodes, fds;
	unsigned int stuck;
	uint64_t refused;
};

static void get_figures(struct pinroot *pinroot, struct figures *ret)
{
	uint64_t now = monotonic_ns();

	*ret = (struct figures){};
	{
		LOCKED(&pinroot->lock);
		for (const struct pincall *call = pinroot->calls; call; call = call->next)
			ret->stuck += now - call->since > PINCALL_STUCK_NS;
		ret->refused = pinroot->refused;
	}
	LOCKED(&pinroot->nodes.lock);
	ret->nodes = pinroot->nodes.count;
	ret->fds = pinroot->nodes.fds;
}

void pinroot_status(struct pinroot *pinroot, struct text *text)
{
	struct figures figures;

	get_figures(pinroot, &figures);
	if (pinroot->resumed_nodes)
		text_printf(text, "handover_pin_roots: nodes=%zu open=%zu\n",
			    pinroot->resumed_nodes, pinroot->resumed_files);
	text_printf(text, "pin_root_nodes: %zu\n", figures.nodes);
	text_printf(text, "pin_root_calls_hung: %u\n", figures.stuck);
	text_printf(text, "pin_root_calls_refused: %" PRIu64 "\n", figures.refused);
}

void pinroot_metrics(struct pinroot *pinroot, struct text *text)
{
	struct figures figures;

	get_figures(pinroot, &figures);
	metric_write(text, "pin_root_nodes", "Nodes below the roots of pins.", figures.nodes);
	metric_write(text, "pin_root_calls_hung", "Calls that a file system does not answer.",
		     figures.stuck);
	metric_write(text, "pin_root_calls_refused_total", "Calls refused since others hang.",
		     figures.refused);
}
