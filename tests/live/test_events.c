/* SPDX-License-Identifier: GPL-2.0-or-later */
/* events: what it says of loads and unloads, and that readers who follow it miss nothing. */
#include "tests/live/support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int variant(int n)
{
	return (getpid() & 0xffff) << 12 | 0xa00 | n;
}

/* events has no fixed size: no measured reading. */
static char *read_events(const struct ksymfs *fs)
{
	_cleanup_free_ char *path = ksymfs_path(fs, "events");

	return read_path(path, NULL);
}

static size_t count_ending(const char *text, const char *format, ...)
{
	_cleanup_free_ char *tail = NULL, *copy = strdup(text);
	size_t count = 0;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&tail, format, args) > 0);
	va_end(args);
	for (char *line, *cursor = copy; (line = next_line(&cursor));) {
		/* After the time. */
		const char *rest = strchr(line, ' ');

		count += rest && strcmp(rest + 1, tail) == 0;
	}
	return count;
}

static void test_load_and_unload(void **state)
{
	int prog = load_simple("events_one", variant(1));
	char comm[16], symbol[128];
	struct oracle oracle;

	prctl(PR_GET_NAME, comm);
	oracle_read(prog, &oracle);
	snprintf(symbol, sizeof(symbol), "%016" PRIx64 " %016" PRIx32 " bpf_prog_%s_events_one",
		 oracle.ksyms[0], oracle.func_lens[0], oracle.tag);
	_cleanup_free_ char *loaded = read_events(*state);

	assert_int_equal(count_ending(loaded, "ksym-add %s pid=%d comm=%s", symbol, getpid(), comm),
			 1);
	assert_int_equal(count_ending(loaded,
				      "prog-load id=%" PRIu32 " tag=%s type=socket_filter "
				      "name=events_one pid=%d comm=%s",
				      oracle.info.id, oracle.tag, getpid(), comm),
			 1);
	assert_int_equal(count_ending(loaded, "ksym-del %s", symbol), 0);
	unload(prog);

	_cleanup_free_ char *unloaded = read_events(*state);

	assert_int_equal(count_ending(unloaded, "ksym-del %s", symbol), 1);
	assert_int_equal(count_ending(unloaded, "prog-unload id=%" PRIu32 " tag=%s", oracle.info.id,
				      oracle.tag),
			 1);
	/* What was there is there still, and nothing was put before it. */
	assert_memory_equal(unloaded, loaded, strlen(loaded));
	oracle_deinit(&oracle);
}

static void assert_loaded_by(struct ksymfs *fs, const char *program, pid_t pid, const char *comm)
{
	_cleanup_free_ char *events = read_events(fs);
	_cleanup_free_ char *end = NULL;

	assert_true(asprintf(&end, " name=%s pid=%d comm=%s\n", program, pid, comm) > 0);
	assert_non_null(strstr(events, end));
}

/* Who has another name by the next load is told by it; a comm of 15 bytes, and one of none. */
static void test_renamed_loader(void **state)
{
	static const char *const names[][2] = {
		{"before", "before"},
		{"fifteen_bytes_x", "fifteen_bytes_x"},
		{"", "-"},
		{"after", "after"},
	};
	char comm[16], program[16];

	prctl(PR_GET_NAME, comm);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(program, sizeof(program), "renamed_%zu", i);
		prctl(PR_SET_NAME, names[i][0]);
		close(load_simple(program, variant(10 + i)));
		assert_loaded_by(*state, program, getpid(), names[i][1]);
	}
	prctl(PR_SET_NAME, comm);
}

static _Noreturn void load_as(const char *comm, const char *program, int number)
{
	prctl(PR_SET_NAME, comm);
	_exit(load_simple(program, variant(number)) < 0);
}

/* A pid that another process has had. */
static void test_loader_with_a_used_pid(void **state)
{
	int status;
	pid_t first = fork();

	if (first == 0)
		load_as("first_loader", "by_first", 20);
	assert_int_equal(waitpid(first, &status, 0), first);
	assert_int_equal(status, 0);
	pid_t second = fork_again(first);

	if (second < 0)
		skip_because("pid %d cannot be had again: %s", first, strerror(errno));
	if (second == 0)
		load_as("second_loader", "by_second", 21);
	assert_int_equal(waitpid(second, &status, 0), first);
	assert_int_equal(status, 0);
	assert_loaded_by(*state, "by_first", first, "first_loader");
	assert_loaded_by(*state, "by_second", first, "second_loader");
}

static void test_poll(void **state)
{
	_cleanup_fd_ int events = ksymfs_open(*state, "events");
	struct pollfd wait = {.fd = events, .events = POLLIN};
	char buf[4096];

	assert_return_code(events, -events);
	/* Strangers load programs too: read till there is nothing. */
	do {
		while (read(events, buf, sizeof(buf)) > 0)
			;
	} while (poll(&wait, 1, 50) > 0);
	pid_t child = fork();

	assert_return_code(child, errno);
	if (child == 0) {
		usleep(50000);
		int prog = load_simple("events_poll", variant(2));

		_exit(prog < 0);
	}
	assert_int_equal(poll(&wait, 1, 10000), 1);
	assert_true(wait.revents & POLLIN);
	assert_true(read(events, buf, sizeof(buf)) > 0);
	waitpid(child, NULL, 0);
}

