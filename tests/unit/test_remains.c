/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pieces of freed programs, whole, interleaved and wrong, and the programs that they make. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/remains.h"

#define CPUS	2
#define MAIN_AT UINT64_C(0xffffffffc0001000)
#define SUB_AT	UINT64_C(0xffffffffc0002000)
#define MAP_AT	UINT64_C(0xffff888012340000)
/* Longer than a piece. */
#define SUB_LEN (UNLOAD_PIECE_BYTES + 100)

static struct remains_joiner *joiner;
static struct unload_piece piece;

static int setup(void **state)
{
	return remains_joiner_create(CPUS, &joiner);
}

static int teardown(void **state)
{
	remains_joiner_destroy(joiner);
	return 0;
}

static int give(struct remains **ret)
{
	return remains_join(joiner, &piece, offsetof(struct unload_piece, data) + piece.len, ret);
}

/* One piece of a part of `total` bytes, all of them `fill`. */
static int give_part(uint32_t cpu, enum unload_kind kind, uint64_t addr, uint8_t fill,
		     uint32_t total, uint32_t offset, struct remains **ret)
{
	uint32_t len = MIN(total - offset, UNLOAD_PIECE_BYTES);

	piece = (struct unload_piece){
		.cpu = cpu,
		.kind = kind,
		.addr = addr,
		.total = total,
		.offset = offset,
		.len = len,
	};
	memset(piece.data, fill, len);
	memset(piece.tag, fill, sizeof(piece.tag));
	return give(ret);
}

static int give_head(uint32_t cpu, struct unload_head head)
{
	struct remains *none;

	piece = (struct unload_piece){
		.cpu = cpu, .kind = UNLOAD_HEAD, .total = sizeof(head), .len = sizeof(head)};
	memcpy(piece.data, &head, sizeof(head));
	return give(&none);
}

static const struct unload_head two_functions = {
	.freed = 100,
	.tag = "tagtagt",
	.name = "main",
	.type = BPF_PROG_TYPE_XDP,
	.funcs = 2,
	.maps = 1,
	.insns = 4,
};

static int give_map(uint32_t cpu)
{
	const struct unload_map map = {
		.addr = MAP_AT,
		.value = MAP_AT + 0x110,
		.id = 77,
		.type = BPF_MAP_TYPE_ARRAY,
		.value_size = 20,
		.max_entries = 1,
		.name = "values",
	};
	struct remains *none;

	piece = (struct unload_piece){
		.cpu = cpu, .kind = UNLOAD_MAP, .total = sizeof(map), .len = sizeof(map)};
	memcpy(piece.data, &map, sizeof(map));
	return give(&none);
}

static int give_insns(uint32_t cpu, const struct bpf_insn *insns, size_t count,
		      struct remains **ret)
{
	piece = (struct unload_piece){.cpu = cpu,
				      .kind = UNLOAD_INSNS,
				      .total = count * sizeof(*insns),
				      .len = count * sizeof(*insns)};
	memcpy(piece.data, insns, piece.len);
	return give(ret);
}

/* All but the last piece of a program. */
static void give_most(uint32_t cpu)
{
	struct remains *none;

	assert_int_equal(give_head(cpu, two_functions), 0);
	assert_int_equal(give_map(cpu), 0);
	assert_int_equal(give_part(cpu, UNLOAD_CODE, MAIN_AT, 0x11, 50, 0, &none), 0);
	assert_int_equal(give_part(cpu, UNLOAD_CODE, SUB_AT, 0x22, SUB_LEN, 0, &none), 0);
	assert_int_equal(
		give_part(cpu, UNLOAD_CODE, SUB_AT, 0x22, SUB_LEN, UNLOAD_PIECE_BYTES, &none), 0);
}

static void assert_two_functions(const struct remains *remains)
{
	assert_int_equal(remains->jited_len, 50 + SUB_LEN);
	for (size_t i = 0; i < remains->jited_len; i++)
		assert_int_equal(remains->jited[i], i < 50 ? 0x11 : 0x22);
	assert_int_equal(remains->funcs[0].addr, MAIN_AT);
	assert_int_equal(remains->funcs[0].len, 50);
	assert_int_equal(remains->funcs[1].addr, SUB_AT);
	assert_int_equal(remains->funcs[1].len, SUB_LEN);
	assert_int_equal(remains->funcs[1].tag[0], 0x22);
	assert_int_equal(remains->maps[0].id, 77);
}

static void test_whole(void **state)
{
	CLEANUP(remains_cleanup) struct remains *remains = NULL;

	give_most(0);
	assert_int_equal(give_part(0, UNLOAD_INSNS, 0, 0x33, 32, 0, &remains), 1);
	assert_two_functions(remains);
	assert_int_equal(remains->insns[3].code, 0x33);
	assert_null(remains->next);
}

