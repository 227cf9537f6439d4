/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * addr/ADDR@TIME for programs that were: around each change that `events` tells of, by the clock of
 * BPF programs, and questions that are none.
 */
#include "tests/live/support.h"

/* Constants that no other test's programs return, so that tags are this run's own. */
static int variant(int n)
{
	return (getpid() & 0xffff) << 12 | 0xb00 | n;
}

/* events has no fixed size: no measured reading. */
static char *read_events(const struct ksymfs *fs)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "events");

	return read_path(path, NULL);
}

/* A symbol's time, from the lines of `events`. */
struct life {
	char symbol[128];
	uint64_t addr, added, removed; /* removed: UINT64_MAX while it is loaded */
	char dir[64];
};

static void begin_life(const struct oracle *oracle, const char *name, struct life *ret)
{
	snprintf(ret->symbol, sizeof(ret->symbol), "bpf_prog_%s_%s", oracle->tag, name);
	snprintf(ret->dir, sizeof(ret->dir), "bpf/%s/%" PRIu32, oracle->tag, oracle->info.id);
	ret->addr = oracle->ksyms[0];
	ret->added = 0;
	ret->removed = UINT64_MAX;
}

/* Takes the last times of a symbol: one of one tag can have several lives. */
static void read_times(const struct ksymfs *fs, struct life *life)
{
	_cleanup_free_ char *events = read_events(fs);

	life->added = 0;
	for (char *line, *cursor = events; (line = next_line(&cursor));) {
		uint64_t seconds, ns, addr;
		char event[16], symbol[128];

		if (sscanf(line, "%" SCNu64 ".%" SCNu64 " %15s %" SCNx64 " %*s %127s", &seconds,
			   &ns, event, &addr, symbol) != 5 ||
		    addr != life->addr || strcmp(symbol, life->symbol) != 0)
			continue;
		if (strcmp(event, "ksym-add") == 0) {
			life->added = seconds * NSEC_PER_SEC + ns;
			life->removed = UINT64_MAX;
		} else if (strcmp(event, "ksym-del") == 0) {
			life->removed = seconds * NSEC_PER_SEC + ns;
		}
	}
	if (!life->added)
		fail_msg("no ksym-add of %s at %" PRIx64 " in events", life->symbol, life->addr);
}

static bool lived_at(const struct life *life, uint64_t time)
{
	return life->added <= time && time < life->removed;
}

/* Asked in seconds and in ns: this life's symbol and directory? */
static void assert_at(const struct ksymfs *fs, const struct life *life, uint64_t time)
{
	char first[160];

	for (int in_ns = 0; in_ns < 2; in_ns++) {
		char query[96];

		if (in_ns)
			snprintf(query, sizeof(query), "%" PRIx64 "@%" PRIu64 "ns", life->addr,
				 time);
		else
			snprintf(query, sizeof(query), "%" PRIx64 "@%" PRIu64 ".%09" PRIu64,
				 life->addr, time / NSEC_PER_SEC, time % NSEC_PER_SEC);
		struct stat st;

		if (ksymfs_stat(fs, &st, "addr/%s", query) < 0)
			fail_msg("addr/%s: none, not %s", query, life->symbol);
		_cleanup_free_ char *text = ksymfs_read(fs, NULL, "addr/%s", query);
		_cleanup_free_ char *dir = ksymfs_value(fs, "program", "addr/%s", query);

		snprintf(first, sizeof(first), "%s+0x0/", life->symbol);
		if (strncmp(text, first, strlen(first)) != 0)
			fail_msg("addr/%s: %s, not %s", query, text, life->symbol);
		assert_non_null(dir);
		assert_string_equal(dir, life->dir);
	}
}

/* Nor is the symbol of this life named when it is not its time. */
static void assert_not_at(const struct ksymfs *fs, const struct life *life, uint64_t time)
{
	struct stat st;

	if (ksymfs_stat(fs, &st, "addr/%" PRIx64 "@%" PRIu64 "ns", life->addr, time) < 0)
		return;
	/* Another's, then. */
	_cleanup_free_ char *dir =
		ksymfs_value(fs, "program", "addr/%" PRIx64 "@%" PRIu64 "ns", life->addr, time);

	assert_true(!dir || strcmp(dir, life->dir) != 0);
}

