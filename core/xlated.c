/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes translated instructions as text: see xlated.h. */
#include "core/xlated.h"

#include <errno.h>
#include <string.h>

/* What is newer than the headers this may be built with. */
#define MODE_MEMSX	    0x80 /* 6.6: a load that extends the sign */
#define MODE_PROBE_MEM	    0x20 /* not in the uapi: loads that may fault, */
#define MODE_PROBE_MEMSX    0x40
#define MODE_PROBE_MEM32    0xa0 /* and those into an arena; older kernels let them be seen */
#define MODE_PROBE_MEM32SX  0xc0
#define MODE_PROBE_ATOMIC   0xe0
#define MODE_NOSPEC	    0xc0  /* BPF_ST: a barrier against speculation */
#define OP_JCOND	    0xe0  /* 6.9: may_goto */
#define ATOMIC_LOAD_ACQ	    0x100 /* 6.15 */
#define ATOMIC_STORE_REL    0x110
#define OFF_ADDR_SPACE_CAST 1 /* of a 64-bit register move, 6.9 */
#define OFF_ADDR_PERCPU	    (-1)
#define PSEUDO_KFUNC_CALL   2
#define PSEUDO_FUNC	    4

#define HELPER_NAME(name) [BPF_FUNC_##name] = "bpf_" #name
static const char *const helper_names[] = {__BPF_FUNC_MAPPER(HELPER_NAME)};

static const char *const alu_ops[16] = {
	[BPF_ADD >> 4] = "+=",	[BPF_SUB >> 4] = "-=",	[BPF_MUL >> 4] = "*=",
	[BPF_DIV >> 4] = "/=",	[BPF_OR >> 4] = "|=",	[BPF_AND >> 4] = "&=",
	[BPF_LSH >> 4] = "<<=", [BPF_RSH >> 4] = ">>=", [BPF_MOD >> 4] = "%=",
	[BPF_XOR >> 4] = "^=",	[BPF_MOV >> 4] = "=",	[BPF_ARSH >> 4] = "s>>=",
};

static const char *const jump_ops[16] = {
	[BPF_JEQ >> 4] = "==",	 [BPF_JGT >> 4] = ">",	  [BPF_JGE >> 4] = ">=",
	[BPF_JSET >> 4] = "&",	 [BPF_JNE >> 4] = "!=",	  [BPF_JSGT >> 4] = "s>",
	[BPF_JSGE >> 4] = "s>=", [BPF_JLT >> 4] = "<",	  [BPF_JLE >> 4] = "<=",
	[BPF_JSLT >> 4] = "s<",	 [BPF_JSLE >> 4] = "s<=",
};

static const char *const atomic_ops[16] = {
	[BPF_ADD >> 4] = "add",
	[BPF_AND >> 4] = "and",
	[BPF_OR >> 4] = "or",
	[BPF_XOR >> 4] = "xor",
};

/* By BPF_SIZE >> 3: word, half, byte, double word. */
static const char *const unsigned_types[4] = {"u32", "u16", "u8", "u64"};
static const char *const signed_types[4] = {"s32", "s16", "s8", NULL};

struct listing {
	const struct prog *prog;
	const struct code_names *names;
	const struct bpf_insn *insns;
	size_t count;
	uint8_t *is_target; /* of each instruction: does a jump lead here? */
	struct text *text;
};

static const char *insn_type(const struct bpf_insn *insn)
{
	return unsigned_types[BPF_SIZE(insn->code) >> 3];
}

/* An instruction that this does not know, or that no verifier lets in: all that it says. */
static void write_unknown(struct text *text, const struct bpf_insn *insn)
{
	text_printf(text, "unknown dst=%u src=%u off=%d imm=%d", insn->dst_reg, insn->src_reg,
		    insn->off, insn->imm);
}

static void write_alu_register(struct text *text, const struct bpf_insn *insn, char reg,
			       const char *op)
{
	const char *extend = "";

	if (BPF_OP(insn->code) == BPF_MOV && insn->off == 8)
		extend = "(s8)";
	else if (BPF_OP(insn->code) == BPF_MOV && insn->off == 16)
		extend = "(s16)";
	else if (BPF_OP(insn->code) == BPF_MOV && insn->off == 32)
		extend = "(s32)";
	text_printf(text, "%c%u %s %s%c%u", reg, insn->dst_reg, op, extend, reg, insn->src_reg);
}

