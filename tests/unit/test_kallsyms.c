/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asset files: assets/kallsyms/good/NAME.kallsyms is read, with its bounds, into a table that then
 * reads as NAME.ksyms says; assets/kallsyms/bad/NAME.LINE.kallsyms is refused for that line.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/kallsyms.h"
#include "core/layout.h"
#include "core/text.h"

static int open_asset(const char *dir, const char *file)
{
	char path[4096];
	const char *assets = getenv("TEST_ASSETS");

	assert_non_null(assets);
	snprintf(path, sizeof(path), "%s/kallsyms/%s/%s", assets, dir, file);

	int fd = open(path, O_RDONLY | O_CLOEXEC | (*file ? 0 : O_DIRECTORY));

	assert_true(fd >= 0);
	return fd;
}

static void read_asset(const char *dir, const char *file, struct text *ret)
{
	_cleanup_fd_ int fd = open_asset(dir, file);
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		text_append(ret, buf, n);
	assert_int_equal(n, 0);
	assert_false(ret->failed);
}

/* Calls check for each .kallsyms file of a directory, without its suffix. Returns how many. */
static int each_asset(const char *dir, void (*check)(const char *name))
{
	_cleanup_dir_ DIR *stream = fdopendir(open_asset(dir, ""));
	struct dirent *entry;
	int count = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream))) {
		char *suffix = strstr(entry->d_name, ".kallsyms");

		if (!suffix)
			continue;
		*suffix = '\0';
		print_message("# %s/%s\n", dir, entry->d_name);
		check(entry->d_name);
		count++;
	}
	return count;
}

static int read_text(const char *data, size_t len, bool modules_only, struct kallsyms *ret,
		     size_t *ret_line)
{
	_cleanup_fd_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return kallsyms_read(fd, modules_only, ret, ret_line);
}

static void assert_same_list(const struct kallsyms *a, const struct kallsyms *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->hidden, b->hidden);
	for (size_t i = 0; i < a->count; i++) {
		const struct symbol *x = &a->symbols[i], *y = &b->symbols[i];

		assert_int_equal(x->addr, y->addr);
		assert_int_equal(x->type, y->type);
		assert_int_equal(x->kind, y->kind);
		assert_string_equal(x->name, y->name);
		assert_int_equal(!x->module, !y->module);
		if (x->module)
			assert_string_equal(x->module, y->module);
	}
}

static int add_bounds(const struct kallsyms *list, struct symtab *table)
{
	struct layout layout = {};

	layout_see(&layout, list->symbols, list->count);
	return layout_add_bounds(&layout, table);
}

static void check_good(const char *name)
{
	_cleanup_text_ struct text input = {}, expected = {};
	struct kallsyms list, again;
	struct symtab *table;
	struct snapshot *snapshot;
	char file[256];

	snprintf(file, sizeof(file), "%s.kallsyms", name);
	read_asset("good", file, &input);
	snprintf(file, sizeof(file), "%s.ksyms", name);
	read_asset("good", file, &expected);
	assert_int_equal(kallsyms_parse(input.data, input.len, false, &list, NULL), 0);
	assert_int_equal(read_text(input.data, input.len, false, &again, NULL), 0);
	assert_same_list(&list, &again);
	kallsyms_deinit(&again);

	assert_int_equal(symtab_create(&table), 0);
	assert_int_equal(symtab_add_all(table, list.symbols, list.count), list.count);
	/* Twice, as after a module has come: the second time says nothing new. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(add_bounds(&list, table), 0);
	kallsyms_deinit(&list);
	assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &snapshot), 0);

	size_t size = snapshot_size(snapshot);
	_cleanup_free_ char *text = malloc(size + 1);

	assert_non_null(text);
	text[snapshot_read(snapshot, 0, text, size)] = '\0';
	text_putc(&expected, '\0');
	assert_string_equal(text, expected.data);
	snapshot_unref(snapshot);
	symtab_destroy(table);
}

static void test_good_assets(void **state)
{
	assert_in_range(each_asset("good", check_good), 5, 1000);
}

static void check_bad(const char *name)
{
	_cleanup_text_ struct text input = {};
	struct kallsyms list;
	size_t expected = strtoul(strrchr(name, '.') + 1, NULL, 10);
	char file[256];

	snprintf(file, sizeof(file), "%s.kallsyms", name);
	read_asset("bad", file, &input);
	/* Rows that are not kept must be rows all the same. */
	for (int modules_only = 0; modules_only < 2; modules_only++) {
		size_t line = 0;

		assert_int_equal(kallsyms_parse(input.data, input.len, modules_only, &list, &line),
				 -EBADMSG);
		assert_int_equal(line, expected);
		line = 0;
		assert_int_equal(read_text(input.data, input.len, modules_only, &list, &line),
				 -EBADMSG);
		assert_int_equal(line, expected);
		assert_int_equal(kallsyms_parse(input.data, input.len, modules_only, &list, NULL),
				 -EBADMSG);
	}
}

