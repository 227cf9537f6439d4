/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usdt/ on real processes and real objects: what is shown, by which path, and how it follows what a
 * process does.
 */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "elfmaker.h"
#include "tests/live/child.h"
#include "tests/live/support.h"
#include "tests/live/usdt_rows.h"

static size_t count_objects(const struct ksymfs *fs, pid_t pid)
{
	_cleanup_free_ char *objects = usdt_read(fs, pid, "objects");

	return count_lines_with(objects, " sites=");
}

static void test_linkers(void **state)
{
	static const char *const names[] = {"kstest_bfd.so", "kstest_lld.so", "kstest_nobase.so"};
	struct ksymfs *fs = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_child_ struct child *child = child_start();
		_cleanup_free_ char *path = kstest_path(names[i]);

		/* Before it is there, and dlopen() after the first look. */
		assert_int_equal(count_objects(fs, child->pid), 0);
		assert_int_equal(child_call(child, child_dlopen, path), 0);
		assert_whole_provider(fs, child->pid, path, "file");
		assert_int_equal(count_objects(fs, child->pid), 1);
		assert_int_equal(child_call(child, child_dlclose, ""), 0);
		assert_int_equal(count_objects(fs, child->pid), 0);
	}
	/* What these two are in the list for. */
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so");
	_cleanup_free_ char *nobase = kstest_path("kstest_nobase.so");

	assert_int_equal(run("! readelf -SW %s | grep -q stapsdt.base", nobase), 0);
	_cleanup_child_ struct child *child = child_start();

	assert_int_equal(child_call(child, child_dlopen, lld), 0);
	_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");
	struct usdt_rows rows = usdt_rows_of(notes, lld);

	for (size_t i = 0; i < rows.count; i++)
		assert_true(rows.rows[i].pc != rows.rows[i].offset);
	usdt_rows_deinit(&rows);
}

/* An object without semaphores has no .probes, and its rows say 0. */
static void test_no_semaphores(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = kstest_path("kstest_plain.so");

	assert_int_equal(child_call(child, child_dlopen, path), 0);
	_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");
	struct usdt_rows rows = usdt_rows_of(notes, path);

	assert_int_equal(rows.count, 4);
	for (size_t i = 0; i < rows.count; i++)
		assert_true(rows.rows[i].semaphore == 0 && rows.rows[i].semaphore_offset == 0);
	usdt_rows_deinit(&rows);
	_cleanup_free_ char *probe =
		ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/plain", child->pid);

	assert_null(strstr(probe, "semaphore_value"));
}

static void test_programs(void **state)
{
	static const char *const names[] = {"kstest_pie_bfd", "kstest_pie_lld", "kstest_exec_bfd",
					    "kstest_exec_lld"};
	struct ksymfs *fs = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = kstest_path(names[i]);
		struct program program = program_start(path);

		assert_whole_provider(fs, program.pid, path, "file");
		program_stop(&program);
	}
}

static void test_files(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = kstest_path("kstest_bfd.so");
	struct stat st;

	assert_int_equal(child_call(child, child_dlopen, path), 0);
	assert_return_code(stat(path, &st), errno);
	_cleanup_free_ char *probes = usdt_read(fs, child->pid, "probes");
	_cleanup_free_ char *expected = NULL;

	assert_true(asprintf(&expected,
			     "usdt:%s:kstest:args\nusdt:%s:kstest:counted\n"
			     "usdt:%s:kstest:plain\nusdt:%s:kstest:twice\n",
			     path, path, path, path) > 0);
	assert_string_equal(probes, expected);

	_cleanup_free_ char *objects = usdt_read(fs, child->pid, "objects");
	_cleanup_free_ char *start = NULL, *end = NULL;

	assert_true(asprintf(&start, "%s kind=file build_id=", path) > 0);
	assert_true(asprintf(&end, " sites=5 dev=%u:%u inode=%lu mapped=%s\n", major(st.st_dev),
			     minor(st.st_dev), st.st_ino, path) > 0);
	assert_true(strncmp(objects, start, strlen(start)) == 0);
	assert_string_equal(objects + strlen(objects) - strlen(end), end);
	assert_int_equal(strspn(objects + strlen(start), "0123456789abcdef"), 40);

	_cleanup_free_ char *dir = ksymfs_path(fs, "usdt/%d", child->pid);

	assert_int_equal(run("test \"$(ls %s | tr '\\n' ' ')\" = "
			     "'notes objects probes providers uprobe_events '",
			     dir),
			 0);
	assert_int_equal(run("test \"$(ls %s/providers | grep -vx libstdcxx)\" = kstest", dir), 0);
	assert_int_equal(run("test \"$(ls %s/providers/kstest | tr '\\n' ' ')\" = "
			     "'args counted plain twice '",
			     dir),
			 0);
	assert_int_equal(run("find %s -type f -exec cat {} + > /dev/null", dir), 0);
	assert_int_equal(run("grep -rq kstest:plain %s", dir), 0);
}

