/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usdt/ for processes that are somewhere else: another root, another mount namespace, devices,
 * files that change while they are read, a file system that has stopped to answer.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live/child.h"
#include "tests/live/hungfs.h"
#include "tests/live/support.h"
#include "tests/live/usdt_rows.h"

/* A directory that the children of a test have as their playground. */
static char playground[64];

static int make_playground(void **state)
{
	strcpy(playground, "/tmp/ksymfs-places-XXXXXX");
	return mkdtemp(playground) ? 0 : -1;
}

static int remove_playground(void **state)
{
	/* What a test that failed has mounted there. */
	while (umount2(playground, MNT_DETACH) == 0)
		;
	return run("rm -rf --one-file-system %s", playground);
}

static long copy_file(const char *from, const char *to)
{
	_cleanup_fd_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return -1;
	return sendfile(out, in, NULL, st.st_size) == st.st_size ? 0 : -1;
}

/* The one object with notes of a process: its path, and the rest of its line in `ret_line`. */
static char *only_object(const struct ksymfs *fs, pid_t pid, char **ret_line)
{
	char *objects = usdt_read(fs, pid, "objects");

	if (count_lines_with(objects, " sites=") != 1)
		fail_msg("not one object: %s", objects);
	size_t len = strcspn(objects, " ");

	*ret_line = objects + len + 1;
	objects[len] = '\0';
	return objects;
}

/* It is found, by this path if there is one, and by its entry in map_files if not. */
static void assert_object(const struct ksymfs *fs, pid_t pid, const char *path, const char *kind,
			  const char *mapped)
{
	char *line, expected[PATH_MAX];
	_cleanup_free_ char *object = only_object(fs, pid, &line);
	_cleanup_free_ char *notes = usdt_read(fs, pid, "notes");

	snprintf(expected, sizeof(expected), "/proc/%d/map_files/", pid);
	if (path)
		assert_string_equal(object, path);
	else
		assert_int_equal(strncmp(object, expected, strlen(expected)), 0);
	snprintf(expected, sizeof(expected), "kind=%s ", kind);
	assert_int_equal(strncmp(line, expected, strlen(expected)), 0);
	snprintf(expected, sizeof(expected), " mapped=%s\n", mapped);
	if (!strstr(line, expected))
		fail_msg("no %s in %s", expected, line);
	struct usdt_rows rows = usdt_rows_of(notes, object);

	assert_int_equal(rows.count, 5);
	for (size_t i = 0; i < rows.count; i++)
		assert_nop(object, rows.rows[i].offset);
	usdt_rows_deinit(&rows);
}

/* ---- other roots ---- */

/* An object of another name is mapped before the root changes: the libc that dlopen() wants is not
 * in the new one. */
static long chroot_and_map(const char *dir)
{
	return chroot(dir) < 0 || chdir("/") < 0 ? -1 : child_map("/lib.so");
}

static void test_chroot(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"), *path = NULL;

	assert_true(asprintf(&path, "%s/lib.so", playground) > 0);
	assert_int_equal(copy_file(lld, path), 0);
	assert_int_equal(child_call(child, chroot_and_map, playground), 0);
	/* The path as the reader of maps sees it, which is us: with the root's own in front. */
	assert_object(fs, child->pid, path, "file", path);
	assert_return_code(unlink(path), errno);
}

static long unshare_mounts(const char *dir)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return mount("tmpfs", dir, "tmpfs", 0, NULL);
}

static const char *source_object;

static long fill_and_map(const char *path)
{
	return copy_file(source_object, path) < 0 ? -1 : child_map(path);
}

/* A private tmpfs: its files have no path of ours, or that of another file. */
static void test_mount_namespace(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"),
			    *bfd = kstest_path("kstest_bfd.so");
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "%s/lib.so", playground) > 0);
	source_object = lld;
	_cleanup_child_ struct child *child = child_start();

	assert_int_equal(child_call(child, unshare_mounts, playground), 0);
	assert_int_equal(child_call(child, fill_and_map, path), 0);
	assert_object(fs, child->pid, NULL, "file", path);
	/* Ours is another one. */
	assert_int_equal(copy_file(bfd, path), 0);
	assert_object(fs, child->pid, NULL, "file", path);
	/* What both have is given by its path in there too. */
	_cleanup_child_ struct child *other = child_start();

	assert_int_equal(child_call(other, unshare_mounts, playground), 0);
	assert_int_equal(child_call(other, child_map, lld), 0);
	assert_object(fs, other->pid, lld, "file", lld);
	assert_return_code(unlink(path), errno);
}