static void test_bad_assets(void **state)
{
	assert_in_range(each_asset("bad", check_bad), 25, 1000);
}

static void parse(const char *text, bool modules_only, struct kallsyms *ret)
{
	assert_int_equal(kallsyms_parse(text, strlen(text), modules_only, ret, NULL), 0);
}

static void test_hidden(void **state)
{
	static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t a\t[m]\n";
	struct kallsyms list;
	struct symtab *table;

	assert_int_equal(symtab_create(&table), 0);
	parse("", false, &list);
	assert_false(list.hidden);
	assert_int_equal(list.count, 0);
	assert_int_equal(add_bounds(&list, table), 0);
	kallsyms_deinit(&list);

	for (int modules_only = 0; modules_only < 2; modules_only++) {
		parse(hidden, modules_only, &list);
		assert_true(list.hidden);
		assert_int_equal(list.count, 2 - modules_only);
		assert_int_equal(add_bounds(&list, table), 0);
		kallsyms_deinit(&list);
	}
	/* Seen by rows that are not kept. */
	parse("0000000000000001 A a\n0000000000000000 t a\t[m]\n", true, &list);
	assert_false(list.hidden);
	kallsyms_deinit(&list);

	assert_int_equal(symtab_remove_bound(table, 0), -ENOENT);
	symtab_destroy(table);
}

static void test_modules_only(void **state)
{
	struct kallsyms list;

	parse("ffffffff81000000 T _text\n"
	      "ffffffffc0000000 t a\t[one]\n"
	      "ffffffffc0000010 t b\t[one]\n"
	      "ffffffffc0001000 t c\t[two]\n"
	      "ffffffffc0001010 t bpf_prog_0123456789abcdef\t[bpf]\n",
	      true, &list);
	assert_int_equal(list.count, 4);
	assert_string_equal(list.symbols[0].module, "one");
	assert_ptr_equal(list.symbols[0].module, list.symbols[1].module);
	assert_string_equal(list.symbols[2].module, "two");
	assert_int_equal(list.symbols[2].kind, SYMBOL_MODULE);
	assert_int_equal(list.symbols[3].kind, SYMBOL_BPF_PROG);
	assert_int_equal(list.symbols[3].len, 0);
	kallsyms_deinit(&list);
	kallsyms_deinit(&list);
}

/* As the kernel lists a module while it is loaded: with what it takes from others. */
static void test_loading_module(void **state)
{
	struct kallsyms list;

	parse("ffffffff81000000 T __fentry__\n"
	      "ffffffffc0000000 t dummy_xmit\t[dummy]\n"
	      "ffffffff81000000 U __fentry__\t[dummy]\n",
	      false, &list);
	assert_int_equal(list.count, 2);
	assert_null(list.symbols[0].module);
	assert_string_equal(list.symbols[1].name, "dummy_xmit");
	kallsyms_deinit(&list);
}

/* Rows that lie across the pieces in which a list is read, at each offset. */
static void test_pieces(void **state)
{
	for (int first = 1; first < 70; first++) {
		struct text text = {};
		struct kallsyms list, again;

		text_printf(&text, "ffffffff81000000 t %0*d\n", first, 0);
		for (int i = 0; i < 5000; i++)
			text_printf(&text, "%016" PRIx64 " t name_%d\t[m%d]\n",
				    UINT64_C(0xffffffffc0000000) + i, i, i % 100);
		assert_false(text.failed);
		assert_true(text.len > 2 * 65536);
		assert_int_equal(kallsyms_parse(text.data, text.len, false, &list, NULL), 0);
		assert_int_equal(list.count, 5001);
		assert_int_equal(read_text(text.data, text.len, false, &again, NULL), 0);
		assert_same_list(&list, &again);
		kallsyms_deinit(&list);
		kallsyms_deinit(&again);
		text_deinit(&text);
	}
}