static void test_interleaved(void **state)
{
	struct remains *none;

	give_most(0);
	assert_int_equal(give_head(1, (struct unload_head){.funcs = 1, .insns = 1}), 0);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		CLEANUP(remains_cleanup) struct remains *remains = NULL;

		if (cpu == 1)
			assert_int_equal(give_part(1, UNLOAD_CODE, 5, 5, 5, 0, &none), 0);
		assert_int_equal(give_part(cpu, UNLOAD_INSNS, 0, 0x33, cpu ? 8 : 32, 0, &remains),
				 1);
		if (cpu == 0)
			assert_two_functions(remains);
		else
			assert_int_equal(remains->jited_len, 5);
	}
}

/* The ring was full in the middle of one. */
static void test_cut_short(void **state)
{
	CLEANUP(remains_cleanup) struct remains *remains = NULL;

	give_most(0);
	give_most(0);
	assert_int_equal(give_part(0, UNLOAD_INSNS, 0, 0x33, 32, 0, &remains), 1);
	assert_two_functions(remains);
}

/* What does not continue what was there is refused, and the program with it. */
static void test_wrong(void **state)
{
	struct unload_head none = two_functions, many = two_functions, huge = two_functions;
	struct remains *ret;

	none.funcs = 0;
	many.funcs = UNLOAD_FUNCS_MAX + 1;
	huge.insns = UINT32_MAX;
	assert_int_equal(give_head(0, none), -EBADMSG);
	assert_int_equal(give_head(0, many), -EBADMSG);
	assert_int_equal(give_head(0, huge), -EBADMSG);
	assert_int_equal(give_head(CPUS, two_functions), -EBADMSG);
	/* Nothing was begun. */
	assert_int_equal(give_map(0), -EBADMSG);
	for (int wrong = 0; wrong < 6; wrong++) {
		int r = 0;

		if (wrong < 5) {
			give_most(0);
		} else {
			assert_int_equal(give_head(0, two_functions), 0);
			assert_int_equal(give_map(0), 0);
		}
		if (wrong == 0) /* a function more */
			r = give_part(0, UNLOAD_CODE, 9, 9, 9, 0, &ret);
		else if (wrong == 1) /* a map more */
			r = give_map(0);
		else if (wrong == 2) /* too few instructions */
			r = give_part(0, UNLOAD_INSNS, 0, 0, 24, 0, &ret);
		else if (wrong == 3) /* not their begin */
			r = give_part(0, UNLOAD_INSNS, 0, 0, 32, 8, &ret);
		else if (wrong == 4) /* no such kind */
			r = give_part(0, UNLOAD_INSNS + 1, 0, 0, 32, 0, &ret);
		else /* functions are missing */
			r = give_part(0, UNLOAD_INSNS, 0, 0, 32, 0, &ret);
		assert_int_equal(r, -EBADMSG);
		assert_int_equal(give_part(0, UNLOAD_INSNS, 0, 0, 32, 0, &ret), -EBADMSG);
	}
	/* Shorter than it says, and shorter than any. */
	give_most(0);
	piece = (struct unload_piece){.kind = UNLOAD_INSNS, .total = 32, .len = 32};
	assert_int_equal(
		remains_join(joiner, &piece, offsetof(struct unload_piece, data) + 31, &ret),
		-EBADMSG);
	assert_int_equal(remains_join(joiner, &piece, 7, &ret), -EBADMSG);
}

static struct prog *make_known(void)
{
	struct prog_func *funcs = calloc(1, sizeof(*funcs));
	struct prog *prog;

	assert_non_null(funcs);
	*funcs = (struct prog_func){.addr = MAIN_AT, .len = 50};
	funcs->symbol = strdup("bpf_prog_7461677461677400_main_with_its_whole_name");
	assert_int_equal(prog_from_records(5, two_functions.tag, funcs, 1, -ENOENT, &prog), 0);
	prog->loader_pid = 9;
	strcpy(prog->loader_comm, "loader");
	return prog;
}

#define LD_IMM64(addr)                                                                             \
	{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .imm = (int32_t)(addr)},                 \
	{                                                                                          \
		.imm = (int32_t)((addr) >> 32)                                                     \
	}

