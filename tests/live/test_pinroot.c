/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Roots of pinned processes, hostile ones too, against the same root seen from inside. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/live/pins.h"

/* ---- the same name from inside and from outside ---- */

/* Goes where a process is: its mount namespace and its root. */
static void enter(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	int root = open(path, O_PATH);
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	int ns = open(path, O_RDONLY);

	MUST(root >= 0 && ns >= 0);
	MUST(setns(ns, CLONE_NEWNS) == 0);
	MUST(fchdir(root) == 0 && chroot(".") == 0);
}

/* What a name leads to: the error, the bytes of a file, or those of the .where of a directory. */
static void look(const char *path, char *answer, size_t size)
{
	char where[PATH_MAX + 16];
	struct stat stat_buf;
	int fd;

	if (stat(path, &stat_buf) < 0) {
		snprintf(answer, size, "error %d", errno);
		return;
	}
	snprintf(where, sizeof(where), "%s/.where", path);
	fd = open(S_ISDIR(stat_buf.st_mode) ? where : path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, answer, size - 1);

	if (n < 0)
		snprintf(answer, size, "open error %d", errno);
	else
		answer[n] = '\0';
	if (fd >= 0)
		close(fd);
}

static void look_inside(pid_t pid, const char *path, char *answer, size_t size)
{
	int pipe_fds[2];

	assert_int_equal(pipe(pipe_fds), 0);
	pid_t child = fork();

	if (child == 0) {
		enter(pid);
		look(path, answer, size);
		MUST(write(pipe_fds[1], answer, strlen(answer) + 1) > 0);
		_exit(0);
	}
	close(pipe_fds[1]);
	assert_true(read(pipe_fds[0], answer, size) > 0);
	close(pipe_fds[0]);
	waitpid(child, NULL, 0);
}

static const struct {
	const char *path, *target;
} links[] = {
	{"abs", "/etc/passwd"},
	{"a/abs", "/etc/passwd"},
	{"a/b/c/abs", "/etc/passwd"},
	{"a/up", "../etc/passwd"},
	{"a/b/c/up", "../../../etc/passwd"},
	{"over", "../../../../etc/shadow"},
	{"a/over", "../../../../../../../../etc/shadow"},
	{"a/absover", "/../../../etc/shadow"},
	{"rootlink", "/"},
	{"a/b/rootlink", "/"},
	{"a/dotdot", ".."},
	{"a/b/c/dotdots", "../.."},
	{"a/dot", "."},
	{"a/s", "/usr/lib"},
	{"a/via_s", "s/../marker"},
	{"a/via_root", "b/rootlink/../../../etc/passwd"},
	{"a/b/c/via_both", "../../via_dir/../etc/passwd"},
	{"a/via_dir", "b/rootlink"},
	{"chain1", "chain2"},
	{"chain2", "/a/chain3"},
	{"a/chain3", "../etc/passwd"},
	{"loop1", "loop2"},
	{"loop2", "/loop1"},
	{"self", "self"},
	{"dangling", "/none/x"},
	{"a/dangling", "none/../../../../../etc/passwd"},
	{"a/through_file", "../etc/passwd/../shadow"},
	{"a/through_loop", "/loop1/../etc/passwd"},
	{"dir_slash", "/etc/"},
	{"file_slash", "/etc/passwd/"},
	{"doubled", "//etc//passwd"},
	{"mnt/abs", "/etc/passwd"},
	{"mnt/up", "../etc/passwd"},
	{"mnt/over_dir", "../mnt/sub/../../etc"},
	{"a/into_mnt", "/mnt/sub/../inner"},
	{"a/proc_root", "/proc/self/root/etc/passwd"},
	{"a/proc_cwd", "/proc/self/../etc/passwd"},
	{"a/proc_1", "../proc/1/root/etc/passwd"},
};

static void put_where(const char *dir)
{
	char path[256];

	make_dir(dir);
	snprintf(path, sizeof(path), "%s/.where", dir);
	put_file(path, dir);
}

