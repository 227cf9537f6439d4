/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node table: see node.h.
 *
 * One lock for all of it. Nothing is called with it held but the allocator and snapshot_unref().
 */
#include "fs/node.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "core/carry.h"
#include "fs/backing.h"

#define FIRST_BUCKETS 256

/*
 * Threads that were told ESTALE and have not come back yet. One that never does is overwritten;
 * then its next ESTALE would be a second one in a row, and the caller would see it.
 */
#define RETRIES 128
struct retry {
	pid_t tid;
	bool used;
	uint64_t ino, id;
};

struct node_table {
	pthread_mutex_t lock;
	/* Chains by id, and by inode number for all versions of a path. */
	struct node **by_id, **by_path;
	size_t buckets; /* a power of two */
	size_t count;
	size_t open;

	uint64_t hash_mask; /* all bits but in tests of collisions */
	uint64_t last_unique;

	struct retry *retries; /* outlives us: an ESTALE may be told by one process, the next by
				  another */
	unsigned int next_retry;

	struct node *cache_oldest, *cache_newest;
	size_t cached_bytes, cache_bytes;
};

static bool content_equal(struct content a, struct content b)
{
	return a.unique == b.unique && a.number == b.number;
}

/* Ids 0 and 1 are FUSE's, and those with the top bit set another module's. */
static bool is_own_id(uint64_t id)
{
	return id > NODE_ROOT && !(id >> 63);
}

static uint64_t hash_path(const char *path, size_t len, uint64_t salt, uint64_t mask)
{
	for (;; salt++) {
		uint64_t id = XXH3_64bits_withSeed(path, len, salt) & mask & (UINT64_MAX >> 1);

		if (is_own_id(id))
			return id;
	}
}

uint64_t node_ino(const char *path, size_t len)
{
	return len ? hash_path(path, len, 0, UINT64_MAX) : NODE_ROOT;
}

static struct node **id_bucket(struct node_table *table, uint64_t id)
{
	return &table->by_id[id & (table->buckets - 1)];
}

static struct node **path_bucket(struct node_table *table, uint64_t ino)
{
	return &table->by_path[ino & (table->buckets - 1)];
}

static struct node *find_id(struct node_table *table, uint64_t id)
{
	struct node *node = *id_bucket(table, id);

	while (node && node->id != id)
		node = node->next_id;
	return node;
}

static void insert(struct node_table *table, struct node *node)
{
	struct node **bucket = id_bucket(table, node->id);

	node->next_id = *bucket;
	*bucket = node;
	bucket = path_bucket(table, node->ino);
	node->next_path = *bucket;
	*bucket = node;
}

/* Twice the buckets, or the old ones if there is no memory: then chains are longer. */
static void grow(struct node_table *table)
{
	size_t old_buckets = table->buckets;
	struct node **old = table->by_id;
	struct node **by_id = calloc(old_buckets * 2, sizeof(*by_id));
	struct node **by_path = calloc(old_buckets * 2, sizeof(*by_path));

	if (!by_id || !by_path) {
		free(by_id);
		free(by_path);
		return;
	}
	free(table->by_path);
	table->by_id = by_id;
	table->by_path = by_path;
	table->buckets = old_buckets * 2;
	for (size_t i = 0; i < old_buckets; i++) {
		for (struct node *node = old[i], *next; node; node = next) {
			next = node->next_id;
			insert(table, node);
		}
	}
	free(old);
}

static struct node *add_node(struct node_table *table, const char *path, uint64_t id, uint64_t ino,
			     const struct view_attr *attr)
{
	size_t len = strlen(path);
	struct node *node = carry_alloc(sizeof(*node) + len + 1);

	if (!node)
		return NULL;
	node->id = id;
	node->ino = ino;
	node->generation = attr->generation;
	node->kind = attr->kind;
	node->fixed = attr->fixed;
	node->slow = attr->slow;
	node->attr = *attr;
	memcpy(node->path, path, len);
	if (table->count >= table->buckets)
		grow(table);
	insert(table, node);
	table->count++;
	carry_publish(node, CARRY_NODE);
	return node;
}