#define SMALL "65536"
#define CHURN 600

/* Loads and unloads many: four lines each, some 400 bytes. */
static void churn(int first)
{
	for (int i = 0; i < CHURN; i++)
		close(load_simple("events_churn", variant(first)));
}

/* A handle that sleeps through a drop is told how many bytes went, at their place. */
static void test_slow_reader(void **state)
{
	static const char *const options[] = {"--events-bytes=" SMALL, NULL};
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);
	_cleanup_fd_ int events = ksymfs_open(fs, "events");
	struct stat before, after;
	char head[64];
	size_t len;

	assert_return_code(events, -events);
	/* Half a line, so that the next one is not a line's start. */
	assert_int_equal(read(events, head, 5), 5);
	churn(3);
	assert_return_code(fstat(events, &before), errno);
	_cleanup_free_ char *rest = read_fd(events, &len);
	uint64_t lost;

	assert_return_code(fstat(events, &after), errno);
	assert_in_range(5 + len, before.st_size, after.st_size);
	assert_int_equal(sscanf(rest, "\nlost bytes=%" SCNu64 "\n", &lost), 1);
	assert_int_equal(count_lines_with_prefix(rest, "lost bytes="), 1);
	assert_true(lost > 65536 && lost < len);
	/* Newlines to there, and there a line begins: its time. */
	size_t i = strchr(rest + 1, '\n') - rest;

	for (; i < lost; i++)
		assert_int_equal(rest[i], '\n');
	if (rest[i] < '1' || rest[i] > '9')
		fail_msg("after the gap: %.80s", rest + i);
	/* A fresh handle has what is left, no more than the bound. */
	_cleanup_free_ char *fresh = read_events(fs);

	assert_true(strlen(fresh) <= 65536);
	assert_null(strstr(fresh, "\n\n"));
}

/*
 * busybox looks once a second, and strangers load programs meanwhile: what is kept must hold a
 * second's worth of all that, and what is loaded here in the end several times that.
 */
#define TAIL_LOG   "524288"
#define STEPS	   12
#define STEP_LOADS 200

struct follower {
	const char *out;
	char needle[64];
};

static bool has_shown(void *arg)
{
	const struct follower *follower = arg;
	_cleanup_free_ char *text = read_path(follower->out, NULL);

	return strstr(text, follower->needle);
}

/* Loads some, less than the log keeps, and waits until the follower has written the last. */
static void load_and_wait(struct follower *follower, const char *tail, int step)
{
	for (int i = 0; i < STEP_LOADS; i++) {
		_cleanup_fd_ int prog = load_simple("events_tail", variant(100 + step));

		snprintf(follower->needle, sizeof(follower->needle), "prog-load id=%" PRIu32 " ",
			 prog_id(prog));
	}
	if (!wait_until(has_shown, follower, 20))
		fail_msg("%s does not show the last load of step %d", tail, step);
}

/* Each line once, while old ones leave. */
static void follow(const struct ksymfs *fs, const char *tail)
{
	char out[] = "/tmp/eventsXXXXXX";
	_cleanup_fd_ int fd = mkstemp(out);
	_cleanup_free_ char *events = ksymfs_path(fs, "events");
	_cleanup_free_ char *command = NULL;
	struct follower follower = {.out = out};

	assert_return_code(fd, errno);
	assert_true(asprintf(&command, "exec %s %s > %s", tail, events, out) > 0);
	pid_t child = fork();

	assert_return_code(child, errno);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	for (int step = 0; step < STEPS; step++)
		load_and_wait(&follower, tail, step);
	kill(child, SIGTERM);
	waitpid(child, NULL, 0);
	_cleanup_free_ char *text = read_path(out, NULL);

	unlink(out);
	/* By the symbol, which the kernel gives even of a program that was gone at once. */
	size_t shown = count_lines_with(text, "_events_tail pid=");

	if (shown != STEPS * STEP_LOADS || count_lines_with_prefix(text, "lost bytes="))
		fail_msg("%s shows %zu loads of %d", tail, shown, STEPS * STEP_LOADS);
}

static void test_tails(void **state)
{
	static const char *const options[] = {"--events-bytes=" TAIL_LOG, NULL};
	static const char *const tails[] = {
		"tail -n +1 -s 0.01 -f",
		"tail -n +1 -s 0.01 -F",
		"busybox tail -n +1 -f",
		"busybox tail -n +1 -F",
	};

	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(options);

		follow(fs, tails[i]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load_and_unload),
		cmocka_unit_test(test_renamed_loader),
		cmocka_unit_test(test_loader_with_a_used_pid),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_tails),
	};

	return live_run(tests);
}
