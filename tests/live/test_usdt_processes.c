/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes usdt/ has, and whose a directory in it is. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/live/child.h"
#include "tests/live/support.h"
#include "tests/live/usdt_rows.h"

static long leave_main_thread(const char *unused);

static void *other_thread(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

static long leave_main_thread(const char *unused)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, other_thread, NULL) != 0)
		return -1;
	/* No answer: whoever asked waits for the state that this brings about. */
	pthread_exit(NULL);
}

static bool main_thread_left(void *arg)
{
	_cleanup_free_ char *path = NULL;
	struct child *child = arg;
	size_t len;

	assert_true(asprintf(&path, "/proc/%d/maps", child->pid) > 0);
	free(read_path(path, &len));
	return len == 0;
}

static void test_outlived_main_thread(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = kstest_path("kstest_lld.so");

	assert_int_equal(child_call(child, child_dlopen_memfd, path), 0);
	struct {
		child_fn fn;
		char arg[PATH_MAX];
	} command = {leave_main_thread, ""};

	assert_int_equal(write(child->socket, &command, sizeof(command)), sizeof(command));
	assert_true(wait_until(main_thread_left, child, 10));
	_cleanup_free_ char *objects = usdt_read(fs, child->pid, "objects");

	assert_int_equal(count_lines_with(objects, " kind=memfd "), 1);
	objects[strcspn(objects, " ")] = '\0';
	assert_whole_provider(fs, child->pid, objects, "memfd");
	_cleanup_free_ char *top = ksymfs_path(fs, "usdt");

	assert_int_equal(run("ls %s | grep -qx %d", top, child->pid), 0);
	_cleanup_free_ char *all = ksymfs_read(fs, NULL, "usdt/probes");

	assert_int_equal(count_lines_with(all, objects), 4);
}

static bool is_listed(const char *path, pid_t pid)
{
	_cleanup_dir_ DIR *dir = opendir(path);
	bool found = false;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		found = found || atoi(entry->d_name) == pid;
	return found;
}

/* It is there, as under /proc, and empty, so that no walk meets an error. */
static void assert_shows_nothing(const struct ksymfs *fs, pid_t pid)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "usdt/%d", pid);
	struct stat st;

	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", pid), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(run("[ -z \"$(ls -A %s)\" ] && grep -r . %s; [ $? -eq 1 ]", path, path),
			 0);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d/notes", pid), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d/providers", pid), -ENOENT);
}

static long start_thread(const char *unused)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, other_thread, NULL) == 0 ? 0 : -1;
}

static pid_t other_thread_of(pid_t pid)
{
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "/proc/%d/task", pid) > 0);
	_cleanup_dir_ DIR *dir = opendir(path);

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != pid)
			return atoi(entry->d_name);
	fail_msg("%d has no other thread", pid);
	return 0;
}

static void test_which_processes(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *top = ksymfs_path(fs, "usdt");
	struct stat st;

	fflush(NULL);
	pid_t zombie = fork();

	if (zombie == 0)
		_exit(0);
	siginfo_t info;

	assert_return_code(waitid(P_PID, zombie, &info, WEXITED | WNOWAIT), errno);
	/* kthreadd. */
	assert_shows_nothing(fs, 2);
	assert_shows_nothing(fs, zombie);
	waitpid(zombie, NULL, 0);
	/* At once. */
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", zombie), -ENOENT);
	assert_false(is_listed(top, zombie));
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/0"), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/0%d", child->pid), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d/x", child->pid), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/99999999999"), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", child->pid), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_true(is_listed(top, child->pid));
	/* A thread is no process, though /proc has its number. */
	assert_int_equal(child_call(child, start_thread, ""), 0);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", other_thread_of(child->pid)), -ENOENT);
}

/* Nobody's directory shows who has the pid by now. */
static void test_recycled_pid(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *object = kstest_path("kstest_lld.so");
	_cleanup_free_ char *dir = ksymfs_path(fs, "usdt/%d", child->pid);
	_cleanup_free_ char *providers = ksymfs_path(fs, "usdt/%d/providers/kstest", child->pid);

	assert_int_equal(child_call(child, child_dlopen, object), 0);
	_cleanup_fd_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int providers_fd = open(providers, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int notes = ksymfs_open(fs, "usdt/%d/notes", child->pid);

	assert_true(fd >= 0 && providers_fd >= 0 && notes >= 0);
	assert_int_equal(faccessat(fd, "notes", R_OK, 0), 0);
	assert_int_equal(faccessat(providers_fd, "plain", R_OK, 0), 0);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	assert_int_equal(faccessat(fd, "notes", R_OK, 0), -1);
	assert_int_equal(errno, ESTALE);
	pid_t again = fork_as(child->pid);

	if (again < 0)
		skip_because("cannot have pid %d again: %s", child->pid, strerror(errno));
	assert_int_equal(faccessat(fd, "notes", R_OK, 0), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(faccessat(providers_fd, "plain", R_OK, 0), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
	assert_int_equal(errno, ESTALE);
	/* What was opened before is what it was; by the path it is the new one, which child_stop()
	 * ends. */
	_cleanup_free_ char *old = read_fd(notes, NULL);
	_cleanup_free_ char *new = usdt_read(fs, again, "notes");

	assert_int_equal(count_lines_with(old, object), 5);
	assert_int_equal(count_lines_with(new, object), 0);
}

static long link_of_self(const char *path)
{
	char link[32] = "";

	return readlink(path, link, sizeof(link) - 1) < 0 ? -errno : atoi(link);
}

struct self_thread {
	char *path;
	long seen;
};

static void *read_self(void *arg)
{
	struct self_thread *thread = arg;

	thread->seen = link_of_self(thread->path);
	return NULL;
}

static void test_self(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_child_ struct child *child = child_start();
	_cleanup_free_ char *path = ksymfs_path(fs, "usdt/self");
	struct self_thread thread = {path, 0};
	pthread_t other;

	assert_int_equal(link_of_self(path), getpid());
	assert_int_equal(child_call(child, link_of_self, path), child->pid);
	assert_int_equal(link_of_self(path), getpid());
	/* A thread's is its process's. */
	assert_int_equal(pthread_create(&other, NULL, read_self, &thread), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(thread.seen, getpid());
	free(ksymfs_read(fs, NULL, "usdt/self/notes"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outlived_main_thread),
		cmocka_unit_test(test_which_processes),
		cmocka_unit_test(test_recycled_pid),
		cmocka_unit_test(test_self),
	};

	return live_run(tests);
}
