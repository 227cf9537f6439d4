/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xlated.txt against those who print the kernel's notation themselves: bpftool for the translated
 * instructions, row by row, and the verifier's log for the forms that this bpftool is too old to
 * know. The programs between them use every class, operation and mode that this kernel lets in.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/btf.h>
#include <sys/mman.h>

#include "core/btf.h"
#include "core/xlated.h"

#define LOG_BYTES (1 << 20)
#define MAX_INSNS 128
#define MAX_ROWS  16384

/* Newer than the headers of Debian 12. */
#define MAP_TYPE_ARENA	  33
#define MODE_MEMSX	  0x80
#define MODE_PROBE_ATOMIC 0xe0 /* into an arena; the kernel lets it be seen */
#define OP_JCOND	  0xe0
#define ATOMIC_LOAD_ACQ	  0x100
#define ATOMIC_STORE_REL  0x110
#define PSEUDO_KFUNC	  2

struct program {
	char name[BPF_OBJ_NAME_LEN];
	enum bpf_prog_type type;
	struct bpf_insn insns[MAX_INSNS];
	size_t count;
};

static size_t compared_programs, compared_rows, skipped_rows;
static bool seen_codes[256];
static struct symbol_list kallsyms;
static struct btf_file *vmlinux;

static void emit(struct program *program, struct bpf_insn insn)
{
	assert_true(program->count < MAX_INSNS);
	program->insns[program->count++] = insn;
}

static struct program *new_program(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct program *new_program(const char *format, ...)
{
	struct program *program = calloc(1, sizeof(*program));
	va_list args;

	assert_non_null(program);
	va_start(args, format);
	vsnprintf(program->name, sizeof(program->name), format, args);
	va_end(args);
	program->type = BPF_PROG_TYPE_SOCKET_FILTER;
	return program;
}

/* r6 is the context, and in r1 and r2 there are numbers that the verifier cannot know. */
static void emit_unknowns(struct program *program)
{
	emit(program, INSN_MOV_REG(BPF_REG_6, BPF_REG_1));
	emit(program, INSN(BPF_LDX | BPF_W | BPF_MEM, BPF_REG_2, BPF_REG_6, 4, 0));
	emit(program, INSN(BPF_LDX | BPF_W | BPF_MEM, BPF_REG_1, BPF_REG_6, 0, 0));
}

static void emit_return(struct program *program)
{
	emit(program, INSN_MOV_IMM(BPF_REG_0, 0));
	emit(program, INSN_EXIT);
}

/* ---- what kernels know ---- */

enum extension {
	CPU_V4,
	MAY_GOTO,
	LOAD_ACQUIRE,
};

static bool has_extension(enum extension extension)
{
	static const struct {
		const char *name;
		struct bpf_insn probe;
	} extensions[] = {
		[CPU_V4] = {"instructions of cpu v4 (6.6)",
			    INSN(BPF_ALU64 | BPF_MOV | BPF_X, 0, 0, 8, 0)},
		[MAY_GOTO] = {"may_goto (6.9)", INSN(BPF_JMP | OP_JCOND, 0, 0, 0, 0)},
		[LOAD_ACQUIRE] = {"load_acquire (6.15)",
				  INSN(BPF_STX | BPF_DW | BPF_ATOMIC, 0, 10, -8, ATOMIC_LOAD_ACQ)},
	};
	const struct bpf_insn insns[] = {
		INSN_MOV_IMM(BPF_REG_0, 0),
		INSN(BPF_ST | BPF_DW | BPF_MEM, 10, 0, -8, 0),
		extensions[extension].probe,
		INSN_MOV_IMM(BPF_REG_0, 0),
		INSN_EXIT,
	};
	_cleanup_fd_ int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "probe", "GPL", insns,
					    ARRAY_SIZE(insns), NULL);

	if (fd < 0) {
		assert_int_equal(errno, EINVAL);
		printf("# lacks: %s\n", extensions[extension].name);
	}
	return fd >= 0;
}

