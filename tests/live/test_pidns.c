/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose pids usdt/ and pins/ have: those of the mounter's pid namespace, or of --pidns. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/live/container.h"
#include "tests/live/support.h"

static struct ksymfs *start(const struct container *container, const char *option)
{
	char pidns[32];
	const char *const options[] = {pidns, option, NULL};

	snprintf(pidns, sizeof(pidns), "--pidns=%d", container->pid);
	return ksymfs_start(options);
}

static void attach(const struct ksymfs *fs, const struct container *container)
{
	assert_int_equal(
		run("%s attach --from=%s %d /mnt", getenv("KSYMFS"), fs->dir, container->pid), 0);
}

static void only_its_processes_are_there(void **state)
{
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_USER | CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, NULL);
	_cleanup_free_ char *usdt = ksymfs_path(fs, "usdt");
	_cleanup_dir_ DIR *dir = opendir(usdt);
	struct stat st;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			assert_string_equal(entry->d_name, "1");
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/1/notes"), 0);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", container->pid), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/%d", getpid()), -ENOENT);
	/* We are none of it, and it has no number for us. */
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/self"), -ENOENT);
}

static void self_is_its_own_number(void **state)
{
	need_copies();
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_USER | CONTAINER_PIVOT);
	/* Its root is the owner, also where copies are not id-mapped. */
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, "-ouid=100000,gid=100000");
	int pid, self;

	attach(fs, container);
	_cleanup_free_ char *text =
		container_output(container, "echo $$; exec busybox readlink /mnt/usdt/self");
	assert_int_equal(sscanf(text, "%d %d", &pid, &self), 2);
	assert_int_equal(pid, self);
	/* From a namespace below, where it is the first, it has the number that it has here. */
	_cleanup_free_ char *below = container_output(
		container, "busybox unshare -p -f busybox readlink /mnt/usdt/self");
	assert_int_equal(sscanf(below, "%d", &self), 1);
	assert_true(self > pid);
}

