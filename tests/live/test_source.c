/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From machine code back to source: lines, source, elf and asm of programs that are loaded, against
 * prog_info's jited_line_info read through libbpf, entry by entry and byte by byte, with the tools
 * that people use.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <time.h>

#include "core/asm.h"
#include "core/elfimage.h"
#include "core/lineinfo.h"
#include "core/prog.h"
#include "core/xlated.h"

#define HARDEN_SYSCTL "/proc/sys/net/core/bpf_jit_harden"

/* Where a tool's input and output go. */
static char work_dir[] = "/tmp/ksymfs-source-XXXXXX";

static const char *const objects[] = {"calls", "inlined", "many_lines", "sample", "xdp"};

struct entry {
	uint64_t addr;
	const char *file, *text;
	uint32_t number, column;
	size_t func;
};

/* One loaded program, and what the kernel says of its lines. */
struct subject {
	struct oracle oracle;
	struct btf *btf;
	char **symbols; /* of each function, as /proc/kallsyms has them */
	struct entry *entries;
	size_t count;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static size_t func_of(const struct oracle *oracle, uint64_t addr)
{
	for (size_t i = 0; i < oracle->info.nr_jited_ksyms; i++)
		if (addr - oracle->ksyms[i] < oracle->func_lens[i])
			return i;
	fail_msg("no function has %" PRIx64, addr);
	return 0;
}

static void read_symbols(struct subject *subject)
{
	struct symbol_list list;

	kallsyms_parse(read_path("/proc/kallsyms", NULL), &list);
	symbol_list_sort(&list);
	subject->symbols = calloc(subject->oracle.info.nr_jited_ksyms, sizeof(char *));
	assert_non_null(subject->symbols);
	for (size_t i = 0; i < subject->oracle.info.nr_jited_ksyms; i++) {
		const struct symbol_row *row = symbol_at(&list, subject->oracle.ksyms[i]);

		assert_non_null(row);
		subject->symbols[i] = strdup(row->name);
	}
	symbol_list_deinit(&list);
}

static void subject_init(int fd, struct subject *ret)
{
	*ret = (struct subject){};
	oracle_read(fd, &ret->oracle);

	const struct oracle *oracle = &ret->oracle;

	read_symbols(ret);
	ret->btf = btf__new(oracle->btf, oracle->btf_len);
	assert_non_null(ret->btf);
	ret->count = oracle->info.nr_jited_line_info;
	assert_int_equal(ret->count, oracle->info.nr_line_info);
	assert_true(ret->count > 0);
	ret->entries = calloc(ret->count, sizeof(*ret->entries));
	assert_non_null(ret->entries);
	for (size_t i = 0; i < ret->count; i++) {
		const struct bpf_line_info *line =
			(void *)((char *)oracle->line_info + i * oracle->info.line_info_rec_size);
		const char *text = btf__name_by_offset(ret->btf, line->line_off);

		while (isspace((unsigned char)*text))
			text++;
		ret->entries[i] = (struct entry){
			.addr = oracle->jited_line_info[i],
			.file = btf__name_by_offset(ret->btf, line->file_name_off),
			.text = text,
			.number = BPF_LINE_INFO_LINE_NUM(line->line_col),
			.column = BPF_LINE_INFO_LINE_COL(line->line_col),
			.func = func_of(oracle, oracle->jited_line_info[i]),
		};
	}
	qsort(ret->entries, ret->count, sizeof(*ret->entries), compare_entries);
}

static void subject_deinit(struct subject *subject)
{
	for (size_t i = 0; i < subject->oracle.info.nr_jited_ksyms; i++)
		free(subject->symbols[i]);
	free(subject->symbols);
	free(subject->entries);
	btf__free(subject->btf);
	oracle_deinit(&subject->oracle);
}

/* The nearest entry at or below in the same function; the last of those that share an address. */
static const struct entry *entry_at(const struct subject *subject, uint64_t addr, size_t func)
{
	const struct entry *found = NULL;

	for (size_t i = 0; i < subject->count && subject->entries[i].addr <= addr; i++)
		if (subject->entries[i].func == func)
			found = &subject->entries[i];
	return found;
}

static char *subject_file(const struct ksymfs *fs, const struct subject *subject, const char *name)
{
	return ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/%s", subject->oracle.info.id, name);
}

/* Calls check for every program of the objects, loaded one object after the other. */
static void for_each_subject(const struct ksymfs *fs,
			     void (*check)(const struct ksymfs *fs, const struct subject *subject))
{
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
		_cleanup_object_ struct bpf_object *object = load_object(objects[i]);
		struct bpf_program *program = NULL;

		while ((program = bpf_object__next_program(object, program))) {
			struct subject subject;

			subject_init(bpf_program__fd(program), &subject);
			check(fs, &subject);
			subject_deinit(&subject);
		}
	}
}