static void fill_links(void *arg)
{
	static const char *const dirs[] = {".", "a", "a/b", "a/b/c", "etc", "usr", "usr/lib"};

	make_dir("mnt");
	MUST(mount("inner", "mnt", "tmpfs", 0, NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		put_where(dirs[i]);
	put_where("mnt");
	put_where("mnt/sub");
	put_file("mnt/inner", "inner");
	put_file("etc/passwd", "the jail's passwd");
	put_file("etc/shadow", "the jail's shadow");
	put_file("usr/marker", "marker of usr");
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		make_link(links[i].target, links[i].path);
}

static void assert_links(const struct ksymfs *fs, pid_t pid, bool alive)
{
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		_cleanup_free_ char *path = ksymfs_path(fs, "pins/%d/root/%s", pid, links[i].path);
		char outside[256], inside[256], target[PATH_MAX];
		struct stat link_stat;

		ssize_t len = readlink(path, target, sizeof(target) - 1);

		assert_true(len > 0);
		target[len] = '\0';
		assert_int_not_equal(target[0], '/');
		assert_int_equal(lstat(path, &link_stat), 0);
		assert_int_equal(link_stat.st_size, len);
		look(path, outside, sizeof(outside));
		if (!alive)
			continue;
		look_inside(pid, links[i].path, inside, sizeof(inside));
		if (strcmp(inside, outside) != 0)
			fail_msg("%s -> %s, shown as %s: %s inside, %s outside", links[i].path,
				 links[i].target, target, inside, outside);
	}
}

static void test_links(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_links, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	assert_links(fs, pid, true);
	jail_stop(jail);
	assert_links(fs, pid, false);
	unpin(fs, pid);
}

/* ---- races: whatever wins, the host's file is never read ---- */

static const char host_secret[] = "/tmp/ksymfs-host-secret";

static void fill_race(void *arg)
{
	make_dir("a");
	make_dir("tmp");
	make_dir("real");
	put_file("real/ksymfs-host-secret", "the jail's");
	put_file("tmp/ksymfs-host-secret", "the jail's");
	put_file("a/plain", "plain");
	make_dir("a/dir");
	put_file("a/dir/ksymfs-host-secret", "the jail's");
}

/* In the root, until it is killed: names that change under whoever looks. */
static int swap(void *arg)
{
	enter(*(pid_t *)arg);
	MUST(chdir("/a") == 0);
	for (;;) {
		/* A link that leads out, and one that does not. */
		unlink("l.new");
		MUST(symlink("../../../../../../../../../../tmp/ksymfs-host-secret", "l.new") == 0);
		rename("l.new", "l");
		unlink("l.new");
		MUST(symlink("../real/ksymfs-host-secret", "l.new") == 0);
		rename("l.new", "l");
		/* A directory and a link to a host's. */
		rename("dir", "dir.old");
		MUST(symlink("/../../../../../../../../tmp", "dir") == 0);
		unlink("dir");
		rename("dir.old", "dir");
		/* What comes before a `..` in a link. */
		unlink("x.new");
		MUST(symlink("/", "x.new") == 0);
		rename("x.new", "x");
		unlink("m");
		MUST(symlink("x/../../../../../../../../../../tmp/ksymfs-host-secret", "m") == 0);
		unlink("x");
	}
	return 0;
}

#define RACE_READS 100

/* For some seconds, and on a slow machine until enough was read. */
static bool goes_on(uint64_t start, unsigned int seen)
{
	uint64_t since = monotonic_ns() - start;

	return since < (seen > RACE_READS ? 4 : 60) * NSEC_PER_SEC;
}

static void test_races(void **state)
{
	static const char *const names[] = {"a/l", "a/dir/ksymfs-host-secret", "a/m"};
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_race, NULL);
	pid_t pid = jail->pid, swapper = fork();
	unsigned int seen = 0;

	if (swapper == 0)
		_exit(swap(&pid));
	put_file(host_secret, "the host's");
	pin(fs, pid);
	for (uint64_t start = monotonic_ns(); goes_on(start, seen);) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			char buf[32] = "";
			_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/%s", pid, names[i]);

			if (fd < 0 || read(fd, buf, sizeof(buf) - 1) < 0)
				continue;
			assert_string_equal(buf, "the jail's");
			seen++;
		}
	}
	/* Not by never having read anything. */
	assert_true(seen > RACE_READS);
	kill_and_wait(swapper);
	unlink(host_secret);
	unpin(fs, pid);
	jail_stop(jail);
}

