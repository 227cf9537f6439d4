/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/lineinfo.h"
#include "tests/unit/progfixture.h"

#define BASE UINT64_C(0xffffffffc0010000)

static const uint8_t code[64];
static const struct bpf_insn insns[32];

/* One function of 16 bytes and 8 instructions. */
static void single(struct prog_fixture *f)
{
	fixture_init(f, code, 16, insns, 8);
	fixture_func(f, "main", BASE, 16, 0);
}

/* A main function that lies above its subprogram, as the kernel's allocator may place them. */
static void pair(struct prog_fixture *f)
{
	fixture_init(f, code, 32, insns, 16);
	fixture_func(f, "main", BASE + 0x100, 16, 0);
	fixture_func(f, "sub", BASE, 16, 8);
}

static void assert_rows(const struct lineinfo *info, const struct prog *prog, const char *expected)
{
	struct text text = {};

	lineinfo_write_lines(info, prog, &text);
	text_putc(&text, '\0');
	assert_false(text.failed);
	assert_string_equal(text.data, expected);
	text_deinit(&text);
}

static void assert_source(const struct lineinfo *info, const char *expected)
{
	struct text text = {};

	assert_int_equal(lineinfo_write_source(info, &text), 0);
	text_putc(&text, '\0');
	assert_false(text.failed);
	assert_string_equal(text.data, expected);
	text_deinit(&text);
}

static void test_rows(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	pair(&f);
	fixture_line(&f, 0, BASE + 0x100, "/src/a.c", "\treturn f(x);", 12, 3);
	fixture_line(&f, 3, BASE + 0x108, "/src/a.h", "x + 1", 7, 0);
	fixture_line(&f, 8, BASE, "/src/a.c", "", 0, 0);
	fixture_line(&f, 9, BASE + 2, "/src/a.c", "  f();", 2, 1023);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_int_equal(info.insn_count, 4);
	assert_int_equal(info.addr_left_out.strings + info.addr_left_out.range +
				 info.addr_left_out.order,
			 0);
	assert_rows(&info, &f.prog,
		    "ffffffffc0010000 sub+0x0 /src/a.c:0:0: \n"
		    "ffffffffc0010002 sub+0x2 /src/a.c:2:1023: f();\n"
		    "ffffffffc0010100 main+0x0 /src/a.c:12:3: return f(x);\n"
		    "ffffffffc0010108 main+0x8 /src/a.h:7:0: x + 1\n");
	assert_source(&info, "/src/a.c:0:0: \n"
			     "/src/a.c:2:1023: f();\n"
			     "/src/a.c:12:3: return f(x);\n"
			     "/src/a.h:7:0: x + 1\n");
	lineinfo_deinit(&info);
}

/* Every byte has the line of the nearest entry at or below it, in its own function only. */
static void test_find(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	pair(&f);
	fixture_line(&f, 0, BASE + 0x100, "a.c", "one", 1, 1);
	fixture_line(&f, 3, BASE + 0x108, "a.c", "two", 2, 1);
	fixture_line(&f, 8, BASE + 4, "a.c", "three", 3, 1);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	for (uint64_t addr = BASE - 1; addr < BASE + 0x120; addr++) {
		const struct line *line = lineinfo_find(&info, &f.prog, addr);
		uint32_t expected = 0;

		if (addr >= BASE + 4 && addr < BASE + 16)
			expected = 3;
		else if (addr >= BASE + 0x100 && addr < BASE + 0x110)
			expected = addr < BASE + 0x108 ? 1 : 2;
		assert_int_equal(line ? line->number : 0, expected);
	}
	assert_null(lineinfo_find(&info, &f.prog, UINT64_MAX));
	assert_null(lineinfo_find(&info, &f.prog, 0));
	lineinfo_deinit(&info);
}

/* Code that the JIT left out gives two records one address: the later one has the code there. */
static void test_shared_address(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	single(&f);
	fixture_line(&f, 0, BASE, "a.c", "one", 1, 1);
	fixture_line(&f, 1, BASE + 4, "a.c", "two", 2, 1);
	fixture_line(&f, 2, BASE + 4, "a.c", "three", 3, 1);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_int_equal(info.addr_count, 3);
	assert_int_equal(lineinfo_find(&info, &f.prog, BASE + 3)->number, 1);
	assert_int_equal(lineinfo_find(&info, &f.prog, BASE + 4)->number, 3);
	assert_int_equal(lineinfo_count_below(&info, BASE + 4), 1);
	assert_int_equal(lineinfo_count_below(&info, BASE + 5), 3);
	lineinfo_deinit(&info);
}

