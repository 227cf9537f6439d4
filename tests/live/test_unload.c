/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that are gone before anybody can read them, and that bpf/ shows whole all the same: what
 * they leave when the kernel frees them. See core/unload.h.
 *
 * To be sure that none is read in time, the daemon is stopped (SIGSTOP) while they are loaded and
 * closed. Then it runs again, and their files are compared with what their own fds had said.
 * KSYMFS_UNLOADS=N: how many.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <pthread.h>
#include <signal.h>

/* At a time: the rings have room for the records of some 1,500. */
#define ROUND 200
/* A grace period may take its time where the kernel is lazy about callbacks. */
#define FREED_SECONDS 120
#define LOADERS	      8
#define HOGS	      2
#define LARGE	      8
#define LONG_BYTES    ((size_t)64 << 10)

static size_t wanted_unloads(void)
{
	const char *asked = getenv("KSYMFS_UNLOADS");

	return asked ? strtoul(asked, NULL, 10) : 400;
}

/* `KEY=N` in the line `unloads` of status, or, without a key, another line's N. */
static uint64_t count_of(const struct ksymfs *fs, const char *line, const char *key)
{
	_cleanup_free_ char *value = ksymfs_value(fs, line, "status");

	assert_non_null(value);
	const char *at = key ? strstr(value, key) : value;

	assert_non_null(at);
	return strtoull(key ? at + strlen(key) : at, NULL, 10);
}

static void assert_nothing_lost(const struct ksymfs *fs)
{
	assert_int_equal(count_of(fs, "unloads", "dropped="), 0);
	assert_int_equal(count_of(fs, "unloads", "failed="), 0);
	assert_int_equal(count_of(fs, "unloads", "recursion_misses="), 0);
}

/* ---- of every kind ---- */

/* The value of an array lies at an address of its own in the instructions. */
static int load_with_value(int map_fd)
{
	const struct bpf_insn insns[] = {
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_VALUE, 0, map_fd),
		INSN(0, 0, 0, 0, 12),
		INSN(BPF_LDX | BPF_W | BPF_MEM, BPF_REG_0, BPF_REG_1, 0, 0),
		INSN_EXIT,
	};

	return load_insns(BPF_PROG_TYPE_SOCKET_FILTER, "value", insns, ARRAY_SIZE(insns));
}

/* A tail call is another instruction in the kernel than the one that it shows. */
static int load_with_tail_call(int programs_fd)
{
	const struct bpf_insn insns[] = {
		INSN_LD_MAP_FD(BPF_REG_2, programs_fd),
		INSN_MOV_IMM(BPF_REG_3, 0),
		INSN_HELPER(BPF_FUNC_tail_call),
		INSN_MOV_IMM(BPF_REG_0, 0),
		INSN_EXIT,
	};

	return load_insns(BPF_PROG_TYPE_SOCKET_FILTER, "tail", insns, ARRAY_SIZE(insns));
}

static int must(int fd)
{
	if (fd < 0)
		fail_msg("loading: %s", strerror(-fd));
	return fd;
}

static int load_kind(size_t i)
{
	if (i % 5 == 1)
		return load_with_subprogram("sub", (int)i, (int)i + 1);
	if (i % 5 == 2) {
		_cleanup_fd_ int map = make_map("twins", 8);

		return load_twin("twin", map);
	}
	if (i % 5 == 3) {
		_cleanup_fd_ int map = make_map("values", 20);

		return must(load_with_value(map));
	}
	if (i % 5 == 4) {
		_cleanup_fd_ int programs =
			bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "programs", 4, 4, 1, NULL);

		return must(load_with_tail_call(programs));
	}
	return load_simple("simple", (int)i);
}

