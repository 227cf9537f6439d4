/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The proof that what usdt/ prints is right: the kernel attaches to it, and it fires. By the perf
 * interface with the printed path, offset and semaphore; by tracefs with the printed lines as they
 * are.
 */
#include <elf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "elfmaker.h"
#include "tests/live/child.h"
#include "tests/live/support.h"
#include "tests/live/usdt_rows.h"

static unsigned int read_number(const char *path)
{
	_cleanup_free_ char *text = read_path(path, NULL);

	return strtoul(text, NULL, 10);
}

/* Counts in one process. Which bits hold the semaphore: format/ref_ctr_offset. */
static int attach_perf(const struct usdt_row *row, pid_t pid)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = read_number("/sys/bus/event_source/devices/uprobe/type"),
		.config = row->semaphore_offset << 32,
		.uprobe_path = (uintptr_t)row->object,
		.probe_offset = row->offset,
	};

	return syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t read_count(int fd)
{
	uint64_t count;

	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	return count;
}

/*
 * Is the one semaphore of kstest:counted raised, and so a tracer attached? By how much is the
 * kernel's: it counts once for each mapping of the place, and lld's objects have several.
 */
static void assert_semaphore(const struct ksymfs *fs, pid_t pid, bool raised)
{
	_cleanup_free_ char *probe = ksymfs_read(fs, NULL, "usdt/%d/providers/kstest/counted", pid);

	if (count_lines_with_prefix(probe, "semaphore_value: ") != 1 ||
	    count_lines_with(probe, "semaphore_value: 0") != !raised)
		fail_msg("%sraised expected in\n%s", raised ? "" : "not ", probe);
}

static void check_perf(const struct ksymfs *fs, child_fn load, const char *name)
{
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = kstest_path(name);

	assert_true(child_call(child, load, path) >= 0);
	_cleanup_free_ char *objects = usdt_read(fs, child->pid, "objects");
	_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");

	objects[strcspn(objects, " ")] = '\0';
	struct usdt_rows rows = usdt_rows_of(notes, objects);
	const struct usdt_row *counted = usdt_row(&rows, "kstest:counted", 0);
	const struct usdt_row *args = usdt_row(&rows, "kstest:args", 0);

	assert_semaphore(fs, child->pid, false);
	_cleanup_fd_ int other = attach_perf(args, child->pid);
	int fd = attach_perf(counted, child->pid);

	if (fd < 0 || other < 0)
		fail_msg("uprobe at %s:%#" PRIx64 ": %s", counted->object, counted->offset,
			 strerror(errno));
	assert_semaphore(fs, child->pid, true);
	for (int i = 0; i < 5; i++)
		assert_int_equal(child_call(child, child_fire, "3"), 0);
	assert_int_equal(read_count(fd), 5);
	assert_int_equal(read_count(other), 5);
	/* The kernel raises it once for all tracers of a place. */
	int second = attach_perf(counted, child->pid);

	assert_return_code(second, errno);
	assert_semaphore(fs, child->pid, true);
	close(fd);
	assert_semaphore(fs, child->pid, true);
	close(second);
	assert_semaphore(fs, child->pid, false);
	usdt_rows_deinit(&rows);
}

static void test_perf_file(void **state)
{
	check_perf(*state, child_dlopen, "kstest_bfd.so");
	check_perf(*state, child_dlopen, "kstest_lld.so");
}

static void test_perf_memfd(void **state)
{
	check_perf(*state, child_dlopen_memfd, "kstest_lld.so");
	check_perf(*state, child_dlopen_memfd_kept, "kstest_bfd.so");
}

/* A program of others, found as it runs: collects garbage for each line, and then says so. */
#define PYTHON "/usr/bin/python3.11"

struct python {
	pid_t pid;
	int in, out;
};

static struct python python_start(void)
{
	static const char script[] = "import gc, sys\n"
				     "for line in sys.stdin:\n"
				     "  gc.collect()\n"
				     "  print(flush=True)\n";
	int in[2], out[2];

	assert_return_code(pipe2(in, O_CLOEXEC), errno);
	assert_return_code(pipe2(out, O_CLOEXEC), errno);
	pid_t pid = fork();

