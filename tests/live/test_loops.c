/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Daemons that die one after the other: what costs nothing, what costs what they carry over, and
 * when the supervisor gives up and takes the mount away.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/mountinfo.h"
#include "core/oomkills.h"
#include "tests/live/scarcity.h"
#include "tests/live/support.h"

/* Six starts one after the other take that long in an emulated guest beside others. */
#define GONE_SECONDS 120
/* After so many failures in a row nothing is carried over, and after so many there is no mount. */
#define FAILURES_FRESH 3
#define FAILURES_MAX   6
/* Less than ksyms takes. */
#define TOO_LITTLE (UINT64_C(2) << 20)

/* What no death is to cost: a file that is open, and a pin. */
struct held {
	const struct ksymfs *fs;
	int fd;
	char *bytes, *pin;
};

static void hold(const struct ksymfs *fs, struct held *ret)
{
	*ret = (struct held){.fs = fs, .fd = ksymfs_open(fs, "bpf/programs")};
	assert_true(ret->fd >= 0);
	ret->bytes = read_fd(ret->fd, NULL);
	ret->pin = ksymfs_path(fs, "pins/%d", getpid());
	assert_return_code(mkdir(ret->pin, 0700), errno);
}

/* And lets go of it. */
static void assert_held(struct held *held)
{
	assert_int_equal(lseek(held->fd, 0, SEEK_SET), 0);
	_cleanup_free_ char *again = read_fd(held->fd, NULL);
	assert_string_equal(again, held->bytes);
	_cleanup_free_ char *said = ksymfs_value(held->fs, "state", "pins/%d/info", getpid());
	assert_string_equal(said, "alive");
	_cleanup_free_ char *handover = ksymfs_value(held->fs, "handover", "status");
	assert_non_null(strstr(handover, "carried over"));
	assert_return_code(rmdir(held->pin), errno);
	close(held->fd);
	free(held->bytes);
	free(held->pin);
}

static void assert_cause(const struct ksymfs *fs, const char *expected)
{
	_cleanup_free_ char *cause = ksymfs_value(fs, "handover_cause", "status");

	assert_string_equal(cause, expected);
}

/*
 * One whose supervisor, and whom that starts from here on, is in a cgroup. It keeps little of the
 * programs that strangers load meanwhile.
 */
static struct ksymfs *start_in(struct memory_cgroup *cgroup)
{
	static const char *const options[] = {"--retain-bytes=16K", "--events-bytes=64K", NULL};
	char name[32];

	snprintf(name, sizeof(name), "ksymfs-loops-%d", getpid());
	if (!memory_cgroup_make(name, cgroup))
		skip_because("there is no cgroup to limit memory with");
	struct ksymfs *fs = ksymfs_start(options);

	memory_cgroup_add(cgroup, fs->pid);
	ksymfs_crash(fs);
	return fs;
}

static void stop_in(struct ksymfs *fs, struct memory_cgroup *cgroup)
{
	ksymfs_stop(fs);
	memory_cgroup_remove(cgroup);
}

/* ---- the end of the mount ---- */