static void test_left_out(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;
	uint32_t file, text;

	single(&f);
	file = fixture_string(&f, "a.c");
	text = fixture_string(&f, "x");
	fixture_record(&f, 0, BASE, file, text, 1, 1);
	fixture_record(&f, 1, BASE + 2, file, f.btf_data.header.str_len, 2, 1); /* no string */
	fixture_record(&f, 1, BASE + 2, UINT32_MAX, text, 3, 1);
	fixture_record(&f, 2, BASE + 8, file, text, 4, 1);
	fixture_record(&f, 2, BASE + 9, file, text, 5, 1);  /* the same instruction again */
	fixture_record(&f, 3, BASE + 6, file, text, 6, 1);  /* back */
	fixture_record(&f, 4, BASE + 16, file, text, 7, 1); /* past the function */
	fixture_record(&f, 5, 0, file, text, 8, 1);
	fixture_record(&f, 8, BASE + 10, file, text, 9, 1); /* no such instruction */
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_false(info.shifted);
	assert_int_equal(lineinfo_record_count(&f.prog), 9);
	assert_int_equal(info.count, 7);
	assert_int_equal(info.addr_left_out.strings, 2);
	assert_int_equal(info.addr_left_out.order, 1);
	assert_int_equal(info.addr_left_out.range, 2);
	assert_int_equal(info.insn_left_out.strings, 2);
	assert_int_equal(info.insn_left_out.order, 1);
	assert_int_equal(info.insn_left_out.range, 1);
	assert_rows(&info, &f.prog,
		    "ffffffffc0010000 main+0x0 a.c:1:1: x\n"
		    "ffffffffc0010008 main+0x8 a.c:4:1: x\n"
		    "ffffffffc0010009 main+0x9 a.c:5:1: x\n"
		    "ffffffffc001000a main+0xa a.c:9:1: x\n");
	assert_int_equal(info.insn_count, 5);
	assert_int_equal(info.by_insn[1]->number, 4);
	assert_int_equal(info.by_insn[4]->number, 8);
	lineinfo_deinit(&info);
}

/* The address says one function and the instruction another: one of them lies. */
static void test_wrong_function(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	pair(&f);
	fixture_line(&f, 0, BASE + 0x100, "a.c", "one", 1, 1);
	fixture_line(&f, 2, BASE + 2, "a.c", "two", 2, 1);
	fixture_line(&f, 8, BASE, "a.c", "three", 3, 1);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_int_equal(info.addr_left_out.range, 1);
	assert_int_equal(info.addr_count, 2);
	assert_int_equal(lineinfo_find(&info, &f.prog, BASE + 2)->number, 3);
	lineinfo_deinit(&info);
}

/* As the kernel gives it for a blinded program of two functions. */
static void test_shifted(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	pair(&f);
	fixture_line(&f, 0, BASE + 0x100, "a.c", "one", 1, 1);
	fixture_line(&f, 5, 0, "a.c", "two", 2, 1);
	fixture_line(&f, 10, BASE, "a.c", "three", 3, 1); /* sub begins at 8 */
	assert_true(lineinfo_is_shifted(&f.prog));
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_true(info.shifted);
	assert_int_equal(info.addr_count, 0);
	assert_int_equal(info.insn_count, 0);
	assert_int_equal(info.addr_left_out.range, 3);
	assert_null(lineinfo_find(&info, &f.prog, BASE));
	/* The lines themselves are still those of the program. */
	assert_source(&info, "a.c:1:1: one\na.c:2:1: two\na.c:3:1: three\n");
	lineinfo_deinit(&info);

	f.lines[2].insn_off = 8;
	assert_false(lineinfo_is_shifted(&f.prog));
	fixture_line(&f, 15, BASE + 12, "a.c", "four", 4, 1);
	assert_false(lineinfo_is_shifted(&f.prog));
	f.lines[3].insn_off = 16; /* past the program */
	assert_true(lineinfo_is_shifted(&f.prog));
	f.lines[3].insn_off = 15;
	f.lines[1].insn_off = 0;
	assert_true(lineinfo_is_shifted(&f.prog));
}