/* The line of notes, then an argument a line, then the semaphore. */
static void test_probe_file(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = kstest_path("kstest_lld.so");

	assert_int_equal(child_call(child, child_dlopen, path), 0);
	_cleanup_free_ char *args =
		ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/args", child->pid);
	_cleanup_free_ char *twice =
		ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/twice", child->pid);
	_cleanup_free_ char *counted =
		ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/counted", child->pid);
	_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");
	char *cursor = args, *line = next_line(&cursor);

	assert_non_null(strstr(notes, line));
	assert_int_equal(strncmp(line, "kstest:args ", 12), 0);
	line = next_line(&cursor);
	assert_int_equal(strncmp(line, "arg1 size=4 signed ", 19), 0);
	line = next_line(&cursor);
	assert_int_equal(strncmp(line, "arg2 size=8 signed ", 19), 0);
	assert_string_equal(next_line(&cursor), "arg3 size=4 signed constant=42");
	line = next_line(&cursor);
	assert_int_equal(strncmp(line, "arg4 size=2 signed memory base=", 31), 0);
	assert_null(next_line(&cursor));
	assert_int_equal(count_lines_with_prefix(twice, "kstest:twice "), 2);
	assert_int_equal(count_lines_with_prefix(twice, "arg"), 3);
	assert_int_equal(count_lines_with_prefix(counted, "semaphore_value: 0"), 1);
}

/* One object twice in two processes, and two objects with the same probes in one. */
static void test_sharing(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *a = child_start(), *b = child_start();
	_cleanup_free_ char *bfd = kstest_path("kstest_bfd.so"),
			    *lld = kstest_path("kstest_lld.so");

	assert_int_equal(child_call(a, child_dlopen, bfd), 0);
	assert_int_equal(child_call(a, child_map, bfd), 0);
	assert_int_equal(child_call(b, child_dlopen, bfd), 0);
	assert_whole_provider(fs, a->pid, bfd, "file");
	_cleanup_free_ char *first = ksymfs_value(fs, "usdt_object_reads", "status");

	assert_whole_provider(fs, b->pid, bfd, "file");
	_cleanup_free_ char *second = ksymfs_value(fs, "usdt_object_reads", "status");

	assert_string_equal(first, second);
	assert_int_equal(child_call(b, child_dlopen, lld), 0);
	_cleanup_free_ char *probes = usdt_read(fs, b->pid, "probes");

	assert_int_equal(count_lines_with(probes, ":kstest:plain"), 2);
	_cleanup_free_ char *plain =
		ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/plain", b->pid);

	assert_int_equal(count_lines_with_prefix(plain, "kstest:plain "), 2);
	_cleanup_free_ char *all = ksymfs_read(fs, NULL, "usdt/probes");
	_cleanup_free_ char *line = NULL;

	assert_true(asprintf(&line, "usdt:%s:kstest:plain", bfd) > 0);
	assert_int_equal(count_lines_with_prefix(all, line), 1);
}

static void test_memfd(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *bfd = kstest_path("kstest_bfd.so"),
			    *lld = kstest_path("kstest_lld.so");

	/* Two providers, one with its fd kept and one with it closed. */
	assert_true(child_call(child, child_dlopen_memfd_kept, bfd) > 0);
	assert_int_equal(child_call(child, child_dlopen_memfd, lld), 0);
	_cleanup_free_ char *objects = usdt_read(fs, child->pid, "objects");
	char *cursor = objects, *line;
	int count = 0;

	while ((line = next_line(&cursor))) {
		char prefix[64];
		char *path = strndup(line, strcspn(line, " "));

		assert_non_null(strstr(line, " mapped=/memfd:libstapsdt:kstest\\040(deleted)"));
		snprintf(prefix, sizeof(prefix), "/proc/%d/map_files/", child->pid);
		assert_int_equal(strncmp(path, prefix, strlen(prefix)), 0);
		assert_whole_provider(fs, child->pid, path, "memfd");
		free(path);
		count++;
	}
	assert_int_equal(count, 2);
	assert_int_equal(child_call(child, child_dlclose, ""), 0);
	assert_int_equal(count_objects(fs, child->pid), 1);
}

