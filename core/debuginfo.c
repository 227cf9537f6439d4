/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes DWARF 4 for JITed code: see debuginfo.h. */
#include "core/debuginfo.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

/* The sections are byte buffers; struct text grows and fails as one should. */
static void put_u8(struct text *out, uint8_t value)
{
	text_append(out, &value, sizeof(value));
}

static void put_u16(struct text *out, uint16_t value)
{
	text_append(out, &value, sizeof(value));
}

static void put_u32(struct text *out, uint32_t value)
{
	text_append(out, &value, sizeof(value));
}

static void put_u64(struct text *out, uint64_t value)
{
	text_append(out, &value, sizeof(value));
}

static void put_uleb128(struct text *out, uint64_t value)
{
	do {
		uint8_t byte = value & 0x7f;

		value >>= 7;
		put_u8(out, value ? byte | 0x80 : byte);
	} while (value);
}

static void put_sleb128(struct text *out, int64_t value)
{
	for (;;) {
		uint8_t byte = value & 0x7f;

		value >>= 7; /* arithmetic, as gcc and clang promise */
		if ((value == 0 && !(byte & 0x40)) || (value == -1 && (byte & 0x40))) {
			put_u8(out, byte);
			return;
		}
		put_u8(out, byte | 0x80);
	}
}

static void put_string(struct text *out, const char *string)
{
	text_append(out, string, strlen(string) + 1);
}

/* A unit begins with its length, known only at its end. */
static size_t unit_begin(struct text *out)
{
	size_t start = out->len;

	put_u32(out, 0);
	return start;
}

static void unit_end(struct text *out, size_t start)
{
	if (out->failed)
		return;

	uint32_t len = out->len - start - sizeof(len);

	memcpy(out->data + start, &len, sizeof(len));
}

/* The distinct file names of a line table, sorted; file n + 1 of the table is names[n]. */
struct file_names {
	const char **names;
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return x == y ? 0 : strcmp(x, y);
}

static int file_names_collect(const struct lineinfo *lines, struct file_names *ret)
{
	const char **names = calloc(lines->addr_count + 1, sizeof(*names));
	size_t count = 0, distinct = 0;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < lines->addr_count; i++)
		if (!count || names[count - 1] != lines->by_addr[i]->file)
			names[count++] = lines->by_addr[i]->file;
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++)
		if (!distinct || compare_names(&names[distinct - 1], &names[i]) != 0)
			names[distinct++] = names[i];
	*ret = (struct file_names){.names = names, .count = distinct};
	return 0;
}

static void file_names_deinit(struct file_names *files)
{
	free(files->names);
}

static uint64_t file_number(const struct file_names *files, const char *name)
{
	const char **found =
		bsearch(&name, files->names, files->count, sizeof(name), compare_names);

	return found - files->names + 1;
}

/* Opcode n takes lengths[n - 1] operands; from 13 on they would be special. */
static const uint8_t standard_opcode_lengths[12] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};

static void put_line_header(struct text *out, const struct file_names *files)
{
	put_u16(out, 4);

	size_t header = unit_begin(out);

	put_u8(out, 1); /* minimum_instruction_length: addresses advance by bytes everywhere */
	put_u8(out, 1); /* maximum_operations_per_instruction */
	put_u8(out, 1); /* default_is_stmt */
	put_u8(out, 1); /* line_base; no special opcode is used */
	put_u8(out, 1); /* line_range */
	put_u8(out, ARRAY_SIZE(standard_opcode_lengths) + 1);
	text_append(out, standard_opcode_lengths, sizeof(standard_opcode_lengths));
	put_u8(out, 0); /* no include directories: BTF has whole paths */
	for (size_t i = 0; i < files->count; i++) {
		put_string(out, files->names[i]);
		put_uleb128(out, 0); /* directory */
		put_uleb128(out, 0); /* mtime, not known */
		put_uleb128(out, 0); /* length, not known */
	}
	put_u8(out, 0);
	unit_end(out, header);
}

struct line_state {
	uint64_t addr;
	uint64_t file;
	uint32_t number;
	uint32_t column;
};

