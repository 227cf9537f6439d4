/* SPDX-License-Identifier: GPL-2.0-or-later */
/* addr/ of the present and of the past, with programs whose addresses are used again. */
#include "tests/live/support.h"

#include <bpf/libbpf.h>
#include <fcntl.h>

static int variant(int n)
{
	return (getpid() & 0xffff) << 12 | 0x900 | n;
}

/* The first line of an answer, without its newline; NULL if there is no such file. */
static char *answer(const struct ksymfs *fs, const char *format, ...)
{
	_cleanup_free_ char *query = NULL;
	struct stat st;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&query, format, args) > 0);
	va_end(args);
	if (ksymfs_stat(fs, &st, "addr/%s", query) < 0)
		return NULL;
	char *text = ksymfs_read(fs, NULL, "addr/%s", query), *cursor = text;

	return next_line(&cursor);
}

/* Does an answer (taken) name this symbol? */
static bool names(char *line, const char *symbol)
{
	size_t len = strlen(symbol);
	bool ret = line && strncmp(line, symbol, len) == 0 && line[len] == '+';

	free(line);
	return ret;
}

static void symbol_of(const struct oracle *oracle, const char *name, char ret[128])
{
	snprintf(ret, 128, "bpf_prog_%s_%s", oracle->tag, name);
}

static void test_present(void **state)
{
	_cleanup_fd_ int prog = load_long("addr_now", variant(1), 20);
	char symbol[128], expected[256];
	struct oracle oracle;

	oracle_read(prog, &oracle);
	symbol_of(&oracle, "addr_now", symbol);
	uint64_t start = oracle.ksyms[0];
	uint32_t len = oracle.func_lens[0];

	for (uint32_t i = 0; i < len; i++) {
		_cleanup_free_ char *line = answer(*state, "%" PRIx64, start + i);
		_cleanup_free_ char *before = answer(*state, "0X%" PRIX64 "-1", start + i + 1);

		snprintf(expected, sizeof(expected), "%s+0x%x/0x%x [bpf]", symbol, i, len);
		assert_non_null(line);
		assert_string_equal(line, expected);
		assert_non_null(before);
		assert_string_equal(before, expected);
	}
	assert_false(names(answer(*state, "%" PRIx64, start + len), symbol));
	assert_false(names(answer(*state, "%" PRIx64 "-1", start), symbol));

	_cleanup_free_ char *program = ksymfs_value(*state, "program", "addr/%" PRIx64, start);

	snprintf(expected, sizeof(expected), "bpf/%s/%" PRIu32, oracle.tag, oracle.info.id);
	assert_non_null(program);
	assert_string_equal(program, expected);
	unload(prog);
	prog = -1;
	assert_false(names(answer(*state, "%" PRIx64, start), symbol));
	oracle_deinit(&oracle);
}

static void test_no_question(void **state)
{
	static const char *const bad[] = {
		"zz",
		"1@",
		"1@-5",
		"1@99999999999",
		"1@x",
		"-1",
		"ffffffff81000000/x",
		"ffffffff81000000@1/2",
		"0",
		"ffffffffffffffff",
		"1111111111111111111111111111111111111111111111111111111111111111111111111111111111"
		"111111111111111111",
		"1@1111111111111111111111111111111111111111111111111111111111111111111111111111111"
		"111111111111111111",
	};
	_cleanup_free_ char *dir = ksymfs_path(*state, "addr");

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int fd = ksymfs_open(*state, "addr/%s", bad[i]);

		if (fd != -ENOENT && fd != -EINVAL && fd != -ENOTDIR)
			fail_msg("addr/%s: %d", bad[i], fd);
	}
	assert_int_equal(run("test -z \"$(ls -A %s)\"", dir), 0);
}

/* Core symbols have always been there. */
static void test_core_symbols(void **state)
{
	struct symbol_list list;

	ksyms_parse(ksymfs_read(*state, NULL, "ksyms"), &list);
	const struct symbol_row *row = symbol_find(&list, "vfs_read", NULL);

	assert_non_null(row);
	assert_true(names(answer(*state, "%" PRIx64, row->addr), "vfs_read"));
	assert_true(names(answer(*state, "%" PRIx64 "@0", row->addr), "vfs_read"));
	assert_true(names(answer(*state, "%" PRIx64 "@9999999999", row->addr), "vfs_read"));
	assert_true(
		names(answer(*state, "%" PRIx64 "@%" PRIu64 "ns", row->addr + 1, monotonic_ns()),
		      "vfs_read"));
	symbol_list_deinit(&list);
}

/* When `events` says that a symbol came or went, in ns; the last time that it did. */
static uint64_t event_time(const struct ksymfs *fs, const char *event, const char *symbol)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "events");
	_cleanup_free_ char *events = read_path(path, NULL);
	char needle[256];
	uint64_t ret = 0;

	for (char *line, *cursor = events; (line = next_line(&cursor));) {
		uint64_t seconds, ns;

		/* SECONDS.NS EVENT ADDR LEN SYMBOL */
		snprintf(needle, sizeof(needle), " %s ", event);
		const char *name = strstr(line, symbol);

		if (!strstr(line, needle) || !name || name[-1] != ' ' ||
		    (name[strlen(symbol)] && name[strlen(symbol)] != ' '))
			continue;
		assert_int_equal(sscanf(line, "%" SCNu64 ".%" SCNu64, &seconds, &ns), 2);
		ret = seconds * NSEC_PER_SEC + ns;
	}
	if (!ret)
		fail_msg("no %s of %s in events", event, symbol);
	return ret;
}