static bool has_left(void *arg)
{
	const struct ksymfs *fs = arg;
	siginfo_t info = {};

	return waitid(P_PID, fs->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* The supervisor gives up and takes the mount away. */
static void assert_it_ends(struct ksymfs *fs, const char *cause)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	siginfo_t info = {};

	assert_true(wait_until(has_left, fs, GONE_SECONDS));
	assert_int_equal(waitid(P_PID, fs->pid, &info, WEXITED), 0);
	assert_int_equal(info.si_code, CLD_EXITED);
	assert_int_equal(info.si_status, 1);
	assert_int_equal(mountinfo_read(&list), 0);
	assert_null(mountinfo_at(&list, fs->dir));
	_cleanup_free_ char *said = read_path(fs->log, NULL);
	assert_non_null(strstr(said, "gave up: the daemon dies again and again"));
	assert_non_null(strstr(said, cause));
	unlink(fs->log);
	rmdir(fs->dir);
	free(fs);
}

static bool is_reaped(void *arg)
{
	const pid_t *pid = arg;

	return kill(*pid, 0) < 0;
}

/* A daemon that dies as soon as it is there. */
static void test_faults_end_it(void **state)
{
	struct ksymfs *fs = ksymfs_start(NULL);

	for (int i = 0; i < 20; i++) {
		_cleanup_free_ char *path = ksymfs_path(fs, "status");
		_cleanup_file_ FILE *file = fopen(path, "r");
		char line[256];
		pid_t pid = 0;

		while (file && !pid && fgets(line, sizeof(line), file))
			if (sscanf(line, "pid: %d", &pid) != 1)
				pid = 0;
		if (!pid)
			break;
		kill(pid, SIGSEGV);
		/* Else it is asked, and killed, once more while it dies. */
		assert_true(wait_until(is_reaped, &pid, GONE_SECONDS));
	}
	assert_it_ends(fs, "the daemon was ended by signal 11 ");
}

/* ---- faults ---- */

static void fault_until_fresh(const struct ksymfs *fs)
{
	for (int i = 0; i < FAILURES_FRESH; i++) {
		pid_t dead = ksymfs_daemon(fs);

		kill(dead, SIGSEGV);
		/* Whom it leaves without an answer may be told to try again. */
		assert_true(wait_until(is_reaped, &dead, GONE_SECONDS));
		ksymfs_await_successor(fs, dead);
	}
	_cleanup_free_ char *handover = ksymfs_value(fs, "handover", "status");
	assert_string_equal(handover, "begun anew");
}

/* A handle that nobody knows any more is closed under its number, and no other one. */
static void test_handles_of_before_are_nobody_elses(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_free_ char *path = ksymfs_path(fs, "bpf");
	enum { HANDLES = 64 };
	DIR *before[HANDLES], *after[HANDLES];

	for (int i = 0; i < HANDLES; i++)
		assert_non_null(before[i] = opendir(path));
	fault_until_fresh(fs);
	for (int i = 0; i < HANDLES; i++)
		assert_non_null(after[i] = opendir(path));
	for (int i = 0; i < HANDLES; i++)
		closedir(before[i]);
	for (int i = 0; i < HANDLES; i++) {
		assert_non_null(readdir(after[i]));
		closedir(after[i]);
	}
}

static bool has_given_back(void *arg)
{
	return memory_cgroup_shmem(arg) < TOO_LITTLE;
}

/* Files that the kernel reads by itself: nobody knows their numbers, but how many there were. */
static void test_files_of_before_are_given_back(void **state)
{
	struct memory_cgroup cgroup;

	if (!kernel_has_passthrough())
		skip_because("the kernel reads no file by itself");
	struct ksymfs *fs = start_in(&cgroup);
	int before = ksymfs_open(fs, "ksyms");

	assert_true(before >= 0);
	fault_until_fresh(fs);
	assert_false(has_given_back(&cgroup));
	close(before);
	if (!wait_until(has_given_back, &cgroup, GONE_SECONDS))
		fail_msg("%" PRIu64 " bytes are left", memory_cgroup_shmem(&cgroup));
	stop_in(fs, &cgroup);
}

/* ---- kills ---- */

struct another {
	const struct ksymfs *fs;
	pid_t than, pid;
};

/* What the supervisor has forked: it need not answer yet. */
static bool has_forked(void *arg)
{
	struct another *another = arg;
	pid_t supervisor = another->fs->pid;
	char path[64], text[32] = {};

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", supervisor, supervisor);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		skip_because("this kernel does not tell a process's children");
	another->pid = read(fd, text, sizeof(text) - 1) > 0 ? atoi(text) : 0;
	return another->pid && another->pid != another->than;
}

/* Who kills daemons faster than they start is not told that they are no good. */
static void test_kills_at_the_start_cost_nothing(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	struct another another = {.fs = fs, .than = fs->daemon};
	struct held held;
	uint64_t count;

	if (!oom_kills_count(&count))
		skip_because("no cgroup counts kills for want of memory");
	hold(fs, &held);
	kill(fs->daemon, SIGKILL);
	for (int i = 0; i < FAILURES_MAX + 1; i++) {
		assert_true(wait_until(has_forked, &another, GONE_SECONDS));
		kill(another.pid, SIGKILL);
		another.than = another.pid;
	}
	ksymfs_await_successor(fs, another.pid);
	assert_cause(fs, "signal 9 (Killed)");
	assert_held(&held);
}

/* However it came to the daemon that is replaced. */
static void test_a_reload_after_faults_costs_nothing(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	struct held held;

	fault_until_fresh(fs);
	hold(fs, &held);
	ksymfs_replace(fs, fs->pid, SIGHUP);
	assert_held(&held);
}

/* ---- want of memory ---- */

static void starve(const struct memory_cgroup *cgroup)
{
	memory_cgroup_limit(cgroup, memory_cgroup_usage(cgroup) + TOO_LITTLE);
}

/* Reads ksyms, once or for ever; 0: it is whole. */
static pid_t start_reader(const struct ksymfs *fs, bool for_ever)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "ksyms");
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	do {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END), done = 0;
		static char buf[1 << 16];
		ssize_t n;

		while (fd >= 0 && (n = pread(fd, buf, sizeof(buf), done)) > 0)
			done += n;
		close(fd);
		if (!for_ever)
			_exit(done == 0 || done != size);
	} while (true);
}

static bool has_killed(void *arg)
{
	return memory_cgroup_kills(arg);
}

static void test_one_kill_for_want_of_memory_costs_nothing(void **state)
{
	struct memory_cgroup cgroup;
	struct ksymfs *fs = start_in(&cgroup);
	struct held held;
	int status;

	hold(fs, &held);
	starve(&cgroup);
	pid_t reader = start_reader(fs, false);
	assert_true(wait_until(has_killed, &cgroup, GONE_SECONDS));
	memory_cgroup_limit(&cgroup, MEMORY_UNLIMITED);
	assert_int_equal(waitpid(reader, &status, 0), reader);
	assert_int_equal(status, 0);
	assert_cause(fs, "signal 9 (Killed), out of memory");
	assert_held(&held);
	stop_in(fs, &cgroup);
}

/* What kills one daemon kills the next one too, which is asked the same. */
static void test_want_of_memory_ends_it(void **state)
{
	struct memory_cgroup cgroup;
	struct ksymfs *fs = start_in(&cgroup);

	starve(&cgroup);
	pid_t reader = start_reader(fs, true);
	assert_it_ends(fs, "the daemon was ended by signal 9 (Killed), out of memory");
	kill(reader, SIGKILL);
	assert_int_equal(waitpid(reader, NULL, 0), reader);
	memory_cgroup_remove(&cgroup);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults_end_it),
		cmocka_unit_test(test_handles_of_before_are_nobody_elses),
		cmocka_unit_test(test_files_of_before_are_given_back),
		cmocka_unit_test(test_kills_at_the_start_cost_nothing),
		cmocka_unit_test(test_a_reload_after_faults_costs_nothing),
		cmocka_unit_test(test_one_kill_for_want_of_memory_costs_nothing),
		cmocka_unit_test(test_want_of_memory_ends_it),
	};

	return live_run_bare(tests);
}