/* ---- what is compared with what ---- */

/* The text of instruction rows `N: (xx) ...` by number, without what only one side has. */
struct rows {
	char *text[MAX_ROWS];
	size_t count;
};

static void rows_deinit(struct rows *rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows->text); i++)
		free(rows->text[i]);
}

/* Cuts the first piece from `start` up to and with `end` out of a row. */
static void cut_out(char *row, const char *start, const char *end)
{
	char *from = strstr(row, start), *to = from ? strstr(from, end) : NULL;

	if (to)
		memmove(from, to + strlen(end), strlen(to + strlen(end)) + 1);
}

static void normalise(char *row)
{
	char *name;

	/* Our label of a jump's target, and our name of a map. */
	cut_out(row, " <L", ">");
	name = strstr(row, "map[id:");
	if (name)
		cut_out(name, " ", "]");
	if (name) {
		char *end = name + 7 + strspn(name + 7, "0123456789");

		if (*end != ']') {
			memmove(end + 1, end, strlen(end) + 1);
			*end = ']';
		}
	}
	/* The verifier's log goes on with the state of registers. */
	name = strstr(row, " ;");
	if (name)
		*name = '\0';
	for (size_t len = strlen(row); len && row[len - 1] == ' '; len--)
		row[len - 1] = '\0';
}

static void parse_rows(const char *text, struct rows *ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *cursor = copy, *line;

	*ret = (struct rows){};
	while ((line = next_line(&cursor))) {
		char *end;
		unsigned long n = strtoul(line, &end, 10);

		if (end == line || strncmp(end, ": (", 3) != 0 || n >= ARRAY_SIZE(ret->text))
			continue;
		normalise(end + 2);
		free(ret->text[n]); /* the log has an instruction as often as it was looked at */
		ret->text[n] = strdup(end + 2);
		ret->count = MAX(ret->count, (size_t)n + 1);
	}
}

/* Does bpftool 7.1 write this form as what it is not, or not at all? */
static bool is_news_to_bpftool(const struct bpf_insn *insn)
{
	uint8_t class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);

	switch (class) {
	case BPF_ALU:
	case BPF_ALU64:
		if (op == BPF_END)
			return class == BPF_ALU64;
		return insn->off != 0; /* sdiv, smod, movsx, casts */
	case BPF_LDX:
		return BPF_MODE(insn->code) != BPF_MEM;
	case BPF_STX:
		return BPF_MODE(insn->code) == MODE_PROBE_ATOMIC || insn->imm == ATOMIC_LOAD_ACQ ||
		       insn->imm == ATOMIC_STORE_REL;
	case BPF_ST:
		return BPF_MODE(insn->code) != BPF_MEM;
	case BPF_JMP32:
		return op == BPF_JA;
	case BPF_JMP:
		return op == OP_JCOND;
	default:
		return insn->src_reg == 4; /* a function's address */
	}
}

/* Two names of one address are one: bpftool takes any alias. */
static bool is_same_callee(const char *x, const char *y)
{
	char names[2][512];
	int imms[2];

	if (sscanf(x, "(85) call %511[^#]#%d", names[0], &imms[0]) != 2 ||
	    sscanf(y, "(85) call %511[^#]#%d", names[1], &imms[1]) != 2 || imms[0] != imms[1])
		return false;

	const struct symbol_row *row = NULL;

	while ((row = symbol_find(&kallsyms, names[0], row ? row + 1 : kallsyms.rows)))
		for (const struct symbol_row *other = symbol_at(&kallsyms, row->addr);
		     other < kallsyms.rows + kallsyms.count && other->addr == row->addr; other++)
			if (strcmp(other->name, names[1]) == 0)
				return true;
	return false;
}