/* ---- names, depths, kinds ---- */

static const char utf8[] = "\xff\xfe\xc3(";

static void fill_odd(void *arg)
{
	char longest[256];
	int fd;

	memset(longest, 'n', 255);
	longest[255] = '\0';
	put_file("new\nline", "1");
	put_file(longest, "2");
	put_file(utf8, "3");
	put_file("back\\slash", "4");
	put_file("sp ace", "5");
	MUST(mkfifo("fifo", 0600) == 0);
	MUST(mknod("null", S_IFCHR | 0600, makedev(1, 3)) == 0);
	MUST(mknod("disk", S_IFBLK | 0600, makedev(254, 0)) == 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};

	MUST(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	put_file("setuid", "#!/bin/sh\n");
	MUST(chmod("setuid", 04755) == 0);
	put_file("theirs", "theirs");
	MUST(chown("theirs", 1234, 4321) == 0 && chmod("theirs", 0640) == 0);
	MUST(setxattr("theirs", "trusted.ksymfs", "value", 5, 0) == 0);
	struct timespec times[2] = {{1000000000, 123456789}, {1100000000, 987654321}};

	MUST(utimensat(AT_FDCWD, "theirs", times, 0) == 0);
	/* Two file systems with the same inode numbers. */
	make_dir("one");
	make_dir("two");
	MUST(mount("one", "one", "tmpfs", 0, NULL) == 0 &&
	     mount("two", "two", "tmpfs", 0, NULL) == 0);
	put_file("one/f", "in one");
	put_file("two/f", "in two");
	MUST(link("one/f", "one/g") == 0 && link("two/f", "two/g") == 0);
	make_dir("deep");
	fd = open("deep", O_RDONLY);
	for (int i = 0; i < 2000; i++) {
		MUST(mkdirat(fd, "d", 0755) == 0);
		int next = openat(fd, "d", O_RDONLY);

		MUST(next >= 0);
		close(fd);
		fd = next;
	}
	int file = openat(fd, "bottom", O_WRONLY | O_CREAT, 0644);

	MUST(write(file, "bottom", 6) == 6);
}

static void assert_mode(const struct ksymfs *fs, pid_t pid, const char *name, mode_t mode)
{
	struct stat stat;

	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/%s", pid, name), 0);
	assert_int_equal(stat.st_mode, mode);
}

static int open_special(void *arg)
{
	const char *root = arg;
	char buf[1];

	MUST(chdir(root) == 0);
	/* Devices: the mount is nodev. Sockets: not there. */
	if (open("null", O_RDONLY) >= 0 || open("disk", O_RDONLY) >= 0 ||
	    open("socket", O_RDONLY) >= 0)
		return 1;
	/* A FIFO is one of this mount's own: the other end of the real one hears nothing. */
	int fd = open("fifo", O_RDONLY | O_NONBLOCK);

	return fd >= 0 && read(fd, buf, 1) != 0 ? 2 : 0;
}

static void test_kinds(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_odd, NULL);
	pid_t pid = jail->pid;
	struct stat stat;
	char value[16];

	pin(fs, pid);
	_cleanup_free_ char *root = ksymfs_path(fs, "pins/%d/root/", pid);
	char inside[64];

	look_inside(pid, "new\nline", inside, sizeof(inside));
	assert_string_equal(inside, "1");
	/* Every name, from both sides. */
	assert_int_equal(run("LC_ALL=C ls -1a %s > /tmp/ksymfs-ls.1 && "
			     "LC_ALL=C ls -1a /proc/%d/root/ > /tmp/ksymfs-ls.2 && "
			     "cmp /tmp/ksymfs-ls.1 /tmp/ksymfs-ls.2; r=$?; rm /tmp/ksymfs-ls.?; "
			     "exit $r",
			     root, pid),
			 0);
	assert_mode(fs, pid, "fifo", S_IFIFO | 0600);
	assert_mode(fs, pid, "null", S_IFCHR | 0600);
	assert_mode(fs, pid, "disk", S_IFBLK | 0600);
	assert_mode(fs, pid, "setuid", S_IFREG | 04755);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/socket", pid), 0);
	assert_true(S_ISSOCK(stat.st_mode));
	assert_int_equal(run_for(open_special, root, 10), 0);

	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/theirs", pid), 0);
	assert_int_equal(stat.st_uid, 1234);
	assert_int_equal(stat.st_gid, 4321);
	assert_int_equal(stat.st_mode, S_IFREG | 0640);
	assert_int_equal(stat.st_mtim.tv_sec, 1100000000);
	assert_int_equal(stat.st_mtim.tv_nsec, 987654321);
	assert_int_equal(stat.st_size, 6);
	_cleanup_free_ char *theirs = ksymfs_path(fs, "pins/%d/root/theirs", pid);

	assert_int_equal(getxattr(theirs, "trusted.ksymfs", value, sizeof(value)), 5);
	assert_memory_equal(value, "value", 5);
	assert_int_equal(getxattr(theirs, "trusted.none", value, sizeof(value)), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(setxattr(theirs, "user.x", "y", 1, 0), -1);
	assert_int_equal(open(theirs, O_RDWR), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(unlink(theirs), -1);
	assert_int_equal(errno, EROFS);

	/* Not to be taken for hard links of each other. */
	struct stat one, two;

	assert_int_equal(ksymfs_stat(fs, &one, "pins/%d/root/one/f", pid), 0);
	assert_int_equal(ksymfs_stat(fs, &two, "pins/%d/root/two/f", pid), 0);
	assert_int_equal(one.st_nlink, 2);
	assert_true(one.st_ino != two.st_ino);
	assert_int_equal(ksymfs_stat(fs, &two, "pins/%d/root/one/g", pid), 0);
	assert_true(one.st_ino == two.st_ino);
	unpin(fs, pid);
	jail_stop(jail);
}

static int reach_bottom(void *arg)
{
	int fd = open(arg, O_RDONLY | O_DIRECTORY);
	char buf[8] = "";

	for (int i = 0; i < 2000; i++) {
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);

		MUST(next >= 0);
		close(fd);
		fd = next;
	}
	int file = openat(fd, "bottom", O_RDONLY);

	MUST(read(file, buf, sizeof(buf)) == 6);
	return strcmp(buf, "bottom") != 0;
}

static void test_depth(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_odd, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	_cleanup_free_ char *deep = ksymfs_path(fs, "pins/%d/root/deep", pid);

	assert_int_equal(run_for(reach_bottom, deep, 120), 0);
	assert_int_equal(run("test $(find %s -name bottom | wc -l) = 1", deep), 0);
	jail_stop(jail);
	assert_int_equal(run_for(reach_bottom, deep, 120), 0);
	unpin(fs, pid);
}

/* ---- mounts ---- */

static void fill_mounts(void *arg)
{
	make_dir("proc");
	make_dir("sys");
	make_dir("bindproc");
	make_dir("ksymfs");
	make_dir("many");
	put_file("version", "underneath");
	MUST(mount("proc", "proc", "proc", 0, NULL) == 0);
	MUST(mount("sysfs", "sys", "sysfs", 0, NULL) == 0);
	MUST(mount("/proc", "bindproc", NULL, MS_BIND, NULL) == 0);
	MUST(mount("/proc/version", "version", NULL, MS_BIND, NULL) == 0);
	MUST(mount(arg, "ksymfs", NULL, MS_BIND, NULL) == 0);
}

static size_t count_entries(const struct ksymfs *fs, pid_t pid, const char *name)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%d/root/%s", pid, name);
	_cleanup_dir_ DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	return count;
}

