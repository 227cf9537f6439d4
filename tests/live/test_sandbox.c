/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon may still do: no more capabilities than it uses, in every thread; of system calls
 * all that any part of the tree takes, and none of those that it does not.
 */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fs/sandbox.h"
#include "tests/live/support.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)
#define KEPT	  (CAP(SYS_ADMIN) | CAP(SYS_PTRACE) | CAP(DAC_READ_SEARCH) | CAP(SYSLOG))

static uint64_t status_hex(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	assert_non_null(at);
	return strtoull(at + strlen(key), NULL, 16);
}

static bool is_any(pid_t tid, const char *status, void *arg)
{
	return true;
}

/* Is it one that keeps what makes threads real-time, or SCHED_IDLE for a while? */
static bool has_nice(pid_t tid, const char *status, void *arg)
{
	return status_hex(status, "\nCapPrm:\t") & CAP(SYS_NICE);
}

static bool has_more(pid_t tid, const char *status, void *arg)
{
	uint64_t kept = KEPT | (has_nice(tid, status, arg) ? CAP(SYS_NICE) : 0);
	static const char *const keys[] = {"\nCapPrm:\t", "\nCapEff:\t", "\nCapBnd:\t",
					   "\nCapAmb:\t", "\nCapInh:\t"};

	/* The bounding set also has what readers were made real-time by. */
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (status_hex(status, keys[i]) & ~(i == 2 ? KEPT | CAP(SYS_NICE) : kept))
			return true;
	return status_hex(status, "\nNoNewPrivs:\t") != 1;
}

/* Has each thread, which has its own, no more than it may have? */
static bool all_have_dropped(void *arg)
{
	const struct ksymfs *fs = arg;
	struct rlimit nice;

	/* Where a limit does not allow it, the two receivers have the right to. */
	assert_int_equal(prlimit(fs->daemon, RLIMIT_NICE, NULL, &nice), 0);
	return ksymfs_count_threads(arg, has_nice, NULL) <= (nice.rlim_cur ? 0 : 2) &&
	       ksymfs_count_threads(arg, has_more, NULL) == 0 &&
	       ksymfs_count_threads(arg, is_any, NULL) > 3;
}

/* A thread that was just made real-time drops the right to that first of all. */
static void test_capabilities(void **state)
{
	assert_true(wait_until(all_have_dropped, *state, 5));
}

static bool is_filtered(const struct ksymfs *fs)
{
	_cleanup_free_ char *seccomp = ksymfs_value(fs, "seccomp", "status");

	assert_non_null(seccomp);
	return strcmp(seccomp, "ok") == 0;
}

/* Strace sees what the daemon is refused, while all of the tree is read. */
static void test_nothing_is_refused(void **state)
{
	const struct ksymfs *fs = *state;
	char log[96];

	if (!is_filtered(fs))
		skip_because("no system calls are filtered here");
	snprintf(log, sizeof(log), "%s.strace", fs->dir);
	_cleanup_fd_ int prog = load_simple("sandbox", 0x7b0001);
	pid_t tracer = fork();

	assert_true(tracer >= 0);
	if (tracer == 0) {
		char pid[16];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(pid, sizeof(pid), "%d", fs->daemon);
		execlp("strace", "strace", "-qq", "-f", "-Z", "-o", log, "-p", pid, NULL);
		_exit(127);
	}
	_cleanup_free_ char *loaded = NULL;
	assert_true(asprintf(&loaded, "%s/bpf/by-id/%u", fs->dir, prog_id(prog)) > 0);
	/* A file of each kind, and a pin with what is behind it. */
	assert_int_equal(run("cd %s && ls -l . bpf > /dev/null && cat status metrics events "
			     "bpf/programs bpf/functions bpf/images ksyms %s/* > /dev/null && "
			     "cat usdt/self/notes usdt/self/objects > /dev/null",
			     fs->dir, loaded),
			 0);
	assert_int_equal(run("cd %s/pins && mkdir $$ && cat $$/info $$/maps $$/cmdline $$/exe "
			     "$$/root/etc/passwd > /dev/null && ls -l $$/map_files $$/root/ "
			     "> /dev/null && cat $$/usdt/notes > /dev/null && rmdir $$",
			     fs->dir),
			 0);
	kill(tracer, SIGTERM);
	waitpid(tracer, NULL, 0);
	_cleanup_free_ char *text = read_path(log, NULL);
	unlink(log);
	char *cursor = text, *line;
	while ((line = next_line(&cursor)))
		/* What the kernel itself refuses, and what is then done without. */
		if (strstr(line, " = -1 EPERM") && !strstr(line, "SO_RCVBUFFORCE") &&
		    !strstr(line, "O_NOATIME"))
			fail_msg("%s", line);
}

