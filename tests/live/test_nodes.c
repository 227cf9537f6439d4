/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What holds for every node: read-only, its place in its directory, and that an open file is of one
 * version while its path goes on.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/live/support.h"

#define assert_refused(call)                                                                       \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal((call), -1);                                                      \
		assert_int_equal(errno, EROFS);                                                    \
	} while (0)

static void everything_that_writes_is_erofs(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *file = ksymfs_path(fs, "ksyms");
	_cleanup_free_ char *directory = ksymfs_path(fs, "bpf");
	_cleanup_free_ char *new = ksymfs_path(fs, "new");

	assert_refused(open(new, O_CREAT | O_WRONLY, 0600));
	assert_refused(open(file, O_WRONLY));
	assert_refused(open(file, O_RDWR));
	assert_refused(open(file, O_RDONLY | O_TRUNC));
	assert_refused(truncate(file, 0));
	assert_refused(mkdir(new, 0700));
	assert_refused(rmdir(directory));
	assert_refused(unlink(file));
	assert_refused(rename(file, new));
	assert_refused(link(file, new));
	assert_refused(symlink("x", new));
	assert_refused(mknod(new, S_IFREG | 0600, 0));
	assert_refused(mkfifo(new, 0600));
	assert_refused(chmod(file, 0777));
	assert_refused(chown(file, 1, 1));
	assert_refused(utimensat(AT_FDCWD, file, NULL, 0));
	assert_refused(setxattr(file, "user.x", "1", 1, 0));
	assert_refused(removexattr(file, "user.x"));
	assert_int_equal(listxattr(file, NULL, 0), 0);
}

static void an_open_file_keeps_its_bytes(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_fd_ int old = ksymfs_open(fs, "ksyms");
	_cleanup_free_ char *before = read_fd(old, NULL);
	struct stat then, now, path;

	assert_int_equal(fstat(old, &then), 0);
	void *map = mmap(NULL, then.st_size, PROT_READ, MAP_SHARED, old, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	for (int i = 0; i < 20; i++) {
		char name[16], symbol[32];

		snprintf(name, sizeof(name), "session_%d", i);
		snprintf(symbol, sizeof(symbol), "_%s\t[bpf]", name);
		_cleanup_fd_ int prog = load_simple(name, i);
		_cleanup_free_ char *fresh = ksymfs_read(fs, NULL, "ksyms");
		assert_non_null(strstr(fresh, symbol));
		assert_null(strstr(before, symbol));

		assert_int_equal(fstat(old, &now), 0);
		assert_int_equal(now.st_size, then.st_size);
		assert_int_equal(ksymfs_stat(fs, &path, "ksyms"), 0);
		assert_int_equal(path.st_ino, now.st_ino);
		assert_memory_equal(map, before, then.st_size);
		assert_int_equal(lseek(old, 0, SEEK_SET), 0);
		_cleanup_free_ char *again = read_fd(old, NULL);
		assert_string_equal(before, again);
	}
	munmap(map, then.st_size);
}

/* The file behind a version is written again for a later one, but not under a reader's hands. */
static void a_mapping_keeps_its_bytes_past_its_handle(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *before = NULL;
	size_t size;
	void *map;

	{
		_cleanup_fd_ int old = ksymfs_open(fs, "ksyms");

		before = read_fd(old, &size);
		map = mmap(NULL, size, PROT_READ, MAP_SHARED, old, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
	}
	for (int i = 0; i < 10; i++) {
		char name[16], symbol[32];

		snprintf(name, sizeof(name), "mapped_%d", i);
		snprintf(symbol, sizeof(symbol), "_%s\t[bpf]", name);
		_cleanup_fd_ int prog = load_simple(name, i);
		_cleanup_free_ char *fresh = ksymfs_read(fs, NULL, "ksyms");
		_cleanup_free_ char *again = ksymfs_read(fs, NULL, "ksyms");
		assert_non_null(strstr(fresh, symbol));
		assert_non_null(strstr(again, symbol));
		assert_memory_equal(map, before, size);
	}
	munmap(map, size);
}

/* More than have a file of their own. */
#define VERSIONS 24

static void many_open_versions_keep_their_bytes(void **state)
{
	const struct ksymfs *fs = *state;
	int files[VERSIONS], progs[VERSIONS];
	char *texts[VERSIONS];

	for (int i = 0; i < VERSIONS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "version_%d", i);
		progs[i] = load_simple(name, i);
		files[i] = ksymfs_open(fs, "ksyms");
		assert_true(files[i] >= 0);
		texts[i] = read_fd(files[i], NULL);
		assert_non_null(strstr(texts[i], name));
	}
	for (int i = 0; i < VERSIONS; i++) {
		assert_int_equal(lseek(files[i], 0, SEEK_SET), 0);
		_cleanup_free_ char *again = read_fd(files[i], NULL);
		assert_string_equal(texts[i], again);
		free(texts[i]);
		close(files[i]);
		close(progs[i]);
	}
}

/*
 * Opens what is new each time, and what changes now and then, and reads or copies a byte of it.
 * Ends with the first errno.
 */
static int open_again_and_again(const struct ksymfs *fs)
{
	static const char *const files[] = {"status", "metrics", "bpf/programs"};
	_cleanup_fd_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	for (int i = 0; i < 600; i++) {
		_cleanup_fd_ int fd = ksymfs_open(fs, "%s", files[i % ARRAY_SIZE(files)]);
		char byte;

		if (fd < 0)
			return errno;
		ssize_t len = i % 2 ? read(fd, &byte, 1) : sendfile(null, fd, NULL, 1);

		if (len != 1)
			return len < 0 ? errno : ENODATA;
	}
	return 0;
}

static void many_open_at_once_what_changes(void **state)
{
	const struct ksymfs *fs = *state;
	pid_t readers[4];
	int status;

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = fork();
		if (readers[i] == 0)
			_exit(open_again_and_again(fs));
		assert_true(readers[i] > 0);
	}
	for (int i = 0; i < 100; i++)
		close(load_simple("opened", i));
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status))
			fail_msg("a file could not be opened: %s", strerror(WEXITSTATUS(status)));
	}
}

