/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bpf/: the tree, its lists and the files of a program. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_tracker.h"

#define A "00000000000000aa"
#define B "00000000000000bb"
#define C "00000000000000cc"

/* asm is there if this was built with a disassembler. */
#ifdef HAVE_CAPSTONE
#define ASM	    "asm "
#define MISSING_ASM ""
#else
#define ASM	    ""
#define MISSING_ASM "missing: asm: there is no disassembler here (capstone)\n"
#endif
/* What a program has whose code and functions are there. */
#define CODE_FILES "info holders stats jited ksyms " ASM "elf maps"

static struct tracker tracker;
static struct view view;

static int setup(void **state)
{
	const struct view_context context = {.tracker = &tracker};

	fake_tracker_init(&tracker, 4096);
	return view_bpf_create(&context, &view);
}

static int teardown(void **state)
{
	fake_tracker_deinit(&tracker);
	return 0;
}

static void assert_absent(const char *path)
{
	struct view_attr attr;

	assert_int_equal(view_lookup(&view, path, &attr), -ENOENT);
}

/*
 * 10 and 11 have one tag and different images; 12 has a subprogram of that tag; 13 was gone before
 * it could be read.
 */
static void publish_four(void)
{
	struct prog *prog = fake_prog(&tracker, 10, A, "twin", "\x90\xc3");

	fake_func(prog, 0xffffffffc0001000, 2, A, "bpf_prog_" A "_twin");
	fake_publish(&tracker, prog);
	prog = fake_prog(&tracker, 11, A, "twin", "\xcc");
	fake_func(prog, 0xffffffffc0003000, 1, A, "bpf_prog_" A "_twin");
	fake_publish(&tracker, prog);
	prog = fake_prog(&tracker, 12, B, "..", "main|sub");
	fake_func(prog, 0xffffffffc0002000, 5, B, "bpf_prog_" B "_..");
	fake_func(prog, 0xffffffffc0001800, 3, A, "bpf_prog_" A "_sub");
	prog->loader_pid = 77;
	strcpy(prog->loader_comm, "my tool");
	prog->info.type = BPF_PROG_TYPE_XDP;
	fake_publish(&tracker, prog);
	prog = fake_prog(&tracker, 13, C, NULL, NULL);
	prog->captured = false;
	prog->jited_state = prog->xlated_state = prog->btf_state = PROG_PART_GONE;
	prog->lines_state = PROG_PART_GONE;
	fake_func(prog, 0xffffffffc0004000, 0x40, C, "bpf_prog_" C);
	fake_publish(&tracker, prog);
	assert_int_equal(progset_unload(tracker.progs, 13, 1, 200000123456789), 0);
}

static void test_empty(void **state)
{
	assert_names(&view, "", "programs functions images by-id by-name");
	assert_names(&view, "by-id", "");
	assert_names(&view, "by-name", "");
	assert_file(&view, "programs", "");
	assert_file(&view, "functions", "");
	assert_file(&view, "images", "");
	assert_absent(A);
}

static void test_tree(void **state)
{
	publish_four();
	assert_names(&view, "", "programs functions images by-id by-name " A " " B " " C);
	assert_names(&view, "by-id", "10 11 12 13");
	assert_names(&view, "by-name", "\\000 \\056\\056 twin");
	assert_names(&view, "by-name/twin", "10 11");
	assert_names(&view, "by-name/\\000", "13");
	assert_names(&view, A, "11 10 12 " CODE_FILES);
	assert_names(&view, B, "12 " CODE_FILES);
	assert_names(&view, A "/10", CODE_FILES);
	assert_names(&view, C "/13", "info holders stats ksyms");
	for (size_t i = 0; i < 3; i++)
		assert_listed_as_found(&view, (const char *[]){"", A, C "/13"}[i]);
	assert_listed_as_found(&view, "by-id");
	assert_listed_as_found(&view, "by-name");
	assert_listed_as_found(&view, "by-name/twin");
}

