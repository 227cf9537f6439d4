/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/xlated.h"
#include "tests/unit/progfixture.h"

#define CALL_BASE UINT64_C(0xffffffff81000000)

static bool name_address(void *arg, uint64_t addr, struct text *text)
{
	if (addr == CALL_BASE + 0x100)
		text_puts(text, "__htab_map_lookup_elem");
	else if (addr == CALL_BASE - 0x100)
		text_puts(text, "bpf_kfunc_below");
	else if (addr == CALL_BASE + 0x200)
		text_puts(text, "something+0x10");
	else
		return false;
	return true;
}

static bool name_kfunc(void *arg, uint32_t btf_id, struct text *text)
{
	if (btf_id != 0x200)
		return false;
	text_puts(text, "bpf_kfunc_by_id");
	return true;
}

static const struct code_names names = {
	.address = name_address,
	.kfunc = name_kfunc,
	.call_base = CALL_BASE,
};

static void assert_listing(const struct prog *prog, const struct lineinfo *lines,
			   const struct code_names *use_names, const char *expected)
{
	struct text text = {};

	assert_int_equal(xlated_write(prog, lines, use_names, &text), 0);
	text_putc(&text, '\0');
	assert_false(text.failed);
	assert_string_equal(text.data, expected);
	text_deinit(&text);
}

/*
 * What the kernel's verifier log says of each form. An instruction stands alone at the start of a
 * program of two, so that jumps to the next one have a label.
 */
