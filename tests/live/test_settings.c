/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Settings of the whole machine, and rights: with each, ksymfs says what is missing and the rest
 * works. Only in a guest, where nobody else lives: see scripts/vm.
 */
#include "tests/live/support.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define KPTR_RESTRICT "/proc/sys/kernel/kptr_restrict"
#define PERF_PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define JIT_HARDEN    "/proc/sys/net/core/bpf_jit_harden"
#define JIT_KALLSYMS  "/proc/sys/net/core/bpf_jit_kallsyms"
#define CPU1_ONLINE   "/sys/devices/system/cpu/cpu1/online"
#define NOBODY	      65534

static void need_guest(void)
{
	if (!getenv("KSYMFS_GUEST"))
		skip_because("changes settings of the whole machine: for scripts/vm");
}

static void write_setting(const char *path, int value)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dprintf(fd, "%d\n", value) < 0)
		fail_msg("writing %d to %s: %s", value, path, strerror(errno));
}

static int read_setting(const char *path)
{
	_cleanup_free_ char *text = read_path(path, NULL);

	return atoi(text);
}

static void assert_value(const struct ksymfs *fs, const char *key, const char *expected)
{
	_cleanup_free_ char *value = ksymfs_value(fs, key, "status");

	assert_non_null(value);
	if (strncmp(value, expected, strlen(expected)) != 0)
		fail_msg("%s is '%s', not '%s'", key, value, expected);
}

/* Does the command `check` say that all is there? */
static bool check(void)
{
	return run("exec %s check", getenv("KSYMFS")) == 0;
}

static bool is_whole(void)
{
	return strcmp(kernel_health(), "ok") == 0;
}

static bool has_program(const struct ksymfs *fs, int prog)
{
	struct oracle oracle;
	char row[64];
	_cleanup_free_ char *ksyms = ksymfs_read(fs, NULL, "ksyms");

	oracle_read(prog, &oracle);
	snprintf(row, sizeof(row), "%016" PRIx64 " %016" PRIx64 " t bpf_prog_%s", oracle.ksyms[0],
		 (uint64_t)oracle.func_lens[0], oracle.tag);
	bool has = count_lines_with_prefix(ksyms, row) == 1;
	oracle_deinit(&oracle);
	return has;
}

static void test_kptr_restrict(void **state)
{
	need_guest();
	int was = read_setting(KPTR_RESTRICT);

	for (int value = 0; value <= 2; value++) {
		write_setting(KPTR_RESTRICT, value);
		_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);

		assert_value(fs, "kallsyms", value < 2 ? "ok" : "missing: ");
		assert_value(fs, "health", value < 2 ? kernel_health() : "degraded");
		assert_int_equal(check(), value < 2 && is_whole());
		int fd = ksymfs_open(fs, "ksyms");
		assert_true(value < 2 ? fd >= 0 : fd == -EACCES);
		if (fd >= 0)
			close(fd);
	}
	write_setting(KPTR_RESTRICT, was);
}

/* Addresses hidden while it runs: what is known stays, and what changed then is seen later. */
static void test_hidden_meanwhile(void **state)
{
	need_guest();
	if (load_module("dummy", "numdummies=0") < 0)
		skip_because("module dummy cannot be loaded");
	int was = read_setting(KPTR_RESTRICT);
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_free_ char *before = ksymfs_read(fs, NULL, "ksyms");
	size_t modules = count_lines_with(before, "]");

	assert_true(count_lines_with(before, "\t[dummy]") > 0);
	write_setting(KPTR_RESTRICT, 2);
	assert_int_equal(load_module("ifb", "numifbs=0"), 0);
	_cleanup_free_ char *hidden = ksymfs_read(fs, NULL, "ksyms");
	assert_value(fs, "health", "degraded");
	assert_value(fs, "kallsyms", "missing: ");
	assert_int_equal(count_lines_with(hidden, "]"), modules);
	write_setting(KPTR_RESTRICT, was);
	_cleanup_free_ char *after = ksymfs_read(fs, NULL, "ksyms");
	assert_true(count_lines_with(after, "\t[ifb]") > 0);
	assert_value(fs, "health", kernel_health());
	assert_ksyms_is_kallsyms(fs);
	unload_module("ifb");
	unload_module("dummy");
}

static void test_perf_event_paranoid(void **state)
{
	need_guest();
	int was = read_setting(PERF_PARANOID);

	for (int value = -1; value <= 4; value++) {
		write_setting(PERF_PARANOID, value);
		_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
		_cleanup_fd_ int prog = load_simple("paranoid", value);

		assert_value(fs, "health", kernel_health());
		assert_true(has_program(fs, prog));
	}
	write_setting(PERF_PARANOID, was);
}