/* In the container, by setns(2): writes what usdt/self leads to, and the writer's pid is ours. */
static pid_t self_in(const struct container *container, pid_t *ret_self)
{
	char path[64], link[32] = {};
	int result[2];
	pid_t numbers[2];

	assert_int_equal(pipe2(result, O_CLOEXEC), 0);
	pid_t entering = fork();
	if (entering == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", container->pid);
		int pidns = open(path, O_RDONLY | O_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", container->pid);
		int mntns = open(path, O_RDONLY | O_CLOEXEC);

		if (setns(pidns, CLONE_NEWPID) < 0 || setns(mntns, CLONE_NEWNS) < 0)
			_exit(1);
		numbers[0] = fork();
		if (numbers[0] == 0) {
			if (readlink("/mnt/usdt/self", link, sizeof(link) - 1) <= 0)
				_exit(1);
			_exit(write(result[1], &(pid_t){atoi(link)}, sizeof(pid_t)) !=
			      sizeof(pid_t));
		}
		int status;
		waitpid(numbers[0], &status, 0);
		_exit(write(result[1], &numbers[0], sizeof(pid_t)) != sizeof(pid_t));
	}
	assert_int_equal(waitpid(entering, NULL, 0), entering);
	close(result[1]);
	assert_int_equal(read(result[0], numbers, sizeof(numbers)), sizeof(numbers));
	close(result[0]);
	*ret_self = numbers[0];
	return numbers[1];
}

static void self_is_the_mounters_number_without_the_option(void **state)
{
	need_copies();
	_cleanup_container_ struct container *container = container_start(CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);
	pid_t self;

	attach(fs, container);
	pid_t pid = self_in(container, &self);
	assert_int_equal(self, pid);
}

static void pins_have_its_numbers(void **state)
{
	struct container *container = container_start(CONTAINER_USER | CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, NULL);
	_cleanup_free_ char *pin = ksymfs_path(fs, "pins/1");
	_cleanup_free_ char *strangers = ksymfs_path(fs, "pins/%d", getpid());

	assert_int_equal(mkdir(strangers, 0700), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(mkdir(pin, 0700), 0);
	assert_int_equal(container_run(container, "echo of the container >/etc/name"), 0);
	for (int turn = 0; turn < 2; turn++) {
		_cleanup_free_ char *number = ksymfs_value(fs, "pid", "pins/1/info");
		_cleanup_free_ char *alive = ksymfs_value(fs, "state", "pins/1/info");
		_cleanup_free_ char *status = ksymfs_read(fs, NULL, "pins/1/status");

		assert_string_equal(number, "1");
		assert_string_equal(alive, turn ? "exited" : "alive");
		assert_non_null(strstr(status, "\nPid:\t1\n"));
		assert_non_null(strstr(status, "\nNSpid:\t1\n"));
		_cleanup_free_ char *name = ksymfs_read(fs, NULL, "pins/1/root/etc/name");
		assert_string_equal(name, "of the container\n");
		if (turn == 0)
			container_stop(container);
	}
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	assert_non_null(strstr(events, " pin-add pid=1\n"));
	assert_int_equal(rmdir(pin), 0);
}

static size_t count_pins(const struct ksymfs *fs)
{
	_cleanup_free_ char *pins = ksymfs_path(fs, "pins");
	_cleanup_dir_ DIR *dir = opendir(pins);
	size_t count = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	return count;
}

static void rules_pin_its_processes_alone(void **state)
{
	_cleanup_container_ struct container *container = container_start(CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, "--pin=comm:busybox-kst");

	assert_int_equal(run("cd /tmp && cp /bin/busybox busybox-kst && ./busybox-kst true;"
			     "rm busybox-kst"),
			 0);
	assert_int_equal(count_pins(fs), 0);
	assert_int_equal(container_run(container,
				       "cd /tmp && cp /bin/busybox busybox-kst || exit 1;"
				       "./busybox-kst sleep 1000 &"
				       "until grep -q kst /proc/$!/comm; do :; done"),
			 0);
	assert_int_equal(count_pins(fs), 1);
}

static void a_namespace_that_is_gone_is_empty(void **state)
{
	struct container *container = container_start(CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, NULL);
	struct stat st;

	assert_int_equal(ksymfs_stat(fs, &st, "usdt/1"), 0);
	container_stop(container);
	assert_int_equal(ksymfs_stat(fs, &st, "usdt/1"), -ENOENT);
	_cleanup_free_ char *probes = ksymfs_read(fs, NULL, "usdt/probes");
	assert_string_equal(probes, "");
	_cleanup_free_ char *pin = ksymfs_path(fs, "pins/1");
	assert_int_equal(mkdir(pin, 0700), -1);
	assert_int_equal(errno, ESRCH);
}

/* The next daemon has the namespace from the last one, though nobody is left to name it by. */
static void it_goes_on_past_a_crash(void **state)
{
	struct container *container = container_start(CONTAINER_PIVOT);
	_cleanup_ksymfs_ struct ksymfs *fs = start(container, NULL);
	struct stat st;

	for (int turn = 0; turn < 2; turn++) {
		_cleanup_free_ char *pid = ksymfs_value(fs, "pid", "status");

		kill(atoi(pid), SIGKILL);
		_cleanup_free_ char *next = ksymfs_value(fs, "pid", "status");
		assert_string_not_equal(pid, next);
		assert_int_equal(ksymfs_stat(fs, &st, "usdt/1"), turn ? -ENOENT : 0);
		assert_int_equal(ksymfs_stat(fs, &st, "usdt/self"), -ENOENT);
		if (turn == 0)
			container_stop(container);
	}
}

static void no_such_process_is_said(void **state)
{
	assert_int_equal(run("mkdir -p /tmp/ksymfs-pidns && "
			     "%s --pidns=4194304 /tmp/ksymfs-pidns 2>&1 | grep -q '^ksymfs: cannot "
			     "show the pid namespace of process 4194304: No such process$'",
			     getenv("KSYMFS")),
			 0);
	rmdir("/tmp/ksymfs-pidns");
}

/*
 * Who asks from outside of the daemon's pid namespace cannot be known: no self, no addresses. And
 * the namespace can end with the daemon in it, which has nothing to detach then.
 */
static void strangers_to_the_daemon_see_neither_self_nor_addresses(void **state)
{
	struct container *container = container_start(0);
	char dir[] = "/tmp/ksymfs-inner-XXXXXX";

	assert_non_null(mkdtemp(dir));
	assert_int_equal(run("nsenter -t %d -m -p -- sh -c 'mount -t proc proc /proc; exec %s %s'",
			     container->pid, getenv("KSYMFS"), dir),
			 0);
	assert_int_equal(
		run("nsenter -t %d -m -p -- head -c 1 %s/ksyms >/dev/null", container->pid, dir),
		0);
	assert_int_equal(run("nsenter -t %d -m -- sh -c 'cat %s/README >/dev/null || exit 2; "
			     "! readlink %s/usdt/self && ! cat %s/ksyms 2>/dev/null'",
			     container->pid, dir, dir, dir),
			 0);
	assert_int_equal(run("nsenter -t %d -m -- grep -q '^capture-at-unload: off: in this pid "
			     "namespace' %s/status",
			     container->pid, dir),
			 0);
	container_stop(container);
	rmdir(dir);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_its_processes_are_there),
		cmocka_unit_test(self_is_its_own_number),
		cmocka_unit_test(self_is_the_mounters_number_without_the_option),
		cmocka_unit_test(pins_have_its_numbers),
		cmocka_unit_test(rules_pin_its_processes_alone),
		cmocka_unit_test(a_namespace_that_is_gone_is_empty),
		cmocka_unit_test(it_goes_on_past_a_crash),
		cmocka_unit_test(no_such_process_is_said),
		cmocka_unit_test(strangers_to_the_daemon_see_neither_self_nor_addresses),
	};

	return live_run_bare(tests);
}