static void assert_file(const struct ksymfs *fs, const char *path, const void *bytes, size_t len)
{
	size_t got;
	_cleanup_free_ char *data = ksymfs_read(fs, &got, "%s", path);

	if (got != len)
		fail_msg("%s: %zu bytes, of the kernel's %zu", path, got, len);
	for (size_t i = 0; i < len; i++)
		if (data[i] != ((const char *)bytes)[i])
			fail_msg("%s: at %zu of %zu there is %#hhx, for %#hhx", path, i, len,
				 data[i], ((const char *)bytes)[i]);
}

static void assert_as_said(const struct ksymfs *fs, const struct oracle *oracle)
{
	char path[64], tag[2 * BPF_TAG_SIZE + 1];

	for (uint32_t i = 0; i < oracle->info.nr_prog_tags; i++) {
		/* [0] is of the main function alone: its symbol, and so bpf/, has the program's. */
		tag_text(i ? oracle->tags[i] : oracle->info.tag, tag);
		snprintf(path, sizeof(path), "bpf/%s/%u/jited", tag, oracle->info.id);
		assert_file(fs, path, oracle->jited, oracle->info.jited_prog_len);
		snprintf(path, sizeof(path), "bpf/%s/%u/xlated", tag, oracle->info.id);
		assert_file(fs, path, oracle->xlated, oracle->info.xlated_prog_len);
	}
	_cleanup_free_ char *type =
		ksymfs_value(fs, "type", "bpf/%s/%u/info", oracle->tag, oracle->info.id);
	_cleanup_free_ char *map =
		ksymfs_value(fs, "map_id", "bpf/%s/%u/info", oracle->tag, oracle->info.id);

	assert_string_equal(type, "socket_filter");
	if (oracle->info.nr_map_ids)
		assert_int_equal(atoi(map), oracle->map_ids[0]);
	else
		assert_null(map);
}

struct awaited {
	const struct ksymfs *fs;
	uint64_t count;
};

static bool have_recovered(void *arg)
{
	const struct awaited *awaited = arg;

	return count_of(awaited->fs, "recovered_at_unload", NULL) >= awaited->count;
}

static void await_recovered(const struct ksymfs *fs, uint64_t count)
{
	struct awaited awaited = {fs, count};

	if (!wait_until(have_recovered, &awaited, FREED_SECONDS)) {
		_cleanup_free_ char *status = ksymfs_read(fs, NULL, "status");

		fail_msg("%" PRIu64 " recovered were awaited:\n%s", count, status);
	}
}

static bool is_running(pid_t tid, const char *status, void *arg)
{
	return !strstr(status, "\nState:\tT");
}

/* Is none of its threads running any more? The signal is sent before they all know of it. */
static bool is_stopped(void *arg)
{
	return ksymfs_count_threads(arg, is_running, NULL) == 0;
}

/* Loads and closes programs behind the back of the daemon; what the kernel said of them. */
static void miss_programs_of(struct ksymfs *fs, size_t first, size_t count, int (*load)(size_t i),
			     struct oracle *oracles)
{
	uint64_t before = count_of(fs, "recovered_at_unload", NULL);

	assert_int_equal(kill(fs->daemon, SIGSTOP), 0);
	assert_true(wait_until(is_stopped, fs, 10));
	for (size_t i = 0; i < count; i++) {
		_cleanup_fd_ int prog = load(first + i);

		oracle_read(prog, &oracles[i]);
	}
	assert_int_equal(kill(fs->daemon, SIGCONT), 0);
	await_recovered(fs, before + count);
}

/* The same, and compares what it then has. */
static void miss_programs(struct ksymfs *fs, size_t first, size_t count, int (*load)(size_t i))
{
	_cleanup_free_ struct oracle *oracles = calloc(count, sizeof(*oracles));

	assert_non_null(oracles);
	miss_programs_of(fs, first, count, load, oracles);
	for (size_t i = 0; i < count; i++) {
		assert_as_said(fs, &oracles[i]);
		oracle_deinit(&oracles[i]);
	}
}

