/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files in the roots of pinned processes: what is read and mapped of them, and until when. */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live/pins.h"

#define BIG  (40u << 20)
#define HUGE (300u << 20)

static void fill_big(void *arg)
{
	int fd = open("big", O_RDWR | O_CREAT, 0644);

	MUST(fd >= 0 && ftruncate(fd, BIG) == 0);
	for (uint64_t at = 0; at < BIG; at += 4096)
		MUST(pwrite(fd, &at, sizeof(at), at) == sizeof(at));
	put_file("small", "0123456789");
	/* One that the kernel reads by itself, where it can. */
	fd = open("huge", O_RDWR | O_CREAT, 0644);
	MUST(fd >= 0 && ftruncate(fd, HUGE) == 0 && pwrite(fd, "end", 3, HUGE - 3) == 3);
}

static void assert_reads_huge(const struct ksymfs *fs, pid_t pid)
{
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/huge", pid);
	char buf[8] = "";

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, buf, sizeof(buf), HUGE - 3), 3);
	assert_string_equal(buf, "end");
	for (int flags = MAP_PRIVATE; flags; flags = flags == MAP_PRIVATE ? MAP_SHARED : 0) {
		char *map = mmap(NULL, HUGE, PROT_READ, flags, fd, 0);

		assert_ptr_not_equal(map, MAP_FAILED);
		assert_int_equal(map[0], 0);
		assert_memory_equal(map + HUGE - 3, "end", 3);
		munmap(map, HUGE);
	}
}

/* From offset on, in blocks of that length. */
static void assert_reads_whole(int fd, size_t block, off_t offset)
{
	_cleanup_free_ char *buf = malloc(block);
	ssize_t n;

	assert_non_null(buf);
	while ((n = pread(fd, buf, block, offset)) > 0) {
		assert_int_equal(n, MIN((off_t)block, (off_t)BIG - offset));
		for (off_t at = (offset + 4095) / 4096 * 4096; at + 8 <= offset + n; at += 4096) {
			uint64_t value;

			memcpy(&value, buf + (at - offset), sizeof(value));
			assert_int_equal(value, at);
		}
		offset += n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(offset, BIG);
}

static void assert_reads(const struct ksymfs *fs, pid_t pid)
{
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/big", pid);
	struct stat stat;
	uint64_t value;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_size, BIG);
	for (uint64_t i = 0; i < 500; i++) {
		uint64_t at = i * 7919 % (BIG / 4096) * 4096;

		assert_int_equal(pread(fd, &value, sizeof(value), at), sizeof(value));
		assert_int_equal(value, at);
	}
	assert_int_equal(pread(fd, &value, sizeof(value), BIG - 3), 3);
	assert_int_equal(pread(fd, &value, sizeof(value), BIG), 0);
	assert_int_equal(pread(fd, &value, sizeof(value), (off_t)BIG << 20), 0);
	assert_true(stat.st_blksize >= 128 << 10);
	assert_reads_whole(fd, stat.st_blksize, 0);
	assert_reads_whole(fd, 1 << 20, 0);
	assert_reads_whole(fd, 4 << 20, 12345);
	assert_reads_whole(fd, 300001, 4095);
	for (int flags = MAP_PRIVATE; flags; flags = flags == MAP_PRIVATE ? MAP_SHARED : 0) {
		char *map = mmap(NULL, BIG, PROT_READ, flags, fd, 0);

		assert_ptr_not_equal(map, MAP_FAILED);
		memcpy(&value, map + 4096 * 1000, sizeof(value));
		assert_int_equal(value, 4096 * 1000);
		munmap(map, BIG);
	}
	_cleanup_fd_ int small = ksymfs_open(fs, "pins/%d/root/small", pid);
	char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, small, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_memory_equal(map, "0123456789", 10);
	munmap(map, 4096);
}

static void test_reads(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_big, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	assert_reads(fs, pid);
	assert_reads_huge(fs, pid);
	jail_stop(jail);
	assert_reads(fs, pid);
	assert_reads_huge(fs, pid);
	unpin(fs, pid);
}

