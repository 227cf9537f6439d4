/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms, kallsyms, addr/ and bpf/ of the whole program against the running kernel: its own
 * /proc/kallsyms, prog_info of held fds, and its own %pS.
 */
#include "tests/live/support.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/kernelname.h"

#define LOADS 1000
/* Tags of this file's programs begin here, so that no other test's are taken for them. */
#define VARIANT 0x4b000000

static void read_ksyms(const struct ksymfs *fs, struct symbol_list *ret)
{
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), ret);
}

/* ---- one of each kind ---- */

static void test_each_kind(void **state)
{
	static const char *const names[] = {"calls", "longname", "iter", "xdp", "sample"};
	struct ksymfs *fs = *state;
	struct bpf_object *objects[ARRAY_SIZE(names)];
	_cleanup_fd_ int plain = load_simple("plain", VARIANT + 1);
	_cleanup_fd_ int nested = load_with_subprogram("nested", 3, VARIANT + 2);
	_cleanup_fd_ int unnamed = load_simple(NULL, VARIANT + 3);
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		objects[i] = load_object(names[i]);
	run_through_xdp_dispatcher(object_prog_fd(objects[3], "xdp_sort"));

	assert_ksyms_is_kallsyms(fs);
	assert_ksyms_has_program(fs, plain);
	assert_ksyms_has_program(fs, nested);
	assert_ksyms_has_program(fs, unnamed);
	assert_ksyms_has_program(fs, object_prog_fd(objects[0], "calls_main"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		close_object(objects[i]);
	congestion_ops_detach(take_ptr(ops));
	assert_ksyms_is_kallsyms(fs);
}

/* The kernel's hidden function of a program that throws is in no record and no prog_info. */
static void test_exception_callback(void **state)
{
	if (!kernel_has_calls_of("throw"))
		skip_because("no bpf_throw");
	_cleanup_object_ struct bpf_object *object = load_object("throw");

	assert_ksyms_has_program(*state, object_prog_fd(object, "throw_if_long"));
	assert_ksyms_is_kallsyms(*state);
	close_object(take_ptr(object));
	assert_ksyms_is_kallsyms(*state);
}

static void test_unprivileged(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_fd_ int prog = load_unprivileged(VARIANT + 4);
	struct symbol_list list;
	struct oracle oracle;
	char name[64];

	oracle_read(prog, &oracle);
	snprintf(name, sizeof(name), "bpf_prog_%s", oracle.tag);
	read_ksyms(fs, &list);
	const struct symbol_row *row = symbol_at(&list, oracle.ksyms[0]);
	assert_non_null(row);
	assert_string_equal(row->name, name);
	assert_int_equal(row->size, oracle.func_lens[0]);
	symbol_list_deinit(&list);
	oracle_deinit(&oracle);
}

static void test_every_program(void **state)
{
	struct ksymfs *fs = *state;
	/* In a guest there may be no other. */
	_cleanup_fd_ int one = load_with_subprogram("every_program", 3, VARIANT + 6);
	size_t count;
	_cleanup_free_ uint32_t *ids = all_prog_ids(&count);
	size_t seen = 0;

	for (size_t i = 0; i < count; i++) {
		struct oracle oracle;

		if (oracle_read_id(ids[i], &oracle))
			continue;
		for (uint32_t f = 0; f < oracle.info.nr_jited_ksyms; f++) {
			_cleanup_free_ char *path =
				ksymfs_path(fs, "addr/%" PRIx64, (uint64_t)oracle.ksyms[f]);
			_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

			/* A stranger's program may go at any moment. */
			if (fd < 0 && oracle_read_id(ids[i], &(struct oracle){0}) == -ENOENT)
				continue;
			assert_return_code(fd, errno);
			_cleanup_free_ char *text = read_fd(fd, NULL);
			uint64_t offset, size;
			assert_int_equal(sscanf(text, "%*[^+]+0x%" SCNx64 "/0x%" SCNx64 " [bpf]",
						&offset, &size),
					 2);
			assert_int_equal(offset, 0);
			assert_int_equal(size, oracle.func_lens[f]);
			seen++;
		}
		oracle_deinit(&oracle);
	}
	assert_true(seen > 0);
}

static void test_ranges_do_not_overlap(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	struct symbol_list list;

	read_ksyms(fs, &list);
	assert_true(list.count > 10000);
	for (size_t i = 0; i + 1 < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];

		assert_true(row->addr <= row[1].addr);
		if (row->addr == row[1].addr) {
			/* Aliases, or neighbours of which one is empty. */
			assert_true(row->size == row[1].size || !row->size || !row[1].size);
			continue;
		}
		if (row->size > row[1].addr - row->addr)
			fail_msg("%s reaches into %s", row->name, row[1].name);
	}
	symbol_list_deinit(&list);
}

/* The kallsyms file is ksyms without its sizes. */
static void test_kallsyms_format(void **state)
{
	struct ksymfs *fs = *state;

	for (int tries = 0; tries < 10; tries++) {
		struct symbol_list ksyms, kallsyms;
		bool equal;

		read_ksyms(fs, &ksyms);
		kallsyms_parse(ksymfs_read(fs, NULL, "kallsyms"), &kallsyms);
		equal = ksyms.count == kallsyms.count;
		for (size_t i = 0; equal && i < ksyms.count; i++)
			equal = ksyms.rows[i].addr == kallsyms.rows[i].addr &&
				ksyms.rows[i].type == kallsyms.rows[i].type &&
				strcmp(ksyms.rows[i].name, kallsyms.rows[i].name) == 0 &&
				strcmp(ksyms.rows[i].module, kallsyms.rows[i].module) == 0;
		symbol_list_deinit(&ksyms);
		symbol_list_deinit(&kallsyms);
		if (equal)
			return;
	}
	fail_msg("ksyms and kallsyms were never the same");
}

/* ---- %pS ---- */

/* The first line of addr/ADDR, without newline; NULL for ENOENT. The caller frees. */
static char *ask_tree(const struct ksymfs *fs, uint64_t addr)
{
	int fd = ksymfs_open(fs, "addr/%" PRIx64, addr);

	if (fd == -ENOENT)
		return NULL;
	if (fd < 0)
		fail_msg("addr/%" PRIx64 ": %s", addr, strerror(-fd));
	char *text = read_fd(fd, NULL);
	close(fd);
	char *end = strchr(text, '\n');
	assert_non_null(end);
	*end = '\0';
	return text;
}

static void write_answer(const struct kernelname_answer *answer, char *line, size_t size)
{
	snprintf(line, size, "%s+0x%" PRIx64 "/0x%" PRIx64 "%s%s%s", answer->name, answer->offset,
		 answer->size, answer->module[0] ? " [" : "", answer->module,
		 answer->module[0] ? "]" : "");
}

/*
 * Do the tree and %pS say the same of addr, among programs and images? But that %pS leaves out
 * [bpf], which kallsyms has, and names the neighbour that ends at the byte where something else, or
 * nothing, begins.
 */
static bool agrees(const struct ksymfs *fs, struct kernelname *kernel, uint64_t addr, bool show)
{
	_cleanup_free_ char *ours = ask_tree(fs, addr);
	struct kernelname_answer answer, next;
	int err = kernelname_ask(kernel, addr, &answer);
	char line[768];

	if (err == -ENOENT && !ours)
		return true;
	if (err == 0 && !answer.module[0])
		strcpy(answer.module, "bpf");
	if (err == 0)
		write_answer(&answer, line, sizeof(line));
	if (err == 0 && ours && strcmp(ours, line) == 0)
		return true;
	if (ours && strstr(ours, "+0x0/") && (err || answer.offset == answer.size) &&
	    kernelname_ask(kernel, addr + 1, &next) == 0 &&
	    strncmp(ours, next.name, strlen(next.name)) == 0 && next.offset == 1)
		return true;
	if (err == 0 && !ours && answer.offset == answer.size)
		return true;
	if (show)
		fprintf(stderr, "# %#" PRIx64 ": the tree says %s, the kernel %s\n", addr,
			ours ? ours : "nothing", err ? "nothing" : line);
	return false;
}

static void assert_agrees(const struct ksymfs *fs, struct kernelname *kernel, uint64_t addr)
{
	/* A stranger may load or unload between the two questions. */
	for (int tries = 0; tries < 4; tries++)
		if (agrees(fs, kernel, addr, tries == 3))
			return;
	fail_msg("the tree and %%pS differ at %#" PRIx64, addr);
}

static void test_bpf_range_against_kernel(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_object_ struct bpf_object *calls = load_object("calls");
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	struct kernelname *kernel CLEANUP(kernelname_cleanup) = NULL;
	struct symbol_list list;
	uint64_t next = 0;
	size_t asked = 0;

	kernel = open_kernelname();
	read_ksyms(fs, &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];

		if (strcmp(row->module, "bpf"))
			continue;
		/* From the start of its page to some way past it; gaps of pages are left out. */
		for (next = MAX(next, row->addr & ~UINT64_C(4095));
		     next < row->addr + row->size + 256; next += 16, asked++)
			assert_agrees(fs, kernel, next);
	}
	symbol_list_deinit(&list);
	/* Our own: a page of images, and the programs. */
	assert_true(asked > 4096 / 16);
}