static void test_missed(void **state)
{
	struct ksymfs *fs = *state;
	size_t count = wanted_unloads();

	close(attach_fentry("vfs_truncate"));
	for (size_t done = 0; done < count; done += ROUND)
		miss_programs(fs, done, MIN((size_t)ROUND, count - done), load_kind);
	assert_nothing_lost(fs);
}

static int load_of_64_kib(size_t i)
{
	/* An instruction is at least 4 bytes long on every machine. */
	return load_long("large", (int)i, LONG_BYTES / 4);
}

static void test_64_kib(void **state)
{
	struct ksymfs *fs = *state;

	close(attach_fentry("vfs_truncate"));
	miss_programs(fs, 0, LARGE, load_of_64_kib);
	assert_nothing_lost(fs);
	/* Were they as large? */
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/programs");
	char *cursor = text, *line;
	size_t large = 0;

	while ((line = next_line(&cursor))) {
		size_t bytes;

		if (sscanf(line, "%*s %*s unloaded %*s large %zu", &bytes) == 1)
			large += bytes >= LONG_BYTES;
	}
	assert_int_equal(large, LARGE);
}

/* ---- at once, while all CPUs are busy ---- */

struct loader {
	pthread_t thread;
	size_t count;
	int variant;
	uint32_t *ids;
	int error;
};

static void *load_and_close(void *arg)
{
	struct loader *loader = arg;
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, loader->variant), INSN_EXIT};

	for (size_t i = 0; i < loader->count && !loader->error; i++) {
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);
		_cleanup_fd_ int prog = load_insns(BPF_PROG_TYPE_SOCKET_FILTER, "at_once", insns,
						   ARRAY_SIZE(insns));

		if (prog < 0 || bpf_obj_get_info_by_fd(prog, &info, &len) < 0)
			loader->error = errno;
		loader->ids[i] = info.id;
	}
	return NULL;
}

static _Atomic bool hogs_stop;

static void *hog(void *arg)
{
	while (!hogs_stop)
		;
	return NULL;
}

struct round {
	const struct ksymfs *fs;
	const struct loader *loaders;
};

static bool has_image(const struct ksymfs *fs, uint32_t id)
{
	struct stat st;

	return ksymfs_stat(fs, &st, "bpf/by-id/%u/jited", id) == 0 && st.st_size > 0;
}

static bool have_all_images(void *arg)
{
	const struct round *round = arg;

	for (size_t i = 0; i < LOADERS; i++)
		for (size_t k = 0; k < round->loaders[i].count; k++)
			if (!has_image(round->fs, round->loaders[i].ids[k]))
				return false;
	return true;
}

static void load_at_once(const struct ksymfs *fs, size_t each)
{
	struct loader loaders[LOADERS] = {};
	struct round round = {fs, loaders};

	for (size_t i = 0; i < LOADERS; i++) {
		loaders[i] = (struct loader){.count = each, .variant = (int)i};
		loaders[i].ids = calloc(each, sizeof(loaders[i].ids[0]));
		assert_non_null(loaders[i].ids);
		assert_int_equal(
			pthread_create(&loaders[i].thread, NULL, load_and_close, &loaders[i]), 0);
	}
	for (size_t i = 0; i < LOADERS; i++) {
		pthread_join(loaders[i].thread, NULL);
		assert_int_equal(loaders[i].error, 0);
	}
	bool whole = wait_until(have_all_images, &round, FREED_SECONDS);

	for (size_t i = 0; i < LOADERS; i++)
		free(loaders[i].ids);
	if (!whole) {
		_cleanup_free_ char *status = ksymfs_read(fs, NULL, "status");

		fail_msg("some have no image:\n%s", status);
	}
}

