/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads, checks and orders a program's line info: see lineinfo.h. */
#include "core/lineinfo.h"

#include <errno.h>
#include <string.h>

#include "core/btf.h"

/* What a record is called that names no file. */
static const char no_file[] = "??";

static uint32_t xlated_count(const struct prog *prog)
{
	/* A reader without rights sees the length and not the instructions. */
	return (prog->xlated ? prog->xlated->len : prog->info.xlated_prog_len) /
	       sizeof(struct bpf_insn);
}

/* Is it known where each function's instructions begin? */
static bool knows_insns(const struct prog *prog)
{
	if (!prog->func_count || prog->funcs[0].insn_off != 0)
		return false;
	for (size_t i = 1; i < prog->func_count; i++)
		if (prog->funcs[i].insn_off <= prog->funcs[i - 1].insn_off ||
		    prog->funcs[i].insn_off >= xlated_count(prog))
			return false;
	return true;
}

size_t lineinfo_record_count(const struct prog *prog)
{
	if (!prog->line_info || prog->info.line_info_rec_size < sizeof(struct bpf_line_info))
		return 0;
	return prog->line_info->len / prog->info.line_info_rec_size;
}

static struct bpf_line_info record_at(const struct prog *prog, size_t i)
{
	struct bpf_line_info record;

	memcpy(&record, (const char *)prog->line_info->data + i * prog->info.line_info_rec_size,
	       sizeof(record));
	return record;
}

bool lineinfo_is_shifted(const struct prog *prog)
{
	size_t count = lineinfo_record_count(prog), started = 0;
	uint32_t last = 0;

	if (prog->func_count < 2 || !count || !knows_insns(prog))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t insn = record_at(prog, i).insn_off;

		if (insn >= xlated_count(prog) || (i && insn <= last))
			return true;
		if (started < prog->func_count && insn == prog->funcs[started].insn_off)
			started++;
		last = insn;
	}
	return started < prog->func_count;
}

/* A program's functions by address, and what is needed to check records against them. */
struct func_order {
	const struct prog *prog;
	uint32_t *by_addr;   /* indices into prog->funcs */
	uint64_t *last_addr; /* of each function in prog->funcs: its newest record's */
	uint32_t xlated_count;
	bool knows_insns;
};

static void func_order_deinit(struct func_order *order)
{
	free(order->by_addr);
	free(order->last_addr);
}

static int compare_funcs(const void *a, const void *b, void *arg)
{
	const struct prog_func *funcs = arg;
	const struct prog_func *x = &funcs[*(const uint32_t *)a], *y = &funcs[*(const uint32_t *)b];

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Of several at one address the last has code, if any has. */
	return (x->len > y->len) - (x->len < y->len);
}

static int func_order_init(const struct prog *prog, struct func_order *ret)
{
	*ret = (struct func_order){
		.prog = prog,
		.by_addr = calloc(prog->func_count + 1, sizeof(*ret->by_addr)),
		.last_addr = calloc(prog->func_count + 1, sizeof(*ret->last_addr)),
		.xlated_count = xlated_count(prog),
		.knows_insns = knows_insns(prog),
	};
	if (!ret->by_addr || !ret->last_addr)
		return -ENOMEM;
	for (size_t i = 0; i < prog->func_count; i++)
		ret->by_addr[i] = i;
	qsort_r(ret->by_addr, prog->func_count, sizeof(*ret->by_addr), compare_funcs, prog->funcs);
	return 0;
}

/* The function whose code is at addr: its index, or -1. */
static int64_t func_at_addr(const struct func_order *order, uint64_t addr)
{
	size_t low = 0, high = order->prog->func_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (order->prog->funcs[order->by_addr[mid]].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return -1;

	const struct prog_func *func = &order->prog->funcs[order->by_addr[low - 1]];

	return addr - func->addr < func->len ? (int64_t)order->by_addr[low - 1] : -1;
}

/* The function that a translated instruction is in; only where order->knows_insns. */
static uint32_t func_at_insn(const struct func_order *order, uint32_t insn)
{
	size_t low = 1, high = order->prog->func_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (order->prog->funcs[mid].insn_off <= insn)
			low = mid + 1;
		else
			high = mid;
	}
	return low - 1;
}