static void test_links(void **state)
{
	publish_four();
	assert_link(&view, "by-id/12", "../" B "/12");
	assert_link(&view, "by-name/\\056\\056/12", "../../" B "/12");
	assert_link(&view, "by-name/twin/10", "../../" A "/10");
	assert_link(&view, A "/12", "../" B "/12");
	/* The newest stands for the tag, then the one that is loaded, then the one that has the tag
	 * for its own. */
	assert_link(&view, A "/jited", "11/jited");
	assert_int_equal(progset_unload(tracker.progs, 11, 50, 60), 0);
	assert_link(&view, A "/jited", "10/jited");
	assert_int_equal(progset_unload(tracker.progs, 10, 70, 80), 0);
	assert_link(&view, A "/info", "11/info");
	assert_int_equal(progset_remove(tracker.progs, 10), 0);
	assert_int_equal(progset_remove(tracker.progs, 11), 0);
	assert_link(&view, A "/jited", "12/jited");
	assert_names(&view, "by-name", "\\000 \\056\\056");
	assert_absent("by-name/twin");
	assert_names(&view, A, "12 " CODE_FILES);
}

static void test_absent(void **state)
{
	static const char *const paths[] = {
		"nothing",
		"programs/x",
		"by-id/9",
		"by-id/010",
		"by-id/+10",
		"by-id/10x",
		"by-id/0",
		"by-id/4294967306",
		"by-id/10/info",
		"by-name/..",
		"by-name/Twin",
		"by-name/twi",
		"by-name/\\164win",
		"by-name/twin/12",
		"by-name/twin/010",
		"by-name/twin/10/info",
		"00000000000000AA",
		"00000000000000a",
		"00000000000000aaa",
		"00000000000000ab",
		A "/13",
		B "/10",
		A "/xlated",
		A "/nothing",
		A "/10/xlated",
		A "/10/nothing",
		A "/10/info/x",
		A "/12/info",
		A "/x/info",
		C "/13/jited",
		C "/13/maps",
	};

	publish_four();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_absent(paths[i]);
}

static void test_lists(void **state)
{
	char symbol[] = "bpf_trampoline_1", other[] = "bpf__ops_init", target[] = "vfs read";

	publish_four();
	assert_file(&view, "programs",
		    "10 " A " loaded socket_filter twin 2 100010.000000000 bpf/" A "/10 - -\n"
		    "11 " A " loaded socket_filter twin 1 100011.000000000 bpf/" A "/11 - -\n"
		    "12 " B " loaded xdp .. 8 100012.000000000 bpf/" B "/12 77 my\\040tool\n"
		    "13 " C " unloaded - - 64 100013.000000000 bpf/" C "/13 - -\n");
	assert_file(&view, "functions",
		    "ffffffffc0001000 0000000000000002 loaded bpf_prog_" A "_twin bpf/" A "/10\n"
		    "ffffffffc0001800 0000000000000003 loaded bpf_prog_" A "_sub bpf/" B "/12\n"
		    "ffffffffc0002000 0000000000000005 loaded bpf_prog_" B "_.. bpf/" B "/12\n"
		    "ffffffffc0003000 0000000000000001 loaded bpf_prog_" A "_twin bpf/" A "/11\n"
		    "ffffffffc0004000 0000000000000040 unloaded bpf_prog_" C " bpf/" C "/13\n");
	tracker.images[0] = (struct tracker_image){0xffffffffc0000000, 0x9f, symbol, target};
	tracker.images[1] = (struct tracker_image){0xffffffffc0000100, 0x10, other, NULL};
	tracker.image_count = 2;
	assert_file(&view, "images",
		    "ffffffffc0000000 000000000000009f bpf_trampoline_1 target=vfs\\040read\n"
		    "ffffffffc0000100 0000000000000010 bpf__ops_init target=-\n");
}

