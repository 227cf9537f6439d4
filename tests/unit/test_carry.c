/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that outlives its process: blocks are zeroed, keep to themselves, and are found again. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/carry.h"
#include "core/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Of a class, and of pages of their own: with its header, the first of those fills them. */
static const size_t sizes[] = {1, 48, 1000, 20000, 300000, (1 << 20) + 4080, 3 << 20};

static bool is_filled(const char *block, char byte, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (block[i] != byte)
			return false;
	return true;
}

static void test_blocks_are_zeroed_and_apart(void **state)
{
	char *blocks[ARRAY_SIZE(sizes)];

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			blocks[i] = carry_alloc(sizes[i]);
			assert_non_null(blocks[i]);
			assert_int_equal((uintptr_t)blocks[i] % 16, 0);
			assert_true(is_filled(blocks[i], 0, sizes[i]));
			memset(blocks[i], 'a' + (int)i, sizes[i]);
		}
		/* One after the other goes, and comes back without a trace in its neighbours. */
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			carry_free(blocks[i]);
			blocks[i] = carry_alloc(sizes[i]);
			assert_true(is_filled(blocks[i], 0, sizes[i]));
			memset(blocks[i], 'a' + (int)i, sizes[i]);
			for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
				assert_true(is_filled(blocks[k], 'a' + (int)k, sizes[k]));
		}
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
			carry_free(blocks[i]);
	}
}

static void test_write(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_free_ char *from = malloc(sizes[i]);
		char *block = carry_alloc(sizes[i] + 1);

		assert_non_null(from);
		memset(from, 'x', sizes[i]);
		carry_write(block, from, sizes[i]);
		assert_memory_equal(block, from, sizes[i]);
		assert_int_equal(block[sizes[i]], 0);
		carry_free(block);
	}
}

static bool take(void *block, size_t len, void *arg)
{
	size_t *found = arg;

	assert_true(*found < ARRAY_SIZE(sizes));
	assert_true(len >= sizes[*found]);
	assert_true(is_filled(block, 'p', sizes[*found]));
	(*found)++;
	return true;
}

static int leave(int fd)
{
	if (carry_open(fd, 3) < 0 || carry_is_inherited())
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		char *kept = carry_alloc(sizes[i]), *freed = carry_alloc(sizes[i]);
		char *unpublished = carry_alloc(sizes[i]);

		if (!kept || !freed || !unpublished)
			return 1;
		memset(kept, 'p', sizes[i]);
		carry_publish(kept, CARRY_BLOB);
		carry_publish(freed, CARRY_BLOB);
		carry_free(freed);
	}
	carry_root()->last_file++;
	return 0;
}

/* What another process has published and not freed is found, and nothing else. First of all here.
 */
static void test_inherits(void **state)
{
	int fd = memfd_create("carry", MFD_CLOEXEC), status;
	size_t found = 0;

	assert_true(fd >= 0);
	pid_t child = fork();
	if (!child)
		_exit(leave(fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(carry_open(fd, 4), 0);
	assert_true(carry_is_inherited());
	/* Far from what an earlier one has counted, with a region that is not there any more. */
	assert_int_equal(carry_root()->last_file, (UINT64_C(3) << 40) + 1);
	carry_take(CARRY_BLOB, take, &found);
	assert_int_equal(found, ARRAY_SIZE(sizes));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inherits),
		cmocka_unit_test(test_blocks_are_zeroed_and_apart),
		cmocka_unit_test(test_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