/* Asks in seconds, as people and perf script write them. */
static char *answer_at(const struct ksymfs *fs, uint64_t addr, uint64_t time)
{
	return answer(fs, "%" PRIx64 "@%" PRIu64 ".%09" PRIu64, addr, time / NSEC_PER_SEC,
		      time % NSEC_PER_SEC);
}

struct life {
	char symbol[128];
	uint64_t addr, during;
	uint32_t id;
};

/* Loads a program, looks where it is, and unloads it. */
static void live_once(int n, struct life *ret)
{
	_cleanup_fd_ int prog = load_simple("addr_life", variant(n));
	struct oracle oracle;

	oracle_read(prog, &oracle);
	symbol_of(&oracle, "addr_life", ret->symbol);
	ret->addr = oracle.ksyms[0];
	ret->id = oracle.info.id;
	ret->during = monotonic_ns();
	oracle_deinit(&oracle);
}

static void assert_lived(const struct ksymfs *fs, const struct life *life)
{
	uint64_t added = event_time(fs, "ksym-add", life->symbol);
	uint64_t removed = event_time(fs, "ksym-del", life->symbol);

	if (life->during <= added || life->during >= removed)
		fail_msg("%s was there at %" PRIu64 ", but added at %" PRIu64
			 " and removed at %" PRIu64,
			 life->symbol, life->during, added, removed);
	assert_true(names(answer_at(fs, life->addr, life->during), life->symbol));
	assert_true(names(answer_at(fs, life->addr, added), life->symbol));
	assert_true(names(answer_at(fs, life->addr, added + 1000), life->symbol));
	assert_true(names(answer_at(fs, life->addr, removed - 1000), life->symbol));
	assert_true(names(answer_at(fs, life->addr, removed - 1), life->symbol));
	/* Up to its removal, and not at it. */
	assert_false(names(answer_at(fs, life->addr, removed), life->symbol));
	assert_false(names(answer_at(fs, life->addr, removed + 1000), life->symbol));
	assert_false(names(answer_at(fs, life->addr, added - 1), life->symbol));
	assert_false(names(answer_at(fs, life->addr, added - 1000), life->symbol));
}

static bool is_reused(const struct life *lives, int n)
{
	for (int i = 0; i < n; i++) {
		if (lives[i].addr == lives[n].addr)
			return true;
	}
	return false;
}

/*
 * One address, several lives: each is named in its own time. The kernel takes its addresses by
 * chance, so this goes on until some have come again.
 */
static void test_reused_address(void **state)
{
	static struct life lives[4096];
	int count = 0, found = 0;

	for (; count < (int)ARRAY_SIZE(lives) && (count < 64 || found < 3); count++) {
		live_once(10 + count, &lives[count]);
		if (!is_reused(lives, count))
			continue;
		assert_lived(*state, &lives[count]);
		found++;
	}
	assert_true(found > 0);
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *program = NULL, *expected = NULL;

		/* A look into all of `events` for each would take minutes. */
		if (i < 64)
			assert_lived(*state, &lives[i]);
		program = ksymfs_value(*state, "program", "addr/%" PRIx64 "@%" PRIu64 "ns",
				       lives[i].addr, lives[i].during);
		assert_true(asprintf(&expected, "bpf/%.16s/%" PRIu32, lives[i].symbol + 9,
				     lives[i].id) > 0);
		assert_non_null(program);
		assert_string_equal(program, expected);
	}
}

/* The clock is the one that a BPF program reads: what it sampled resolves, though it has gone. */
static void test_sample(void **state)
{
	struct bpf_object *object = load_object("sample");
	struct sample sample;
	struct oracle oracle;
	char symbol[128];
	bool found = false;

	oracle_read(object_prog_fd(object, "sample_self"), &oracle);
	symbol_of(&oracle, "sample_self", symbol);
	take_sample(object, &sample);
	close_object(object);
	for (int i = 0; i < sample.len / 8; i++) {
		if (sample.stack[i] - oracle.ksyms[0] >= oracle.func_lens[0])
			continue;
		assert_true(names(answer_at(*state, sample.stack[i], sample.time), symbol));
		found = true;
	}
	assert_true(found);
	oracle_deinit(&oracle);
}

/* The future is not known, nor is what was before the daemon. */
static void test_outside_of_memory(void **state)
{
	_cleanup_fd_ int prog = load_simple("addr_far", variant(2));
	struct oracle oracle;

	oracle_read(prog, &oracle);
	assert_null(answer(*state, "%" PRIx64 "@1", oracle.ksyms[0]));
	assert_null(answer(*state, "%" PRIx64 "@9999999999", oracle.ksyms[0]));
	oracle_deinit(&oracle);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_present),	     cmocka_unit_test(test_no_question),
		cmocka_unit_test(test_core_symbols), cmocka_unit_test(test_reused_address),
		cmocka_unit_test(test_sample),	     cmocka_unit_test(test_outside_of_memory),
	};

	return live_run(tests);
}
