/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The assemblers' operands, a grammar a machine: the inner half of usdt_args.c. Each parser takes
 * the bytes behind the size prefix, all of them, or says false.
 */
#ifndef CORE_USDT_OPERAND_H
#define CORE_USDT_OPERAND_H

#include "core/usdt_args.h"

/* What is left of an operand. */
struct span {
	const char *at, *end;
};

/* Fills kind and what belongs to it. ret->constant is not yet cut to size. */
bool usdt_operand_parse(uint16_t machine, struct span operand, struct usdt_arg *ret);

/*
 * Takes the longest register name at the front of span, without its `%`. False: none, and the span
 * is not moved.
 */
bool usdt_reg_take(uint16_t machine, struct span *span, struct usdt_reg *ret);

#endif
