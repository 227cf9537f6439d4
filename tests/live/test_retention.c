/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What outlives an unload: a program's files until the bounds push them out, who stands for a tag,
 * and addresses that are asked for at a time. The oracle is what a held fd said before its close.
 */
#include "tests/live/support.h"

#include <fcntl.h>

/* Constants that no other test's programs return, so that tags are this run's own. */
static int variant(int n)
{
	return (getpid() & 0xffff) << 12 | 0xc00 | n;
}

/* events has no fixed size: no measured reading. */
static char *read_events(const struct ksymfs *fs)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "events");

	return read_path(path, NULL);
}

static void assert_jited(const struct ksymfs *fs, const char *dir, const struct oracle *oracle)
{
	size_t len;
	_cleanup_free_ char *jited = ksymfs_read(fs, &len, "bpf/%s/jited", dir);

	if (len != oracle->info.jited_prog_len || memcmp(jited, oracle->jited, len) != 0)
		fail_msg("bpf/%s/jited: %zu bytes, not the kernel's %" PRIu32, dir, len,
			 oracle->info.jited_prog_len);
}

static bool has_dir(const struct ksymfs *fs, const char *tag, uint32_t id)
{
	struct stat st;

	return ksymfs_stat(fs, &st, "bpf/%s/%" PRIu32, tag, id) == 0;
}

/* Unloads a program of an object, and the object: returns when the id has gone. */
static void unload_object(struct bpf_object *object, const char *prog_name)
{
	int prog = dup(object_prog_fd(object, prog_name));

	assert_return_code(prog, errno);
	close_object(object);
	unload(prog);
}

/* ---- a program's files ---- */

/* The code of each function is in an ELF object, at whatever offset. */
static void assert_elf_has_code(const char *elf, size_t elf_len, const struct oracle *oracle)
{
	const uint8_t *code = oracle->jited;

	assert_true(elf_len > 4);
	assert_memory_equal(elf, "\177ELF", 4);
	for (uint32_t i = 0; i < oracle->info.nr_jited_func_lens; i++) {
		assert_non_null(memmem(elf, elf_len, code, oracle->func_lens[i]));
		code += oracle->func_lens[i];
	}
}

/* Nobody looks while the program is loaded: all there is was captured at its load. */
static void test_nobody_looked(void **state)
{
	struct bpf_object *object = load_object("calls");
	struct oracle oracle;
	char dir[64];
	size_t len;

	oracle_read(object_prog_fd(object, "calls_main"), &oracle);
	unload_object(object, "calls_main");
	snprintf(dir, sizeof(dir), "%s/%" PRIu32, oracle.tag, oracle.info.id);
	assert_jited(*state, dir, &oracle);

	_cleanup_free_ char *xlated = ksymfs_read(*state, &len, "bpf/%s/xlated", dir);

	assert_int_equal(len, oracle.info.xlated_prog_len);
	assert_memory_equal(xlated, oracle.xlated, len);

	_cleanup_free_ char *btf = ksymfs_read(*state, &len, "bpf/%s/btf", dir);

	assert_int_equal(len, oracle.btf_len);
	assert_memory_equal(btf, oracle.btf, len);

	_cleanup_free_ char *elf = ksymfs_read(*state, &len, "bpf/%s/elf", dir);

	assert_elf_has_code(elf, len, &oracle);

	_cleanup_free_ char *unloaded = ksymfs_value(*state, "state", "bpf/%s/info", dir);

	assert_string_equal(unloaded, "unloaded");
	oracle_deinit(&oracle);
}