/* What the living process does to its files is there for the next look, by name or by fd. */
static void test_is_live(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_big, NULL);
	pid_t pid = jail->pid;
	char inside[64], buf[16] = "";
	struct stat stat;

	pin(fs, pid);
	/* Else it is by name alone: what is open may show what it showed for a tick of the clock.
	 */
	bool by_fd = kernel_maps_direct_io(fs);
	snprintf(inside, sizeof(inside), "/proc/%d/root/small", pid);
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/small", pid);
	_cleanup_fd_ int writer = open(inside, O_RDWR);

	assert_true(fd >= 0 && writer >= 0);
	for (int i = 0; i < 200; i++) {
		char c = 'a' + i % 26;

		assert_int_equal(pread(fd, buf, 1, 0), 1);
		assert_int_equal(pwrite(writer, &c, 1, 0), 1);
		_cleanup_fd_ int again = by_fd ? -1 : ksymfs_open(fs, "pins/%d/root/small", pid);
		assert_int_equal(pread(by_fd ? fd : again, buf, 1, 0), 1);
		assert_int_equal(buf[0], c);
		assert_int_equal(pwrite(writer, &c, 1, 10 + i), 1);
		assert_int_equal(fstat(fd, &stat), 0);
		assert_int_equal(stat.st_size, 11 + i);
		assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/small", pid), 0);
		assert_int_equal(stat.st_size, 11 + i);
	}
	/* Another file of that name is another file, and the open one stays what it was. */
	snprintf(inside, sizeof(inside), "/proc/%d/root/", pid);
	assert_int_equal(run("echo new > %s/x && mv %s/x %s/small", inside, inside, inside), 0);
	_cleanup_free_ char *now = ksymfs_read(fs, NULL, "pins/%d/root/small", pid);

	assert_string_equal(now, "new\n");
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_size, 210);
	assert_int_equal(run("rm %s/small", inside), 0);
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/small", pid), -ENOENT);
	unpin(fs, pid);
	jail_stop(jail);
}

/* ---- names, and who may ---- */

static const char newline[] = "new\nline", not_utf8[] = "\xff\xfe\xc3(";

static void longest_name(char ret[NAME_MAX + 1])
{
	memset(ret, 'n', NAME_MAX);
	ret[NAME_MAX] = '\0';
}

static void fill_names(void *arg)
{
	char name[NAME_MAX + 1];

	longest_name(name);
	put_file(newline, "in two lines");
	put_file(not_utf8, "in no language");
	put_file(name, "as long as may be");
}

static void test_names(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_names, NULL);
	pid_t pid = jail->pid;
	char name[NAME_MAX + 2];
	struct stat stat;

	pin(fs, pid);
	longest_name(name);
	_cleanup_free_ char *lines = ksymfs_read(fs, NULL, "pins/%d/root/%s", pid, newline);
	_cleanup_free_ char *bytes = ksymfs_read(fs, NULL, "pins/%d/root/%s", pid, not_utf8);
	_cleanup_free_ char *longest = ksymfs_read(fs, NULL, "pins/%d/root/%s", pid, name);

	assert_string_equal(lines, "in two lines");
	assert_string_equal(bytes, "in no language");
	assert_string_equal(longest, "as long as may be");
	strcat(name, "n");
	assert_int_equal(ksymfs_stat(fs, &stat, "pins/%d/root/%s", pid, name), -ENAMETOOLONG);
	unpin(fs, pid);
	jail_stop(jail);
}

#define SOMEBODY 1234

static void fill_owned(void *arg)
{
	put_file("theirs", "of somebody");
	put_file("roots", "of root");
	put_file("anyones", "of anyone");
	make_dir("closed");
	put_file("closed/file", "in a closed directory");
	MUST(chmod("theirs", 0600) == 0 && chown("theirs", SOMEBODY, SOMEBODY) == 0);
	MUST(chmod("roots", 0600) == 0 && chmod("anyones", 0644) == 0);
	MUST(chmod("closed", 0700) == 0 && chmod("closed/file", 0644) == 0);
	MUST(chmod(".", 0755) == 0);
}

