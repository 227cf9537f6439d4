/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is pinned and what a pin shows, against /proc and the processes themselves. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live/pins.h"

static const char *const sleeper[] = {"/usr/bin/sleep", "1000", NULL};

static void test_names(void **state)
{
	struct ksymfs *fs = *state;
	pid_t pid = spawn(sleeper), zombie = fork();
	char name[16];

	if (zombie == 0)
		_exit(0);
	siginfo_t info;

	assert_int_equal(waitid(P_PID, zombie, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(pin_error(fs, "0"), EINVAL);
	assert_int_equal(pin_error(fs, "1x"), EINVAL);
	assert_int_equal(pin_error(fs, "x"), EINVAL);
	assert_int_equal(pin_error(fs, "-1"), EINVAL);
	assert_int_equal(pin_error(fs, "01"), EINVAL);
	assert_int_equal(pin_error(fs, "99999999"), ESRCH);
	assert_int_equal(pin_error(fs, "99999999999999999999"), ESRCH);
	assert_int_equal(pin_error(fs, "2"), ESRCH); /* kthreadd */
	snprintf(name, sizeof(name), "%d", zombie);
	assert_int_equal(pin_error(fs, name), ESRCH);
	snprintf(name, sizeof(name), "%d", pid);
	assert_int_equal(unpin_error(fs, name), ENOENT);
	assert_int_equal(pin_error(fs, name), 0);
	assert_int_equal(pin_error(fs, name), EEXIST);
	assert_int_equal(unpin_error(fs, name), 0);
	assert_int_equal(unpin_error(fs, name), ENOENT);
	assert_int_equal(pin_error(fs, name), 0);
	assert_int_equal(unpin_error(fs, name), 0);

	/* Nothing else can be made or removed. */
	pin(fs, pid);
	_cleanup_free_ char *dir = ksymfs_path(fs, "pins/%d/dir", pid);
	_cleanup_free_ char *usdt = ksymfs_path(fs, "pins/%d/usdt", pid);
	_cleanup_free_ char *info_path = ksymfs_path(fs, "pins/%d/info", pid);

	assert_int_equal(mkdir(dir, 0755), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(rmdir(usdt), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(unlink(info_path), -1);
	assert_int_equal(errno, EROFS);
	unpin(fs, pid);
	kill_and_wait(pid);
	kill_and_wait(zombie);
}

static void assert_same(const struct ksymfs *fs, pid_t pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	_cleanup_free_ char *real = read_path(path, NULL);
	_cleanup_free_ char *shown = ksymfs_read(fs, NULL, "pins/%d/%s", pid, file);

	assert_string_equal(shown, real);
}

/* While it lives, and the same after. */
static void test_texts(void **state)
{
	static const char *const files[] = {"maps", "comm", "cgroup", "mountinfo"};
	struct ksymfs *fs = *state;
	pid_t pid = spawn(sleeper);
	char *before[ARRAY_SIZE(files)];
	size_t len, len_after;

	pin(fs, pid);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		assert_same(fs, pid, files[i]);
		before[i] = ksymfs_read(fs, NULL, "pins/%d/%s", pid, files[i]);
	}
	_cleanup_free_ char *cmdline = ksymfs_read(fs, &len, "pins/%d/cmdline", pid);

	assert_int_equal(len, sizeof("/usr/bin/sleep") + sizeof("1000"));
	assert_memory_equal(cmdline, "/usr/bin/sleep\0001000", len);
	_cleanup_free_ char *status = ksymfs_read(fs, NULL, "pins/%d/status", pid);
	const char *ns_pid = strstr(status, "\nNSpid:\t");

	assert_non_null(ns_pid);
	assert_int_equal(strtol(ns_pid + 8, NULL, 10), pid);
	_cleanup_free_ char *alive = ksymfs_value(fs, "state", "pins/%d/info", pid);

	assert_string_equal(alive, "alive");
	kill_and_wait(pid);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *after = ksymfs_read(fs, NULL, "pins/%d/%s", pid, files[i]);

		assert_string_equal(after, before[i]);
		free(before[i]);
	}
	_cleanup_free_ char *cmdline_after = ksymfs_read(fs, &len_after, "pins/%d/cmdline", pid);

	assert_int_equal(len_after, len);
	assert_memory_equal(cmdline_after, cmdline, len);
	_cleanup_free_ char *exited = ksymfs_value(fs, "state", "pins/%d/info", pid);
	char name[16];

	assert_string_equal(exited, "exited");
	snprintf(name, sizeof(name), "%d", pid);
	assert_exit_told(fs, name, "exit_signal", "9");
	unpin(fs, pid);
}

static void test_exit_code(void **state)
{
	struct ksymfs *fs = *state;
	int go[2];

	assert_int_equal(pipe(go), 0);
	pid_t pid = fork();

	if (pid == 0) {
		char byte;

		close(go[1]);
		_exit(read(go[0], &byte, 1) < 0 ? 1 : 42);
	}
	close(go[0]);
	pin(fs, pid);
	close(go[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	char name[16];

	snprintf(name, sizeof(name), "%d", pid);
	assert_exit_told(fs, name, "exit_code", "42");
	unpin(fs, pid);
}

static void fill_plain(void *arg)
{
	put_file("file", "of the jail\n");
	make_dir("mnt");
	MUST(mount("inner", "mnt", "tmpfs", 0, NULL) == 0);
	put_file("mnt/inner", "of a mount in the jail\n");
}

static void test_outlives_namespace(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_plain, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	jail_stop(jail);
	_cleanup_free_ char *file = ksymfs_read(fs, NULL, "pins/%d/root/file", pid);
	_cleanup_free_ char *inner = ksymfs_read(fs, NULL, "pins/%d/root/mnt/inner", pid);

	assert_string_equal(file, "of the jail\n");
	assert_string_equal(inner, "of a mount in the jail\n");
	unpin(fs, pid);
}

/* What is there for a child and its parent to talk by. */
struct talk {
	int to_child[2], to_parent[2];
};

static void talk_init(struct talk *talk)
{
	assert_int_equal(pipe(talk->to_child), 0);
	assert_int_equal(pipe(talk->to_parent), 0);
}

static void child_says(struct talk *talk)
{
	MUST(write(talk->to_parent[1], "", 1) == 1);
}

static void child_waits(struct talk *talk)
{
	char byte;

	MUST(read(talk->to_child[0], &byte, 1) == 1);
}

static void parent_says(struct talk *talk)
{
	assert_int_equal(write(talk->to_child[1], "", 1), 1);
}

static void parent_waits(struct talk *talk)
{
	char byte;

	assert_int_equal(read(talk->to_parent[0], &byte, 1), 1);
}

static void talk_deinit(struct talk *talk)
{
	for (int i = 0; i < 2; i++) {
		close(talk->to_child[i]);
		close(talk->to_parent[i]);
	}
}

static const char late_bytes[] = "mapped after the pin, then deleted";
static const char memfd_bytes[] = "in a memfd";

static void map_bytes(int fd, const char *bytes, size_t len)
{
	MUST(write(fd, bytes, len) == (ssize_t)len);
	MUST(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	close(fd);
}

static void map_late(struct talk *talk)
{
	char path[] = "/tmp/ksymfs-late-XXXXXX";

	child_says(talk);
	child_waits(talk);
	int fd = mkstemp(path);

	MUST(fd >= 0);
	unlink(path);
	map_bytes(fd, late_bytes, sizeof(late_bytes));
	fd = memfd_create("late", 0);
	MUST(fd >= 0);
	map_bytes(fd, memfd_bytes, sizeof(memfd_bytes));
	child_says(talk);
	child_waits(talk);
	_exit(0);
}

/* Is there a mapped file with these bytes? */
static bool has_mapped(const struct ksymfs *fs, pid_t pid, const char *bytes, size_t len)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%d/map_files", pid);
	_cleanup_dir_ DIR *dir = opendir(path);
	bool found = false;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		char buf[64];
		_cleanup_fd_ int fd = openat(dirfd(dir), entry->d_name, O_RDONLY);

		if (entry->d_name[0] == '.')
			continue;
		assert_true(fd >= 0);
		if (read(fd, buf, len) == (ssize_t)len && memcmp(buf, bytes, len) == 0)
			found = true;
	}
	return found;
}

/* Without anybody looking at the pin between the mapping and the exit. */
static void test_follows_maps(void **state)
{
	struct ksymfs *fs = *state;
	struct talk talk;

	talk_init(&talk);
	pid_t pid = fork();

	if (pid == 0)
		map_late(&talk);
	parent_waits(&talk);
	pin(fs, pid);
	parent_says(&talk);
	parent_waits(&talk);
	/* The reader is woken by the record; nothing but it can make this true. */
	usleep(300000);
	parent_says(&talk);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(has_mapped(fs, pid, late_bytes, sizeof(late_bytes)));
	assert_true(has_mapped(fs, pid, memfd_bytes, sizeof(memfd_bytes)));
	_cleanup_free_ char *maps = ksymfs_read(fs, NULL, "pins/%d/maps", pid);

	assert_int_equal(count_lines_with(maps, "/memfd:late (deleted)"), 1);
	unpin(fs, pid);
	talk_deinit(&talk);
}

static void test_exe(void **state)
{
	struct ksymfs *fs = *state;
	char copy[] = "/tmp/ksymfs-exe-XXXXXX";
	int fd = mkstemp(copy);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(run("cp /usr/bin/sleep %s && chmod 755 %s", copy, copy), 0);
	pid_t pid = spawn((const char *const[]){copy, "1000", NULL});

	pin(fs, pid);
	assert_int_equal(run("cmp %s/pins/%d/exe /usr/bin/sleep", fs->dir, pid), 0);
	/* The file is gone, and so is the process. */
	unlink(copy);
	kill_and_wait(pid);
	struct stat exe;

	assert_int_equal(ksymfs_stat(fs, &exe, "pins/%d/exe", pid), 0);
	assert_true(S_ISREG(exe.st_mode));
	assert_int_equal(run("cmp %s/pins/%d/exe /usr/bin/sleep", fs->dir, pid), 0);
	unpin(fs, pid);
}

static void test_recycled_pid(void **state)
{
	struct ksymfs *fs = *state;
	pid_t pid = spawn(sleeper);
	char name[16], old_name[48] = "";

	pin(fs, pid);
	_cleanup_free_ char *ticks = ksymfs_value(fs, "start_ticks", "pins/%d/info", pid);

	kill_and_wait(pid);
	pid_t again = fork_as(pid);

	if (again < 0)
		skip_because("cannot have pid %d again: %s", pid, strerror(errno));
	assert_int_equal(again, pid);

	/* Who has it now is not to be seen. */
	_cleanup_free_ char *comm = ksymfs_read(fs, NULL, "pins/%d/comm", pid);
	_cleanup_free_ char *kept = ksymfs_value(fs, "state", "pins/%d/info", pid);

	assert_string_equal(comm, "sleep\n");
	assert_string_equal(kept, "exited");
	/* Pinned, it takes the name; the other goes on under another. */
	pin(fs, pid);
	snprintf(old_name, sizeof(old_name), "%d@%s", pid, ticks);
	_cleanup_free_ char *old_comm = ksymfs_read(fs, NULL, "pins/%s/comm", old_name);
	_cleanup_free_ char *new_state = ksymfs_value(fs, "state", "pins/%d/info", pid);
	_cleanup_free_ char *new_comm = ksymfs_read(fs, NULL, "pins/%d/comm", pid);

	assert_string_equal(old_comm, "sleep\n");
	assert_string_equal(new_state, "alive");
	assert_string_not_equal(new_comm, "sleep\n");
	_cleanup_fd_ int old_root = ksymfs_open(fs, "pins/%s/root/", old_name);

	assert_true(old_root >= 0);
	snprintf(name, sizeof(name), "%d", pid);
	assert_int_equal(pin_error(fs, name), EEXIST);
	assert_int_equal(unpin_error(fs, name), 0);
	assert_int_equal(unpin_error(fs, old_name), 0);
	kill_and_wait(pid);
}

static void test_bounds(void **state)
{
	static const char *const options[] = {"--pin-max=3", "--pin-time=1s", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	pid_t pids[4];
	char name[16];
	struct stat stat;

	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = spawn(sleeper);
	for (size_t i = 0; i < 3; i++)
		pin(fs, pids[i]);
	snprintf(name, sizeof(name), "%d", pids[3]);
	assert_int_equal(pin_error(fs, name), ENOSPC);
	/* One that has exited makes room, the oldest first. */
	kill_and_wait(pids[1]);
	assert_int_equal(pin_error(fs, name), 0);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", pids[1]), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", pids[0]), 0);
	/* And goes by itself when its time is up, though nobody looks. */
	size_t fds = count_fds(fs->daemon);

	kill_and_wait(pids[0]);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", pids[0]), 0);
	usleep(1600000);
	assert_true(count_fds(fs->daemon) < fds);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", pids[0]), -ENOENT);
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	char line[64];

	snprintf(line, sizeof(line), " pin-add pid=%d", pids[0]);
	assert_int_equal(count_lines_with(events, line), 1);
	snprintf(line, sizeof(line), " pin-del pid=%d", pids[0]);
	assert_int_equal(count_lines_with(events, line), 1);
	kill_and_wait(pids[2]);
	kill_and_wait(pids[3]);
}

static void test_rules(void **state)
{
	static const char *const options[] = {"--pin=comm:ksymfs-c*", "--pin=exe:/tmp/ksymfs-e*",
					      "--pin-max=8", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	struct stat stat;

	assert_int_equal(run("cp /usr/bin/sleep /tmp/ksymfs-comm && "
			     "cp /usr/bin/sleep /tmp/ksymfs-exe"),
			 0);
	pid_t comm = spawn((const char *const[]){"/tmp/ksymfs-comm", "1000", NULL});
	pid_t exe = spawn((const char *const[]){"/tmp/ksymfs-exe", "1000", NULL});
	pid_t other = spawn(sleeper);

	/* No wait: what has exec'd is there for whoever looks. */
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", comm), 0);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", exe), 0);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", other), -ENOENT);
	kill_and_wait(comm);
	kill_and_wait(exe);
	kill_and_wait(other);
	_cleanup_free_ char *name = ksymfs_read(fs, NULL, "pins/%d/comm", comm);

	assert_string_equal(name, "ksymfs-comm\n");
	assert_int_equal(run("cmp %s/pins/%d/exe /usr/bin/sleep", fs->dir, exe), 0);
	run("rm -f /tmp/ksymfs-comm /tmp/ksymfs-exe");
}

/* The path of this process's cgroup. */
static bool own_cgroup(char *ret, size_t size)
{
	_cleanup_file_ FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];

	if (!file || !fgets(line, sizeof(line), file))
		return false;
	line[strcspn(line, "\n")] = '\0';
	const char *path = strchr(line, '/');

	return path && (size_t)snprintf(ret, size, "%s", path) < size;
}

