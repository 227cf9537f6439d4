/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pins over a crash of the daemon: of processes that live, that have exited, and that exit while
 * nobody serves.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tests/live/pins.h"

#define GONE_SECONDS 30

#define BIG_WORDS  (3u << 20) /* 12 MiB */
#define NAMES	   700
#define CHUNK	   4096
#define READ_KILLS 6
#define HUGE_BYTES (300 << 20) /* of which there is a page */
#define TAKEOVERS  6

static void fill(void *arg)
{
	make_dir("sub");
	put_file("sub/secret", "only in here\n");
	make_link("/sub/secret", "link");
}

/* All that a pin tells of a process that has exited. */
static char *all_of(const struct ksymfs *fs, const char *name)
{
	static const char *const files[] = {"info",	 "maps",	 "status",
					    "mountinfo", "comm",	 "cgroup",
					    "cmdline",	 "usdt/objects", "usdt/notes"};
	char *all = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&all, &len);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		size_t file_len;
		_cleanup_free_ char *text =
			ksymfs_read(fs, &file_len, "pins/%s/%s", name, files[i]);

		fprintf(out, "== %s\n", files[i]);
		for (size_t k = 0; k < file_len; k++)
			fputc(text[k] ?: '\n', out);
	}
	_cleanup_free_ char *dir = ksymfs_path(fs, "pins/%s", name);
	char command[512];

	snprintf(command, sizeof(command),
		 "cd %s && cat root/sub/secret root/link && ls -l root/ map_files/ && "
		 "sha256sum exe map_files/*",
		 dir);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	for (int byte; (byte = fgetc(pipe)) != EOF;)
		fputc(byte, out);
	fclose(out);
	assert_int_equal(pclose(pipe), 0);
	assert_non_null(strstr(all, "only in here\nonly in here\n"));
	return all;
}

struct state {
	const struct ksymfs *fs;
	const char *name, *wanted;
};

static bool has_state(void *arg)
{
	const struct state *state = arg;
	_cleanup_free_ char *said = ksymfs_value(state->fs, "state", "pins/%s/info", state->name);

	return said && strcmp(said, state->wanted) == 0;
}

static void assert_state(const struct ksymfs *fs, const char *name, const char *wanted)
{
	struct state state = {fs, name, wanted};

	assert_true(wait_until(has_state, &state, GONE_SECONDS));
}

/* What the daemon has let go of, the supervisor has when rmdir(2) returns. */
static void test_an_exited_pin_stays(void **state)
{
	struct ksymfs *fs = *state;
	size_t fds = count_fds(fs->pid);
	struct jail *jail = jail_start(fill, NULL);
	char name[32];

	snprintf(name, sizeof(name), "%d", jail->pid);
	pin(fs, jail->pid);
	jail_stop(jail);
	assert_state(fs, name, "exited");
	_cleanup_free_ char *before = all_of(fs, name);
	for (int i = 0; i < 3; i++) {
		if (i < 2)
			ksymfs_crash(fs);
		else
			ksymfs_replace(fs, fs->pid, SIGHUP);
		_cleanup_free_ char *after = all_of(fs, name);
		assert_string_equal(before, after);
		_cleanup_free_ char *said = ksymfs_value(fs, "handover_pins", "status");
		assert_string_equal(said, "carried over=1 lost=0");
		assert_true(count_fds(fs->pid) > fds + 4);
	}
	assert_exit_told(fs, name, "exit_signal", "9");
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%s", name);
	assert_return_code(rmdir(path), errno);
	assert_int_equal(count_fds(fs->pid), fds);
	/* One that was let go of does not come back. */
	ksymfs_crash(fs);
	struct stat st;
	assert_int_equal(ksymfs_stat(fs, &st, "pins/%s", name), -ENOENT);
	assert_int_equal(count_fds(fs->pid), fds);
}

struct takeover {
	pid_t supervisor, before, next;
};

static bool has_begun(void *arg)
{
	struct takeover *takeover = arg;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", takeover->supervisor,
		 takeover->supervisor);
	_cleanup_free_ char *children = read_path(path, NULL);
	takeover->next = atoi(children);
	return takeover->next && takeover->next != takeover->before;
}

