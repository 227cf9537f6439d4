/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bpf/ against what the kernel says of held programs, and of programs that were. */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/prctl.h>
#include <time.h>

/* Constants that no other test's programs return, so that tags are this run's own. */
static int variant(int n)
{
	return (getpid() & 0xffff) << 12 | 0x800 | n;
}

static void assert_bytes(const struct ksymfs *fs, const char *path, const void *expected,
			 size_t expected_len)
{
	size_t len;
	_cleanup_free_ char *bytes = ksymfs_read(fs, &len, "%s", path);

	if (len != expected_len || memcmp(bytes, expected, len) != 0)
		fail_msg("%s: %zu bytes, not the kernel's %zu", path, len, expected_len);
}

static void assert_target(const struct ksymfs *fs, const char *expected, const char *format, ...)
{
	_cleanup_free_ char *path = NULL, *full = NULL;
	char target[256];
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&path, format, args) > 0);
	va_end(args);
	full = ksymfs_path(fs, "%s", path);
	ssize_t len = readlink(full, target, sizeof(target) - 1);

	if (len < 0)
		fail_msg("readlink %s: %s", path, strerror(errno));
	target[len] = '\0';
	assert_string_equal(target, expected);
}

static bool exists(const struct ksymfs *fs, const char *dir, uint32_t id, const char *file)
{
	struct stat st;

	return ksymfs_stat(fs, &st, "bpf/%s/%" PRIu32 "/%s", dir, id, file) == 0;
}

/* A binary file of a program, by every way that leads to it. */
static void assert_everywhere(const struct ksymfs *fs, const struct oracle *oracle,
			      const char *by_name, const char *file, const void *bytes, size_t len)
{
	uint32_t id = oracle->info.id;
	char path[512];

	if (!len) {
		assert_false(exists(fs, oracle->tag, id, file));
		return;
	}
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/%s", oracle->tag, id, file);
	assert_bytes(fs, path, bytes, len);
	snprintf(path, sizeof(path), "bpf/by-id/%" PRIu32 "/%s", id, file);
	assert_bytes(fs, path, bytes, len);
	snprintf(path, sizeof(path), "bpf/by-name/%s/%" PRIu32 "/%s", by_name, id, file);
	assert_bytes(fs, path, bytes, len);
}

static void assert_program(const struct ksymfs *fs, int prog_fd, const char *by_name)
{
	struct oracle oracle;

	oracle_read(prog_fd, &oracle);
	assert_everywhere(fs, &oracle, by_name, "jited", oracle.jited, oracle.info.jited_prog_len);
	assert_everywhere(fs, &oracle, by_name, "xlated", oracle.xlated,
			  oracle.info.xlated_prog_len);
	assert_everywhere(fs, &oracle, by_name, "btf", oracle.btf, oracle.btf_len);
	oracle_deinit(&oracle);
}

static void test_bytes(void **state)
{
	_cleanup_fd_ int simple = load_simple("tree_simple", variant(1));
	_cleanup_fd_ int two = load_with_subprogram("tree_two", variant(2), variant(3));
	_cleanup_fd_ int large = load_long("tree_long", variant(4), 3000);
	_cleanup_object_ struct bpf_object *object = load_object("calls");

	assert_program(*state, simple, "tree_simple");
	assert_program(*state, two, "tree_two");
	assert_program(*state, large, "tree_long");
	assert_program(*state, object_prog_fd(object, "calls_main"), "calls_main");
}

static void test_names(void **state)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, 5), INSN_EXIT};
	_cleanup_fd_ int dots =
		load_insns(BPF_PROG_TYPE_SOCKET_FILTER, "..", insns, ARRAY_SIZE(insns));
	_cleanup_fd_ int dot =
		load_insns(BPF_PROG_TYPE_SOCKET_FILTER, ".", insns, ARRAY_SIZE(insns));
	_cleanup_fd_ int unnamed = load_simple(NULL, variant(6));
	_cleanup_object_ struct bpf_object *object = load_object("longname");
	struct bpf_program *program;

	assert_return_code(dots, -dots);
	assert_return_code(dot, -dot);
	assert_program(*state, dots, "\\056\\056");
	assert_program(*state, dot, "\\056");
	assert_program(*state, unnamed, "\\000");
	/* In full, where prog_info cuts. */
	bpf_object__for_each_program(program, object)
		assert_program(*state, bpf_program__fd(program), bpf_program__name(program));
}

