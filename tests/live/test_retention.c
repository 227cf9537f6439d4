/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What outlives an unload: a program's files until the bounds push them out, and who stands for a
 * tag. The oracle is what a held fd said before its close.
 */
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live/support.h"

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

/* One that stays loaded, and two that leave by their age. */
struct ages {
	const struct ksymfs *fs;
	struct oracle first, second; /* by the order of their unload */
	uint32_t ids[2];
	bool retained[2];
	uint64_t during, closed[2], left[2]; /* CLOCK_MONOTONIC ns */
};

static bool first_has_left(void *arg)
{
	struct ages *ages = arg;

	find_retained(ages->fs, ages->ids, 2, ages->retained);
	return !ages->retained[0];
}

static bool second_has_left(void *arg)
{
	struct ages *ages = arg;

	find_retained(ages->fs, ages->ids, 2, ages->retained);
	return !ages->retained[1];
}

static bool is_past(void *arg)
{
	return monotonic_ns() >= *(uint64_t *)arg;
}

/* false: this process did not run for so long that it did not see the one leave before the other.
 */
static bool unload_by_and_by(struct ages *ages)
{
	/* Against the order of their loads. */
	int second = load_simple("retain_second", variant(2));
	int first = load_simple("retain_first", variant(3));

	oracle_read(second, &ages->second);
	oracle_read(first, &ages->first);
	ages->ids[0] = ages->first.info.id;
	ages->ids[1] = ages->second.info.id;
	ages->during = ages->closed[0] = monotonic_ns();
	unload(first);
	assert_true(has_dir(ages->fs, ages->first.tag, ages->ids[0]));
	uint64_t later = monotonic_ns() + NSEC_PER_SEC / 2;

	assert_true(wait_until(is_past, &later, 5));
	ages->closed[1] = monotonic_ns();
	unload(second);
	assert_true(wait_until(first_has_left, ages, 10));
	ages->left[0] = monotonic_ns();
	bool seen = ages->retained[1];

	assert_true(wait_until(second_has_left, ages, 10));
	ages->left[1] = monotonic_ns();
	return seen;
}

static void test_eviction_by_time(void **state)
{
	static const char *const options[] = {"--retain-time=1s", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	_cleanup_fd_ int kept = load_simple("retain_kept", variant(1));
	struct ages ages = {.fs = fs};
	struct oracle oracle;
	bool seen = false;

	(void)state;
	oracle_read(kept, &oracle);
	for (int i = 0; i < 3 && !seen; i++) {
		oracle_deinit(&ages.first);
		oracle_deinit(&ages.second);
		seen = unload_by_and_by(&ages);
		for (int j = 0; j < 2; j++) {
			assert_true(ages.left[j] - ages.closed[j] >= NSEC_PER_SEC);
			/* Busy neighbours may make it late, not by much. */
			assert_true(ages.left[j] - ages.closed[j] < 4 * NSEC_PER_SEC);
		}
	}
	assert_true(seen);

	/* Every way to it has gone, and what its address was then. */
	const char *tag = ages.first.tag;
	uint64_t addr = ages.first.ksyms[0];
	struct stat st;

	assert_false(has_dir(fs, tag, ages.ids[0]));
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/%s", tag), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%" PRIu32, ages.ids[0]), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-name/retain_first/%" PRIu32, ages.ids[0]),
			 -ENOENT);
	assert_int_equal(ksymfs_open(fs, "addr/%" PRIx64 "@%" PRIu64 "ns", addr, ages.during),
			 -ENOENT);
	/* The loaded one is older, and stays. */
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/%" PRIu32, oracle.tag, oracle.info.id);
	assert_jited(fs, dir, &oracle);
	oracle_deinit(&ages.first);
	oracle_deinit(&ages.second);
	oracle_deinit(&oracle);
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

/* ---- programs that are closed at once ---- */

#define BURST	   500
#define HELD_BURST 8 /* so many are held with 256 files, as few as live tests ask for */

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

/*
 * Stops a reader at a call that it makes with the tracker's lock held: the one that opens a program
 * which was loaded on its CPU, this thread's.
 */
static void stop_with_lock(pid_t reader)
{
	struct __ptrace_syscall_info call = {};
	int status;

	assert_return_code(ptrace(PTRACE_SEIZE, reader, NULL, PTRACE_O_TRACESYSGOOD), errno);
	assert_return_code(ptrace(PTRACE_INTERRUPT, reader, NULL, NULL), errno);
	assert_int_equal(waitpid(reader, &status, __WALL), reader);
	assert_return_code(ptrace(PTRACE_SYSCALL, reader, NULL, NULL), errno);
	close(load_simple("retain_stop", variant(60)));
	for (;;) {
		assert_int_equal(waitpid(reader, &status, __WALL), reader);
		assert_true(WIFSTOPPED(status));
		assert_return_code(ptrace(PTRACE_GET_SYSCALL_INFO, reader, sizeof(call), &call),
				   errno);
		if (call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_bpf)
			return;
		assert_return_code(ptrace(PTRACE_SYSCALL, reader, NULL, NULL), errno);
	}
}

