/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a program that lead from its code back to its source: lines, source, xlated.txt, asm
 * and elf. Each is made from what was captured at the load, when somebody first asks for it.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/asm.h"
#include "core/btf.h"
#include "core/elfimage.h"
#include "core/lineinfo.h"
#include "core/xlated.h"
#include "fs/view_bpf.h"

static const char *line_info_missing(const struct prog *prog)
{
	if (prog->lines_state != PROG_PART_OK)
		return bpf_part_missing(prog->lines_state, "the program has no BTF line info");
	if (!prog->line_info || !prog->line_info->len)
		return "the program has no BTF line info";

	const char *reason = bpf_btf_missing(prog);

	return !reason && !lineinfo_is_readable(prog) ? "its BTF or its line info does not parse"
						      : reason;
}

static const char *functions_missing(const struct prog *prog)
{
	const char *reason = bpf_jited_missing(prog);

	return !reason && !prog->func_count ? "the kernel does not show where its functions are"
					    : reason;
}

const char *bpf_lines_missing(const struct prog *prog)
{
	const char *reason = functions_missing(prog) ?: line_info_missing(prog);

	if (reason)
		return reason;
	if (!prog->jited_line || !prog->jited_line->len)
		return "the kernel does not show the addresses of its lines";
	if (lineinfo_is_shifted(prog))
		return "constant blinding (bpf_jit_harden) moved the kernel's line records of this "
		       "program's functions to wrong instructions";
	return NULL;
}

const char *bpf_source_missing(const struct prog *prog)
{
	return line_info_missing(prog);
}

const char *bpf_elf_missing(const struct prog *prog)
{
	if (elfimage_host_machine() == EM_NONE)
		return "ksymfs does not know this machine's ELF";
	return functions_missing(prog);
}

const char *bpf_asm_missing(const struct prog *prog)
{
	const char *reason = bpf_elf_missing(prog);

	return !reason && !asm_is_available() ? "there is no disassembler here (capstone)" : reason;
}

/* Line info where there is any that can be read; *ret_lines is NULL where there is none. */
static int read_lines(const struct prog *prog, struct lineinfo *info,
		      const struct lineinfo **ret_lines)
{
	int r = lineinfo_read(prog, info);

	*ret_lines = r == 0 ? info : NULL;
	return r == -ENOMEM ? r : 0;
}

int bpf_render_lines(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_lineinfo_ struct lineinfo info = {};
	_cleanup_text_ struct text text = {};
	const struct lineinfo *lines;
	int r = read_lines(prog, &info, &lines);

	if (r < 0)
		return r;
	if (lines)
		lineinfo_write_lines(lines, prog, &text);
	return text_take_snapshot(&text, ret);
}

int bpf_render_source(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_lineinfo_ struct lineinfo info = {};
	_cleanup_text_ struct text text = {};
	const struct lineinfo *lines;
	int r = read_lines(prog, &info, &lines);

	if (r == 0 && lines)
		r = lineinfo_write_source(lines, &text);
	if (r < 0)
		return r;
	return text_take_snapshot(&text, ret);
}

/* How the tracker and the kernel's BTF name what a program calls. */
struct naming {
	struct tracker *tracker;
	uint64_t time;		  /* when the program was there */
	struct btf_file *vmlinux; /* opened by the first that asks, and closed with this */
	int vmlinux_error;
};

static void naming_deinit(struct naming *naming)
{
	btf_file_close(naming->vmlinux);
}

static bool name_address(void *arg, uint64_t addr, struct text *text)
{
	struct naming *naming = arg;
	struct tracker_answer answer = {};

	if (tracker_resolve(naming->tracker, addr, naming->time, &answer) < 0)
		return false;
	text_escape(text, answer.symbol, strlen(answer.symbol));
	if (addr != answer.addr)
		text_printf(text, "+0x%" PRIx64, addr - answer.addr);
	tracker_answer_deinit(&answer);
	return true;
}

