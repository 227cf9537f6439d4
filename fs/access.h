/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may see what. The modes are the first half, and the kernel heeds them (default_permissions).
 * But a mode knows users by number alone, and a container's root has number 0, or is mapped to it:
 * so the second half asks for what the kernel itself would ask for.
 *
 * - ACCESS_TREE: by mode, as uid=, gid= and umask= say;
 * - ACCESS_ADDRESSES: kernel addresses, for who has CAP_SYSLOG, since the kernel shows them to him
 *   too, and for whom the administrator has named: --group, uid=, gid=. Others never, whatever
 *   umask= says;
 * - ACCESS_ROOT: other people's processes, held open, for root with CAP_SYS_PTRACE, without which
 *   /proc would not let him look at them either.
 *
 * Capabilities count in the daemon's user namespace. Who asks from outside of the daemon's pid
 * namespace has no number there to know him by: he has no capabilities then.
 */
#ifndef FS_ACCESS_H
#define FS_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

enum access_class {
	ACCESS_TREE,
	ACCESS_ADDRESSES,
	ACCESS_ROOT,
};

struct access_rules {
	uid_t uid; /* who owns the tree; what is not 0 was named by the administrator */
	gid_t gid;
	mode_t umask;
	bool has_group;
	gid_t group; /* who else may read kernel addresses */
};

struct view_attr;
struct view_caller;

/* Gives what a view of this class has found its mode and owner, unless it has one of its own. */
void access_set_mode(const struct access_rules *rules, enum access_class access_class,
		     struct view_attr *attr);

/* May he? -EACCES. proc_fd: a directory fd on our /proc. */
int access_check(const struct access_rules *rules, enum access_class access_class, int proc_fd,
		 const struct view_caller *caller);

#endif