/* Copies an object to a name of its own, to be removed by the caller. */
static char *copy_object(const char *name, const char *to)
{
	_cleanup_free_ char *from = kstest_path(name);
	_cleanup_free_ char *data = NULL;
	size_t len;
	char *path;

	assert_true(asprintf(&path, "/tmp/ksymfs-usdt-%d%s", getpid(), to) > 0);
	data = read_path(from, &len);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_int_equal(write(fd, data, len), len);
	return path;
}

static void assert_by_map_files(const struct ksymfs *fs, pid_t pid, const char *kind)
{
	_cleanup_free_ char *objects = usdt_read(fs, pid, "objects");
	char prefix[64];

	assert_int_equal(count_lines_with(objects, " sites="), 1);
	snprintf(prefix, sizeof(prefix), "/proc/%d/map_files/", pid);
	assert_int_equal(strncmp(objects, prefix, strlen(prefix)), 0);
	objects[strcspn(objects, " ")] = '\0';
	assert_whole_provider(fs, pid, objects, kind);
}

static void test_deleted(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = copy_object("kstest_lld.so", "-deleted");

	assert_int_equal(child_call(child, child_dlopen, path), 0);
	assert_whole_provider(fs, child->pid, path, "file");
	assert_return_code(unlink(path), errno);
	assert_by_map_files(fs, child->pid, "deleted");
	/* A FIFO where it was: nobody opens that. */
	assert_return_code(mkfifo(path, 0600), errno);
	assert_by_map_files(fs, child->pid, "deleted");
	assert_return_code(unlink(path), errno);
}

/* Replaced by another object with other notes: the process still has the old one. */
static void test_replaced(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *old = child_start(), *new = child_start();
	_cleanup_free_ char *path = copy_object("kstest_lld.so", "-replaced");
	_cleanup_free_ char *other = copy_object("kstest_bfd.so", "-other");

	assert_int_equal(child_call(old, child_dlopen, path), 0);
	assert_return_code(rename(other, path), errno);
	assert_int_equal(child_call(new, child_dlopen, path), 0);
	assert_by_map_files(fs, old->pid, "deleted");
	assert_whole_provider(fs, new->pid, path, "file");
	_cleanup_free_ char *old_notes = usdt_read(fs, old->pid, "notes");
	_cleanup_free_ char *new_notes = usdt_read(fs, new->pid, "notes");
	_cleanup_free_ char *old_build = strdup(strstr(old_notes, " pc="));
	_cleanup_free_ char *new_build = strdup(strstr(new_notes, " pc="));

	assert_string_not_equal(old_build, new_build);
	assert_return_code(unlink(path), errno);
}

static void test_names(void **state)
{
	static const char *const names[] = {" with blank", "\nnewline", "\\012backslash",
					    " (deleted)",  ":colon",	"\xff\xfe"};
	struct ksymfs *fs = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_child_ struct child *child = child_start();
		_cleanup_free_ char *path = copy_object("kstest_bfd.so", names[i]);

		print_message("# name %zu\n", i);
		assert_int_equal(child_call(child, child_dlopen, path), 0);
		assert_by_map_files(fs, child->pid, "file");
		assert_return_code(unlink(path), errno);
		assert_by_map_files(fs, child->pid, "deleted");
	}
}

static char *made_path;