static bool name_kfunc(void *arg, uint32_t btf_id, struct text *text)
{
	struct naming *naming = arg;
	_cleanup_free_ char *name = NULL;

	if (!naming->vmlinux && !naming->vmlinux_error)
		naming->vmlinux_error = btf_file_open("vmlinux", NULL, &naming->vmlinux);
	if (!naming->vmlinux || btf_file_name(naming->vmlinux, btf_id, &name) < 0)
		return false;
	text_escape(text, name, strlen(name));
	return true;
}

/* Helper calls are relative to this symbol of vmlinux, which does not move. */
static uint64_t call_base(struct tracker *tracker)
{
	static _Atomic uint64_t found;
	uint64_t addr = atomic_load_explicit(&found, memory_order_relaxed);

	if (!addr && tracker_core_address(tracker, "__bpf_call_base", &addr) == 0)
		atomic_store_explicit(&found, addr, memory_order_relaxed);
	return addr;
}

static struct naming naming_of(struct tracker *tracker, const struct prog *prog)
{
	uint64_t unloaded = atomic_load(&prog->unloaded_mono);

	return (struct naming){
		.tracker = tracker,
		.time = unloaded ? unloaded - 1 : TRACKER_NOW,
	};
}

int bpf_render_xlated_txt(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	CLEANUP(naming_deinit) struct naming naming = naming_of(tracker, prog);
	_cleanup_lineinfo_ struct lineinfo info = {};
	_cleanup_text_ struct text text = {};
	const struct code_names names = {
		.address = name_address,
		.kfunc = name_kfunc,
		.arg = &naming,
		.call_base = call_base(tracker),
	};
	const struct lineinfo *lines;
	int r = read_lines(prog, &info, &lines);

	if (r == 0)
		r = xlated_write(prog, lines, &names, &text);
	if (r < 0)
		return r;
	return text_take_snapshot(&text, ret);
}

int bpf_render_asm(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	CLEANUP(naming_deinit) struct naming naming = naming_of(tracker, prog);
	_cleanup_lineinfo_ struct lineinfo info = {};
	_cleanup_text_ struct text text = {};
	const struct code_names names = {.address = name_address, .arg = &naming};
	const struct lineinfo *lines;
	int r = read_lines(prog, &info, &lines);

	if (r == 0)
		r = asm_write(prog, lines, &names, elfimage_host_machine(), &text);
	if (r < 0)
		return r;
	return text_take_snapshot(&text, ret);
}

int bpf_render_elf(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_lineinfo_ struct lineinfo info = {};
	const struct lineinfo *lines;
	int r = read_lines(prog, &info, &lines);

	return r < 0 ? r : elfimage_write(prog, lines, elfimage_host_machine(), ret);
}

static void write_left_out(struct text *text, const char *key, const struct lineinfo_left_out *out)
{
	text_printf(text, "%s: %zu", key, out->strings + out->range + out->order);
	if (out->strings)
		text_printf(text, ", %zu with strings outside the BTF", out->strings);
	if (out->range)
		text_printf(text, ", %zu outside their function", out->range);
	if (out->order)
		text_printf(text, ", %zu out of order", out->order);
	text_putc(text, '\n');
}

void bpf_write_line_counts(struct text *text, const struct prog *prog)
{
	_cleanup_lineinfo_ struct lineinfo info = {};

	if (lineinfo_read(prog, &info) < 0)
		return;
	text_printf(text, "line_records: %zu\n", lineinfo_record_count(prog));
	write_left_out(text, "lines_left_out", &info.addr_left_out);
	write_left_out(text, "xlated_lines_left_out", &info.insn_left_out);
}

void bpf_write_source_line(struct text *text, const struct prog *prog, uint64_t addr)
{
	_cleanup_lineinfo_ struct lineinfo info = {};
	const struct line *line = NULL;

	if (lineinfo_read(prog, &info) == 0)
		line = lineinfo_find(&info, prog, addr);
	if (!line)
		return;
	text_puts(text, "source: ");
	line_write(line, text);
	text_putc(text, '\n');
}