static void test_closed_mounts(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_mounts, fs->dir);
	pid_t pid = jail->pid;
	struct stat stat;

	pin(fs, pid);
	assert_int_equal(count_entries(fs, pid, "proc"), 2);
	assert_int_equal(count_entries(fs, pid, "sys"), 2);
	assert_int_equal(count_entries(fs, pid, "bindproc"), 2);
	assert_int_equal(count_entries(fs, pid, "ksymfs"), 2);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/proc/self", pid), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/ksymfs/ksyms", pid), -ENOENT);
	/* A file of such a file system on a file: there, and empty. */
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/version", pid), 0);
	assert_true(S_ISREG(stat.st_mode));
	_cleanup_free_ char *version = ksymfs_read(fs, NULL, "pins/%d/root/version", pid);

	assert_string_equal(version, "");
	assert_int_equal(run("find %s/pins/%d/root/ > /dev/null", fs->dir, pid), 0);
	unpin(fs, pid);
	jail_stop(jail);
}

static void test_cross(void **state)
{
	static const char *const options[] = {"--pin-cross=proc,fuse", NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_mounts, fs->dir);
	pid_t pid = jail->pid;

	pin(fs, pid);
	assert_true(count_entries(fs, pid, "proc") > 10);
	assert_int_equal(count_entries(fs, pid, "sys"), 2);
	/* Ourselves, never. */
	assert_int_equal(count_entries(fs, pid, "ksymfs"), 2);
	unpin(fs, pid);
	jail_stop(jail);
}

