/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Capabilities, limits and a seccomp filter: see sandbox.h. */
#include "fs/sandbox.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/cleanup.h"
#include "core/rights.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

static const struct {
	int number;
	const char *name;
} kept[] = {
	/* Programs by id, perf events of all processes, files mapped by others, backing files. */
	{CAP_SYS_ADMIN, "sys_admin"},
	/* Other processes' roots, maps and memory. */
	{CAP_SYS_PTRACE, "sys_ptrace"},
	/* Their files. */
	{CAP_DAC_READ_SEARCH, "dac_read_search"},
	/* Kernel addresses. */
	{CAP_SYSLOG, "syslog"},
};

/* Do the receivers need the right to what they do, since no limit allows it? */
static atomic_bool keeps_nice;
/* 0: calls are filtered; else why not, as -errno. */
static atomic_int filter_error = -ENODATA;

/*
 * Needs rights that are about to go: what they would be needed for is a limit's from here on.
 * Returns whether threads may be made real-time, and be SCHED_IDLE for a while.
 */
static bool raise_limits(void)
{
	const struct rlimit priority = {1, 1};
	const struct rlimit nice = {NICE_USUAL, NICE_USUAL};
	const struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};

	/* Of rings; without, the usual limit holds. */
	setrlimit(RLIMIT_MEMLOCK, &locked);
	return setrlimit(RLIMIT_RTPRIO, &priority) == 0 && setrlimit(RLIMIT_NICE, &nice) == 0;
}

static uint64_t wanted_capabilities(void)
{
	uint64_t wanted = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		wanted |= UINT64_C(1) << kept[i].number;
	return wanted;
}

int sandbox_drop_rights(void)
{
	uint64_t wanted = wanted_capabilities();

	/* Without the limit, threads are made real-time by this right, and drop it then. */
	keeps_nice = !raise_limits() && rights_have_nice();
	if (keeps_nice)
		wanted |= UINT64_C(1) << CAP_SYS_NICE;
	/* Takes a right that goes with the others; where it is not there, no_new_privs will do. */
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (!(wanted >> cap & 1))
			prctl(PR_CAPBSET_DROP, cap);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return rights_keep(wanted);
}

/* What serving takes, whatever it is called with. */
static const char *const allowed[] = {
	/* files */
	"access",
	"close",
	"close_range",
	"dup",
	"dup2",
	"dup3",
	"faccessat",
	"faccessat2",
	"fadvise64",
	"fallocate",
	"fcntl",
	"fgetxattr",
	"flistxattr",
	"fstat",
	"fstatfs",
	"ftruncate",
	"getcwd",
	"getdents",
	"getdents64",
	"getxattr",
	"ioctl",
	"lgetxattr",
	"listxattr",
	"llistxattr",
	"lseek",
	"lstat",
	"memfd_create",
	"newfstatat",
	"open",
	"openat",
	"openat2",
	"pipe2",
	"pread64",
	"preadv",
	"preadv2",
	"pwrite64",
	"pwritev",
	"pwritev2",
	"read",
	"readahead",
	"readlink",
	"readlinkat",
	"readv",
	"splice",
	"stat",
	"statfs",
	"statx",
	"vmsplice",
	"write",
	"writev",
	/* waiting */
	"clock_getres",
	"clock_gettime",
	"clock_nanosleep",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd2",
	"futex",
	"futex_waitv",
	"gettimeofday",
	"nanosleep",
	"poll",
	"ppoll",
	"pselect6",
	"restart_syscall",
	"select",
	"time",
	"timerfd_create",
	"timerfd_gettime",
	"timerfd_settime",
	/* memory and threads */
	"brk",
	"exit",
	"exit_group",
	"get_robust_list",
	"getcpu",
	"madvise",
	"membarrier",
	"mincore",
	"mmap",
	"mprotect",
	"mremap",
	"msync",
	"munmap",
	"rseq",
	"sched_get_priority_max",
	"sched_get_priority_min",
	"sched_getaffinity",
	"sched_getparam",
	"sched_getscheduler",
	"sched_setaffinity",
	"sched_setscheduler",
	"sched_yield",
	"set_robust_list",
	/* itself */
	"capget",
	"capset",
	"getegid",
	"geteuid",
	"getgid",
	"getgroups",
	"getpid",
	"getppid",
	"getrandom",
	"getrlimit",
	"gettid",
	"getuid",
	"rt_sigaction",
	"rt_sigpending",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"sigaltstack",
	"sysinfo",
	"uname",
	/* others: whether they are there, and what they were */
	"pidfd_open",
	"waitid",
	/* the kernel's records and the supervisor's socket */
	"bind",
	"getsockname",
	"getsockopt",
	"perf_event_open",
	"recvfrom",
	"recvmsg",
	"sendmsg",
	"sendto",
	"setsockopt",
};

