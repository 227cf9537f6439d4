/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may look at whom: see creds.h. */
#include "core/creds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/cleanup.h"
#include "core/slurp.h"

/* 65536 groups of ten digits are the most that a task can have. */
#define STATUS_MAX (1u << 20)
/* The kernel nests no deeper than 32. */
#define MAX_USER_NS_DEPTH 33

#define PROC_PATH_MAX 64

/* The value of `KEY:\t`. Only the name of the task is not the kernel's, and it has no newline. */
static const char *find_value(const char *status, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) == 0 && line[len] == ':')
			return line + len + 1;
	}
	return NULL;
}

static bool parse_capabilities(const char *status, const char *key, uint64_t *ret)
{
	const char *value = find_value(status, key);

	return value && sscanf(value, " %" SCNx64, ret) == 1;
}

static bool parse_ids(const char *status, const char *key, uint32_t ret[4])
{
	const char *value = find_value(status, key);

	return value && sscanf(value, " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &ret[0],
			       &ret[1], &ret[2], &ret[3]) == 4;
}

int creds_parse(struct text *status, struct creds *ret)
{
	uint32_t uids[4], gids[4];

	text_putc(status, '\0');
	*ret = (struct creds){.status = *status};
	*status = (struct text){};
	if (ret->status.failed)
		return -ENOMEM;
	const char *text = ret->status.data;
	const char *tgid = find_value(text, "Tgid");

	ret->groups = find_value(text, "Groups");
	if (!tgid || sscanf(tgid, " %d", &ret->tgid) != 1 || !parse_ids(text, "Uid", uids) ||
	    !parse_ids(text, "Gid", gids) || !ret->groups ||
	    !parse_capabilities(text, "CapPrm", &ret->permitted) ||
	    !parse_capabilities(text, "CapEff", &ret->effective))
		return -EBADMSG;
	ret->uid = uids[0], ret->euid = uids[1], ret->suid = uids[2], ret->fsuid = uids[3];
	ret->gid = gids[0], ret->egid = gids[1], ret->sgid = gids[2], ret->fsgid = gids[3];
	return 0;
}

void creds_deinit(struct creds *creds)
{
	text_deinit(&creds->status);
}

static int read_user_ns(int proc_fd, pid_t tid, struct ns_id *ret)
{
	char path[PROC_PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%d/ns/user", tid);
	if (fstatat(proc_fd, path, &st, 0) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret = (struct ns_id){st.st_dev, st.st_ino};
	return 0;
}

static bool same_ns(const struct ns_id *a, const struct ns_id *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

int creds_read(int proc_fd, pid_t tid, struct creds *ret)
{
	_cleanup_text_ struct text status = {};
	_cleanup_creds_ struct creds creds = {};
	char path[PROC_PATH_MAX];

	snprintf(path, sizeof(path), "%d/status", tid);
	int r = slurp_at(proc_fd, path, STATUS_MAX, &status);

	if (r == 0)
		r = creds_parse(&status, &creds);
	if (r == 0)
		r = read_user_ns(proc_fd, tid, &creds.user_ns);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret = creds;
	creds.status = (struct text){};
	return 0;
}

bool creds_in_group(const struct creds *creds, gid_t gid)
{
	const char *at = creds->groups;
	char *end;

	if (creds->fsgid == gid)
		return true;
	for (;; at = end) {
		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			return false;
		if (strtoull(at, &end, 10) == gid)
			return true;
	}
}

static struct ns_id own_user_ns;

static void find_own_user_ns(void)
{
	struct stat st;

	if (stat("/proc/self/ns/user", &st) == 0)
		own_user_ns = (struct ns_id){st.st_dev, st.st_ino};
}

static bool is_own_user_ns(const struct ns_id *ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_own_user_ns);
	return same_ns(ns, &own_user_ns);
}

bool task_has_capability(int proc_fd, pid_t tid, int capability)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, tid};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	struct ns_id ns;

	if (syscall(SYS_capget, &header, data) < 0 ||
	    !(data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)))
		return false;
	return read_user_ns(proc_fd, tid, &ns) == 0 && is_own_user_ns(&ns);
}