static void assert_same_as_bpftool(const struct ksymfs *fs, int fd)
{
	struct oracle oracle;
	struct rows ours, theirs;
	char command[128];

	oracle_read(fd, &oracle);

	_cleanup_free_ char *text =
		ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/xlated.txt", oracle.info.id);

	snprintf(command, sizeof(command), "bpftool prog dump xlated id %" PRIu32, oracle.info.id);

	FILE *pipe = popen(command, "r");

	assert_non_null(pipe);

	_cleanup_free_ char *dump = read_fd(fileno(pipe), NULL);

	assert_int_equal(pclose(pipe), 0);
	parse_rows(text, &ours);
	parse_rows(dump, &theirs);

	size_t count = oracle.info.xlated_prog_len / sizeof(struct bpf_insn);

	assert_true(count <= MAX_ROWS);
	for (size_t i = 0; i < count; i++) {
		const struct bpf_insn *insn = &oracle.xlated[i];

		if (!ours.text[i])
			fail_msg("%s: instruction %zu has no row:\n%s", oracle.info.name, i, text);
		seen_codes[insn->code] = true;
		if (is_news_to_bpftool(insn)) {
			skipped_rows++;
		} else {
			if (!theirs.text[i])
				fail_msg("%s: bpftool has no instruction %zu:\n%s",
					 oracle.info.name, i, dump);
			if (strcmp(ours.text[i], theirs.text[i]) != 0 &&
			    !is_same_callee(ours.text[i], theirs.text[i]))
				fail_msg("%s, instruction %zu:\nksymfs:  %s\nbpftool: %s",
					 oracle.info.name, i, ours.text[i], theirs.text[i]);
			compared_rows++;
		}
		if (insn->code == (BPF_LD | BPF_IMM | BPF_DW)) {
			i++;
			assert_null(ours.text[i]);
		}
	}
	assert_true(ours.count <= count);
	compared_programs++;
	rows_deinit(&ours);
	rows_deinit(&theirs);
	oracle_deinit(&oracle);
}

static bool name_kfunc(void *arg, uint32_t btf_id, struct text *text)
{
	_cleanup_free_ char *name = NULL;

	if (btf_file_name(vmlinux, btf_id, &name) < 0)
		return false;
	text_puts(text, name);
	return true;
}

/* The instructions as they were loaded, against the log: it has those that can be reached. */
static void assert_same_as_log(const struct program *program, const char *log)
{
	struct blob xlated = {.data = program->insns,
			      .len = program->count * sizeof(program->insns[0])};
	const struct prog prog = {.xlated = &xlated};
	const struct code_names names = {.kfunc = name_kfunc};
	_cleanup_text_ struct text text = {};
	struct rows ours, theirs;
	size_t compared = 0;

	assert_int_equal(xlated_write(&prog, NULL, &names, &text), 0);
	text_putc(&text, '\0');
	parse_rows(text.data, &ours);
	parse_rows(log, &theirs);
	for (size_t i = 0; i < program->count; i++) {
		const struct bpf_insn *insn = &program->insns[i];

		/* Of these the log has what the verifier has made of them. */
		if (!theirs.text[i] || insn->code == (BPF_LD | BPF_IMM | BPF_DW) ||
		    (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL))
			continue;
		if (strcmp(ours.text[i], theirs.text[i]) != 0)
			fail_msg("%s, instruction %zu:\nksymfs:   %s\nverifier: %s", program->name,
				 i, ours.text[i], theirs.text[i]);
		seen_codes[insn->code] = true;
		compared++;
	}
	assert_true(compared > 0);
	rows_deinit(&ours);
	rows_deinit(&theirs);
}

/* Loads a program, which this takes, and compares it with both. */
static void check_program(const struct ksymfs *fs, struct program *program)
{
	_cleanup_free_ struct program *own = program;
	_cleanup_free_ char *log = malloc(LOG_BYTES);
	LIBBPF_OPTS(bpf_prog_load_opts, options, .log_level = 2, .log_buf = log,
		    .log_size = LOG_BYTES);

	assert_non_null(log);
	*log = '\0';

	_cleanup_fd_ int fd =
		bpf_prog_load(own->type, own->name, "GPL", own->insns, own->count, &options);

	if (fd < 0)
		fail_msg("loading %s: %s\n%s", own->name, strerror(errno), log);
	assert_same_as_log(own, log);
	assert_same_as_bpftool(fs, fd);
}