static void fill_many_mounts(void *arg)
{
	make_dir("many");
	for (int i = 0; i < 10000; i++) {
		char path[32];

		snprintf(path, sizeof(path), "many/%d", i);
		make_dir(path);
		MUST(mount("one", path, i % 2 ? "tmpfs" : "ramfs", 0, NULL) == 0);
		if (i % 1000 == 999) {
			snprintf(path, sizeof(path), "many/%d/file", i);
			put_file(path, "in a mount");
		}
	}
}

static void test_many_mounts(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_many_mounts, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	assert_int_equal(count_entries(fs, pid, "many"), 10002);
	for (int i = 999; i < 10000; i += 1000) {
		_cleanup_free_ char *file =
			ksymfs_read(fs, NULL, "pins/%d/root/many/%d/file", pid, i);

		assert_string_equal(file, "in a mount");
	}
	assert_int_equal(
		run("test $(find %s/pins/%d/root/many/ -name file | wc -l) = 10", fs->dir, pid), 0);
	_cleanup_free_ char *mountinfo = ksymfs_read(fs, NULL, "pins/%d/mountinfo", pid);

	assert_true(count_lines_with(mountinfo, " /many/") == 10000);
	unpin(fs, pid);
	jail_stop(jail);
}

/* ---- servers that do not answer ---- */

static void fill_dead(void *arg)
{
	put_file("alive", "alive");
	make_dir("dead");
	/* A link whose way leads through it must not hang who lists its directory. */
	make_link("/dead/x/../../alive", "link");
	mount_dead_fuse("dead", "hung");
}

static void fill_plain_file(void *arg)
{
	put_file("file", "of another jail");
}

static int list_root(void *arg)
{
	return run("ls -laR %s > /dev/null", (const char *)arg);
}

