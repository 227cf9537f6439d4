/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program's elf and asm, as everyday tools read them. */
#include <ctype.h>

#include "core/asm.h"
#include "tests/live/subject.h"

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

		size_t func = subject_func(oracle, addr);

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
			entry_at(subject, addr, subject_func(&subject->oracle, addr));

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_disassembly),
		cmocka_unit_test(test_gdb),
	};

	if (make_work_dir() < 0)
		return 1;

	int r = live_run(tests);

	remove_work_dir();
	return r;
}