static void write_alu(struct text *text, const struct bpf_insn *insn)
{
	bool is_64 = BPF_CLASS(insn->code) == BPF_ALU64;
	uint8_t op = BPF_OP(insn->code);
	const char *op_text = alu_ops[op >> 4];
	char reg = is_64 ? 'r' : 'w';
	unsigned int dst = insn->dst_reg, src = insn->src_reg;
	bool is_move = insn->code == (BPF_ALU64 | BPF_MOV | BPF_X);

	if (insn->off == 1 && op == BPF_DIV)
		op_text = "s/=";
	else if (insn->off == 1 && op == BPF_MOD)
		op_text = "s%=";

	if (op == BPF_END)
		text_printf(text, "r%u = %s%d r%u", dst,
			    is_64			       ? "bswap"
			    : BPF_SRC(insn->code) == BPF_TO_BE ? "be"
							       : "le",
			    insn->imm, dst);
	else if (op == BPF_NEG)
		text_printf(text, "%c%u = -%c%u", reg, dst, reg, dst);
	else if (is_move && insn->off == OFF_ADDR_SPACE_CAST)
		text_printf(text, "r%u = addr_space_cast(r%u, %u, %u)", dst, src,
			    (uint32_t)insn->imm >> 16, (uint32_t)insn->imm & 0xffff);
	else if (is_move && insn->off == OFF_ADDR_PERCPU)
		text_printf(text, "r%u = &(void __percpu *)(r%u)", dst, src);
	else if (!op_text)
		write_unknown(text, insn);
	else if (BPF_SRC(insn->code) == BPF_X)
		write_alu_register(text, insn, reg, op_text);
	else
		text_printf(text, "%c%u %s %d", reg, dst, op_text, insn->imm);
}

static void write_atomic(struct text *text, const struct bpf_insn *insn)
{
	const char *type = insn_type(insn);
	const char *width = BPF_SIZE(insn->code) == BPF_DW ? "64" : "";
	unsigned int dst = insn->dst_reg, src = insn->src_reg;
	const char *op = insn->imm >= 0 && insn->imm <= 0xff ? atomic_ops[insn->imm >> 4] : NULL;

	if (insn->imm == ATOMIC_LOAD_ACQ)
		text_printf(text, "r%u = load_acquire((%s *)(r%u %+d))", dst, type, src, insn->off);
	else if (insn->imm == ATOMIC_STORE_REL)
		text_printf(text, "store_release((%s *)(r%u %+d), r%u)", type, dst, insn->off, src);
	else if (insn->imm == BPF_CMPXCHG)
		text_printf(text, "r0 = atomic%s_cmpxchg((%s *)(r%u %+d), r0, r%u)", width, type,
			    dst, insn->off, src);
	else if (insn->imm == BPF_XCHG)
		text_printf(text, "r%u = atomic%s_xchg((%s *)(r%u %+d), r%u)", src, width, type,
			    dst, insn->off, src);
	else if (op && (insn->imm & 0xf) == BPF_FETCH)
		text_printf(text, "r%u = atomic%s_fetch_%s((%s *)(r%u %+d), r%u)", src, width, op,
			    type, dst, insn->off, src);
	else if (op && (insn->imm & 0xf) == 0)
		text_printf(text, "lock *(%s *)(r%u %+d) %s r%u", type, dst, insn->off,
			    alu_ops[insn->imm >> 4], src);
	else
		write_unknown(text, insn);
}

static void write_load(struct text *text, const struct bpf_insn *insn)
{
	const char *type = insn_type(insn);

	switch (BPF_MODE(insn->code)) {
	case MODE_MEMSX:
	case MODE_PROBE_MEMSX:
	case MODE_PROBE_MEM32SX:
		type = signed_types[BPF_SIZE(insn->code) >> 3];
		break;
	case BPF_MEM:
	case MODE_PROBE_MEM:
	case MODE_PROBE_MEM32:
		break;
	default:
		type = NULL;
	}
	if (!type)
		write_unknown(text, insn);
	else
		text_printf(text, "r%u = *(%s *)(r%u %+d)", insn->dst_reg, type, insn->src_reg,
			    insn->off);
}

static void write_store(struct text *text, const struct bpf_insn *insn)
{
	bool from_register = BPF_CLASS(insn->code) == BPF_STX;
	uint8_t mode = BPF_MODE(insn->code);

	if (mode == BPF_MEM || mode == MODE_PROBE_MEM32)
		text_printf(text, "*(%s *)(r%u %+d) = %s%d", insn_type(insn), insn->dst_reg,
			    insn->off, from_register ? "r" : "",
			    from_register ? (int)insn->src_reg : insn->imm);
	else if (from_register && (mode == BPF_ATOMIC || mode == MODE_PROBE_ATOMIC))
		write_atomic(text, insn);
	else if (!from_register && mode == MODE_NOSPEC)
		text_puts(text, "nospec");
	else
		write_unknown(text, insn);
}

static void write_func_name(const struct listing *listing, uint32_t func)
{
	if (func < listing->prog->func_count) {
		const char *symbol = listing->prog->funcs[func].symbol;

		text_escape(listing->text, symbol, strlen(symbol));
	}
}