/* Of a core symbol: does something else begin where it ends? If not, its section ends there. */
static bool has_neighbour(const struct symbol_list *list, const struct symbol_row *row)
{
	const struct symbol_row *next = row;

	while (next < list->rows + list->count && next->addr == row->addr)
		next++;
	return next < list->rows + list->count && next->addr == row->addr + row->size;
}

/*
 * 10,000 bytes of core symbols. The difference that the contract names: the kernel stretches the
 * last symbol of a section to the next section, and ours ends where its section does.
 */
static void test_core_addresses_against_kernel(void **state)
{
	struct ksymfs *fs = *state;
	struct kernelname *kernel CLEANUP(kernelname_cleanup) = NULL;
	struct symbol_list list;
	int asked = 0;

	kernel = open_kernelname();
	read_ksyms(fs, &list);
	srandom(getpid());
	while (asked < rounds_of(10000)) {
		const struct symbol_row *row = &list.rows[random() % list.count];

		if (row->module[0] || row->addr < UINT64_C(1) << 63 || !row->size)
			continue;
		uint64_t addr = row->addr + random() % row->size;
		_cleanup_free_ char *ours = ask_tree(fs, addr);
		struct kernelname_answer answer;
		char line[768];

		assert_non_null(ours);
		assert_int_equal(kernelname_ask(kernel, addr, &answer), 0);
		if (!has_neighbour(&list, row)) {
			assert_true(row->size <= answer.size);
			answer.size = row->size;
		}
		write_answer(&answer, line, sizeof(line));
		assert_string_equal(ours, line);
		asked++;
	}
	symbol_list_deinit(&list);
}