static void test_twins(void **state)
{
	_cleanup_fd_ int map_a = make_map("a", 4), map_b = make_map("b", 4);
	_cleanup_fd_ int a = load_twin("tree_twin", map_a), b = load_twin("tree_twin", map_b);
	struct oracle oa, ob;
	char path[128], link[64];

	oracle_read(a, &oa);
	oracle_read(b, &ob);
	assert_string_equal(oa.tag, ob.tag);
	assert_program(*state, a, "tree_twin");
	assert_program(*state, b, "tree_twin");
	/* The newest stands for the tag; unloaded, the one that is left. */
	snprintf(link, sizeof(link), "%" PRIu32 "/jited", ob.info.id);
	assert_target(*state, link, "bpf/%s/jited", ob.tag);
	snprintf(path, sizeof(path), "bpf/%s/jited", ob.tag);
	assert_bytes(*state, path, ob.jited, ob.info.jited_prog_len);
	close(b);
	b = -1;
	assert_bytes(*state, path, oa.jited, oa.info.jited_prog_len);
	/* And with none loaded, the newest again. */
	close(a);
	a = -1;
	assert_bytes(*state, path, ob.jited, ob.info.jited_prog_len);
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/jited", oa.tag, oa.info.id);
	assert_bytes(*state, path, oa.jited, oa.info.jited_prog_len);
	oracle_deinit(&oa);
	oracle_deinit(&ob);
}

/* One tag with two meanings: a subprogram's, and a program's of its own. */
static void test_subprogram_tags(void **state)
{
	_cleanup_fd_ int two = load_with_subprogram("tree_two", variant(7), variant(8));
	struct oracle outer, own;
	char sub[2 * BPF_TAG_SIZE + 1], link[128];

	oracle_read(two, &outer);
	assert_int_equal(outer.info.nr_prog_tags, 2);
	tag_text(outer.tags[1], sub);
	snprintf(link, sizeof(link), "../%s/%" PRIu32, outer.tag, outer.info.id);
	assert_target(*state, link, "bpf/%s/%" PRIu32, sub, outer.info.id);
	snprintf(link, sizeof(link), "%" PRIu32 "/jited", outer.info.id);
	assert_target(*state, link, "bpf/%s/jited", sub);
	snprintf(link, sizeof(link), "bpf/%s/jited", sub);
	assert_bytes(*state, link, outer.jited, outer.info.jited_prog_len);

	_cleanup_fd_ int single = load_simple("tree_single", variant(8));
	/* Newer than the program of the tag's own: still it does not stand for it. */
	_cleanup_fd_ int again = load_with_subprogram("tree_two", variant(9), variant(8));

	oracle_read(single, &own);
	assert_string_equal(own.tag, sub);
	assert_bytes(*state, link, own.jited, own.info.jited_prog_len);
	assert_true(exists(*state, sub, prog_id(again), "jited"));
	oracle_deinit(&outer);
	oracle_deinit(&own);
}

/* The line of `bpf/programs` that begins with this id; NULL. Cuts text. */
static char *find_program(char *text, uint32_t id)
{
	char prefix[16];

	snprintf(prefix, sizeof(prefix), "%" PRIu32 " ", id);
	for (char *line, *cursor = text; (line = next_line(&cursor));) {
		if (strncmp(line, prefix, strlen(prefix)) == 0)
			return line;
	}
	return NULL;
}

