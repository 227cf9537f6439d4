/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that ends between any two steps of being pinned; and one that is half gone already. */
#include "core/pin.c"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/live/pins.h"

static struct pidns *pidns;
static const struct root_policy policy;
static const dev_t no_dev;

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

/* Ends it, and leaves it a zombie or not. */
static void end_child(pid_t pid, bool reap)
{
	siginfo_t info;

	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, pid, &info, WEXITED | (reap ? 0 : WNOWAIT)), 0);
}

static void pin_and_end(struct held_files *files, size_t steps_before, bool reap)
{
	pid_t pid = start_child();
	struct pin *pin;
	int r = pin_create(pidns, pid, files, &policy, &pin);

	for (size_t i = 0; i < steps_before && r == 0; i++)
		r = steps[i](pin);
	assert_int_equal(r, 0);
	end_child(pid, reap);
	for (size_t i = steps_before; i < ARRAY_SIZE(steps) && r == 0; i++)
		r = steps[i](pin);
	if (steps_before < ARRAY_SIZE(steps)) {
		/* Of a zombie's files in /proc some can be read still. */
		if (reap || steps_before < ARRAY_SIZE(steps) - 1)
			assert_true(r == -ESRCH || r == -ENOENT);
	} else {
		assert_int_equal(r, 0);
	}
	if (r == 0) {
		/* All of it, then. */
		assert_non_null(pin->root);
		assert_true(pin->mapping_count > 0);
		assert_true(snapshot_size(pin->texts[PIN_MAPS]) > 0);
		assert_false(pin_is_alive(pin));
		struct pin_exit exit;

		pin_exit(pin, &exit);
		assert_true(exit.exited);
		if (exit.has_status)
			assert_int_equal(exit.status, SIGKILL);
	}
	pin_unref(pin);
	if (!reap)
		waitpid(pid, NULL, 0);
}

static void test_ends_between_steps(void **state)
{
	struct held_files *files;

	assert_int_equal(held_files_create(1000, &no_dev, &files), 0);
	size_t fds = count_fds(getpid());

	for (size_t i = 0; i <= ARRAY_SIZE(steps); i++) {
		pin_and_end(files, i, true);
		pin_and_end(files, i, false);
		assert_int_equal(count_fds(getpid()), fds);
		assert_int_equal(held_files_count(files), 0);
	}
	held_files_destroy(files);
}

/* At any moment at all. */
static void test_ends_anywhere(void **state)
{
	struct held_files *files;
	unsigned int held = 0;

	assert_int_equal(held_files_create(1000, &no_dev, &files), 0);
	size_t fds = count_fds(getpid());

	for (int i = 0; i < 400; i++) {
		pid_t pid = start_child(), killer = fork();
		struct pin *pin;

		if (killer == 0) {
			for (volatile int spin = 0; spin < i * 3000; spin++)
				;
			kill(pid, SIGKILL);
			_exit(0);
		}
		int r = pin_open(pidns, pid, files, &policy, &pin);

		if (r != -ESRCH)
			assert_int_equal(r, 0);
		if (r == 0) {
			held++;
			assert_true(snapshot_size(pin->texts[PIN_MAPS]) > 0);
			/* To the last mapping: where the kernel's own are, above all others. */
			struct maps maps;
			size_t len = snapshot_size(pin->texts[PIN_MAPS]);
			_cleanup_free_ char *text = malloc(len);

			snapshot_read(pin->texts[PIN_MAPS], 0, text, len);
			assert_int_equal(maps_parse(text, len, &maps), 0);
			assert_true(maps.mappings[maps.count - 1].start > UINT64_C(0x7f) << 40);
			maps_deinit(&maps);
			pin_unref(pin);
		}
		waitpid(killer, NULL, 0);
		waitpid(pid, NULL, 0);
	}
	assert_true(held > 0);
	assert_int_equal(count_fds(getpid()), fds);
	held_files_destroy(files);
}

static void *outlive(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

static void test_main_thread_gone(void **state)
{
	struct held_files *files;
	struct pin *pin;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t thread;

		MUST(pthread_create(&thread, NULL, outlive, NULL) == 0);
		pthread_exit(NULL);
	}
	assert_int_equal(held_files_create(1000, &no_dev, &files), 0);
	/* Until the main thread is a zombie. */
	for (char thread_state = 0; thread_state != 'Z';) {
		char path[64];
		struct pid_stat stat;

		snprintf(path, sizeof(path), "/proc/%d", pid);
		_cleanup_fd_ int fd = open(path, O_PATH | O_DIRECTORY);

		assert_int_equal(pid_stat_read(fd, &stat), 0);
		thread_state = stat.state;
	}
	assert_int_equal(pin_open(pidns, pid, files, &policy, &pin), 0);
	assert_true(pin_is_alive(pin));
	assert_true(pin->mapping_count > 0);
	assert_non_null(pin->mappings[0].file);
	pin_look(pin, PIN_LOOK_ALL);
	pin_look_cmdline(pin);
	assert_true(snapshot_size(pin->texts[PIN_CMDLINE]) > 0);
	assert_true(snapshot_size(pin->texts[PIN_MAPS]) > 0);
	kill_and_wait(pid);
	assert_false(pin_is_alive(pin));
	assert_true(snapshot_size(pin->texts[PIN_MAPS]) > 0);
	pin_unref(pin);
	held_files_destroy(files);
}

/* One file, however many have it. */
static void test_files_are_shared(void **state)
{
	struct held_files *files;
	struct pin *pins[3];
	pid_t pids[3];
	unsigned int count = 0;

	assert_int_equal(held_files_create(1000, &no_dev, &files), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pins); i++) {
		pids[i] = start_child();
		assert_int_equal(pin_open(pidns, pids[i], files, &policy, &pins[i]), 0);
		if (i)
			assert_int_equal(held_files_count(files), count);
		count = held_files_count(files);
	}
	assert_true(count > 1);
	for (size_t i = 0; i < ARRAY_SIZE(pins); i++) {
		pin_release(pins[i]);
		pin_unref(pins[i]);
		kill_and_wait(pids[i]);
	}
	assert_int_equal(held_files_count(files), 0);
	held_files_destroy(files);

	/* And no more of them than may be. */
	assert_int_equal(held_files_create(1, &no_dev, &files), 0);
	pids[0] = start_child();
	assert_int_equal(pin_open(pidns, pids[0], files, &policy, &pins[0]), 0);
	assert_int_equal(held_files_count(files), 1);
	pin_unref(pins[0]);
	kill_and_wait(pids[0]);
	held_files_destroy(files);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends_between_steps),
		cmocka_unit_test(test_ends_anywhere),
		cmocka_unit_test(test_main_thread_gone),
		cmocka_unit_test(test_files_are_shared),
	};

	if (pidns_open(0, &pidns) < 0)
		return 1;
	int failed = live_run_bare(tests);

	pidns_close(pidns);
	return failed;
}
