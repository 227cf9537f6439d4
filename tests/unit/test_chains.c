/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/chains.h"
#include "core/cleanup.h"

enum { MANY = 5000, HASHES = 1000 };

struct item {
	struct chain_link link;
	uint32_t key;
	bool there, seen;
};

static struct item items[MANY];

static struct item *find(const struct chains *chains, uint64_t hash, uint32_t key)
{
	struct chain_link *link = chains_find(chains, hash);

	while (link && ((struct item *)link)->key != key)
		link = chain_next(link);
	return (struct item *)link;
}

static void see(struct chain_link *link, void *arg)
{
	struct item *item = (struct item *)link;

	assert_true(item->there && !item->seen);
	item->seen = true;
}

static void take_out(struct chain_link *link, void *arg)
{
	chains_remove(arg, link);
	((struct item *)link)->there = false;
}

static void assert_all(const struct chains *chains)
{
	size_t count = 0;

	chains_visit(chains, see, NULL);
	for (uint32_t i = 0; i < MANY; i++) {
		struct item *item = &items[i];

		assert_ptr_equal(find(chains, i % HASHES, i), item->there ? item : NULL);
		assert_int_equal(item->seen, item->there);
		count += item->there;
		item->seen = false;
	}
	assert_int_equal(chains->count, count);
}

/* Five of each hash, and far more than there are buckets at first. */
static void test_all(void **state)
{
	struct chains chains;

	assert_int_equal(chains_init(&chains), 0);
	assert_null(chains_find(&chains, 0));
	for (uint32_t i = 0; i < MANY; i++) {
		items[i] = (struct item){.key = i, .there = true};
		chains_add(&chains, &items[i].link, i % HASHES);
	}
	assert_all(&chains);
	/* The first, the last and the middle ones of their chains. */
	for (uint32_t i = 0; i < MANY; i += 3)
		take_out(&items[i].link, &chains);
	assert_all(&chains);
	chains_visit(&chains, take_out, &chains);
	assert_all(&chains);
	chains_deinit(&chains);
	chains_deinit(&chains);
}

static void test_hash(void **state)
{
	struct chains one, other;

	assert_int_equal(chains_init(&one), 0);
	assert_int_equal(chains_init(&other), 0);
	assert_int_equal(chains_hash(&one, "abc", 3), chains_hash(&one, "abcd", 3));
	assert_int_not_equal(chains_hash(&one, "abc", 3), chains_hash(&one, "abd", 3));
	/* Nobody knows where a name goes in another table. */
	assert_int_not_equal(chains_hash(&one, "abc", 3), chains_hash(&other, "abc", 3));
	chains_deinit(&one);
	chains_deinit(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