/* Puts in a node that was left, without what only the other process knew. */
static bool take_node(void *block, size_t room, void *arg)
{
	struct node_table *table = arg;
	struct node *node = block;

	if (room <= sizeof(*node) || !memchr(node->path, '\0', room - sizeof(*node)) ||
	    node->kind > VIEW_STREAM || node->id >> 63 || find_id(table, node->id))
		return false;
	node->opens = node->holds = 0;
	node->snapshot = NULL;
	node->backing = NULL;
	node->rendered_for = 0;
	node->in_cache = false;
	node->cache_older = node->cache_newer = NULL;
	if (table->count >= table->buckets)
		grow(table);
	insert(table, node);
	table->count++;
	return true;
}

static bool take_retries(void *block, size_t room, void *arg)
{
	struct node_table *table = arg;

	if (room < RETRIES * sizeof(struct retry) || table->retries)
		return false;
	table->retries = block;
	return true;
}

int node_table_create(size_t cache_bytes, struct node_table **ret)
{
	_cleanup_node_table_ struct node_table *table = calloc(1, sizeof(*table));
	const struct view_attr root = {.kind = VIEW_DIR};

	if (!table)
		return -ENOMEM;
	pthread_mutex_init(&table->lock, NULL);
	table->hash_mask = UINT64_MAX;
	table->cache_bytes = cache_bytes;
	table->buckets = FIRST_BUCKETS;
	table->by_id = calloc(FIRST_BUCKETS, sizeof(struct node *));
	table->by_path = calloc(FIRST_BUCKETS, sizeof(struct node *));
	carry_take(CARRY_RETRIES, take_retries, table);
	if (!table->retries) {
		table->retries = carry_alloc(RETRIES * sizeof(struct retry));
		if (table->retries)
			carry_publish(table->retries, CARRY_RETRIES);
	}
	if (!table->by_id || !table->by_path || !table->retries)
		return -ENOMEM;
	/* Numbers that no process before has given. */
	table->last_unique = carry_root()->generation << 40;
	carry_take(CARRY_NODE, take_node, table);
	struct node *node = find_id(table, NODE_ROOT);
	if (!node)
		node = add_node(table, "", NODE_ROOT, NODE_ROOT, &root);
	if (!node)
		return -ENOMEM;
	node->lookups = 1; /* the mount's own, which the kernel never forgets */
	*ret = take_ptr(table);
	return 0;
}

void node_table_destroy(struct node_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; table->by_id && i < table->buckets; i++) {
		for (struct node *node = table->by_id[i], *next; node; node = next) {
			next = node->next_id;
			snapshot_unref(node->snapshot);
			carry_free(node);
		}
	}
	carry_free(table->retries);
	free(table->by_id);
	free(table->by_path);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

/* The cache of unopened snapshots. */

static void cache_remove(struct node_table *table, struct node *node)
{
	*(node->cache_older ? &node->cache_older->cache_newer : &table->cache_oldest) =
		node->cache_newer;
	*(node->cache_newer ? &node->cache_newer->cache_older : &table->cache_newest) =
		node->cache_older;
	node->cache_older = node->cache_newer = NULL;
	table->cached_bytes -= node->size;
	node->in_cache = false;
}

static void drop_snapshot(struct node_table *table, struct node *node)
{
	if (node->in_cache)
		cache_remove(table, node);
	node->kept = 0;
	snapshot_unref(take_ptr(node->snapshot));
}

static void cache_add(struct node_table *table, struct node *node)
{
	node->cache_older = table->cache_newest;
	*(table->cache_newest ? &table->cache_newest->cache_newer : &table->cache_oldest) = node;
	table->cache_newest = node;
	table->cached_bytes += node->size;
	node->in_cache = true;
	while (table->cached_bytes > table->cache_bytes) {
		struct node *oldest = table->cache_oldest;

		drop_snapshot(table, oldest);
	}
}

static void unlink_chain(struct node **link, struct node *node, size_t next_offset)
{
	while (*link != node)
		link = (struct node **)((char *)*link + next_offset);
	*link = *(struct node **)((char *)node + next_offset);
}

