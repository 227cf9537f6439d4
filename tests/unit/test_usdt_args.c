/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/usdt_args.h"

/* Every argument of a string as the tree shows it, one a line. */
static char *describe(uint16_t machine, const char *args)
{
	struct text text = {};
	struct usdt_arg arg;
	char *ret;

	for (size_t pos = 0; usdt_args_next(machine, args, strlen(args), &pos, &arg);) {
		if (text.len)
			text_putc(&text, '\n');
		usdt_arg_describe(&arg, &text);
	}
	assert_int_equal(text_take_string(&text, &ret), 0);
	return ret;
}

struct case_ {
	const char *args, *described;
	const char *fetched; /* NULL: tracefs cannot express it */
};

static void check(uint16_t machine, const struct case_ *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct case_ *c = &cases[i];
		struct text text = {};
		struct usdt_arg arg;
		size_t pos = 0;
		char *string;

		print_message("# %s\n", c->args);
		string = describe(machine, c->args);
		assert_string_equal(string, c->described);
		free(string);
		assert_true(usdt_args_next(machine, c->args, strlen(c->args), &pos, &arg));
		assert_int_equal(usdt_arg_fetch(&arg, &text), c->fetched != NULL);
		assert_int_equal(text_take_string(&text, &string), 0);
		assert_string_equal(string, c->fetched ? c->fetched : "");
		free(string);
	}
}

static void test_x86_64(void **state)
{
	static const struct case_ cases[] = {
		{"-4@$42", "size=4 signed constant=42", "\\42:s32"},
		{"-4@$-1", "size=4 signed constant=-1", "\\-1:s32"},
		{"1@$-56", "size=1 unsigned constant=200", "\\200:u8"},
		{"2@$0x1ffff", "size=2 unsigned constant=65535", "\\65535:u16"},
		{"-1@$200", "size=1 signed constant=-56", "\\-56:s8"},
		{"8@$18446744073709551615", "size=8 unsigned constant=18446744073709551615",
		 "\\18446744073709551615:u64"},
		{"8@$-9223372036854775808", "size=8 unsigned constant=9223372036854775808",
		 "\\9223372036854775808:u64"},
		{"-1@(%rdi)", "size=1 signed memory base=di displacement=0", "+0(%di):s8"},
		{"8@-1280(%rbp)", "size=8 unsigned memory base=bp displacement=-1280",
		 "-1280(%bp):u64"},
		{"8@(%rsp)", "size=8 unsigned memory base=sp displacement=0", "+0(%sp):u64"},
		{"-4@(%rsi,%rdx,4)", "size=4 signed memory base=si index=dx scale=4 displacement=0",
		 NULL},
		{"8@(%rdx,%rax)", "size=8 unsigned memory base=dx index=ax scale=1 displacement=0",
		 NULL},
		{"8@16(,%rax,8)", "size=8 unsigned memory index=ax scale=8 displacement=16", NULL},
		{"-4@g(%rip)", "size=4 signed memory symbol=g base=ip displacement=0", NULL},
		{"-4@40+CheckpointStats(%rip)",
		 "size=4 signed memory symbol=CheckpointStats base=ip displacement=40", NULL},
		{"8@a.b-8(%rip)", "size=8 unsigned memory symbol=a.b base=ip displacement=-8",
		 NULL},
		{"8@g@GOTPCREL(%rip)",
		 "size=8 unsigned memory symbol=g@GOTPCREL base=ip displacement=0", NULL},
		{"-4@%fs:errno@tpoff",
		 "size=4 signed memory segment=fs symbol=errno@tpoff displacement=0", NULL},
		{"8@%fs:(%rax)", "size=8 unsigned memory segment=fs base=ax displacement=0", NULL},
		{"8@4194304", "size=8 unsigned memory displacement=4194304", "@0x400000:u64"},
		{"8@$.LC0", "size=8 unsigned address symbol=.LC0 displacement=0", NULL},
		{"8@$g+16", "size=8 unsigned address symbol=g displacement=16", NULL},
		{"8@$-8+g@GOTOFF", "size=8 unsigned address symbol=g@GOTOFF displacement=-8", NULL},
		{"8@$+", "unparsed=8@$+", NULL},
		{"8@$1+2", "unparsed=8@$1+2", NULL},
		{"8f@%rcx", "size=8 float register=cx", "%cx:x64"},
		{"8@%xmm0", "size=8 unsigned register=xmm0", NULL},
		{"1@%bh", "size=1 unsigned register=bx byte=1", "%bx:b8@8/16"},
		{"-1@%bh", "size=1 signed register=bx byte=1", NULL},
		{"1@%bl", "size=1 unsigned register=bx", "%bx:u8"},
		{"-1@%sil", "size=1 signed register=si", "%si:s8"},
		{"4@%r10d", "size=4 unsigned register=r10", "%r10:u32"},
		{"2@%r8w", "size=2 unsigned register=r8", "%r8:u16"},
		{"8@%eax", "size=8 unsigned register=ax", "%ax:u64"},
		{"16@%rax", "size=16 unsigned register=ax", NULL},
		{"%eax", "size=- register=ax", "%ax"},
		{"4(%esi)", "size=- memory base=si displacement=4", NULL},
	};

	check(EM_X86_64, cases, ARRAY_SIZE(cases));
}

