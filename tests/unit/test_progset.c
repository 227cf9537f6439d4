/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which program stands for a tag, against a plain model that sorts. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/progset.h"

#define TAGS  4
#define PROGS 64
#define STEPS 20000

static struct blob_pool *pool;
static struct progset *set;

static int setup(void **state)
{
	return blob_pool_create(&pool) ?: progset_create(pool, &set);
}

static int teardown(void **state)
{
	progset_destroy(set);
	blob_pool_destroy(pool);
	return 0;
}

static void make_tag(int n, uint8_t ret[BPF_TAG_SIZE])
{
	memset(ret, n + 1, BPF_TAG_SIZE);
}

static struct prog *make_prog(uint32_t id, int own, int sub, uint64_t loaded)
{
	struct prog_func *funcs = calloc(2, sizeof(*funcs));
	uint8_t tag[BPF_TAG_SIZE];
	struct prog *prog;

	assert_non_null(funcs);
	make_tag(own, funcs[0].tag);
	make_tag(sub, funcs[1].tag);
	make_tag(own, tag);
	assert_int_equal(prog_from_records(id, tag, funcs, 2, 0, &prog), 0);
	prog->loaded_mono = loaded;
	return prog;
}

/* A program of tag own with a subprogram of tag sub. */
static void add(uint32_t id, int own, int sub, uint64_t loaded)
{
	struct prog *prog = make_prog(id, own, sub, loaded);

	assert_int_equal(progset_add(set, prog), 0);
	prog_unref(prog);
}

struct model {
	uint32_t id; /* 0: not there */
	int own, sub;
	bool loaded;
	uint64_t time;
};

static int compare_for;

static int compare_models(const void *a, const void *b)
{
	const struct model *x = a, *y = b;
	int own = (y->own == compare_for) - (x->own == compare_for);

	if (own || x->loaded != y->loaded)
		return own ?: y->loaded - x->loaded;
	if (x->time != y->time)
		return x->time < y->time ? 1 : -1;
	return x->id < y->id ? 1 : -1;
}

static void assert_like(const struct model *models)
{
	for (int n = 0; n < TAGS; n++) {
		struct model expected[PROGS];
		uint8_t tag[BPF_TAG_SIZE];
		struct prog_list list;
		size_t count = 0;

		for (int i = 0; i < PROGS; i++)
			if (models[i].id && (models[i].own == n || models[i].sub == n))
				expected[count++] = models[i];
		compare_for = n;
		qsort(expected, count, sizeof(expected[0]), compare_models);
		make_tag(n, tag);
		if (!count) {
			assert_int_equal(progset_of_tag(set, tag, &list), -ENOENT);
			assert_null(progset_standing_for_tag(set, tag));
			continue;
		}
		assert_int_equal(progset_of_tag(set, tag, &list), 0);
		assert_int_equal(list.count, count);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(list.progs[i]->id, expected[i].id);
		assert_int_equal(progset_standing_for_tag(set, tag)->id, expected[0].id);
		prog_list_deinit(&list);
	}
}

/* Loads, unloads, replacements and removals in any order, with times that repeat and step back. */
static void test_standing(void **state)
{
	struct model models[PROGS] = {};
	uint32_t next_id = 1;

	srand(1);
	for (int step = 0; step < STEPS; step++) {
		struct model *model = &models[rand() % PROGS];

		if (!model->id) {
			*model = (struct model){
				.id = next_id++,
				.own = rand() % TAGS,
				.sub = rand() % TAGS,
				.loaded = true,
				.time = step + rand() % 20,
			};
			add(model->id, model->own, model->sub, model->time);
		} else if (rand() % 4 == 0) {
			struct prog *prog =
				make_prog(model->id, model->own, model->sub, model->time);

			assert_int_equal(progset_replace(set, prog), 0);
			assert_ptr_equal(progset_find(set, model->id), prog);
			prog_unref(prog);
		} else if (model->loaded && rand() % 4) {
			model->loaded = false;
			assert_int_equal(progset_unload(set, model->id, step + 1, 1), 0);
		} else {
			assert_int_equal(progset_remove(set, model->id), 0);
			model->id = 0;
		}
		if (step % 10 == 0)
			assert_like(models);
	}
}