static void test_at_once(void **state)
{
	const struct ksymfs *fs = *state;
	size_t count = wanted_unloads();
	pthread_t hogs[HOGS];

	close(attach_fentry("vfs_truncate"));
	hogs_stop = false;
	for (size_t i = 0; i < HOGS; i++)
		assert_int_equal(pthread_create(&hogs[i], NULL, hog, NULL), 0);
	for (size_t done = 0; done < count; done += ROUND)
		load_at_once(fs, MIN((size_t)ROUND, count - done) / LOADERS);
	hogs_stop = true;
	for (size_t i = 0; i < HOGS; i++)
		pthread_join(hogs[i], NULL);
	assert_nothing_lost(fs);
}

/* ---- what it says of itself ---- */

/* There is one of this daemon's, and all is well. */
static void assert_captures(const struct ksymfs *fs)
{
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/programs");
	char *cursor = text, *line;
	size_t own = 0;

	while ((line = next_line(&cursor))) {
		char comm[64];
		int pid;

		if (sscanf(line, "%*s %*s loaded tracing ksymfs_unload %*s %*s %*s %d %63s", &pid,
			   comm) != 2 ||
		    pid != fs->daemon)
			continue;
		assert_string_equal(comm, "ksymfs");
		own++;
	}
	assert_int_equal(own, 1);
	_cleanup_free_ char *said = ksymfs_value(fs, "capture-at-unload", "status");

	assert_string_equal(said, "ok");
}

static void test_own_program(void **state)
{
	close(attach_fentry("vfs_truncate"));
	assert_captures(*state);
}

/*
 * The next daemon has what was captured, and captures on. What is freed in between nobody copies:
 * status says since when they are.
 */
static void replace_daemon(struct ksymfs *fs, pid_t victim, int signal)
{
	struct oracle oracles[ROUND / 10];

	miss_programs_of(fs, 0, ARRAY_SIZE(oracles), load_kind, oracles);
	uint64_t since = count_of(fs, "unloads", "since=");

	ksymfs_replace(fs, victim, signal);
	fs->daemon = ksymfs_daemon(fs);
	assert_true(count_of(fs, "unloads", "since=") >= since);
	for (size_t i = 0; i < ARRAY_SIZE(oracles); i++) {
		assert_as_said(fs, &oracles[i]);
		oracle_deinit(&oracles[i]);
	}
	assert_captures(fs);
	miss_programs(fs, 0, ARRAY_SIZE(oracles), load_kind);
	assert_nothing_lost(fs);
}

static void test_next_daemon(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);

	close(attach_fentry("vfs_truncate"));
	replace_daemon(fs, fs->daemon, SIGKILL);
	replace_daemon(fs, fs->pid, SIGHUP);
}

/* Where it cannot be, the reason is there, and nothing else is the worse for it. */
static void test_off(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *said = ksymfs_value(fs, "capture-at-unload", "status");
	_cleanup_free_ char *health = ksymfs_value(fs, "health", "status");

	assert_non_null(said);
	if (strcmp(said, "ok") == 0)
		skip_because("it is on here");
	assert_int_equal(strncmp(said, "off: ", 5), 0);
	assert_non_null(strstr(said, "needs "));
	assert_string_equal(health, "ok");
}

static void test_not_wanted(void **state)
{
	static const char *const options[] = {"--capture-at-unload=off", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	_cleanup_free_ char *said = ksymfs_value(fs, "capture-at-unload", "status");
	_cleanup_free_ char *programs = ksymfs_read(fs, NULL, "bpf/programs");
	char own[64];

	assert_string_equal(said, "off: by --capture-at-unload=off");
	/* Another instance may have one. */
	snprintf(own, sizeof(own), " %d ksymfs\n", fs->daemon);
	for (char *line, *cursor = programs; (line = next_line(&cursor));)
		assert_false(strstr(line, " ksymfs_unload ") && strstr(line, own));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_wanted),  cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_off),	    cmocka_unit_test(test_missed),
		cmocka_unit_test(test_next_daemon), cmocka_unit_test(test_64_kib),
		cmocka_unit_test(test_at_once),
	};

	return live_run(tests);
}
