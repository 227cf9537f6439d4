/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures and names against the running kernel: a captured program is what
 * BPF_OBJ_GET_INFO_BY_FD says of a fd held beside it, its symbols are what the kernel's own
 * records call them, and the kernel's %pS agrees with /proc/kallsyms.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "core/btf.h"
#include "core/kernelname.h"
#include "core/prog.h"
#include "core/ring.h"
#include "tests/live/support.h"

/* What every test here stands on. */
struct sources {
	struct blob_pool *pool;
	struct prog_reader *reader;
	struct rings *rings;
};

static int setup(void **state)
{
	struct sources *sources = calloc(1, sizeof(*sources));

	assert_non_null(sources);
	assert_int_equal(blob_pool_create(&sources->pool), 0);
	assert_int_equal(prog_reader_create(sources->pool, &sources->reader), 0);
	assert_int_equal(rings_open(RING_SYMBOLS, 64, &sources->rings), 0);
	*state = sources;
	return 0;
}

static int teardown(void **state)
{
	struct sources *sources = *state;

	rings_close(sources->rings);
	prog_reader_destroy(sources->reader);
	/* Nobody holds a captured byte any more. */
	assert_int_equal(blob_pool_bytes(sources->pool), 0);
	blob_pool_destroy(sources->pool);
	free(sources);
	return 0;
}

static struct prog *capture(struct sources *sources, int prog_fd)
{
	struct prog *prog;

	assert_int_equal(prog_capture(sources->reader, prog_id(prog_fd), &prog), 0);
	return prog;
}

/* ---- captures ---- */

static void assert_blob(const struct blob *blob, enum prog_part_state state, const void *data,
			size_t len)
{
	if (!len) {
		assert_null(blob);
		assert_int_equal(state, PROG_PART_NONE);
		return;
	}
	assert_int_equal(state, PROG_PART_OK);
	assert_non_null(blob);
	assert_int_equal(blob->len, len);
	assert_memory_equal(blob->data, data, len);
}

static void assert_functions(const struct prog *prog, const struct oracle *oracle)
{
	assert_int_equal(prog->func_count, oracle->info.nr_jited_ksyms);
	for (size_t i = 0; i < prog->func_count; i++) {
		assert_true(prog->funcs[i].addr == oracle->ksyms[i]);
		assert_int_equal(prog->funcs[i].len, oracle->func_lens[i]);
		assert_memory_equal(prog->funcs[i].tag, i == 0 ? oracle->info.tag : oracle->tags[i],
				    BPF_TAG_SIZE);
	}
}

static void assert_maps(const struct prog *prog, const struct oracle *oracle)
{
	assert_int_equal(prog->map_count, oracle->info.nr_map_ids);
	for (size_t i = 0; i < prog->map_count; i++) {
		_cleanup_fd_ int fd = bpf_map_get_fd_by_id(oracle->map_ids[i]);
		struct bpf_map_info info = {};
		uint32_t len = sizeof(info);

		assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
		assert_int_equal(prog->maps[i].id, info.id);
		assert_int_equal(prog->maps[i].type, info.type);
		assert_int_equal(prog->maps[i].key_size, info.key_size);
		assert_int_equal(prog->maps[i].value_size, info.value_size);
		assert_int_equal(prog->maps[i].max_entries, info.max_entries);
		assert_string_equal(prog->maps[i].name, info.name);
	}
}

static void assert_captured(struct sources *sources, int prog_fd)
{
	CLEANUP(prog_cleanup) struct prog *prog = capture(sources, prog_fd);
	struct oracle oracle;

	oracle_read(prog_fd, &oracle);
	/* What runs meanwhile does not belong to the comparison. */
	oracle.info.run_cnt = prog->info.run_cnt;
	oracle.info.run_time_ns = prog->info.run_time_ns;
	oracle.info.recursion_misses = prog->info.recursion_misses;
	assert_memory_equal(&prog->info, &oracle.info, sizeof(oracle.info));
	assert_true(prog->captured);
	assert_int_equal(prog->id, oracle.info.id);
	assert_memory_equal(prog->tag, oracle.info.tag, BPF_TAG_SIZE);
	assert_true(prog_is_loaded(prog));

	const struct bpf_prog_info *info = &oracle.info;

	assert_blob(prog->jited, prog->jited_state, oracle.jited, info->jited_prog_len);
	assert_blob(prog->xlated, prog->xlated_state, oracle.xlated, info->xlated_prog_len);
	assert_blob(prog->btf, prog->btf_state, oracle.btf, oracle.btf_len);
	assert_blob(prog->line_info, prog->lines_state, oracle.line_info,
		    (size_t)info->nr_line_info * info->line_info_rec_size);
	assert_blob(prog->func_info, prog->func_info ? PROG_PART_OK : PROG_PART_NONE,
		    oracle.func_info, (size_t)info->nr_func_info * info->func_info_rec_size);
	assert_blob(prog->jited_line, prog->jited_line ? PROG_PART_OK : PROG_PART_NONE,
		    oracle.jited_line_info, info->nr_jited_line_info * sizeof(uint64_t));
	assert_functions(prog, &oracle);
	assert_maps(prog, &oracle);
	oracle_deinit(&oracle);
}