/* Each program that the kernel lists is in the lists, with what prog_info says of it. */
static void test_lists(void **state)
{
	_cleanup_fd_ int two = load_with_subprogram("tree_two", variant(10), variant(11));
	_cleanup_object_ struct bpf_object *object = load_object("calls");
	_cleanup_free_ char *programs = ksymfs_read(*state, NULL, "bpf/programs");
	_cleanup_free_ char *functions = ksymfs_read(*state, NULL, "bpf/functions");
	size_t count, seen = 0;
	_cleanup_free_ uint32_t *ids = all_prog_ids(&count);

	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *copy = strdup(programs);
		char head[128], path[64];
		struct oracle oracle;

		/* Loaded after the list was read, or gone since: a stranger's. */
		char *line = find_program(copy, ids[i]);

		if (!line || oracle_read_id(ids[i], &oracle) < 0)
			continue;
		seen++;
		snprintf(head, sizeof(head), "%" PRIu32 " %s loaded %s ", ids[i], oracle.tag,
			 libbpf_bpf_prog_type_str(oracle.info.type));
		assert_memory_equal(line, head, strlen(head));
		snprintf(path, sizeof(path), " bpf/%s/%" PRIu32 " ", oracle.tag, ids[i]);
		assert_non_null(strstr(line, path));
		/* id tag state type name jited_bytes */
		unsigned int jited;

		assert_int_equal(sscanf(line, "%*s %*s %*s %*s %*s %u ", &jited), 1);
		assert_int_equal(jited, oracle.info.jited_prog_len);
		for (uint32_t j = 0; j < oracle.info.nr_jited_ksyms; j++) {
			char row[64];

			snprintf(row, sizeof(row), "%016" PRIx64 " %016" PRIx32 " loaded ",
				 oracle.ksyms[j], oracle.func_lens[j]);
			assert_non_null(strstr(functions, row));
		}
		oracle_deinit(&oracle);
	}
	assert_true(seen >= 2);
	_cleanup_free_ char *copy = strdup(programs);

	assert_non_null(find_program(copy, prog_id(two)));
}

/* functions is by address, so that a frame is found by bisection too. */
static void test_functions_are_sorted(void **state)
{
	_cleanup_fd_ int two = load_with_subprogram("tree_two", variant(12), variant(13));
	_cleanup_free_ char *functions = ksymfs_read(*state, NULL, "bpf/functions");
	char previous[17] = "";
	size_t lines = 0;

	for (char *line, *cursor = functions; (line = next_line(&cursor)); lines++) {
		assert_true(strncmp(previous, line, 16) <= 0);
		memcpy(previous, line, 16);
	}
	assert_true(lines >= 2);
}

static void assert_value(const struct ksymfs *fs, uint32_t id, const char *key, const char *format,
			 ...)
{
	_cleanup_free_ char *value = ksymfs_value(fs, key, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *expected = NULL;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&expected, format, args) >= 0);
	va_end(args);
	if (!value || strcmp(value, expected) != 0)
		fail_msg("info of %" PRIu32 ": %s is %s, not %s", id, key, value ?: "missing",
			 expected);
}