/* Sections end, and so do their last symbols: past those there is nothing, in few places or none.
 */
static void test_section_ends(void **state)
{
	struct symbol_list list;
	int ends = 0;

	read_ksyms(*state, &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];

		if (row->module[0] || row->addr < UINT64_C(1) << 63 || !row->size ||
		    (i && list.rows[i - 1].addr == row->addr) || has_neighbour(&list, row))
			continue;
		_cleanup_free_ char *past = ask_tree(*state, row->addr + row->size);
		assert_null(past);
		ends++;
	}
	symbol_list_deinit(&list);
	assert_true(ends <= 64);
}

static void test_addr_spellings(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_fd_ int prog = load_simple("spelling", VARIANT + 5);
	struct oracle oracle;

	oracle_read(prog, &oracle);
	uint64_t addr = oracle.ksyms[0];
	_cleanup_free_ char *plain = ksymfs_read(fs, NULL, "addr/%" PRIx64, addr + 4);
	_cleanup_free_ char *prefixed = ksymfs_read(fs, NULL, "addr/0x%" PRIx64, addr + 4);
	_cleanup_free_ char *upper = ksymfs_read(fs, NULL, "addr/%" PRIX64, addr + 4);
	_cleanup_free_ char *before = ksymfs_read(fs, NULL, "addr/%" PRIx64 "-1", addr + 5);
	assert_string_equal(plain, prefixed);
	assert_string_equal(plain, upper);
	assert_string_equal(plain, before);
	/* One past the last byte is not the program's. */
	uint64_t end = addr + oracle.func_lens[0];
	_cleanup_free_ char *last = ksymfs_read(fs, NULL, "addr/%" PRIx64 "-1", end);
	assert_non_null(strstr(last, oracle.tag));
	_cleanup_free_ char *past = ask_tree(fs, end);
	assert_true(!past || !strstr(past, oracle.tag));
	oracle_deinit(&oracle);

	static const char *const bad[] = {"zz",	 "1@", "1@-5", "0x",  "-1",
					  "1-2", "@1", "1@@2", "1 2", "ffffffffffffffffff"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int fd = ksymfs_open(fs, "addr/%s", bad[i]);

		if (fd != -ENOENT && fd != -EINVAL)
			fail_msg("addr/%s: %d", bad[i], fd);
	}
	char digits[101] = {0};
	memset(digits, '1', 100);
	int fd = ksymfs_open(fs, "addr/%s", digits);
	assert_true(fd == -ENOENT || fd == -EINVAL);
	fd = ksymfs_open(fs, "addr/1@%s", digits);
	assert_true(fd == -ENOENT || fd == -EINVAL);
}

