/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the argument string of a USDT note means: `-4@%edi 8@-16(%rbp)` as typed records, by the
 * machine that the ELF object is for and not ours.
 *
 * An argument is `[-]N[f]@OPERAND`: N its size in bytes, negative if it is signed, with an `f` if
 * it is a float; the prefix may be missing. The operand is what the compiler put into the assembly,
 * so its grammar is the assembler's. What is not understood is USDT_ARG_UNPARSED and never guessed
 * at. Pure: no allocation, nothing read.
 */
#ifndef CORE_USDT_ARGS_H
#define CORE_USDT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"

enum usdt_arg_kind {
	USDT_ARG_UNPARSED,
	USDT_ARG_CONSTANT,
	USDT_ARG_REGISTER,
	USDT_ARG_MEMORY,
	USDT_ARG_ADDRESS, /* displacement+symbol itself: a constant that only a linker knows */
};

struct usdt_reg {
	/* As the kernel's regs_query_register_offset() has it: `di` for %edi. Empty: none. */
	char name[16];
	bool in_pt_regs; /* not a vector or a float register */
	bool high_byte;	 /* %ah to %dh: bits 8 to 15 */
};

struct usdt_arg {
	enum usdt_arg_kind kind;
	/* The whole argument as it is in the note. */
	const char *text;
	size_t text_len;
	uint8_t size; /* bytes; 0: not given */
	bool is_signed, is_float;

	uint64_t constant; /* cut to size; if signed, sign-extended from it */
	struct usdt_reg reg;

	/* segment:displacement+symbol(base, index << shift) */
	struct usdt_reg segment, base, index;
	char index_extend[8]; /* arm64: `lsl`, `sxtw`, ... if written */
	uint8_t index_shift;
	int64_t displacement;
	/* With what the assembler wrote behind an @; not NUL-terminated. NULL: none. */
	const char *symbol;
	size_t symbol_len;
};

/*
 * Takes the next argument of text[*pos..len), a NUL-less string, and moves *pos past it. False:
 * there is none.
 */
bool usdt_args_next(uint16_t machine, const char *text, size_t len, size_t *pos,
		    struct usdt_arg *ret);

/* True if each argument of the string parses. */
bool usdt_args_valid(uint16_t machine, const char *text, size_t len);

/* The record as the tree shows it: `size=4 signed register=di`. */
void usdt_arg_describe(const struct usdt_arg *arg, struct text *text);

/* Can the kernel that we run on have a process of this machine's code with a uprobe in it? */
bool usdt_machine_native(uint16_t machine);

/*
 * The argument in the language of tracefs' uprobe_events, such as `%di:s32`. False, with nothing
 * written, for what it cannot express.
 */
bool usdt_arg_fetch(const struct usdt_arg *arg, struct text *text);

#endif
