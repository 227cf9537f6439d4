/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instances of ksymfs, the runner around a group of tests, and reading files whole. Programs are in
 * programs.c, the kernel's side of comparisons in oracle.c.
 */
#include "tests/live/scarcity.h"
#include "tests/live/support.h"

#include <bpf/libbpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#define FUSE_MAGIC 0x65735546
/* Sanitizer builds on a busy machine are slow; a correct one needs a fraction of a second. */
#define START_SECONDS	  30
#define STOP_SECONDS	  20
#define SUCCESSOR_SECONDS 30
#define MAX_OPTIONS	  32

static const char *const *group_options;
static cpu_set_t group_cpus;

/* ---- files and text ---- */

char *read_fd(int fd, size_t *ret_len)
{
	size_t size = 0, capacity = 65536;
	char *data = malloc(capacity);

	assert_non_null(data);
	for (;;) {
		ssize_t n = read(fd, data + size, capacity - size - 1);

		if (n < 0)
			fail_msg("read at %zu: %s", size, strerror(errno));
		if (n == 0)
			break;
		size += n;
		if (capacity - size < 4096) {
			capacity *= 2;
			data = realloc(data, capacity);
			assert_non_null(data);
		}
	}
	data[size] = '\0';
	if (ret_len)
		*ret_len = size;
	return data;
}

char *read_path(const char *path, size_t *ret_len)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("open %s: %s", path, strerror(errno));
	return read_fd(fd, ret_len);
}

char *next_line(char **cursor)
{
	char *line = *cursor;

	if (*line == '\0')
		return NULL;
	char *end = strchr(line, '\n');
	if (!end)
		fail_msg("the last line has no newline: %.80s", line);
	*end = '\0';
	*cursor = end + 1;
	return line;
}

size_t count_lines_with_prefix(const char *text, const char *prefix)
{
	size_t count = 0;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		count += strncmp(line, prefix, strlen(prefix)) == 0 && *line != '\0';
	}
	return count;
}

size_t count_lines_with(const char *text, const char *needle)
{
	size_t count = 0;

	/* Line by line: under ASan each strstr() measures all that follows first. */
	for (const char *end; *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, '\n');
		count += memmem(text, end - text, needle, strlen(needle)) != NULL;
	}
	return count;
}

pid_t fork_again(pid_t pid)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
			set_tid, set_tid_size, cgroup;
	} args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};

	return syscall(SYS_clone3, &args, sizeof(args));
}