static bool may_read(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY);

	MUST(fd >= 0 || errno == EACCES);
	return fd >= 0;
}

/* In a directory that root has left open for it. */
static int look_as_somebody(void *arg)
{
	int dir = open(arg, O_RDONLY | O_DIRECTORY);

	MUST(dir >= 0 && setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
	     setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
	MUST(may_read(dir, "theirs") && may_read(dir, "anyones"));
	MUST(!may_read(dir, "roots") && !may_read(dir, "closed/file"));
	/* Nobody comes in by the way that root came. */
	MUST(open(arg, O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
	return 0;
}

static int look_as_root_by_modes(void *arg)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
	int dir = open(arg, O_RDONLY | O_DIRECTORY);

	MUST(dir >= 0 && syscall(SYS_capset, &header, none) == 0);
	MUST(may_read(dir, "roots") && may_read(dir, "closed/file") && may_read(dir, "anyones"));
	MUST(!may_read(dir, "theirs"));
	return 0;
}

/* What the files' owners and modes allow whoever asks, not what they allow the daemon. */
static void test_permissions(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_owned, NULL);
	pid_t pid = jail->pid;

	pin(fs, pid);
	_cleanup_free_ char *root = ksymfs_path(fs, "pins/%d/root/", pid);

	assert_int_equal(run_for(look_as_somebody, root, 10), 0);
	assert_int_equal(run_for(look_as_root_by_modes, root, 10), 0);
	unpin(fs, pid);
	jail_stop(jail);
}

/* ---- letting go ---- */

/* A byte of memory that cannot be had is EFAULT to the kernel where it is SIGBUS to its reader. */
static int touch(const char *at)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	int r = write(fds[1], at, 1) == 1 ? 0 : errno;

	close(fds[0]);
	close(fds[1]);
	return r;
}

static bool is_refused(void *arg)
{
	return touch(arg) == EFAULT;
}

/* What is open of a file says so when the pin goes, however big it is, and so does what is mapped.
 */
static void test_let_go(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_big, NULL);
	pid_t pid = jail->pid;
	size_t fds = count_fds(fs->daemon);
	static char block[1 << 20];

	pin(fs, pid);
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/big", pid);

	assert_true(fd >= 0);
	char *shared = mmap(NULL, BIG, PROT_READ, MAP_SHARED, fd, 0);
	char *private = mmap(NULL, BIG, PROT_READ, MAP_PRIVATE, fd, 0);

	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_ptr_not_equal(private, MAP_FAILED);
	assert_int_equal(touch(shared + 4096), 0);
	assert_int_equal(touch(private + 4096), 0);
	assert_int_equal(pread(fd, block, sizeof(block), 0), sizeof(block));
	unpin(fs, pid);
	assert_int_equal(pread(fd, block, 1, 0), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(pread(fd, block, sizeof(block), 0), -1);
	assert_int_equal(errno, ESTALE);
	/* The pages soon after. */
	assert_true(wait_until(is_refused, shared + 4096, 10));
	assert_true(wait_until(is_refused, private + 4096, 10));
	assert_int_equal(touch(shared + BIG - 4096), EFAULT);
	char *late = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (late != MAP_FAILED) {
		assert_int_equal(touch(late), EFAULT);
		munmap(late, 4096);
	}
	/* Nobody's file system is held by who has not closed. */
	assert_true(count_fds(fs->daemon) == fds);
	munmap(shared, BIG);
	munmap(private, BIG);
	jail_stop(jail);
}

static void fill_mute(void *arg)
{
	make_dir("mute");
	mount_mute_fuse("mute");
	fill_big(arg);
}

struct hung {
	pid_t pid;
	int status;
};

