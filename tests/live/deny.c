/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a program that is denied something, as some machines deny it: `DENY=WHAT DENY_RUN=PROGRAM
 * deny ARGS...` execs PROGRAM with ARGS. WHAT is the name of a system call that fails with EPERM
 * (seccomp), or cap_syslog, a capability that is dropped, or `cap NUMBER`, any other.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	int number;
} calls[] = {
	{"bpf", SYS_bpf},
	{"perf_event_open", SYS_perf_event_open},
	{"socket", SYS_socket},
	{"sched_setscheduler", SYS_sched_setscheduler},
};

static int deny_call(int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int deny(const char *what)
{
	if (strcmp(what, "cap_syslog") == 0)
		return prctl(PR_CAPBSET_DROP, CAP_SYSLOG);
	if (strncmp(what, "cap ", 4) == 0)
		return prctl(PR_CAPBSET_DROP, atoi(what + 4));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(what, calls[i].name) == 0)
			return deny_call(calls[i].number);
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	const char *what = getenv("DENY"), *program = getenv("DENY_RUN");

	if (!what || !program || deny(what) < 0) {
		perror("deny");
		return 127;
	}
	argv[0] = (char *)program;
	execv(program, argv);
	perror(program);
	return 127;
}