static double unix_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void test_info(void **state)
{
	double before = unix_time();
	_cleanup_object_ struct bpf_object *object = load_object("calls");
	double after = unix_time();
	int fd = object_prog_fd(object, "calls_main");
	struct oracle oracle;
	char comm[16];

	prctl(PR_GET_NAME, comm);
	oracle_read(fd, &oracle);
	uint32_t id = oracle.info.id;

	assert_value(*state, id, "state", "loaded");
	assert_value(*state, id, "unloaded_at", "-");
	assert_value(*state, id, "id", "%" PRIu32, id);
	assert_value(*state, id, "tag", "%s", oracle.tag);
	assert_value(*state, id, "type", "socket_filter");
	assert_value(*state, id, "name", "calls_main");
	assert_value(*state, id, "loader_pid", "%d", getpid());
	assert_value(*state, id, "loader_comm", "%s", comm);
	assert_value(*state, id, "uid", "%d", getuid());
	assert_value(*state, id, "xlated_bytes", "%" PRIu32, oracle.info.xlated_prog_len);
	assert_value(*state, id, "jited_bytes", "%" PRIu32, oracle.info.jited_prog_len);
	assert_value(*state, id, "verified_insns", "%" PRIu32, oracle.info.verified_insns);
	assert_value(*state, id, "functions", "%" PRIu32, oracle.info.nr_jited_ksyms);
	assert_value(*state, id, "btf_id", "%" PRIu32, oracle.info.btf_id);

	_cleanup_free_ char *loaded = ksymfs_value(*state, "loaded_at", "bpf/by-id/%u/info", id);
	struct stat st;

	/* The kernel's stamp is of the verifier's end, in another clock. */
	assert_true(strtod(loaded, NULL) > before - 0.01 && strtod(loaded, NULL) < after + 0.01);
	assert_int_equal(ksymfs_stat(*state, &st, "bpf/%s/%" PRIu32, oracle.tag, id), 0);
	assert_int_equal(st.st_mtim.tv_sec, atol(loaded));
	assert_int_equal(st.st_mtim.tv_nsec, atol(strchr(loaded, '.') + 1));

	_cleanup_free_ char *info = ksymfs_read(*state, NULL, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *jited = ksymfs_path(*state, "bpf/by-id/%" PRIu32 "/jited", id);
	_cleanup_free_ char *sum = ksymfs_value(*state, "sha256", "bpf/by-id/%" PRIu32 "/info", id);

	for (uint32_t i = 0; i < oracle.info.nr_map_ids; i++) {
		char line[32];

		snprintf(line, sizeof(line), "map_id: %" PRIu32, oracle.map_ids[i]);
		assert_int_equal(count_lines_with_prefix(info, line), 1);
	}
	assert_int_equal(run("test $(sha256sum < %s | cut -d' ' -f1) = %s", jited, sum), 0);
	oracle_deinit(&oracle);
}

static void test_maps(void **state)
{
	_cleanup_fd_ int map = make_map("tree_map", 24), prog = load_twin("tree_maps", map);
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);
	char path[64], line[128];

	assert_return_code(bpf_obj_get_info_by_fd(map, &info, &len), errno);
	snprintf(path, sizeof(path), "bpf/by-id/%" PRIu32 "/maps", prog_id(prog));
	snprintf(line, sizeof(line), "%" PRIu32 " array tree_map 4 24 1\n", info.id);
	assert_bytes(*state, path, line, strlen(line));
}

