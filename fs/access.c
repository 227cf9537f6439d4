/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modes, and what they cannot say: see access.h. */
#include "fs/access.h"

#include <errno.h>
#include <linux/capability.h>

#include "core/creds.h"
#include "fs/view.h"

static mode_t full_mode(enum view_kind kind)
{
	return kind == VIEW_DIR ? 0555 : 0444;
}

static mode_t address_mode(const struct access_rules *rules, mode_t full)
{
	mode_t mode = full & ~rules->umask & (rules->gid ? 0770 : 0700);

	return rules->has_group ? mode | (full & 0070) : mode;
}

void access_set_mode(const struct access_rules *rules, enum access_class access_class,
		     struct view_attr *attr)
{
	mode_t full = full_mode(attr->kind);

	if (attr->mode)
		return;
	attr->uid = rules->uid;
	attr->gid = rules->gid;
	if (attr->kind == VIEW_LINK) {
		attr->mode = 0777;
	} else if (access_class == ACCESS_TREE) {
		attr->mode = full & ~rules->umask;
	} else if (access_class == ACCESS_ADDRESSES) {
		attr->mode = address_mode(rules, full);
		if (rules->has_group)
			attr->gid = rules->group;
	} else {
		attr->mode = full & 0700;
		attr->uid = attr->gid = 0;
	}
}

/* Whom the administrator has named. What his group may do is up to the mode. */
static bool is_named(const struct access_rules *rules, const struct creds *creds)
{
	if (rules->uid && creds->fsuid == rules->uid)
		return true;
	if (rules->has_group && creds_in_group(creds, rules->group))
		return true;
	return rules->gid && !(rules->umask & 0040) && creds_in_group(creds, rules->gid);
}

static int check_named(const struct access_rules *rules, int proc_fd, pid_t tid)
{
	_cleanup_creds_ struct creds creds = {};

	if (!rules->uid && !rules->gid && !rules->has_group)
		return -EACCES;
	if (creds_read(proc_fd, tid, &creds) < 0)
		return -EACCES;
	return is_named(rules, &creds) ? 0 : -EACCES;
}

int access_check(const struct access_rules *rules, enum access_class access_class, int proc_fd,
		 const struct view_caller *caller)
{
	int capability = access_class == ACCESS_ROOT ? CAP_SYS_PTRACE : CAP_SYSLOG;

	if (access_class == ACCESS_TREE)
		return 0;
	if (!caller->pid)
		return -EACCES;
	if (task_has_capability(proc_fd, caller->pid, capability))
		return 0;
	return access_class == ACCESS_ADDRESSES ? check_named(rules, proc_fd, caller->pid)
						: -EACCES;
}
