/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies of the mount in other mount namespaces: see attach.h. */
#include "fs/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "core/mountinfo.h"
#include "core/mountns.h"
#include "fs/mount.h"

/* What the command works on. */
struct job {
	const struct options *options;
	const char *verb;
	char *from; /* the mount on our side */
	dev_t dev;  /* its device; 0: there is none */
	uid_t owner;
	const char *dir; /* in the container */

	int proc_fd;	/* our own /proc */
	int process_fd; /* the process's directory in it */
	int root_fd;	/* the process's root */
	int own_ns;	/* our mount namespace, to return to; -1 while we are in it */
};

static void job_deinit(struct job *job)
{
	/* Whatever else runs before our end finds the files that it knows. */
	if (job->own_ns >= 0)
		setns(job->own_ns, CLONE_NEWNS);
	fd_cleanup(&job->own_ns);
	free(job->from);
	fd_cleanup(&job->proc_fd);
	fd_cleanup(&job->process_fd);
	fd_cleanup(&job->root_fd);
}
#define _cleanup_job_ CLEANUP(job_deinit)

static int fail(const struct job *job, struct text *message, int r, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static int fail(const struct job *job, struct text *message, int r, const char *format, ...)
{
	_cleanup_free_ char *why = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		why = NULL;
	va_end(args);
	text_printf(message, "cannot %s process %d: %s", job->verb, job->options->pid,
		    why ?: strerror(ENOMEM));
	return r;
}

/* The mount on our side. A command that detaches can do without: then *job has no device. */
static int find_mount(struct job *job, bool must, struct text *message)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	struct stat st;
	int r = mount_resolve(job->options->mountpoint, &job->from);

	if (r == 0)
		r = mountinfo_read(&list);
	const struct mountinfo *mountinfo = r < 0 ? NULL : mountinfo_at(&list, job->from);
	if (mountinfo && strcmp(mountinfo->type, MOUNT_TYPE) == 0)
		job->dev = mountinfo->dev;
	else if (must)
		return fail(job, message, -EINVAL,
			    "no ksymfs is mounted at %s; --from=M says where",
			    job->options->mountpoint);
	if (!job->from && !(job->from = strdup(job->options->mountpoint)))
		return -ENOMEM;
	if (must && stat(job->from, &st) < 0)
		return fail(job, message, -errno, "the ksymfs at %s does not answer: %s", job->from,
			    strerror(errno));
	job->owner = must ? st.st_uid : 0;
	job->dir = job->options->directory ?: job->from;
	return 0;
}