/* ---- coming and going ---- */

/* Looks at once after each load, and again after the close: never late, never still there. */
static void load_and_look(const struct ksymfs *fs, int variant, bool whole)
{
	_cleanup_fd_ int prog = load_simple("look", variant);
	struct oracle oracle;
	struct stat st;
	char symbol[64];

	oracle_read(prog, &oracle);
	snprintf(symbol, sizeof(symbol), "bpf_prog_%s_look", oracle.tag);
	if (whole) {
		_cleanup_free_ char *programs = ksymfs_read(fs, NULL, "bpf/programs");
		char row[64];

		snprintf(row, sizeof(row), "%u %s loaded ", oracle.info.id, oracle.tag);
		if (count_lines_with(programs, row) != 1)
			fail_msg("bpf/programs has no `%s` right after the load", row);
	}
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/%s/%u/jited", oracle.tag, oracle.info.id), 0);
	assert_int_equal(st.st_size, oracle.info.jited_prog_len);
	_cleanup_free_ char *addr = ask_tree(fs, oracle.ksyms[0] + 1);
	assert_non_null(addr);
	assert_memory_equal(addr, symbol, strlen(symbol));
	if (whole) {
		_cleanup_free_ char *ksyms = ksymfs_read(fs, NULL, "ksyms");
		assert_int_equal(count_lines_with(ksyms, symbol), 1);
	}

	unload(take_fd(&prog));
	_cleanup_free_ char *gone = ask_tree(fs, oracle.ksyms[0] + 1);
	/* Somebody else's may be there by now. */
	assert_true(!gone || !strstr(gone, symbol));
	if (whole) {
		_cleanup_free_ char *ksyms = ksymfs_read(fs, NULL, "ksyms");
		assert_int_equal(count_lines_with(ksyms, symbol), 0);
	}
	oracle_deinit(&oracle);
}

static void test_load_then_look(void **state)
{
	for (int i = 0; i < rounds_of(LOADS); i++)
		load_and_look(*state, VARIANT + 0x1000 + i, i % 20 == 0);
}

