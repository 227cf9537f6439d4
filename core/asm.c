/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Disassembles JITed code: see asm.h.
 *
 * Capstone is loaded when it is first needed. Linked, its tables for a dozen machines would be
 * relocated by every command and daemon at its start: some 400 pages written to for what few ask
 * for, which is longer than all else that a start does before it reads a symbol.
 */
#include "core/asm.h"

#include <errno.h>

#ifndef HAVE_CAPSTONE

bool asm_is_available(void)
{
	return false;
}

int asm_write(const struct prog *prog, const struct lineinfo *lines, const struct code_names *names,
	      uint16_t machine, struct text *text)
{
	return -EOPNOTSUPP;
}

#else

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* One row of a listing; its words are in struct body's. */
struct decoded {
	uint32_t words;	  /* where they begin */
	uint8_t mnemonic; /* their lengths; that of a branch's operands ends before its target */
	uint8_t operands;
	uint8_t size; /* bytes of code */
	bool has_target;
	uint64_t target;
};

/* What there is at an offset of a function. */
#define AT_INSN	 0x1 /* an instruction begins */
#define AT_LABEL 0x2 /* a jump of this function leads there */

/* One function while it is written. */
struct body {
	const struct prog_func *func;
	const uint8_t *code;
	uint8_t *at; /* AT_..., one for each byte of code */
	struct decoded *rows;
	size_t count;
	struct text words;
};

struct listing {
	const struct prog *prog;
	const struct lineinfo *lines;
	const struct code_names *names;
	struct text *text;
	csh disassembler;
	cs_insn *insn; /* where the disassembler puts what it finds */
	uint16_t machine;
	unsigned int unit;  /* instructions begin at multiples of this */
	unsigned int width; /* bytes of the longest usual one: a column's */
};

#define CAPSTONE_FUNCTIONS(x)                                                                      \
	x(cs_open) x(cs_close) x(cs_option) x(cs_malloc) x(cs_free) x(cs_disasm_iter)

static struct {
	pthread_once_t once;
	bool is_there;
#define FUNCTION(name) __typeof__(&(name)) name;
	CAPSTONE_FUNCTIONS(FUNCTION)
#undef FUNCTION
} capstone = {.once = PTHREAD_ONCE_INIT};