/* Around every change of the one and of the other. */
static void assert_lives(const struct ksymfs *fs, const struct life *a, const struct life *b)
{
	const uint64_t changes[] = {a->added, a->removed, b->added, b->removed};
	static const int64_t sides[] = {-1000, -1, 0, 1, 1000};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		for (size_t j = 0; changes[i] != UINT64_MAX && j < ARRAY_SIZE(sides); j++) {
			uint64_t time = changes[i] + (uint64_t)sides[j];

			assert_false(lived_at(a, time) && lived_at(b, time));
			(lived_at(a, time) ? assert_at : assert_not_at)(fs, a, time);
			(lived_at(b, time) ? assert_at : assert_not_at)(fs, b, time);
		}
	}
}

#define LIVES 224 /* variants from 16 to 239 */

static void test_one_address(void **state)
{
	struct life lives[LIVES];
	_cleanup_fd_ int prog = -1;
	struct life *a = NULL, *b = NULL;

	/* Of equal size, so that the kernel's allocator comes back to a place. */
	for (int i = 0; i < LIVES && !a; i++) {
		struct oracle oracle;

		if (prog >= 0)
			unload(prog);
		prog = load_simple("retain_life", variant(16 + i));
		oracle_read(prog, &oracle);
		b = &lives[i];
		begin_life(&oracle, "retain_life", b);
		oracle_deinit(&oracle);
		for (int j = i - 1; j >= 0 && !a; j--)
			if (lives[j].addr == b->addr)
				a = &lives[j];
	}
	if (!a)
		fail_msg("%d loads, and no address came again", LIVES);
	read_times(*state, a);
	read_times(*state, b);
	assert_true(a->removed <= b->added);
	assert_int_equal(b->removed, UINT64_MAX);
	assert_lives(*state, a, b);
	unload(prog);
	prog = -1;
	read_times(*state, b);
	assert_true(b->removed != UINT64_MAX);
	assert_lives(*state, a, b);
	assert_at(*state, a, a->added + (a->removed - a->added) / 2);
	assert_at(*state, b, b->added + (b->removed - b->added) / 2);
}

/* The same program twice: one tag, one symbol, two lives with a directory each. */
static void test_reload(void **state)
{
	struct life lives[2];
	struct oracle oracles[2];
	char *infos[2];

	for (int i = 0; i < 2; i++) {
		int prog = load_simple("retain_again", variant(1));

		oracle_read(prog, &oracles[i]);
		begin_life(&oracles[i], "retain_again", &lives[i]);
		unload(prog);
		read_times(*state, &lives[i]);
		infos[i] = ksymfs_read(*state, NULL, "%s/info", lives[i].dir);
	}
	assert_string_equal(oracles[0].tag, oracles[1].tag);
	assert_int_not_equal(oracles[0].info.id, oracles[1].info.id);
	assert_true(lives[0].removed < lives[1].added);
	for (int i = 0; i < 2; i++) {
		_cleanup_free_ char *info = ksymfs_read(*state, NULL, "%s/info", lives[i].dir);

		/* The other's life is none of its business. */
		assert_string_equal(info, infos[i]);
		size_t len;
		_cleanup_free_ char *jited = ksymfs_read(*state, &len, "%s/jited", lives[i].dir);

		assert_int_equal(len, oracles[i].info.jited_prog_len);
		assert_memory_equal(jited, oracles[i].jited, len);
		assert_at(*state, &lives[i], lives[i].added);
		assert_at(*state, &lives[i], lives[i].removed - 1);
		assert_not_at(*state, &lives[i], lives[i].added - 1);
		assert_not_at(*state, &lives[i], lives[i].removed);
		free(infos[i]);
		oracle_deinit(&oracles[i]);
	}
}