static void free_if_unused(struct node_table *table, struct node *node)
{
	if (node->lookups || node->opens || node->holds)
		return;
	drop_snapshot(table, node);
	unlink_chain(id_bucket(table, node->id), node, offsetof(struct node, next_id));
	unlink_chain(path_bucket(table, node->ino), node, offsetof(struct node, next_path));
	table->count--;
	carry_free(node);
}

/* The inode number of path, which no other path in the table has. */
static uint64_t choose_ino(struct node_table *table, const char *path, size_t len)
{
	for (uint64_t salt = 0;; salt++) {
		uint64_t ino = hash_path(path, len, salt, table->hash_mask);
		struct node *node = *path_bucket(table, ino);

		while (node && (node->ino != ino || strcmp(node->path, path) == 0))
			node = node->next_path;
		if (!node)
			return ino;
	}
}

/* Is this the version of path that a thread's lookup with attr means? */
static bool is_version(const struct node *node, const char *path, const struct view_attr *attr,
		       pid_t tid)
{
	if (node->kind != attr->kind || node->generation != attr->generation ||
	    strcmp(node->path, path) != 0)
		return false;
	/* What is volatile is another version as soon as somebody has seen something of it. */
	if (node->rendered)
		return attr->generation != VIEW_VOLATILE;
	return node->kind != VIEW_FILE || (tid && node->looked_up_by == tid);
}

static struct node *find_version(struct node_table *table, const char *path, uint64_t ino,
				 const struct view_attr *attr, pid_t tid)
{
	struct node *node = *path_bucket(table, ino);

	while (node && !(node->ino == ino && is_version(node, path, attr, tid)))
		node = node->next_path;
	return node;
}

static struct node *make_version(struct node_table *table, const char *path, uint64_t ino,
				 const struct view_attr *attr)
{
	uint64_t number = attr->generation;

	/* The inode number serves where there is one version, unless a file was here before. */
	if (!number && (attr->kind == VIEW_DIR || attr->kind == VIEW_LINK) && !find_id(table, ino))
		return add_node(table, path, ino, ino, attr);
	if (number == VIEW_VOLATILE)
		number = ++table->last_unique;
	struct {
		uint64_t number;
		uint32_t kind;
		uint32_t is_volatile;
	} version = {number, attr->kind, attr->generation == VIEW_VOLATILE};
	uint64_t salt = XXH3_64bits(&version, sizeof(version));
	uint64_t id;
	do {
		id = hash_path(path, strlen(path), salt++, table->hash_mask);
	} while (find_id(table, id));
	return add_node(table, path, id, ino, attr);
}

int node_lookup(struct node_table *table, const char *path, const struct view_attr *attr, pid_t tid,
		struct node **ret, uint64_t *ret_size)
{
	LOCKED(&table->lock);
	uint64_t ino = choose_ino(table, path, strlen(path));
	struct node *node = find_version(table, path, ino, attr, tid);

	if (!node)
		node = make_version(table, path, ino, attr);
	if (!node)
		return -ENOMEM;
	node->lookups++;
	node->holds++;
	if (node->kind == VIEW_STREAM)
		*ret_size = attr->size;
	else
		*ret_size = node->rendered ? node->size : 0;
	node->looked_up_by = tid;
	*ret = node;
	return 0;
}

struct node *node_get(struct node_table *table, uint64_t id)
{
	LOCKED(&table->lock);
	struct node *node = find_id(table, id);

	if (node)
		node->holds++;
	return node;
}

void node_put(struct node_table *table, struct node *node)
{
	LOCKED(&table->lock);
	node->holds--;
	free_if_unused(table, node);
}

void node_forget(struct node_table *table, uint64_t id, uint64_t count)
{
	LOCKED(&table->lock);
	struct node *node = find_id(table, id);

	if (!node || id == NODE_ROOT)
		return;
	node->lookups -= MIN(count, node->lookups);
	free_if_unused(table, node);
}