static void test_cgroup_rules(void **state)
{
	char path[PATH_MAX], rule[PATH_MAX + 32];
	struct stat stat;

	assert_true(own_cgroup(path, sizeof(path)));
	snprintf(rule, sizeof(rule), "--pin=cgroup:%s", path);
	const char *const options[] = {rule, "--pin-max=1000", NULL};
	static const char *const others[] = {"--pin=cgroup:/ksymfs-none", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	_cleanup_ksymfs_ struct ksymfs *other = ksymfs_start(others);
	pid_t pid = spawn(sleeper);

	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d", pid), 0);
	assert_int_equal(ksymfs_stat(other, &stat, "pins/%d", pid), -ENOENT);
	kill_and_wait(pid);
}

/* What is open of a pin says so when the pin goes, which it does at once. */
static void test_rmdir_in_use(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_plain, NULL);
	pid_t pid = jail->pid;
	size_t fds = count_fds(fs->daemon);
	char buf[64];

	pin(fs, pid);
	_cleanup_fd_ int file = ksymfs_open(fs, "pins/%d/root/file", pid);
	_cleanup_fd_ int dir = ksymfs_open(fs, "pins/%d/root/mnt", pid);
	_cleanup_fd_ int exe = ksymfs_open(fs, "pins/%d/exe", pid);

	assert_true(file >= 0 && dir >= 0 && exe >= 0);
	assert_int_equal(pread(file, buf, 3, 0), 3);
	assert_int_equal(pread(exe, buf, 4, 0), 4);
	unpin(fs, pid);
	assert_int_equal(pread(file, buf, 3, 0), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(pread(exe, buf, 3, 0), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(openat(dir, "inner", O_RDONLY), -1);
	assert_int_equal(errno, ESTALE);
	/* Nothing holds the namespace though the kernel still knows its nodes. */
	assert_int_equal(count_fds(fs->daemon), fds);
	jail_stop(jail);
	/* The same process can be pinned again, and what was stale stays it. */
	assert_int_equal(pread(file, buf, 3, 0), -1);
	assert_int_equal(errno, ESTALE);
}

static void pin_often(const struct ksymfs *fs, pid_t pid, int count)
{
	for (int i = 0; i < count; i++) {
		pin(fs, pid);
		if (i % 10 == 0) {
			_cleanup_free_ char *file = ksymfs_read(fs, NULL, "pins/%d/root/file", pid);

			assert_string_equal(file, "of the jail\n");
		}
		unpin(fs, pid);
	}
}

static void test_leaks(void **state)
{
	/* What strangers unload meanwhile is not to count. */
	static const char *const options[] = {"--retain-time=1s", "--retain-bytes=16K",
					      "--events-bytes=64K", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_plain, NULL);
	size_t least = SIZE_MAX;

	/* Caches fill. */
	pin_often(fs, jail->pid, rounds_of(1000));
	size_t fds = count_fds(fs->daemon), before = anon_kib(fs->daemon);

	/* What is lost for each pin is lost each time; what strangers' programs take, not. */
	for (int i = 0; i < 3; i++) {
		pin_often(fs, jail->pid, rounds_of(3000));
		size_t after = anon_kib(fs->daemon);

		least = MIN(least, after > before ? after - before : 0);
		before = after;
	}
	assert_true(count_fds(fs->daemon) <= fds);
	/* The sanitizers keep what was freed. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_in_range(least, 0, 128);
#endif
	jail_stop(jail);
}

static void test_usdt(void **state)
{
	static const char *const python[] = {"/usr/bin/python3.11", "-c",
					     "import time; time.sleep(1000)", NULL};
	struct ksymfs *fs = *state;

	if (access(python[0], X_OK) < 0)
		skip_because("no %s", python[0]);
	pid_t pid = spawn(python);

	pin(fs, pid);
	_cleanup_free_ char *live = ksymfs_read(fs, NULL, "usdt/%d/notes", pid);
	_cleanup_free_ char *pinned = ksymfs_read(fs, NULL, "pins/%d/usdt/notes", pid);

	assert_true(count_lines_with_prefix(live, "python:") > 0);
	assert_string_equal(pinned, live);
	kill_and_wait(pid);
	_cleanup_free_ char *after = ksymfs_read(fs, NULL, "pins/%d/usdt/notes", pid);
	_cleanup_free_ char *build_id = ksymfs_value(fs, "build_id", "pins/%d/info", pid);

	assert_string_equal(after, live);
	assert_non_null(build_id);
	unpin(fs, pid);
}

/* Only root, whoever the tree belongs to. */
static int look_as_nobody(void *arg)
{
	struct ksymfs *fs = arg;
	_cleanup_free_ char *top = ksymfs_path(fs, "pins/");
	_cleanup_free_ char *roots = ksymfs_path(fs, ".roots/");

	MUST(setgid(65534) == 0 && setuid(65534) == 0);
	if (open(top, O_RDONLY | O_DIRECTORY) >= 0 || errno != EACCES)
		return 1;
	return open(roots, O_RDONLY | O_DIRECTORY) >= 0 || errno != EACCES ? 2 : 0;
}

static void test_others(void **state)
{
	static const char *const options[] = {"-o", "umask=022", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);

	assert_int_equal(run_for(look_as_nobody, fs, 10), 0);
}

/* Walkers stay out of roots, and change nothing. */
static void test_walkers(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_plain, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	assert_int_equal(run("find %s/pins > /dev/null", fs->dir), 0);
	assert_int_equal(run("! find %s/pins | grep -q inner", fs->dir), 0);
	/* The process's executable is this very program, so it has the words. */
	assert_int_equal(run("! grep -r --exclude=exe 'of the jail' %s/pins > /dev/null", fs->dir),
			 0);
	assert_int_equal(run("! ls -a %s | grep -q roots", fs->dir), 0);
	assert_int_equal(run("rm -r %s/pins/%d 2>/dev/null; test -d %s/pins/%d/root/mnt", fs->dir,
			     pid, fs->dir, pid),
			 0);
	unpin(fs, pid);
	jail_stop(jail);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_texts),
		cmocka_unit_test(test_exit_code),    cmocka_unit_test(test_outlives_namespace),
		cmocka_unit_test(test_follows_maps), cmocka_unit_test(test_exe),
		cmocka_unit_test(test_recycled_pid), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_rules),	     cmocka_unit_test(test_cgroup_rules),
		cmocka_unit_test(test_rmdir_in_use), cmocka_unit_test(test_leaks),
		cmocka_unit_test(test_usdt),	     cmocka_unit_test(test_others),
		cmocka_unit_test(test_walkers),
	};

	return live_run(tests);
}
