/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instruction bytes to text: each instruction is one row, whatever its bytes are. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/xlated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool name_address(void *arg, uint64_t addr, struct text *text)
{
	if (addr & 1)
		return false;
	text_puts(text, addr & 2 ? "function" : "function+0x4");
	return true;
}

static size_t count_rows(const struct text *text)
{
	size_t rows = 0;

	for (size_t i = 0; i < text->len; i++)
		rows += text->data[i] == '\n';
	return rows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count = size / sizeof(struct bpf_insn), rows = 0, labels = 0;
	_cleanup_free_ struct bpf_insn *insns = malloc(count * sizeof(*insns) + 1);
	struct prog_func funcs[] = {{.symbol = (char *)"bpf_prog_1_main", .insn_off = UINT32_MAX},
				    {.symbol = (char *)"bpf_prog_2_sub", .insn_off = UINT32_MAX}};
	struct prog_map maps[] = {{.id = 1, .name = "map"}};
	struct blob xlated = {.data = insns, .len = count * sizeof(*insns)};
	struct prog prog = {
		.xlated = &xlated,
		.funcs = funcs,
		.func_count = ARRAY_SIZE(funcs),
		.maps = maps,
		.map_count = ARRAY_SIZE(maps),
	};
	const struct code_names names = {.address = name_address, .call_base = 1 << 20};
	_cleanup_text_ struct text text = {};

	if (!insns)
		abort();
	if (count)
		memcpy(insns, data, count * sizeof(*insns));

	int r = xlated_write(&prog, NULL, &names, &text);

	if ((r == 0) != (count > 0))
		abort();
	for (size_t i = 0; i < count; i++, rows++)
		if (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < count)
			i++;
	for (size_t i = 0; i + 1 < text.len; i++)
		labels += text.data[i] == 'L' && (!i || text.data[i - 1] == '\n');
	if (count_rows(&text) != rows + labels)
		abort();
	return 0;
}