static bool has_ended(void *arg)
{
	struct hung *hung = arg;

	return waitpid(hung->pid, &hung->status, WNOHANG) == hung->pid;
}

static int hung_calls(const struct ksymfs *fs)
{
	_cleanup_free_ char *value = ksymfs_value(fs, "pin_root_calls_hung", "status");

	return atoi(value);
}

static bool four_hang(void *arg)
{
	return hung_calls(arg) >= 4;
}

/* Exits with what the reader of a file is told that is never answered: by read, or by SIGBUS. */
static pid_t start_reader(const struct ksymfs *fs, pid_t pid, int number)
{
	pid_t reader = fork();
	char byte;

	if (reader)
		return reader;
	int fd = ksymfs_open(fs, "pins/%d/root/mute/%d", pid, number);

	if (fd < 0)
		_exit(1);
	if (number % 2)
		_exit(read(fd, &byte, 1) < 0 ? errno : 0);
	const char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	_exit(map == MAP_FAILED ? 2 : touch(map));
}

/*
 * Whoever waits for a file system that does not answer is told as well when the pin goes; and what
 * waits for them in the kernel does not keep the next pin's pages from going.
 */
static void test_let_go_of_hung(void **state)
{
	static const char *const options[] = {"--pin-cross=fuse", NULL};
	struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_mute, NULL);
	pid_t pid = jail->pid;
	struct hung readers[4];

	pin(fs, pid);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		readers[i].pid = start_reader(fs, pid, i);
	assert_true(wait_until(four_hang, fs, 10));
	unpin(fs, pid);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		assert_true(wait_until(has_ended, &readers[i], 5));
		assert_true(WIFEXITED(readers[i].status));
		assert_int_equal(WEXITSTATUS(readers[i].status), i % 2 ? ESTALE : EFAULT);
	}
	/* The workers that hang still do. */
	assert_true(hung_calls(fs) >= 4);
	pin(fs, pid);
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root/big", pid);
	char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(touch(map), 0);
	unpin(fs, pid);
	assert_true(wait_until(is_refused, map, 10));
	munmap(map, 4096);
	jail_stop(jail);
	ksymfs_stop(fs);
}

static int read_small(void *arg)
{
	return run("test $(cat %s) = 0123456789", (const char *)arg);
}

static void start_crowd(const struct ksymfs *fs, pid_t pid, pid_t *readers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		readers[i] = start_reader(fs, pid, 2 * (int)i + 1);
}

static void end_crowd(pid_t *readers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		kill_and_wait(readers[i]);
}

/*
 * More readers than there are workers, all at once, of what does not answer; and the same once more
 * behind a new pin of the process. Who reads of another root has to wait a moment at the most.
 */
static void test_crowds(void **state)
{
	static const char *const options[] = {"--pin-cross=fuse", NULL};
	struct ksymfs *fs = ksymfs_start(options);
	struct jail *jail = jail_start(fill_mute, NULL), *other = jail_start(fill_big, NULL);
	pid_t pid = jail->pid, readers[100];

	pin(fs, other->pid);
	_cleanup_free_ char *small = ksymfs_path(fs, "pins/%d/root/small", other->pid);

	for (int i = 0; i < 3; i++) {
		pin(fs, pid);
		start_crowd(fs, pid, readers, ARRAY_SIZE(readers));
		assert_true(wait_until(four_hang, fs, 10));
		assert_int_equal(run_for(read_small, small, 20), 0);
		end_crowd(readers, ARRAY_SIZE(readers));
		unpin(fs, pid);
	}
	assert_true(hung_calls(fs) < 64);
	jail_stop(jail);
	jail_stop(other);
	ksymfs_stop(fs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),  cmocka_unit_test(test_is_live),
		cmocka_unit_test(test_names),  cmocka_unit_test(test_permissions),
		cmocka_unit_test(test_let_go), cmocka_unit_test(test_let_go_of_hung),
		cmocka_unit_test(test_crowds),
	};

	return live_run(tests);
}