static int take_two(struct symbol *rows, size_t count, void *arg)
{
	struct kallsyms *list = arg;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(kallsyms_keep(list, &rows[i]), 0);
		/* They are the taker's. */
		memset((char *)rows[i].name, 'x', strlen(rows[i].name));
		rows[i] = (struct symbol){};
	}
	return list->count < 2 ? 0 : -ECANCELED;
}

/* Rows are handed over as they are read: those before a bad line, and until somebody has enough. */
static void test_visit(void **state)
{
	static const char *const pieces[] = {"ffffffff81000000 T a\nffffffff8",
					     "1000010 t b\t[m]\nffffffff81000020 t c\n", "bad\n"};
	int pipe_fds[2];

	for (int bad_after = 1; bad_after <= 2; bad_after++) {
		struct kallsyms list = {};
		size_t line = 0;
		bool hidden = true;

		assert_int_equal(pipe(pipe_fds), 0);
		for (int i = 0; i < bad_after; i++)
			assert_true(write(pipe_fds[1], pieces[i], strlen(pieces[i])) > 0);
		assert_true(write(pipe_fds[1], pieces[2], strlen(pieces[2])) > 0);
		close(pipe_fds[1]);
		assert_int_equal(kallsyms_visit(pipe_fds[0], take_two, &list, &hidden, &line),
				 -EBADMSG);
		assert_int_equal(line, bad_after == 1 ? 2 : 4);
		assert_false(hidden);
		close(pipe_fds[0]);
		kallsyms_deinit(&list);
	}
	struct kallsyms list = {};
	bool hidden;
	_cleanup_fd_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);

	assert_true(write(fd, "1 T a\n0 t b\t[m]\n", 17) == 17);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(kallsyms_visit(fd, take_two, &list, &hidden, NULL), -ECANCELED);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.symbols[0].name, "a");
	assert_null(list.symbols[0].module);
	assert_string_equal(list.symbols[1].name, "b");
	assert_string_equal(list.symbols[1].module, "m");
	assert_int_equal(list.symbols[1].kind, SYMBOL_MODULE);
	kallsyms_deinit(&list);
}

static void test_unreadable(void **state)
{
	struct kallsyms list;
	struct module_list modules;
	_cleanup_fd_ int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(kallsyms_read(-1, false, &list, NULL), -EBADF);
	assert_int_equal(kallsyms_read(dir, false, &list, NULL), -EISDIR);
	assert_int_equal(module_list_read(dir, &modules, NULL), -EISDIR);
}

static void test_bpf_names(void **state)
{
	static const struct {
		const char *name;
		enum symbol_kind kind;
	} cases[] = {
		{"bpf_prog_e1425229c865ac8b", SYMBOL_BPF_PROG},
		{"bpf_prog_e1425229c865ac8b_x_init", SYMBOL_BPF_PROG},
		{"bpf_prog_e1425229c865ac8b_", SYMBOL_BPF_PROG},
		{"bpf_prog_e1425229c865ac8b_..", SYMBOL_BPF_PROG},
		{"__cfi_bpf_prog_e1425229c865ac8b_x", SYMBOL_BPF_AUX},
		{"bpf_trampoline_6442536467", SYMBOL_BPF_IMAGE},
		{"bpf_trampoline_6442536467_1", SYMBOL_BPF_IMAGE},
		{"bpf__tcp_congestion_ops_ssthresh", SYMBOL_BPF_IMAGE},
		{"bpf_dispatcher_xdp", SYMBOL_BPF_IMAGE},
		{"bpf_prog_e1425229c865ac8", SYMBOL_BPF_IMAGE},
		{"bpf_prog_e1425229c865ac8bb", SYMBOL_BPF_IMAGE},
		{"bpf_prog_E1425229C865AC8B", SYMBOL_BPF_IMAGE},
		{"bpf_prog_e1425229c865ac8bx", SYMBOL_BPF_IMAGE},
		{"bpf_prog_", SYMBOL_BPF_IMAGE},
		{"", SYMBOL_BPF_IMAGE},
	};
	static const uint8_t expected[8] = {0xe1, 0x42, 0x52, 0x29, 0xc8, 0x65, 0xac, 0x8b};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t tag[8] = {};
		bool has_tag = bpf_symbol_tag(cases[i].name, tag);

		assert_int_equal(bpf_symbol_kind(cases[i].name), cases[i].kind);
		assert_int_equal(has_tag, cases[i].kind == SYMBOL_BPF_PROG);
		if (has_tag)
			assert_memory_equal(tag, expected, sizeof(tag));
	}
}