/* Files that are the same before the unload and after it. */
static void test_files_stay(void **state)
{
	static const char *const files[] = {
		"btf", "elf", "jited", "ksyms", "lines", "maps", "source", "xlated", "xlated.txt",
	};
	struct bpf_object *object = load_object("calls");
	char *before[ARRAY_SIZE(files)];
	size_t lens[ARRAY_SIZE(files)];
	struct oracle oracle;
	char dir[64];

	oracle_read(object_prog_fd(object, "calls_main"), &oracle);
	snprintf(dir, sizeof(dir), "%s/%" PRIu32, oracle.tag, oracle.info.id);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		before[i] = ksymfs_read(*state, &lens[i], "bpf/%s/%s", dir, files[i]);
	_cleanup_free_ char *info_before = ksymfs_read(*state, NULL, "bpf/%s/info", dir);

	unload_object(object, "calls_main");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		size_t len;
		_cleanup_free_ char *after = ksymfs_read(*state, &len, "bpf/%s/%s", dir, files[i]);

		if (len != lens[i] || memcmp(after, before[i], len) != 0)
			fail_msg("bpf/%s/%s is another after the unload", dir, files[i]);
		free(before[i]);
	}
	_cleanup_free_ char *info_after = ksymfs_read(*state, NULL, "bpf/%s/info", dir);
	char *fixed_before = info_before, *fixed_after = info_after;

	assert_string_equal(next_line(&fixed_before), "state: loaded");
	assert_string_equal(next_line(&fixed_before), "unloaded_at: -");
	assert_string_equal(next_line(&fixed_after), "state: unloaded");
	assert_int_equal(strncmp(next_line(&fixed_after), "unloaded_at: 1", 14), 0);
	assert_true(strlen(fixed_before) > 0);
	assert_string_equal(fixed_after, fixed_before);
	oracle_deinit(&oracle);
}

/* ---- eviction ---- */

/* Which of these ids does one state of bpf/programs have, as `unloaded`? 0, 1 for each. */
static void find_retained(const struct ksymfs *fs, const uint32_t *ids, size_t count, bool *ret)
{
	_cleanup_free_ char *programs = ksymfs_read(fs, NULL, "bpf/programs");

	memset(ret, 0, count * sizeof(*ret));
	for (char *line, *cursor = programs; (line = next_line(&cursor));) {
		char word[16];
		uint32_t id;

		assert_int_equal(sscanf(line, "%" SCNu32 " %*s %15s", &id, word), 2);
		for (size_t i = 0; i < count; i++)
			ret[i] |= ids[i] == id && strcmp(word, "unloaded") == 0;
	}
}

struct wait_for_eviction {
	const struct ksymfs *fs;
	const uint32_t *ids;
	bool retained[2];
};

static bool first_has_left(void *arg)
{
	struct wait_for_eviction *wait = arg;

	find_retained(wait->fs, wait->ids, 2, wait->retained);
	return !wait->retained[0];
}

static bool second_has_left(void *arg)
{
	struct wait_for_eviction *wait = arg;

	find_retained(wait->fs, wait->ids, 2, wait->retained);
	return !wait->retained[1];
}

static bool is_past(void *arg)
{
	return monotonic_ns() >= *(uint64_t *)arg;
}

static void test_eviction_by_time(void **state)
{
	static const char *const options[] = {"--retain-time=1s", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	_cleanup_fd_ int kept = load_simple("retain_kept", variant(1));
	/* The one that is loaded last leaves first: it is unloaded first. */
	int second = load_simple("retain_second", variant(2));
	int first = load_simple("retain_first", variant(3));
	struct oracle oracle, oracle_kept;
	uint32_t ids[2] = {prog_id(first), prog_id(second)};
	struct wait_for_eviction wait = {.fs = fs, .ids = ids};

	(void)state;
	oracle_read(first, &oracle);
	oracle_read(kept, &oracle_kept);
	uint64_t during = monotonic_ns(), closed_first = monotonic_ns();

	close(first);
	assert_true(has_dir(fs, oracle.tag, ids[0]));
	uint64_t later = monotonic_ns() + NSEC_PER_SEC / 3;

	assert_true(wait_until(is_past, &later, 5));
	uint64_t closed_second = monotonic_ns();

	close(second);
	assert_true(wait_until(first_has_left, &wait, 10));
	uint64_t left = monotonic_ns();

	assert_true(left - closed_first >= NSEC_PER_SEC);
	/* Busy neighbours may make it late, not by much. */
	assert_true(left - closed_first < 4 * NSEC_PER_SEC);
	assert_true(wait.retained[1] || left - closed_second >= NSEC_PER_SEC);
	assert_true(wait_until(second_has_left, &wait, 10));
	assert_true(monotonic_ns() - closed_second >= NSEC_PER_SEC);

	/* Every way to it has gone, and what its address was then. */
	struct stat st;

	assert_false(has_dir(fs, oracle.tag, ids[0]));
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/%s", oracle.tag), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32, ids[0]), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-name/retain_first/%" PRIu32, ids[0]),
			 -ENOENT);
	assert_int_equal(ksymfs_open(fs, "addr/%" PRIx64 "@%" PRIu64 "ns", oracle.ksyms[0], during),
			 -ENOENT);
	/* The loaded one is as old, and stays. */
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/%" PRIu32, oracle_kept.tag, oracle_kept.info.id);
	assert_jited(fs, dir, &oracle_kept);
	oracle_deinit(&oracle);
	oracle_deinit(&oracle_kept);
}