static void test_load_here_unload_there(void **state)
{
	struct ksymfs *fs = *state;

	for (int i = 0; i < 200; i++) {
		if (!pin_to_cpu(i & 1))
			skip_because("this machine has one CPU");
		int prog = load_simple("crossing", VARIANT + 0x2000 + i % 7);
		uint32_t id = prog_id(prog);
		pin_to_cpu(!(i & 1));
		_cleanup_free_ char *loaded = ksymfs_value(fs, "state", "bpf/by-id/%u/info", id);
		assert_string_equal(loaded, "loaded");
		unload(prog);
		_cleanup_free_ char *unloaded = ksymfs_value(fs, "state", "bpf/by-id/%u/info", id);
		assert_string_equal(unloaded, "unloaded");
	}
	unpin_cpu();
	assert_ksyms_is_kallsyms(fs);
}

static uint64_t lost_records(const struct ksymfs *fs)
{
	_cleanup_free_ char *lost = ksymfs_value(fs, "lost_records", "status");

	assert_non_null(lost);
	return strtoull(lost, NULL, 10);
}

/*
 * The daemon is stopped until its rings cannot hold what happens: what it missed it must make good.
 * The name's length decides which of a load's records is the last that fits.
 */
static void overflow(const char *name)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	int kept[40], early = load_simple("early", VARIANT + 0x3000);
	uint64_t before = lost_records(fs);

	kill(fs->daemon, SIGSTOP);
	close(early);
	for (int i = 0; i < 8000; i++) {
		int prog = load_simple(name, VARIANT + 0x3001 + i % 50);

		if (i % 200)
			close(prog);
		else
			kept[i / 200] = prog;
	}
	kill(fs->daemon, SIGCONT);
	assert_ksyms_is_kallsyms(fs);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		_cleanup_free_ char *loaded =
			ksymfs_value(fs, "state", "bpf/by-id/%u/info", prog_id(kept[i]));
		assert_string_equal(loaded, "loaded");
	}
	assert_true(lost_records(fs) > before);
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	assert_true(count_lines_with(events, " lost records=") > 0);
	assert_true(count_lines_with(events, " resync added=") > 0);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		close(kept[i]);
	assert_ksyms_is_kallsyms(fs);
}

static void test_overflow(void **state)
{
	overflow("over");
	overflow("overflow");
	overflow("overflow_longer");
}

struct churn {
	pthread_t thread;
	atomic_bool stop;
	unsigned int rounds;
};

static void *churn_programs(void *arg)
{
	struct churn *churn = arg;
	int held[16];

	memset(held, -1, sizeof(held));
	while (!churn->stop) {
		int *slot = &held[churn->rounds++ % ARRAY_SIZE(held)];

		if (*slot >= 0)
			close(*slot);
		*slot = load_simple("churn", VARIANT + 0x4000 + churn->rounds % 100);
	}
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		if (held[i] >= 0)
			close(held[i]);
	return NULL;
}

static void test_churn_during_baseline(void **state)
{
	for (int i = 0; i < 5; i++) {
		struct churn churn = {0};

		assert_int_equal(pthread_create(&churn.thread, NULL, churn_programs, &churn), 0);
		struct ksymfs *fs = ksymfs_start(NULL);
		churn.stop = true;
		pthread_join(churn.thread, NULL);
		assert_true(churn.rounds > 10);
		assert_ksyms_is_kallsyms(fs);
		ksymfs_stop(fs);
	}
}

/* ---- images ---- */