/* A file that is mounted over where it was. */
static void test_overmounted(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"), *path = NULL;

	assert_true(asprintf(&path, "%s/lib.so", playground) > 0);
	assert_int_equal(copy_file(lld, path), 0);
	assert_int_equal(child_call(child, child_map, path), 0);
	assert_object(fs, child->pid, path, "file", path);
	assert_return_code(mount("tmpfs", playground, "tmpfs", 0, NULL), errno);
	assert_object(fs, child->pid, NULL, "file", path);
	assert_return_code(umount(playground), errno);
	assert_object(fs, child->pid, path, "file", path);
	assert_return_code(unlink(path), errno);
}

/* ---- what is no file ---- */

static long map_devices(const char *fifo)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
	_cleanup_fd_ int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	_cleanup_fd_ int event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	size_t page = sysconf(_SC_PAGESIZE);

	if (mkfifo(fifo, 0600) < 0)
		return -1;
	/* Private and shared, a device that makes a mapping of its own, an anonymous inode. */
	if (mmap(NULL, page, PROT_READ, MAP_PRIVATE, zero, 0) == MAP_FAILED ||
	    mmap(NULL, page, PROT_READ, MAP_SHARED, zero, 0) == MAP_FAILED ||
	    mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, event, 0) == MAP_FAILED)
		return -2;
	return 0;
}

static void test_devices(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"), *fifo = NULL;

	assert_true(asprintf(&fifo, "%s/fifo", playground) > 0);
	assert_int_equal(child_call(child, map_devices, fifo), 0);
	assert_int_equal(child_call(child, child_map, lld), 0);
	assert_object(fs, child->pid, lld, "file", lld);
	assert_return_code(unlink(fifo), errno);
}

/* A file of the tree itself: reading it to answer would wait for ourselves. */
static void test_own_mount(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so");
	_cleanup_free_ char *ksyms = ksymfs_path(fs, "ksyms");

	assert_int_equal(child_call(child, child_map, ksyms), 0);
	assert_int_equal(child_call(child, child_map, lld), 0);
	uint64_t start = monotonic_ns();

	assert_object(fs, child->pid, lld, "file", lld);
	assert_true(monotonic_ns() - start < 4 * NSEC_PER_SEC);
}

/* ---- what changes meanwhile ---- */

static long cut_and_mend(const char *path)
{
	_cleanup_free_ char *data = NULL;
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	data = malloc(st.st_size);
	if (!data || pread(fd, data, st.st_size, 0) != st.st_size || child_map(path) < 0)
		return -1;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned int i = 0;; i++)
			if (ftruncate(fd, i * 977 % st.st_size) < 0 ||
			    pwrite(fd, data, st.st_size, 0) < 0)
				_exit(1);
	}
	return 0;
}

/* Rows may be fewer or faulty while it is cut; nothing hangs or dies, and then it is whole. */
static void test_truncated_while_read(void **state)
{
	struct ksymfs *fs = *state;
	struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"), *path = NULL;

	assert_true(asprintf(&path, "%s/cut.so", playground) > 0);
	assert_int_equal(copy_file(lld, path), 0);
	assert_int_equal(child_call(child, cut_and_mend, path), 0);
	for (int i = 0; i < 300; i++) {
		_cleanup_free_ char *notes = usdt_read(fs, child->pid, "notes");

		assert_true(count_lines_with(notes, " args=") <= 6);
	}
	child_stop(child);
	assert_int_equal(copy_file(lld, path), 0);
	child = child_start();
	assert_int_equal(child_call(child, child_map, path), 0);
	assert_object(fs, child->pid, path, "file", path);
	child_stop(child);
	assert_return_code(unlink(path), errno);
}

static long load_and_unload(const char *path)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			void *handle = dlopen(path, RTLD_NOW);

			if (!handle || dlclose(handle) != 0)
				_exit(1);
		}
	}
	return 0;
}

/* Processes come and go, and map and unmap, while the whole machine is listed. */
static void test_churn(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so");
	_cleanup_free_ char *top = ksymfs_path(fs, "usdt");

	assert_int_equal(child_call(child, load_and_unload, lld), 0);
	for (int i = 0; i < 20; i++) {
		free(ksymfs_read(fs, NULL, "usdt/probes"));
		assert_int_equal(run("for p in 1 2 3 4 5; do true & done; ls %s > /dev/null", top),
				 0);
	}
}

/* ---- what does not answer ---- */

struct timed_read {
	const struct ksymfs *fs;
	pid_t pid;
	char *notes;
	uint64_t took_ns;
};