/* A file of one note, or none that is right, as no linker here makes it. */
static void make_file(const struct elf_plan *plan, const char *provider, const char *args,
		      uint64_t location)
{
	_cleanup_text_ struct text notes = {}, file = {};

	free(made_path);
	assert_true(asprintf(&made_path, "/tmp/ksymfs-usdt-%d-made", getpid()) > 0);
	elf_note(&notes, plan, location, 0, 0x24002, provider, "made", args);
	elf_note(&notes, plan, 0x12001, 0, 0, "kstest", "good", "");
	elf_make(&file, plan, &notes);
	_cleanup_fd_ int fd = open(made_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_int_equal(write(fd, file.data, file.len), file.len);
}

static char *read_made(const struct ksymfs *fs, const struct elf_plan *plan, const char *provider,
		       const char *args, uint64_t location, const char *file)
{
	_cleanup_child_ struct child *child = child_start();

	make_file(plan, provider, args, location);
	assert_int_equal(child_call(child, child_map, made_path), 0);
	char *text = usdt_read(fs, child->pid, file);

	assert_return_code(unlink(made_path), errno);
	return text;
}

/* A line with the path of the file in its middle. Frees the text. */
static void assert_made_line(char *text, const char *before, const char *after)
{
	_cleanup_free_ char *line = NULL;

	assert_true(asprintf(&line, "%s%s%s", before, made_path, after) > 0);
	if (!strstr(text, line))
		fail_msg("no line %s in\n%s", line, text);
	free(text);
}

static void assert_has(char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no line %s in\n%s", line, text);
	free(text);
}

/* 32-bit, big-endian, other machines, notes first: mapped by a process of ours. */
static void test_foreign_files(void **state)
{
	struct ksymfs *fs = *state;
	struct elf_plan plan = elf_plan_default();

	plan.is32 = true;
	plan.machine = EM_386;
	plan.notes_first = true;
	assert_made_line(read_made(fs, &plan, "kstest", "4@12(%esp)", 0x12000, "notes"),
			 "kstest:made object=",
			 " kind=file pc=0x12000 offset=0x1000 "
			 "semaphore=0x24002 semaphore_offset=0x2002 args=4@12(%esp)\n");
	plan.big_endian = true;
	plan.machine = EM_ARM;
	assert_made_line(read_made(fs, &plan, "kstest", "-4@#42 4@[r1, #4]", 0x12000, "notes"),
			 "kstest:made object=",
			 " kind=file pc=0x12000 offset=0x1000 "
			 "semaphore=0x24002 semaphore_offset=0x2002 args=-4@#42 4@[r1, #4]\n");
	plan = elf_plan_default();
	plan.big_endian = true;
	plan.machine = EM_S390;
	plan.type = ET_EXEC;
	assert_made_line(read_made(fs, &plan, "kstest", "-2@162(%r15)", 0x12000, "notes"),
			 "kstest:made object=",
			 " kind=file pc=0x12000 offset=0x1000 "
			 "semaphore=0x24002 semaphore_offset=0x2002 args=-2@162(%r15)\n");
	assert_has(read_made(fs, &plan, "kstest", "-2@162(%r15)", 0x12000, "providers/kstest/made"),
		   "arg1 size=2 signed memory base=r15 displacement=162\n");
	/* Our kernel has no such registers. */
	assert_made_line(read_made(fs, &plan, "kstest", "-2@162(%r15)", 0x12000, "uprobe_events"),
			 "p:kstest/made_1 ", ":0x1000(0x2002)\n");
}

static void test_invalid(void **state)
{
	struct ksymfs *fs = *state;
	struct elf_plan plan = elf_plan_default();

	plan.type = ET_EXEC;
	char *notes = read_made(fs, &plan, "kstest", "4@%eax", 0x77, "notes");

	assert_non_null(strstr(notes, "kstest:good object="));
	assert_int_equal(count_lines_with(notes, "invalid="), 1);
	assert_made_line(notes, "kstest:made object=",
			 " kind=file pc=0x77 offset=- "
			 "semaphore=0x24002 semaphore_offset=- invalid=location "
			 "args=4@%eax\n");
	assert_made_line(read_made(fs, &plan, "kstest", "4@%foo bar(", 0x12000, "notes"),
			 "kstest:made object=",
			 " kind=file pc=0x12000 offset=0x1000 "
			 "semaphore=0x24002 semaphore_offset=0x2002 invalid=arguments "
			 "args=4@%foo bar(\n");
	assert_has(
		read_made(fs, &plan, "kstest", "4@%foo 4@%eax", 0x12000, "providers/kstest/made"),
		"arg1 unparsed=4@%foo\narg2 size=4 unsigned register=ax\n");
	/* Those that are not valid are no tracer's. */
	char *probes = read_made(fs, &plan, "kstest", "4@%eax", 0x77, "probes");

	assert_null(strstr(probes, ":made"));
	assert_made_line(probes, "usdt:", ":kstest:good\n");
	char *events = read_made(fs, &plan, "kstest", "4@%eax", 0x77, "uprobe_events");

	assert_null(strstr(events, "made_"));
	assert_made_line(events, "p:kstest/good_1 ", ":0x1001\n");
}

/* Names of providers that a path cannot have are written so that they can be told apart. */
static void test_provider_names(void **state)
{
	static const struct {
		const char *name, *dir, *shown, *event;
	} cases[] = {
		{"", "\\\\000", ":made", "_/made_1"},
		{".", "\\\\056", ".:made", "_/made_1"},
		{"..", "\\\\056\\\\056", "..:made", "__/made_1"},
		{"a/b", "a\\\\057b", "a/b:made", "a_b/made_1"},
		{"a b", "a\\\\040b", "a\\040b:made", "a_b/made_1"},
		{"a:b", "a:b", "a\\072b:made", "a_b/made_1"},
		{"\x01\n", "\\\\001\\\\012", "\\001\\012:made", "__/made_1"},
		{"1st", "1st", "1st:made", "_1st/made_1"},
	};
	struct ksymfs *fs = *state;
	struct elf_plan plan = elf_plan_default();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_child_ struct child *child = child_start();
		char line[128];

		print_message("# name %zu\n", i);
		make_file(&plan, cases[i].name, "", 0x12000);
		assert_int_equal(child_call(child, child_map, made_path), 0);
		_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");
		_cleanup_free_ char *events = usdt_read(fs, child->pid, "uprobe_events");

		snprintf(line, sizeof(line), "%s object=", cases[i].shown);
		assert_int_equal(count_lines_with_prefix(notes, line), 1);
		snprintf(line, sizeof(line), "p:%s ", cases[i].event);
		assert_int_equal(count_lines_with_prefix(events, line), 1);
		_cleanup_free_ char *dir = ksymfs_path(fs, "usdt/%d/providers", child->pid);

		assert_int_equal(run("ls %s | grep -qx '%s'", dir, cases[i].dir), 0);
		assert_int_equal(run("cd %s && cat \"$(ls | grep -x '%s')\"/made | grep -q made",
				     dir, cases[i].dir),
				 0);
	}
	unlink(made_path);
}