static void put_extended(struct text *out, uint8_t opcode, const void *operand, size_t len)
{
	put_u8(out, 0);
	put_uleb128(out, 1 + len);
	put_u8(out, opcode);
	text_append(out, operand, len);
}

/* Rows of one function from lines[i] on; returns the index after its last. */
static size_t put_sequence(struct text *out, const struct code_func *func,
			   const struct lineinfo *lines, size_t i, const struct file_names *files)
{
	struct line_state state = {.addr = lines->by_addr[i]->addr, .file = 1, .number = 1};
	const char *file = NULL;

	put_extended(out, DW_LNE_set_address, &state.addr, sizeof(state.addr));
	for (; i < lines->addr_count && lines->by_addr[i]->func == func->index; i++) {
		const struct line *line = lines->by_addr[i];

		/* Of those that share an address the last one has the code. */
		if (i + 1 < lines->addr_count && lines->by_addr[i + 1]->addr == line->addr)
			continue;
		if (line->file != file && file_number(files, line->file) != state.file) {
			state.file = file_number(files, line->file);
			put_u8(out, DW_LNS_set_file);
			put_uleb128(out, state.file);
		}
		file = line->file;
		if (line->addr != state.addr) {
			put_u8(out, DW_LNS_advance_pc);
			put_uleb128(out, line->addr - state.addr);
			state.addr = line->addr;
		}
		if (line->column != state.column) {
			put_u8(out, DW_LNS_set_column);
			put_uleb128(out, line->column);
			state.column = line->column;
		}
		if (line->number != state.number) {
			put_u8(out, DW_LNS_advance_line);
			put_sleb128(out, (int64_t)line->number - state.number);
			state.number = line->number;
		}
		put_u8(out, DW_LNS_copy);
	}
	put_u8(out, DW_LNS_advance_pc);
	put_uleb128(out, func->addr + func->len - state.addr);
	put_extended(out, DW_LNE_end_sequence, NULL, 0);
	return i;
}

static int build_line(const struct code_func *funcs, size_t count, const struct lineinfo *lines,
		      struct text *out)
{
	CLEANUP(file_names_deinit) struct file_names files = {};
	int r = file_names_collect(lines, &files);
	size_t i = 0;

	if (r < 0)
		return r;

	size_t unit = unit_begin(out);

	put_line_header(out, &files);
	/* Both lists are by address; lines of functions without code here are passed over. */
	for (size_t f = 0; f < count; f++) {
		while (i < lines->addr_count && lines->by_addr[i]->addr < funcs[f].addr)
			i++;
		if (i < lines->addr_count && lines->by_addr[i]->func == funcs[f].index)
			i = put_sequence(out, &funcs[f], lines, i, &files);
	}
	unit_end(out, unit);
	return 0;
}

enum abbrev {
	ABBREV_UNIT = 1,
	ABBREV_UNIT_WITHOUT_LINES,
	ABBREV_SUBPROGRAM,
};

static void put_abbrev(struct text *out, enum abbrev code, uint8_t tag, uint8_t children,
		       const uint8_t (*attrs)[2], size_t count)
{
	put_uleb128(out, code);
	put_uleb128(out, tag);
	put_u8(out, children);
	for (size_t i = 0; i < count; i++) {
		put_uleb128(out, attrs[i][0]);
		put_uleb128(out, attrs[i][1]);
	}
	put_u16(out, 0);
}

static void build_abbrev(struct text *out)
{
	static const uint8_t unit[][2] = {
		{DW_AT_producer, DW_FORM_strp},	    {DW_AT_language, DW_FORM_data1},
		{DW_AT_name, DW_FORM_strp},	    {DW_AT_low_pc, DW_FORM_addr},
		{DW_AT_ranges, DW_FORM_sec_offset}, {DW_AT_stmt_list, DW_FORM_sec_offset},
	};
	static const uint8_t subprogram[][2] = {
		{DW_AT_name, DW_FORM_strp},
		{DW_AT_low_pc, DW_FORM_addr},
		{DW_AT_high_pc, DW_FORM_data8},
	};

	put_abbrev(out, ABBREV_UNIT, DW_TAG_compile_unit, DW_CHILDREN_yes, unit, ARRAY_SIZE(unit));
	put_abbrev(out, ABBREV_UNIT_WITHOUT_LINES, DW_TAG_compile_unit, DW_CHILDREN_yes, unit,
		   ARRAY_SIZE(unit) - 1);
	put_abbrev(out, ABBREV_SUBPROGRAM, DW_TAG_subprogram, DW_CHILDREN_no, subprogram,
		   ARRAY_SIZE(subprogram));
	put_u8(out, 0);
}

