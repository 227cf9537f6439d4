/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operands that compilers put into notes, by machine:
 *
 *	x86	$42  $sym+4  %rdi  8(%rsp)  (%rsi,%rdx,4)  40+sym(%rip)  %fs:sym@tpoff
 *	arm64	42   x1    [x21, 16]  [x21, #:lo12:sym]  [x1, w2, sxtw 3]
 *	arm	#42  r1    [sp, #8]   sym+4
 *	s390x	42   %r2   162(%r15)  8(%r1,%r2)
 *	ppc64	i42  3     0(10)      sym@toc@l(2)  3,4
 *	riscv	42   a1    -88(s0)    %lo(sym)(a5)
 *
 * A displacement is a sum of numbers and at most one symbol.
 */
#include <elf.h>
#include <string.h>

#include "core/usdt_operand.h"

static bool at_end(const struct span *span)
{
	return span->at == span->end;
}

static bool take(struct span *span, char c)
{
	if (at_end(span) || *span->at != c)
		return false;
	span->at++;
	return true;
}

static bool take_word(struct span *span, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(span->end - span->at) < len || memcmp(span->at, word, len) != 0)
		return false;
	span->at += len;
	return true;
}

static void skip_blanks(struct span *span)
{
	while (!at_end(span) && (*span->at == ' ' || *span->at == '\t'))
		span->at++;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* An unsigned number, decimal or 0x. False without moving for anything else or too large a one. */
static bool take_number(struct span *span, uint64_t *ret)
{
	const char *at = span->at;
	unsigned int base = 10;
	uint64_t value = 0;

	if (span->end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
		base = 16;
		at += 2;
	}
	const char *start = at;

	for (; at < span->end; at++) {
		unsigned int digit;

		if (is_digit(*at))
			digit = *at - '0';
		else if (base == 16 && (*at | 0x20) >= 'a' && (*at | 0x20) <= 'f')
			digit = (*at | 0x20) - 'a' + 10;
		else
			break;
		if (value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	if (at == start)
		return false;
	span->at = at;
	*ret = value;
	return true;
}

/* The rest, all of it, as a constant. The assembler may print an unsigned one as negative. */
static bool parse_constant(struct span span, struct usdt_arg *ret)
{
	bool negative = take(&span, '-');
	uint64_t value;

	if (!negative)
		take(&span, '+');
	if (!take_number(&span, &value) || !at_end(&span))
		return false;
	if (negative && value > UINT64_C(1) << 63)
		return false;
	ret->kind = USDT_ARG_CONSTANT;
	ret->constant = negative ? -value : value;
	return true;
}

static bool symbol_char(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' ||
	       c == '$' || (c & 0x80);
}

/* A name, and what the assembler adds behind an @: sym, .LC0@toc@l. */
static bool take_symbol(struct span *span, struct usdt_arg *ret)
{
	const char *start = span->at;

	if (ret->symbol || at_end(span) || !symbol_char(*start) || is_digit(*start))
		return false;
	while (!at_end(span) && (symbol_char(*span->at) || *span->at == '@'))
		span->at++;
	ret->symbol = start;
	ret->symbol_len = span->at - start;
	return true;
}

/* [-]TERM{(+|-)TERM}. A symbol is never subtracted. */
static bool take_displacement(struct span *span, struct usdt_arg *ret)
{
	bool negative = take(span, '-');

	if (!negative)
		take(span, '+');
	for (;;) {
		uint64_t value;

		if (take_number(span, &value)) {
			if (value > INT64_MAX)
				return false;
			if (negative ? __builtin_sub_overflow(ret->displacement, (int64_t)value,
							      &ret->displacement)
				     : __builtin_add_overflow(ret->displacement, (int64_t)value,
							      &ret->displacement))
				return false;
		} else if (negative || !take_symbol(span, ret)) {
			return false;
		}
		negative = take(span, '-');
		if (!negative && !take(span, '+'))
			return true;
	}
}

/* The rest, all of it, as the address of a symbol: an immediate of code at a fixed place. */
static bool parse_address(struct span span, struct usdt_arg *ret)
{
	ret->kind = USDT_ARG_ADDRESS;
	return take_displacement(&span, ret) && at_end(&span) && ret->symbol;
}

/* A register that is the whole rest. */
static bool parse_register(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (!usdt_reg_take(machine, &span, &ret->reg) || !at_end(&span))
		return false;
	ret->kind = USDT_ARG_REGISTER;
	return true;
}

static bool take_percent_reg(uint16_t machine, struct span *span, struct usdt_reg *ret)
{
	return take(span, '%') && usdt_reg_take(machine, span, ret);
}

/* ([%base][,%index[,scale]]) */
static bool x86_address(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	uint64_t scale = 1;

	take_percent_reg(machine, &span, &ret->base);
	skip_blanks(&span);
	if (take(&span, ',')) {
		skip_blanks(&span);
		if (!take_percent_reg(machine, &span, &ret->index))
			return false;
		skip_blanks(&span);
		if (take(&span, ',')) {
			skip_blanks(&span);
			if (!take_number(&span, &scale))
				return false;
			skip_blanks(&span);
		}
	}
	if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
		return false;
	ret->index_shift = __builtin_ctz(scale);
	return take(&span, ')') && at_end(&span) && (ret->base.name[0] || ret->index.name[0]);
}

static bool x86_operand(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (take(&span, '$'))
		return parse_constant(span, ret) || parse_address(span, ret);
	if (take(&span, '%')) {
		if (parse_register(machine, span, ret))
			return true;
		if (!usdt_reg_take(machine, &span, &ret->segment) || !take(&span, ':'))
			return false;
	}
	ret->kind = USDT_ARG_MEMORY;
	bool displaced = !at_end(&span) && *span.at != '(';

	if (displaced && !take_displacement(&span, ret))
		return false;
	if (take(&span, '('))
		return x86_address(machine, span, ret);
	return displaced && at_end(&span);
}

/* The index of [base, index{, lsl 3}]: how it is widened and shifted. */
static bool arm_index(uint16_t machine, struct span *span, struct usdt_arg *ret)
{
	static const char *const extends[] = {"lsl", "uxtw", "sxtw", "sxtx", "uxtx"};
	uint64_t shift;

	skip_blanks(span);
	if (!take(span, ','))
		return true;
	skip_blanks(span);
	for (size_t i = 0; i < ARRAY_SIZE(extends); i++) {
		if (!take_word(span, extends[i]))
			continue;
		strcpy(ret->index_extend, extends[i]);
		skip_blanks(span);
		bool marked = take(span, '#');

		if (!take_number(span, &shift))
			return !marked && i > 0;
		if (shift > 31)
			return false;
		ret->index_shift = shift;
		return true;
	}
	return false;
}

/* [base], [base, displacement], [base, index...] */
static bool arm_address(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	ret->kind = USDT_ARG_MEMORY;
	skip_blanks(&span);
	if (!usdt_reg_take(machine, &span, &ret->base))
		return false;
	skip_blanks(&span);
	if (take(&span, ',')) {
		skip_blanks(&span);
		bool marked = take(&span, '#');

		if (!marked && usdt_reg_take(machine, &span, &ret->index)) {
			if (!arm_index(machine, &span, ret))
				return false;
		} else {
			take_word(&span, ":lo12:");
			if (!take_displacement(&span, ret))
				return false;
		}
		skip_blanks(&span);
	}
	return take(&span, ']') && at_end(&span);
}

static bool arm_operand(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (take(&span, '['))
		return arm_address(machine, span, ret);
	if (take(&span, '#'))
		return parse_constant(span, ret);
	if (parse_constant(span, ret) || parse_register(machine, span, ret))
		return true;
	ret->kind = USDT_ARG_MEMORY;
	return machine == EM_ARM && take_displacement(&span, ret) && at_end(&span);
}

/* displacement(index,base), as the manual of that machine writes it, or displacement(base) */
static bool s390_operand(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (parse_constant(span, ret))
		return true;
	if (take(&span, '%'))
		return parse_register(machine, span, ret);
	ret->kind = USDT_ARG_MEMORY;
	if (!at_end(&span) && *span.at != '(' && !take_displacement(&span, ret))
		return false;
	if (at_end(&span))
		return ret->symbol != NULL;
	if (!take(&span, '(') || !take_percent_reg(machine, &span, &ret->base))
		return false;
	if (take(&span, ',')) {
		ret->index = ret->base;
		if (!take_percent_reg(machine, &span, &ret->base))
			return false;
	}
	return take(&span, ')') && at_end(&span);
}

static bool ppc_operand(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (take(&span, 'i'))
		return parse_constant(span, ret);
	struct span reg = span;

	take(&reg, '%');
	if (parse_register(machine, reg, ret))
		return true;
	ret->kind = USDT_ARG_MEMORY;
	if (usdt_reg_take(machine, &reg, &ret->base) && take(&reg, ','))
		return usdt_reg_take(machine, &reg, &ret->index) && at_end(&reg);
	if (!at_end(&span) && *span.at != '(' && !take_displacement(&span, ret))
		return false;
	if (at_end(&span))
		return ret->symbol != NULL;
	if (!take(&span, '('))
		return false;
	take(&span, '%');
	return usdt_reg_take(machine, &span, &ret->base) && take(&span, ')') && at_end(&span);
}

static bool riscv_operand(uint16_t machine, struct span span, struct usdt_arg *ret)
{
	if (parse_constant(span, ret) || parse_register(machine, span, ret))
		return true;
	ret->kind = USDT_ARG_MEMORY;
	if (take_word(&span, "%lo(")) {
		if (!take_displacement(&span, ret) || !take(&span, ')'))
			return false;
	} else if (!at_end(&span) && *span.at != '(' && !take_displacement(&span, ret)) {
		return false;
	}
	if (at_end(&span))
		return ret->symbol != NULL;
	return take(&span, '(') && usdt_reg_take(machine, &span, &ret->base) && take(&span, ')') &&
	       at_end(&span);
}

bool usdt_operand_parse(uint16_t machine, struct span operand, struct usdt_arg *ret)
{
	switch (machine) {
	case EM_X86_64:
	case EM_386:
		return x86_operand(machine, operand, ret);
	case EM_AARCH64:
	case EM_ARM:
		return arm_operand(machine, operand, ret);
	case EM_S390:
		return s390_operand(machine, operand, ret);
	case EM_PPC64:
		return ppc_operand(machine, operand, ret);
	case EM_RISCV:
		return riscv_operand(machine, operand, ret);
	}
	return false;
}