/* Where an address was used again, who is there now comes first, then the newest. */
static void test_reused_address(void **state)
{
	static const uint32_t ids[] = {1, 2, 3};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct prog *prog = fake_prog(&tracker, ids[i], A, NULL, "c");

		fake_func(prog, 0xffffffffc0001000, 1, A, "bpf_prog_" A);
		fake_publish(&tracker, prog);
		if (ids[i] != 2)
			assert_int_equal(progset_unload(tracker.progs, ids[i], 9, 9), 0);
	}
	assert_file(&view, "functions",
		    "ffffffffc0001000 0000000000000001 loaded bpf_prog_" A " bpf/" A "/2\n"
		    "ffffffffc0001000 0000000000000001 unloaded bpf_prog_" A " bpf/" A "/3\n"
		    "ffffffffc0001000 0000000000000001 unloaded bpf_prog_" A " bpf/" A "/1\n");
}

static void test_program_files(void **state)
{
	publish_four();
	assert_file(&view, A "/10/jited", "\x90\xc3");
	assert_file(&view, B "/12/jited", "main|sub");
	/* By address, as in the ksyms of all. */
	assert_file(&view, B "/12/ksyms",
		    "ffffffffc0001800 0000000000000003 t bpf_prog_" A "_sub\t[bpf]\n"
		    "ffffffffc0002000 0000000000000005 t bpf_prog_" B "_..\t[bpf]\n");
	assert_file(&view, C "/13/ksyms",
		    "ffffffffc0004000 0000000000000040 t bpf_prog_" C "\t[bpf]\n");
	assert_file(&view, A "/10/maps", "");
	assert_file(&view, C "/13/holders", "");
	assert_file(&view, C "/13/stats", "run_cnt: -\nrun_time_ns: -\nrecursion_misses: -\n");
}

static void test_maps_and_btf(void **state)
{
	struct prog *prog = fake_prog(&tracker, 5, A, "x", NULL);

	prog->maps = calloc(2, sizeof(*prog->maps));
	prog->map_count = 2;
	prog->maps[0] = (struct prog_map){3, BPF_MAP_TYPE_HASH, 4, 8, 16, "a map"};
	prog->maps[1] = (struct prog_map){4, 9999, 0, 1, 2, ""};
	prog->btf_state = prog->xlated_state = PROG_PART_OK;
	assert_int_equal(blob_intern(tracker.pool, "\x9f\xeb", 2, &prog->btf), 0);
	assert_int_equal(blob_intern(tracker.pool, "insn", 4, &prog->xlated), 0);
	fake_publish(&tracker, prog);
	assert_names(&view, A "/5", "info holders stats xlated xlated.txt ksyms btf maps");
	assert_file(&view, A "/5/maps", "3 hash a\\040map 4 8 16\n4 type_9999 - 0 1 2\n");
	assert_file(&view, A "/5/btf", "\x9f\xeb");
	assert_file(&view, A "/5/xlated", "insn");
	/* Not JITed: there are no functions. */
	assert_file(&view, A "/5/ksyms", "");
}