static void write_map(const struct listing *listing, uint32_t id)
{
	const struct prog *prog = listing->prog;

	text_printf(listing->text, "map[id:%u", id);
	for (size_t i = 0; i < prog->map_count; i++)
		if (prog->maps[i].id == id && prog->maps[i].name[0]) {
			text_putc(listing->text, ' ');
			text_escape(listing->text, prog->maps[i].name,
				    strnlen(prog->maps[i].name, sizeof(prog->maps[i].name)));
			break;
		}
	text_putc(listing->text, ']');
}

static void write_imm64(const struct listing *listing, const struct bpf_insn *insn)
{
	struct text *text = listing->text;

	text_printf(text, "r%u = ", insn->dst_reg);
	switch (insn->src_reg) {
	case BPF_PSEUDO_MAP_FD:
		write_map(listing, insn->imm);
		break;
	case BPF_PSEUDO_MAP_VALUE:
		write_map(listing, insn->imm);
		text_printf(text, "[0]+%u", (uint32_t)insn[1].imm);
		break;
	case PSEUDO_FUNC:
		text_printf(text, "subprog[%+d]", insn->imm);
		if ((uint32_t)insn[1].imm < listing->prog->func_count) {
			text_putc(text, '#');
			write_func_name(listing, insn[1].imm);
		}
		break;
	default:
		text_printf(text, "0x%llx",
			    (unsigned long long)insn[1].imm << 32 | (uint32_t)insn->imm);
	}
}

static void write_ld(const struct listing *listing, size_t i)
{
	const struct bpf_insn *insn = &listing->insns[i];
	struct text *text = listing->text;

	if (insn->code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < listing->count)
		write_imm64(listing, insn);
	else if (BPF_MODE(insn->code) == BPF_ABS)
		text_printf(text, "r0 = *(%s *)skb[%d]", insn_type(insn), insn->imm);
	else if (BPF_MODE(insn->code) == BPF_IND)
		text_printf(text, "r0 = *(%s *)skb[r%u + %d]", insn_type(insn), insn->src_reg,
			    insn->imm);
	else
		write_unknown(text, insn);
}

/* The name of what is at an address, if it is the start of something. */
static bool write_exact_name(const struct listing *listing, uint64_t addr)
{
	const struct code_names *names = listing->names;
	size_t start = listing->text->len;

	if (!names || !names->address || !names->address(names->arg, addr, listing->text))
		return false;
	if (!listing->text->failed &&
	    !memchr(listing->text->data + start, '+', listing->text->len - start))
		return true;
	listing->text->len = start;
	return false;
}

/*
 * A helper is called by id until the verifier is done, and then by its distance from
 * __bpf_call_base; so is a kfunc, but where the JIT can call any address its BTF id stays.
 */
static void write_callee(const struct listing *listing, const struct bpf_insn *insn)
{
	const struct code_names *names = listing->names;
	struct text *text = listing->text;
	uint32_t id = insn->imm;
	uint64_t addr = names && names->call_base ? names->call_base + (int64_t)insn->imm : 0;

	if (insn->src_reg == 0 && id && id < ARRAY_SIZE(helper_names) && helper_names[id])
		text_puts(text, helper_names[id]);
	else if (insn->imm && addr && write_exact_name(listing, addr))
		;
	else if (insn->src_reg == PSEUDO_KFUNC_CALL && insn->off == 0 && names && names->kfunc &&
		 names->kfunc(names->arg, id, text))
		;
	else if (insn->imm && addr && insn->src_reg == 0)
		text_printf(text, "0x%llx", (unsigned long long)addr);
	else
		text_puts(text, insn->src_reg == PSEUDO_KFUNC_CALL ? "kernel-function" : "unknown");
	text_printf(text, "#%d", insn->imm);
}

static void write_call(const struct listing *listing, size_t i)
{
	const struct bpf_insn *insn = &listing->insns[i];
	const struct prog *prog = listing->prog;
	int64_t distance = insn->off;

	text_puts(listing->text, "call ");
	if (insn->src_reg != BPF_PSEUDO_CALL) {
		write_callee(listing, insn);
		return;
	}
	/* The verifier leaves the function's number in imm and the distance in off, which is too
	 * narrow for a long program. */
	if ((uint32_t)insn->imm < prog->func_count &&
	    prog->funcs[insn->imm].insn_off < listing->count)
		distance = (int64_t)prog->funcs[insn->imm].insn_off - (int64_t)i - 1;
	text_printf(listing->text, "pc%+lld", (long long)distance);
	if ((uint32_t)insn->imm < prog->func_count) {
		text_putc(listing->text, '#');
		write_func_name(listing, insn->imm);
	}
}