/* ---- the programs ---- */

static const uint8_t alu_ops[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,  BPF_AND,
				  BPF_LSH, BPF_RSH, BPF_MOD, BPF_XOR, BPF_MOV, BPF_ARSH};

static void test_alu(void **state)
{
	bool v4 = has_extension(CPU_V4);

	for (size_t i = 0; i < ARRAY_SIZE(alu_ops); i++) {
		struct program *program = new_program("alu_%02x", alu_ops[i]);
		bool has_sign = v4 && (alu_ops[i] == BPF_DIV || alu_ops[i] == BPF_MOD);

		emit_unknowns(program);
		emit(program, INSN(BPF_ALU64 | alu_ops[i] | BPF_K, 1, 0, 0, 7));
		emit(program, INSN(BPF_ALU64 | alu_ops[i] | BPF_X, 1, 2, 0, 0));
		emit(program, INSN(BPF_ALU | alu_ops[i] | BPF_K, 1, 0, 0, 9));
		emit(program, INSN(BPF_ALU | alu_ops[i] | BPF_X, 1, 2, 0, 0));
		if (has_sign) {
			emit(program, INSN(BPF_ALU64 | alu_ops[i] | BPF_K, 1, 0, 1, -7));
			emit(program, INSN(BPF_ALU64 | alu_ops[i] | BPF_X, 1, 2, 1, 0));
			emit(program, INSN(BPF_ALU | alu_ops[i] | BPF_K, 1, 0, 1, -9));
			emit(program, INSN(BPF_ALU | alu_ops[i] | BPF_X, 1, 2, 1, 0));
		}
		emit_return(program);
		check_program(*state, program);
	}
}

static void test_moves(void **state)
{
	struct program *program = new_program("moves");
	bool v4 = has_extension(CPU_V4);

	emit_unknowns(program);
	for (int bits = 8; v4 && bits <= 32; bits *= 2) {
		emit(program, INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 1, bits, 0));
		if (bits < 32)
			emit(program, INSN(BPF_ALU | BPF_MOV | BPF_X, 3, 1, bits, 0));
	}
	emit(program, INSN(BPF_ALU64 | BPF_NEG, 1, 0, 0, 0));
	emit(program, INSN(BPF_ALU | BPF_NEG, 1, 0, 0, 0));
	for (int bits = 16; bits <= 64; bits *= 2) {
		emit(program, INSN(BPF_ALU | BPF_END | BPF_TO_LE, 1, 0, 0, bits));
		emit(program, INSN(BPF_ALU | BPF_END | BPF_TO_BE, 1, 0, 0, bits));
		if (v4)
			emit(program, INSN(BPF_ALU64 | BPF_END, 1, 0, 0, bits));
	}
	emit_return(program);
	check_program(*state, program);
}

static void test_jumps(void **state)
{
	static const uint8_t ops[] = {BPF_JEQ,	BPF_JGT, BPF_JGE, BPF_JSET, BPF_JNE, BPF_JSGT,
				      BPF_JSGE, BPF_JLT, BPF_JLE, BPF_JSLT, BPF_JSLE};
	static const uint8_t classes[] = {BPF_JMP, BPF_JMP32};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(classes); j++) {
			struct program *program = new_program("jump_%02x_%x", ops[i], classes[j]);

			emit_unknowns(program);
			emit(program, INSN(classes[j] | ops[i] | BPF_K, 1, 0, 1, -3));
			emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
			emit(program, INSN(classes[j] | ops[i] | BPF_X, 1, 2, 1, 0));
			emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
			emit_return(program);
			check_program(*state, program);
		}
	}
}