	assert_return_code(pid, errno);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(PYTHON, PYTHON, "-c", script, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	return (struct python){pid, in[1], out[0]};
}

static void python_collect(const struct python *python)
{
	char c;

	assert_int_equal(write(python->in, "\n", 1), 1);
	assert_int_equal(read(python->out, &c, 1), 1);
}

static void python_stop(struct python *python)
{
	close(python->in);
	close(python->out);
	kill(python->pid, SIGKILL);
	waitpid(python->pid, NULL, 0);
}

static void assert_gc_semaphore(const struct ksymfs *fs, pid_t pid, const char *value)
{
	_cleanup_free_ char *probe =
		ksymfs_read(fs, NULL, "usdt/%d/providers/python/gc__start", pid);

	if (count_lines_with_prefix(probe, value) != 1)
		fail_msg("%s expected in\n%s", value, probe);
}

static void test_perf_python(void **state)
{
	struct ksymfs *fs = *state;

	if (access(PYTHON, X_OK) < 0)
		skip_because("no " PYTHON);
	CLEANUP(python_stop) struct python python = python_start();

	python_collect(&python);
	_cleanup_free_ char *notes = usdt_read(fs, python.pid, "notes");
	struct usdt_rows rows = usdt_rows_of(notes, PYTHON);
	const struct usdt_row *start = usdt_row(&rows, "python:gc__start", 0);

	assert_non_null(start);
	assert_null(start->invalid);
	assert_gc_semaphore(fs, python.pid, "semaphore_value: 0\n");
	int fd = attach_perf(start, python.pid);

	assert_return_code(fd, errno);
	assert_gc_semaphore(fs, python.pid, "semaphore_value: 1\n");
	for (int i = 0; i < 3; i++)
		python_collect(&python);
	assert_int_equal(read_count(fd), 3);
	close(fd);
	assert_gc_semaphore(fs, python.pid, "semaphore_value: 0\n");
	usdt_rows_deinit(&rows);
}

/* ---- tracefs ---- */

struct tracefs {
	char dir[64];
	int lock; /* events are the machine's: one test at a time */
};

/* What a test that failed has left. */
static struct tracefs left = {.lock = -1};

static void tracefs_close(struct tracefs *tracefs)
{
	assert_return_code(umount2(tracefs->dir, MNT_DETACH), errno);
	assert_return_code(rmdir(tracefs->dir), errno);
	close(tracefs->lock);
	left.lock = -1;
}

static void clean_up(void)
{
	if (left.lock >= 0) {
		run("echo > %s/instances/ksymfs-test/events/kstest/enable; "
		    "rmdir %s/instances/ksymfs-test; echo '-:kstest/' >> %s/uprobe_events",
		    left.dir, left.dir, left.dir);
		tracefs_close(&left);
	}
}

static struct tracefs tracefs_open(void)
{
	struct tracefs tracefs = {.dir = "/tmp/ksymfs-tracefs-XXXXXX"};

	clean_up();
	tracefs.lock = open("/tmp/ksymfs-tracefs.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_return_code(tracefs.lock, errno);
	assert_return_code(flock(tracefs.lock, LOCK_EX), errno);
	assert_non_null(mkdtemp(tracefs.dir));
	if (mount("tracefs", tracefs.dir, "tracefs", 0, NULL) < 0) {
		rmdir(tracefs.dir);
		skip_because("tracefs: %s", strerror(errno));
	}
	left = tracefs;
	return tracefs;
}

static int write_events(const struct tracefs *tracefs, const char *text)
{
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "%s/uprobe_events", tracefs->dir) > 0);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	size_t len = strlen(text);

	assert_return_code(fd, errno);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0)
			return -errno;
		done += n;
	}
	return 0;
}

/* Each line by itself, so that the one that is refused can be told. */
static void add_events(const struct tracefs *tracefs, const char *events)
{
	_cleanup_free_ char *copy = strdup(events);
	char *cursor = copy, *line;

	while ((line = next_line(&cursor))) {
		_cleanup_free_ char *whole = NULL;

		assert_true(asprintf(&whole, "%s\n", line) > 0);
		int r = write_events(tracefs, whole);

		if (r < 0) {
			_cleanup_free_ char *log = NULL;

			run("cat %s/error_log >&2", tracefs->dir);
			fail_msg("%s: %s", line, strerror(-r));
		}
	}
}