/* Who takes over and is killed at it leaves to the next one what it was left itself. */
static void test_a_death_at_takeover(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill, NULL);
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%d", jail->pid);
	char name[32];

	snprintf(name, sizeof(name), "%d", jail->pid);
	pin(fs, jail->pid);
	_cleanup_fd_ int secret = ksymfs_open(fs, "pins/%s/root/sub/secret", name);
	assert_true(secret >= 0);
	jail_stop(jail);
	assert_state(fs, name, "exited");
	_cleanup_free_ char *before = all_of(fs, name);
	for (unsigned int i = 0; i < TAKEOVERS; i++) {
		struct takeover takeover = {fs->pid, ksymfs_daemon(fs), 0};

		kill(takeover.before, SIGKILL);
		assert_true(wait_until(has_begun, &takeover, GONE_SECONDS));
		usleep(i * 4000);
		kill(takeover.next, SIGKILL);
		ksymfs_await_successor(fs, takeover.before);
		_cleanup_free_ char *after = all_of(fs, name);
		assert_string_equal(before, after);
		assert_int_equal(lseek(secret, 0, SEEK_SET), 0);
		_cleanup_free_ char *read = read_fd(secret, NULL);
		assert_string_equal(read, "only in here\n");
	}
	assert_return_code(rmdir(path), errno);
}

/* Its last state is what was seen before; how it ended, its pidfd tells where the kernel does. */
static void test_exit_while_nobody_looks(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill, NULL);
	char name[32];

	snprintf(name, sizeof(name), "%d", jail->pid);
	pin(fs, jail->pid);
	_cleanup_free_ char *maps = ksymfs_read(fs, NULL, "pins/%s/maps", name);
	pid_t dead = ksymfs_daemon(fs);
	kill(dead, SIGSTOP);
	jail_stop(jail);
	kill(dead, SIGKILL);
	ksymfs_await_successor(fs, dead);
	_cleanup_free_ char *said = ksymfs_value(fs, "state", "pins/%s/info", name);
	assert_string_equal(said, "exited");
	_cleanup_free_ char *maps_after = ksymfs_read(fs, NULL, "pins/%s/maps", name);
	assert_string_equal(maps, maps_after);
	_cleanup_free_ char *secret = ksymfs_read(fs, NULL, "pins/%s/root/sub/secret", name);
	assert_string_equal(secret, "only in here\n");
	assert_exit_told(fs, name, "exit_signal", "9");
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%s", name);
	assert_return_code(rmdir(path), errno);
}

/* A process that lives is followed on, and what it maps then is kept too. */
static void test_a_live_pin_goes_on(void **state)
{
	struct ksymfs *fs = *state;
	char file[] = "/tmp/ksymfs-crashpins-XXXXXX", name[32];
	_cleanup_fd_ int fd = mkstemp(file);
	int go[2];

	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char byte;

		MUST(read(go[0], &byte, 1) == 1);
		MUST(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
		MUST(read(go[0], &byte, 1) == 1);
		_exit(7);
	}
	snprintf(name, sizeof(name), "%d", pid);
	pin(fs, pid);
	ksymfs_crash(fs);
	assert_state(fs, name, "alive");
	assert_int_equal(write(go[1], "", 1), 1);
	for (size_t mapped = 0; !mapped;) {
		_cleanup_free_ char *maps = ksymfs_read(fs, NULL, "pins/%s/maps", name);

		mapped = count_lines_with(maps, file);
	}
	assert_return_code(unlink(file), errno);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_state(fs, name, "exited");
	ksymfs_crash(fs);
	assert_exit_told(fs, name, "exit_code", "7");
	/* By its mapping, though it has no name any more. */
	_cleanup_free_ char *maps = ksymfs_read(fs, NULL, "pins/%s/maps", name);
	char *line = strstr(maps, file);
	assert_non_null(line);
	while (line > maps && line[-1] != '\n')
		line--;
	size_t len = strcspn(line, " ");
	struct stat st, own;
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%s/map_files/%.*s", name, (int)len, line);
	assert_return_code(stat(path, &st), errno);
	assert_return_code(fstat(fd, &own), errno);
	assert_int_equal(st.st_size, own.st_size);
	_cleanup_free_ char *dir = ksymfs_path(fs, "pins/%s", name);
	assert_return_code(rmdir(dir), errno);
	close(go[0]);
	close(go[1]);
}

/* Older pins go first still, and one that made way for its pid keeps its name. */
static void test_names_and_age_stay(void **state)
{
	struct ksymfs *fs = ksymfs_start((const char *[]){"--pin-max=3", NULL});
	pid_t pids[4];
	struct stat st;

	for (int i = 0; i < 3; i++) {
		pids[i] = spawn((const char *[]){"sleep", "1000", NULL});
		pin(fs, pids[i]);
		kill_and_wait(pids[i]);
	}
	ksymfs_crash(fs);
	pids[3] = spawn((const char *[]){"sleep", "1000", NULL});
	pin(fs, pids[3]);
	assert_int_equal(ksymfs_stat(fs, &st, "pins/%d", pids[0]), -ENOENT);
	assert_int_equal(ksymfs_stat(fs, &st, "pins/%d", pids[1]), 0);
	ksymfs_crash(fs);
	for (int i = 1; i < 4; i++)
		assert_int_equal(ksymfs_stat(fs, &st, "pins/%d", pids[i]), 0);
	kill_and_wait(pids[3]);
	ksymfs_stop(fs);
}

