/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes to be pinned: see pins.h. */
#include "tests/live/pins.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/pidstat.h"

void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	_exit(99);
}

void put_file(const char *path, const char *bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	MUST(fd >= 0);
	MUST(write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
	close(fd);
}

void make_dir(const char *path)
{
	MUST(mkdir(path, 0755) == 0 || errno == EEXIST);
}

void make_link(const char *target, const char *path)
{
	MUST(symlink(target, path) == 0);
}

static void enter_jail(void (*fill)(void *arg), void *arg)
{
	char dir[] = "/tmp/ksymfs-jail-XXXXXX";

	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	MUST(mkdtemp(dir) != NULL);
	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("jail", dir, "tmpfs", 0, "size=64m") == 0);
	MUST(chdir(dir) == 0);
	make_dir("old");
	fill(arg);
	MUST(syscall(SYS_pivot_root, ".", "old") == 0);
	MUST(chdir("/") == 0);
	MUST(umount2("/old", MNT_DETACH) == 0);
	MUST(rmdir("/old") == 0);
}

struct jail *jail_start(void (*fill)(void *arg), void *arg)
{
	struct jail *jail = malloc(sizeof(*jail));
	int ready[2];
	char byte;

	assert_non_null(jail);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	jail->pid = fork();
	assert_true(jail->pid >= 0);
	if (jail->pid == 0) {
		enter_jail(fill, arg);
		MUST(write(ready[1], "", 1) == 1);
		close(ready[0]);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	ssize_t n = read(ready[0], &byte, 1);

	close(ready[0]);
	assert_int_equal(n, 1);
	/* The directory is nobody's any more; its name had the jail's pid in it for no one. */
	run("rmdir /tmp/ksymfs-jail-?????? 2>/dev/null");
	return jail;
}

void jail_stop(struct jail *jail)
{
	if (!jail)
		return;
	kill_and_wait(jail->pid);
	free(jail);
}

static bool sleeps(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	_cleanup_free_ char *syscall = read_path(path, NULL);
	long number = strtol(syscall, NULL, 10);

	return number == SYS_clock_nanosleep || number == SYS_pselect6;
}

pid_t spawn(const char *const *argv)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	/* Not before it is what it is to be, and has nothing more to map. */
	for (int i = 0; i < 20000; i++) {
		char link[64], exe[256];

		snprintf(link, sizeof(link), "/proc/%d/exe", pid);
		ssize_t len = readlink(link, exe, sizeof(exe) - 1);
		exe[MAX(len, (ssize_t)0)] = '\0';
		if (strstr(exe, strrchr(argv[0], '/') ?: argv[0]) && sleeps(pid))
			return pid;
		usleep(1000);
	}
	fail_msg("%s does not run", argv[0]);
	return -1;
}

void kill_and_wait(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int pin_error(const struct ksymfs *fs, const char *name)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%s", name);

	return mkdir(path, 0755) < 0 ? errno : 0;
}

int unpin_error(const struct ksymfs *fs, const char *name)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%s", name);

	return rmdir(path) < 0 ? errno : 0;
}

void pin(const struct ksymfs *fs, pid_t pid)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", pid);
	assert_int_equal(pin_error(fs, name), 0);
}

void unpin(const struct ksymfs *fs, pid_t pid)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", pid);
	assert_int_equal(unpin_error(fs, name), 0);
}

static bool kernel_tells_exit(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(1);
	_cleanup_fd_ int pidfd = syscall(SYS_pidfd_open, pid, 0);
	int status;

	waitpid(pid, NULL, 0);
	return pid_exit_status(pidfd, -1, &status) == 0;
}

void assert_exit_told(const struct ksymfs *fs, const char *name, const char *key, const char *value)
{
	_cleanup_free_ char *told = ksymfs_value(fs, key, "pins/%s/info", name);

	if (told)
		assert_string_equal(told, value);
	else if (kernel_tells_exit())
		fail_msg("no %s", key);
	else
		puts("# lacks: the exit status of a process that is reaped");
}

size_t count_fds(pid_t pid)
{
	char path[64];
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	_cleanup_dir_ DIR *dir = opendir(path);

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	return count;
}

size_t anon_kib(pid_t pid)
{
	char path[64];
	size_t kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	_cleanup_free_ char *text = read_path(path, NULL);
	const char *line = strstr(text, "\nRssAnon:");

	assert_non_null(line);
	assert_int_equal(sscanf(line, "\nRssAnon: %zu", &kib), 1);
	return kib;
}

static bool ended(void *arg)
{
	int *status = arg;

	return waitpid(status[1], status, WNOHANG) == status[1];
}

int run_for(int (*func)(void *arg), void *arg, unsigned int seconds)
{
	int status[2] = {0, fork()};

	assert_true(status[1] >= 0);
	if (status[1] == 0)
		_exit(func(arg));
	if (!wait_until(ended, status, seconds)) {
		kill(status[1], SIGKILL);
		assert_true(wait_until(ended, status, 5));
		return -1;
	}
	return WIFEXITED(status[0]) ? WEXITSTATUS(status[0]) : -2;
}
