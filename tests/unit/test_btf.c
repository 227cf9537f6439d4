/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of BTF types found by a walk over hand-made BTF; bytes that are not BTF refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/btf.h"

#define INFO(kind, vlen) ((uint32_t)(kind) << 24 | (vlen))

/* A type of each kind that has something behind it, each followed by what a wrong length would hit.
 */
static const uint32_t types[] = {
	/* 1 */ 1,    INFO(BTF_KIND_INT, 0),	    4, 32,
	/* 2 */ 0,    INFO(BTF_KIND_PTR, 0),	    1,
	/* 3 */ 0,    INFO(BTF_KIND_ARRAY, 0),	    0, 1,	   1, 4,
	/* 4 */ 5,    INFO(BTF_KIND_STRUCT, 2),	    8, 1,	   1, 0, 1, 1, 32,
	/* 5 */ 5,    INFO(BTF_KIND_UNION, 1),	    4, 1,	   1, 0,
	/* 6 */ 7,    INFO(BTF_KIND_ENUM, 2),	    4, 1,	   0, 5, 1,
	/* 7 */ 0,    INFO(BTF_KIND_FUNC_PROTO, 1), 1, 1,	   1,
	/* 8 */ 9,    INFO(BTF_KIND_FUNC, 1),	    7,
	/* 9 */ 14,   INFO(BTF_KIND_VAR, 0),	    1, 1,
	/* 10 */ 5,   INFO(BTF_KIND_DATASEC, 1),    4, 9,	   0, 4,
	/* 11 */ 7,   INFO(BTF_KIND_DECL_TAG, 0),   8, 0xffffffff,
	/* 12 */ 7,   INFO(19 /* ENUM64 */, 1),	    8, 1,	   0, 0,
	/* 13 */ 14,  INFO(BTF_KIND_FUNC, 0),	    7,
	/* 14 */ 999, INFO(BTF_KIND_TYPEDEF, 0),    1,
};
static const char strings[] = "\0int\0s\0e\0main\0var";

struct raw {
	struct btf_header header;
	uint8_t sections[sizeof(types) + sizeof(strings)];
};

static void make(struct raw *raw)
{
	raw->header = (struct btf_header){
		.magic = BTF_MAGIC,
		.version = BTF_VERSION,
		.hdr_len = sizeof(raw->header),
		.type_len = sizeof(types),
		.str_off = sizeof(types),
		.str_len = sizeof(strings),
	};
	memcpy(raw->sections, types, sizeof(types));
	memcpy(raw->sections + sizeof(types), strings, sizeof(strings));
}

static const size_t raw_len = sizeof(struct btf_header) + sizeof(types) + sizeof(strings);

static void test_names(void **state)
{
	/* In no order, one twice, and some that are not there. */
	static const uint32_t ids[] = {13, 8, 1, 0, 10, 8, 14, 15, UINT32_MAX, 3, 12};
	static const char *const expected[] = {"var", "main", "int", NULL, "s", "main",
					       NULL,  NULL,   NULL,  "",   "e"};
	const char *names[ARRAY_SIZE(ids)];
	struct btf_view btf;
	struct raw raw;

	make(&raw);
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), 0);
	assert_int_equal(btf_view_names(&btf, ids, ARRAY_SIZE(ids), names), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		if (expected[i])
			assert_string_equal(names[i], expected[i]);
		else
			assert_null(names[i]);
	}
	assert_int_equal(btf_view_names(&btf, NULL, 0, NULL), 0);
}

static void test_strings(void **state)
{
	struct btf_view btf;
	struct raw raw;

	make(&raw);
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), 0);
	assert_string_equal(btf_view_string(&btf, 0), "");
	assert_string_equal(btf_view_string(&btf, 9), "main");
	assert_string_equal(btf_view_string(&btf, sizeof(strings) - 1), "");
	assert_null(btf_view_string(&btf, sizeof(strings)));
	assert_null(btf_view_string(&btf, UINT32_MAX));
}

/* Every length short of the whole, in memory of that length. */
static void test_truncated(void **state)
{
	struct btf_view btf;
	struct raw raw;

	make(&raw);
	for (size_t len = 0; len < raw_len; len++) {
		uint8_t *copy = malloc(len ? len : 1);

		assert_non_null(copy);
		memcpy(copy, &raw, len);
		assert_int_equal(btf_view_init(&btf, copy, len), -EBADMSG);
		free(copy);
	}
}

static void test_bad_headers(void **state)
{
	struct btf_view btf;
	struct raw raw;

	make(&raw);
	raw.header.magic = 0x9feb;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	make(&raw);
	raw.header.hdr_len = 8;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	make(&raw);
	raw.header.hdr_len = UINT32_MAX;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	make(&raw);
	raw.header.type_off = UINT32_MAX;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	make(&raw);
	raw.header.str_off = UINT32_MAX - 3;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	make(&raw);
	raw.header.str_len = 0;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
	/* Strings without an end. */
	make(&raw);
	raw.header.str_len--;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), -EBADMSG);
}

/* A kind that nobody knows ends the walk: names before it stay. */
static void test_bad_types(void **state)
{
	static const uint32_t ids[] = {1, 13};
	const char *names[ARRAY_SIZE(ids)];
	struct btf_view btf;
	struct raw raw;
	uint32_t info = INFO(31, 0);

	make(&raw);
	memcpy(raw.sections + 5 * sizeof(uint32_t), &info, sizeof(info));
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), 0);
	assert_int_equal(btf_view_names(&btf, ids, ARRAY_SIZE(ids), names), -EBADMSG);
	assert_string_equal(names[0], "int");
	assert_null(names[1]);

	/* More members than there are bytes. */
	info = INFO(BTF_KIND_STRUCT, 0xffff);
	make(&raw);
	memcpy(raw.sections + 5 * sizeof(uint32_t), &info, sizeof(info));
	assert_int_equal(btf_view_names(&btf, ids, ARRAY_SIZE(ids), names), -EBADMSG);
	assert_null(names[1]);
	/* A section that ends in the middle of a type. */
	make(&raw);
	raw.header.type_len -= 8;
	assert_int_equal(btf_view_init(&btf, &raw, raw_len), 0);
	assert_int_equal(btf_view_names(&btf, &(uint32_t){14}, 1, names), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	  cmocka_unit_test(test_strings),
		cmocka_unit_test(test_truncated), cmocka_unit_test(test_bad_headers),
		cmocka_unit_test(test_bad_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