/* A file of which each word says where it is, and a directory that takes more than one request. */
static void fill_big(void *arg)
{
	_cleanup_file_ FILE *big = fopen("big", "w");
	char name[32];

	fill(arg);
	MUST(big != NULL);
	for (uint32_t i = 0; i < BIG_WORDS; i++)
		MUST(fwrite(&i, sizeof(i), 1, big) == 1);
	make_dir("many");
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		put_file(name, "");
	}
}

static void must_read_on(int fd, size_t *word)
{
	uint32_t words[CHUNK];
	ssize_t n = read(fd, words, sizeof(words));

	MUST(n >= 0);
	for (size_t i = 0; i < n / sizeof(words[0]); i++)
		MUST(words[i] == *word + i);
	*word += n / sizeof(words[0]);
	if (n)
		return;
	MUST(*word == BIG_WORDS);
	MUST(lseek(fd, 0, SEEK_SET) == 0);
	*word = 0;
}

static void must_list(DIR *dir, int *count)
{
	struct dirent *entry;

	errno = 0;
	/* Some at a time, so that the daemon dies in the middle. */
	for (int i = 0; i < 50; i++) {
		entry = readdir(dir);
		MUST(entry || errno == 0);
		if (entry) {
			*count += entry->d_name[0] != '.';
			continue;
		}
		MUST(*count == NAMES);
		rewinddir(dir);
		*count = 0;
	}
}

struct progress {
	bool stop;
	unsigned long rounds;
};