static void test_images_have_true_sizes(void **state)
{
	struct ksymfs *fs = *state;
	if (!kernel_has_struct_ops_symbols())
		skip_because("no symbols of struct_ops images");
	_cleanup_congestion_ops_ struct congestion_ops *first = congestion_ops_attach();
	_cleanup_congestion_ops_ struct congestion_ops *second = congestion_ops_attach();
	struct kernelname *kernel CLEANUP(kernelname_cleanup) = NULL;
	_cleanup_ksymfs_ struct ksymfs *late = ksymfs_start(NULL);
	const struct ksymfs *both[] = {fs, late};

	kernel = open_kernelname();
	/* One that saw them come, and one that found them there. */
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		_cleanup_free_ char *images = ksymfs_read(both[i], NULL, "bpf/images");
		char *cursor = images, *line;
		size_t ours = 0;

		while ((line = next_line(&cursor))) {
			uint64_t addr, size;
			char name[512];
			struct kernelname_answer answer;

			assert_int_equal(
				sscanf(line, "%" SCNx64 " %" SCNx64 " %511s", &addr, &size, name),
				3);
			if (strncmp(name, "bpf__tcp_congestion_ops_", 24))
				continue;
			/* Gone meanwhile: a stranger's. */
			if (kernelname_ask(kernel, addr + 1, &answer) || answer.offset != 1)
				continue;
			assert_string_equal(name, answer.name);
			assert_int_equal(size, answer.size);
			ours++;
		}
		assert_true(ours >= 8);
	}
}

/* ---- files ---- */

static void assert_file(const struct ksymfs *fs, const struct oracle *oracle, const char *file,
			const void *bytes, size_t len)
{
	size_t got;
	_cleanup_free_ char *data =
		ksymfs_read(fs, &got, "bpf/%s/%u/%s", oracle->tag, oracle->info.id, file);

	assert_int_equal(got, len);
	assert_memory_equal(data, bytes, len);
}

static void test_bytes_are_the_kernels(void **state)
{
	static const char *const cases[][2] = {
		{"calls", "calls_main"}, {"throw", "throw_if_long"}, {"iter", "iter_maps"}};
	struct ksymfs *fs = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!kernel_has_calls_of(cases[i][0]))
			continue;
		_cleanup_object_ struct bpf_object *object = load_object(cases[i][0]);
		struct oracle oracle;

		oracle_read(object_prog_fd(object, cases[i][1]), &oracle);
		assert_file(fs, &oracle, "jited", oracle.jited, oracle.info.jited_prog_len);
		assert_file(fs, &oracle, "xlated", oracle.xlated, oracle.info.xlated_prog_len);
		assert_file(fs, &oracle, "btf", oracle.btf, oracle.btf_len);
		oracle_deinit(&oracle);
	}
}

/* One tag, two meanings: a program's own, and a subprogram's of another. */
static void test_tag_of_subprogram_and_program(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_fd_ int outer_fd = load_with_subprogram("outer", 9, VARIANT + 6);
	struct oracle outer, own;
	char tag[2 * BPF_TAG_SIZE + 1], target[128] = {0};
	struct stat st;

	oracle_read(outer_fd, &outer);
	tag_text(outer.tags[1], tag);
	_cleanup_free_ char *link = ksymfs_path(fs, "bpf/%s/%u", tag, outer.info.id);
	assert_return_code(readlink(link, target, sizeof(target) - 1), errno);
	char expected[128];
	snprintf(expected, sizeof(expected), "../%s/%u", outer.tag, outer.info.id);
	assert_string_equal(target, expected);
	size_t len;
	_cleanup_free_ char *by_sub = ksymfs_read(fs, &len, "bpf/%s/jited", tag);
	assert_int_equal(len, outer.info.jited_prog_len);

	_cleanup_fd_ int own_fd = load_simple("own", VARIANT + 6);
	oracle_read(own_fd, &own);
	assert_string_equal(own.tag, tag);
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/%s/%u", tag, own.info.id), 0);
	assert_true(S_ISDIR(st.st_mode));
	/* An own tag stands before a subprogram's. */
	_cleanup_free_ char *by_own = ksymfs_read(fs, &len, "bpf/%s/jited", tag);
	assert_int_equal(len, own.info.jited_prog_len);
	oracle_deinit(&outer);
	oracle_deinit(&own);
}