/* What a mapping holds on to is no less than what a handle does. */
static void many_mapped_versions_keep_their_bytes(void **state)
{
	const struct ksymfs *fs = *state;
	int progs[VERSIONS];
	char *texts[VERSIONS];
	void *maps[VERSIONS];
	size_t sizes[VERSIONS];

	for (int i = 0; i < VERSIONS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "mapped_%d", i);
		progs[i] = load_simple(name, i);
		_cleanup_fd_ int fd = ksymfs_open(fs, "ksyms");
		assert_true(fd >= 0);
		texts[i] = read_fd(fd, &sizes[i]);
		assert_non_null(strstr(texts[i], name));
		maps[i] = mmap(NULL, sizes[i], PROT_READ, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(maps[i], MAP_FAILED);
	}
	for (int i = 0; i < VERSIONS; i++) {
		assert_memory_equal(maps[i], texts[i], sizes[i]);
		munmap(maps[i], sizes[i]);
		free(texts[i]);
		close(progs[i]);
	}
}

static void a_bind_mount_of_one_file_shows_each_change(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *path = ksymfs_path(fs, "ksyms");
	char bind[] = "/tmp/ksymfs-bind-XXXXXX";
	_cleanup_fd_ int target = mkstemp(bind);

	assert_true(target >= 0);
	assert_int_equal(mount(path, bind, NULL, MS_BIND, NULL), 0);
	for (int i = 0; i < 20; i++) {
		char name[16], symbol[32];

		snprintf(name, sizeof(name), "bound_%d", i);
		snprintf(symbol, sizeof(symbol), "_%s\t[bpf]", name);
		_cleanup_fd_ int prog = load_simple(name, i);
		_cleanup_free_ char *text = read_path(bind, NULL);
		struct stat st;
		/* Somebody else's program may come in between, not a difference of more. */
		assert_int_equal(stat(bind, &st), 0);
		if (!strstr(text, symbol))
			fail_msg("round %d: no %s in the bind mount", i, symbol);
	}
	assert_int_equal(umount2(bind, 0), 0);
	unlink(bind);
}

static void a_directory_lists_itself_and_its_parent(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *path = ksymfs_path(fs, "bpf");
	_cleanup_dir_ DIR *dir = opendir(path);
	struct stat bpf, root;
	int found = 0;

	assert_non_null(dir);
	assert_int_equal(ksymfs_stat(fs, &bpf, "bpf"), 0);
	assert_int_equal(ksymfs_stat(fs, &root, "."), 0);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0)
			assert_int_equal(entry->d_ino, bpf.st_ino);
		else if (strcmp(entry->d_name, "..") == 0)
			assert_int_equal(entry->d_ino, root.st_ino);
		else
			continue;
		assert_int_equal(entry->d_type, DT_DIR);
		found++;
	}
	assert_int_equal(found, 2);
}

/* How often the rest of a directory has a name. */
static int count_in(DIR *dir, const char *name)
{
	int count = 0;

	for (struct dirent *entry; (entry = readdir(dir));)
		count += strcmp(entry->d_name, name) == 0;
	return count;
}

/* A list that is read on is the one of the open; from its begin once more it is a new one. */
static void a_directory_that_is_rewound_is_listed_anew(void **state)
{
	const struct ksymfs *fs = *state;
	_cleanup_free_ char *path = ksymfs_path(fs, "bpf/by-id");
	_cleanup_fd_ int first = load_simple("rewound_1", 71);
	char name[16], other[16];
	_cleanup_dir_ DIR *dir = opendir(path);

	assert_non_null(dir);
	snprintf(name, sizeof(name), "%u", prog_id(first));
	assert_int_equal(count_in(dir, name), 1);
	_cleanup_fd_ int second = load_simple("rewound_2", 72);

	snprintf(other, sizeof(other), "%u", prog_id(second));
	for (int i = 0; i < 3; i++) {
		rewinddir(dir);
		assert_int_equal(count_in(dir, other), 1);
		assert_int_equal(count_in(dir, other), 0);
	}
	rewinddir(dir);
	assert_int_equal(count_in(dir, name), 1);
}

int main(void)
{
	static const struct CMUnitTest nodes[] = {
		cmocka_unit_test(everything_that_writes_is_erofs),
		cmocka_unit_test(an_open_file_keeps_its_bytes),
		cmocka_unit_test(a_mapping_keeps_its_bytes_past_its_handle),
		cmocka_unit_test(many_open_versions_keep_their_bytes),
		cmocka_unit_test(many_open_at_once_what_changes),
		cmocka_unit_test(many_mapped_versions_keep_their_bytes),
		cmocka_unit_test(a_bind_mount_of_one_file_shows_each_change),
		cmocka_unit_test(a_directory_that_is_rewound_is_listed_anew),
		cmocka_unit_test(a_directory_lists_itself_and_its_parent),
	};

	return live_run(nodes);
}