static void test_program(void **state)
{
	struct bpf_insn insns[] = {
		LD_IMM64(MAP_AT),
		LD_IMM64(MAP_AT + 0x110 + 12),
		LD_IMM64(MAP_AT + 0x110 + 24),
		{.code = BPF_JMP | 0xf0},
		{.code = BPF_JMP | BPF_CALL, .imm = 1234},
		{.code = BPF_LDX | BPF_W | 0x20, .dst_reg = 2},
		{.code = BPF_STX | BPF_B | 0xa0, .dst_reg = 3},
		{.code = BPF_LD | BPF_DW | BPF_IMM},
	};
	const struct bpf_insn shown[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = 77},
		{},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_VALUE,
		 .imm = 77},
		{.imm = 12},
		/* Past the value, though not past what is allocated: 20 are 24. */
		LD_IMM64(MAP_AT + 0x110 + 24),
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_tail_call},
		{.code = BPF_JMP | BPF_CALL, .imm = 1234},
		{.code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 2},
		{.code = BPF_STX | BPF_B | BPF_MEM, .dst_reg = 3},
		{.code = BPF_LD | BPF_DW | BPF_IMM},
	};
	struct unload_head head = two_functions;
	struct remains *none;
	CLEANUP(remains_cleanup) struct remains *remains = NULL;
	CLEANUP(prog_cleanup) struct prog *known = make_known(), *prog = NULL;
	struct blob_pool *pool;

	head.insns = ARRAY_SIZE(insns);
	assert_int_equal(give_head(0, head), 0);
	assert_int_equal(give_map(0), 0);
	assert_int_equal(give_part(0, UNLOAD_CODE, MAIN_AT, 0x11, 50, 0, &none), 0);
	assert_int_equal(give_part(0, UNLOAD_CODE, SUB_AT, 0x22, 60, 0, &none), 0);
	assert_int_equal(give_insns(0, insns, ARRAY_SIZE(insns), &remains), 1);

	assert_int_equal(blob_pool_create(&pool), 0);
	assert_int_equal(prog_from_remains(pool, known, remains, &prog), 0);
	blob_pool_destroy(pool);
	assert_true(prog->captured);
	assert_int_equal(prog->id, 5);
	assert_int_equal(prog->loader_pid, 9);
	assert_string_equal(prog->loader_comm, "loader");
	assert_string_equal(prog->name, "main_with_its_whole_name");
	assert_int_equal(prog->info.type, BPF_PROG_TYPE_XDP);
	assert_int_equal(prog->jited->len, 110);
	assert_int_equal(prog->xlated->len, sizeof(shown));
	assert_memory_equal(prog->xlated->data, shown, sizeof(shown));
	assert_int_equal(prog->func_count, 2);
	assert_string_equal(prog->funcs[0].symbol,
			    "bpf_prog_7461677461677400_main_with_its_whole_name");
	assert_memory_equal(prog->funcs[0].tag, prog->tag, BPF_TAG_SIZE);
	/* No record told of it. */
	assert_string_equal(prog->funcs[1].symbol, "bpf_prog_2222222222222222_F");
	assert_null(prog->funcs[1].name);
	assert_int_equal(prog->map_count, 1);
	assert_string_equal(prog->maps[0].name, "values");
	assert_int_equal(prog->btf_state, PROG_PART_GONE);
}

/* The second function is called as kernels of both kinds keep it; both show the same. */
static void test_calls(void **state)
{
	static const struct bpf_insn shown[] = {
		{.code = BPF_JMP | BPF_CALL, .src_reg = BPF_PSEUDO_CALL, .off = 2, .imm = 1},
		{.code = BPF_JMP | BPF_CALL, .src_reg = BPF_PSEUDO_CALL, .off = 1, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
		{.code = BPF_ALU64 | BPF_MOV, .imm = 5},
		{.code = BPF_JMP | BPF_EXIT},
	};

	for (int swapped = 0; swapped < 2; swapped++) {
		CLEANUP(remains_cleanup) struct remains *remains = NULL;
		CLEANUP(prog_cleanup) struct prog *known = make_known(), *prog = NULL;
		struct unload_head head = two_functions;
		struct bpf_insn insns[ARRAY_SIZE(shown)];
		struct blob_pool *pool;
		struct remains *none;

		memcpy(insns, shown, sizeof(shown));
		if (swapped) {
			insns[0].off = 1;
			insns[0].imm = 2;
		}
		head.insns = ARRAY_SIZE(insns);
		assert_int_equal(give_head(0, head), 0);
		assert_int_equal(give_map(0), 0);
		assert_int_equal(give_part(0, UNLOAD_CODE, MAIN_AT, 0x11, 50, 0, &none), 0);
		assert_int_equal(give_part(0, UNLOAD_CODE, SUB_AT, 0x22, 60, 0, &none), 0);
		assert_int_equal(give_insns(0, insns, ARRAY_SIZE(insns), &remains), 1);
		assert_int_equal(blob_pool_create(&pool), 0);
		assert_int_equal(prog_from_remains(pool, known, remains, &prog), 0);
		blob_pool_destroy(pool);
		assert_memory_equal(prog->xlated->data, shown, sizeof(shown));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interleaved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_short, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(test_program, setup, teardown),
		cmocka_unit_test_setup_teardown(test_calls, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