static long refused(long result)
{
	return result < 0 && errno == EPERM;
}

/* In a process of its own, which has all rights otherwise. Returns the first that was let through.
 */
static int try_forbidden(void)
{
	static const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, 0), INSN_EXIT};
	char *const argv[] = {(char *)"true", NULL};

	if (sandbox_filter_calls() < 0)
		return 100;
	if (!refused(execv("/bin/true", argv)))
		return 1;
#ifdef SYS_fork /* newer architectures have clone() alone */
	if (!refused(syscall(SYS_fork)) || !refused(syscall(SYS_vfork)))
		return 2;
#endif
	if (!refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)))
		return 3;
	if (!refused(ptrace(PTRACE_ATTACH, 1, 0, 0)))
		return 4;
	if (!refused(load_insns(BPF_PROG_TYPE_SOCKET_FILTER, NULL, insns, ARRAY_SIZE(insns)) < 0
			     ? -1
			     : 0))
		return 5;
	if (!refused(bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, 4, 1, NULL) < 0 ? -1 : 0))
		return 6;
	if (!refused(syscall(SYS_init_module, "", 0, "")) ||
	    !refused(syscall(SYS_finit_module, 0, "", 0)) ||
	    !refused(syscall(SYS_delete_module, "none", 0)))
		return 7;
	if (!refused(mount("none", "/tmp", "tmpfs", 0, NULL)) || !refused(umount2("/nowhere", 0)) ||
	    !refused(syscall(SYS_fsopen, "tmpfs", 0)) ||
	    !refused(syscall(SYS_move_mount, -1, "", -1, "", 0)) ||
	    !refused(syscall(SYS_open_tree, -1, "/", 0)) ||
	    !refused(syscall(SYS_pivot_root, "/", "/")))
		return 8;
	if (!refused(setns(-1, 0)) || !refused(unshare(CLONE_NEWNS)) || !refused(chroot("/")))
		return 9;
	if (!refused(kill(getppid(), SIGTERM)) || !refused(syscall(SYS_tgkill, 1, 1, SIGTERM)))
		return 10;
	if (!refused(socket(AF_INET, SOCK_STREAM, 0)) || !refused(socket(AF_UNIX, SOCK_STREAM, 0)))
		return 11;
	if (!refused(syscall(SYS_unlinkat, -1, "none", 0)) || !refused(chmod("/nowhere", 0)) ||
	    !refused(syscall(SYS_renameat2, -1, "a", -1, "b", 0)) ||
	    !refused(mkdir("/nowhere/none", 0)))
		return 12;
	if (!refused(syscall(SYS_reboot, 0, 0, 0, 0)) ||
	    !refused(syscall(SYS_kexec_load, 0, 0, 0, 0)))
		return 13;
	/* And these go on. */
	uint32_t id = 0;
	if (kill(getppid(), 0) < 0 || (bpf_prog_get_next_id(0, &id) < 0 && errno != ENOENT))
		return 14;
	return 0;
}

static void test_what_is_not_needed_is_refused(void **state)
{
	int status;

	if (!is_filtered(*state))
		skip_because("no system calls are filtered here");
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(try_forbidden());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_nothing_is_refused),
		cmocka_unit_test(test_what_is_not_needed_is_refused),
	};

	return live_run(tests);
}