static void remove_events(const struct tracefs *tracefs, const char *events)
{
	_cleanup_free_ char *copy = strdup(events);
	char *cursor = copy, *line;

	while ((line = next_line(&cursor))) {
		char name[160];

		snprintf(name, sizeof(name), "-:%.*s\n", (int)strcspn(line + 2, " "), line + 2);
		assert_int_equal(write_events(tracefs, name), 0);
	}
}

static size_t count_lines(const char *text)
{
	return count_lines_with(text, "");
}

static void check_accepted(const struct ksymfs *fs, const struct tracefs *tracefs, pid_t pid,
			   size_t at_least)
{
	_cleanup_free_ char *events = usdt_read(fs, pid, "uprobe_events");

	if (count_lines_with_prefix(events, "p:") < at_least)
		fail_msg("fewer than %zu in:\n%s", at_least, events);
	assert_int_equal(count_lines_with_prefix(events, "p:"), count_lines(events));
	add_events(tracefs, events);
	remove_events(tracefs, events);
	/* And as one writes them: all at once. */
	assert_int_equal(write_events(tracefs, events), 0);
	remove_events(tracefs, events);
}

static void test_tracefs_accepts(void **state)
{
	struct ksymfs *fs = *state;
	struct tracefs tracefs = tracefs_open();
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *bfd = kstest_path("kstest_bfd.so"),
			    *lld = kstest_path("kstest_lld.so");

	assert_int_equal(child_call(child, child_dlopen, bfd), 0);
	assert_int_equal(child_call(child, child_dlopen_memfd, lld), 0);
	check_accepted(fs, &tracefs, child->pid, 10);
	if (access("/usr/bin/python3.11", X_OK) == 0 &&
	    child_call(child, child_map, "/usr/bin/python3.11") == 0)
		check_accepted(fs, &tracefs, child->pid, 18);
	tracefs_close(&tracefs);
}