static void test_kinds(void **state)
{
	static const enum symbol_kind expected[] = {SYMBOL_CORE,	SYMBOL_MODULE,
						    SYMBOL_BPF_IMAGE,	SYMBOL_OUT_OF_LINE,
						    SYMBOL_OUT_OF_LINE, SYMBOL_CORE};
	struct kallsyms list;

	parse("ffffffff81000000 T _text\n"
	      "ffffffffc0000000 t bpf_prog_e1425229c865ac8b\t[not_bpf]\n"
	      "ffffffffc0000010 t bpf_trampoline_1\t[bpf]\n"
	      "ffffffffc0000020 t ftrace_trampoline\t[__builtin__ftrace]\n"
	      "ffffffffc0000030 t kprobe_insn_page\t[__builtin__kprobes]\n"
	      "ffffffffc0000040 t bpf_prog_e1425229c865ac8b\n",
	      false, &list);
	assert_int_equal(list.count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < list.count; i++)
		assert_int_equal(list.symbols[i].kind, expected[i]);
	kallsyms_deinit(&list);
}

static void test_module_list(void **state)
{
	static const char text[] = "dummy 16384 0 - Live 0xffffffffc0400000\n"
				   "nf_nat 61440 2 xt_nat,nft_nat, Live 0xffffffffc0402000 (OE)\n"
				   "coming 12288 1 - Loading 0xffffffffc0500000 (+)\n"
				   "going 4096 -1 [permanent], Unloading 0x0000000000000000\n";
	struct module_list list;

	assert_int_equal(module_list_parse(text, strlen(text), &list, NULL), 0);
	assert_int_equal(list.count, 4);
	assert_string_equal(list.modules[0].name, "dummy");
	assert_int_equal(list.modules[0].start, 0xffffffffc0400000);
	assert_int_equal(list.modules[0].size, 16384);
	assert_true(list.modules[0].live);
	assert_string_equal(list.modules[1].name, "nf_nat");
	assert_int_equal(list.modules[1].size, 61440);
	assert_true(list.modules[1].live);
	assert_false(list.modules[2].live);
	assert_false(list.modules[3].live);
	assert_int_equal(list.modules[3].start, 0);
	module_list_deinit(&list);

	assert_int_equal(module_list_parse("", 0, &list, NULL), 0);
	assert_int_equal(list.count, 0);
	module_list_deinit(&list);
}

static void test_bad_module_lists(void **state)
{
	static const char *const bad[] = {
		"dummy\n",
		"dummy 16384\n",
		"dummy 16384 0 -\n",
		"dummy 16384 0 - Live\n",
		"dummy 16384 0 - Live \n",
		"dummy 16384 0 - Live ffffffffc0400000\n",
		"dummy 16384 0 - Live 0x\n",
		"dummy 16384 0 - Live 0xfffffffffc0400000\n",
		"dummy 16384 0 - Live 0xffffffffc0400000 \n",
		"dummy 16384 0 - Live 0xffffffffc0400000 (OE) x\n",
		"dummy 16384 0 - Live 0xffffffffc0400000\r\n",
		"dummy  16384 0 - Live 0xffffffffc0400000\n",
		"dummy x 0 - Live 0xffffffffc0400000\n",
		"dummy 99999999999999999999 0 - Live 0xffffffffc0400000\n",
		"dummy 18446744073709551616 0 - Live 0xffffffffc0400000\n",
		" 16384 0 - Live 0xffffffffc0400000\n",
		"\n",
		"ffffffff81000000 T _text\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct text text = {};
		struct module_list list;
		size_t line = 0;

		text_puts(&text, "ok 1 0 - Live 0x1\n");
		text_puts(&text, bad[i]);
		assert_int_equal(module_list_parse(text.data, text.len, &list, &line), -EBADMSG);
		assert_int_equal(line, 2);
		text_deinit(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_assets),    cmocka_unit_test(test_bad_assets),
		cmocka_unit_test(test_hidden),	       cmocka_unit_test(test_modules_only),
		cmocka_unit_test(test_loading_module), cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_visit),	       cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_bpf_names),      cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_module_list),    cmocka_unit_test(test_bad_module_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