int node_check(const struct node *node, const struct view_attr *now)
{
	if (node->kind != now->kind)
		return -ESTALE;
	if ((node->kind == VIEW_DIR || node->fixed) && node->generation != now->generation)
		return -ESTALE;
	return 0;
}

static bool is_current(const struct node *node, const struct view_attr *now)
{
	return node->rendered && now->generation != VIEW_VOLATILE && !node->content.unique &&
	       node->content.number == now->generation;
}

static struct content content_of(struct node_table *table, const struct rendering *rendering)
{
	if (rendering->settled && rendering->attr.generation != VIEW_VOLATILE)
		return (struct content){.number = rendering->attr.generation};
	return (struct content){.unique = true, .number = ++table->last_unique};
}

/* Gives a node without open handles the content that was rendered. */
static void set_content(struct node_table *table, struct node *node,
			const struct rendering *rendering, struct content content)
{
	drop_snapshot(table, node);
	node->rendered = true;
	node->content = content;
	node->attr = rendering->attr;
	if (rendering->snapshot) {
		node->snapshot = snapshot_ref(rendering->snapshot);
		node->size = snapshot_size(rendering->snapshot);
	}
}

static void add_open(struct node_table *table, struct node *node, struct node_open *ret)
{
	if (!ret->direct) {
		ret->keep_pages =
			node->has_pages && content_equal(node->page_content, node->content);
		node->has_pages = true;
		node->page_content = node->content;
	}
	if (node->in_cache)
		cache_remove(table, node);
	node->opens++;
	table->open++;
}

bool node_stat_open(struct node_table *table, struct node *node, struct view_attr *ret_attr,
		    uint64_t *ret_size)
{
	LOCKED(&table->lock);
	*ret_attr = node->attr;
	*ret_size = node->size;
	return node->opens;
}

enum node_step node_stat(struct node_table *table, struct node *node, const struct view_attr *now,
			 struct view_attr *ret_attr, uint64_t *ret_size)
{
	LOCKED(&table->lock);
	if (!node->opens && !is_current(node, now))
		return NODE_RENDER;
	*ret_attr = node->opens ? node->attr : *now;
	*ret_size = node->size;
	return NODE_READY;
}

void node_stat_rendered(struct node_table *table, struct node *node, pid_t tid,
			const struct rendering *rendering, struct view_attr *ret_attr,
			uint64_t *ret_size)
{
	LOCKED(&table->lock);
	if (!node->opens) {
		bool first = !node->rendered;

		set_content(table, node, rendering, content_of(table, rendering));
		if (node->snapshot)
			cache_add(table, node);
		node->rendered_for = first ? tid : 0;
	}
	*ret_attr = node->attr;
	*ret_size = node->size;
}

/*
 * A thread meets a version that has passed. The first time it is told so, which makes the kernel
 * look the path up again. When that led to another node, that one is as new as the retry, whatever
 * has happened since; when it led here again, the path has no name to look up (a bind mount of a
 * single file). Returns -ESTALE for the first time, or whether it is the same node again. Threads
 * that we cannot see all have number 0 and cannot be told apart: taken for retries.
 */
static int retry_of(struct node_table *table, const struct node *node, pid_t tid)
{
	if (!tid)
		return false;
	for (size_t i = 0; i < RETRIES; i++) {
		struct retry *retry = &table->retries[i];

		if (retry->used && retry->tid == tid && retry->ino == node->ino) {
			retry->used = false;
			return retry->id == node->id;
		}
	}
	table->retries[table->next_retry++ % RETRIES] =
		(struct retry){.tid = tid, .used = true, .ino = node->ino, .id = node->id};
	return -ESTALE;
}

/* Opens the content that the node has, if it still has it. */
static enum node_step open_own(struct node_table *table, struct node *node, struct node_open *ret)
{
	if (!node->snapshot)
		return NODE_RENDER;
	add_open(table, node, ret);
	return NODE_READY;
}

int node_open(struct node_table *table, struct node *node, const struct view_attr *now, pid_t tid,
	      struct node_open *ret)
{
	LOCKED(&table->lock);
	bool is_fresh = tid && node->rendered_for == tid;