/* The answer for a sampled address at its time: symbol, program and source, loaded or not. */
static void test_sample(void **state)
{
	struct bpf_object *object = load_object("sample");
	int prog = dup(object_prog_fd(object, "sample_self"));
	struct sample sample;
	struct oracle oracle;
	uint64_t addr = 0;
	char prefix[128];

	assert_return_code(prog, errno);
	oracle_read(prog, &oracle);
	take_sample(object, &sample);
	for (int64_t i = 0; i < sample.len / 8 && !addr; i++)
		if (sample.stack[i] - oracle.ksyms[0] < oracle.func_lens[0])
			addr = sample.stack[i];
	assert_true(addr != 0);
	/* A return address: the call is before it. */
	_cleanup_free_ char *now = ksymfs_read(*state, NULL, "addr/%" PRIx64 "-1", addr);

	snprintf(prefix, sizeof(prefix), "bpf_prog_%s_sample_self+0x", oracle.tag);
	assert_int_equal(strncmp(now, prefix, strlen(prefix)), 0);
	assert_int_equal(count_lines_with_prefix(now, "program: bpf/"), 1);
	assert_int_equal(count_lines_with(now, "sample.bpf.c:"), 1);
	for (int unloaded = 0; unloaded < 2; unloaded++) {
		_cleanup_free_ char *in_ns = ksymfs_read(
			*state, NULL, "addr/%" PRIx64 "-1@%" PRIu64 "ns", addr, sample.time);
		_cleanup_free_ char *in_seconds =
			ksymfs_read(*state, NULL, "addr/%" PRIx64 "-1@%" PRIu64 ".%09" PRIu64, addr,
				    sample.time / NSEC_PER_SEC, sample.time % NSEC_PER_SEC);

		assert_string_equal(in_ns, now);
		assert_string_equal(in_seconds, now);
		if (unloaded)
			break;
		close_object(object);
		unload(prog);
	}
	/* And now it is gone, whoever has its place. */
	struct stat st;

	if (ksymfs_stat(*state, &st, "addr/%" PRIx64 "-1", addr) == 0) {
		_cleanup_free_ char *text = ksymfs_read(*state, NULL, "addr/%" PRIx64 "-1", addr);

		assert_string_not_equal(text, now);
	}
	oracle_deinit(&oracle);
}

#define TEN_DIGITS     "1234567890"
#define FIFTY_DIGITS   TEN_DIGITS TEN_DIGITS TEN_DIGITS TEN_DIGITS TEN_DIGITS
#define HUNDRED_DIGITS FIFTY_DIGITS FIFTY_DIGITS

/* After `addr/` and after the address of something that is there: the time is what is bad. */
static void test_bad_questions(void **state)
{
	static const char *const whole[] = {
		"zz",
		"1@",
		"1@-5",
		"1@99999999999",
		HUNDRED_DIGITS,
		"0x" HUNDRED_DIGITS,
		"1@" HUNDRED_DIGITS,
		"1/2",
		"zz/1",
		"1@1/2",
		"1@1.5/2",
		"@",
		"@1",
		"0x",
		"-1",
	};
	static const char *const times[] = {
		"@",
		"@-5",
		"@x",
		"@ns",
		"@1x",
		"@.5",
		"@1.",
		"@1.0000000001",
		"@1@2",
		"@" HUNDRED_DIGITS,
		"@" HUNDRED_DIGITS "ns",
		"@1." HUNDRED_DIGITS,
		"@18446744073709551615ns",
		"@18446744073709551616ns",
		"@18446744074",
		"-2",
		"+1",
		"@1-1",
	};
	_cleanup_fd_ int prog = load_simple("retain_bad", variant(2));
	struct oracle oracle;

	oracle_read(prog, &oracle);
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
		int fd = ksymfs_open(*state, "addr/%s", whole[i]);

		if (fd != -ENOENT && fd != -EINVAL)
			fail_msg("addr/%s: %d", whole[i], fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		int fd = ksymfs_open(*state, "addr/%" PRIx64 "%s", oracle.ksyms[0], times[i]);

		if (fd != -ENOENT && fd != -EINVAL)
			fail_msg("addr/ADDR%s: %d", times[i], fd);
	}
	/* Below what answers, nothing: the kernel itself says so of any file. */
	assert_int_equal(ksymfs_open(*state, "addr/%" PRIx64 "/1", oracle.ksyms[0]), -ENOTDIR);
	/* The address was a good one. */
	_cleanup_fd_ int good = ksymfs_open(*state, "addr/%" PRIx64, oracle.ksyms[0]);

	assert_return_code(good, -good);
	oracle_deinit(&oracle);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_bad_questions),
	};
	/* Strangers unload programs too, and none of ours is to leave for theirs. */
	static const char *const options[] = {"--retain-bytes=512M", NULL};

	return live_run_options(tests, options);
}