static void load_capstone(void)
{
	char soname[32];

	/* Of the version whose structures this was built with. It stays to the end. */
	snprintf(soname, sizeof(soname), "libcapstone.so.%d", CS_API_MAJOR);
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	capstone.is_there = true;
#define FIND(name)                                                                                 \
	capstone.name = dlsym(library, #name);                                                     \
	capstone.is_there &= capstone.name != NULL;
	CAPSTONE_FUNCTIONS(FIND)
#undef FIND
}

bool asm_is_available(void)
{
	pthread_once(&capstone.once, load_capstone);
	return capstone.is_there;
}

static void listing_deinit(struct listing *listing)
{
	if (listing->insn)
		capstone.cs_free(listing->insn, 1);
	if (listing->disassembler)
		capstone.cs_close(&listing->disassembler);
}

static int open_disassembler(struct listing *listing)
{
	cs_err error;

	if (!asm_is_available())
		return -EOPNOTSUPP;
	switch (listing->machine) {
	case EM_X86_64:
		error = capstone.cs_open(CS_ARCH_X86, CS_MODE_64, &listing->disassembler);
		listing->unit = 1;
		listing->width = 10; /* movabs */
		break;
	case EM_AARCH64:
		error = capstone.cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN,
					 &listing->disassembler);
		listing->unit = 4;
		listing->width = 4;
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (error != CS_ERR_OK)
		return error == CS_ERR_MEM ? -ENOMEM : -EOPNOTSUPP;
	/* The syntax that the kernel's own code and objdump use. */
	if (listing->machine == EM_X86_64)
		capstone.cs_option(listing->disassembler, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	capstone.cs_option(listing->disassembler, CS_OPT_DETAIL, CS_OPT_ON);
	listing->insn = capstone.cs_malloc(listing->disassembler);
	return listing->insn ? 0 : -ENOMEM;
}

static bool is_branch(const cs_detail *detail)
{
	for (size_t i = 0; i < detail->groups_count; i++)
		if (detail->groups[i] == CS_GRP_JUMP || detail->groups[i] == CS_GRP_CALL)
			return true;
	return false;
}

/* Where a branch leads, if it says so itself: its last operand. */
static bool branch_target(const struct listing *listing, uint64_t *ret)
{
	const cs_detail *detail = listing->insn->detail;

	if (!is_branch(detail))
		return false;
	if (listing->machine == EM_X86_64) {
		const cs_x86 *x86 = &detail->x86;

		if (!x86->op_count || x86->operands[x86->op_count - 1].type != X86_OP_IMM)
			return false;
		*ret = x86->operands[x86->op_count - 1].imm;
		return true;
	}

	const cs_arm64 *arm64 = &detail->arm64;

	if (!arm64->op_count || arm64->operands[arm64->op_count - 1].type != ARM64_OP_IMM)
		return false;
	*ret = arm64->operands[arm64->op_count - 1].imm;
	return true;
}

static void keep_words(struct body *body, const char *mnemonic, const char *operands,
		       size_t operands_len, struct decoded *ret)
{
	ret->words = body->words.len;
	ret->mnemonic = strlen(mnemonic);
	ret->operands = operands_len;
	text_append(&body->words, mnemonic, ret->mnemonic);
	text_append(&body->words, operands, ret->operands);
}

/* Decodes what is at an offset. */
static void decode_row(const struct listing *listing, struct body *body, size_t offset,
		       struct decoded *ret)
{
	const uint8_t *code = body->code + offset;
	size_t left = body->func->len - offset;
	uint64_t addr = body->func->addr + offset;
	const cs_insn *insn = listing->insn;

	*ret = (struct decoded){};
	if (capstone.cs_disasm_iter(listing->disassembler, &code, &left, &addr, listing->insn)) {
		size_t operands = strlen(insn->op_str);

		ret->size = insn->size;
		ret->has_target = branch_target(listing, &ret->target);
		if (ret->has_target) {
			const char *comma = strrchr(insn->op_str, ',');

			operands = comma ? (size_t)(comma - insn->op_str) + 1 : 0;
		}
		keep_words(body, insn->mnemonic, insn->op_str, operands, ret);
		return;
	}

	char bytes[4 * sizeof("0x00, ")] = "";
	size_t len = 0;

	ret->size = MIN(left, (size_t)listing->unit);
	for (size_t i = 0; i < ret->size; i++)
		len += snprintf(bytes + len, sizeof(bytes) - len, "%s0x%02x", i ? ", " : "",
				body->code[offset + i]);
	keep_words(body, ".byte", bytes, len, ret);
}

static bool is_inside(const struct prog_func *func, uint64_t addr)
{
	return addr - func->addr < func->len;
}

/* Decodes a whole function, so that its jumps know what has a label. */
static void decode(const struct listing *listing, struct body *body)
{
	const struct prog_func *func = body->func;

	for (size_t offset = 0; offset < func->len;) {
		struct decoded *row = &body->rows[body->count++];

		decode_row(listing, body, offset, row);
		body->at[offset] |= AT_INSN;
		if (row->has_target && is_inside(func, row->target))
			body->at[row->target - func->addr] |= AT_LABEL;
		offset += row->size;
	}
}

static bool has_label(const struct body *body, uint64_t addr)
{
	return is_inside(body->func, addr) &&
	       body->at[addr - body->func->addr] == (AT_INSN | AT_LABEL);
}

/* Writes where a branch leads: a label, a function of this program, or something else's name. */
static void write_target(const struct listing *listing, const struct body *body, uint64_t target)
{
	const struct prog *prog = listing->prog;
	struct text *text = listing->text;

	if (has_label(body, target)) {
		text_printf(text, "L%" PRIx64, target - body->func->addr);
		return;
	}
	for (size_t i = 0; i < prog->func_count; i++) {
		const struct prog_func *func = &prog->funcs[i];

		if (!is_inside(func, target))
			continue;
		text_escape(text, func->symbol, strlen(func->symbol));
		if (target != func->addr)
			text_printf(text, "+0x%" PRIx64, target - func->addr);
		return;
	}
	if (!listing->names || !listing->names->address ||
	    !listing->names->address(listing->names->arg, target, text))
		text_printf(text, "0x%" PRIx64, target);
}

static void write_pad(struct text *text, size_t count)
{
	static const char blanks[] = "                                ";

	text_append(text, blanks, MIN(count, sizeof(blanks) - 1));
}

static void write_row(const struct listing *listing, const struct body *body, size_t offset,
		      const struct decoded *row)
{
	struct text *text = listing->text;
	const char *words = body->words.data + row->words;

	text_hex16(text, body->func->addr + offset);
	text_putc(text, ':');
	for (size_t i = 0; i < row->size; i++) {
		text_putc(text, ' ');
		text_hexdump(text, body->code + offset + i, 1);
	}
	write_pad(text, row->size < listing->width ? 3 * (listing->width - row->size) + 2 : 2);
	text_append(text, words, row->mnemonic);
	if (row->operands || row->has_target)
		write_pad(text, row->mnemonic < 7 ? 8 - row->mnemonic : 1);
	text_append(text, words + row->mnemonic, row->operands);
	if (row->has_target) {
		if (row->operands)
			text_putc(text, ' ');
		write_target(listing, body, row->target);
	}
	text_putc(text, '\n');
}

static void write_body(const struct listing *listing, const struct body *body)
{
	const struct prog_func *func = body->func;
	const struct lineinfo *lines = listing->lines;
	size_t line = lines ? lineinfo_count_below(lines, func->addr) : 0, offset = 0;
	struct text *text = listing->text;

	text_escape(text, func->symbol, strlen(func->symbol));
	text_puts(text, ":\n");
	for (size_t i = 0; i < body->count && !text->failed; i++) {
		const struct line *here = NULL;

		if (has_label(body, func->addr + offset))
			text_printf(text, "L%zx:\n", offset);
		/* Of those that share an address the last one has the code. */
		for (; lines && line < lines->addr_count &&
		       lines->by_addr[line]->addr <= func->addr + offset;
		     line++)
			here = lines->by_addr[line];
		if (here) {
			text_puts(text, "; ");
			line_write(here, text);
			text_putc(text, '\n');
		}
		write_row(listing, body, offset, &body->rows[i]);
		offset += body->rows[i].size;
	}
}

static void body_deinit(struct body *body)
{
	free(body->at);
	free(body->rows);
	text_deinit(&body->words);
}

static int write_func(const struct listing *listing, const struct prog_func *func,
		      const uint8_t *code)
{
	CLEANUP(body_deinit)
	struct body body = {
		.func = func,
		.code = code,
		.at = calloc(func->len, 1),
		.rows = calloc(func->len / listing->unit + 1, sizeof(*body.rows)),
	};

	if (!body.at || !body.rows)
		return -ENOMEM;
	decode(listing, &body);
	if (body.words.failed)
		return -ENOMEM;
	write_body(listing, &body);
	return listing->text->failed ? -ENOMEM : 0;
}

int asm_write(const struct prog *prog, const struct lineinfo *lines, const struct code_names *names,
	      uint16_t machine, struct text *text)
{
	CLEANUP(listing_deinit)
	struct listing listing = {
		.prog = prog,
		.lines = lines,
		.names = names,
		.text = text,
		.machine = machine,
	};
	size_t offset = 0;

	if (!prog->jited || !prog->jited->len || !prog->func_count)
		return -ENODATA;

	int r = open_disassembler(&listing);

	for (size_t i = 0; i < prog->func_count && r == 0; i++) {
		const struct prog_func *func = &prog->funcs[i];

		if (func->len > prog->jited->len - offset)
			break;
		if (!func->len)
			continue;
		if (offset)
			text_putc(text, '\n');
		r = write_func(&listing, func, (const uint8_t *)prog->jited->data + offset);
		offset += func->len;
	}
	return r;
}

#endif