static void test_info(void **state)
{
	struct prog *prog = fake_prog(&tracker, 5, A, "x y", "abc");
	static const char fixed[] =
		"id: 5\n"
		"tag: " A "\n"
		"type: socket_filter\n"
		"name: x\\040y\n"
		"loaded_at: 100005.000000000\n"
		"loader_pid: 12\n"
		"loader_comm: loader\n"
		"uid: 1000\n"
		"gpl_compatible: 1\n"
		"xlated_bytes: 24\n"
		"jited_bytes: 3\n"
		"verified_insns: 9\n"
		"functions: 1\n"
		"map_id: 3\n"
		"map_id: 4\n"
		"btf_id: 33\n"
		"attach_target: vfs_read\n"
		"sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
		"missing: xlated: the kernel does not show it (capabilities, kptr_restrict, "
		"bpf_jit_harden)\n"
		"missing: xlated.txt: the kernel does not show it (capabilities, kptr_restrict, "
		"bpf_jit_harden)\n"
		"missing: lines: the program has no BTF line info\n"
		"missing: source: the program has no BTF line info\n" MISSING_ASM
		"missing: btf: the program was loaded without BTF\n";
	_cleanup_free_ char *loaded = NULL, *unloaded = NULL;
	struct view_attr before, after;

	fake_func(prog, 0xffffffffc0001000, 3, A, "bpf_prog_" A "_x");
	prog->maps = calloc(2, sizeof(*prog->maps));
	prog->map_count = 2;
	prog->maps[0].id = 3;
	prog->maps[1].id = 4;
	prog->loader_pid = 12;
	strcpy(prog->loader_comm, "loader");
	prog->info.created_by_uid = 1000;
	prog->info.gpl_compatible = 1;
	prog->info.xlated_prog_len = 24;
	prog->info.verified_insns = 9;
	prog->info.btf_id = 33;
	prog->attach_target = strdup("vfs_read");
	fake_publish(&tracker, prog);

	assert_true(asprintf(&loaded, "state: loaded\nunloaded_at: -\n%s", fixed) > 0);
	assert_file(&view, A "/5/info", loaded);
	assert_int_equal(view_lookup(&view, A "/5/info", &before), 0);
	assert_int_equal(before.mtime.tv_sec, 100005);
	assert_int_equal(progset_unload(tracker.progs, 5, 1, 200000123456789), 0);
	assert_true(asprintf(&unloaded, "state: unloaded\nunloaded_at: 200000.123456789\n%s",
			     fixed) > 0);
	assert_file(&view, A "/5/info", unloaded);
	assert_int_equal(view_lookup(&view, A "/5/info", &after), 0);
	assert_int_not_equal(after.generation, before.generation);
	assert_int_equal(after.mtime.tv_sec, 200000);
}

static void test_info_of_one_that_was_gone(void **state)
{
	publish_four();
	progset_find(tracker.progs, 13)->error = -ENOENT;
	assert_file(&view, C "/13/info",
		    "state: unloaded\nunloaded_at: 200000.123456789\nid: 13\ntag: " C "\ntype: -\n"
		    "name: -\nloaded_at: 100013.000000000\nloader_pid: -\nloader_comm: -\nuid: -\n"
		    "gpl_compatible: -\nxlated_bytes: -\njited_bytes: 64\nverified_insns: -\n"
		    "functions: 1\nbtf_id: -\nattach_target: -\nsha256: -\n"
		    "error: No such file or directory\n"
		    "missing: jited: the program was unloaded before it could be read\n"
		    "missing: xlated: the program was unloaded before it could be read\n"
		    "missing: xlated.txt: the program was unloaded before it could be read\n"
		    "missing: lines: the program was unloaded before it could be read\n"
		    "missing: source: the program was unloaded before it could be read\n"
		    "missing: asm: the program was unloaded before it could be read\n"
		    "missing: elf: the program was unloaded before it could be read\n"
		    "missing: btf: the program was unloaded before it could be read\n"
		    "missing: maps: the program was unloaded before it could be read\n");
}

/* Each file is there, or info says why not: never both, never neither. */
static void test_missing_is_said(void **state)
{
	static const enum prog_part_state states[] = {PROG_PART_OK, PROG_PART_NONE,
						      PROG_PART_FORBIDDEN, PROG_PART_GONE,
						      PROG_PART_FAILED};
	static const char *const files[] = {"jited", "xlated", "btf", "ksyms",	"maps",
					    "lines", "asm",    "elf", "source", "xlated.txt"};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct prog *prog = fake_prog(&tracker, i + 1, A, "x", NULL);
		_cleanup_free_ char *path = NULL, *info = NULL;

		prog->jited_state = prog->xlated_state = prog->btf_state = states[i];
		fake_publish(&tracker, prog);
		assert_true(asprintf(&path, A "/%zu/info", i + 1) > 0);
		info = view_text(&view, path);
		for (size_t j = 0; j < ARRAY_SIZE(files); j++) {
			_cleanup_free_ char *file = NULL, *line = NULL;
			struct view_attr attr;

			assert_true(asprintf(&file, A "/%zu/%s", i + 1, files[j]) > 0);
			assert_true(asprintf(&line, "\nmissing: %s: ", files[j]) > 0);
			bool is_there = view_lookup(&view, file, &attr) == 0;

			assert_int_equal(is_there, strstr(info, line) == NULL);
		}
	}
}