/* Puts a line among those by address; or counts why not. */
static void place_addr(struct lineinfo *info, struct func_order *order, struct line *line)
{
	const struct blob *jited = order->prog->jited_line;
	int64_t func = -1;

	if (line->record < jited->len / sizeof(line->addr)) {
		memcpy(&line->addr, (const uint64_t *)jited->data + line->record,
		       sizeof(line->addr));
		func = func_at_addr(order, line->addr);
	}
	if (func < 0 || (order->knows_insns && line->insn < order->xlated_count &&
			 func_at_insn(order, line->insn) != func)) {
		info->addr_left_out.range++;
		return;
	}
	if (line->addr < order->last_addr[func]) {
		info->addr_left_out.order++;
		return;
	}
	order->last_addr[func] = line->addr;
	line->func = func;
	info->by_addr[info->addr_count++] = line;
}

static void place_insn(struct lineinfo *info, const struct func_order *order,
		       const struct line *line)
{
	if (line->insn >= order->xlated_count)
		info->insn_left_out.range++;
	else if (info->insn_count && line->insn <= info->by_insn[info->insn_count - 1]->insn)
		info->insn_left_out.order++;
	else
		info->by_insn[info->insn_count++] = line;
}

static int compare_addrs(const void *a, const void *b)
{
	const struct line *x = *(const struct line *const *)a, *y = *(const struct line *const *)b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x->record > y->record) - (x->record < y->record);
}

static bool read_record(const struct prog *prog, size_t i, const struct btf_view *btf,
			struct line *ret)
{
	struct bpf_line_info record = record_at(prog, i);
	const char *file = btf_view_string(btf, record.file_name_off);
	const char *text = btf_view_string(btf, record.line_off);

	if (!file || !text)
		return false;
	*ret = (struct line){
		.file = *file ? file : no_file,
		.text = text + strspn(text, " \t\n\v\f\r"),
		.number = BPF_LINE_INFO_LINE_NUM(record.line_col),
		.column = BPF_LINE_INFO_LINE_COL(record.line_col),
		.record = i,
		.insn = record.insn_off,
	};
	return true;
}

static bool find_strings(const struct prog *prog, struct btf_view *ret)
{
	return lineinfo_record_count(prog) && prog->btf &&
	       btf_view_init(ret, prog->btf->data, prog->btf->len) == 0;
}

bool lineinfo_is_readable(const struct prog *prog)
{
	struct btf_view btf;

	return find_strings(prog, &btf);
}

int lineinfo_read(const struct prog *prog, struct lineinfo *ret)
{
	CLEANUP(func_order_deinit) struct func_order order = {};
	_cleanup_lineinfo_ struct lineinfo info = {};
	struct btf_view btf;

	if (!prog->line_info || !prog->line_info->len)
		return -ENODATA;
	if (!find_strings(prog, &btf))
		return -EBADMSG;

	size_t count = lineinfo_record_count(prog);
	bool jited = prog->jited_line && prog->jited_line->len && prog->func_count;
	int r = func_order_init(prog, &order);

	if (r < 0)
		return r;
	info.lines = calloc(count + 1, sizeof(*info.lines));
	info.by_addr = calloc(count + 1, sizeof(*info.by_addr));
	info.by_insn = calloc(count + 1, sizeof(*info.by_insn));
	if (!info.lines || !info.by_addr || !info.by_insn)
		return -ENOMEM;
	info.shifted = lineinfo_is_shifted(prog);
	for (size_t i = 0; i < count; i++) {
		struct line *line = &info.lines[info.count];

		if (!read_record(prog, i, &btf, line)) {
			info.insn_left_out.strings++;
			info.addr_left_out.strings += jited;
			continue;
		}
		info.count++;
		if (info.shifted) {
			info.insn_left_out.range++;
			info.addr_left_out.range += jited;
			continue;
		}
		place_insn(&info, &order, line);
		if (jited)
			place_addr(&info, &order, line);
	}
	qsort(info.by_addr, info.addr_count, sizeof(*info.by_addr), compare_addrs);
	*ret = info;
	info = (struct lineinfo){};
	return 0;
}

