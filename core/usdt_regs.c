/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Register names of the machines, as assemblers write them, to names as the kernel has them in
 * regs_query_register_offset() (arch/.../kernel/ptrace.c).
 */
#include <elf.h>
#include <string.h>

#include "core/usdt_operand.h"

static bool name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A number without leading zeros, up to max, that the word ends with; -1 for anything else. */
static int word_number(const char *word, int max)
{
	int value = 0;

	if (!*word || (word[0] == '0' && word[1]))
		return -1;
	for (; *word; word++) {
		if (*word < '0' || *word > '9')
			return -1;
		value = value * 10 + (*word - '0');
		if (value > max)
			return -1;
	}
	return value;
}

static bool set_reg(struct usdt_reg *ret, const char *name)
{
	*ret = (struct usdt_reg){.in_pt_regs = true};
	strcpy(ret->name, name);
	return true;
}

static bool set_numbered(struct usdt_reg *ret, const char *prefix, int number)
{
	*ret = (struct usdt_reg){.in_pt_regs = true};
	snprintf(ret->name, sizeof(ret->name), "%s%d", prefix, number);
	return true;
}

/* A register of no use to tracers, under the name that it has. */
static bool set_other(struct usdt_reg *ret, const char *word)
{
	*ret = (struct usdt_reg){};
	if (strlen(word) >= sizeof(ret->name))
		return false;
	strcpy(ret->name, word);
	return true;
}

/* PREFIX and a number up to max? */
static bool numbered(const char *word, const char *prefix, int max, int *ret)
{
	size_t len = strlen(prefix);

	if (strncmp(word, prefix, len) != 0)
		return false;
	*ret = word_number(word + len, max);
	return *ret >= 0;
}

/* r8 to r15 with the letter of their width. */
static bool x86_numbered(const char *word, struct usdt_reg *ret)
{
	char digits[3] = {};
	size_t len = 0;

	if (word[0] != 'r')
		return false;
	while (len < 2 && word[1 + len] >= '0' && word[1 + len] <= '9') {
		digits[len] = word[1 + len];
		len++;
	}
	int number = word_number(digits, 15);
	const char *width = word + 1 + len;

	if (number < 8)
		return false;
	if (*width && (width[1] || !strchr("dwbl", *width)))
		return false;
	return set_numbered(ret, "r", number);
}

static bool x86_reg(uint16_t machine, const char *word, struct usdt_reg *ret)
{
	static const char *const wide[] = {"ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip"};
	static const char *const others[] = {"cs", "ds", "es", "fs", "gs", "ss"};
	static const char *const vectors[] = {"xmm", "ymm", "zmm", "mm"};
	bool is64 = machine == EM_X86_64;
	size_t len = strlen(word);
	int number;

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
		if (len == 3 && strcmp(word + 1, wide[i]) == 0 &&
		    (word[0] == 'e' || (word[0] == 'r' && is64)))
			return set_reg(ret, wide[i]);
		if (strcmp(word, wide[i]) == 0)
			return set_reg(ret, wide[i]);
		/* sil, dil, bpl, spl */
		if (is64 && i >= 4 && i < 8 && len == 3 && strncmp(word, wide[i], 2) == 0 &&
		    word[2] == 'l')
			return set_reg(ret, wide[i]);
	}
	if (len == 2 && strchr("abcd", word[0]) && (word[1] == 'l' || word[1] == 'h')) {
		set_reg(ret, wide[word[0] - 'a']);
		ret->high_byte = word[1] == 'h';
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(word, others[i]) == 0)
			return set_other(ret, word);
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
		if (numbered(word, vectors[i], 31, &number))
			return set_other(ret, word);
	return is64 && x86_numbered(word, ret);
}

