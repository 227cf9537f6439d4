/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening what this process maps, with the right to use map_files and without. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/procfile.h"

static char directory[64];

struct mapped {
	struct text text;
	struct maps maps;
	const struct mapping *mapping;
};

/* Maps fd and finds that mapping in our own maps. */
static struct mapped map_fd(int fd)
{
	_cleanup_fd_ int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mapped mapped = {};
	void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	assert_true(at != MAP_FAILED);
	assert_int_equal(maps_read_text(dir, &mapped.text), 0);
	assert_int_equal(maps_parse(mapped.text.data, mapped.text.len, &mapped.maps), 0);
	mapped.mapping = maps_find(&mapped.maps, (uintptr_t)at);
	assert_non_null(mapped.mapping);
	return mapped;
}

static void unmap(struct mapped *mapped)
{
	munmap((void *)(uintptr_t)mapped->mapping->start, 4096);
	maps_deinit(&mapped->maps);
	text_deinit(&mapped->text);
}

static int make_file(const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", directory, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	return fd;
}

static int open_mapped(const struct mapping *mapping, dev_t own_dev, struct mapped_file *ret)
{
	_cleanup_fd_ int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return mapped_file_open(dir, mapping, own_dev, ret);
}

static void assert_opens(const struct mapping *mapping, int fd)
{
	struct mapped_file file;
	struct file_state state;
	char bytes[5];

	assert_int_equal(open_mapped(mapping, 0, &file), 0);
	assert_int_equal(file_state_of(fd, &state), 0);
	assert_true(file_state_equal(&file.state, &state));
	_cleanup_fd_ int again = mapped_file_reopen(&file);

	assert_true(again >= 0);
	assert_int_equal(pread(again, bytes, 5, 0), 5);
	assert_memory_equal(bytes, "hello", 5);
	assert_int_equal(fcntl(again, F_GETFL) & O_ACCMODE, O_RDONLY);
	mapped_file_close(&file);
}

static const char *const names[] = {"plain", "with blank", "with\nnewline", "with\\012backslash",
				    "x (deleted)"};

static void test_open(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX];
		_cleanup_fd_ int fd = make_file(names[i], path);
		struct mapped mapped = map_fd(fd);
		struct mapped_file file;
		struct stat st;

		assert_opens(mapped.mapping, fd);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(open_mapped(mapped.mapping, st.st_dev, &file), -EXDEV);
		unlink(path);
		unmap(&mapped);
	}
}

/* What the kernel lets few do: by then the path must do, and be the same file's. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};

	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void in_child(void (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		drop_capabilities();
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* In a child a failed assertion must not go on with the parent's tests. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "# line %d: %s\n", __LINE__, #condition);                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static bool opens(const struct mapping *mapping)
{
	struct mapped_file file = MAPPED_FILE_NONE;
	int r = open_mapped(mapping, 0, &file);

	mapped_file_close(&file);
	return r == 0;
}

static void fall_back(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX], moved[PATH_MAX], entry[64] = "/proc/self/map_files/";
		_cleanup_fd_ int fd = make_file(names[i], path);
		struct mapped mapped = map_fd(fd);

		/* This is what it falls back from. */
		mapping_name(mapped.mapping, entry + strlen(entry));
		CHECK(open(entry, O_PATH | O_CLOEXEC) < 0 && errno == EPERM);
		CHECK(opens(mapped.mapping));
		/* Another file at that path, or a FIFO or nothing, is not taken for it. */
		snprintf(moved, sizeof(moved), "%s/moved", directory);
		CHECK(rename(path, moved) == 0);
		CHECK(!opens(mapped.mapping));
		CHECK(mkfifo(path, 0600) == 0);
		CHECK(!opens(mapped.mapping));
		CHECK(unlink(path) == 0);
		close(make_file(names[i], path));
		CHECK(!opens(mapped.mapping));
		CHECK(rename(moved, path) == 0);
		CHECK(opens(mapped.mapping));
		unlink(path);
		unmap(&mapped);
	}
}

static void test_fall_back(void **state)
{
	in_child(fall_back);
}

/* maps of before, and a process that has mapped something else in that place since. */
static void test_remapped(void **state)
{
	char path[PATH_MAX], other_path[PATH_MAX];
	_cleanup_fd_ int fd = make_file("first", path), other = make_file("second", other_path);
	struct mapped mapped = map_fd(fd);
	struct mapped_file file;
	void *at = (void *)(uintptr_t)mapped.mapping->start;

	assert_true(mmap(at, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, other, 0) == at);
	assert_int_equal(open_mapped(mapped.mapping, 0, &file), -ESTALE);
	unlink(path);
	unlink(other_path);
	unmap(&mapped);
}

static void test_not_regular(void **state)
{
	_cleanup_fd_ int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	struct mapped_file file;
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, zero, 0);
	struct mapping mapping = {.start = (uintptr_t)at, .end = (uintptr_t)at + 4096};
	struct stat st;

	assert_true(at != MAP_FAILED);
	assert_int_equal(fstat(zero, &st), 0);
	mapping.dev = st.st_dev;
	mapping.inode = st.st_ino;
	mapping.path = "/dev/zero";
	mapping.path_len = strlen(mapping.path);
	assert_int_equal(open_mapped(&mapping, 0, &file), -EINVAL);
	munmap(at, 4096);
}

static void test_processes(void **state)
{
	_cleanup_fd_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_process_ struct process process = PROCESS_NONE;
	pid_t tid, pid;
	int status;

	assert_int_equal(process_find(proc, getpid(), &tid), 0);
	assert_int_equal(tid, getpid());
	assert_int_equal(process_open(proc, getpid(), &process), 0);
	assert_int_equal(process.pid, getpid());
	assert_int_equal(task_process(proc, getpid(), &pid), 0);
	assert_int_equal(pid, getpid());
	/* A zombie, kthreadd, nobody. */
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, child, NULL, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_find(proc, child, &tid), -ESRCH);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(process_find(proc, child, &tid), -ESRCH);
	assert_int_equal(task_process(proc, child, &pid), -ESRCH);
	if (access("/proc/2/task/2", F_OK) == 0)
		assert_true(process_find(proc, 2, &tid) < 0);
}

static int set_up(void **state)
{
	strcpy(directory, "/dev/shm/test-procfile-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),	  cmocka_unit_test(test_fall_back),
		cmocka_unit_test(test_remapped),  cmocka_unit_test(test_not_regular),
		cmocka_unit_test(test_processes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