	node->rendered_for = 0;
	*ret = (struct node_open){.direct = node->kind == VIEW_STREAM};
	if (node->kind == VIEW_STREAM && !(node->opens && !is_current(node, now)))
		return NODE_RENDER;
	if (!node->rendered)
		return NODE_RENDER;
	if (is_current(node, now) || (now->generation == VIEW_VOLATILE && is_fresh))
		return open_own(table, node, ret);
	if (now->generation != VIEW_VOLATILE || node->opens) {
		int same = retry_of(table, node, tid);

		if (same < 0)
			return same;
		if (!same && node->snapshot)
			return open_own(table, node, ret);
		if (node->opens)
			return -ESTALE;
	}
	ret->direct = true;
	return NODE_RENDER;
}

int node_open_rendered(struct node_table *table, struct node *node,
		       const struct rendering *rendering, pid_t tid, struct node_open *ret)
{
	LOCKED(&table->lock);
	struct content content = content_of(table, rendering);

	if (!node->opens)
		set_content(table, node, rendering, content);
	else if (!content_equal(node->content, content) &&
		 (retry_of(table, node, tid) != 0 || !node->snapshot))
		return -ESTALE;
	add_open(table, node, ret);
	return 0;
}

bool node_settle_reading(struct node_table *table, struct node *node, struct backing *file,
			 struct backing **ret)
{
	LOCKED(&table->lock);
	bool first = !node->reading_settled;

	if (first) {
		node->backing = file;
		node->backing_id = file ? backing_id(file) : 0;
	}
	node->reading_settled = true;
	*ret = node->backing;
	return first;
}

struct backing *node_release(struct node_table *table, struct node *node)
{
	LOCKED(&table->lock);
	if (!node->opens)
		return NULL;
	node->opens--;
	table->open--;
	if (node->opens)
		return NULL;
	if (node->snapshot)
		cache_add(table, node);
	node->reading_settled = false;
	node->backing_id = 0;
	return take_ptr(node->backing);
}

void node_keep(struct node_table *table, struct node *node)
{
	_cleanup_snapshot_ struct snapshot *snapshot = node_snapshot(table, node);

	/* An open node's snapshot stays, so what is kept is of the same bytes. */
	if (snapshot)
		__atomic_store_n(&node->kept, snapshot_keep(snapshot), __ATOMIC_RELAXED);
}

struct node *node_resume(struct node_table *table, uint64_t id)
{
	LOCKED(&table->lock);
	struct node *node = find_id(table, id);

	if (!node || !node->rendered || (node->kind != VIEW_FILE && node->kind != VIEW_STREAM))
		return NULL;
	/* What the kernel reads by itself nobody needs here. */
	if (node->kind == VIEW_FILE && !node->snapshot && node->backing_id <= 0 &&
	    (snapshot_restore(node->kept, &node->snapshot) < 0 ||
	     snapshot_size(node->snapshot) != node->size)) {
		snapshot_unref(take_ptr(node->snapshot));
		return NULL;
	}
	node->opens++;
	node->holds++;
	table->open++;
	return node;
}

void node_table_settle(struct node_table *table)
{
	LOCKED(&table->lock);
	for (size_t i = 0; i < table->buckets; i++) {
		for (struct node *node = table->by_id[i], *next; node; node = next) {
			next = node->next_id;
			if (node->opens)
				continue;
			node->rendered = node->has_pages = node->reading_settled = false;
			node->size = node->kept = 0;
			node->backing_id = 0;
			free_if_unused(table, node);
		}
	}
}

struct snapshot *node_snapshot(struct node_table *table, struct node *node)
{
	LOCKED(&table->lock);
	return node->opens && node->snapshot ? snapshot_ref(node->snapshot) : NULL;
}

void node_table_stats(struct node_table *table, struct node_stats *ret)
{
	LOCKED(&table->lock);
	ret->nodes = table->count;
	ret->open = table->open;
	ret->cached_bytes = table->cached_bytes;
}