/* A name too long for a directory entry is in notes, and costs the listing nothing. */
static void test_long_name(void **state)
{
	struct ksymfs *fs = *state;
	struct elf_plan plan = elf_plan_default();
	_cleanup_child_ struct child *child = child_start();
	char name[300];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	make_file(&plan, name, "", 0x12000);
	assert_int_equal(child_call(child, child_map, made_path), 0);
	_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");
	_cleanup_free_ char *dir = ksymfs_path(fs, "usdt/%d/providers", child->pid);

	assert_int_equal(count_lines_with(notes, name), 1);
	assert_int_equal(run("test \"$(ls %s | grep -vx libstdcxx)\" = kstest", dir), 0);
	unlink(made_path);
}

/* Every figure of real objects as readelf has it; scripts/usdt-compare says how. */
static void test_readelf(void **state)
{
	struct ksymfs *fs = *state;
	const char *scripts = getenv("KSYMFS_SCRIPTS");

	assert_non_null(scripts);
	assert_int_equal(
		run("exec %s/usdt-compare %s $(ls -d %s $(gcc -print-file-name=libstdc++.so) "
		    "/usr/bin/python3.[0-9]* /usr/bin/php[0-9]* /usr/bin/stap "
		    "/usr/lib/postgresql/*/bin/postgres /usr/lib/*/libruby-*.so.* "
		    "/usr/lib/*/libvirt.so.0 /usr/lib/jvm/*/lib/server/libjvm.so 2>/dev/null)",
		    scripts, fs->dir, getenv("KSYMFS_USDT")),
		0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readelf),	      cmocka_unit_test(test_linkers),
		cmocka_unit_test(test_no_semaphores), cmocka_unit_test(test_programs),
		cmocka_unit_test(test_files),	      cmocka_unit_test(test_probe_file),
		cmocka_unit_test(test_sharing),	      cmocka_unit_test(test_memfd),
		cmocka_unit_test(test_deleted),	      cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_names),	      cmocka_unit_test(test_foreign_files),
		cmocka_unit_test(test_invalid),	      cmocka_unit_test(test_provider_names),
		cmocka_unit_test(test_long_name),
	};

	return live_run(tests);
}