static void test_notation(void **state)
{
	static const struct {
		struct bpf_insn insn;
		const char *text;
	} cases[] = {
		{{.code = 0x07, .dst_reg = 1, .imm = -5}, "(07) r1 += -5"},
		{{.code = 0x0f, .dst_reg = 1, .src_reg = 2}, "(0f) r1 += r2"},
		{{.code = 0x04, .dst_reg = 3, .imm = 7}, "(04) w3 += 7"},
		{{.code = 0x1c, .dst_reg = 3, .src_reg = 4}, "(1c) w3 -= w4"},
		{{.code = 0x2f, .dst_reg = 0, .src_reg = 9}, "(2f) r0 *= r9"},
		{{.code = 0x37, .dst_reg = 0, .imm = 3}, "(37) r0 /= 3"},
		{{.code = 0x37, .dst_reg = 0, .off = 1, .imm = -3}, "(37) r0 s/= -3"},
		{{.code = 0x9c, .dst_reg = 0, .src_reg = 1, .off = 1}, "(9c) w0 s%= w1"},
		{{.code = 0x97, .dst_reg = 0, .imm = 3}, "(97) r0 %= 3"},
		{{.code = 0x47, .dst_reg = 0, .imm = 1}, "(47) r0 |= 1"},
		{{.code = 0x5f, .dst_reg = 0, .src_reg = 1}, "(5f) r0 &= r1"},
		{{.code = 0xa7, .dst_reg = 0, .imm = 1}, "(a7) r0 ^= 1"},
		{{.code = 0x67, .dst_reg = 0, .imm = 32}, "(67) r0 <<= 32"},
		{{.code = 0x77, .dst_reg = 0, .imm = 32}, "(77) r0 >>= 32"},
		{{.code = 0xcf, .dst_reg = 0, .src_reg = 5}, "(cf) r0 s>>= r5"},
		{{.code = 0x87, .dst_reg = 2}, "(87) r2 = -r2"},
		{{.code = 0x84, .dst_reg = 2}, "(84) w2 = -w2"},
		{{.code = 0xb7, .dst_reg = 0, .imm = INT32_MIN}, "(b7) r0 = -2147483648"},
		{{.code = 0xbf, .dst_reg = 6, .src_reg = 1}, "(bf) r6 = r1"},
		{{.code = 0xbc, .dst_reg = 6, .src_reg = 1}, "(bc) w6 = w1"},
		{{.code = 0xbf, .dst_reg = 6, .src_reg = 1, .off = 8}, "(bf) r6 = (s8)r1"},
		{{.code = 0xbf, .dst_reg = 6, .src_reg = 1, .off = 32}, "(bf) r6 = (s32)r1"},
		{{.code = 0xbc, .dst_reg = 6, .src_reg = 1, .off = 16}, "(bc) w6 = (s16)w1"},
		{{.code = 0xbf, .dst_reg = 1, .src_reg = 2, .off = 1, .imm = 1},
		 "(bf) r1 = addr_space_cast(r2, 0, 1)"},
		{{.code = 0xbf, .dst_reg = 1, .src_reg = 2, .off = 1, .imm = 1 << 16},
		 "(bf) r1 = addr_space_cast(r2, 1, 0)"},
		{{.code = 0xbf, .dst_reg = 1, .src_reg = 2, .off = -1},
		 "(bf) r1 = &(void __percpu *)(r2)"},
		{{.code = 0xd4, .dst_reg = 1, .imm = 16}, "(d4) r1 = le16 r1"},
		{{.code = 0xdc, .dst_reg = 1, .imm = 64}, "(dc) r1 = be64 r1"},
		{{.code = 0xd7, .dst_reg = 1, .imm = 32}, "(d7) r1 = bswap32 r1"},
		{{.code = 0x71, .dst_reg = 1, .src_reg = 2, .off = -1}, "(71) r1 = *(u8 *)(r2 -1)"},
		{{.code = 0x69, .dst_reg = 1, .src_reg = 2}, "(69) r1 = *(u16 *)(r2 +0)"},
		{{.code = 0x61, .dst_reg = 1, .src_reg = 2, .off = 4}, "(61) r1 = *(u32 *)(r2 +4)"},
		{{.code = 0x79, .dst_reg = 1, .src_reg = 2, .off = 8}, "(79) r1 = *(u64 *)(r2 +8)"},
		{{.code = 0x91, .dst_reg = 1, .src_reg = 2}, "(91) r1 = *(s8 *)(r2 +0)"},
		{{.code = 0x89, .dst_reg = 1, .src_reg = 2}, "(89) r1 = *(s16 *)(r2 +0)"},
		{{.code = 0x81, .dst_reg = 1, .src_reg = 2}, "(81) r1 = *(s32 *)(r2 +0)"},
		{{.code = 0x73, .dst_reg = 10, .src_reg = 2, .off = -8},
		 "(73) *(u8 *)(r10 -8) = r2"},
		{{.code = 0x7b, .dst_reg = 10, .src_reg = 2}, "(7b) *(u64 *)(r10 +0) = r2"},
		{{.code = 0x62, .dst_reg = 10, .off = -4, .imm = -1}, "(62) *(u32 *)(r10 -4) = -1"},
		{{.code = 0xc2}, "(c2) nospec"},
		{{.code = 0xdb, .dst_reg = 1, .src_reg = 2, .imm = 0},
		 "(db) lock *(u64 *)(r1 +0) += r2"},
		{{.code = 0xc3, .dst_reg = 1, .src_reg = 2, .imm = 0x50},
		 "(c3) lock *(u32 *)(r1 +0) &= r2"},
		{{.code = 0xdb, .dst_reg = 1, .src_reg = 2, .off = 8, .imm = 0x01},
		 "(db) r2 = atomic64_fetch_add((u64 *)(r1 +8), r2)"},
		{{.code = 0xc3, .dst_reg = 1, .src_reg = 2, .imm = 0xa1},
		 "(c3) r2 = atomic_fetch_xor((u32 *)(r1 +0), r2)"},
		{{.code = 0xdb, .dst_reg = 1, .src_reg = 2, .imm = 0xe1},
		 "(db) r2 = atomic64_xchg((u64 *)(r1 +0), r2)"},
		{{.code = 0xc3, .dst_reg = 1, .src_reg = 2, .imm = 0xf1},
		 "(c3) r0 = atomic_cmpxchg((u32 *)(r1 +0), r0, r2)"},
		{{.code = 0xd3, .dst_reg = 1, .src_reg = 2, .off = -2, .imm = 0x100},
		 "(d3) r1 = load_acquire((u8 *)(r2 -2))"},
		{{.code = 0xdb, .dst_reg = 1, .src_reg = 2, .off = 8, .imm = 0x110},
		 "(db) store_release((u64 *)(r1 +8), r2)"},
		{{.code = 0x30, .imm = 12}, "(30) r0 = *(u8 *)skb[12]"},
		{{.code = 0x48, .src_reg = 3, .imm = 12}, "(48) r0 = *(u16 *)skb[r3 + 12]"},
		{{.code = 0x05}, "(05) goto pc+0 <L1>"},
		{{.code = 0x05, .off = -1}, "(05) goto pc-1 <L0>"},
		{{.code = 0x05, .off = 1}, "(05) goto pc+1"},
		{{.code = 0x06, .imm = -1}, "(06) gotol pc-1 <L0>"},
		{{.code = 0x0d, .dst_reg = 4}, "(0d) gotox r4"},
		{{.code = 0xe5}, "(e5) may_goto pc+0 <L1>"},
		{{.code = 0x15, .dst_reg = 1, .imm = -1},
		 "(15) if r1 == 0xffffffff goto pc+0 <L1>"},
		{{.code = 0x1d, .dst_reg = 1, .src_reg = 2}, "(1d) if r1 == r2 goto pc+0 <L1>"},
		{{.code = 0x56, .dst_reg = 1, .imm = 3}, "(56) if w1 != 0x3 goto pc+0 <L1>"},
		{{.code = 0x2e, .dst_reg = 1, .src_reg = 2}, "(2e) if w1 > w2 goto pc+0 <L1>"},
		{{.code = 0x35, .dst_reg = 1}, "(35) if r1 >= 0x0 goto pc+0 <L1>"},
		{{.code = 0x45, .dst_reg = 1}, "(45) if r1 & 0x0 goto pc+0 <L1>"},
		{{.code = 0x65, .dst_reg = 1}, "(65) if r1 s> 0x0 goto pc+0 <L1>"},
		{{.code = 0x75, .dst_reg = 1}, "(75) if r1 s>= 0x0 goto pc+0 <L1>"},
		{{.code = 0xa5, .dst_reg = 1}, "(a5) if r1 < 0x0 goto pc+0 <L1>"},
		{{.code = 0xb5, .dst_reg = 1}, "(b5) if r1 <= 0x0 goto pc+0 <L1>"},
		{{.code = 0xc5, .dst_reg = 1}, "(c5) if r1 s< 0x0 goto pc+0 <L1>"},
		{{.code = 0xd5, .dst_reg = 1}, "(d5) if r1 s<= 0x0 goto pc+0 <L1>"},
		{{.code = 0x85, .imm = 12}, "(85) call bpf_tail_call#12"},
		{{.code = 0x85, .imm = 0x100}, "(85) call __htab_map_lookup_elem#256"},
		{{.code = 0x85, .imm = 0x300}, "(85) call 0xffffffff81000300#768"},
		{{.code = 0x85}, "(85) call unknown#0"},
		{{.code = 0x85, .src_reg = 2, .imm = -0x100}, "(85) call bpf_kfunc_below#-256"},
		{{.code = 0x85, .src_reg = 2, .imm = 0x200}, "(85) call bpf_kfunc_by_id#512"},
		{{.code = 0x85, .src_reg = 2, .off = 1, .imm = 0x200},
		 "(85) call kernel-function#512"},
		{{.code = 0x85, .src_reg = 1, .off = -1}, "(85) call pc-1"},
		/* Nothing that a verifier lets in. */
		{{.code = 0xe7, .imm = 1}, "(e7) unknown dst=0 src=0 off=0 imm=1"},
		{{.code = 0x99}, "(99) unknown dst=0 src=0 off=0 imm=0"},
		{{.code = 0x01}, "(01) unknown dst=0 src=0 off=0 imm=0"},
		{{.code = 0xdb, .imm = 0x70}, "(db) unknown dst=0 src=0 off=0 imm=112"},
		{{.code = 0xdb, .imm = 0x1000}, "(db) unknown dst=0 src=0 off=0 imm=4096"},
		{{.code = 0xe5, .src_reg = 1, .off = 9}, "(e5) unknown dst=0 src=1 off=9 imm=0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bpf_insn insns[2] = {cases[i].insn, {.code = 0x95}};
		bool first = strstr(cases[i].text, "<L0>"), second = strstr(cases[i].text, "<L1>");
		char expected[256];
		struct prog_fixture f;

		fixture_init(&f, NULL, 0, insns, 2);
		snprintf(expected, sizeof(expected), "%s   0: %s\n%s   1: (95) exit\n",
			 first ? "L0:\n" : "", cases[i].text, second ? "L1:\n" : "");
		assert_listing(&f.prog, NULL, &names, expected);
	}
}

static void test_references(void **state)
{
	static const struct bpf_insn insns[] = {
		{.code = 0x18, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = 7},
		{},
		{.code = 0x18, .dst_reg = 2, .src_reg = BPF_PSEUDO_MAP_VALUE, .imm = 9},
		{.imm = 24},
		{.code = 0x18, .dst_reg = 3, .src_reg = BPF_PSEUDO_MAP_FD, .imm = 8},
		{},
		{.code = 0x18, .dst_reg = 4, .imm = -1},
		{.imm = 0x7fffffff},
		{.code = 0x18, .dst_reg = 5, .src_reg = 4, .imm = 4}, /* a function */
		{.imm = 1},
		{.code = 0x85, .src_reg = 1, .imm = 1, .off = 30000},
		{.code = 0x85, .src_reg = 1, .imm = 2, .off = 5},
		{.code = 0x95},
		{.code = 0x95},
		{.code = 0x18, .dst_reg = 1}, /* cut off */
	};
	struct prog_map maps[] = {
		{.id = 9, .name = "data section"},
		{.id = 8},
		{.id = 7, .name = "sixteen_bytes_16"},
	};
	struct prog_fixture f;

	fixture_init(&f, NULL, 0, insns, ARRAY_SIZE(insns));
	fixture_func(&f, "bpf_prog_1_main", 0, 0, 0);
	fixture_func(&f, "bpf_prog_2_sub", 0, 0, 13);
	f.prog.maps = maps;
	f.prog.map_count = ARRAY_SIZE(maps);
	assert_listing(&f.prog, NULL, NULL,
		       "bpf_prog_1_main:\n"
		       "   0: (18) r1 = map[id:7 sixteen_bytes_16]\n"
		       "   2: (18) r2 = map[id:9 data\\040section][0]+24\n"
		       "   4: (18) r3 = map[id:8]\n"
		       "   6: (18) r4 = 0x7fffffffffffffff\n"
		       "   8: (18) r5 = subprog[+4]#bpf_prog_2_sub\n"
		       "  10: (85) call pc+2#bpf_prog_2_sub\n"
		       "  11: (85) call pc+5\n"
		       "  12: (95) exit\n"
		       "\n"
		       "bpf_prog_2_sub:\n"
		       "  13: (95) exit\n"
		       "  14: (18) unknown dst=1 src=0 off=0 imm=0\n");
}

/* A jump into the second half of a wide instruction cannot be: nothing breaks over it. */
static void test_lines_and_labels(void **state)
{
	static const struct bpf_insn insns[] = {
		{.code = 0x18, .dst_reg = 1}, {.imm = 0},     {.code = 0x15, .off = -2},
		{.code = 0x05, .off = -4},    {.code = 0x95},
	};
	struct prog_fixture f;
	struct lineinfo lines;

	fixture_init(&f, NULL, 0, insns, ARRAY_SIZE(insns));
	fixture_line(&f, 0, 0, "a.c", "first", 1, 1);
	fixture_line(&f, 1, 0, "a.c", "in the middle", 2, 1);
	fixture_line(&f, 4, 0, "a.c", "last", 3, 1);
	assert_int_equal(lineinfo_read(&f.prog, &lines), 0);
	assert_listing(&f.prog, &lines, &names,
		       "L0:\n"
		       "; a.c:1:1: first\n"
		       "   0: (18) r1 = 0x0\n"
		       "   2: (15) if r0 == 0x0 goto pc-2 <L1>\n"
		       "   3: (05) goto pc-4 <L0>\n"
		       "; a.c:3:1: last\n"
		       "   4: (95) exit\n");
	lineinfo_deinit(&lines);
}

static void test_nothing(void **state)
{
	static const struct bpf_insn insns[1];
	struct prog_fixture f;
	struct text text = {};

	fixture_init(&f, NULL, 0, insns, 0);
	assert_int_equal(xlated_write(&f.prog, NULL, &names, &text), -ENODATA);
	f.prog.xlated = NULL;
	assert_int_equal(xlated_write(&f.prog, NULL, &names, &text), -ENODATA);
	assert_int_equal(text.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notation),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_lines_and_labels),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
