/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The node table: versions, counts, what an open of an old version says, and the cache. */
#include <errno.h>
#include <string.h>

/* The table's inside: collisions need fewer bits of hash than there are. */
#include "fs/node.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define CACHE 1000
#define TID   100
#define OTHER 101

static struct node_table *table;

static int set_up(void **state)
{
	return node_table_create(CACHE, &table);
}

static int tear_down(void **state)
{
	node_table_destroy(take_ptr(table));
	return 0;
}

static struct view_attr file(uint64_t generation)
{
	return (struct view_attr){.kind = VIEW_FILE, .generation = generation};
}

/* Looks up and lets go of the hold, as a request does; the lookup stays counted. */
static struct node *look_up_by(const char *path, struct view_attr attr, pid_t tid,
			       uint64_t *ret_size)
{
	struct node *node;
	uint64_t size;

	assert_int_equal(node_lookup(table, path, &attr, tid, &node, &size), 0);
	if (ret_size)
		*ret_size = size;
	node_put(table, node);
	return node;
}

static struct node *look_up(const char *path, struct view_attr attr, uint64_t *ret_size)
{
	return look_up_by(path, attr, TID, ret_size);
}

static struct rendering rendering_of(struct view_attr attr, size_t size)
{
	struct rendering rendering = {.attr = attr, .settled = true};
	char *data = malloc(MAX(size, (size_t)1));

	assert_non_null(data);
	memset(data, 'x', size);
	assert_int_equal(snapshot_take(data, size, &rendering.snapshot), 0);
	return rendering;
}

/* stat(2) of a path: a lookup and a getattr, by a thread. */
static uint64_t stat_by(struct node *node, struct view_attr now, size_t rendered, pid_t tid)
{
	struct view_attr attr;
	uint64_t size;

	if (node_stat_open(table, node, &attr, &size))
		return size;
	if (node_stat(table, node, &now, &attr, &size) == NODE_RENDER) {
		struct rendering rendering = rendering_of(now, rendered);

		node_stat_rendered(table, node, tid, &rendering, &attr, &size);
		snapshot_unref(rendering.snapshot);
	}
	return size;
}

/* Opens as `tid`; what is rendered has `rendered` bytes. */
static int open_by(struct node *node, struct view_attr now, size_t rendered, pid_t tid,
		   struct node_open *how)
{
	int r = node_open(table, node, &now, tid, how);

	if (r != NODE_RENDER)
		return r;
	struct rendering rendering = rendering_of(now, rendered);
	r = node_open_rendered(table, node, &rendering, tid, how);
	snapshot_unref(rendering.snapshot);
	return r;
}

static uint64_t open_size(struct node *node)
{
	_cleanup_snapshot_ struct snapshot *snapshot = node_snapshot(table, node);

	assert_non_null(snapshot);
	return snapshot_size(snapshot);
}

static void versions_share_an_inode_number(void **state)
{
	struct node *one = look_up("ksyms", file(1), NULL);
	struct node *two = look_up("ksyms", file(2), NULL);

	assert_ptr_equal(look_up("ksyms", file(1), NULL), one);
	assert_int_equal(one->ino, two->ino);
	assert_int_equal(one->ino, node_ino("ksyms", 5));
	assert_int_not_equal(one->id, two->id);
	assert_int_not_equal(one->id, one->ino);
}

static void ids_are_computed(void **state)
{
	uint64_t file_id = look_up("bpf/x", file(7), NULL)->id;
	struct node *directory = look_up("bpf", (struct view_attr){.kind = VIEW_DIR}, NULL);
	struct node *link = look_up("bpf/y", (struct view_attr){.kind = VIEW_LINK}, NULL);

	assert_int_equal(directory->id, directory->ino);
	assert_int_equal(link->id, link->ino);
	assert_int_equal(node_ino("", 0), NODE_ROOT);
	/* Another process computes the same. */
	node_table_destroy(take_ptr(table));
	assert_int_equal(node_table_create(CACHE, &table), 0);
	assert_int_equal(look_up("bpf/x", file(7), NULL)->id, file_id);
}