/* CPUs that come back make it compare all with the kernel's list. */
static void force_resync(const struct ksymfs *fs)
{
	_cleanup_free_ char *before = ksymfs_value(fs, "resyncs", "status");

	write_setting(CPU1_ONLINE, 0);
	write_setting(CPU1_ONLINE, 1);
	_cleanup_free_ char *after = ksymfs_value(fs, "resyncs", "status");
	assert_true(atoi(after) > atoi(before));
}

/* The kernel's list has no BPF symbols then, and that is no reason to forget them. */
static void check_unlisted(const char *path, int value)
{
	int was = read_setting(path);
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	_cleanup_free_ char *images = ksymfs_read(fs, NULL, "bpf/images");

	write_setting(path, value);
	_cleanup_fd_ int prog = load_simple("unlisted", value);

	assert_true(has_program(fs, prog));
	force_resync(fs);
	assert_true(has_program(fs, prog));
	_cleanup_free_ char *again = ksymfs_read(fs, NULL, "bpf/images");
	assert_string_equal(again, images);
	assert_value(fs, "image-list", "missing: ");
	assert_false(check());
	{
		_cleanup_ksymfs_ struct ksymfs *late = ksymfs_start(NULL);

		assert_true(has_program(late, prog));
		assert_value(late, "health", "degraded");
		assert_value(late, "image-list", "missing: ");
	}
	write_setting(path, was);
	force_resync(fs);
	assert_value(fs, "health", kernel_health());
	assert_ksyms_is_kallsyms(fs);
}

static void test_jit_kallsyms(void **state)
{
	need_guest();
	check_unlisted(JIT_KALLSYMS, 0);
}

static void test_jit_harden(void **state)
{
	need_guest();
	check_unlisted(JIT_HARDEN, 1);
	check_unlisted(JIT_HARDEN, 2);
}

static void test_unprivileged_user(void **state)
{
	need_guest();
	/* It says what is missing, and is no success. */
	assert_int_equal(run("setpriv --reuid=%d --regid=%d --clear-groups --bounding-set=-all "
			     "--inh-caps=-all %s check > /tmp/check.out; test $? = 1",
			     NOBODY, NOBODY, getenv("KSYMFS")),
			 0);
	_cleanup_free_ char *said = read_path("/tmp/check.out", NULL);
	assert_true(count_lines_with(said, ": missing: ") >= 3);
	assert_int_equal(count_lines_with_prefix(said, "kallsyms: missing: "), 1);
	assert_int_equal(count_lines_with_prefix(said, "perf-rings: missing: "), 1);
	unlink("/tmp/check.out");
}

/* Each right dropped alone: whatever it takes away, the rest is served, and an address is never 0.
 */
static void test_each_capability(void **state)
{
	need_guest();
	const char *binary = getenv("KSYMFS");
	_cleanup_free_ char *real = strdup(binary);

	setenv("KSYMFS", getenv("KSYMFS_DENY"), 1);
	setenv("DENY_RUN", real, 1);
	for (int capability = 0; capability <= CAP_LAST_CAP; capability++) {
		char what[16];

		snprintf(what, sizeof(what), "cap %d", capability);
		setenv("DENY", what, 1);
		/* It mounts with this one. */
		if (capability == CAP_SYS_ADMIN) {
			assert_false(check());
			continue;
		}
		fprintf(stderr, "# without capability %d\n", capability);
		struct ksymfs *fs = ksymfs_start(NULL);
		_cleanup_fd_ int prog = load_simple("dropped", capability);
		_cleanup_free_ char *health = ksymfs_value(fs, "health", "status");
		const char *expected = capability == CAP_SYSLOG ? "degraded" : kernel_health();

		if (strcmp(health, expected) != 0)
			fail_msg("without capability %d it is %s", capability, health);
		assert_int_equal(check(), strcmp(expected, "ok") == 0);
		/* Who asks cannot be told without CAP_SYS_PTRACE. */
		if (capability == CAP_SYS_PTRACE || capability == CAP_SYSLOG)
			assert_int_equal(ksymfs_open(fs, "ksyms"), -EACCES);
		else
			assert_true(has_program(fs, prog));
		ksymfs_stop(fs);
	}
	setenv("KSYMFS", real, 1);
}

/* ---- CPUs that go and come ---- */

/* Every reader of a ring is where its ring is. */
static void assert_readers_at_home(const struct ksymfs *fs)
{
	_cleanup_free_ char *pid = ksymfs_value(fs, "pid", "status");

	assert_int_equal(
		run("cd /proc/%s/task && for task in *; do "
		    "name=$(cat $task/comm); case $name in ksymfs-ring/*) "
		    "grep -q \"Cpus_allowed_list:[[:space:]]*${name#*/}$\" $task/status || "
		    "{ echo $name; cat $task/status; exit 1; };; esac; done",
		    pid),
		0);
}