/* Reads one open file, lists one open directory, and lives in one, until it is told to stop. */
static void read_all_the_time(struct progress *progress, const char *root)
{
	struct stat st;
	size_t word = 0;
	int names = 0;

	MUST(chdir(root) == 0);
	MUST(chdir("sub") == 0);
	int fd = open("../big", O_RDONLY);
	DIR *dir = opendir("../many");
	MUST(fd >= 0 && dir);
	while (!__atomic_load_n(&progress->stop, __ATOMIC_RELAXED)) {
		must_read_on(fd, &word);
		must_list(dir, &names);
		MUST(stat("secret", &st) == 0 && st.st_size == 13);
		MUST(fstat(fd, &st) == 0 && st.st_size == BIG_WORDS * sizeof(uint32_t));
		__atomic_add_fetch(&progress->rounds, 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

struct more {
	struct progress *progress;
	unsigned long rounds;
	pid_t reader;
};

static bool has_gone_on(void *arg)
{
	const struct more *more = arg;
	siginfo_t info = {};

	if (waitid(P_PID, more->reader, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
		return true;
	return __atomic_load_n(&more->progress->rounds, __ATOMIC_RELAXED) > more->rounds;
}

/* What is open behind a pin goes on: of a process that lives, and of one that has exited. */
static void test_what_is_open_goes_on(void **state)
{
	struct ksymfs *fs = *state;

	need_resend(fs);
	struct jail *jail = jail_start(fill_big, NULL);
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	_cleanup_free_ char *root = ksymfs_path(fs, "pins/%d/root", jail->pid);
	_cleanup_free_ char *dir = ksymfs_path(fs, "pins/%d", jail->pid);
	char name[32];
	int status;

	snprintf(name, sizeof(name), "%d", jail->pid);
	assert_ptr_not_equal(progress, MAP_FAILED);
	pin(fs, jail->pid);
	struct more more = {.progress = progress, .reader = fork()};
	if (more.reader == 0)
		read_all_the_time(progress, root);
	for (int i = 0; i < READ_KILLS; i++) {
		if (i == READ_KILLS / 2) {
			jail_stop(jail);
			assert_state(fs, name, "exited");
		}
		usleep(i * 7919 % 20000);
		ksymfs_crash(fs);
		more.rounds = __atomic_load_n(&progress->rounds, __ATOMIC_RELAXED) + 1;
		assert_true(wait_until(has_gone_on, &more, GONE_SECONDS));
	}
	__atomic_store_n(&progress->stop, true, __ATOMIC_RELAXED);
	assert_int_equal(waitpid(more.reader, &status, 0), more.reader);
	assert_int_equal(status, 0);
	_cleanup_free_ char *said = ksymfs_value(fs, "handover_pin_roots", "status");
	assert_non_null(said);
	assert_return_code(rmdir(dir), errno);
	munmap(progress, sizeof(*progress));
}

static void fill_huge(void *arg)
{
	int fd;

	fill(arg);
	fd = open("huge", O_WRONLY | O_CREAT | O_EXCL, 0644);
	MUST(ftruncate(fd, HUGE_BYTES) == 0);
	MUST(pwrite(fd, "end", 3, HUGE_BYTES - 3) == 3);
	close(fd);
}

static void assert_reads_end(int fd)
{
	char end[8];

	assert_int_equal(pread(fd, end, sizeof(end), HUGE_BYTES - 3), 3);
	assert_memory_equal(end, "end", 3);
}

/* One that the kernel reads by itself goes on, and can be opened once more. */
static void test_a_huge_file_goes_on(void **state)
{
	struct ksymfs *fs = *state;
	struct jail *jail = jail_start(fill_huge, NULL);
	_cleanup_free_ char *dir = ksymfs_path(fs, "pins/%d", jail->pid);
	_cleanup_free_ char *path = ksymfs_path(fs, "pins/%d/root/huge", jail->pid);

	pin(fs, jail->pid);
	for (int i = 0; i < 2; i++) {
		_cleanup_fd_ int first = open(path, O_RDONLY | O_CLOEXEC);
		assert_return_code(first, errno);
		assert_reads_end(first);
		ksymfs_crash(fs);
		assert_reads_end(first);
		_cleanup_fd_ int second = open(path, O_RDONLY | O_CLOEXEC);
		assert_return_code(second, errno);
		assert_reads_end(second);
	}
	jail_stop(jail);
	assert_return_code(rmdir(dir), errno);
}

/* A file that has lost its name while nobody else had it open is stale, and no other file. */
static void test_a_deleted_file_is_stale(void **state)
{
	struct ksymfs *fs = *state;
	char dir[] = "/tmp/ksymfs-crashpins-XXXXXX", path[64], byte;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	put_file(path, "first");
	pid_t pid = spawn((const char *[]){"sleep", "1000", NULL});
	pin(fs, pid);
	_cleanup_fd_ int fd = ksymfs_open(fs, "pins/%d/root%s", pid, path);
	assert_true(fd >= 0);
	assert_return_code(unlink(path), errno);
	/* Else the kernel would keep what was read. */
	if (kernel_maps_direct_io(fs))
		assert_int_equal(pread(fd, &byte, 1, 0), 1);
	put_file(path, "other");
	ksymfs_crash(fs);
	assert_int_equal(pread(fd, &byte, 1, 1), -1);
	assert_int_equal(errno, ESTALE);
	_cleanup_free_ char *other = ksymfs_read(fs, NULL, "pins/%d/root%s", pid, path);
	assert_string_equal(other, "other");
	unpin(fs, pid);
	kill_and_wait(pid);
	assert_int_equal(run("rm -r %s", dir), 0);
}

/* What a pin held can be unmounted as soon as rmdir(2) returns. */
static void test_rmdir_lets_go_at_once(void **state)
{
	struct ksymfs *fs = *state;
	char dir[] = "/tmp/ksymfs-crashpins-XXXXXX", sleeper[64];

	assert_non_null(mkdtemp(dir));
	snprintf(sleeper, sizeof(sleeper), "%s/sleeper", dir);
	for (int i = 0; i < 20; i++) {
		assert_return_code(mount("sleeper", dir, "tmpfs", 0, NULL), errno);
		assert_int_equal(run("cp /bin/sleep %s", sleeper), 0);
		pid_t pid = spawn((const char *[]){sleeper, "1000", NULL});

		pin(fs, pid);
		kill_and_wait(pid);
		unpin(fs, pid);
		int error = umount(dir) < 0 ? errno : 0;
		if (error)
			umount2(dir, MNT_DETACH);
		if (error)
			fail_msg("round %d: %s", i, strerror(error));
	}
	assert_return_code(rmdir(dir), errno);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_exited_pin_stays),
		cmocka_unit_test(test_a_death_at_takeover),
		cmocka_unit_test(test_exit_while_nobody_looks),
		cmocka_unit_test(test_a_live_pin_goes_on),
		cmocka_unit_test(test_names_and_age_stay),
		cmocka_unit_test(test_what_is_open_goes_on),
		cmocka_unit_test(test_a_huge_file_goes_on),
		cmocka_unit_test(test_a_deleted_file_is_stale),
		cmocka_unit_test(test_rmdir_lets_go_at_once),
	};

	return live_run(tests);
}