/* ---- lines and source ---- */

static void check_lines(const struct ksymfs *fs, const struct subject *subject)
{
	_cleanup_free_ char *lines = subject_file(fs, subject, "lines");
	char *cursor = lines, *line;

	for (size_t i = 0; i < subject->count; i++) {
		const struct entry *entry = &subject->entries[i];
		_cleanup_free_ char *expected = NULL;

		assert_true(asprintf(&expected, "%016" PRIx64 " %s+0x%" PRIx64 " %s:%u:%u: %s",
				     entry->addr, subject->symbols[entry->func],
				     entry->addr - subject->oracle.ksyms[entry->func], entry->file,
				     entry->number, entry->column, entry->text) > 0);
		line = next_line(&cursor);
		assert_non_null(line);
		assert_string_equal(line, expected);
	}
	assert_null(next_line(&cursor));
}

static void test_lines(void **state)
{
	for_each_subject(*state, check_lines);
}

static void check_source(const struct ksymfs *fs, const struct subject *subject)
{
	_cleanup_free_ char *source = subject_file(fs, subject, "source");

	for (size_t i = 0; i < subject->count; i++) {
		const struct entry *entry = &subject->entries[i];
		_cleanup_free_ char *row = NULL;

		assert_true(asprintf(&row, "%s:%u:%u: %s\n", entry->file, entry->number,
				     entry->column, entry->text) > 0);

		const char *found = strstr(source, row);

		assert_non_null(found);
		assert_true(found == source || found[-1] == '\n');
		assert_null(strstr(found + 1, row));
	}
}

static void test_source(void **state)
{
	for_each_subject(*state, check_source);
}

/* ---- what tools say of elf ---- */

/* Runs a tool that must succeed and have nothing to complain of; what it wrote. Caller frees. */
static char *tool(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *tool(const char *format, ...)
{
	char command[512], out[64], err[64];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(out, sizeof(out), "%s/out", work_dir);
	snprintf(err, sizeof(err), "%s/err", work_dir);
	if (run("cd %s && (%s) >%s 2>%s", work_dir, command, out, err) != 0) {
		run("cat %s >&2", err);
		fail_msg("%s failed", command);
	}

	_cleanup_free_ char *complaints = read_path(err, NULL);

	if (*complaints)
		fail_msg("%s complains: %s", command, complaints);
	return read_path(out, NULL);
}

static bool has_tool(const char *name)
{
	return run("command -v %s >/dev/null", name) == 0;
}

static void write_elf(const struct ksymfs *fs, const struct subject *subject)
{
	size_t len;
	_cleanup_free_ char *elf =
		ksymfs_read(fs, &len, "bpf/by-id/%" PRIu32 "/elf", subject->oracle.info.id);
	char path[64];

	snprintf(path, sizeof(path), "%s/elf", work_dir);

	_cleanup_file_ FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(elf, 1, len, file), len);
}

/* A file of all addresses of all functions. */
static void write_addresses(const struct subject *subject)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/addresses", work_dir);

	_cleanup_file_ FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (size_t i = 0; i < subject->oracle.info.nr_jited_ksyms; i++)
		for (uint32_t offset = 0; offset < subject->oracle.func_lens[i]; offset++)
			fprintf(file, "0x%" PRIx64 "\n", subject->oracle.ksyms[i] + offset);
}

struct symbolizer {
	const char *name;
	const char *command;
	const char *no_line; /* what it writes for line 0 */
	bool has_column;
	bool has_blank; /* a blank line after each */
};

static const struct symbolizer symbolizers[] = {
	{"addr2line", "addr2line -f -e elf <addresses", "?", false, false},
	{"eu-addr2line", "eu-addr2line -f -e elf <addresses", "0", true, false},
	{"llvm-symbolizer", "llvm-symbolizer -e elf <addresses", "0", true, true},
};