static void a_path_that_becomes_another_kind_is_another_node(void **state)
{
	struct node *directory = look_up("bpf/x", (struct view_attr){.kind = VIEW_DIR}, NULL);
	struct node *link = look_up("bpf/x", (struct view_attr){.kind = VIEW_LINK}, NULL);
	const struct view_attr now = {.kind = VIEW_LINK};

	assert_int_not_equal(directory->id, link->id);
	assert_int_equal(directory->ino, link->ino);
	assert_int_equal(node_check(directory, &now), -ESTALE);
	assert_int_equal(node_check(link, &now), 0);
}

static void a_directory_of_another_generation_is_stale(void **state)
{
	const struct view_attr old = {.kind = VIEW_DIR, .generation = 3};
	const struct view_attr new = {.kind = VIEW_DIR, .generation = 4};
	struct node *node = look_up("pins/1", old, NULL);

	assert_int_equal(node_check(node, &old), 0);
	assert_int_equal(node_check(node, &new), -ESTALE);
	assert_ptr_not_equal(look_up("pins/1", new, NULL), node);
}

/* Every other path a file, the others directories. */
static struct node *look_up_nth(size_t i)
{
	char path[16];

	snprintf(path, sizeof(path), "d/%zu", i);
	struct node *node =
		look_up(path, i % 2 ? file(1) : (struct view_attr){.kind = VIEW_DIR}, NULL);
	assert_string_equal(node->path, path);
	return node;
}

static void collisions_are_told_apart(void **state)
{
	struct node *nodes[200];

	/* Ids from 2 to 255. */
	table->hash_mask = 0xff;
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		nodes[i] = look_up_nth(i);
		assert_in_range(nodes[i]->id, 2, 0xff);
		for (size_t j = 0; j < i; j++) {
			assert_int_not_equal(nodes[j]->id, nodes[i]->id);
			assert_int_not_equal(nodes[j]->ino, nodes[i]->ino);
		}
	}
	/* And each is found again, by path and by id. */
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		assert_ptr_equal(look_up_nth(i), nodes[i]);
		assert_ptr_equal(node_get(table, nodes[i]->id), nodes[i]);
		node_put(table, nodes[i]);
	}
}

static void the_table_grows_and_shrinks(void **state)
{
	static uint64_t ids[5000];
	struct node_stats stats;
	char path[16];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(path, sizeof(path), "f/%zu", i);
		ids[i] = look_up(path, file(1), NULL)->id;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct node *node = node_get(table, ids[i]);

		snprintf(path, sizeof(path), "f/%zu", i);
		assert_string_equal(node->path, path);
		node_put(table, node);
		node_forget(table, ids[i], 1);
		assert_null(node_get(table, ids[i]));
	}
	node_table_stats(table, &stats);
	assert_int_equal(stats.nodes, 1);
}

static void forget_counts(void **state)
{
	uint64_t id = look_up("a", file(1), NULL)->id;
	struct node_open how;

	look_up("a", file(1), NULL);
	look_up("a", file(1), NULL);
	node_forget(table, id, 2);
	struct node *node = node_get(table, id);
	assert_non_null(node);
	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	node_forget(table, id, 1);
	/* Held by the handle, then by the request, then by nobody. */
	node_put(table, node);
	node = node_get(table, id);
	assert_non_null(node);
	node_release(table, node);
	assert_null(node_snapshot(table, node));
	node_put(table, node);
	assert_null(node_get(table, id));

	/* A request that was answered early still works on a node that was forgotten. */
	node = node_get(table, look_up("b", file(1), NULL)->id);
	node_forget(table, node->id, 1);
	assert_ptr_equal(node_get(table, node->id), node);
	node_put(table, node);
	id = node->id;
	node_put(table, node);
	assert_null(node_get(table, id));

	/* What is not there, or was never counted, does no harm. */
	node_forget(table, id, 1);
	node_forget(table, NODE_ROOT, 100);
	node = node_get(table, NODE_ROOT);
	assert_non_null(node);
	node_put(table, node);
}