/* Every form of argument that a note can have, and names that tracefs would not take. */
static void test_tracefs_arguments(void **state)
{
#ifdef __aarch64__
	static const char *const args[] = {
		"-4@42 1@-56 8@18446744073709551615 -8@-9223372036854775808 2@0xffff",
		"-1@[x0] 8@[x29, -1280] 8@[sp] -2@[sp, 48] 4@[x9, 2147483647]",
		"8@[x0, -9223372036854775807] 8@[x1, x2, lsl 3] 4@[x1, w2, sxtw]",
		"8f@d0 8@d1 1@w0 -1@w30 2@w15 4@w8 8@x9 8@[x21, #:lo12:.LANCHOR2]",
		"x0 [x1, 4] 16@x0 5",
		"8@x0 8@x1 8@x2 8@x3 8@x4 8@x5 8@x6 8@x7 8@x8 8@x29 8@x30 8@sp",
	};
	static const char many_arg[] = "8@[x29, -12345678] ";
#else
	static const char many_arg[] = "8@-12345678(%rbp) ";
	static const char *const args[] = {
		"-4@$42 1@$-56 8@$18446744073709551615 -8@$-9223372036854775808 2@$0xffff",
		"-1@(%rdi) 8@-1280(%rbp) 8@(%rsp) -2@4194304 4@2147483647(%rax)",
		"8@-9223372036854775807(%rax) 8@%fs:0 -4@g(%rip) 8@(%rdx,%rax)",
		"8f@%rcx 4f@%eax 8@%xmm0 1@%bh -1@%bh 1@%bl -1@%sil 2@%r15w 4@%r8d 8@%r9",
		"%eax 4(%esi) 16@%rax 8@%rip 8@%ds 8@%rbp 8@%rsi 8@%rdx 8@%ax $5",
		"8@%rax 8@%rbx 8@%rcx 8@%rdx 8@%rsi 8@%rdi 8@%rbp 8@%rsp 8@%r10 8@%r11 8@%r12",
	};
#endif
	static const char *const names[] = {"", "1", "a-b", "a b", "a/b", "\xff", "if", "sched"};
	struct ksymfs *fs = *state;
	struct elf_plan plan = elf_plan_default();

#ifdef __aarch64__
	plan.machine = EM_AARCH64;
#endif
	struct tracefs tracefs = tracefs_open();
	_cleanup_child_ struct child *child = child_start();
	_cleanup_text_ struct text notes = {}, file = {};
	char path[64], long_name[200];

	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		elf_note(&notes, &plan, 0x12000 + i, 0, 0, "kstest_made", "args", args[i]);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		elf_note(&notes, &plan, 0x12010 + i, 0, 0x24000 + 2 * i, names[i], names[i], "");
	memset(long_name, 'y', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	elf_note(&notes, &plan, 0x12020, 0, 0, long_name, long_name, "");
	elf_note(&notes, &plan, 0x12021, 0, 0, long_name, long_name, "");
	/* The same place with another semaphore: the kernel takes the first. */
	elf_note(&notes, &plan, 0x12030, 0, 0x24000, "kstest_made", "same", "");
	elf_note(&notes, &plan, 0x12030, 0, 0x24002, "kstest_made", "same", "");
	elf_note(&notes, &plan, 0x12030, 0, 0x24000, "kstest_made", "same", "");
	/* More arguments than there can be, and more than a line holds. */
	_cleanup_text_ struct text many = {};

	for (int i = 0; i < 400; i++)
		text_puts(&many, many_arg);
	text_putc(&many, '\0');
	elf_note(&notes, &plan, 0x12040, 0, 0, "kstest_made", "many", many.data);
	elf_make(&file, &plan, &notes);
	assert_false(file.failed || notes.failed);
	snprintf(path, sizeof(path), "/tmp/ksymfs-attach-%d", getpid());
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_int_equal(write(fd, file.data, file.len), file.len);
	assert_int_equal(child_call(child, child_map, path), 0);
	size_t expected = ARRAY_SIZE(args) + ARRAY_SIZE(names) + 2 + 2 + 1;

	check_accepted(fs, &tracefs, child->pid, expected);
	_cleanup_free_ char *events = usdt_read(fs, child->pid, "uprobe_events");

	assert_int_equal(count_lines(events), expected);
	assert_int_equal(count_lines_with(events, " arg128="), 1);
	assert_int_equal(count_lines_with(events, " arg129="), 0);
	unlink(path);
	tracefs_close(&tracefs);
}

/* Pasted, switched on, fired: the arguments are those that the program had. */
static void test_tracefs_fires(void **state)
{
	struct ksymfs *fs = *state;
	struct tracefs tracefs = tracefs_open();
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"), *instance = NULL, *trace = NULL;

	assert_int_equal(child_call(child, child_dlopen_memfd, lld), 0);
	_cleanup_free_ char *events = usdt_read(fs, child->pid, "uprobe_events");

	add_events(&tracefs, events);
	assert_true(asprintf(&instance, "%s/instances/ksymfs-test", tracefs.dir) > 0);
	assert_return_code(mkdir(instance, 0700), errno);
	assert_int_equal(run("echo 1 > %s/events/kstest/enable", instance), 0);
	assert_semaphore(fs, child->pid, true);
	assert_int_equal(child_call(child, child_fire, "19"), 0);
	assert_true(asprintf(&trace, "%s/trace", instance) > 0);
	_cleanup_free_ char *seen = read_path(trace, NULL);

	assert_int_equal(run("echo 0 > %s/events/kstest/enable", instance), 0);
	assert_return_code(rmdir(instance), errno);
	remove_events(&tracefs, events);
	tracefs_close(&tracefs);
	/* kstest_fire(19): value, value << 32, 42, -7. */
	assert_int_equal(count_lines_with(seen, " plain_1: "), 1);
	assert_int_equal(count_lines_with(seen, " args_1: "), 1);
	assert_int_equal(count_lines_with(seen, " arg1=19 arg2=81604378624 arg3=42 arg4=-7"), 1);
	assert_int_equal(count_lines_with(seen, " twice_"), 1);
	assert_int_equal(count_lines_with(seen, " counted_1: "), 1);
	assert_semaphore(fs, child->pid, false);
}

int main(void)
{
	atexit(clean_up);
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_perf_file),	cmocka_unit_test(test_perf_memfd),
		cmocka_unit_test(test_tracefs_accepts), cmocka_unit_test(test_tracefs_arguments),
		cmocka_unit_test(test_tracefs_fires),	cmocka_unit_test(test_perf_python),
	};

	return live_run(tests);
}
