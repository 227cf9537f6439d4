/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/asm.h"
#include "tests/unit/progfixture.h"

#define BASE UINT64_C(0xffffffffc0010000)

static const struct bpf_insn insns[16];

static bool name_address(void *arg, uint64_t addr, struct text *text)
{
	if (addr != UINT64_C(0xffffffff81000000))
		return false;
	text_puts(text, "kernel_function");
	return true;
}

static const struct code_names names = {.address = name_address};

static void assert_asm(const struct prog *prog, const struct lineinfo *lines, uint16_t machine,
		       const char *expected)
{
	struct text text = {};

	assert_int_equal(asm_write(prog, lines, &names, machine, &text), 0);
	text_putc(&text, '\0');
	assert_false(text.failed);
	assert_string_equal(text.data, expected);
	text_deinit(&text);
}

static const uint8_t x86_code[] = {
	0x55,			      /* main: push */
	0x74, 0x05,		      /* je to the second call */
	0xe8, 0xf8, 0x00, 0x00, 0x00, /* call sub */
	0xe8, 0xf3, 0xff, 0xfe, 0xc0, /* call the kernel */
	0xeb, 0xf5,		      /* jmp into an instruction */
	0x06,			      /* nothing, in 64-bit mode */
	0xe9, 0x00, 0x00, 0x10, 0x00, /* jmp to where nothing is */
	0xff, 0xe0,		      /* jmp *%rax */
	0xc3,			      /* sub: ret */
};

static void x86_pair(struct prog_fixture *f)
{
	fixture_init(f, x86_code, sizeof(x86_code), insns, 16);
	fixture_func(f, "bpf_prog_1_main", BASE, sizeof(x86_code) - 1, 0);
	fixture_func(f, "bpf_prog_2_sub", BASE + 0x100, 1, 8);
}

static void test_x86(void **state)
{
	struct prog_fixture f;
	struct lineinfo lines;

	if (!asm_is_available())
		skip();
	x86_pair(&f);
	fixture_line(&f, 0, BASE, "a.c", "if (x)", 1, 1);
	fixture_line(&f, 2, BASE + 8, "a.c", "no code of its own", 2, 1);
	fixture_line(&f, 3, BASE + 8, "a.c", "g();", 3, 1);
	fixture_line(&f, 8, BASE + 0x100, "a.c", "}", 4, 1);
	assert_int_equal(lineinfo_read(&f.prog, &lines), 0);
	assert_asm(&f.prog, &lines, EM_X86_64,
		   "bpf_prog_1_main:\n"
		   "; a.c:1:1: if (x)\n"
		   "ffffffffc0010000: 55                             pushq   %rbp\n"
		   "ffffffffc0010001: 74 05                          je      L8\n"
		   "ffffffffc0010003: e8 f8 00 00 00                 callq   bpf_prog_2_sub\n"
		   "L8:\n"
		   "; a.c:3:1: g();\n"
		   "ffffffffc0010008: e8 f3 ff fe c0                 callq   kernel_function\n"
		   "ffffffffc001000d: eb f5                          jmp     bpf_prog_1_main+0x4\n"
		   "ffffffffc001000f: 06                             .byte   0x06\n"
		   "ffffffffc0010010: e9 00 00 10 00                 jmp     0xffffffffc0110015\n"
		   "ffffffffc0010015: ff e0                          jmpq    *%rax\n"
		   "\n"
		   "bpf_prog_2_sub:\n"
		   "; a.c:4:1: }\n"
		   "ffffffffc0010100: c3                             retq\n");
	lineinfo_deinit(&lines);
}

static void test_arm64(void **state)
{
	static const uint32_t code[] = {
		0xd503245f, /* bti c */
		0xb4000040, /* cbz x0, +8 */
		0x94000001, /* bl +4 */
		0xffffffff, /* nothing */
		0xd65f03c0, /* ret */
	};
	struct prog_fixture f;

	if (!asm_is_available())
		skip();
	fixture_init(&f, code, sizeof(code) - 2, insns, 16);
	fixture_func(&f, "bpf_prog_1_main", BASE, sizeof(code) - 2, 0);
	assert_asm(&f.prog, NULL, EM_AARCH64,
		   "bpf_prog_1_main:\n"
		   "ffffffffc0010000: 5f 24 03 d5  hint    #0x22\n"
		   "ffffffffc0010004: 40 00 00 b4  cbz     x0, Lc\n"
		   "ffffffffc0010008: 01 00 00 94  bl      Lc\n"
		   "Lc:\n"
		   "ffffffffc001000c: ff ff ff ff  .byte   0xff, 0xff, 0xff, 0xff\n"
		   "ffffffffc0010010: c0 03        .byte   0xc0, 0x03\n");
}

static void test_functions_left_out(void **state)
{
	struct prog_fixture f;

	if (!asm_is_available())
		skip();
	x86_pair(&f);
	fixture_func(&f, "bpf_prog_3_empty", BASE + 0x200, 0, 9);
	fixture_func(&f, "bpf_prog_4_past", BASE + 0x300, 1, 10);
	f.funcs[0].len = 1;
	f.jited.len = 2;
	f.funcs[1].len = 2;
	assert_asm(&f.prog, NULL, EM_X86_64,
		   "bpf_prog_1_main:\n"
		   "ffffffffc0010000: 55                             pushq   %rbp\n");
}

static void test_nothing(void **state)
{
	struct prog_fixture f;
	struct text text = {};

	x86_pair(&f);
	if (!asm_is_available()) {
		assert_int_equal(asm_write(&f.prog, NULL, &names, EM_X86_64, &text), -EOPNOTSUPP);
		return;
	}
	assert_int_equal(asm_write(&f.prog, NULL, &names, EM_S390, &text), -EOPNOTSUPP);
	f.prog.func_count = 0;
	assert_int_equal(asm_write(&f.prog, NULL, &names, EM_X86_64, &text), -ENODATA);
	f.prog.jited = NULL;
	assert_int_equal(asm_write(&f.prog, NULL, &names, EM_X86_64, &text), -ENODATA);
	assert_int_equal(text.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_functions_left_out),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