static void test_odd_names(void **state)
{
	static const struct {
		const char *name, *file_name;
	} cases[] = {{".", "\\056"}, {"..", "\\056\\056"}, {".a", ".a"}, {"a.b", "a.b"}};
	struct ksymfs *fs = *state;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int prog = load_simple(cases[i].name, VARIANT + 7);
		uint32_t id = prog_id(prog);

		assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-name/%s/%u", cases[i].file_name, id),
				 0);
		assert_true(S_ISLNK(st.st_mode));
		_cleanup_free_ char *name = ksymfs_value(fs, "name", "bpf/by-id/%u/info", id);
		assert_string_equal(name, cases[i].file_name[0] == '\\' && cases[i].name[0] == '.'
						  ? cases[i].name
						  : cases[i].file_name);
	}
	_cleanup_object_ struct bpf_object *object = load_object("longname");
	const char *whole =
		"a_name_that_is_very_much_longer_than_the_fifteen_bytes_that_prog_info_keeps";
	uint32_t id = prog_id(object_prog_fd(object, whole));
	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-name/%s/%u", whole, id), 0);
}

static void test_held_file_keeps_its_bytes(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *path = ksymfs_path(fs, "ksyms");
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat before, after;
	size_t first_len, len;

	assert_return_code(fd, errno);
	assert_return_code(fstat(fd, &before), errno);
	_cleanup_free_ char *first = read_fd(fd, &first_len);
	_cleanup_fd_ int prog = load_simple("held", VARIANT + 8);
	_cleanup_free_ char *other = ksymfs_read(fs, &len, "ksyms");
	assert_true(count_lines_with(other, "_held\t[bpf]") == 1);
	assert_return_code(lseek(fd, 0, SEEK_SET), errno);
	assert_return_code(fstat(fd, &after), errno);
	_cleanup_free_ char *again = read_fd(fd, &len);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(len, first_len);
	assert_memory_equal(first, again, len);
	assert_int_equal(before.st_size, len);
}

static size_t files_measured;

static int measure(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_DNR)
		fail_msg("%s: cannot be listed", path);
	if (type != FTW_F)
		return 0;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat opened;
	size_t len;

	/* Processes come and go. */
	if (fd < 0 && (errno == ENOENT || errno == ESTALE || errno == EACCES))
		return 0;
	if (fd < 0)
		fail_msg("open %s: %s", path, strerror(errno));
	assert_return_code(fstat(fd, &opened), errno);
	_cleanup_free_ char *data = read_fd(fd, &len);
	const char *name = strrchr(path, '/') + 1;
	if (strcmp(name, "events") == 0 ? (size_t)opened.st_size > len
					: (size_t)opened.st_size != len)
		fail_msg("%s: fstat says %lld, and %zu came", path, (long long)opened.st_size, len);
	assert_int_equal(st->st_ino, opened.st_ino);
	files_measured++;
	return 0;
}

static void test_every_size(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_object_ struct bpf_object *object = load_object("calls");

	files_measured = 0;
	assert_int_equal(nftw(fs->dir, measure, 32, FTW_PHYS), 0);
	assert_true(files_measured > 30);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind),
		cmocka_unit_test(test_exception_callback),
		cmocka_unit_test(test_unprivileged),
		cmocka_unit_test(test_every_program),
		cmocka_unit_test(test_ranges_do_not_overlap),
		cmocka_unit_test(test_kallsyms_format),
		cmocka_unit_test(test_bpf_range_against_kernel),
		cmocka_unit_test(test_core_addresses_against_kernel),
		cmocka_unit_test(test_section_ends),
		cmocka_unit_test(test_addr_spellings),
		/* While few programs are retained, for it reads all of each. */
		cmocka_unit_test(test_every_size),
		cmocka_unit_test(test_load_then_look),
		cmocka_unit_test(test_load_here_unload_there),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_churn_during_baseline),
		cmocka_unit_test(test_images_have_true_sizes),
		cmocka_unit_test(test_bytes_are_the_kernels),
		cmocka_unit_test(test_tag_of_subprogram_and_program),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_held_file_keeps_its_bytes),
	};

	return live_run(tests);
}