static void a_size_is_told_once_it_is_known(void **state)
{
	uint64_t size;
	struct node *node = look_up("a", file(1), &size);

	assert_int_equal(size, 0);
	assert_int_equal(stat_by(node, file(1), 123, TID), 123);
	look_up("a", file(1), &size);
	assert_int_equal(size, 123);
	/* Not rendered anew: the bytes would be the same. */
	assert_int_equal(stat_by(node, file(1), 999, TID), 123);
	/* A new version is not known yet. */
	look_up("a", file(2), &size);
	assert_int_equal(size, 0);
}

static void a_stream_tells_the_size_of_the_moment(void **state)
{
	const struct view_attr attr = {.kind = VIEW_STREAM, .generation = 1, .size = 50};
	uint64_t size;

	look_up("events", attr, &size);
	assert_int_equal(size, 50);
}

static void sizes_are_remembered_past_the_cache(void **state)
{
	struct node *a = look_up("a", file(1), NULL), *b = look_up("b", file(1), NULL);
	struct node_stats stats;
	struct node_open how;

	assert_int_equal(stat_by(a, file(1), 600, TID), 600);
	assert_int_equal(stat_by(b, file(1), 700, TID), 700);
	node_table_stats(table, &stats);
	assert_int_equal(stats.cached_bytes, 700);
	assert_null(a->snapshot);
	assert_int_equal(stat_by(a, file(1), 1, TID), 600);
	/* What is open does not count, and comes back when it is closed. */
	assert_int_equal(open_by(b, file(1), 1, TID, &how), 0);
	assert_int_equal(open_size(b), 700);
	node_table_stats(table, &stats);
	assert_int_equal(stats.cached_bytes, 0);
	assert_int_equal(stats.open, 1);
	node_release(table, b);
	node_table_stats(table, &stats);
	assert_int_equal(stats.cached_bytes, 700);
	/* Larger than the cache: not kept. */
	struct node *c = look_up("c", file(1), NULL);
	assert_int_equal(stat_by(c, file(1), CACHE + 1, TID), CACHE + 1);
	assert_null(c->snapshot);
	assert_int_equal(open_by(c, file(1), CACHE + 1, TID, &how), 0);
	assert_int_equal(open_size(c), CACHE + 1);
	node_release(table, c);
	node_table_stats(table, &stats);
	assert_true(stats.cached_bytes <= CACHE);
}

static void a_file_that_is_not_rendered_is_one_threads(void **state)
{
	const struct view_attr volatile_file = file(VIEW_VOLATILE), dir = {.kind = VIEW_DIR};
	uint64_t size;

	/* A path walk may look up twice, and has both answers before it goes on. */
	struct node *one = look_up("one", file(1), NULL);
	assert_ptr_equal(look_up("one", file(1), NULL), one);
	struct node *two = look_up_by("one", file(1), OTHER, NULL);
	assert_true(two != one && two->id != one->id && two->ino == one->ino);
	/* Whoever comes later is told the size, and finds what has one. */
	assert_int_equal(stat_by(one, file(1), 10, TID), 10);
	assert_ptr_equal(look_up_by("one", file(1), OTHER + 1, &size), one);
	assert_int_equal(size, 10);

	one = look_up("volatile", volatile_file, NULL);
	assert_ptr_equal(look_up("volatile", volatile_file, NULL), one);
	assert_true(look_up_by("volatile", volatile_file, OTHER, NULL) != one);
	/* Threads that cannot be seen are told apart from nobody. */
	one = look_up_by("unseen", file(1), 0, NULL);
	assert_true(look_up_by("unseen", file(1), 0, NULL) != one);
	/* Only files have a size that is not known. */
	one = look_up("dir", dir, NULL);
	assert_ptr_equal(look_up_by("dir", dir, OTHER, NULL), one);
}

