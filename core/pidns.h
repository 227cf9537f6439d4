/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pid namespace whose numbers the tree shows: our own, or that of a container below it.
 *
 * Of another one there is a procfs of our own, which no mount namespace has, so that all that is
 * read there, numbers included, is as a process of it would see it, whatever it has mounted on its
 * /proc. The namespace itself may end; then there is nobody in it any more.
 *
 * Numbers are translated by what /proc/PID/status says of each level (NSpid, 4.1), checked by the
 * namespaces themselves (NS_GET_PARENT, 4.9). No lock; any thread.
 */
#ifndef CORE_PIDNS_H
#define CORE_PIDNS_H

#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct pidns;

/*
 * That of a process; our own for pid 0. -ESRCH, -EACCES; what fork(2) and fsmount(2) say: the
 * latter takes CAP_SYS_ADMIN.
 */
int pidns_open(pid_t pid, struct pidns **ret);
/*
 * The same from the fds that another process had of it, which are the namespace's from here on,
 * also on failure: by then nobody may be left who is in it.
 */
int pidns_reopen(int ns_fd, int proc_fd, struct pidns **ret);
void pidns_close(struct pidns *ns); /* NULL is fine */
DEFINE_CLEANUP(pidns, struct pidns *, pidns_close)
#define _cleanup_pidns_ CLEANUP(pidns_cleanup)

/*
 * A directory fd on its /proc, and on ours, and one on the namespace, which is -1 for our own; they
 * stay the namespace's.
 */
int pidns_proc_fd(const struct pidns *ns);
int pidns_fd(const struct pidns *ns);
int pidns_own_proc_fd(const struct pidns *ns);

/* The number that a process has in it, by the one that it has in ours. -ESRCH: it has none. */
int pidns_number(const struct pidns *ns, pid_t own_pid, pid_t *ret);
/*
 * Which process has this number in it now? *ret is not 0, the same for as long as it is that
 * process, zombie or not, and another one's never. Three quick system calls where we are in it and
 * the kernel has numbers of its own (pidfs, 6.9); else what /proc says, and when it was started.
 * -ESRCH: none has, a thread's number included.
 */
int pidns_identify(const struct pidns *ns, pid_t number, uint64_t *ret);
/* The other way round. Looks at every process of ours. -ESRCH. */
int pidns_own_pid(const struct pidns *ns, pid_t number, pid_t *ret);

#endif