/* What retention counts is what the heap holds: small programs are mostly overhead. */
static void test_retained_bytes(void **state)
{
	enum { MANY = 2000 };
	size_t before = mallinfo2().uordblks;

	if (!before)
		return; /* a sanitizer's heap does not tell */
	for (uint32_t id = 1; id <= MANY; id++) {
		uint8_t tag[BPF_TAG_SIZE] = {};
		struct prog_func *funcs = calloc(1, sizeof(*funcs));
		struct prog *prog;

		assert_non_null(funcs);
		memcpy(tag, &id, sizeof(id));
		memcpy(funcs->tag, tag, sizeof(tag));
		assert_true(asprintf(&funcs->symbol, "bpf_prog_00000000%08x_many", id) > 0);
		assert_int_equal(prog_from_records(id, tag, funcs, 1, 0, &prog), 0);
		assert_int_equal(blob_intern(pool, &id, sizeof(id), &prog->jited), 0);
		assert_int_equal(progset_add(set, prog), 0);
		prog_unref(prog);
	}
	assert_int_equal(progset_retained_bytes(set), 0);
	for (uint32_t id = 1; id <= MANY; id++)
		progset_unload(set, id, id, id);
	assert_in_range(progset_retained_bytes(set), (mallinfo2().uordblks - before) * 85 / 100,
			(mallinfo2().uordblks - before) * 125 / 100);
	for (uint32_t id = 1; id <= MANY; id++)
		assert_int_equal(progset_remove(set, id), 0);
	assert_int_equal(progset_retained_bytes(set), 0);
}

static struct prog *make_at(uint32_t id, uint64_t addr, uint64_t loaded)
{
	struct prog *prog = make_prog(id, 0, 1, loaded);

	prog->funcs[0].addr = addr;
	return prog;
}

/* Programs that follow each other at an address, and what takes the place of one of them. */
static void test_missed(void **state)
{
	struct prog *second;

	for (uint32_t id = 1; id <= 4; id++) {
		struct prog *prog = make_at(id, id < 4 ? 0x1000 : 0x2000, id * 100);

		assert_int_equal(progset_add(set, prog), 0);
		prog_unref(prog);
	}
	for (uint32_t id = 1; id <= 3; id++)
		assert_int_equal(progset_unload(set, id, id * 100 + 50, id), 0);
	assert_null(progset_find_missed(set, 0x1000, 99));
	assert_int_equal(progset_find_missed(set, 0x1000, 299)->id, 2);
	assert_int_equal(progset_find_missed(set, 0x1000, 999)->id, 3);
	assert_int_equal(progset_find_missed(set, 0x2000, 999)->id, 4);

	second = make_at(2, 0x1000, 200);
	second->captured = true;
	assert_int_equal(blob_intern(pool, "image", 5, &second->jited), 0);
	size_t before = progset_retained_bytes(set);

	assert_int_equal(progset_replace(set, second), 0);
	assert_true(progset_retained_bytes(set) > before);
	prog_unref(second);
	/* It is not missed any more, and leaves when its turn comes. */
	assert_int_equal(progset_find_missed(set, 0x1000, 299)->id, 1);
	assert_int_equal(progset_retained(set), 3);
	for (uint32_t id = 1; id <= 3; id++) {
		assert_int_equal(progset_oldest_retained(set)->id, id);
		assert_int_equal(progset_remove(set, id), 0);
	}
	assert_null(progset_find_missed(set, 0x1000, 999));
	assert_int_equal(progset_retained_bytes(set), 0);
	second = make_at(2, 0x1000, 200);
	assert_int_equal(progset_replace(set, second), -ENOENT);
	prog_unref(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_standing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retained_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_missed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
