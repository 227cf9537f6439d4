/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From machine code back to source: lines, source and addr/ of programs that are loaded, unloaded
 * and hardened, against prog_info's jited_line_info, entry by entry and byte by byte.
 */
#include "core/asm.h"
#include "tests/live/subject.h"

#define HARDEN_SYSCTL "/proc/sys/net/core/bpf_jit_harden"

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

/* The function and the line of each entry, without where it is now. */
static char *line_numbers(const char *lines)
{
	_cleanup_free_ char *copy = strdup(lines);
	char *cursor = copy, *line, *numbers = NULL;
	size_t size;
	FILE *out = open_memstream(&numbers, &size);

	while ((line = next_line(&cursor))) {
		/* Behind the tag, which on 7.2 is that of the blinded code. */
		const char *symbol = strchr(line, ' ') + 1 + strlen("bpf_prog_0123456789abcdef_");

		fprintf(out, "%.*s%s\n", (int)strcspn(symbol, "+"), symbol, strchr(symbol, ' '));
	}
	fclose(out);
	return numbers;
}

/* The image is another one, the lines are the same, each where its code is now. */
static void assert_same_lines(const struct ksymfs *fs, int plain, int hardened)
{
	struct subject subject, blinded;

	subject_init(plain, &subject);
	subject_init(hardened, &blinded);
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

static void test_hardened_single(void **state)
{
	_cleanup_object_ struct bpf_object *plain = load_object("many_lines");
	_cleanup_object_ struct bpf_object *hardened = load_hardened("many_lines");

	assert_same_lines(*state, object_prog_fd(plain, "many_lines"),
			  object_prog_fd(hardened, "many_lines"));
}

/*
 * The kernel's own records are wrong for such a one (6.18; 7.2's are right): no line is better than
 * a wrong one.
 */
static void test_hardened_functions(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_object_ struct bpf_object *object = load_hardened("calls");
	uint32_t id = prog_id(object_prog_fd(object, "calls_main"));
	struct stat st;

	if (ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32 "/lines", id) == 0) {
		_cleanup_object_ struct bpf_object *plain = load_object("calls");

		assert_same_lines(fs, object_prog_fd(plain, "calls_main"),
				  object_prog_fd(object, "calls_main"));
		return;
	}
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32 "/lines", id), -ENOENT);

	_cleanup_free_ char *info = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *source = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/source", id);
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/by-id/%" PRIu32 "/xlated.txt", id);

	assert_int_equal(count_lines_with_prefix(info, "missing: lines: constant blinding"), 1);
	assert_non_null(strstr(source, "return calls_global(skb)"));
	assert_int_equal(count_lines_with_prefix(text, "; "), 0);
	free(tool("eu-elflint %s/bpf/by-id/%" PRIu32 "/elf", fs->dir, id));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_without_lines),
		cmocka_unit_test(test_addr),
		cmocka_unit_test(test_past),
		cmocka_unit_test_teardown(test_hardened_single, restore_harden),
		cmocka_unit_test_teardown(test_hardened_functions, restore_harden),
	};

	if (make_work_dir() < 0)
		return 1;

	int r = live_run(tests);

	remove_work_dir();
	return r;
}