static void pages_are_kept_for_the_same_bytes_only(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	assert_false(how.keep_pages);
	assert_false(how.direct);
	assert_int_equal(open_by(node, file(1), 10, OTHER, &how), 0);
	assert_true(how.keep_pages);
	node_release(table, node);
	node_release(table, node);
	/* Also when the snapshot has been dropped and is rendered anew. */
	drop_snapshot(table, node);
	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	assert_true(how.keep_pages);
	node_release(table, node);
	/* A stat renders another version into this node: its pages are of the old one. */
	assert_int_equal(stat_by(node, file(2), 20, TID), 20);
	assert_int_equal(open_by(node, file(2), 20, TID, &how), 0);
	assert_false(how.keep_pages);
	assert_int_equal(open_size(node), 20);
	node_release(table, node);
}

static void an_unrendered_node_is_opened_as_it_is_now(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(open_by(node, file(2), 20, TID, &how), 0);
	assert_false(how.direct);
	assert_int_equal(open_size(node), 20);
	node_release(table, node);
}

static void an_old_version_keeps_its_size_while_open(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	const struct view_attr now = file(2);
	struct view_attr attr;
	uint64_t size;

	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	assert_int_equal(stat_by(node, now, 20, TID), 10);
	assert_int_equal(open_size(node), 10);
	/* Also if it was opened after the stat had seen that nobody had it open. */
	assert_int_equal(node_stat(table, node, &now, &attr, &size), NODE_READY);
	assert_int_equal(size, 10);
	assert_int_equal(attr.generation, 1);
	node_release(table, node);
	assert_int_equal(stat_by(node, now, 20, TID), 20);
}

static void an_old_version_says_estale_once_and_a_new_lookup_helps(void **state)
{
	struct node *old = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(stat_by(old, file(1), 10, TID), 10);
	assert_int_equal(open_by(old, file(2), 20, TID, &how), -ESTALE);
	struct node *new = look_up("a", file(2), NULL);
	assert_int_equal(open_by(new, file(2), 20, TID, &how), 0);
	assert_int_equal(open_size(new), 20);
	assert_false(how.direct);
	node_release(table, new);
}

static void a_retry_that_is_overtaken_gets_the_version_it_found(void **state)
{
	struct node *old = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(stat_by(old, file(1), 10, TID), 10);
	assert_int_equal(open_by(old, file(2), 20, TID, &how), -ESTALE);
	struct node *new = look_up("a", file(2), NULL);
	assert_int_equal(stat_by(new, file(2), 20, TID), 20);
	/* Meanwhile there is a third: another ESTALE would reach the caller. */
	assert_int_equal(open_by(new, file(3), 30, TID, &how), 0);
	assert_int_equal(open_size(new), 20);
	assert_false(how.direct);
	node_release(table, new);
	/* Another thread has had no ESTALE yet. */
	assert_int_equal(open_by(new, file(3), 30, OTHER, &how), -ESTALE);
}

static void a_retry_on_the_same_node_is_direct(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	/* A bind mount of the file: there is nothing to look up. */
	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	node_release(table, node);
	assert_int_equal(open_by(node, file(2), 20, TID, &how), -ESTALE);
	assert_int_equal(open_by(node, file(2), 20, TID, &how), 0);
	assert_true(how.direct);
	assert_false(how.keep_pages);
	assert_int_equal(open_size(node), 20);
	assert_int_equal(stat_by(node, file(2), 99, TID), 20);
	/* Now it is current, and its pages are still those of the first. */
	assert_int_equal(open_by(node, file(2), 20, OTHER, &how), 0);
	assert_false(how.direct);
	assert_false(how.keep_pages);
	node_release(table, node);
	node_release(table, node);
	/* The next change is met anew. */
	assert_int_equal(open_by(node, file(3), 30, TID, &how), -ESTALE);
}

