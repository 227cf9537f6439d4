/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/snapshot.h"
#include "core/text.h"

static void assert_text(struct text *text, const char *expected)
{
	assert_false(text->failed);
	assert_int_equal(text->len, strlen(expected));
	assert_memory_equal(text->data, expected, text->len);
	text_deinit(text);
}

static void test_numbers(void **state)
{
	struct text text = {};

	text_hex16(&text, 0xffffffffc0021a08);
	text_putc(&text, ' ');
	text_hex16(&text, 0x1f);
	text_putc(&text, ' ');
	text_seconds(&text, 1234567890123);
	text_putc(&text, ' ');
	text_hexdump(&text, "\x00\xfe\x10", 3);
	assert_text(&text, "ffffffffc0021a08 000000000000001f 1234.567890123 00fe10");
}

static void test_escape(void **state)
{
	struct text text = {};

	text_escape(&text, "a b\\c/\n\x7f\xff~", 10);
	assert_text(&text, "a\\040b\\134c/\\012\\177\\377~");
	text_escape(&text, "..", 2);
	assert_text(&text, "..");
}

/* Each name has one file name, and gets back from it what it was. */
static void test_file_names(void **state)
{
	static const struct {
		const char *name, *written;
	} cases[] = {
		{"", "\\000"},	       {".", "\\056"},
		{"..", "\\056\\056"},  {"...", "..."},
		{"a/b", "a\\057b"},    {"x y", "x\\040y"},
		{"\\000", "\\134000"}, {"\xc3\xa4", "\\303\\244"},
		{".a", ".a"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text text = {};
		char *back;

		text_escape_file_name(&text, cases[i].name, strlen(cases[i].name));
		assert_int_equal(text_take_string(&text, &back), 0);
		assert_string_equal(back, cases[i].written);
		assert_int_equal(unescape_file_name(back), strlen(cases[i].name));
		assert_string_equal(back, cases[i].name);
		free(back);
	}
}

static void test_bad_file_names(void **state)
{
	static const char *const bad[] = {"",	   ".",	    "..",  "\\",    "\\0", "\\05",
					  "\\400", "\\141", "a\\", "\\8aa", "a b", "\\056a"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *name = strdup(bad[i]);

		assert_non_null(name);
		assert_int_equal(unescape_file_name(name), -EINVAL);
		free(name);
	}
}

static void test_empty_snapshot(void **state)
{
	struct text text = {};
	struct snapshot *snapshot;
	struct iovec iov;

	assert_int_equal(text_take_snapshot(&text, &snapshot), 0);
	assert_int_equal(snapshot_size(snapshot), 0);
	assert_int_equal(snapshot_iov(snapshot, 0, 10, &iov, 1), 0);
	snapshot_unref(snapshot);
}

/* Reads at every offset and length of a chunked snapshot equal those of the plain bytes. */
static void test_chunked_reads(void **state)
{
	static const char bytes[] = "0123456789abcdefghij";
	static const size_t cuts[] = {0, 3, 3, 4, 10, 20};
	struct chunk *chunks[ARRAY_SIZE(cuts) - 1];
	struct snapshot *snapshot;

	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		size_t len = cuts[i + 1] - cuts[i];
		char *data = malloc(len ? len : 1);

		assert_non_null(data);
		memcpy(data, bytes + cuts[i], len);
		assert_int_equal(chunk_take(data, len, &chunks[i]), 0);
	}
	assert_int_equal(snapshot_from_chunks(chunks, ARRAY_SIZE(chunks), &snapshot), 0);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
		chunk_unref(chunks[i]);

	assert_int_equal(snapshot_size(snapshot), 20);
	for (size_t offset = 0; offset < 23; offset++) {
		for (size_t len = 0; len < 23; len++) {
			char buf[32];
			size_t expected = offset < 20 ? MIN(len, 20 - offset) : 0;

			assert_int_equal(snapshot_read(snapshot, offset, buf, len), expected);
			assert_memory_equal(buf, bytes + MIN(offset, (size_t)20), expected);
		}
	}
	snapshot_unref(snapshot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	       cmocka_unit_test(test_escape),
		cmocka_unit_test(test_file_names),     cmocka_unit_test(test_bad_file_names),
		cmocka_unit_test(test_empty_snapshot), cmocka_unit_test(test_chunked_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