static void test_odd_strings(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	single(&f);
	fixture_line(&f, 0, BASE, "/my src/\"a\"\n.c", "\t char *s = \"\\n\"; // \xc3\xa4\tb", 1,
		     1);
	fixture_line(&f, 1, BASE + 1, "", "\x1b[2J \xc2\x9b \xff \xe2\x82", 2, 1);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_rows(&info, &f.prog,
		    "ffffffffc0010000 main+0x0 /my\\040src/\"a\"\\012.c:1:1: "
		    "char *s = \"\\n\"; // \xc3\xa4\tb\n"
		    "ffffffffc0010001 main+0x1 ?\?:2:1: \\033[2J \\302\\233 \\377 \\342\\202\n");
	lineinfo_deinit(&info);
}

static void test_source_once(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	single(&f);
	fixture_line(&f, 0, BASE, "b.c", "for", 10, 2);
	fixture_line(&f, 1, BASE + 1, "a.c", "inlined", 9, 1);
	fixture_line(&f, 2, BASE + 2, "b.c", "for", 10, 2);
	fixture_line(&f, 3, BASE + 3, "b.c", "for", 10, 12);
	fixture_line(&f, 4, BASE + 4, "b.c", "before", 9, 40);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_source(&info, "a.c:9:1: inlined\n"
			     "b.c:9:40: before\n"
			     "b.c:10:2: for\n"
			     "b.c:10:12: for\n");
	lineinfo_deinit(&info);
}

static void test_unreadable(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	single(&f);
	assert_int_equal(lineinfo_read(&f.prog, &info), -ENODATA);
	assert_false(lineinfo_is_readable(&f.prog));
	fixture_line(&f, 0, BASE, "a.c", "x", 1, 1);
	assert_true(lineinfo_is_readable(&f.prog));
	f.btf.len--; /* its last string has no end */
	assert_int_equal(lineinfo_read(&f.prog, &info), -EBADMSG);
	assert_false(lineinfo_is_readable(&f.prog));
	f.btf.len = 4;
	assert_int_equal(lineinfo_read(&f.prog, &info), -EBADMSG);
	f.prog.btf = NULL;
	assert_int_equal(lineinfo_read(&f.prog, &info), -EBADMSG);
	single(&f);
	fixture_line(&f, 0, BASE, "a.c", "x", 1, 1);
	f.prog.info.line_info_rec_size = 8;
	assert_int_equal(lineinfo_read(&f.prog, &info), -EBADMSG);
}

/* Kernels to come may have longer records; what we know is at their front. */
static void test_longer_records(void **state)
{
	struct {
		struct bpf_line_info known;
		uint64_t more;
	} records[2];
	struct prog_fixture f;
	struct lineinfo info;

	single(&f);
	fixture_line(&f, 0, BASE, "a.c", "x", 1, 1);
	fixture_line(&f, 1, BASE + 4, "a.c", "y", 2, 1);
	for (int i = 0; i < 2; i++) {
		records[i].known = f.lines[i];
		records[i].more = UINT64_MAX;
	}
	f.line_info = (struct blob){.data = records, .len = sizeof(records)};
	f.prog.info.line_info_rec_size = sizeof(records[0]);
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_int_equal(info.addr_count, 2);
	assert_string_equal(info.by_addr[1]->text, "y");
	lineinfo_deinit(&info);
}

/* A program that is not JITed has its lines by instruction all the same. */
static void test_not_jited(void **state)
{
	struct prog_fixture f;
	struct lineinfo info;

	fixture_init(&f, NULL, 0, insns, 8);
	fixture_line(&f, 0, 0, "a.c", "x", 1, 1);
	f.prog.jited_line = NULL;
	assert_int_equal(lineinfo_read(&f.prog, &info), 0);
	assert_int_equal(info.addr_count, 0);
	assert_int_equal(info.addr_left_out.range, 0);
	assert_int_equal(info.insn_count, 1);
	lineinfo_deinit(&info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	       cmocka_unit_test(test_find),
		cmocka_unit_test(test_shared_address), cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_wrong_function), cmocka_unit_test(test_shifted),
		cmocka_unit_test(test_odd_strings),    cmocka_unit_test(test_source_once),
		cmocka_unit_test(test_unreadable),     cmocka_unit_test(test_longer_records),
		cmocka_unit_test(test_not_jited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