/* What was there stays, byte for byte, and info says what has changed in its first two lines. */
static void test_unload(void **state)
{
	int fd = load_with_subprogram("tree_gone", variant(14), variant(15));
	struct oracle oracle;
	char path[128], value[64];

	oracle_read(fd, &oracle);
	uint32_t id = oracle.info.id;
	_cleanup_free_ char *before = ksymfs_read(*state, NULL, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *ksyms = ksymfs_read(*state, NULL, "bpf/by-id/%" PRIu32 "/ksyms", id);

	assert_ksyms_has_program(*state, fd);
	double closed = unix_time();

	unload(fd);
	_cleanup_free_ char *after = ksymfs_read(*state, NULL, "bpf/by-id/%" PRIu32 "/info", id);
	_cleanup_free_ char *at = ksymfs_value(*state, "unloaded_at", "bpf/by-id/%u/info", id);
	const char *fixed_before = strstr(before, "\nid: "), *fixed_after = strstr(after, "\nid: ");

	assert_memory_equal(before, "state: loaded\nunloaded_at: -\n", 29);
	assert_memory_equal(after, "state: unloaded\nunloaded_at: ", 29);
	assert_true(strtod(at, NULL) > closed - 0.01 && strtod(at, NULL) < unix_time() + 0.01);
	assert_string_equal(fixed_before, fixed_after);
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/jited", oracle.tag, id);
	assert_bytes(*state, path, oracle.jited, oracle.info.jited_prog_len);
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/xlated", oracle.tag, id);
	assert_bytes(*state, path, oracle.xlated, oracle.info.xlated_prog_len);
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/ksyms", oracle.tag, id);
	assert_bytes(*state, path, ksyms, strlen(ksyms));
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/holders", oracle.tag, id);
	assert_bytes(*state, path, "", 0);
	snprintf(path, sizeof(path), "bpf/%s/%" PRIu32 "/stats", oracle.tag, id);
	assert_bytes(*state, path, "run_cnt: -\nrun_time_ns: -\nrecursion_misses: -\n", 46);

	_cleanup_free_ char *programs = ksymfs_read(*state, NULL, "bpf/programs");
	_cleanup_free_ char *functions = ksymfs_read(*state, NULL, "bpf/functions");
	_cleanup_free_ char *all = ksymfs_read(*state, NULL, "ksyms");

	snprintf(value, sizeof(value), "%" PRIu32 " %s unloaded ", id, oracle.tag);
	assert_int_equal(count_lines_with_prefix(programs, value), 1);
	snprintf(value, sizeof(value), " unloaded bpf_prog_%s_tree_gone ", oracle.tag);
	assert_int_equal(count_lines_with(functions, value), 1);
	snprintf(value, sizeof(value), "bpf_prog_%s_tree_gone", oracle.tag);
	assert_int_equal(count_lines_with(all, value), 0);
	oracle_deinit(&oracle);
}

static void test_holders_and_stats(void **state)
{
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	_cleanup_fd_ int prog = load_simple("tree_stats", variant(16));
	_cleanup_free_ char *holders = NULL, *runs = NULL, *misses = NULL;
	char line[64], comm[16];
	uint32_t id = prog_id(prog);

	assert_return_code(stats, errno);
	for (int i = 0; i < 7; i++)
		run_once(prog);
	close(stats);
	runs = ksymfs_value(*state, "run_cnt", "bpf/by-id/%" PRIu32 "/stats", id);
	misses = ksymfs_value(*state, "recursion_misses", "bpf/by-id/%" PRIu32 "/stats", id);
	assert_string_equal(runs, "7");
	assert_string_equal(misses, "0");

	prctl(PR_GET_NAME, comm);
	snprintf(line, sizeof(line), "fd %d %s %d", getpid(), comm, prog);
	holders = ksymfs_read(*state, NULL, "bpf/by-id/%" PRIu32 "/holders", id);
	assert_int_equal(count_lines_with_prefix(holders, line), 1);
}

/* A walk of all that there is: sizes are what is read, and nothing is an error but to be gone. */
static void test_sizes(void **state)
{
	_cleanup_fd_ int two = load_with_subprogram("tree_two", variant(17), variant(18));
	_cleanup_object_ struct bpf_object *object = load_object("calls");
	_cleanup_free_ char *top = ksymfs_path(*state, "bpf");
	char *const roots[] = {top, NULL};
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	size_t files = 0;

	assert_non_null(fts);
	for (FTSENT *entry; (entry = fts_read(fts));) {
		if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR)
			assert_int_equal(entry->fts_errno, ENOENT);
		if (entry->fts_info != FTS_F)
			continue;
		int fd = open(entry->fts_path, O_RDONLY | O_CLOEXEC);
		struct stat st;
		size_t len;

		if (fd < 0 && errno == ENOENT)
			continue;
		assert_return_code(fd, errno);
		assert_return_code(fstat(fd, &st), errno);
		_cleanup_free_ char *bytes = read_fd(fd, &len);

		close(fd);
		if ((size_t)st.st_size != len)
			fail_msg("%s: size %jd, read %zu", entry->fts_path, (intmax_t)st.st_size,
				 len);
		/* Of a program that does not change, stat before the open says the same. */
		if (strcmp(entry->fts_name, "jited") == 0 || strcmp(entry->fts_name, "btf") == 0)
			assert_int_equal(entry->fts_statp->st_size, len);
		files++;
	}
	fts_close(fts);
	assert_true(files > 10);
}

static void test_absent(void **state)
{
	static const char *const paths[] = {
		"bpf/nothing",
		"bpf/by-id/0",
		"bpf/by-id/4294967295",
		"bpf/by-id/4294967296",
		"bpf/by-id/-1",
		"bpf/by-name/no_such_program",
		"bpf/0123456789abcdef/jited",
		"bpf/0123456789ABCDEF",
	};
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(ksymfs_stat(*state, &st, "%s", paths[i]), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),  cmocka_unit_test(test_names),
		cmocka_unit_test(test_twins),  cmocka_unit_test(test_subprogram_tags),
		cmocka_unit_test(test_lists),  cmocka_unit_test(test_functions_are_sorted),
		cmocka_unit_test(test_info),   cmocka_unit_test(test_maps),
		cmocka_unit_test(test_unload), cmocka_unit_test(test_holders_and_stats),
		cmocka_unit_test(test_sizes),  cmocka_unit_test(test_absent),
	};

	return live_run(tests);
}