static void test_objects(void **state)
{
	static const char *const names[] = {"calls", "longname", "iter", "sample", "xdp"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_object_ struct bpf_object *object = load_object(names[i]);
		struct bpf_program *program;

		bpf_object__for_each_program(program, object)
			assert_captured(*state, bpf_program__fd(program));
	}
}

static void test_struct_ops(void **state)
{
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	struct bpf_program *program;

	bpf_object__for_each_program(program, congestion_ops_object(ops))
		assert_captured(*state, bpf_program__fd(program));
}

/* Without BTF, without a name, and twins of one tag. */
static void test_raw_programs(void **state)
{
	_cleanup_fd_ int map1 = make_map("sources_1", 8), map2 = make_map("sources_2", 8);
	_cleanup_fd_ int prog1 = load_twin("sources_t", map1), prog2 = load_twin("sources_t", map2);
	_cleanup_fd_ int calls = load_with_subprogram("sources_m", 5, 77);
	_cleanup_fd_ int unnamed = load_simple(NULL, 4);

	assert_captured(*state, prog1);
	assert_captured(*state, prog2);
	assert_captured(*state, calls);
	assert_captured(*state, unnamed);
}

/* Arrays past every guess, then a small program again. */
static void test_large_program(void **state)
{
	static const size_t counts[] = {2, 8000, 20000, 400000, 2};

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_fd_ int fd = load_long("sources_l", 1, counts[i]);

		assert_captured(*state, fd);
	}
}

/* A capture holds nothing: what its loader closes is gone. */
static void test_holds_nothing(void **state)
{
	struct sources *sources = *state;

	for (int i = 0; i < 200; i++) {
		int fd = load_simple("sources_g", i);
		uint32_t id = prog_id(fd);
		CLEANUP(prog_cleanup) struct prog *prog = capture(sources, fd);
		struct prog *again;
		struct prog_stats stats;

		unload(fd);
		assert_int_equal(prog_capture(sources->reader, id, &again), -ENOENT);
		assert_int_equal(prog_read_stats(id, &stats), -ENOENT);
		assert_int_equal(prog->jited->len, prog->info.jited_prog_len);
	}
}

static void test_load_time(void **state)
{
	struct timespec unix_now;
	uint64_t before = monotonic_ns();
	_cleanup_fd_ int fd = load_simple("sources_c", 1);
	uint64_t after = monotonic_ns();
	CLEANUP(prog_cleanup) struct prog *prog = capture(*state, fd);

	clock_gettime(CLOCK_REALTIME, &unix_now);
	/* Three clocks are read one after the other: some microseconds lie between. */
	assert_in_range(prog->loaded_mono, before - 1000000, after + 1000000);
	uint64_t unix_ns = unix_now.tv_sec * NSEC_PER_SEC + unix_now.tv_nsec;

	assert_in_range(prog->loaded_unix, unix_ns - 5 * NSEC_PER_SEC, unix_ns);
}

static void test_attach_targets(void **state)
{
	_cleanup_object_ struct bpf_object *iter = load_object("iter");
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	CLEANUP(prog_cleanup)
	struct prog *prog = capture(*state, object_prog_fd(iter, "iter_maps"));

	if (!prog->info.attach_btf_id) {
		prog_unref(take_ptr(prog));
		skip_because("this kernel does not tell what programs are attached to (6.0)");
	}
	assert_string_equal(prog->attach_target, "bpf_iter_bpf_map");
	prog_unref(prog);
	prog = capture(*state, object_prog_fd(congestion_ops_object(ops), "cc_init"));
	assert_string_equal(prog->attach_target, "tcp_congestion_ops");
	prog_unref(prog);
	_cleanup_fd_ int fd = load_simple("sources_a", 1);

	prog = capture(*state, fd);
	assert_null(prog->attach_target);
}