/* Adds a string to .debug_str and writes its offset. */
static void put_strp(struct debuginfo *debug, const char *string)
{
	put_u32(&debug->info, debug->str.len);
	put_string(&debug->str, string);
}

static void build_info(const struct prog *prog, const struct code_func *funcs, size_t count,
		       const struct lineinfo *lines, struct debuginfo *debug)
{
	struct text *out = &debug->info;
	size_t unit = unit_begin(out);

	put_u16(out, 4);
	put_u32(out, 0); /* where in .debug_abbrev */
	put_u8(out, sizeof(uint64_t));
	put_uleb128(out, lines ? ABBREV_UNIT : ABBREV_UNIT_WITHOUT_LINES);
	put_strp(debug, "ksymfs");
	put_u8(out, DW_LANG_C99);
	/* A unit is named after its source: the file that the program's first record is in. */
	put_strp(debug, lines ? lines->lines[0].file : prog->name ? prog->name : "");
	put_u64(out, 0); /* the base that ranges are relative to */
	put_u32(out, 0); /* where in .debug_ranges */
	if (lines)
		put_u32(out, 0); /* where in .debug_line */
	for (size_t i = 0; i < count; i++) {
		put_uleb128(out, ABBREV_SUBPROGRAM);
		put_strp(debug, prog->funcs[funcs[i].index].symbol);
		put_u64(out, funcs[i].addr);
		put_u64(out, funcs[i].len);
	}
	put_u8(out, 0);
	unit_end(out, unit);
}

static void build_ranges(const struct code_func *funcs, size_t count, struct debuginfo *debug)
{
	size_t unit = unit_begin(&debug->aranges);

	put_u16(&debug->aranges, 2);
	put_u32(&debug->aranges, 0); /* where in .debug_info */
	put_u8(&debug->aranges, sizeof(uint64_t));
	put_u8(&debug->aranges, 0);
	put_u32(&debug->aranges, 0); /* pairs are aligned to their size */
	for (size_t i = 0; i < count; i++) {
		put_u64(&debug->ranges, funcs[i].addr);
		put_u64(&debug->ranges, funcs[i].addr + funcs[i].len);
		put_u64(&debug->aranges, funcs[i].addr);
		put_u64(&debug->aranges, funcs[i].len);
	}
	put_u64(&debug->ranges, 0);
	put_u64(&debug->ranges, 0);
	put_u64(&debug->aranges, 0);
	put_u64(&debug->aranges, 0);
	unit_end(&debug->aranges, unit);
}

void debuginfo_deinit(struct debuginfo *debug)
{
	text_deinit(&debug->info);
	text_deinit(&debug->abbrev);
	text_deinit(&debug->line);
	text_deinit(&debug->str);
	text_deinit(&debug->ranges);
	text_deinit(&debug->aranges);
}

int debuginfo_build(const struct prog *prog, const struct code_func *funcs, size_t count,
		    const struct lineinfo *lines, struct debuginfo *ret)
{
	_cleanup_debuginfo_ struct debuginfo debug = {};

	if (lines && !lines->addr_count)
		lines = NULL;
	if (lines) {
		int r = build_line(funcs, count, lines, &debug.line);

		if (r < 0)
			return r;
	}
	build_abbrev(&debug.abbrev);
	build_info(prog, funcs, count, lines, &debug);
	build_ranges(funcs, count, &debug);
	if (debug.info.failed || debug.abbrev.failed || debug.line.failed || debug.str.failed ||
	    debug.ranges.failed || debug.aranges.failed)
		return -ENOMEM;
	*ret = debug;
	debug = (struct debuginfo){};
	return 0;
}