/* Calls that are let through with one value of an argument. */
struct allowed_value {
	const char *call;
	unsigned int argument;
	uint64_t value;
};

static const struct allowed_value allowed_values[] = {
	/* What bpf(2) tells, and the run of the program that was loaded at the start. */
	{"bpf", 0, BPF_PROG_GET_NEXT_ID},
	{"bpf", 0, BPF_MAP_GET_NEXT_ID},
	{"bpf", 0, BPF_BTF_GET_NEXT_ID},
	{"bpf", 0, BPF_LINK_GET_NEXT_ID},
	{"bpf", 0, BPF_PROG_GET_FD_BY_ID},
	{"bpf", 0, BPF_MAP_GET_FD_BY_ID},
	{"bpf", 0, BPF_BTF_GET_FD_BY_ID},
	{"bpf", 0, BPF_LINK_GET_FD_BY_ID},
	{"bpf", 0, BPF_OBJ_GET},
	{"bpf", 0, BPF_OBJ_GET_INFO_BY_FD},
	{"bpf", 0, BPF_TASK_FD_QUERY},
	{"bpf", 0, BPF_MAP_LOOKUP_ELEM},
	{"bpf", 0, BPF_MAP_GET_NEXT_KEY},
	{"bpf", 0, BPF_PROG_TEST_RUN},
	/* Names of threads, and of memory. */
	{"prctl", 0, PR_SET_NAME},
	{"prctl", 0, PR_GET_NAME},
	{"prctl", 0, PR_SET_VMA},
	/* Records of modules and CPUs. */
	{"socket", 0, AF_NETLINK},
	/* Is it there? */
	{"kill", 1, 0},
	/* Its own limits, which it does not change. */
	{"prlimit64", 2, 0},
};

static int allow(scmp_filter_ctx filter, const char *name, unsigned int count,
		 struct scmp_arg_cmp compare)
{
	int call = seccomp_syscall_resolve_name(name);

	/* Not every architecture has each of them. */
	if (call < 0)
		return 0;
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, count, compare);
}

static int add_rules(scmp_filter_ctx filter)
{
	static const struct scmp_arg_cmp none = {};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++)
		r = allow(filter, allowed[i], 0, none);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed_values); i++) {
		const struct allowed_value *value = &allowed_values[i];

		r = allow(filter, value->call, 1,
			  SCMP_CMP(value->argument, SCMP_CMP_EQ, value->value));
	}
	/* Signals to itself: abort(). */
	if (r == 0)
		r = allow(filter, "tgkill", 1, SCMP_CMP(0, SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* Threads and no processes. What clone3() is to make cannot be seen: libc then uses
	 * clone(). */
	if (r == 0)
		r = allow(filter, "clone", 1,
			  SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

/* A sanitizer's own calls are not ours to know. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

static int load_filter(void)
{
	if (IS_SANITIZED)
		return -EOPNOTSUPP;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));

	if (!filter)
		return -ENOMEM;
	int r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

	/* By bisection and not one by one: each call of the daemon goes through it. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = add_rules(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int sandbox_filter_calls(void)
{
	int r = load_filter();

	atomic_store(&filter_error, r);
	return r;
}

void sandbox_status(struct text *text)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	text_puts(text, "capabilities:");
	if (syscall(SYS_capget, &header, data) == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (data[CAP_TO_INDEX(kept[i].number)].effective &
			    CAP_TO_MASK(kept[i].number))
				text_printf(text, " %s", kept[i].name);
	}
	if (keeps_nice)
		text_puts(text, " sys_nice (of two threads)");
	text_puts(text, "\nseccomp: ");
	int error = atomic_load(&filter_error);

	if (error)
		text_printf(text, "missing: %s\n", strerror(-error));
	else
		text_puts(text, "ok\n");
}