/* Not entered by default, so nothing hangs. */
static void test_dead_fuse(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_dead, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	_cleanup_free_ char *root = ksymfs_path(fs, "pins/%d/root/", pid);

	assert_int_equal(run_for(list_root, root, 20), 0);
	assert_int_equal(count_entries(fs, pid, "dead"), 2);
	unpin(fs, pid);
	jail_stop(jail);
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Median time to open, read 4 KiB of and close ksyms. */
static uint64_t ksyms_latency(const struct ksymfs *fs)
{
	uint64_t times[200];
	char buf[4096];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint64_t start = monotonic_ns();
		_cleanup_fd_ int fd = ksymfs_open(fs, "ksyms");

		assert_true(fd >= 0 && read(fd, buf, sizeof(buf)) == sizeof(buf));
		times[i] = monotonic_ns() - start;
	}
	qsort(times, ARRAY_SIZE(times), sizeof(times[0]), compare_u64);
	return times[ARRAY_SIZE(times) / 2];
}

static bool is_gone(void *arg)
{
	return waitpid(*(pid_t *)arg, NULL, WNOHANG) == *(pid_t *)arg;
}

static void fill_mute(void *arg)
{
	make_dir("mute");
	mount_mute_fuse("mute");
}

/* A lookup that is not answered keeps all others of that name waiting: so it is given up. */
static void test_hung_lookups(void **state)
{
	static const char *const options[] = {"--pin-cross=fuse", NULL};
	struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_dead, NULL);
	pid_t pid = jail->pid;
	struct stat stat;

	pin(fs, pid);
	uint64_t start = monotonic_ns();

	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/dead", pid), -ETIMEDOUT);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/link", pid), -ETIMEDOUT);
	/* What is known to hang is not waited for again. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/dead", pid), -ETIMEDOUT);
	assert_true(monotonic_ns() - start < 20 * NSEC_PER_SEC);
	_cleanup_free_ char *alive = ksymfs_read(fs, NULL, "pins/%d/root/alive", pid);

	assert_string_equal(alive, "alive");
	unpin(fs, pid);
	jail_stop(jail);
	ksymfs_stop(fs);
}

static int read_mute(const struct ksymfs *fs, pid_t pid, size_t name)
{
	char byte;
	int fd = ksymfs_open(fs, "pins/%d/root/mute/%zu", pid, name);

	if (fd < 0)
		return -fd;
	return read(fd, &byte, 1) < 0 ? errno : 0;
}

static void test_hung_readers(void **state)
{
	static const char *const options[] = {"--pin-cross=fuse", NULL};
	struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_mute, NULL);
	struct jail *other = jail_start(fill_plain_file, NULL);
	pid_t pid = jail->pid, readers[40];
	int status;

	pin(fs, pid);
	pin(fs, other->pid);
	uint64_t before = ksyms_latency(fs);

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = fork();
		if (readers[i] == 0)
			_exit(read_mute(fs, pid, i));
		/* Eight that hang, and then so many more that there could be no worker left. */
		if (i == 7 || i == 19) {
			usleep(1500000);
			assert_true(ksyms_latency(fs) < 3 * before);
		}
	}
	/* Past a bound they are refused, and what hangs is counted. */
	assert_int_equal(waitpid(readers[39], &status, 0), readers[39]);
	assert_int_equal(WEXITSTATUS(status), EBUSY);
	_cleanup_free_ char *hung = ksymfs_value(fs, "pin_root_calls_hung", "status");

	assert_true(strtol(hung, NULL, 10) >= 12);
	/* Another root goes on, and so does the rest of this pin. */
	_cleanup_free_ char *file = ksymfs_read(fs, NULL, "pins/%d/root/file", other->pid);
	_cleanup_free_ char *comm = ksymfs_read(fs, NULL, "pins/%d/comm", pid);

	assert_string_equal(file, "of another jail");
	assert_true(strlen(comm) > 0);
	/* Each of those who hang can be killed, whatever the others do. */
	for (size_t i = 0; i < ARRAY_SIZE(readers) - 1; i++) {
		kill(readers[i], SIGKILL);
		assert_true(wait_until(is_gone, &readers[i], 5));
	}
	/* And the pin can be let go of, while its workers hang. */
	unpin(fs, pid);
	unpin(fs, other->pid);
	jail_stop(other);
	/* The server's end frees them. */
	jail_stop(jail);
	ksymfs_stop(fs);
}