void lineinfo_deinit(struct lineinfo *info)
{
	free(info->lines);
	free(info->by_addr);
	free(info->by_insn);
	*info = (struct lineinfo){};
}

size_t lineinfo_count_below(const struct lineinfo *info, uint64_t addr)
{
	size_t low = 0, high = info->addr_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (info->by_addr[mid]->addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct line *lineinfo_find(const struct lineinfo *info, const struct prog *prog,
				 uint64_t addr)
{
	size_t count = addr == UINT64_MAX ? info->addr_count : lineinfo_count_below(info, addr + 1);

	if (!count)
		return NULL;

	const struct line *line = info->by_addr[count - 1];
	const struct prog_func *func = &prog->funcs[line->func];

	return addr - func->addr < func->len ? line : NULL;
}

/* The length of the UTF-8 character at s that prints, or 0 for what is none. */
static size_t printing_utf8(const unsigned char *s)
{
	size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;

	/* Up to 0xc1 come continuations and overlong forms; 0xc2 0x80 to 0x9f are controls. */
	if (s[0] < 0xc2 || s[0] > 0xf4 || (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* How many bytes at s are plain text. */
static size_t plain_len(const unsigned char *s)
{
	size_t len = 0;

	while (s[len] == '\t' || (s[len] >= ' ' && s[len] <= '~'))
		len++;
	return len;
}

/* Source text stays as it is written, but for what could break the row or the terminal. */
static void write_source_text(const char *source, struct text *text)
{
	for (const unsigned char *s = (const unsigned char *)source; *s;) {
		size_t len = plain_len(s);

		if (!len)
			len = printing_utf8(s);
		if (len) {
			text_append(text, s, len);
		} else {
			text_escape(text, (const char *)s, 1);
			len = 1;
		}
		s += len;
	}
}

void line_write(const struct line *line, struct text *text)
{
	text_escape(text, line->file, strlen(line->file));
	text_printf(text, ":%u:%u: ", line->number, line->column);
	write_source_text(line->text, text);
}

void lineinfo_write_lines(const struct lineinfo *info, const struct prog *prog, struct text *text)
{
	for (size_t i = 0; i < info->addr_count; i++) {
		const struct line *line = info->by_addr[i];
		const struct prog_func *func = &prog->funcs[line->func];

		text_hex16(text, line->addr);
		text_putc(text, ' ');
		text_escape(text, func->symbol, strlen(func->symbol));
		text_printf(text, "+0x%x ", (unsigned int)(line->addr - func->addr));
		line_write(line, text);
		text_putc(text, '\n');
	}
}

static int compare_sources(const void *a, const void *b)
{
	const struct line *x = *(const struct line *const *)a, *y = *(const struct line *const *)b;
	int files = x->file == y->file ? 0 : strcmp(x->file, y->file);

	if (files)
		return files;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return x->text == y->text ? 0 : strcmp(x->text, y->text);
}

int lineinfo_write_source(const struct lineinfo *info, struct text *text)
{
	_cleanup_free_ const struct line **sorted = calloc(info->count + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < info->count; i++)
		sorted[i] = &info->lines[i];
	qsort(sorted, info->count, sizeof(*sorted), compare_sources);
	for (size_t i = 0; i < info->count; i++) {
		if (i && compare_sources(&sorted[i - 1], &sorted[i]) == 0)
			continue;
		line_write(sorted[i], text);
		text_putc(text, '\n');
	}
	return 0;
}