pid_t fork_as(pid_t pid)
{
	pid_t child = fork_again(pid);

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

int rounds_of(int count)
{
	return getenv("KSYMFS_GUEST") ? count / 10 : count;
}

int run(const char *format, ...)
{
	_cleanup_free_ char *command = NULL;
	va_list args;

	va_start(args, format);
	int len = vasprintf(&command, format, args);
	va_end(args);
	assert_true(len >= 0);

	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* stdout is the TAP stream */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool wait_until(bool (*done)(void *arg), void *arg, unsigned int seconds)
{
	uint64_t deadline = monotonic_ns() + seconds * NSEC_PER_SEC;

	while (!done(arg)) {
		if (monotonic_ns() > deadline)
			return false;
		usleep(1000);
	}
	return true;
}

/* ---- CPUs ---- */

bool pin_to_cpu(unsigned int nth)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		cpu_set_t one;

		if (!CPU_ISSET(cpu, &group_cpus) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_return_code(sched_setaffinity(0, sizeof(one), &one), errno);
		return true;
	}
	return false;
}

void unpin_cpu(void)
{
	assert_return_code(sched_setaffinity(0, sizeof(group_cpus), &group_cpus), errno);
}

/* ---- an instance ---- */

static bool is_mounted(const char *dir)
{
	struct statfs buf;

	return statfs(dir, &buf) == 0 && buf.f_type == FUSE_MAGIC;
}

/* Says on our stderr what the daemon said on its own. */
static void show_log(const struct ksymfs *fs)
{
	_cleanup_file_ FILE *log = fopen(fs->log, "r");
	char line[512];

	while (log && fgets(line, sizeof(line), log))
		fprintf(stderr, "# ksymfs[%d]: %s", fs->pid, line);
}

static const char *cgroup_name(const struct ksymfs *fs)
{
	return fs->dir + strlen("/tmp/");
}

/* Returns whether it had what it needs to live on. */
static bool forget(struct ksymfs *fs)
{
	bool starved = scarcity_leave(cgroup_name(fs));

	unlink(fs->log);
	rmdir(fs->dir);
	free(fs);
	return !starved;
}

struct exit_wait {
	pid_t pid;
	int status;
};

static bool has_exited(void *arg)
{
	struct exit_wait *wait = arg;

	return waitpid(wait->pid, &wait->status, WNOHANG) == wait->pid;
}

struct start_wait {
	const struct ksymfs *fs;
	struct exit_wait exit;
	bool exited;
};

/* Up when the tree answers, or over when the daemon has left. */
static bool is_up(void *arg)
{
	struct start_wait *wait = arg;

	if (has_exited(&wait->exit)) {
		wait->exited = true;
		return true;
	}
	if (!is_mounted(wait->fs->dir))
		return false;
	_cleanup_free_ char *status = ksymfs_path(wait->fs, "status");
	return access(status, R_OK) == 0;
}

static void exec_daemon(const struct ksymfs *fs, const char *const *options)
{
	const char *binary = getenv("KSYMFS"), *more = getenv("KSYMFS_OPTIONS");
	_cleanup_free_ char *words = more ? strdup(more) : NULL;
	const char *argv[MAX_OPTIONS + 4] = {binary, "-f"};
	size_t argc = 2;
	int log = open(fs->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

	for (size_t i = 0; options && options[i] && argc < MAX_OPTIONS; i++)
		argv[argc++] = options[i];
	for (char *word = words ? strtok(words, " ") : NULL; word && argc < MAX_OPTIONS;
	     word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = fs->dir;

	scarcity_enter(cgroup_name(fs));
	/* A test that is killed leaves no mount behind. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	execv(binary, (char *const *)argv);
	dprintf(STDERR_FILENO, "exec %s: %s\n", binary, strerror(errno));
	_exit(127);
}

struct ksymfs *ksymfs_start(const char *const *options)
{
	struct ksymfs *fs = calloc(1, sizeof(*fs));

	assert_non_null(fs);
	strcpy(fs->dir, "/tmp/ksymfs-live-XXXXXX");
	if (!mkdtemp(fs->dir))
		fail_msg("mkdtemp %s: %s", fs->dir, strerror(errno));
	snprintf(fs->log, sizeof(fs->log), "%s.log", fs->dir);

	fflush(NULL);
	fs->pid = fork();
	assert_true(fs->pid >= 0);
	if (fs->pid == 0)
		exec_daemon(fs, options);

	struct start_wait wait = {.fs = fs, .exit.pid = fs->pid};
	bool up = wait_until(is_up, &wait, START_SECONDS);
	if (up && !wait.exited) {
		_cleanup_free_ char *daemon = ksymfs_value(fs, "pid", "status");

		assert_non_null(daemon);
		fs->daemon = atoi(daemon);
		return fs;
	}
	show_log(fs);
	if (wait.exited)
		fail_msg("ksymfs left at once with wait status %#x", wait.exit.status);
	ksymfs_kill(fs);
	fail_msg("ksymfs did not answer within %d s", START_SECONDS);
	return NULL;
}

void ksymfs_kill(struct ksymfs *fs)
{
	if (!fs)
		return;
	if (fs->daemon)
		kill(fs->daemon, SIGCONT);
	kill(fs->pid, SIGCONT);
	kill(fs->pid, SIGKILL);
	waitpid(fs->pid, NULL, 0);
	umount2(fs->dir, MNT_DETACH);
	forget(fs);
}

void ksymfs_stop(struct ksymfs *fs)
{
	if (!fs)
		return;
	kill(fs->pid, SIGTERM);
	struct exit_wait wait = {.pid = fs->pid};
	if (!wait_until(has_exited, &wait, STOP_SECONDS)) {
		show_log(fs);
		ksymfs_kill(fs);
		fail_msg("SIGTERM did not end ksymfs within %d s", STOP_SECONDS);
	}
	bool left_mount = is_mounted(fs->dir);
	bool good = WIFEXITED(wait.status) && WEXITSTATUS(wait.status) == 0 && !left_mount;
	if (!good)
		show_log(fs);
	if (left_mount)
		umount2(fs->dir, MNT_DETACH);
	if (!forget(fs))
		fail_msg("ksymfs needs more memory than it may have");
	if (!good)
		fail_msg("ksymfs left with wait status %#x%s", wait.status,
			 left_mount ? " and left its mount" : "");
}

static char *path_of(const struct ksymfs *fs, const char *format, va_list args)
{
	_cleanup_free_ char *relative = NULL;
	char *path;

	assert_true(vasprintf(&relative, format, args) >= 0);
	assert_true(asprintf(&path, "%s/%s", fs->dir, relative) >= 0);
	return path;
}

size_t ksymfs_count_threads(const struct ksymfs *fs,
			    bool (*is)(pid_t tid, const char *status, void *arg), void *arg)
{
	char path[64];
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", fs->daemon);
	_cleanup_dir_ DIR *tasks = opendir(path);
	assert_non_null(tasks);
	for (struct dirent *task; (task = readdir(tasks));) {
		char file[sizeof(path) + sizeof(task->d_name) + 8];

		snprintf(file, sizeof(file), "%s/%s/status", path, task->d_name);
		_cleanup_fd_ int fd =
			task->d_name[0] == '.' ? -1 : open(file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue; /* it has ended */
		_cleanup_free_ char *status = read_fd(fd, NULL);

		count += is(atoi(task->d_name), status, arg);
	}
	return count;
}

char *ksymfs_path(const struct ksymfs *fs, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	char *path = path_of(fs, format, args);
	va_end(args);
	return path;
}

static char *read_measured(const struct ksymfs *fs, const char *path, size_t *ret_len)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat before;
	size_t len;

	if (fd < 0)
		fail_msg("open %s: %s", path, strerror(errno));
	assert_return_code(fstat(fd, &before), errno);
	char *data = read_fd(fd, &len);
	/* Only events grows while it is open. */
	bool grows = strcmp(path + strlen(fs->dir), "/events") == 0;
	if (grows ? (uint64_t)before.st_size > len : (uint64_t)before.st_size != len)
		fail_msg("%s: fstat said %lld bytes, and %zu came", path, (long long)before.st_size,
			 len);
	if (ret_len)
		*ret_len = len;
	return data;
}

char *ksymfs_read(const struct ksymfs *fs, size_t *ret_len, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	_cleanup_free_ char *path = path_of(fs, format, args);
	va_end(args);
	return read_measured(fs, path, ret_len);
}

int ksymfs_open(const struct ksymfs *fs, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	_cleanup_free_ char *path = path_of(fs, format, args);
	va_end(args);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int ksymfs_stat(const struct ksymfs *fs, struct stat *ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	_cleanup_free_ char *path = path_of(fs, format, args);
	va_end(args);
	return lstat(path, ret) ? -errno : 0;
}

char *ksymfs_value(const struct ksymfs *fs, const char *key, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	_cleanup_free_ char *path = path_of(fs, format, args);
	va_end(args);
	_cleanup_free_ char *text = read_measured(fs, path, NULL);
	size_t len = strlen(key);
	char *cursor = text, *line;

	while ((line = next_line(&cursor)))
		if (strncmp(line, key, len) == 0 && strncmp(line + len, ": ", 2) == 0)
			return strdup(line + len + 2);
	return NULL;
}

pid_t ksymfs_daemon(const struct ksymfs *fs)
{
	_cleanup_free_ char *pid = ksymfs_value(fs, "pid", "status");

	assert_non_null(pid);
	return atoi(pid);
}

struct successor {
	const struct ksymfs *fs;
	pid_t before;
};

static bool is_another(void *arg)
{
	const struct successor *successor = arg;

	return ksymfs_daemon(successor->fs) != successor->before;
}

void ksymfs_await_successor(const struct ksymfs *fs, pid_t before)
{
	struct successor successor = {fs, before};

	if (!wait_until(is_another, &successor, SUCCESSOR_SECONDS))
		fail_msg("nobody took over");
}

void ksymfs_replace(const struct ksymfs *fs, pid_t victim, int signal)
{
	pid_t before = ksymfs_daemon(fs);

	kill(victim, signal);
	ksymfs_await_successor(fs, before);
}

void ksymfs_crash(const struct ksymfs *fs)
{
	ksymfs_replace(fs, ksymfs_daemon(fs), SIGKILL);
}

/* ---- the program's main() ---- */

void skip_because(const char *format, ...)
{
	va_list args;

	printf("# SKIP reason: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	skip();
	abort();
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

/* -1: go on; else main()'s result. */
static int prepare(void)
{
	static const struct rlimit no_limit = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit files;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (geteuid() != 0) {
		printf("1..0 # SKIP live tests load BPF programs and mount: they need root\n");
		return 0;
	}
	if (!getenv("KSYMFS") || !getenv("KSYMFS_BPF")) {
		printf("Bail out! KSYMFS and KSYMFS_BPF are not set: run this by meson test\n");
		return 1;
	}
	/* Before 5.11 the kernel counts programs and maps as locked memory. */
	setrlimit(RLIMIT_MEMLOCK, &no_limit);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	libbpf_set_print(quiet);
	if (getenv("KSYMFS_TEST"))
		cmocka_set_test_filter(getenv("KSYMFS_TEST"));
	sched_getaffinity(0, sizeof(group_cpus), &group_cpus);
	return -1;
}

static int start_for_group(void **state)
{
	*state = ksymfs_start(group_options);
	return 0;
}

static int stop_for_group(void **state)
{
	ksymfs_stop(*state);
	*state = NULL;
	return 0;
}

int live_run_group(const char *const *options, const char *name, const struct CMUnitTest *tests,
		   size_t count)
{
	int done = prepare();

	if (done >= 0)
		return done;
	group_options = options;
	return _cmocka_run_group_tests(name, tests, count, start_for_group, stop_for_group);
}

int live_run_bare_group(const char *name, const struct CMUnitTest *tests, size_t count)
{
	int done = prepare();

	return done >= 0 ? done : _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}
