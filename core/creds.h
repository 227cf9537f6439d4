/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a task is, and whether the kernel would let it look at another one: the rule behind
 * /proc/PID/maps, ptrace(2) "PTRACE_MODE_READ_FSCREDS" (kernel/ptrace.c __ptrace_may_access(),
 * security/commoncap.c), worked out from what /proc tells of both.
 *
 * It never says yes where the kernel says no, but for a security module that forbids more
 * (AppArmor, Landlock). Where /proc does not tell enough it says no: whether a process of uid 0 and
 * gid 0 may be dumped, so such a one takes CAP_SYS_PTRACE.
 *
 * proc_fd is a directory fd on a /proc that has the task. A thread that waits for our answer keeps
 * its credentials and its number meanwhile. No lock is taken.
 */
#ifndef CORE_CREDS_H
#define CORE_CREDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/text.h"

/* Which namespace: what stat() says of its file in /proc/PID/ns. */
struct ns_id {
	dev_t dev;
	ino_t ino;
};

struct creds {
	pid_t tgid;
	/* In our own user namespace. */
	uid_t uid, euid, suid, fsuid;
	gid_t gid, egid, sgid, fsgid;
	/* Of the user namespace that it is in. */
	uint64_t permitted, effective;
	struct ns_id user_ns;
	/* Where the text of the supplementary groups is, for creds_in_group(). */
	const char *groups;
	struct text status;
};

/* -ESRCH, -EACCES, -ENOMEM; -EBADMSG for a status that is none. */
int creds_read(int proc_fd, pid_t tid, struct creds *ret);
void creds_deinit(struct creds *creds);
#define _cleanup_creds_ CLEANUP(creds_deinit)
/* The text of /proc/TID/status, which is taken; without user_ns. */
int creds_parse(struct text *status, struct creds *ret);

bool creds_in_group(const struct creds *creds, gid_t gid);

/*
 * Has the task a capability in our own user namespace? It asks for no more than that, so it is the
 * cheap way; false when there is no such task.
 */
bool task_has_capability(int proc_fd, pid_t tid, int capability);

/* May a task with these credentials look at the process pid of target_proc_fd? */
bool creds_may_look(const struct creds *creds, int target_proc_fd, pid_t pid);

#endif
