/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program's BTF and line records, to lines, source and elf. The input is a count of functions and
 * one of records, the functions, the records with their addresses, and then the BTF.
 */
#include <elf.h>
#include <gelf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/elfimage.h"
#include "core/lineinfo.h"

#define BASE UINT64_C(0xffffffffc0010000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t left;
};

static void take(struct input *input, void *ret, size_t len)
{
	size_t there = MIN(len, input->left);

	memset(ret, 0, len);
	if (!there)
		return;
	memcpy(ret, input->data, there);
	input->data += there;
	input->left -= there;
}

static uint16_t take_u16(struct input *input)
{
	uint16_t value;

	take(input, &value, sizeof(value));
	return value;
}

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* What is placed is in its function, by address, and what is not is counted. */
static void check_placed(const struct prog *prog, const struct lineinfo *info, size_t count)
{
	const struct lineinfo_left_out *out = &info->addr_left_out;

	for (size_t i = 0; i < info->addr_count; i++) {
		const struct line *line = info->by_addr[i];
		const struct prog_func *func = &prog->funcs[line->func];

		check(line->addr - func->addr < func->len);
		check(!i || info->by_addr[i - 1]->addr <= line->addr);
		check(lineinfo_find(info, prog, line->addr) != NULL);
	}
	for (size_t i = 1; i < info->insn_count; i++)
		check(info->by_insn[i - 1]->insn < info->by_insn[i]->insn);
	if (prog->func_count)
		check(info->addr_count + out->strings + out->range + out->order == count);
}

static void check_elf(const struct prog *prog, const struct lineinfo *info)
{
	struct snapshot *snapshot;

	if (elfimage_write(prog, info, EM_X86_64, &snapshot) < 0)
		return;

	size_t len = snapshot_size(snapshot), sections = 0;
	char *bytes = malloc(len);

	check(bytes && snapshot_read(snapshot, 0, bytes, len) == len);

	Elf *elf = elf_memory(bytes, len);

	check(elf && elf_getshdrnum(elf, &sections) == 0);
	for (size_t i = 1; i < sections; i++)
		check(elf_getdata(elf_getscn(elf, i), NULL) != NULL);
	elf_end(elf);
	free(bytes);
	snapshot_unref(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t code[4096];
	struct input input = {data, size};
	struct prog_func funcs[5] = {};
	struct bpf_line_info records[64];
	uint64_t addrs[64];
	size_t func_count = take_u16(&input) % 5, count = take_u16(&input) % 64;
	_cleanup_text_ struct text text = {};
	struct lineinfo info;

	for (size_t i = 0; i < func_count; i++)
		funcs[i] = (struct prog_func){.addr = BASE + take_u16(&input),
					      .len = take_u16(&input) % 512,
					      .insn_off = i ? take_u16(&input) : 0,
					      .symbol = (char *)"bpf_prog_1_x"};

	size_t xlated_count = take_u16(&input);

	for (size_t i = 0; i < count; i++) {
		take(&input, &records[i], sizeof(records[i]));
		addrs[i] = BASE + take_u16(&input);
	}

	/* BTF of its own allocation, so that a read past its end is seen. */
	_cleanup_free_ void *btf_bytes = malloc(input.left + 1);
	struct blob jited = {.data = code, .len = sizeof(code)};
	struct blob btf = {.data = btf_bytes, .len = input.left};
	struct blob line_info = {.data = records, .len = count * sizeof(records[0])};
	struct blob jited_line = {.data = addrs, .len = count * sizeof(addrs[0])};
	struct prog prog = {
		.captured = true,
		.info = {.xlated_prog_len = xlated_count * sizeof(struct bpf_insn),
			 .line_info_rec_size = sizeof(records[0])},
		.funcs = funcs,
		.func_count = func_count,
		.jited = &jited,
		.btf = &btf,
		.line_info = &line_info,
		.jited_line = &jited_line,
	};

	check(btf_bytes);
	memcpy(btf_bytes, input.data, input.left);
	elf_version(EV_CURRENT);
	check(lineinfo_is_readable(&prog) == (lineinfo_read(&prog, &info) == 0));
	if (!lineinfo_is_readable(&prog)) {
		check_elf(&prog, NULL);
		return 0;
	}
	check_placed(&prog, &info, count);
	lineinfo_write_lines(&info, &prog, &text);
	check(lineinfo_write_source(&info, &text) == 0);
	check_elf(&prog, &info);
	lineinfo_deinit(&info);
	return 0;
}
