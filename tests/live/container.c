/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Containers made by hand: see container.h. */
#include "tests/live/container.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/mountinfo.h"
#include "tests/live/support.h"

#define BUSYBOX "/bin/busybox"

void need_copies(void)
{
	/* -1 is no directory. */
	if (mount_setattr(-1, "", AT_EMPTY_PATH, NULL, 0) < 0 && errno == ENOSYS)
		skip_because("mount_setattr: %s", strerror(errno));
}

/* In the child, whose stderr is the test's: no test fails from in there. */
static void need(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	_exit(1);
}

static void copy_busybox(void)
{
	char buf[65536];
	ssize_t n;
	int from = open(BUSYBOX, O_RDONLY | O_CLOEXEC);
	int to = open("bin/busybox", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	need(from >= 0 && to >= 0, BUSYBOX);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		need(write(to, buf, n) == n, "bin/busybox");
	close(from);
	close(to);
}

static void change_root(const char *dir)
{
	static const char *const dirs[] = {"bin", "proc", "tmp", "mnt", "etc", "run", "dev"};

	need(mount("tmpfs", dir, "tmpfs", 0, "mode=755") == 0, dir);
	need(chdir(dir) == 0, dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		need(mkdir(dirs[i], 0755) == 0, dirs[i]);
	copy_busybox();
	need(symlink("busybox", "bin/sh") == 0, "bin/sh");
	need(mount("proc", "proc", "proc", 0, NULL) == 0, "proc");
	need(mknod("dev/null", S_IFREG | 0666, 0) == 0, "dev/null");
	need(mount("/dev/null", "dev/null", NULL, MS_BIND, NULL) == 0, "/dev/null");
	need(syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
	need(umount2(".", MNT_DETACH) == 0, "the old root");
	need(chdir("/") == 0, "/");
}

static void live(const struct container *container, int go, int ready)
{
	unsigned long propagation = container->flags & CONTAINER_SLAVE ? MS_SLAVE : MS_PRIVATE;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	need(read(go, &byte, 1) == 1, "go");
	if (container->flags & CONTAINER_USER)
		need(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0, "its root");
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	need(mount("none", "/", NULL, MS_REC | propagation, NULL) == 0, "propagation");
	if (container->flags & CONTAINER_PIVOT)
		change_root(container->dir);
	need(write(ready, "", 1) == 1, "ready");
	/* Nothing of the test's is held open. */
	syscall(SYS_close_range, 0, ~0U, 0);
	for (;;)
		pause();
}

static void write_map(pid_t pid, const char *name)
{
	char path[64], text[64];
	int len = snprintf(text, sizeof(text), "0 %d 65536", CONTAINER_ROOT_ID);

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
}

struct container *container_start(unsigned int flags)
{
	struct container *container = calloc(1, sizeof(*container));
	unsigned long namespaces = CLONE_NEWNS | CLONE_NEWPID;
	int go[2], ready[2];
	char byte;

	assert_non_null(container);
	container->flags = flags;
	strcpy(container->dir, "/tmp/ksymfs-root-XXXXXX");
	assert_non_null(mkdtemp(container->dir));
	assert_int_equal(chmod(container->dir, 0755), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	if (flags & CONTAINER_ALL)
		namespaces |= CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	if (flags & CONTAINER_USER)
		namespaces |= CLONE_NEWUSER;
	fflush(NULL);
	container->pid = syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
	if (container->pid == 0) {
		close(go[1]);
		live(container, go[0], ready[1]);
	}
	assert_true(container->pid > 0);
	close(go[0]);
	close(ready[1]);
	if (flags & CONTAINER_USER) {
		write_map(container->pid, "uid_map");
		write_map(container->pid, "gid_map");
	}
	assert_int_equal(write(go[1], "", 1), 1);
	if (read(ready[0], &byte, 1) != 1)
		fail_msg("the container did not start");
	close(go[1]);
	close(ready[0]);
	return container;
}

void container_stop(struct container *container)
{
	if (!container)
		return;
	kill(container->pid, SIGKILL);
	waitpid(container->pid, NULL, 0);
	rmdir(container->dir);
	free(container);
}

static FILE *open_command(const struct container *container, const char *redirect,
			  const char *format, va_list args) __attribute__((format(printf, 3, 0)));
static FILE *open_command(const struct container *container, const char *redirect,
			  const char *format, va_list args)
{
	_cleanup_free_ char *script = NULL, *command = NULL;
	FILE *pipe;

	assert_true(vasprintf(&script, format, args) > 0);
	/* By the environment, so that nothing has to be quoted. */
	assert_true(asprintf(&command, "exec nsenter -t %d -a %s -- %s sh -c 'eval \"$SCRIPT\"' %s",
			     container->pid, container->flags & CONTAINER_USER ? "-S 0 -G 0" : "",
			     BUSYBOX, redirect) > 0);
	setenv("SCRIPT", script, true);
	pipe = popen(command, "re");
	unsetenv("SCRIPT");
	assert_non_null(pipe);
	return pipe;
}

int container_run(const struct container *container, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	FILE *pipe = open_command(container, ">&2", format, args);
	va_end(args);
	int status = pclose(pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

char *container_output(const struct container *container, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	FILE *pipe = open_command(container, "", format, args);
	va_end(args);
	char *text = read_fd(fileno(pipe), NULL);
	pclose(pipe);
	return text;
}

struct counter {
	const char *path;
	size_t count;
};

static int count_mount(void *arg, const struct mountinfo *mountinfo)
{
	struct counter *counter = arg;

	counter->count += strcmp(mountinfo->type, "fuse.ksymfs") == 0 &&
			  (!counter->path || strcmp(counter->path, mountinfo->mountpoint) == 0);
	return 0;
}

size_t container_mounts(const struct container *container, const char *path)
{
	struct counter counter = {path};
	char mountinfo[64];

	snprintf(mountinfo, sizeof(mountinfo), "/proc/%d/mountinfo", container->pid);
	assert_int_equal(mountinfo_each_at(AT_FDCWD, mountinfo, count_mount, &counter), 0);
	return counter.count;
}