static void test_stats(void **state)
{
	_cleanup_fd_ int enabled = bpf_enable_stats(BPF_STATS_RUN_TIME);
	_cleanup_fd_ int fd = load_simple("sources_r", 1);
	struct prog_stats stats;

	assert_true(enabled >= 0);
	for (int i = 0; i < 5; i++)
		run_once(fd);
	assert_int_equal(prog_read_stats(prog_id(fd), &stats), 0);
	assert_int_equal(stats.run_cnt, 5);
	assert_true(stats.run_time_ns > 0);
}

/* Every id that the kernel had before and after the walk is in it. */
static void test_ids(void **state)
{
	size_t before_count, after_count;
	_cleanup_fd_ int fd = load_simple("sources_i", 1);
	_cleanup_free_ uint32_t *before = all_prog_ids(&before_count);
	_cleanup_free_ uint32_t *seen = calloc(100000, sizeof(*seen));
	size_t count = 0;
	uint32_t id = 0;
	int r;

	assert_non_null(seen);
	while ((r = prog_next_id(id, &id)) == 0 && count < 100000) {
		assert_true(!count || id > seen[count - 1]);
		seen[count++] = id;
	}
	assert_int_equal(r, -ENOENT);
	_cleanup_free_ uint32_t *after = all_prog_ids(&after_count);

	for (size_t i = 0, at = 0, then = 0; i < before_count; i++) {
		while (then < after_count && after[then] < before[i])
			then++;
		if (then == after_count || after[then] != before[i])
			continue;
		while (at < count && seen[at] < before[i])
			at++;
		assert_true(at < count && seen[at] == before[i]);
	}
}

/* ---- rights ---- */

/* Sets this thread's effective capabilities: all that are permitted, but for some. */
static void set_effective(uint64_t without)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted & ~(uint32_t)(without >> (32 * i));
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* Addresses that are hidden are forbidden, not zero; the rest is there. */
static void test_hidden_addresses(void **state)
{
	struct sources *sources = *state;
	_cleanup_fd_ int fd = load_with_subprogram("sources_h", 5, 78);
	CLEANUP(prog_cleanup) struct prog *prog = NULL;

	set_effective(UINT64_C(1) << CAP_SYSLOG);
	int r = prog_capture(sources->reader, prog_id(fd), &prog);

	set_effective(0);
	assert_int_equal(r, 0);
	if (prog->jited_state == PROG_PART_OK)
		skip_because("kptr_restrict and perf_event_paranoid show addresses to everybody");
	assert_int_equal(prog->jited_state, PROG_PART_FORBIDDEN);
	assert_int_equal(prog->func_count, 0);
	assert_null(prog->jited);
	assert_int_equal(prog->xlated_state, PROG_PART_OK);
	assert_string_equal(prog->name, "sources_h");
}

static void test_not_permitted(void **state)
{
	struct sources *sources = *state;
	_cleanup_fd_ int fd = load_simple("sources_p", 1);
	struct kernelname *kernelname;
	uint32_t id = prog_id(fd);
	struct prog *prog;

	set_effective(UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_BPF);
	int captured = prog_capture(sources->reader, id, &prog);
	int next = prog_next_id(0, &id);
	int opened = kernelname_open(&kernelname);

	set_effective(0);
	assert_int_equal(captured, -EPERM);
	assert_int_equal(next, -EPERM);
	assert_int_equal(opened, -EPERM);
}

/* ---- symbols as the kernel names them ---- */

#define MAX_FUNCS 16

struct named {
	size_t count;
	struct {
		uint64_t addr;
		uint32_t len;
		char name[512];
	} funcs[MAX_FUNCS];
	uint32_t id;
};

static void note_load(const struct record *record, void *arg)
{
	struct named *named = arg;

	if (record->pid != (uint32_t)getpid())
		return;
	if (record->kind == RECORD_KSYMBOL && !record->ksymbol.unregister &&
	    named->count < MAX_FUNCS) {
		named->funcs[named->count].addr = record->ksymbol.addr;
		named->funcs[named->count].len = record->ksymbol.len;
		strcpy(named->funcs[named->count++].name, record->ksymbol.name);
	}
	if (record->kind == RECORD_BPF_EVENT)
		named->id = record->bpf.id;
}