/*
 * Loads and closes so many, and returns how many were captured whole. A reader, if it is not 0,
 * stands still meanwhile, with the lock, and so does its CPU as far as it can tell.
 */
static size_t play_burst(const struct ksymfs *fs, int number, size_t count, pid_t reader)
{
	struct burst burst;
	struct oracle twin;
	int held = load_simple("retain_twin", variant(number));

	/* What they are all like; it is not one of them, by its name. */
	oracle_read(held, &twin);
	if (reader) {
		stop_with_lock(reader);
		assert_true(pin_to_cpu(0));
	}
	for (size_t i = 0; i < count; i++)
		close(load_simple("retain_burst", variant(number)));
	if (reader)
		assert_return_code(ptrace(PTRACE_DETACH, reader, NULL, NULL), errno);
	close(held);
	count_burst(fs, &twin, &burst);
	if (burst.symbols + burst.lost < count || burst.loads + burst.lost < count)
		fail_msg("%zu symbols and %zu loads in events, %zu there were, %" PRIu64 " lost",
			 burst.symbols, burst.loads, count, burst.lost);
	assert_true(burst.symbols <= count && burst.loads <= count);
	printf("# captured whole: %zu of %zu\n", burst.whole, count);
	oracle_deinit(&twin);
	return burst.whole;
}

static void test_closed_at_once(void **state)
{
	size_t whole = play_burst(*state, 70, BURST, 0);

	if (!readers_are_realtime(*state))
		skip_because("readers are not real-time: %zu of %d captured whole", whole, BURST);
	assert_true(whole * 100 >= BURST * 98);
}

static bool is_reader_here(pid_t tid, const char *status, void *arg)
{
	char name[32];

	snprintf(name, sizeof(name), "Name:\tksymfs-ring/%d\n", sched_getcpu());
	if (strncmp(status, name, strlen(name)) != 0)
		return false;
	*(pid_t *)arg = tid;
	return true;
}

/*
 * A reader that has the lock and is kept off its CPU, as by a hypervisor: what is loaded on
 * another one waits for it.
 */
static void test_closed_while_held_up(void **state)
{
	pid_t reader;

	if (!pin_to_cpu(1))
		skip_because("there is one CPU");
	assert_int_equal(ksymfs_count_threads(*state, is_reader_here, &reader), 1);
	size_t whole = play_burst(*state, 71, HELD_BURST, reader);

	unpin_cpu();
	if (!readers_are_realtime(*state))
		skip_because("readers are not real-time: %zu of %d captured whole", whole,
			     HELD_BURST);
	assert_true(whole >= HELD_BURST - 1);
}

/*
 * Programs without end, four events each; at rest, the tree is the kernel's. KSYMFS_SOAK_LOADS=N
 * loads N instead of a few: scripts/soak, which makes it a million events.
 */
static void test_soak(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	const char *soak = getenv("KSYMFS_SOAK_LOADS");
	int loads = soak ? atoi(soak) : 1000, kept[10];

	assert_true(loads >= (int)ARRAY_SIZE(kept));
	int between = loads / ARRAY_SIZE(kept);

	for (int i = 0; i < between * (int)ARRAY_SIZE(kept); i++) {
		int prog = load_simple("soaked", variant(i % 200));

		if (i % between)
			close(prog);
		else
			kept[i / between] = prog;
	}
	assert_ksyms_is_kallsyms(fs);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		_cleanup_free_ char *loaded =
			ksymfs_value(fs, "state", "bpf/by-id/%u/info", prog_id(kept[i]));
		assert_string_equal(loaded, "loaded");
		unload(kept[i]);
	}
	assert_ksyms_is_kallsyms(fs);
	_cleanup_free_ char *lost = ksymfs_value(fs, "lost_records", "status");
	_cleanup_free_ char *reads = ksymfs_value(fs, "kallsyms_reads", "status");
	assert_string_equal(lost, "0");
	assert_string_equal(reads, "1");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_looked),
		cmocka_unit_test(test_files_stay),
		cmocka_unit_test(test_eviction_by_time),
		cmocka_unit_test(test_eviction_by_bytes),
		cmocka_unit_test(test_twins),
		cmocka_unit_test(test_closed_at_once),
		cmocka_unit_test(test_closed_while_held_up),
		cmocka_unit_test(test_soak),
	};
	/* Strangers unload programs too, and none of ours is to leave for theirs. */
	static const char *const options[] = {"--retain-bytes=512M", NULL};

	return live_run_options(tests, options);
}