static void check_symbolizer(const struct symbolizer *symbolizer, const struct subject *subject)
{
	_cleanup_free_ char *said = tool("%s", symbolizer->command);
	char *cursor = said;
	const struct oracle *oracle = &subject->oracle;

	for (size_t i = 0; i < oracle->info.nr_jited_ksyms; i++) {
		for (uint32_t offset = 0; offset < oracle->func_lens[i]; offset++) {
			const struct entry *entry = entry_at(subject, oracle->ksyms[i] + offset, i);
			char number[16], expected[512];

			assert_non_null(entry);
			snprintf(number, sizeof(number), "%u", entry->number);
			snprintf(expected, sizeof(expected), "%s:%s", entry->file,
				 entry->number ? number : symbolizer->no_line);
			/* elfutils leaves a column of 0 out. */
			if (symbolizer->has_column && (entry->column || symbolizer->has_blank))
				snprintf(expected + strlen(expected),
					 sizeof(expected) - strlen(expected), ":%u", entry->column);
			assert_string_equal(next_line(&cursor), subject->symbols[i]);
			assert_string_equal(next_line(&cursor), expected);
			if (symbolizer->has_blank)
				assert_string_equal(next_line(&cursor), "");
		}
	}
	assert_null(next_line(&cursor));
}

static void check_every_byte(const struct ksymfs *fs, const struct subject *subject)
{
	write_elf(fs, subject);
	write_addresses(subject);
	for (size_t i = 0; i < ARRAY_SIZE(symbolizers); i++)
		if (has_tool(symbolizers[i].name))
			check_symbolizer(&symbolizers[i], subject);
}

static void test_every_byte(void **state)
{
	for_each_subject(*state, check_every_byte);
}

static void check_readers(const struct ksymfs *fs, const struct subject *subject)
{
	static const char *const commands[] = {
		"eu-elflint --gnu-ld elf",     "eu-elflint elf",      "readelf -a -W elf",
		"readelf -wi -wa elf",	       "readelf -wr -wR elf", "eu-readelf -a elf",
		"eu-readelf -w elf",	       "objdump -x elf",      "objdump -dS elf",
		"llvm-dwarfdump --verify elf",
	};

	write_elf(fs, subject);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(commands[i], " "), commands[i]);
		if (has_tool(name))
			free(tool("%s", commands[i]));
	}

	/* nm says what ksyms says, but for the module. */
	_cleanup_free_ char *nm = tool("nm -nS elf"), *ksyms = subject_file(fs, subject, "ksyms");
	char *ours = nm, *theirs = ksyms;

	for (size_t i = 0; i < subject->oracle.info.nr_jited_ksyms; i++) {
		char *row = next_line(&theirs);

		*strchr(row, '\t') = '\0';
		assert_string_equal(next_line(&ours), row);
	}

	/* Every entry is a row of the line table: FILE LINE ADDR. */
	_cleanup_free_ char *decoded = tool("readelf -W --debug-dump=decodedline elf");

	for (size_t i = 0; i < subject->count; i++) {
		const struct entry *entry = &subject->entries[i];
		char addr[32];

		if (i + 1 < subject->count && subject->entries[i + 1].addr == entry->addr)
			continue;
		snprintf(addr, sizeof(addr), " 0x%" PRIx64 " ", entry->addr);

		const char *found = strstr(decoded, addr);

		if (!found)
			fail_msg("no row of the line table has%s", addr);
		while (found > decoded && isspace((unsigned char)found[-1]))
			found--;
		while (found > decoded && isdigit((unsigned char)found[-1]))
			found--;
		assert_int_equal(strtoul(found, NULL, 10), entry->number);
	}
}

static void test_readers(void **state)
{
	for_each_subject(*state, check_readers);
}

/* One instruction's row, `ADDR: BYTES`: what objdump and asm share. false: it is none. */
static bool parse_code_row(const char *row, bool after_tab, uint64_t *ret_addr, uint8_t *ret,
			   size_t *ret_len)
{
	char *end;

	*ret_addr = strtoull(row, &end, 16);
	*ret_len = 0;
	if (end - row < 16 || *end != ':' || (after_tab && end[1] != '\t'))
		return false;
	end += 2;
	while (*ret_len < 16 && isxdigit((unsigned char)end[0]) &&
	       isxdigit((unsigned char)end[1]) && (end[2] == ' ' || !end[2])) {
		ret[(*ret_len)++] = strtoul(end, &end, 16);
		if (*end == ' ')
			end++;
	}
	return *ret_len > 0;
}