static void a_retry_on_the_same_node_while_it_is_open_stays_estale(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(open_by(node, file(1), 10, TID, &how), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(open_by(node, file(2), 20, OTHER, &how), -ESTALE);
	assert_int_equal(open_size(node), 10);
	node_release(table, node);
}

static void many_threads_that_never_retry_do_no_harm(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct node_open how;

	assert_int_equal(stat_by(node, file(1), 10, TID), 10);
	for (pid_t tid = 1; tid <= 3 * RETRIES; tid++)
		assert_int_equal(open_by(node, file(2), 20, tid, &how), -ESTALE);
	/* The last ones are remembered. */
	assert_int_equal(open_by(node, file(2), 20, 3 * RETRIES, &how), 0);
	node_release(table, node);
}

static void content_that_changed_while_it_was_rendered_is_of_no_generation(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct rendering rendering = rendering_of(file(1), 15);
	struct view_attr now = file(1);
	struct node_open how;

	rendering.settled = false;
	assert_int_equal(node_open(table, node, &now, TID, &how), NODE_RENDER);
	assert_int_equal(node_open_rendered(table, node, &rendering, TID, &how), 0);
	snapshot_unref(rendering.snapshot);
	node_release(table, node);
	/* It could be of 1 or of 2: not opened again as either. */
	assert_int_equal(open_by(node, file(1), 10, TID, &how), -ESTALE);
	assert_int_equal(open_by(node, file(2), 20, OTHER, &how), -ESTALE);
}

static void two_that_render_at_once_agree_or_one_goes_back(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	struct rendering one = rendering_of(file(1), 10), two = rendering_of(file(2), 20);
	struct view_attr now = file(1);
	struct node_open how;

	assert_int_equal(node_open(table, node, &now, TID, &how), NODE_RENDER);
	assert_int_equal(node_open(table, node, &now, OTHER, &how), NODE_RENDER);
	assert_int_equal(node_open_rendered(table, node, &one, TID, &how), 0);
	assert_int_equal(node_open_rendered(table, node, &two, OTHER, &how), -ESTALE);
	assert_int_equal(node_open_rendered(table, node, &one, OTHER, &how), 0);
	assert_int_equal(node->opens, 2);
	assert_int_equal(open_size(node), 10);
	node_release(table, node);
	node_release(table, node);
	snapshot_unref(one.snapshot);
	snapshot_unref(two.snapshot);
}

static void a_retry_that_is_overtaken_while_it_renders_gets_what_is_open(void **state)
{
	const struct view_attr attr = file(VIEW_VOLATILE);
	struct rendering rendering = rendering_of(attr, 10);
	struct node_open how;

	for (int i = 0; i < 2; i++) {
		struct node *node = look_up("status", attr, NULL);

		assert_int_equal(node_open(table, node, &attr, TID, &how), NODE_RENDER);
		assert_int_equal(open_by(node, attr, 20, OTHER, &how), 0);
		/* A second ESTALE would reach the caller. */
		assert_int_equal(node_open_rendered(table, node, &rendering, TID, &how),
				 i ? 0 : -ESTALE);
		assert_int_equal(open_size(node), 20);
		assert_int_equal(node->opens, i + 1);
		while (node->opens)
			node_release(table, node);
	}
	snapshot_unref(rendering.snapshot);
}

static void volatile_content_is_a_new_node_once_it_was_seen(void **state)
{
	const struct view_attr attr = file(VIEW_VOLATILE);
	struct node *one = look_up("status", attr, NULL);
	struct node_open how;
	uint64_t size;

	assert_ptr_equal(look_up("status", attr, NULL), one);
	assert_int_equal(stat_by(one, attr, 10, TID), 10);
	struct node *two = look_up("status", attr, &size);
	assert_ptr_not_equal(two, one);
	assert_int_equal(size, 0);
	assert_int_equal(two->ino, one->ino);
	assert_int_equal(open_by(two, attr, 20, TID, &how), 0);
	assert_false(how.direct);
	assert_int_equal(open_size(two), 20);
	assert_int_equal(stat_by(two, attr, 30, TID), 20);
	node_release(table, two);
}

static void one_rendering_serves_the_stat_and_the_open_of_an_open(void **state)
{
	const struct view_attr attr = file(VIEW_VOLATILE);
	struct node *node = look_up("status", attr, NULL);
	struct node_open how;

	assert_int_equal(stat_by(node, attr, 10, TID), 10);
	assert_int_equal(open_by(node, attr, 20, TID, &how), 0);
	assert_int_equal(open_size(node), 10);
	assert_false(how.direct);
	node_release(table, node);

	/* But not a stat that somebody else made, nor one of two. */
	node = look_up("status", attr, NULL);
	assert_int_equal(stat_by(node, attr, 10, OTHER), 10);
	assert_int_equal(open_by(node, attr, 20, TID, &how), 0);
	assert_int_equal(open_size(node), 20);
	assert_true(how.direct);
	node_release(table, node);
	node = look_up("status", attr, NULL);
	assert_int_equal(stat_by(node, attr, 10, TID), 10);
	assert_int_equal(stat_by(node, attr, 12, TID), 12);
	assert_int_equal(open_by(node, attr, 20, TID, &how), 0);
	assert_int_equal(open_size(node), 20);
	node_release(table, node);
	/* Threads of other pid namespaces have no number of their own. */
	node = look_up("status", attr, NULL);
	assert_int_equal(stat_by(node, attr, 10, 0), 10);
	assert_int_equal(open_by(node, attr, 20, 0, &how), 0);
	assert_int_equal(open_size(node), 20);
	node_release(table, node);
}

static void volatile_content_that_is_open_is_not_opened_again_as_new(void **state)
{
	const struct view_attr attr = file(VIEW_VOLATILE);
	struct node *node = look_up("status", attr, NULL);
	struct node_open how;

	assert_int_equal(open_by(node, attr, 10, TID, &how), 0);
	assert_int_equal(open_by(node, attr, 20, OTHER, &how), -ESTALE);
	assert_int_equal(open_by(node, attr, 20, OTHER, &how), -ESTALE);
	/* Which of two threads without a number was told so before cannot be known. */
	assert_int_equal(open_by(node, attr, 20, 0, &how), 0);
	assert_int_equal(open_size(node), 10);
	node_release(table, node);
	node_release(table, node);
}

static void streams_of_an_old_epoch_are_opened_when_nobody_has_them(void **state)
{
	struct view_attr one = {.kind = VIEW_STREAM, .generation = 1};
	struct view_attr two = {.kind = VIEW_STREAM, .generation = 2};
	const struct rendering of_one = {.attr = one, .settled = true};
	const struct rendering of_two = {.attr = two, .settled = true};
	struct node *node = look_up("events", one, NULL);
	struct node_open how;

	assert_int_equal(node_open(table, node, &one, TID, &how), NODE_RENDER);
	assert_int_equal(node_open_rendered(table, node, &of_one, TID, &how), 0);
	assert_int_equal(node_open(table, node, &one, TID, &how), NODE_RENDER);
	assert_int_equal(node_open_rendered(table, node, &of_one, TID, &how), 0);
	/* Handles of one node have one first byte. */
	assert_int_equal(node_open(table, node, &two, TID, &how), -ESTALE);
	assert_int_equal(node_open(table, node, &two, TID, &how), -ESTALE);
	node_release(table, node);
	node_release(table, node);
	assert_int_equal(node_open(table, node, &two, TID, &how), NODE_RENDER);
	assert_int_equal(node_open_rendered(table, node, &of_two, TID, &how), 0);
	node_release(table, node);
}

static void all_who_have_a_node_open_read_it_in_one_way(void **state)
{
	struct node *node = look_up("a", file(1), NULL);
	/* The table looks at no more than their number, and hands them on. */
	static uint64_t files[2][32];
	struct backing *first = (struct backing *)files[0], *second = (struct backing *)files[1];
	struct backing *got;
	struct node_open how;

	open_by(node, file(1), 10, TID, &how);
	open_by(node, file(1), 10, OTHER, &how);
	assert_true(node_settle_reading(table, node, first, &got));
	assert_ptr_equal(got, first);
	assert_false(node_settle_reading(table, node, second, &got));
	assert_ptr_equal(got, first);
	assert_false(node_settle_reading(table, node, NULL, &got));
	assert_ptr_equal(got, first);
	assert_null(node_release(table, node));
	assert_ptr_equal(node_release(table, node), first);
	/* Those who come later settle it anew. */
	open_by(node, file(1), 10, TID, &how);
	open_by(node, file(1), 10, OTHER, &how);
	assert_true(node_settle_reading(table, node, NULL, &got));
	assert_null(got);
	assert_false(node_settle_reading(table, node, second, &got));
	assert_null(got);
	assert_null(node_release(table, node));
	assert_null(node_release(table, node));
}

static struct chunk *chunk_of(const char *text)
{
	struct chunk *chunk;

	assert_int_equal(chunk_take(strdup(text), strlen(text), &chunk), 0);
	return chunk;
}

static void snapshots_share_the_chunks_that_they_begin_with(void **state)
{
	struct chunk *a = chunk_of("one"), *b = chunk_of("two"), *c = chunk_of("two");
	struct snapshot *ab, *ac, *b_only, *aba;

	assert_int_equal(snapshot_from_chunks((struct chunk *[]){a, b}, 2, &ab), 0);
	assert_int_equal(snapshot_from_chunks((struct chunk *[]){a, c}, 2, &ac), 0);
	assert_int_equal(snapshot_from_chunks(&b, 1, &b_only), 0);
	assert_int_equal(snapshot_from_chunks((struct chunk *[]){a, b, a}, 3, &aba), 0);
	assert_int_equal(snapshot_shared_prefix(ab, ab), 6);
	/* The same bytes in another chunk are not looked at. */
	assert_int_equal(snapshot_shared_prefix(ab, ac), 3);
	assert_int_equal(snapshot_shared_prefix(ab, b_only), 0);
	assert_int_equal(snapshot_shared_prefix(ab, aba), 6);
	assert_int_equal(snapshot_shared_prefix(aba, ab), 6);
	snapshot_unref(ab);
	snapshot_unref(ac);
	snapshot_unref(b_only);
	snapshot_unref(aba);
	chunk_unref(a);
	chunk_unref(b);
	chunk_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(versions_share_an_inode_number),
		TEST(ids_are_computed),
		TEST(a_path_that_becomes_another_kind_is_another_node),
		TEST(a_directory_of_another_generation_is_stale),
		TEST(collisions_are_told_apart),
		TEST(the_table_grows_and_shrinks),
		TEST(forget_counts),
		TEST(a_size_is_told_once_it_is_known),
		TEST(a_stream_tells_the_size_of_the_moment),
		TEST(sizes_are_remembered_past_the_cache),
		TEST(a_file_that_is_not_rendered_is_one_threads),
		TEST(pages_are_kept_for_the_same_bytes_only),
		TEST(an_unrendered_node_is_opened_as_it_is_now),
		TEST(an_old_version_keeps_its_size_while_open),
		TEST(an_old_version_says_estale_once_and_a_new_lookup_helps),
		TEST(a_retry_that_is_overtaken_gets_the_version_it_found),
		TEST(a_retry_on_the_same_node_is_direct),
		TEST(a_retry_on_the_same_node_while_it_is_open_stays_estale),
		TEST(many_threads_that_never_retry_do_no_harm),
		TEST(content_that_changed_while_it_was_rendered_is_of_no_generation),
		TEST(two_that_render_at_once_agree_or_one_goes_back),
		TEST(a_retry_that_is_overtaken_while_it_renders_gets_what_is_open),
		TEST(volatile_content_is_a_new_node_once_it_was_seen),
		TEST(one_rendering_serves_the_stat_and_the_open_of_an_open),
		TEST(volatile_content_that_is_open_is_not_opened_again_as_new),
		TEST(all_who_have_a_node_open_read_it_in_one_way),
		TEST(snapshots_share_the_chunks_that_they_begin_with),
		TEST(streams_of_an_old_epoch_are_opened_when_nobody_has_them),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