static void test_long_and_bounded_jumps(void **state)
{
	struct program *program = new_program("goto");

	emit_unknowns(program);
	emit(program, INSN(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2, 0));
	emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
	emit(program, INSN(BPF_JMP | BPF_JA, 0, 0, 1, 0));
	if (has_extension(CPU_V4))
		emit(program, INSN(BPF_JMP32 | BPF_JA, 0, 0, 0, 1));
	emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
	emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
	emit_return(program);
	check_program(*state, program);

	if (!has_extension(MAY_GOTO))
		return;
	program = new_program("may_goto");
	emit_unknowns(program);
	emit(program, INSN(BPF_JMP | OP_JCOND, 0, 0, 2, 0));
	emit(program, INSN_ADD_IMM(BPF_REG_2, 1));
	emit(program, INSN(BPF_JMP | BPF_JA, 0, 0, -3, 0));
	emit_return(program);
	check_program(*state, program);
}

static void test_memory(void **state)
{
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	bool v4 = has_extension(CPU_V4), load_acquire = has_extension(LOAD_ACQUIRE);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct program *program = new_program("mem_%02x", sizes[i]);

		emit_unknowns(program);
		emit(program, INSN(BPF_ST | BPF_DW | BPF_MEM, 10, 0, -8, -1));
		emit(program, INSN(BPF_ST | sizes[i] | BPF_MEM, 10, 0, -8, 77));
		emit(program, INSN(BPF_STX | sizes[i] | BPF_MEM, 10, 1, -8, 0));
		emit(program, INSN(BPF_LDX | sizes[i] | BPF_MEM, 3, 10, -8, 0));
		if (v4 && sizes[i] != BPF_DW)
			emit(program, INSN(BPF_LDX | sizes[i] | MODE_MEMSX, 3, 10, -8, 0));
		if (load_acquire) {
			emit(program,
			     INSN(BPF_STX | sizes[i] | BPF_ATOMIC, 10, 1, -8, ATOMIC_STORE_REL));
			emit(program,
			     INSN(BPF_STX | sizes[i] | BPF_ATOMIC, 3, 10, -8, ATOMIC_LOAD_ACQ));
		}
		emit_return(program);
		check_program(*state, program);
	}
}

static void test_atomics(void **state)
{
	static const int ops[] = {BPF_ADD,
				  BPF_AND,
				  BPF_OR,
				  BPF_XOR,
				  BPF_ADD | BPF_FETCH,
				  BPF_AND | BPF_FETCH,
				  BPF_OR | BPF_FETCH,
				  BPF_XOR | BPF_FETCH,
				  BPF_XCHG,
				  BPF_CMPXCHG};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct program *program = new_program("atomic_%02x", ops[i]);

		emit_unknowns(program);
		emit(program, INSN(BPF_ST | BPF_DW | BPF_MEM, 10, 0, -8, 0));
		emit(program, INSN_MOV_IMM(BPF_REG_0, 0));
		emit(program, INSN(BPF_STX | BPF_DW | BPF_ATOMIC, 10, 1, -8, ops[i]));
		emit(program, INSN(BPF_STX | BPF_W | BPF_ATOMIC, 10, 2, -8, ops[i]));
		emit_return(program);
		check_program(*state, program);
	}
}

static void test_packet_loads(void **state)
{
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W};
	struct program *program = new_program("packet");

	emit_unknowns(program);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		emit(program, INSN(BPF_LD | sizes[i] | BPF_ABS, 0, 0, 0, 12));
	emit(program, INSN_MOV_IMM(BPF_REG_7, 3));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		emit(program, INSN(BPF_LD | sizes[i] | BPF_IND, 0, 7, 0, 2));
	emit_return(program);
	check_program(*state, program);
}

static int map_of_type(enum bpf_map_type type, const char *name)
{
	int fd = bpf_map_create(type, name, 4, 8, 4, NULL);

	assert_true(fd >= 0);
	return fd;
}