static void test_i386(void **state)
{
	static const struct case_ cases[] = {
		{"4@12(%esp)", "size=4 unsigned memory base=sp displacement=12", "+12(%sp):u32"},
		{"-4@%eax", "size=4 signed register=ax", "%ax:s32"},
		{"4@%rax", "unparsed=4@%rax", NULL},
		{"4@%r8d", "unparsed=4@%r8d", NULL},
		{"4@%sil", "unparsed=4@%sil", NULL},
	};

	check(EM_386, cases, ARRAY_SIZE(cases));
}

static void test_arm64(void **state)
{
	static const struct case_ cases[] = {
		{"-4@42", "size=4 signed constant=42", "\\42:s32"},
		{"-4@#-42", "size=4 signed constant=-42", "\\-42:s32"},
		{"8@x1", "size=8 unsigned register=x1", "%x1:u64"},
		{"-4@w30", "size=4 signed register=x30", "%x30:s32"},
		{"8@[x15]", "size=8 unsigned memory base=x15 displacement=0", "+0(%x15):u64"},
		{"8@[x21, 16]", "size=8 unsigned memory base=x21 displacement=16", "+16(%x21):u64"},
		{"8@[sp, #-16]", "size=8 unsigned memory base=sp displacement=-16", "-16(%sp):u64"},
		{"8@[x21, #:lo12:.LANCHOR2]",
		 "size=8 unsigned memory symbol=.LANCHOR2 base=x21 displacement=0", NULL},
		{"8@[x1, x2, lsl 3]",
		 "size=8 unsigned memory base=x1 index=x2 extend=lsl scale=8 displacement=0", NULL},
		{"4@[x1, w2, sxtw]",
		 "size=4 unsigned memory base=x1 index=x2 extend=sxtw scale=1 displacement=0",
		 NULL},
		{"8@d0", "size=8 unsigned register=d0", NULL},
		{"8@x31", "unparsed=8@x31", NULL},
		{"8@[x31]", "unparsed=8@[x31]", NULL},
		{"8@[x1", "unparsed=8@[x1", NULL},
		{"8@[x1, x2, lsl]", "unparsed=8@[x1,\\040x2,\\040lsl]", NULL},
	};

	check(EM_AARCH64, cases, ARRAY_SIZE(cases));
}

static void test_other_machines(void **state)
{
	static const struct case_ arm[] = {
		{"-4@#42", "size=4 signed constant=42", "\\42:s32"},
		{"4@g", "size=4 unsigned memory symbol=g displacement=0", NULL},
		{"4@.LC0+4", "size=4 unsigned memory symbol=.LC0 displacement=4", NULL},
		{"8f@[lr]", "size=8 float memory base=lr displacement=0", "+0(%lr):x64"},
		{"4@r11", "size=4 unsigned register=fp", "%fp:u32"},
		{"4@[r3, #8]", "size=4 unsigned memory base=r3 displacement=8", "+8(%r3):u32"},
	};
	static const struct case_ s390[] = {
		{"-4@42", "size=4 signed constant=42", "\\42:s32"},
		{"-2@162(%r15)", "size=2 signed memory base=r15 displacement=162",
		 "+162(%r15):s16"},
		{"8@%r2", "size=8 unsigned register=r2", "%r2:u64"},
		{"8@8(%r1,%r2)", "size=8 unsigned memory base=r2 index=r1 scale=1 displacement=8",
		 NULL},
		{"8@%f0", "size=8 unsigned register=f0", NULL},
		{"8@%r16", "unparsed=8@%r16", NULL},
	};
	static const struct case_ ppc[] = {
		{"-4@i42", "size=4 signed constant=42", "\\42:s32"},
		{"-4@0(10)", "size=4 signed memory base=gpr10 displacement=0", "+0(%gpr10):s32"},
		{"8@9", "size=8 unsigned register=gpr9", "%gpr9:u64"},
		{"8@%r31", "size=8 unsigned register=gpr31", "%gpr31:u64"},
		{"8@3,4", "size=8 unsigned memory base=gpr3 index=gpr4 scale=1 displacement=0",
		 NULL},
		{"4@x@toc@l(2)", "size=4 unsigned memory symbol=x@toc@l base=gpr2 displacement=0",
		 NULL},
		{"8@32", "unparsed=8@32", NULL},
	};
	static const struct case_ riscv[] = {
		{"-8@-88(s0)", "size=8 signed memory base=s0 displacement=-88", "-88(%s0):s64"},
		{"-8@a1", "size=8 signed register=a1", "%a1:s64"},
		{"-4@42", "size=4 signed constant=42", "\\42:s32"},
		{"8@x10", "size=8 unsigned register=a0", "%a0:u64"},
		{"4@%lo(g+4)(a5)", "size=4 unsigned memory symbol=g base=a5 displacement=4", NULL},
		{"8@fa0", "size=8 unsigned register=fa0", NULL},
	};

	check(EM_ARM, arm, ARRAY_SIZE(arm));
	check(EM_S390, s390, ARRAY_SIZE(s390));
	check(EM_PPC64, ppc, ARRAY_SIZE(ppc));
	check(EM_RISCV, riscv, ARRAY_SIZE(riscv));
}