static void set_cpus(bool online)
{
	char path[64];

	for (long cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online", cpu);
		write_setting(path, online);
	}
}

/* Does addr/ know it? Cheaper than to read all of ksyms. */
static bool is_named(const struct ksymfs *fs, int prog)
{
	struct oracle oracle;

	oracle_read(prog, &oracle);
	_cleanup_fd_ int fd = ksymfs_open(fs, "addr/%" PRIx64, (uint64_t)oracle.ksyms[0]);
	oracle_deinit(&oracle);
	return fd >= 0;
}

static void test_cpus_during_churn(void **state)
{
	need_guest();
	if (access(CPU1_ONLINE, W_OK) < 0)
		skip_because("CPUs do not go offline: %s", strerror(errno));
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	int pipes[2], status, kept[64];

	assert_readers_at_home(fs);
	assert_return_code(pipe(pipes), errno);
	pid_t child = fork();
	assert_return_code(child, errno);
	if (child == 0) {
		close(pipes[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(pipes[0], F_SETFL, O_NONBLOCK);
		for (char byte; read(pipes[0], &byte, 1) < 0;)
			close(load_simple("hotplug_churn", 1));
		_exit(0);
	}
	close(pipes[0]);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (i % 16 == 0)
			set_cpus(i % 32);
		kept[i] = load_simple("hotplug", i);
		assert_true(is_named(fs, kept[i]));
	}
	set_cpus(true);
	close(pipes[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ksyms_is_kallsyms(fs);
	assert_readers_at_home(fs);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		close(kept[i]);
	assert_ksyms_is_kallsyms(fs);
}

/* ---- code out of line ---- */

struct row_wait {
	const char *needle;
	bool there;
};

static bool kallsyms_has(void *arg)
{
	const struct row_wait *wait = arg;
	_cleanup_free_ char *text = read_path("/proc/kallsyms", NULL);

	return (strstr(text, wait->needle) != NULL) == wait->there;
}

/*
 * Runs a command in tracefs that makes the kernel have a page of code of that module (NULL: of any,
 * or none), and one that takes it back. The optimizer of kprobes works some time later.
 */
static void check_out_of_line(const struct ksymfs *fs, const char *module, const char *make,
			      const char *undo)
{
	struct row_wait wait = {module, true};

	if (run("cd /sys/kernel/tracing && %s", make) != 0)
		skip_because("tracefs refuses: %s", make);
	if (module && !wait_until(kallsyms_has, &wait, 10))
		printf("# lacks: symbols of %s\n", module);
	assert_ksyms_is_kallsyms(fs);
	{
		_cleanup_ksymfs_ struct ksymfs *late = ksymfs_start(NULL);

		assert_ksyms_is_kallsyms(late);
		assert_int_equal(run("cd /sys/kernel/tracing && %s", undo), 0);
		assert_ksyms_is_kallsyms(late);
	}
	assert_ksyms_is_kallsyms(fs);
}

static void test_out_of_line(void **state)
{
	need_guest();
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);

	/* At a function's entry ftrace serves it; where the next instruction begins is not known.
	 */
	check_out_of_line(fs, "[__builtin__kprobes]",
			  "for at in 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
			  "echo p:ksymfs/probe vfs_link+$at >> kprobe_events && "
			  "echo 1 > events/ksymfs/probe/enable && exit 0; "
			  "echo -:ksymfs/probe >> kprobe_events; done; exit 1",
			  "echo 0 > events/ksymfs/probe/enable && "
			  "echo -:ksymfs/probe >> kprobe_events");
	/* A return probe's trampoline is the kernel's own, and so are those of static calls; what
	 * leads there is ftrace's, or at the entry an optimized kprobe's.
	 */
	check_out_of_line(fs, NULL,
			  "echo r:ksymfs/returned vfs_link >> kprobe_events && "
			  "echo 1 > events/ksymfs/returned/enable",
			  "echo 0 > events/ksymfs/returned/enable && "
			  "echo -:ksymfs/returned >> kprobe_events");
	check_out_of_line(fs, "[__builtin__ftrace]",
			  "echo vfs_link > set_ftrace_filter && echo function > current_tracer",
			  "echo nop > current_tracer && echo > set_ftrace_filter");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kptr_restrict),
		cmocka_unit_test(test_hidden_meanwhile),
		cmocka_unit_test(test_perf_event_paranoid),
		cmocka_unit_test(test_jit_kallsyms),
		cmocka_unit_test(test_jit_harden),
		cmocka_unit_test(test_cpus_during_churn),
		cmocka_unit_test(test_out_of_line),
		cmocka_unit_test(test_unprivileged_user),
		cmocka_unit_test(test_each_capability),
	};

	return live_run_bare(tests);
}