static void *read_timed(void *arg)
{
	struct timed_read *timed = arg;
	uint64_t start = monotonic_ns();

	timed->notes = usdt_read(timed->fs, timed->pid, "notes");
	timed->took_ns = monotonic_ns() - start;
	return NULL;
}

static char *hung_path;

static long map_hung(const char *path)
{
	return child_map(path);
}

static void test_hung_file_system(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *lld = kstest_path("kstest_lld.so"),
			    *bfd = kstest_path("kstest_bfd.so");
	_cleanup_child_ struct child *child = child_start(), *bystander = child_start();
	struct hungfs *hungfs = hungfs_start(playground, lld);

	hung_path = hungfs_path(hungfs);
	assert_int_equal(child_call(child, map_hung, hung_path), 0);
	assert_int_equal(child_call(child, child_map, bfd), 0);
	assert_int_equal(child_call(bystander, child_map, bfd), 0);
	/* As long as it answers, it is as any other. */
	_cleanup_free_ char *objects = usdt_read(fs, child->pid, "objects");

	assert_int_equal(count_lines_with(objects, " sites=5 "), 2);

	hungfs_hang(hungfs);
	/* The state of the file is asked for anew, and that gets no answer. */
	struct timed_read timed = {fs, child->pid};
	pthread_t reader;

	assert_int_equal(pthread_create(&reader, NULL, read_timed, &timed), 0);
	/* Others are served meanwhile. */
	uint64_t start = monotonic_ns();

	assert_object(fs, bystander->pid, bfd, "file", bfd);
	free(ksymfs_read(fs, NULL, "status"));
	assert_true(monotonic_ns() - start < 4 * NSEC_PER_SEC);
	assert_int_equal(pthread_join(reader, NULL), 0);
	/* Whoever asked got the rest, after a wait. */
	assert_int_equal(count_lines_with(timed.notes, " args="), 5);
	assert_int_equal(count_lines_with(timed.notes, bfd), 5);
	free(timed.notes);
	assert_true(timed.took_ns < 30 * NSEC_PER_SEC);
	_cleanup_free_ char *silent = ksymfs_value(fs, "usdt_not_answering", "status");

	assert_string_equal(silent, "1");
	/* And the next one does not wait at all. */
	read_timed(&timed);
	assert_int_equal(count_lines_with(timed.notes, " args="), 5);
	free(timed.notes);
	assert_true(timed.took_ns < 4 * NSEC_PER_SEC);
	free(ksymfs_read(fs, NULL, "usdt/probes"));

	hungfs_answer(hungfs);
	read_timed(&timed);
	for (int i = 0; i < 100 && count_lines_with(timed.notes, " args=") != 10; i++) {
		usleep(100000);
		free(timed.notes);
		read_timed(&timed);
	}
	assert_int_equal(count_lines_with(timed.notes, " args="), 10);
	free(timed.notes);
	child_stop(take_ptr(child));
	free(hung_path);
	hungfs_stop(hungfs);
}

/* A program that was started from there: it is listed, and looked up, without a question to it. */
static void test_hung_executable(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *pie = kstest_path("kstest_pie_lld");
	struct hungfs *hungfs = hungfs_start(playground, pie);
	_cleanup_free_ char *path = hungfs_path(hungfs);
	struct program program = program_start(path);
	_cleanup_free_ char *top = ksymfs_path(fs, "usdt");
	struct stat st;

	_cleanup_free_ char *before = usdt_read(fs, program.pid, "notes");

	assert_int_equal(count_lines_with(before, " args="), 5);
	hungfs_hang(hungfs);
	uint64_t start = monotonic_ns();

	assert_int_equal(run("cd %s && ls -ld [0-9]* | grep -q ' %d$'", top, program.pid), 0);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d/providers", program.pid), 0);
	assert_true(monotonic_ns() - start < 4 * NSEC_PER_SEC);
	struct timed_read timed = {fs, program.pid};

	read_timed(&timed);
	assert_int_equal(count_lines_with(timed.notes, " args="), 0);
	free(timed.notes);
	assert_true(timed.took_ns < 30 * NSEC_PER_SEC);
	hungfs_answer(hungfs);
	program_stop(&program);
	hungfs_stop(hungfs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, make_playground, remove_playground)
		PLACE_TEST(test_chroot),	  PLACE_TEST(test_mount_namespace),
		PLACE_TEST(test_overmounted),	  PLACE_TEST(test_devices),
		PLACE_TEST(test_own_mount),	  PLACE_TEST(test_truncated_while_read),
		PLACE_TEST(test_churn),		  PLACE_TEST(test_hung_file_system),
		PLACE_TEST(test_hung_executable),
	};

	return live_run(tests);
}
