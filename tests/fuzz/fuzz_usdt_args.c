/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An argument string through the decoder, for every machine: the first byte says which. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/usdt_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t machines[] = {EM_X86_64, EM_386,	 EM_AARCH64, EM_ARM,
					    EM_S390,   EM_PPC64, EM_RISCV,   EM_NONE};
	struct text text = {};
	struct usdt_arg arg;
	bool valid = true;

	if (!size)
		return 0;
	uint16_t machine = machines[data[0] % ARRAY_SIZE(machines)];
	const char *args = (const char *)data + 1;
	size_t len = size - 1, pos = 0;

	for (size_t before = 0; usdt_args_next(machine, args, len, &pos, &arg); before = pos) {
		/* It moves on, and stays inside. */
		if (pos <= before || pos > len || !arg.text_len || arg.text < args ||
		    arg.text + arg.text_len > args + len)
			abort();
		if (arg.kind != USDT_ARG_UNPARSED && arg.symbol &&
		    (arg.symbol < arg.text ||
		     arg.symbol + arg.symbol_len > arg.text + arg.text_len))
			abort();
		usdt_arg_describe(&arg, &text);
		size_t described = text.len;

		if (!usdt_arg_fetch(&arg, &text) && text.len != described)
			abort();
		valid &= arg.kind != USDT_ARG_UNPARSED;
	}
	if (valid != usdt_args_valid(machine, args, len))
		abort();
	text_deinit(&text);
	return 0;
}
