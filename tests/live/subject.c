/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/live/subject.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>

char work_dir[] = "/tmp/ksymfs-source-XXXXXX";

int make_work_dir(void)
{
	return mkdtemp(work_dir) ? 0 : -errno;
}

void remove_work_dir(void)
{
	run("rm -r %s", work_dir);
}

static const char *const objects[] = {"calls", "inlined", "many_lines", "sample", "xdp"};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

size_t subject_func(const struct oracle *oracle, uint64_t addr)
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

void subject_init(int fd, struct subject *ret)
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
			.func = subject_func(oracle, oracle->jited_line_info[i]),
		};
	}
	qsort(ret->entries, ret->count, sizeof(*ret->entries), compare_entries);
}

void subject_deinit(struct subject *subject)
{
	for (size_t i = 0; i < subject->oracle.info.nr_jited_ksyms; i++)
		free(subject->symbols[i]);
	free(subject->symbols);
	free(subject->entries);
	btf__free(subject->btf);
	oracle_deinit(&subject->oracle);
}

const struct entry *entry_at(const struct subject *subject, uint64_t addr, size_t func)
{
	const struct entry *found = NULL;

	for (size_t i = 0; i < subject->count && subject->entries[i].addr <= addr; i++)
		if (subject->entries[i].func == func)
			found = &subject->entries[i];
	return found;
}

char *subject_file(const struct ksymfs *fs, const struct subject *subject, const char *name)
{
	return ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/%s", subject->oracle.info.id, name);
}

void for_each_subject(const struct ksymfs *fs,
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

char *tool(const char *format, ...)
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

bool has_tool(const char *name)
{
	return run("command -v %s >/dev/null", name) == 0;
}

void write_elf(const struct ksymfs *fs, const struct subject *subject)
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

void check_every_byte(const struct ksymfs *fs, const struct subject *subject)
{
	write_elf(fs, subject);
	write_addresses(subject);
	for (size_t i = 0; i < ARRAY_SIZE(symbolizers); i++)
		if (has_tool(symbolizers[i].name))
			check_symbolizer(&symbolizers[i], subject);
}