/* Does the kernel give this name to this address, among others? */
static bool is_in_kallsyms(uint64_t addr, const char *name)
{
	struct symbol_list list;

	kallsyms_parse(read_path("/proc/kallsyms", NULL), &list);
	symbol_list_sort(&list);
	const struct symbol_row *row = symbol_find(&list, name, symbol_at(&list, addr));
	bool found = row && row->addr == addr;

	symbol_list_deinit(&list);
	return found;
}

/*
 * The records are of the functions, in their order. The first of several has two names on 5.10: its
 * own, which is recorded, and the program's.
 */
static void assert_named_as_recorded(struct sources *sources, int prog_fd)
{
	CLEANUP(prog_cleanup) struct prog *prog = capture(sources, prog_fd);
	struct named named = {};

	rings_drain(sources->rings, note_load, &named);
	assert_int_equal(named.id, prog->id);
	assert_int_equal(named.count, prog->func_count);
	for (size_t i = 0; i < named.count; i++) {
		uint64_t addr = prog->funcs[i].addr;

		assert_true(named.funcs[i].addr == addr);
		assert_int_equal(named.funcs[i].len, prog->funcs[i].len);
		if (i == 0 && named.count > 1 && is_in_kallsyms(addr, named.funcs[i].name))
			assert_true(is_in_kallsyms(addr, prog->funcs[i].symbol));
		else
			assert_string_equal(named.funcs[i].name, prog->funcs[i].symbol);
	}
}

static void forget(struct sources *sources)
{
	struct named named = {};

	rings_drain(sources->rings, note_load, &named);
}

static void test_symbols(void **state)
{
	struct sources *sources = *state;

	/* libbpf tries the kernel out, once, with programs of its own. */
	close(load_simple("sources_0", 1));
	forget(sources);
	_cleanup_fd_ int unnamed = load_simple(NULL, 31);

	assert_named_as_recorded(sources, unnamed);
	_cleanup_fd_ int named = load_simple("fifteen_bytes_x", 32);

	assert_named_as_recorded(sources, named);
	_cleanup_fd_ int calls = load_with_subprogram("sources_s", 5, 79);

	assert_named_as_recorded(sources, calls);
	_cleanup_fd_ int unnamed_calls = load_with_subprogram(NULL, 6, 79);

	assert_named_as_recorded(sources, unnamed_calls);
}

/* The names that come from BTF, by the kernel's list: objects load several programs at once. */
static void test_btf_symbols(void **state)
{
	static const char *const names[] = {"calls", "longname"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_object_ struct bpf_object *object = load_object(names[i]);
		struct bpf_program *program;

		bpf_object__for_each_program(program, object)
		{
			CLEANUP(prog_cleanup)
			struct prog *prog = capture(*state, bpf_program__fd(program));

			assert_string_equal(prog->name, bpf_program__name(program));
			for (size_t f = 0; f < prog->func_count; f++)
				assert_true(
					is_in_kallsyms(prog->funcs[f].addr, prog->funcs[f].symbol));
		}
	}
}

/* ---- BTF of the kernel ---- */

/* libbpf, which reads the same file whole, is the oracle for every 97th type. */
static void test_kernel_btf_names(void **state)
{
	struct btf *oracle = btf__load_vmlinux_btf();
	CLEANUP(btf_file_cleanup) struct btf_file *file = NULL;

	if (!oracle)
		skip_because("this kernel has no BTF");
	assert_int_equal(btf_file_open("vmlinux", NULL, &file), 0);
	uint32_t count = btf__type_cnt(oracle);

	for (uint32_t id = 1; id < count; id += id + 200 < count ? 97 : 1) {
		const char *expected =
			btf__name_by_offset(oracle, btf__type_by_id(oracle, id)->name_off);
		_cleanup_free_ char *name = NULL;
		int r = btf_file_name(file, id, &name);

		if (expected[0] == '\0') {
			assert_int_equal(r, -ENOENT);
			continue;
		}
		assert_int_equal(r, 0);
		assert_string_equal(name, expected);
	}
	char *none;

	assert_int_equal(btf_file_name(file, count, &none), -ENOENT);
	assert_int_equal(btf_file_name(file, UINT32_MAX, &none), -ENOENT);
	assert_int_equal(btf_file_name(file, 0, &none), -ENOENT);
	btf__free(oracle);
}

