/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arguments of USDT notes, one after the other, and the two ways to write them: see usdt_args.h. */
#include "core/usdt_args.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "core/usdt_operand.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Up to the next blank that is in no bracket: operands such as [x21, 16] hold some. */
static size_t token_end(const char *text, size_t len, size_t pos)
{
	size_t depth = 0;

	for (; pos < len; pos++) {
		char c = text[pos];

		if (c == '(' || c == '[')
			depth++;
		else if ((c == ')' || c == ']') && depth)
			depth--;
		else if (is_blank(c) && !depth)
			break;
	}
	return pos;
}

static bool size_possible(unsigned int size)
{
	/* 10, 12 and 16: long double and __int128. */
	static const unsigned char sizes[] = {1, 2, 4, 8, 10, 12, 16};

	return memchr(sizes, size, sizeof(sizes)) != NULL;
}

/*
 * [-]N[f]@, moving the span past it. An operand can hold an @ of its own (sym@toc@l), so what is
 * not this prefix, digits first, is left alone: there is none then. False: a size that is none.
 */
static bool take_prefix(struct span *span, struct usdt_arg *ret)
{
	const char *at = span->at;
	bool negative = at < span->end && *at == '-';
	unsigned int size = 0;

	at += negative;
	const char *digits = at;

	while (at < span->end && *at >= '0' && *at <= '9' && at - digits < 3)
		size = size * 10 + (*at++ - '0');
	bool is_float = at > digits && at < span->end && *at == 'f';

	at += is_float;
	if (at == digits || at == span->end || *at != '@')
		return true;
	if (!size_possible(size))
		return false;
	ret->size = size;
	ret->is_signed = negative;
	ret->is_float = is_float;
	span->at = at + 1;
	return true;
}

static uint64_t cut(uint64_t value, unsigned int size, bool is_signed)
{
	if (size == 0 || size >= 8)
		return value;
	unsigned int shift = 64 - size * 8;

	value <<= shift;
	return is_signed ? (uint64_t)((int64_t)value >> shift) : value >> shift;
}

bool usdt_args_next(uint16_t machine, const char *text, size_t len, size_t *pos,
		    struct usdt_arg *ret)
{
	while (*pos < len && is_blank(text[*pos]))
		(*pos)++;
	if (*pos >= len)
		return false;
	size_t end = token_end(text, len, *pos);
	struct span span = {text + *pos, text + end};
	struct usdt_arg arg = {.text = span.at, .text_len = end - *pos};

	*pos = end;
	*ret = arg;
	if (!take_prefix(&span, &arg))
		return true;
	/* What a parser left behind in arg before it gave up is of no use to anybody. */
	if (!usdt_operand_parse(machine, span, &arg))
		return true;
	arg.constant = cut(arg.constant, arg.size, arg.is_signed);
	*ret = arg;
	return true;
}

bool usdt_args_valid(uint16_t machine, const char *text, size_t len)
{
	struct usdt_arg arg;

	for (size_t pos = 0; usdt_args_next(machine, text, len, &pos, &arg);)
		if (arg.kind == USDT_ARG_UNPARSED)
			return false;
	return true;
}

static void describe_memory(const struct usdt_arg *arg, struct text *text)
{
	if (arg->segment.name[0])
		text_printf(text, " segment=%s", arg->segment.name);
	if (arg->symbol) {
		text_puts(text, " symbol=");
		text_escape(text, arg->symbol, arg->symbol_len);
	}
	if (arg->base.name[0])
		text_printf(text, " base=%s", arg->base.name);
	if (arg->index.name[0])
		text_printf(text, " index=%s", arg->index.name);
	if (arg->index_extend[0])
		text_printf(text, " extend=%s", arg->index_extend);
	if (arg->index.name[0])
		text_printf(text, " scale=%u", 1u << arg->index_shift);
	text_printf(text, " displacement=%" PRId64, arg->displacement);
}