/* ---- roots that go ---- */

static void test_unmounted_root(void **state)
{
	struct ksymfs *fs = *state;
	char dir[] = "/tmp/ksymfs-root-XXXXXX";
	struct stat stat;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(mount("root", dir, "tmpfs", 0, NULL), 0);
	assert_int_equal(run("echo kept > %s/file; mkdir %s/sub", dir, dir), 0);
	pid_t pid = fork();

	if (pid == 0) {
		MUST(chroot(dir) == 0 && chdir("/") == 0);
		for (;;)
			pause();
	}
	char link[64], target[64];

	do {
		snprintf(link, sizeof(link), "/proc/%d/root", pid);
		ssize_t len = readlink(link, target, sizeof(target) - 1);
		target[MAX(len, (ssize_t)0)] = '\0';
	} while (strcmp(target, dir) != 0);
	pin(fs, pid);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	_cleanup_free_ char *kept = ksymfs_read(fs, NULL, "pins/%d/root/file", pid);

	assert_string_equal(kept, "kept\n");
	kill_and_wait(pid);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/sub", pid), 0);
	unpin(fs, pid);
	rmdir(dir);
}

static void test_deleted_root(void **state)
{
	struct ksymfs *fs = *state;
	char dir[] = "/tmp/ksymfs-root-XXXXXX";
	struct stat stat;

	assert_non_null(mkdtemp(dir));
	pid_t pid = fork();

	if (pid == 0) {
		MUST(chroot(dir) == 0 && chdir("/") == 0);
		for (;;)
			pause();
	}
	usleep(200000);
	pin(fs, pid);
	rmdir(dir);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/", pid), 0);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/x", pid), -ENOENT);
	kill_and_wait(pid);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/", pid), 0);
	unpin(fs, pid);
}

/* ---- with few fds ---- */

static void fill_tree(void *arg)
{
	for (int dir = 0; dir < rounds_of(1000); dir++) {
		char path[64];

		snprintf(path, sizeof(path), "%d", dir);
		make_dir(path);
		for (int file = 0; file < 100; file++) {
			snprintf(path, sizeof(path), "%d/%d", dir, file);
			MUST(mknod(path, S_IFREG | 0644, 0) == 0);
		}
	}
}

static void test_few_fds(void **state)
{
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){256, 256};
	/* The daemon inherits it, and cannot raise it: root can, so the hard limit is lowered too.
	 */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	struct ksymfs *fs = ksymfs_start(NULL);
	few = (struct rlimit){before.rlim_max, before.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	setrlimit(RLIMIT_NOFILE, &before);
	struct jail *jail = jail_start(fill_tree, NULL);
	pid_t pid = jail->pid;

	int files = 100 * rounds_of(1000);

	pin(fs, pid);
	assert_int_equal(
		run("test $(find %s/pins/%d/root/ -type f | wc -l) = %d", fs->dir, pid, files), 0);
	/* One look at each. */
	assert_int_equal(run("test $(find %s/pins/%d/root/ -size -1 -type f | wc -l) = %d", fs->dir,
			     pid, files),
			 0);
	assert_true(count_fds(fs->daemon) < 200);
	unpin(fs, pid);
	jail_stop(jail);
	ksymfs_stop(fs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),	       cmocka_unit_test(test_races),
		cmocka_unit_test(test_kinds),	       cmocka_unit_test(test_depth),
		cmocka_unit_test(test_closed_mounts),  cmocka_unit_test(test_cross),
		cmocka_unit_test(test_many_mounts),    cmocka_unit_test(test_dead_fuse),
		cmocka_unit_test(test_hung_lookups),   cmocka_unit_test(test_hung_readers),
		cmocka_unit_test(test_unmounted_root), cmocka_unit_test(test_deleted_root),
		cmocka_unit_test(test_few_fds),
	};

	return live_run(tests);
}