/* A disassembly has all bytes of all functions, in order, where they are. */
static void check_code(const struct subject *subject, const char *listing, bool after_tab)
{
	const struct oracle *oracle = &subject->oracle;
	_cleanup_free_ char *copy = strdup(listing);
	char *cursor = copy, *line;
	size_t bytes = 0;

	while ((line = next_line(&cursor))) {
		uint64_t addr;
		uint8_t row[16];
		size_t len, offset = 0;

		if (!parse_code_row(line, after_tab, &addr, row, &len))
			continue;

		size_t func = func_of(oracle, addr);

		for (size_t i = 0; i < func; i++)
			offset += oracle->func_lens[i];
		assert_memory_equal(oracle->jited + offset + (addr - oracle->ksyms[func]), row,
				    len);
		bytes += len;
	}
	assert_int_equal(bytes, oracle->info.jited_prog_len);
}

/* `FILE:LINE` in objdump -dl stands before the code at each entry. */
static void check_objdump_lines(const struct subject *subject)
{
	_cleanup_free_ char *listing = tool("objdump -dl -w elf");
	char *cursor = listing, *line, *last = NULL;
	size_t found = 0;

	while ((line = next_line(&cursor))) {
		uint64_t addr;
		uint8_t row[16];
		size_t len;
		char expected[512];

		if (!parse_code_row(line, true, &addr, row, &len)) {
			if (*line == '/')
				last = line;
			continue;
		}

		const struct entry *entry =
			entry_at(subject, addr, func_of(&subject->oracle, addr));

		/* It does not write a line 0. */
		if (!entry->number || entry->addr != addr)
			continue;
		snprintf(expected, sizeof(expected), "%s:%u", entry->file, entry->number);
		assert_non_null(last);
		assert_string_equal(last, expected);
		found++;
	}
	assert_true(found > 0);
}

static void check_disassembly(const struct ksymfs *fs, const struct subject *subject)
{
	write_elf(fs, subject);

	_cleanup_free_ char *objdump = tool("objdump -d -w elf"),
			    *sources = tool("objdump -dS elf");

	check_code(subject, objdump, true);
	check_objdump_lines(subject);
	/* The sources are on this disk. */
	assert_non_null(strstr(sources, subject->entries[0].text));
	if (!asm_is_available())
		return;

	_cleanup_free_ char *assembly = subject_file(fs, subject, "asm");

	check_code(subject, assembly, false);
	for (size_t i = 0; i < subject->count; i++) {
		const struct entry *entry = &subject->entries[i];
		_cleanup_free_ char *expected = NULL;

		assert_true(asprintf(&expected, "; %s:%u:%u: %s\n%016" PRIx64 ":", entry->file,
				     entry->number, entry->column, entry->text, entry->addr) > 0);
		assert_non_null(strstr(assembly, expected));
	}
	/* A call of an own function is by its symbol. */
	for (size_t i = 1; i < subject->oracle.info.nr_jited_ksyms; i++)
		assert_true(count_lines_with(assembly, subject->symbols[i]) > 0);
}

static void test_disassembly(void **state)
{
	for_each_subject(*state, check_disassembly);
}

static void check_gdb(const struct ksymfs *fs, const struct subject *subject)
{
	char path[64];
	size_t asked = 0;

	write_elf(fs, subject);
	snprintf(path, sizeof(path), "%s/commands", work_dir);

	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs("set width 0\nset style enabled off\n", file);
	for (size_t i = 0; i < MIN(subject->count, (size_t)200); i++)
		fprintf(file, "info line *0x%" PRIx64 "\n", subject->entries[i].addr);
	fprintf(file, "disassemble /s 0x%" PRIx64 "\n", subject->oracle.ksyms[0]);
	fclose(file);

	_cleanup_free_ char *said = tool("gdb -nx -batch -x commands elf");
	char *cursor = said;

	for (size_t i = 0; i < MIN(subject->count, (size_t)200); i++) {
		const struct entry *entry = &subject->entries[i];
		char expected[512], *line = next_line(&cursor);

		assert_non_null(line);
		/* gdb gives code without a line to the line before. */
		if (!entry->number)
			continue;
		snprintf(expected, sizeof(expected), "Line %u of \"%s\" ", entry->number,
			 entry->file);
		if (strncmp(line, expected, strlen(expected)) != 0)
			fail_msg("for %" PRIx64 " gdb says: %s\nand not: %s", entry->addr, line,
				 expected);
		assert_non_null(strstr(line, subject->symbols[entry->func]));
		asked++;
	}
	assert_true(asked > 0);
	/* The rest is the disassembly of one function, with its source. */
	assert_non_null(strstr(cursor, entry_at(subject, subject->oracle.ksyms[0], 0)->text));
	assert_non_null(strstr(cursor, "End of assembler dump."));
}