#define EVICTED_BYTES 262144
#define EVICTED_INSNS 2000 /* of 8 bytes, and as much machine code: ten programs fill the bound */
#define EVICTED_COUNT 24

/* Loads many and unloads them in another order; the ids in the order of their unload. */
static void unload_many(uint32_t ids[EVICTED_COUNT])
{
	int fds[EVICTED_COUNT];

	for (int i = 0; i < EVICTED_COUNT; i++)
		fds[i] = load_long("retain_many", variant(10 + i), EVICTED_INSNS);
	for (int i = 0; i < EVICTED_COUNT; i++) {
		/* 7 has no factor in common with 24: each once. */
		int fd = fds[i * 7 % EVICTED_COUNT];

		ids[i] = prog_id(fd);
		unload(fd);
	}
}

static void test_eviction_by_bytes(void **state)
{
	static const char *const options[] = {"--retain-bytes=256K", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	/* Alone larger than the bound, and older than all. */
	_cleanup_fd_ int kept = load_long("retain_kept", variant(4), 30000);
	bool retained[EVICTED_COUNT] = {};
	uint32_t ids[EVICTED_COUNT];
	struct oracle oracle;
	int left = 0;

	(void)state;
	oracle_read(kept, &oracle);
	assert_true(oracle.info.jited_prog_len + oracle.info.xlated_prog_len > EVICTED_BYTES);
	/* A stranger's unloads can push out ours at once: then again. */
	for (int i = 0; i < 5 && !retained[EVICTED_COUNT - 1]; i++) {
		unload_many(ids);
		find_retained(fs, ids, EVICTED_COUNT, retained);
	}
	assert_true(retained[EVICTED_COUNT - 1]);
	/* What is left are the last to be unloaded, without a gap. */
	for (int i = 0; i < EVICTED_COUNT; i++) {
		if (retained[i])
			left++;
		else if (left)
			fail_msg("number %d by unload has left, number %d has not", i, i - 1);
	}
	assert_true(left < EVICTED_COUNT);
	_cleanup_free_ char *bytes = ksymfs_value(fs, "retained_bytes", "status");

	assert_true(strtoull(bytes, NULL, 10) <= EVICTED_BYTES);
	/* The bound is of what is unloaded, however large what is loaded. */
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/%" PRIu32, oracle.tag, oracle.info.id);
	assert_jited(fs, dir, &oracle);
	oracle_deinit(&oracle);
}

/* ---- one tag, several programs ---- */

/* As load_twin(), with a tag that no stranger's twins have. */
static int load_own_twin(int n, int map_fd)
{
	const struct bpf_insn insns[] = {
		INSN_LD_MAP_FD(BPF_REG_1, map_fd),
		INSN_MOV_REG(BPF_REG_2, BPF_REG_10),
		INSN_ADD_IMM(BPF_REG_2, -4),
		INSN(BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0),
		INSN_HELPER(BPF_FUNC_map_lookup_elem),
		INSN_MOV_IMM(BPF_REG_0, variant(n)),
		INSN_EXIT,
	};
	int fd = load_insns(BPF_PROG_TYPE_SOCKET_FILTER, "retain_twin", insns, ARRAY_SIZE(insns));

	assert_return_code(fd, -fd);
	return fd;
}

#define TWINS_MAX 4

struct twin {
	struct oracle oracle;
	int fd; /* -1: unloaded */
};

/* A loaded one stands for the tag, then the newest; each keeps its own image. */
static void assert_twins(const struct ksymfs *fs, const struct twin *twins, size_t count,
			 const char *script, size_t step)
{
	const struct twin *standing = NULL;
	char dir[64], target[64] = "", expected[64];

	/* In the order of their loads: the later is the newer. */
	for (size_t i = 0; i < count; i++) {
		if (!standing || twins[i].fd >= 0 || standing->fd < 0)
			standing = &twins[i];
		snprintf(dir, sizeof(dir), "%s/%" PRIu32, twins[i].oracle.tag,
			 twins[i].oracle.info.id);
		assert_jited(fs, dir, &twins[i].oracle);
		_cleanup_free_ char *word = ksymfs_value(fs, "state", "bpf/%s/info", dir);

		assert_string_equal(word, twins[i].fd >= 0 ? "loaded" : "unloaded");
	}
	_cleanup_free_ char *link = ksymfs_path(fs, "bpf/%s/jited", standing->oracle.tag);

	snprintf(expected, sizeof(expected), "%" PRIu32 "/jited", standing->oracle.info.id);
	assert_return_code(readlink(link, target, sizeof(target) - 1), errno);
	if (strcmp(target, expected) != 0)
		fail_msg("%s, step %zu: jited leads to %s, not %s", script, step, target, expected);
	assert_jited(fs, standing->oracle.tag, &standing->oracle);
}

/* A script: `a` loads the one with map a, `A` unloads it; `b` the other. */
static void play_twins(const struct ksymfs *fs, const char *script, int n)
{
	_cleanup_fd_ int map_a = make_map("a", 4), map_b = make_map("b", 4);
	struct twin twins[TWINS_MAX];
	struct twin *of[2] = {NULL, NULL};
	size_t count = 0;

	for (size_t step = 0; script[step]; step++) {
		int which = (script[step] | 0x20) - 'a';

		if (script[step] >= 'a') {
			struct twin *twin = of[which] = &twins[count++];

			assert_true(count <= TWINS_MAX);
			twin->fd = load_own_twin(n, which ? map_b : map_a);
			oracle_read(twin->fd, &twin->oracle);
			assert_string_equal(twin->oracle.tag, twins[0].oracle.tag);
		} else {
			unload(of[which]->fd);
			of[which]->fd = -1;
		}
		assert_twins(fs, twins, count, script, step);
	}
	/* Else the test would show nothing. */
	assert_true(memcmp(of[0]->oracle.jited, of[1]->oracle.jited,
			   of[0]->oracle.info.jited_prog_len) != 0);
	for (size_t i = 0; i < count; i++)
		oracle_deinit(&twins[i].oracle);
}

static void test_twins(void **state)
{
	static const char *const scripts[] = {
		"abAB", "abBA", "baAB", "baBA", "aAbB", "bBaA", "abAaBA", "abBbAB",
	};

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
		play_twins(*state, scripts[i], 40 + (int)i);
}

/* ---- addresses and times ---- */

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

#define LIVES 300

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
		prog = load_simple("retain_life", variant(100 + i));
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
		int prog = load_simple("retain_again", variant(5));

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
		assert_jited(*state, lives[i].dir + strlen("bpf/"), &oracles[i]);
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
	struct sample sample;
	struct oracle oracle;
	uint64_t addr = 0;
	char prefix[128];

	oracle_read(object_prog_fd(object, "sample_self"), &oracle);
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
		if (!unloaded)
			unload_object(object, "sample_self");
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
	_cleanup_fd_ int prog = load_simple("retain_bad", variant(6));
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

/* ---- programs that are closed at once ---- */

#define BURST 500

struct burst {
	size_t symbols; /* ksym-add lines */
	size_t loads;	/* prog-load lines */
	size_t whole;	/* of those, programs that were captured */
	uint64_t lost;	/* records of which `lost` lines tell */
};

static void count_burst(const struct ksymfs *fs, const struct oracle *twin, struct burst *ret)
{
	_cleanup_free_ char *events = read_events(fs);
	char symbol[128], tag[64];

	snprintf(symbol, sizeof(symbol), " bpf_prog_%s_retain_burst ", twin->tag);
	snprintf(tag, sizeof(tag), " tag=%s ", twin->tag);
	*ret = (struct burst){};
	for (char *line, *cursor = events; (line = next_line(&cursor));) {
		uint64_t lost;
		uint32_t id;
		struct stat st;

		if (sscanf(line, "%*s lost records=%" SCNu64, &lost) == 1)
			ret->lost += lost;
		if (strstr(line, " ksym-add ") && strstr(line, symbol))
			ret->symbols++;
		if (sscanf(line, "%*s prog-load id=%" SCNu32, &id) != 1 || !strstr(line, tag) ||
		    strstr(line, " name=retain_twin "))
			continue;
		ret->loads++;
		/* Each has a directory. What is not whole says why, and has no image. */
		_cleanup_free_ char *error =
			ksymfs_value(fs, "error", "bpf/%s/%" PRIu32 "/info", twin->tag, id);
		int r = ksymfs_stat(fs, &st, "bpf/%s/%" PRIu32 "/jited", twin->tag, id);

		assert_int_equal(r, error ? -ENOENT : 0);
		if (error)
			continue;
		assert_int_equal(st.st_size, twin->info.jited_prog_len);
		assert_int_equal(ksymfs_stat(fs, &st, "bpf/%s/%" PRIu32 "/xlated", twin->tag, id),
				 0);
		assert_int_equal(st.st_size, twin->info.xlated_prog_len);
		ret->whole++;
	}
}

static bool readers_are_realtime(const struct ksymfs *fs)
{
	_cleanup_free_ char *readers = ksymfs_value(fs, "readers", "status");

	assert_non_null(readers);
	return !strstr(readers, "CAP_SYS_NICE");
}

static void test_closed_at_once(void **state)
{
	struct burst burst;
	struct oracle twin;
	int held = load_simple("retain_twin", variant(7));

	/* What they are all like; it is not one of them, by its name. */
	oracle_read(held, &twin);
	for (int i = 0; i < BURST; i++)
		close(load_simple("retain_burst", variant(7)));
	close(held);
	count_burst(*state, &twin, &burst);
	if (burst.symbols + burst.lost < BURST || burst.loads + burst.lost < BURST)
		fail_msg("%zu symbols and %zu loads in events, %d there were, %" PRIu64 " lost",
			 burst.symbols, burst.loads, BURST, burst.lost);
	assert_true(burst.symbols <= BURST && burst.loads <= BURST);
	printf("# captured whole: %zu of %d\n", burst.whole, BURST);
	oracle_deinit(&twin);
	if (!readers_are_realtime(*state))
		skip_because("readers are not real-time: %zu of %d captured whole", burst.whole,
			     BURST);
	assert_true(burst.whole * 100 >= BURST * 98);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_looked),
		cmocka_unit_test(test_files_stay),
		cmocka_unit_test(test_eviction_by_time),
		cmocka_unit_test(test_eviction_by_bytes),
		cmocka_unit_test(test_twins),
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_bad_questions),
		cmocka_unit_test(test_closed_at_once),
	};
	/* Strangers unload programs too, and none of ours is to leave for theirs. */
	static const char *const options[] = {"--retain-bytes=512M", NULL};

	return live_run_options(tests, options);
}