/* ---- the kernel's own names ---- */

static bool is_named_at(const struct symbol_list *list, uint64_t addr, const char *name)
{
	const struct symbol_row *row = symbol_at(list, addr);

	for (; row && row < list->rows + list->count && row->addr == addr; row++)
		if (strcmp(row->name, name) == 0)
			return true;
	return false;
}

/* Functions of the kernel, every 50th, by their first byte and by the one after. */
static void test_names_are_kallsyms(void **state)
{
	CLEANUP(kernelname_cleanup) struct kernelname *kernelname = NULL;
	struct kernelname_answer answer;
	struct symbol_list list;
	size_t asked = 0;

	kernelname = open_kernelname();
	kallsyms_parse(read_path("/proc/kallsyms", NULL), &list);
	symbol_list_sort(&list);
	for (size_t i = 0; i + 1 < list.count; i += 50) {
		const struct symbol_row *row = &list.rows[i];

		if (!strchr("tT", row->type) || row->module[0] ||
		    list.rows[i + 1].addr <= row->addr + 1)
			continue;
		for (uint64_t offset = 0; offset < 2; offset++) {
			assert_int_equal(kernelname_ask(kernelname, row->addr + offset, &answer),
					 0);
			assert_true(answer.offset == offset);
			assert_true(is_named_at(&list, row->addr, answer.name));
			assert_true(answer.size > offset);
			asked++;
		}
	}
	assert_true(asked > 100);
	assert_int_equal(kernelname_ask(kernelname, 0x1000, &answer), -ENOENT);
	symbol_list_deinit(&list);
}

static void test_names_of_programs(void **state)
{
	CLEANUP(kernelname_cleanup) struct kernelname *kernelname = NULL;
	_cleanup_object_ struct bpf_object *object = load_object("longname");
	struct bpf_program *program;

	kernelname = open_kernelname();
	bpf_object__for_each_program(program, object)
	{
		CLEANUP(prog_cleanup)
		struct prog *prog = capture(*state, bpf_program__fd(program));
		struct kernelname_answer answer;
		uint64_t last = prog->funcs[0].addr + prog->funcs[0].len - 1;

		assert_int_equal(kernelname_ask(kernelname, last, &answer), 0);
		assert_string_equal(answer.name, prog->funcs[0].symbol);
		assert_int_equal(answer.size, prog->funcs[0].len);
		assert_int_equal(answer.offset, prog->funcs[0].len - 1);
	}
}

/* Images lie closer than the page that their records say: the kernel knows how long they are. */
static void test_lengths_of_images(void **state)
{
	if (!kernel_has_struct_ops_symbols())
		skip_because("no symbols of struct_ops images");
	CLEANUP(kernelname_cleanup) struct kernelname *kernelname = NULL;
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	struct symbol_list list;
	size_t images = 0;

	kernelname = open_kernelname();
	kallsyms_parse(read_path("/proc/kallsyms", NULL), &list);
	symbol_list_sort(&list);
	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];
		struct kernelname_answer answer;

		if (strncmp(row->name, "bpf__tcp_congestion_ops_", 24))
			continue;
		assert_int_equal(kernelname_ask(kernelname, row->addr + 1, &answer), 0);
		assert_string_equal(answer.name, row->name);
		assert_int_equal(answer.offset, 1);
		assert_in_range(answer.size, 2, 4095);
		if (i + 1 < list.count)
			assert_true(row->addr + answer.size <= list.rows[i + 1].addr);
		images++;
	}
	assert_true(images >= 4);
	symbol_list_deinit(&list);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_objects),
		TEST(test_struct_ops),
		TEST(test_raw_programs),
		TEST(test_large_program),
		TEST(test_holds_nothing),
		TEST(test_load_time),
		TEST(test_attach_targets),
		TEST(test_stats),
		TEST(test_ids),
		TEST(test_hidden_addresses),
		TEST(test_not_permitted),
		TEST(test_symbols),
		TEST(test_btf_symbols),
		TEST(test_kernel_btf_names),
		TEST(test_names_are_kallsyms),
		TEST(test_names_of_programs),
		TEST(test_lengths_of_images),
	};

	return live_run_bare(tests);
}