/* Opens what is needed of the process, and enters its mount namespace. */
static int open_process(struct job *job, int *ret_ns, struct text *message)
{
	struct pollfd pollfd = {.events = POLLIN};
	char name[16];

	snprintf(name, sizeof(name), "%d", job->options->pid);
	job->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int pidfd = pidfd_open(job->options->pid, 0);
	if (pidfd < 0 || job->proc_fd < 0)
		return fail(job, message, -errno, "%s",
			    errno == ESRCH ? "there is none" : strerror(errno));
	job->process_fd = openat(job->proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (job->process_fd >= 0)
		job->root_fd = openat(job->process_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int ns =
		job->root_fd >= 0 ? openat(job->process_fd, "ns/mnt", O_RDONLY | O_CLOEXEC) : -1;
	if (ns < 0)
		return fail(job, message, -errno, "%s",
			    errno == ENOENT || errno == ESRCH ? "it has ended"
			    : errno == EACCES || errno == EPERM
				    ? "that takes CAP_SYS_PTRACE; run as root"
				    : strerror(errno));
	/* While it lives nobody else has that number. */
	pollfd.fd = pidfd;
	if (poll(&pollfd, 1, 0) != 0)
		return fail(job, message, -ESRCH, "it has ended");
	*ret_ns = take_fd(&ns);
	return 0;
}

static int enter(struct job *job, int ns, struct text *message)
{
	_cleanup_fd_ int own_ns = openat(job->proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (own_ns >= 0 && setns(ns, CLONE_NEWNS) == 0) {
		job->own_ns = take_fd(&own_ns);
		return 0;
	}
	return fail(job, message, -errno, "cannot enter its mount namespace: %s%s", strerror(errno),
		    errno == EPERM ? "; run as root" : "");
}

/* Is the tree's owner one of the users that the process's user namespace has? */
static bool has_owner(const struct job *job)
{
	uint32_t inside, outside, count;
	_cleanup_fd_ int fd = openat(job->process_fd, "uid_map", O_RDONLY | O_CLOEXEC);
	_cleanup_file_ FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (!file)
		return true;
	take_fd(&fd);
	while (fscanf(file, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &count) == 3)
		if (job->owner >= outside && job->owner - outside < count)
			return true;
	return false;
}

static int set_attributes(int tree, struct mount_attr *attr)
{
	return mount_setattr(tree, "", AT_EMPTY_PATH, attr, sizeof(*attr)) < 0 ? -errno : 0;
}

/* A copy of the mount that nobody sees yet. */
static int make_copy(const struct job *job, int *ret, struct text *message)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODIRATIME,
		.propagation = MS_PRIVATE,
	};
	_cleanup_fd_ int user_ns = -1;
	_cleanup_fd_ int tree = open_tree(
		AT_FDCWD, job->from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (tree < 0)
		return fail(job, message, -errno, "cannot copy the mount %s: %s%s", job->from,
			    strerror(errno), errno == EPERM ? "; run as root" : "");
	int r = -EINVAL;
	if (!has_owner(job)) {
		user_ns = openat(job->process_fd, "ns/user", O_RDONLY | O_CLOEXEC);
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = user_ns;
		r = user_ns < 0 ? -errno : set_attributes(tree, &attr);
		if (r < 0)
			text_printf(message,
				    "the copy is not id-mapped (%s): in there uid %u is the "
				    "owner; see -o uid=",
				    strerror(-r), job->owner);
		attr.attr_set &= ~MOUNT_ATTR_IDMAP;
		attr.userns_fd = 0;
	}
	if (r < 0)
		r = set_attributes(tree, &attr);
	if (r < 0)
		return fail(job, message, r, "cannot make the copy of %s read-only: %s", job->from,
			    strerror(-r));
	*ret = take_fd(&tree);
	return 0;
}

/* Looks a path up below the process's root: nothing leads out of there. */
static int open_inside(const struct job *job, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = syscall(SYS_openat2, job->root_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/*
 * Makes the directory, and none above it, as its parent's owner: in a file system of the
 * container's own, our root may be nobody.
 */
static int make_directory(const struct job *job)
{
	_cleanup_free_ char *for_name = strdup(job->dir), *for_parent = strdup(job->dir);
	struct stat st;

	if (!for_name || !for_parent)
		return -ENOMEM;
	const char *name = basename(for_name);
	_cleanup_fd_ int parent = open_inside(job, dirname(for_parent), O_DIRECTORY);
	if (parent < 0 || fstat(parent, &st) < 0)
		return parent < 0 ? parent : -errno;
	setfsgid(st.st_gid);
	setfsuid(st.st_uid);
	int r = mkdirat(parent, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	setfsuid(geteuid());
	setfsgid(getegid());
	return r;
}

static int find_directory(const struct job *job, bool make, int *ret, struct text *message)
{
	int fd = open_inside(job, job->dir, O_DIRECTORY);
	int made = fd == -ENOENT && make ? make_directory(job) : -ENOENT;

	if (made == 0)
		fd = open_inside(job, job->dir, O_DIRECTORY);
	if (fd >= 0) {
		*ret = fd;
		return 0;
	}
	if (fd == -ENOENT && make)
		return fail(job, message, fd,
			    "it has no directory %s, which cannot be made there: %s; make one in "
			    "the container, or give another",
			    job->dir, strerror(-made));
	return fail(job, message, fd, "%s in there: %s", job->dir, strerror(-fd));
}

/* Is what fd is in one of ours, and of the right file system where we know which? */
struct mount_at {
	const struct job *job;
	int id;
	bool is_ours;
	bool is_marked; /* and was put there by `attach` */
};

static int match_mount(void *arg, const struct mountinfo *mountinfo)
{
	struct mount_at *at = arg;

	if (mountinfo->id != at->id)
		return 0;
	at->is_ours = strcmp(mountinfo->type, MOUNT_TYPE) == 0 &&
		      (!at->job->dev || mountinfo->dev == at->job->dev);
	at->is_marked = mountinfo_has_option(mountinfo, MOUNTNS_MARK);
	return 1;
}

/* Asked of the mount table, so that a dead one is no matter. */
static bool is_ours(const struct job *job, int fd, bool *ret_marked)
{
	struct mount_at at = {.job = job};
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) < 0 ||
	    !(stx.stx_mask & STATX_MNT_ID))
		return false;
	at.id = stx.stx_mnt_id;
	if (mountinfo_each_at(job->proc_fd, "self/mountinfo", match_mount, &at) != 1)
		return false;
	*ret_marked = at.is_marked;
	return at.is_ours;
}

static int begin(struct job *job, const struct options *options, const char *verb, bool must,
		 int *ret_ns, struct text *message)
{
	*job = (struct job){
		.options = options,
		.verb = verb,
		.proc_fd = -1,
		.process_fd = -1,
		.root_fd = -1,
		.own_ns = -1,
	};
	int r = find_mount(job, must, message);

	return r < 0 ? r : open_process(job, ret_ns, message);
}

int attach(const struct options *options, struct text *message)
{
	_cleanup_job_ struct job job;
	_cleanup_fd_ int ns = -1, tree = -1, directory = -1;
	_cleanup_text_ struct text note = {};
	bool marked;
	int r = begin(&job, options, "attach to", true, &ns, message);

	if (r == 0)
		r = make_copy(&job, &tree, &note);
	if (r < 0) {
		text_append(message, note.data, note.len);
		return r;
	}
	r = enter(&job, ns, message);
	if (r == 0)
		r = find_directory(&job, true, &directory, message);
	if (r < 0)
		return r;
	if (is_ours(&job, directory, &marked))
		return fail(&job, message, -EBUSY, "it has the ksymfs of %s at %s already",
			    job.from, job.dir);
	if (move_mount(tree, "", directory, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return fail(&job, message, -errno, "cannot mount on %s in there: %s", job.dir,
			    strerror(errno));
	text_append(message, note.data, note.len);
	return 0;
}

int detach(const struct options *options, struct text *message)
{
	_cleanup_job_ struct job job;
	_cleanup_fd_ int ns = -1, directory = -1;
	bool marked;
	int r = begin(&job, options, "detach from", false, &ns, message);

	if (r == 0)
		r = enter(&job, ns, message);
	if (r == 0)
		r = find_directory(&job, false, &directory, message);
	if (r < 0)
		return r;
	if (!is_ours(&job, directory, &marked) || !marked)
		return fail(&job, message, -EINVAL, "no ksymfs is attached at %s", job.dir);
	r = mountns_unmount_fd(job.proc_fd, directory);
	if (r < 0)
		return fail(&job, message, r, "cannot unmount %s in there: %s", job.dir,
			    strerror(-r));
	return 0;
}