static void test_gdb(void **state)
{
	if (!has_tool("gdb"))
		skip_because("no gdb");
	for_each_subject(*state, check_gdb);
}

/* ---- what is not there ---- */

static void test_without_lines(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_fd_ int fd = load_with_subprogram("no_lines", 1, 2);
	static const char *const absent[] = {"lines", "source"}, *const there[] = {"elf",
										   "xlated.txt"};
	uint32_t id = prog_id(fd);
	_cleanup_free_ char *info = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/info", id);

	for (size_t i = 0; i < ARRAY_SIZE(absent); i++) {
		struct stat st;
		char reason[64];

		assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32 "/%s", id, absent[i]),
				 -ENOENT);
		snprintf(reason, sizeof(reason), "missing: %s: ", absent[i]);
		assert_int_equal(count_lines_with_prefix(info, reason), 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(there); i++) {
		size_t len;
		_cleanup_free_ char *text =
			ksymfs_read(fs, &len, "bpf/by-id/%" PRIu32 "/%s", id, there[i]);

		assert_true(len > 0);
	}
}

/* ---- addr/ ---- */

static void check_addr(const struct ksymfs *fs, const struct subject *subject)
{
	for (size_t i = 0; i < MIN(subject->count, (size_t)100); i++) {
		const struct entry *entry = &subject->entries[i];
		_cleanup_free_ char *source =
			ksymfs_value(fs, "source", "addr/%" PRIx64, entry->addr);
		_cleanup_free_ char *expected = NULL;

		assert_true(asprintf(&expected, "%s:%u:%u: %s", entry->file, entry->number,
				     entry->column, entry->text) > 0);
		assert_non_null(source);
		assert_string_equal(source, expected);
	}
}

static void test_addr(void **state)
{
	for_each_subject(*state, check_addr);
}

/* What a stack that was sampled then would ask, when the program is long gone. */
static void test_past(void **state)
{
	const struct ksymfs *fs = *state;
	struct bpf_object *object = load_object("calls");
	struct subject subject;
	struct stat st;

	subject_init(object_prog_fd(object, "calls_main"), &subject);
	/* Somebody has looked at it while it was there. */
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32, subject.oracle.info.id), 0);

	_cleanup_free_ char *asm_before =
		asm_is_available() ? subject_file(fs, &subject, "asm") : NULL;
	uint64_t then = monotonic_ns();

	close_object(object);
	for (size_t i = 0; i < subject.count; i++) {
		const struct entry *entry = &subject.entries[i];
		_cleanup_free_ char *source = ksymfs_value(
			fs, "source", "addr/%" PRIx64 "@%" PRIu64 "ns", entry->addr, then);
		_cleanup_free_ char *expected = NULL;

		assert_true(asprintf(&expected, "%s:%u:%u: %s", entry->file, entry->number,
				     entry->column, entry->text) > 0);
		assert_non_null(source);
		assert_string_equal(source, expected);
	}
	check_lines(fs, &subject);
	check_source(fs, &subject);
	check_every_byte(fs, &subject);
	if (asm_before) {
		_cleanup_free_ char *asm_after = subject_file(fs, &subject, "asm");

		assert_string_equal(asm_after, asm_before);
	}
	subject_deinit(&subject);
}

/* ---- constant blinding ---- */

static char harden_before[8];

static void write_sysctl(const char *value)
{
	_cleanup_file_ FILE *file = fopen(HARDEN_SYSCTL, "w");

	assert_non_null(file);
	assert_true(fputs(value, file) >= 0);
}

static struct bpf_object *load_hardened(const char *name)
{
	_cleanup_free_ char *before = read_path(HARDEN_SYSCTL, NULL);

	snprintf(harden_before, sizeof(harden_before), "%s", before);
	write_sysctl("2");

	struct bpf_object *object = load_object(name);

	write_sysctl(harden_before);
	return object;
}

/* If a load failed in between. */
static int restore_harden(void **state)
{
	if (harden_before[0])
		write_sysctl(harden_before);
	return 0;
}

