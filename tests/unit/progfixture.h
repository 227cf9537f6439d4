/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs made of literals, for tests of what is made from a captured program: functions of given
 * addresses and lengths, BTF that has strings and no types, and line records.
 */
#ifndef TESTS_UNIT_PROGFIXTURE_H
#define TESTS_UNIT_PROGFIXTURE_H

#include <linux/btf.h>
#include <string.h>

#include "core/prog.h"

#define FIXTURE_FUNCS	4
#define FIXTURE_LINES	16
#define FIXTURE_STRINGS 1024

struct prog_fixture {
	struct prog prog;
	struct prog_func funcs[FIXTURE_FUNCS];
	struct blob jited, xlated, btf, line_info, jited_line;
	struct {
		struct btf_header header;
		char strings[FIXTURE_STRINGS];
	} btf_data;
	struct bpf_line_info lines[FIXTURE_LINES];
	uint64_t line_addrs[FIXTURE_LINES];
};

/* A program whose image is code and whose instructions are insns; no functions and no lines yet. */
static inline void fixture_init(struct prog_fixture *f, const void *code, size_t code_len,
				const struct bpf_insn *insns, size_t insn_count)
{
	*f = (struct prog_fixture){
		.jited = {.data = code, .len = code_len},
		.xlated = {.data = insns, .len = insn_count * sizeof(*insns)},
		.btf_data.header = {.magic = BTF_MAGIC,
				    .version = BTF_VERSION,
				    .hdr_len = sizeof(struct btf_header),
				    .str_len = 1},
	};
	f->btf = (struct blob){.data = &f->btf_data,
			       .len = sizeof(f->btf_data.header) + f->btf_data.header.str_len};
	f->line_info.data = f->lines;
	f->jited_line.data = f->line_addrs;
	f->prog.captured = true;
	f->prog.info.xlated_prog_len = f->xlated.len;
	f->prog.info.line_info_rec_size = sizeof(struct bpf_line_info);
	f->prog.funcs = f->funcs;
	f->prog.jited = &f->jited;
	f->prog.xlated = &f->xlated;
	f->prog.btf = &f->btf;
	f->prog.line_info = &f->line_info;
	f->prog.jited_line = &f->jited_line;
}

static inline void fixture_func(struct prog_fixture *f, const char *symbol, uint64_t addr,
				uint32_t len, uint32_t insn_off)
{
	f->funcs[f->prog.func_count++] = (struct prog_func){
		.addr = addr, .len = len, .insn_off = insn_off, .symbol = (char *)symbol};
}

static inline uint32_t fixture_string(struct prog_fixture *f, const char *string)
{
	uint32_t offset = f->btf_data.header.str_len;

	strcpy(f->btf_data.strings + offset, string);
	f->btf_data.header.str_len += strlen(string) + 1;
	f->btf.len = sizeof(f->btf_data.header) + f->btf_data.header.str_len;
	return offset;
}

/* A line record with offsets of strings as they come. */
static inline void fixture_record(struct prog_fixture *f, uint32_t insn, uint64_t addr,
				  uint32_t file, uint32_t text, uint32_t number, uint32_t column)
{
	size_t i = f->line_info.len / sizeof(f->lines[0]);

	f->lines[i] = (struct bpf_line_info){.insn_off = insn,
					     .file_name_off = file,
					     .line_off = text,
					     .line_col = number << 10 | column};
	f->line_addrs[i] = addr;
	f->line_info.len += sizeof(f->lines[0]);
	f->jited_line.len += sizeof(f->line_addrs[0]);
}

static inline void fixture_line(struct prog_fixture *f, uint32_t insn, uint64_t addr,
				const char *file, const char *text, uint32_t number,
				uint32_t column)
{
	uint32_t file_off = fixture_string(f, file), text_off = fixture_string(f, text);

	fixture_record(f, insn, addr, file_off, text_off, number, column);
}

#endif