void usdt_arg_describe(const struct usdt_arg *arg, struct text *text)
{
	if (arg->kind == USDT_ARG_UNPARSED) {
		text_puts(text, "unparsed=");
		text_escape(text, arg->text, arg->text_len);
		return;
	}
	if (arg->size)
		text_printf(text, "size=%u %s", arg->size,
			    arg->is_float    ? "float"
			    : arg->is_signed ? "signed"
					     : "unsigned");
	else
		text_puts(text, "size=-");
	switch (arg->kind) {
	case USDT_ARG_CONSTANT:
		if (arg->is_signed)
			text_printf(text, " constant=%" PRId64, (int64_t)arg->constant);
		else
			text_printf(text, " constant=%" PRIu64, arg->constant);
		break;
	case USDT_ARG_REGISTER:
		text_printf(text, " register=%s", arg->reg.name);
		if (arg->reg.high_byte)
			text_puts(text, " byte=1");
		break;
	default:
		text_puts(text, arg->kind == USDT_ARG_ADDRESS ? " address" : " memory");
		describe_memory(arg, text);
	}
}

bool usdt_machine_native(uint16_t machine)
{
#if defined(__x86_64__)
	return machine == EM_X86_64 || machine == EM_386;
#elif defined(__i386__)
	return machine == EM_386;
#elif defined(__aarch64__)
	return machine == EM_AARCH64;
#elif defined(__arm__)
	return machine == EM_ARM;
#elif defined(__s390x__)
	return machine == EM_S390;
#elif defined(__powerpc64__)
	return machine == EM_PPC64;
#elif defined(__riscv)
	return machine == EM_RISCV;
#else
	return false;
#endif
}

/* `%ah` is bits 8 to 15 of `%ax`: a bit field, which tracefs has for unsigned ones only. */
static bool fetch_register(const struct usdt_arg *arg, const char *type, struct text *text)
{
	if (!arg->reg.in_pt_regs)
		return false;
	if (!arg->reg.high_byte) {
		text_printf(text, "%%%s%s", arg->reg.name, type);
		return true;
	}
	if (arg->is_signed || arg->size > 1)
		return false;
	text_printf(text, "%%%s:b8@8/16", arg->reg.name);
	return true;
}

static bool fetch_memory(const struct usdt_arg *arg, const char *type, struct text *text)
{
	bool based = arg->base.name[0];

	/* Relative to the program counter means to a label's, which only a symbol table has. */
	if (!arg->size || arg->segment.name[0] || arg->index.name[0] || arg->symbol ||
	    (based && (!arg->base.in_pt_regs || strcmp(arg->base.name, "ip") == 0 ||
		       strcmp(arg->base.name, "pc") == 0)))
		return false;
	if (based)
		text_printf(text, "%+" PRId64 "(%%%s)%s", arg->displacement, arg->base.name, type);
	else
		text_printf(text, "@0x%" PRIx64 "%s", (uint64_t)arg->displacement, type);
	return true;
}

bool usdt_arg_fetch(const struct usdt_arg *arg, struct text *text)
{
	char type[8] = "";

	if (arg->size > 8)
		return false;
	/* tracefs has no floats: their bits, in hex. */
	if (arg->size)
		snprintf(type, sizeof(type), ":%c%u",
			 arg->is_float	  ? 'x'
			 : arg->is_signed ? 's'
					  : 'u',
			 arg->size * 8u);
	switch (arg->kind) {
	case USDT_ARG_CONSTANT:
		if (arg->is_signed)
			text_printf(text, "\\%" PRId64 "%s", (int64_t)arg->constant, type);
		else
			text_printf(text, "\\%" PRIu64 "%s", arg->constant, type);
		return true;
	case USDT_ARG_REGISTER:
		return fetch_register(arg, type, text);
	case USDT_ARG_MEMORY:
		return fetch_memory(arg, type, text);
	default:
		return false;
	}
}