/* The line of each entry, without where it is now. */
static char *line_numbers(const char *lines)
{
	_cleanup_free_ char *copy = strdup(lines);
	char *cursor = copy, *line, *numbers = NULL;
	size_t size;
	FILE *out = open_memstream(&numbers, &size);

	while ((line = next_line(&cursor)))
		fprintf(out, "%s\n", strchr(strchr(line, ' ') + 1, ' '));
	fclose(out);
	return numbers;
}

/* The image is another one, the lines are the same, each where its code is now. */
static void test_hardened_single(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_object_ struct bpf_object *plain = load_object("many_lines");
	_cleanup_object_ struct bpf_object *hardened = load_hardened("many_lines");
	struct subject subject, blinded;

	subject_init(object_prog_fd(plain, "many_lines"), &subject);
	subject_init(object_prog_fd(hardened, "many_lines"), &blinded);
	assert_true(blinded.oracle.info.jited_prog_len > subject.oracle.info.jited_prog_len);
	check_lines(fs, &blinded);
	check_every_byte(fs, &blinded);

	_cleanup_free_ char *lines = subject_file(fs, &subject, "lines"),
			    *blinded_lines = subject_file(fs, &blinded, "lines");
	_cleanup_free_ char *expected = line_numbers(lines), *found = line_numbers(blinded_lines);

	assert_string_equal(found, expected);
	subject_deinit(&blinded);
	subject_deinit(&subject);
}

/* The kernel's own records are wrong for such a one: no line is better than a wrong one. */
static void test_hardened_functions(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_object_ struct bpf_object *object = load_hardened("calls");
	uint32_t id = prog_id(object_prog_fd(object, "calls_main"));
	struct stat st;

	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32 "/lines", id), -ENOENT);

	_cleanup_free_ char *info = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *source = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/source", id);
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/xlated.txt", id);

	assert_int_equal(count_lines_with_prefix(info, "missing: lines: constant blinding"), 1);
	assert_non_null(strstr(source, "return calls_global(skb)"));
	assert_int_equal(count_lines_with_prefix(text, "; "), 0);
	free(tool("eu-elflint %s/bpf/by-id/%" PRIu32 "/elf", fs->dir, id));
}

/* ---- how long it takes ---- */

static double cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static double render_all(const struct prog *prog)
{
	double start = cpu_ms();
	_cleanup_lineinfo_ struct lineinfo lines = {};
	_cleanup_text_ struct text text = {};
	_cleanup_snapshot_ struct snapshot *elf = NULL;

	assert_int_equal(lineinfo_read(prog, &lines), 0);
	lineinfo_write_lines(&lines, prog, &text);
	assert_int_equal(lineinfo_write_source(&lines, &text), 0);
	assert_int_equal(xlated_write(prog, &lines, NULL, &text), 0);
	if (asm_is_available())
		assert_int_equal(asm_write(prog, &lines, NULL, elfimage_host_machine(), &text), 0);
	assert_int_equal(elfimage_write(prog, &lines, elfimage_host_machine(), &elf), 0);
	return cpu_ms() - start;
}

static void test_time(void **state)
{
	_cleanup_object_ struct bpf_object *object = load_object("many_lines");
	struct blob_pool *pool;
	struct prog_reader *reader;
	struct prog *prog;
	double best = 1e9;

	assert_int_equal(blob_pool_create(&pool), 0);
	assert_int_equal(prog_reader_create(pool, &reader), 0);
	assert_int_equal(prog_capture(reader, prog_id(object_prog_fd(object, "many_lines")), &prog),
			 0);
	assert_true(prog->info.xlated_prog_len / sizeof(struct bpf_insn) >= 4000);
	for (int i = 0; i < 5; i++)
		best = MIN(best, render_all(prog));
	print_message("# %zu instructions, %zu records: all files in %.1f ms of CPU\n",
		      prog->info.xlated_prog_len / sizeof(struct bpf_insn),
		      lineinfo_record_count(prog), best);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(best < 20);
#endif
	prog_unref(prog);
	prog_reader_destroy(reader);
	blob_pool_destroy(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_disassembly),
		cmocka_unit_test(test_gdb),
		cmocka_unit_test(test_without_lines),
		cmocka_unit_test(test_addr),
		cmocka_unit_test(test_past),
		cmocka_unit_test_teardown(test_hardened_single, restore_harden),
		cmocka_unit_test_teardown(test_hardened_functions, restore_harden),
		cmocka_unit_test(test_time),
	};

	if (!mkdtemp(work_dir))
		return 1;

	int r = live_run(tests);

	run("rm -r %s", work_dir);
	return r;
}