static void test_attrs(void **state)
{
	struct view_attr attr;

	publish_four();
	tracker.generation[TRACKER_PROGRAMS] = 40;
	tracker.generation[TRACKER_IMAGES] = 50;
	assert_int_equal(view_lookup(&view, "programs", &attr), 0);
	assert_int_equal(attr.generation, 40);
	assert_int_equal(attr.mtime.tv_sec, 2000);
	assert_int_equal(view_lookup(&view, "images", &attr), 0);
	assert_int_equal(attr.generation, 50);
	assert_int_equal(attr.mtime.tv_sec, 3000);
	/* A program's directory is as old as the program, whatever became of it. */
	assert_int_equal(view_lookup(&view, C "/13", &attr), 0);
	assert_int_equal(attr.kind, VIEW_DIR);
	assert_int_equal(attr.mtime.tv_sec, 100013);
	assert_int_equal(view_lookup(&view, C, &attr), 0);
	assert_int_equal(attr.mtime.tv_sec, 2000);
	assert_int_equal(view_lookup(&view, A "/10/jited", &attr), 0);
	assert_true(attr.fixed);
	assert_int_equal(view_lookup(&view, A "/jited", &attr), 0);
	assert_false(attr.fixed);
	assert_int_equal(view_lookup(&view, A "/10/holders", &attr), 0);
	assert_int_equal(attr.generation, VIEW_VOLATILE);
	assert_true(attr.slow);
	assert_int_equal(view_lookup(&view, A "/10/stats", &attr), 0);
	assert_int_equal(attr.generation, VIEW_VOLATILE);
}

/* What no file system takes is cut, between two bytes of the name; who shares the rest shares the
 * directory. */
static void test_long_names(void **state)
{
	char name[512], cut[NAME_MAX + 1], path[600];

	memset(name, 'x', 511);
	name[511] = '\0';
	fake_publish(&tracker, fake_prog(&tracker, 1, A, name, NULL));
	name[NAME_MAX] = '\0';
	fake_publish(&tracker, fake_prog(&tracker, 2, A, name, NULL));
	assert_names(&view, "by-name", name);
	snprintf(path, sizeof(path), "by-name/%s", name);
	assert_names(&view, path, "1 2");
	snprintf(path, sizeof(path), "by-name/%s/1", name);
	assert_link(&view, path, "../../" A "/1");

	teardown(state);
	setup(state);
	memset(name, ' ', 300);
	name[300] = '\0';
	fake_publish(&tracker, fake_prog(&tracker, 3, A, name, NULL));
	for (int i = 0; i < NAME_MAX / 4; i++)
		memcpy(cut + 4 * i, "\\040", 5);
	assert_names(&view, "by-name", cut);
	snprintf(path, sizeof(path), "by-name/%s", cut);
	assert_names(&view, path, "3");
}

#define WITH_TRACKER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TRACKER(test_empty),
		WITH_TRACKER(test_tree),
		WITH_TRACKER(test_links),
		WITH_TRACKER(test_absent),
		WITH_TRACKER(test_lists),
		WITH_TRACKER(test_reused_address),
		WITH_TRACKER(test_program_files),
		WITH_TRACKER(test_maps_and_btf),
		WITH_TRACKER(test_info),
		WITH_TRACKER(test_info_of_one_that_was_gone),
		WITH_TRACKER(test_missing_is_said),
		WITH_TRACKER(test_attrs),
		WITH_TRACKER(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
