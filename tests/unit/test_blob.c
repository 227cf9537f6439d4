/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Equal bytes are one blob, counted once, for as long as anybody has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/blob.h"

static struct blob *intern(struct blob_pool *pool, const void *data, size_t len)
{
	struct blob *blob;

	assert_int_equal(blob_intern(pool, data, len, &blob), 0);
	assert_int_equal(blob->len, len);
	if (len)
		assert_memory_equal(blob->data, data, len);
	else
		assert_null(blob->data);
	assert_int_equal((uintptr_t)blob->data % 8, 0);
	return blob;
}

static void test_equal_bytes_are_one(void **state)
{
	struct blob_pool *pool;

	assert_int_equal(blob_pool_create(&pool), 0);
	struct blob *a = intern(pool, "image", 5);
	struct blob *b = intern(pool, "image", 5);
	struct blob *longer = intern(pool, "image2", 6);
	struct blob *other = intern(pool, "Image", 5);
	struct blob *empty = intern(pool, NULL, 0);

	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, longer);
	assert_ptr_not_equal(a, other);
	assert_ptr_equal(empty, intern(pool, "", 0));
	assert_int_equal(blob_pool_bytes(pool), 5 + 6 + 5);
	blob_unref(longer);
	blob_unref(other);
	assert_int_equal(blob_pool_bytes(pool), 5);
	blob_unref(a);
	assert_int_equal(blob_pool_bytes(pool), 5);
	assert_memory_equal(b->data, "image", 5);
	assert_ptr_equal(blob_ref(b), b);
	blob_unref(b);
	assert_int_equal(blob_pool_bytes(pool), 5);
	blob_unref(b);
	assert_int_equal(blob_pool_bytes(pool), 0);
	blob_unref(empty);
	blob_unref(empty);
	blob_unref(NULL);
	blob_pool_destroy(pool);
}

/* What two retained programs share counts once, and until the second lets go. */
static void test_retained(void **state)
{
	struct blob_pool *pool;

	assert_int_equal(blob_pool_create(&pool), 0);
	struct blob *shared = intern(pool, "shared", 6);
	struct blob *own = intern(pool, "own", 3);

	assert_int_equal(blob_pool_retained_bytes(pool), 0);
	blob_retain(shared);
	blob_retain(shared);
	blob_retain(own);
	size_t both = blob_pool_retained_bytes(pool);

	assert_true(both > 9);
	blob_release(own);
	blob_release(shared);
	size_t one = blob_pool_retained_bytes(pool);

	assert_true(one > 6);
	assert_true(one < both - 3);
	blob_release(shared);
	assert_int_equal(blob_pool_retained_bytes(pool), 0);
	assert_int_equal(blob_pool_bytes(pool), 9);
	blob_unref(shared);
	blob_unref(own);
	blob_pool_destroy(pool);
}

/* A pool lives on in its last blob. */
static void test_outlives_owner(void **state)
{
	struct blob_pool *pool;

	assert_int_equal(blob_pool_create(&pool), 0);
	struct blob *a = intern(pool, "a", 1), *b = intern(pool, "b", 1);

	blob_pool_destroy(pool);
	blob_unref(a);
	assert_memory_equal(b->data, "b", 1);
	blob_unref(b);
	blob_pool_destroy(NULL);
}

/* More blobs than the table started with buckets for: all found again, all gone at the end. */
static void test_many(void **state)
{
	enum { MANY = 5000 };
	struct blob **blobs = calloc(MANY, sizeof(*blobs));
	struct blob_pool *pool;

	assert_non_null(blobs);
	assert_int_equal(blob_pool_create(&pool), 0);
	for (uint32_t i = 0; i < MANY; i++)
		blobs[i] = intern(pool, &i, sizeof(i));
	assert_int_equal(blob_pool_bytes(pool), MANY * sizeof(uint32_t));
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(intern(pool, &i, sizeof(i)), blobs[i]);
	for (uint32_t i = 0; i < MANY; i++) {
		blob_unref(blobs[i]);
		blob_unref(blobs[i]);
	}
	assert_int_equal(blob_pool_bytes(pool), 0);
	blob_pool_destroy(pool);
	free(blobs);
}

static void *churn(void *arg)
{
	struct blob_pool *pool = arg;

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t content = i % 7;
		struct blob *blob;

		if (blob_intern(pool, &content, sizeof(content), &blob) < 0)
			return pool;
		blob_retain(blob);
		bool wrong = memcmp(blob->data, &content, sizeof(content)) != 0;

		blob_release(blob);
		blob_unref(blob);
		if (wrong)
			return pool;
	}
	return NULL;
}

/* Blobs that one thread drops while another finds them. */
static void test_threads(void **state)
{
	struct blob_pool *pool;
	pthread_t threads[3];

	assert_int_equal(blob_pool_create(&pool), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, pool), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *wrong;

		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_int_equal(blob_pool_bytes(pool), 0);
	assert_int_equal(blob_pool_retained_bytes(pool), 0);
	blob_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_bytes_are_one),
		cmocka_unit_test(test_retained),
		cmocka_unit_test(test_outlives_owner),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