/* Where the jump at i leads, or -1 if it is no jump or leads out of the program. */
static int64_t jump_target(const struct listing *listing, size_t i)
{
	const struct bpf_insn *insn = &listing->insns[i];
	uint8_t class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);
	int64_t target = (int64_t)i + 1 + insn->off;

	if (class != BPF_JMP && class != BPF_JMP32)
		return -1;
	if (insn->code == (BPF_JMP32 | BPF_JA))
		target = (int64_t)i + 1 + insn->imm;
	else if (insn->code != (BPF_JMP | BPF_JA) && insn->code != (BPF_JMP | OP_JCOND) &&
		 !jump_ops[op >> 4])
		return -1;
	return target >= 0 && target < (int64_t)listing->count ? target : -1;
}

static void write_jump(const struct listing *listing, size_t i)
{
	const struct bpf_insn *insn = &listing->insns[i];
	struct text *text = listing->text;
	const char *op = jump_ops[BPF_OP(insn->code) >> 4];
	char reg = BPF_CLASS(insn->code) == BPF_JMP32 ? 'w' : 'r';
	int64_t target = jump_target(listing, i);

	if (insn->code == (BPF_JMP | BPF_CALL))
		write_call(listing, i);
	else if (insn->code == (BPF_JMP | BPF_EXIT))
		text_puts(text, "exit");
	else if (insn->code == (BPF_JMP | BPF_JA))
		text_printf(text, "goto pc%+d", insn->off);
	else if (insn->code == (BPF_JMP | BPF_JA | BPF_X))
		text_printf(text, "gotox r%u", insn->dst_reg);
	else if (insn->code == (BPF_JMP32 | BPF_JA))
		text_printf(text, "gotol pc%+d", insn->imm);
	else if (insn->code == (BPF_JMP | OP_JCOND) && insn->src_reg == 0)
		text_printf(text, "may_goto pc%+d", insn->off);
	else if (!op)
		write_unknown(text, insn);
	else if (BPF_SRC(insn->code) == BPF_X)
		text_printf(text, "if %c%u %s %c%u goto pc%+d", reg, insn->dst_reg, op, reg,
			    insn->src_reg, insn->off);
	else
		text_printf(text, "if %c%u %s 0x%x goto pc%+d", reg, insn->dst_reg, op,
			    (uint32_t)insn->imm, insn->off);
	if (target >= 0)
		text_printf(text, " <L%lld>", (long long)target);
}

static void write_insn(const struct listing *listing, size_t i)
{
	const struct bpf_insn *insn = &listing->insns[i];

	text_printf(listing->text, "%4zu: (%02x) ", i, insn->code);
	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		write_alu(listing->text, insn);
		break;
	case BPF_LD:
		write_ld(listing, i);
		break;
	case BPF_LDX:
		write_load(listing->text, insn);
		break;
	case BPF_ST:
	case BPF_STX:
		write_store(listing->text, insn);
		break;
	default:
		write_jump(listing, i);
	}
	text_putc(listing->text, '\n');
}

static bool is_imm64(const struct listing *listing, size_t i)
{
	return listing->insns[i].code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < listing->count;
}

static void mark_targets(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		int64_t target = jump_target(listing, i);

		if (target >= 0)
			listing->is_target[target] = 1;
		if (is_imm64(listing, i))
			i++;
	}
}

static void write_listing(struct listing *listing, const struct lineinfo *lines)
{
	const struct prog *prog = listing->prog;
	size_t func = 0, line = 0;

	for (size_t i = 0; i < listing->count; i++) {
		if (func < prog->func_count && prog->funcs[func].insn_off == i) {
			if (i)
				text_putc(listing->text, '\n');
			write_func_name(listing, func++);
			text_puts(listing->text, ":\n");
		}
		if (listing->is_target[i])
			text_printf(listing->text, "L%zu:\n", i);
		while (lines && line < lines->insn_count && lines->by_insn[line]->insn < i)
			line++;
		if (lines && line < lines->insn_count && lines->by_insn[line]->insn == i) {
			text_puts(listing->text, "; ");
			line_write(lines->by_insn[line], listing->text);
			text_putc(listing->text, '\n');
		}
		write_insn(listing, i);
		if (is_imm64(listing, i))
			i++;
	}
}

int xlated_write(const struct prog *prog, const struct lineinfo *lines,
		 const struct code_names *names, struct text *text)
{
	if (!prog->xlated || prog->xlated->len < sizeof(struct bpf_insn))
		return -ENODATA;

	size_t count = prog->xlated->len / sizeof(struct bpf_insn);
	_cleanup_free_ uint8_t *is_target = calloc(count, 1);
	struct listing listing = {
		.prog = prog,
		.names = names,
		.insns = prog->xlated->data,
		.count = count,
		.is_target = is_target,
		.text = text,
	};

	if (!is_target)
		return -ENOMEM;
	mark_targets(&listing);
	write_listing(&listing, lines);
	return text->failed ? -ENOMEM : 0;
}