/* Blanks part arguments, but not inside brackets. */
static void test_lists(void **state)
{
	char *string = describe(EM_AARCH64, "  -4@[x1, 8] 8@x2\t4@[x3, w4, uxtw 2] ");

	assert_string_equal(string, "size=4 signed memory base=x1 displacement=8\n"
				    "size=8 unsigned register=x2\n"
				    "size=4 unsigned memory base=x3 index=x4 extend=uxtw scale=4 "
				    "displacement=0");
	free(string);
	string = describe(EM_X86_64, "4@(%rax, %rbx, 8) x@y 4@%edi");
	assert_string_equal(string,
			    "size=4 unsigned memory base=ax index=bx scale=8 displacement=0\n"
			    "size=- memory symbol=x@y displacement=0\n"
			    "size=4 unsigned register=di");
	free(string);
	string = describe(EM_X86_64, "");
	assert_string_equal(string, "");
	free(string);
	string = describe(EM_X86_64, "   ");
	assert_string_equal(string, "");
	free(string);
}

/* None of these may be taken for something. */
static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"@",
		"4@",
		"-@%eax",
		"-4@",
		"3@%eax",
		"0@%eax",
		"32@%eax",
		"4@%",
		"4@%foo",
		"4@%eaxx",
		"4@%eax,",
		"4@$",
		"4@$%eax",
		"4@$4x",
		"4@$--4",
		"4@()",
		"4@(%eax",
		"4@(%eax))",
		"4@(,)",
		"4@(%eax,%ebx,3)",
		"4@(%eax,%ebx,",
		"4@(%eax,4)",
		"4@(%xyz)",
		"4@4(%eax)x",
		"4@a-b(%rip)",
		"4@a+b(%rip)",
		"4@4+(%rip)",
		"4@+(%rip)",
		"4@%fs:",
		"4@%fs%eax",
		"4@%r16",
		"4@%r7d",
		"4@%r8x",
		"4@%r08",
		"4@%xmm32",
		"4@(%rax)(%rbx)",
		"4@]%rax",
		"4@*%rax",
		"4@\x01",
		"8@$18446744073709551616",
		"8@$-9223372036854775809",
		"8@9223372036854775807+1(%rax)",
		"8@9223372036854775808(%rax)",
		"4@%EAX",
	};
	struct usdt_arg arg;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		size_t pos = 0, len = strlen(bad[i]);

		print_message("# %s\n", bad[i]);
		assert_false(usdt_args_valid(EM_X86_64, bad[i], len));
		assert_true(usdt_args_next(EM_X86_64, bad[i], len, &pos, &arg));
		assert_int_equal(arg.kind, USDT_ARG_UNPARSED);
		assert_int_equal(arg.text_len, len);
		assert_memory_equal(arg.text, bad[i], len);
	}
	assert_false(usdt_args_valid(EM_X86_64, "4@%eax 4@%foo 4@%ebx", 20));
	assert_true(usdt_args_valid(EM_X86_64, "4@%eax 4@%ebx", 13));
	assert_true(usdt_args_valid(EM_X86_64, "", 0));
	/* A machine whose assembler is not known. */
	assert_false(usdt_args_valid(EM_SPARCV9, "4@%o0", 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86_64), cmocka_unit_test(test_i386),
		cmocka_unit_test(test_arm64),  cmocka_unit_test(test_other_machines),
		cmocka_unit_test(test_lists),  cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