static void emit_lookup(struct program *program, int map)
{
	emit(program, INSN(BPF_ST | BPF_W | BPF_MEM, 10, 0, -4, 1));
	emit(program, INSN_MOV_REG(BPF_REG_2, BPF_REG_10));
	emit(program, INSN_ADD_IMM(BPF_REG_2, -4));
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map));
	emit(program, INSN(0, 0, 0, 0, 0));
	emit(program, INSN_HELPER(BPF_FUNC_map_lookup_elem));
	emit(program, INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0));
	emit(program, INSN(BPF_LDX | BPF_DW | BPF_MEM, 1, 0, 0, 0));
}

/* Each kind of map has its lookup made into other instructions. */
static void test_maps(void **state)
{
	static const struct {
		enum bpf_map_type type;
		const char *name;
	} kinds[] = {
		{BPF_MAP_TYPE_ARRAY, "array.of_four"},
		{BPF_MAP_TYPE_HASH, "hash"},
		{BPF_MAP_TYPE_PERCPU_ARRAY, "percpu_array"},
		{BPF_MAP_TYPE_LRU_HASH, "lru"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_fd_ int map = map_of_type(kinds[i].type, kinds[i].name);
		struct program *program = new_program("map_%u", kinds[i].type);

		emit_lookup(program, map);
		emit_return(program);
		check_program(*state, program);
	}
}

static void test_map_value_and_tail_call(void **state)
{
	_cleanup_fd_ int data = make_map("data", 64);
	_cleanup_fd_ int progs = bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "progs", 4, 4, 2, NULL);
	struct program *program = new_program("tail_call");

	assert_true(progs >= 0);
	emit_unknowns(program);
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, 3, BPF_PSEUDO_MAP_VALUE, 0, data));
	emit(program, INSN(0, 0, 0, 0, 24));
	emit(program, INSN(BPF_LDX | BPF_DW | BPF_MEM, 3, 3, 0, 0));
	emit(program, INSN_MOV_REG(BPF_REG_1, BPF_REG_6));
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, 2, BPF_PSEUDO_MAP_FD, 0, progs));
	emit(program, INSN(0, 0, 0, 0, 0));
	emit(program, INSN_MOV_IMM(BPF_REG_3, 1));
	emit(program, INSN_HELPER(BPF_FUNC_tail_call));
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, 1, 0, 0, -2));
	emit(program, INSN(0, 0, 0, 0, 0x12345678));
	emit_return(program);
	check_program(*state, program);
}

static void test_calls(void **state)
{
	static const int helpers[] = {BPF_FUNC_ktime_get_ns, BPF_FUNC_get_prandom_u32,
				      BPF_FUNC_get_smp_processor_id, BPF_FUNC_jiffies64,
				      BPF_FUNC_get_numa_node_id};
	struct program *program = new_program("helpers");
	_cleanup_fd_ int with_sub = load_with_subprogram("with_sub", 3, 4);

	for (size_t i = 0; i < ARRAY_SIZE(helpers); i++)
		emit(program, INSN_HELPER(helpers[i]));
	emit_return(program);
	check_program(*state, program);
	assert_same_as_bpftool(*state, with_sub);
}

static void test_kfunc(void **state)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct program *program = new_program("kfunc");

	assert_non_null(btf);

	int lock = btf__find_by_name_kind(btf, "bpf_rcu_read_lock", BTF_KIND_FUNC);
	int unlock = btf__find_by_name_kind(btf, "bpf_rcu_read_unlock", BTF_KIND_FUNC);

	btf__free(btf);
	if (lock < 0 || unlock < 0)
		skip_because("this kernel has no bpf_rcu_read_lock()");
	program->type = BPF_PROG_TYPE_SCHED_CLS;
	emit(program, INSN(BPF_JMP | BPF_CALL, 0, PSEUDO_KFUNC, 0, lock));
	emit(program, INSN(BPF_JMP | BPF_CALL, 0, PSEUDO_KFUNC, 0, unlock));
	emit_return(program);
	check_program(*state, program);
}