static bool arm64_reg(const char *word, struct usdt_reg *ret)
{
	static const char *const vectors[] = {"v", "q", "d", "s", "h", "b"};
	int number;

	if (numbered(word, "x", 30, &number) || numbered(word, "w", 30, &number))
		return set_numbered(ret, "x", number);
	if (strcmp(word, "sp") == 0 || strcmp(word, "wsp") == 0)
		return set_reg(ret, "sp");
	if (strcmp(word, "fp") == 0)
		return set_reg(ret, "x29");
	if (strcmp(word, "lr") == 0)
		return set_reg(ret, "x30");
	if (strcmp(word, "xzr") == 0 || strcmp(word, "wzr") == 0)
		return set_other(ret, word);
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
		if (numbered(word, vectors[i], 31, &number))
			return set_other(ret, word);
	return false;
}

static bool arm_reg(const char *word, struct usdt_reg *ret)
{
	static const char *const names[] = {"r0", "r1", "r2",  "r3", "r4", "r5", "r6", "r7",
					    "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc"};
	static const char *const vectors[] = {"s", "d", "q"};
	int number;

	if (numbered(word, "r", 15, &number))
		return set_reg(ret, names[number]);
	for (int i = 11; i < 16; i++)
		if (strcmp(word, names[i]) == 0)
			return set_reg(ret, names[i]);
	if (strcmp(word, "sl") == 0)
		return set_reg(ret, "r10");
	if (strcmp(word, "sb") == 0)
		return set_reg(ret, "r9");
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
		if (numbered(word, vectors[i], 31, &number))
			return set_other(ret, word);
	return false;
}

static bool s390_reg(const char *word, struct usdt_reg *ret)
{
	int number;

	if (numbered(word, "r", 15, &number))
		return set_numbered(ret, "r", number);
	return (numbered(word, "f", 15, &number) || numbered(word, "v", 31, &number)) &&
	       set_other(ret, word);
}

static bool ppc_reg(const char *word, struct usdt_reg *ret)
{
	int number;

	/* Without -mregnames a register is a bare number. */
	if (numbered(word, "", 31, &number) || numbered(word, "r", 31, &number))
		return set_numbered(ret, "gpr", number);
	return (numbered(word, "f", 31, &number) || numbered(word, "vs", 63, &number) ||
		numbered(word, "v", 31, &number)) &&
	       set_other(ret, word);
}

static bool riscv_reg(const char *word, struct usdt_reg *ret)
{
	static const char *const names[] = {
		"zero", "ra", "sp", "gp", "tp",	 "t0",	"t1", "t2", "s0", "s1", "a0",
		"a1",	"a2", "a3", "a4", "a5",	 "a6",	"a7", "s2", "s3", "s4", "s5",
		"s6",	"s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
	};
	int number;

	if (strcmp(word, "zero") == 0 || strcmp(word, "x0") == 0)
		return set_other(ret, "zero");
	if (strcmp(word, "fp") == 0)
		return set_reg(ret, "s0");
	if (numbered(word, "x", 31, &number))
		return set_reg(ret, names[number]);
	for (size_t i = 1; i < ARRAY_SIZE(names); i++)
		if (strcmp(word, names[i]) == 0)
			return set_reg(ret, names[i]);
	return (numbered(word, "f", 31, &number) || numbered(word, "fa", 7, &number) ||
		numbered(word, "fs", 11, &number) || numbered(word, "ft", 11, &number)) &&
	       set_other(ret, word);
}

bool usdt_reg_take(uint16_t machine, struct span *span, struct usdt_reg *ret)
{
	char word[8] = {};
	size_t len = 0;

	while (span->at + len < span->end && name_char(span->at[len])) {
		if (len == sizeof(word) - 1)
			return false;
		word[len] = span->at[len];
		len++;
	}
	bool known = false;

	switch (machine) {
	case EM_X86_64:
	case EM_386:
		known = x86_reg(machine, word, ret);
		break;
	case EM_AARCH64:
		known = arm64_reg(word, ret);
		break;
	case EM_ARM:
		known = arm_reg(word, ret);
		break;
	case EM_S390:
		known = s390_reg(word, ret);
		break;
	case EM_PPC64:
		known = ppc_reg(word, ret);
		break;
	case EM_RISCV:
		known = riscv_reg(word, ret);
		break;
	}
	if (known)
		span->at += len;
	return known;
}