/* Has the task CAP_SYS_PTRACE over what is in the user namespace of the process pid? */
static bool may_trace_in(const struct creds *creds, int proc_fd, pid_t pid)
{
	bool capable = creds->effective & (UINT64_C(1) << CAP_SYS_PTRACE);
	char path[PROC_PATH_MAX];
	struct stat st;
	uid_t owner;

	snprintf(path, sizeof(path), "%d/ns/user", pid);
	_cleanup_fd_ int ns_fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);

	for (int depth = 0; ns_fd >= 0 && depth < MAX_USER_NS_DEPTH; depth++) {
		if (fstat(ns_fd, &st) < 0)
			return false;
		const struct ns_id ns = {st.st_dev, st.st_ino};

		if (same_ns(&ns, &creds->user_ns))
			return capable;
		/* Past our own, NS_GET_PARENT refuses. */
		_cleanup_fd_ int parent = ioctl(ns_fd, NS_GET_PARENT);

		if (parent < 0 || fstat(parent, &st) < 0)
			return false;
		const struct ns_id parent_id = {st.st_dev, st.st_ino};

		/* Who has made it has all capabilities in it. */
		if (same_ns(&parent_id, &creds->user_ns) &&
		    ioctl(ns_fd, NS_GET_OWNER_UID, &owner) == 0 && owner == creds->euid)
			return true;
		close(ns_fd);
		ns_fd = take_fd(&parent);
	}
	return false;
}

/* Is this uid that of a root, to which what may not be dumped is given in /proc? */
static bool is_some_root(int proc_fd, pid_t pid, uid_t uid)
{
	char path[PROC_PATH_MAX];
	uint32_t inside, outside;

	if (uid == 0)
		return true;
	snprintf(path, sizeof(path), "%d/uid_map", pid);
	_cleanup_fd_ int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	_cleanup_file_ FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (!file)
		return true;
	take_fd(&fd);
	while (fscanf(file, "%" SCNu32 " %" SCNu32 " %*u", &inside, &outside) == 2)
		if (inside == 0)
			return uid == outside;
	return false;
}

/* Is it in our own user namespace, or in one that was made in it? */
static bool is_near(int proc_fd, pid_t pid, const struct ns_id *user_ns)
{
	char path[PROC_PATH_MAX];
	struct stat st;

	if (is_own_user_ns(user_ns))
		return true;
	snprintf(path, sizeof(path), "%d/ns/user", pid);
	_cleanup_fd_ int ns_fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int parent = ns_fd >= 0 ? ioctl(ns_fd, NS_GET_PARENT) : -1;

	if (parent < 0 || fstat(parent, &st) < 0)
		return false;
	return is_own_user_ns(&(struct ns_id){st.st_dev, st.st_ino});
}

/*
 * May the process be dumped, for sure? Files in its directory belong to it if so, and otherwise to
 * the root of the user namespace that it exec'd in (fs/proc/base.c task_dump_owner()): its own or
 * one above, of whose roots we know those of its own and of ours.
 */
static bool is_dumpable(int proc_fd, pid_t pid, const struct creds *target)
{
	char path[PROC_PATH_MAX];
	struct stat st;

	if (!is_near(proc_fd, pid, &target->user_ns))
		return false;

	snprintf(path, sizeof(path), "%d/maps", pid);
	return fstatat(proc_fd, path, &st, 0) == 0 && st.st_uid == target->euid &&
	       st.st_gid == target->egid && !is_some_root(proc_fd, pid, target->euid);
}

static bool is_owner(const struct creds *creds, const struct creds *target)
{
	uid_t uid = creds->fsuid;
	gid_t gid = creds->fsgid;

	return uid == target->euid && uid == target->suid && uid == target->uid &&
	       gid == target->egid && gid == target->sgid && gid == target->gid;
}

/*
 * The answer for most: in his own user namespace one who may not trace all may look at his own
 * processes alone, and a process's directory is its effective uid's, whatever else in it is not.
 */
static bool is_strangers(const struct creds *creds, int target_proc_fd, pid_t pid)
{
	char path[PROC_PATH_MAX];
	struct ns_id user_ns;
	struct stat st;

	snprintf(path, sizeof(path), "%d", pid);
	return !(creds->effective & (UINT64_C(1) << CAP_SYS_PTRACE)) &&
	       fstatat(target_proc_fd, path, &st, 0) == 0 && st.st_uid != creds->fsuid &&
	       read_user_ns(target_proc_fd, pid, &user_ns) == 0 &&
	       same_ns(&user_ns, &creds->user_ns);
}

bool creds_may_look(const struct creds *creds, int target_proc_fd, pid_t pid)
{
	_cleanup_creds_ struct creds target = {};

	if (is_strangers(creds, target_proc_fd, pid) ||
	    creds_read(target_proc_fd, pid, &target) < 0)
		return false;
	if (may_trace_in(creds, target_proc_fd, pid))
		return true;
	return is_owner(creds, &target) && same_ns(&creds->user_ns, &target.user_ns) &&
	       !(target.permitted & ~creds->effective) && is_dumpable(target_proc_fd, pid, &target);
}