static void test_arena(void **state)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	_cleanup_fd_ int arena =
		bpf_map_create((enum bpf_map_type)MAP_TYPE_ARENA, "arena", 0, 0, 1, &options);

	if (arena < 0)
		skip_because("this kernel has no arenas: %s", strerror(errno));

	void *mapped =
		mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, arena, 0);
	struct program *program = new_program("arena");

	assert_true(mapped != MAP_FAILED);
	emit_unknowns(program);
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, 3, BPF_PSEUDO_MAP_FD, 0, arena));
	emit(program, INSN(0, 0, 0, 0, 0));
	emit(program, INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 1, 1, 1));
	emit(program, INSN(BPF_LDX | BPF_DW | BPF_MEM, 4, 3, 0, 0));
	emit(program, INSN(BPF_STX | BPF_DW | BPF_MEM, 3, 4, 8, 0));
	emit(program, INSN(BPF_ST | BPF_W | BPF_MEM, 3, 0, 16, 5));
	emit(program, INSN(BPF_STX | BPF_DW | BPF_ATOMIC, 3, 4, 8, BPF_ADD));
	emit(program, INSN(BPF_ALU64 | BPF_MOV | BPF_X, 4, 3, 1, 1 << 16));
	emit_return(program);
	check_program(*state, program);
	munmap(mapped, sysconf(_SC_PAGESIZE));
}

/* What clang makes, with BTF, line info, data sections, callbacks and several functions. */
static void test_objects(void **state)
{
	static const char *const names[] = {"calls",	  "inlined", "iter",  "longname",
					    "many_lines", "sample",  "throw", "xdp"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!kernel_has_calls_of(names[i]))
			continue;
		_cleanup_object_ struct bpf_object *object = load_object(names[i]);
		struct bpf_program *program = NULL;

		while ((program = bpf_object__next_program(object, program)))
			assert_same_as_bpftool(*state, bpf_program__fd(program));
	}
}

static void test_covered(void **state)
{
	const struct {
		uint8_t code;
		bool is_missing;
	} others[] = {
		{BPF_JMP | BPF_JA},
		{BPF_JMP32 | BPF_JA, !has_extension(CPU_V4)},
		{BPF_JMP | BPF_CALL},
		{BPF_JMP | BPF_EXIT},
		{BPF_JMP | OP_JCOND, !has_extension(MAY_GOTO)},
		{BPF_LD | BPF_DW | BPF_IMM},
		{BPF_LD | BPF_W | BPF_ABS},
		{BPF_LD | BPF_B | BPF_IND},
		{BPF_ALU64 | BPF_END, !has_extension(CPU_V4)},
		{BPF_STX | BPF_B | BPF_ATOMIC, !has_extension(LOAD_ACQUIRE)},
		{BPF_LDX | BPF_W | MODE_MEMSX, !has_extension(CPU_V4)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(alu_ops); i++)
		for (int form = 0; form < 4; form++)
			assert_true(seen_codes[alu_ops[i] | (form & 1 ? BPF_X : BPF_K) |
					       (form & 2 ? BPF_ALU64 : BPF_ALU)]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (seen_codes[others[i].code] == others[i].is_missing)
			fail_msg("%s had code %02x",
				 others[i].is_missing ? "a program" : "no program", others[i].code);
	print_message("# %zu programs, %zu rows as bpftool has them, %zu that it cannot know\n",
		      compared_programs, compared_rows, skipped_rows);
	assert_true(compared_programs >= 50);
	assert_true(skipped_rows < compared_rows / 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alu),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_jumps),
		cmocka_unit_test(test_long_and_bounded_jumps),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_packet_loads),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_map_value_and_tail_call),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_kfunc),
		cmocka_unit_test(test_arena),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_covered),
	};

	kallsyms_parse(read_path("/proc/kallsyms", NULL), &kallsyms);
	symbol_list_sort(&kallsyms);
	if (btf_file_open("vmlinux", NULL, &vmlinux) < 0)
		return 1;

	int r = live_run(tests);

	btf_file_close(vmlinux);
	symbol_list_deinit(&kallsyms);
	return r;
}
