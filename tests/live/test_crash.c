/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon that is killed, again and again, while four readers verify every byte that they get, one
 * follows events, and one lives inside: nobody notices. KSYMFS_SOAK=N kills and reloads N times
 * instead of a few: scripts/soak.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/mountinfo.h"
#include "tests/live/support.h"

#define READERS	      4
#define KILLS	      5
#define RELOADS	      3
#define GONE_SECONDS  30
#define QUIET_SECONDS 10

/* Shared with the children. */
struct shared {
	bool stop;
	unsigned long reads[READERS + 1];
	char failure[READERS + 1][256];
};

struct company {
	struct ksymfs *fs;
	struct shared *shared;
	pid_t children[READERS + 2];
	pid_t tail;
	char tail_path[80];
	int program; /* loaded all the time */
	uint32_t id;
	char *jited; /* what its file has */
	size_t jited_len;
};

static unsigned int times(unsigned int few)
{
	const char *soak = getenv("KSYMFS_SOAK");

	return soak ? (unsigned int)atoi(soak) : few;
}

static void fail_reader(struct shared *shared, int reader, const char *what, const char *path)
{
	snprintf(shared->failure[reader], sizeof(shared->failure[0]), "%s: %s: %s", path, what,
		 strerror(errno));
	_exit(1);
}

/* Reads in pieces, which a death of the daemon can come between. */
static char *read_slowly(struct shared *shared, int reader, const char *path, int fd, size_t *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		fail_reader(shared, reader, "fstat", path);
	char *data = malloc(st.st_size + 1);
	size_t len = 0;

	for (;;) {
		ssize_t n = pread(fd, data + len, MIN((size_t)st.st_size + 1 - len, (size_t)65536),
				  len);

		if (n < 0)
			fail_reader(shared, reader, "read", path);
		if (n == 0)
			break;
		len += n;
	}
	errno = 0;
	if (len != (size_t)st.st_size)
		fail_reader(shared, reader, "size", path);
	*ret = len;
	return data;
}

/* One open file, read twice: the same bytes, whatever happens in between. */
static void read_twice(struct shared *shared, int reader, const char *path, const char *expected,
		       size_t expected_len)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t first_len, second_len;

	if (fd < 0)
		fail_reader(shared, reader, "open", path);
	_cleanup_free_ char *first = read_slowly(shared, reader, path, fd, &first_len);
	/* Long enough for a death now and then. */
	usleep(reader * 1000);
	_cleanup_free_ char *second = read_slowly(shared, reader, path, fd, &second_len);

	errno = 0;
	if (first_len != second_len || memcmp(first, second, first_len) != 0)
		fail_reader(shared, reader, "changed while open", path);
	if (expected && (first_len != expected_len || memcmp(first, expected, first_len) != 0))
		fail_reader(shared, reader, "wrong bytes", path);
	shared->reads[reader]++;
}

static void read_all_the_time(struct company *company, int reader)
{
	static const char *const names[READERS] = {"ksyms", "bpf/programs", "kallsyms"};
	_cleanup_free_ char *name = NULL;

	if (names[reader])
		name = strdup(names[reader]);
	else
		assert_true(asprintf(&name, "bpf/by-id/%u/jited", company->id) > 0);
	_cleanup_free_ char *path = ksymfs_path(company->fs, "%s", name);
	bool known = !names[reader];

	while (!__atomic_load_n(&company->shared->stop, __ATOMIC_RELAXED))
		read_twice(company->shared, reader, path, known ? company->jited : NULL,
			   known ? company->jited_len : 0);
}

/* Lives in a directory of the tree, with a file of it mapped. */
static void live_inside(struct company *company)
{
	struct shared *shared = company->shared;
	_cleanup_free_ char *home = ksymfs_path(company->fs, "bpf/by-id/%u", company->id);

	if (chdir(home) < 0)
		fail_reader(shared, READERS, "chdir", home);
	int fd = open("jited", O_RDONLY);
	void *map = mmap(NULL, company->jited_len, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || map == MAP_FAILED)
		fail_reader(shared, READERS, "mmap", "jited");
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		char *cwd = getcwd(NULL, 0);

		if (!cwd)
			fail_reader(shared, READERS, "getcwd", home);
		free(cwd);
		if (memcmp(map, company->jited, company->jited_len) != 0)
			fail_reader(shared, READERS, "the mapping", home);
		read_twice(shared, READERS, "jited", company->jited, company->jited_len);
		if (run("test -e info && ls > /dev/null") != 0)
			fail_reader(shared, READERS, "ls", home);
	}
}

static pid_t child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void start_tail(struct company *company)
{
	_cleanup_free_ char *events = ksymfs_path(company->fs, "events");

	snprintf(company->tail_path, sizeof(company->tail_path), "%s.tail", company->fs->dir);
	company->tail = child();
	if (company->tail == 0) {
		int out = open(company->tail_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dup2(out, STDOUT_FILENO);
		execlp("tail", "tail", "-n", "+1", "-f", events, NULL);
		_exit(127);
	}
}

static void gather(struct ksymfs *fs, struct company *company)
{
	*company = (struct company){.fs = fs};
	company->shared = mmap(NULL, sizeof(*company->shared), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(company->shared, MAP_FAILED);
	company->program = load_simple("crash", 0x7a0001);
	company->id = prog_id(company->program);
	company->jited = ksymfs_read(fs, &company->jited_len, "bpf/by-id/%u/jited", company->id);
	assert_true(company->jited_len > 0);
	start_tail(company);
	for (int i = 0; i <= READERS; i++) {
		company->children[i] = child();
		if (company->children[i])
			continue;
		if (i < READERS)
			read_all_the_time(company, i);
		else
			live_inside(company);
		_exit(0);
	}
}

static unsigned int handovers_of(const struct ksymfs *fs)
{
	_cleanup_free_ char *number = ksymfs_value(fs, "handovers", "status");

	assert_non_null(number);
	return atoi(number);
}

static size_t count_mounts(const struct ksymfs *fs)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	size_t count = 0;

	assert_int_equal(mountinfo_read(&list), 0);
	for (size_t i = 0; i < list.count; i++)
		count += strcmp(list.mounts[i].mountpoint, fs->dir) == 0;
	return count;
}

static unsigned long reads(const struct company *company)
{
	unsigned long least = ULONG_MAX;

	for (int i = 0; i <= READERS; i++)
		least = MIN(least, __atomic_load_n(&company->shared->reads[i], __ATOMIC_RELAXED));
	return least;
}

struct progress {
	const struct company *company;
	unsigned long from;
};

/* Has every reader read something since, or failed? */
static bool all_have_read(void *arg)
{
	const struct progress *progress = arg;

	for (int i = 0; i <= READERS; i++)
		if (progress->company->shared->failure[i][0])
			return true;
	return reads(progress->company) > progress->from;
}

static void assert_all_go_on(struct company *company)
{
	struct progress progress = {company, reads(company)};

	if (!wait_until(all_have_read, &progress, GONE_SECONDS))
		fail_msg("a reader hangs");
	for (int i = 0; i <= READERS; i++)
		if (company->shared->failure[i][0])
			fail_msg("%s", company->shared->failure[i]);
}

/* tail has all that events has, once it has come to the end, and nothing twice. */
struct followed {
	char *events, *tail;
	size_t events_len, tail_len;
	const struct company *company;
};

static bool has_followed(void *arg)
{
	struct followed *followed = arg;

	free(followed->tail);
	followed->tail = read_path(followed->company->tail_path, &followed->tail_len);
	return followed->tail_len >= followed->events_len;
}

static void assert_tail_has_all(struct company *company)
{
	struct followed followed = {.company = company};

	followed.events = ksymfs_read(company->fs, &followed.events_len, "events");
	bool all = wait_until(has_followed, &followed, QUIET_SECONDS);
	if (!all || memcmp(followed.tail, followed.events, followed.events_len) != 0)
		fail_msg("tail -f has %zu bytes, events %zu%s", followed.tail_len,
			 followed.events_len, all ? ", and they differ" : "");
	free(followed.events);
	free(followed.tail);
}

static void disperse(struct company *company)
{
	int status;

	__atomic_store_n(&company->shared->stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i <= READERS; i++) {
		assert_int_equal(waitpid(company->children[i], &status, 0), company->children[i]);
		if (status)
			fail_msg("reader %d: %s", i, company->shared->failure[i]);
	}
	kill(company->tail, SIGKILL);
	waitpid(company->tail, &status, 0);
	assert_true(WIFSIGNALED(status));
	unlink(company->tail_path);
	munmap(company->shared, sizeof(*company->shared));
	close(company->program);
	free(company->jited);
}

/* Each death comes at another moment of what the daemon is at. */
static void strike(struct company *company, pid_t victim, int signal, unsigned int i)
{
	usleep(i * 7919 % 40000);
	ksymfs_replace(company->fs, victim, signal);
}

static void test_kills(void **state)
{
	struct ksymfs *fs = *state;
	struct company company;

	need_resend(fs);
	unsigned int kills = times(KILLS), before = handovers_of(fs);

	gather(fs, &company);
	assert_all_go_on(&company);
	for (unsigned int i = 0; i < kills; i++) {
		int fresh = load_simple("between", 0x7a1000 + i % 100);

		strike(&company, ksymfs_daemon(fs), SIGKILL, i);
		close(fresh);
		assert_all_go_on(&company);
		assert_int_equal(count_mounts(fs), 1);
	}
	assert_int_equal(handovers_of(fs), before + kills);
	_cleanup_free_ char *handover = ksymfs_value(fs, "handover", "status");
	assert_non_null(strstr(handover, "carried over"));
	assert_tail_has_all(&company);
	disperse(&company);
}

static void test_reloads(void **state)
{
	struct ksymfs *fs = *state;
	struct company company;

	need_resend(fs);
	unsigned int reloads = times(RELOADS), before = handovers_of(fs);

	gather(fs, &company);
	for (unsigned int i = 0; i < reloads; i++) {
		strike(&company, fs->pid, SIGHUP, i);
		assert_all_go_on(&company);
		assert_int_equal(count_mounts(fs), 1);
	}
	assert_int_equal(handovers_of(fs), before + reloads);
	_cleanup_free_ char *cause = ksymfs_value(fs, "handover_cause", "status");
	assert_string_equal(cause, "reload");
	assert_tail_has_all(&company);
	disperse(&company);
}

/* What is open is what it was, whatever has happened since. */
static void test_old_state_stays(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_fd_ int old = ksymfs_open(fs, "bpf/programs");
	_cleanup_fd_ int prog = load_simple("later", 0x7a2001);
	size_t len, again_len, now_len;
	char row[32];

	assert_true(old >= 0);
	_cleanup_free_ char *before = read_fd(old, &len);
	ksymfs_crash(fs);
	assert_int_equal(lseek(old, 0, SEEK_SET), 0);
	_cleanup_free_ char *again = read_fd(old, &again_len);
	assert_int_equal(len, again_len);
	assert_memory_equal(before, again, len);
	_cleanup_free_ char *now = ksymfs_read(fs, &now_len, "bpf/programs");
	snprintf(row, sizeof(row), "%u ", prog_id(prog));
	assert_int_equal(count_lines_with_prefix(now, row), 1);
	assert_int_equal(count_lines_with_prefix(again, row), 0);
}

/* What was unloaded before stays, with its bytes, its symbol at its time, and who loaded it. */
static void test_history_stays(void **state)
{
	struct ksymfs *fs = *state;
	int prog = load_simple("remembered", 0x7a4001), kept = load_simple("remains", 0x7a4002);
	uint32_t id = prog_id(prog), kept_id = prog_id(kept);
	struct oracle oracle;
	size_t len, again_len;

	oracle_read(prog, &oracle);
	_cleanup_free_ char *before = ksymfs_read(fs, &len, "bpf/by-id/%u/jited", id);
	_cleanup_free_ char *kept_before = ksymfs_read(fs, NULL, "bpf/by-id/%u/info", kept_id);
	uint64_t when = monotonic_ns();
	char addr[80];

	snprintf(addr, sizeof(addr), "addr/%" PRIx64 "@%" PRIu64 "ns", oracle.ksyms[0], when);
	unload(prog);
	_cleanup_free_ char *info = ksymfs_read(fs, NULL, "bpf/by-id/%u/info", id);
	_cleanup_free_ char *symbol = ksymfs_read(fs, NULL, "%s", addr);
	assert_int_equal(count_lines_with_prefix(info, "state: unloaded"), 1);

	ksymfs_crash(fs);
	_cleanup_free_ char *after = ksymfs_read(fs, &again_len, "bpf/by-id/%u/jited", id);
	_cleanup_free_ char *info_after = ksymfs_read(fs, NULL, "bpf/by-id/%u/info", id);
	_cleanup_free_ char *symbol_after = ksymfs_read(fs, NULL, "%s", addr);
	_cleanup_free_ char *kept_after = ksymfs_read(fs, NULL, "bpf/by-id/%u/info", kept_id);
	assert_int_equal(len, again_len);
	assert_memory_equal(before, after, len);
	assert_string_equal(info, info_after);
	assert_string_equal(symbol, symbol_after);
	assert_string_equal(kept_before, kept_after);
	oracle_deinit(&oracle);

	/* And goes its way. */
	close(kept);
	_cleanup_free_ char *gone = ksymfs_value(fs, "state", "bpf/by-id/%u/info", kept_id);
	assert_string_equal(gone, "unloaded");
}

struct image {
	const struct ksymfs *fs;
	uint64_t addr;
};

/* Images go a while after what they were made for. */
static bool image_is_gone(void *arg)
{
	const struct image *image = arg;
	struct stat st;

	return ksymfs_stat(image->fs, &st, "addr/%" PRIx64, image->addr) == -ENOENT;
}

/* The newest image of a name that several have. */
static uint64_t find_new_image(const struct symbol_list *before, const struct symbol_list *after)
{
	static const char name[] = "bpf__tcp_congestion_ops_ssthresh";
	const struct symbol_row *row = symbol_find(after, name, after->rows);

	while (row && symbol_at(before, row->addr))
		row = symbol_find(after, name, row + 1);
	return row ? row->addr : 0;
}

/* An image that was before still has its name at its time, though another has its place. */
static void test_images_of_the_past_stay(void **state)
{
	struct ksymfs *fs = *state;
	struct symbol_list before, after;

	if (!kernel_has_struct_ops_symbols())
		skip_because("this kernel names no images of struct_ops");
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &before);
	struct congestion_ops *ops = congestion_ops_attach();
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &after);
	struct image image = {fs, find_new_image(&before, &after)};
	assert_true(image.addr);
	uint64_t when = monotonic_ns();
	congestion_ops_detach(ops);
	assert_true(wait_until(image_is_gone, &image, GONE_SECONDS));
	_cleanup_free_ char *then =
		ksymfs_read(fs, NULL, "addr/%" PRIx64 "@%" PRIu64 "ns", image.addr, when);
	ksymfs_crash(fs);
	_cleanup_free_ char *still =
		ksymfs_read(fs, NULL, "addr/%" PRIx64 "@%" PRIu64 "ns", image.addr, when);
	assert_string_equal(then, still);
	assert_int_equal(strncmp(still, "bpf__tcp_congestion_ops_ssthresh+0x0/", 37), 0);
	symbol_list_deinit(&before);
	symbol_list_deinit(&after);
}

/* What nobody was there to see is seen by the next one. */
static void test_what_happens_meanwhile(void **state)
{
	struct ksymfs *fs = *state;
	int before = load_simple("leaves", 0x7a5001);
	uint32_t gone = prog_id(before);
	struct stat st;

	assert_int_equal(ksymfs_stat(fs, &st, "bpf/by-id/%u", gone), 0);
	/* Neither has a record that the daemon reads. */
	pid_t dead = ksymfs_daemon(fs);
	kill(dead, SIGSTOP);
	kill(dead, SIGKILL);
	close(before);
	_cleanup_fd_ int fresh = load_simple("comes", 0x7a5002);
	ksymfs_await_successor(fs, dead);
	_cleanup_free_ char *left = ksymfs_value(fs, "state", "bpf/by-id/%u/info", gone);
	_cleanup_free_ char *came = ksymfs_value(fs, "state", "bpf/by-id/%u/info", prog_id(fresh));
	assert_string_equal(left, "unloaded");
	assert_string_equal(came, "loaded");
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	char line[64];
	snprintf(line, sizeof(line), " prog-unload id=%u ", gone);
	assert_int_equal(count_lines_with(events, line), 1);
	snprintf(line, sizeof(line), " prog-load id=%u ", prog_id(fresh));
	assert_int_equal(count_lines_with(events, line), 1);
}

/* A pin of a process that lives goes on, with the time at which it was made. */
static void test_pins_stay(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *pin = ksymfs_path(fs, "pins/%d", getpid());
	struct stat before, after, st;

	assert_return_code(mkdir(pin, 0700), errno);
	assert_int_equal(ksymfs_stat(fs, &before, "pins/%d", getpid()), 0);
	ksymfs_crash(fs);
	assert_int_equal(ksymfs_stat(fs, &after, "pins/%d", getpid()), 0);
	assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(ksymfs_stat(fs, &st, "pins/%d/root/etc", getpid()), 0);
	_cleanup_free_ char *said = ksymfs_value(fs, "state", "pins/%d/info", getpid());
	assert_string_equal(said, "alive");
	assert_return_code(rmdir(pin), errno);
}

/* Who polls events when the daemon dies is woken by what happens after. */
static void test_poll_goes_on(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_fd_ int events = ksymfs_open(fs, "events");
	struct pollfd pollfd = {.fd = events, .events = POLLIN};

	assert_true(events >= 0);
	free(read_fd(events, NULL));
	pid_t poller = child();
	if (poller == 0) {
		char buf[65536];

		/* What the takeover itself logs wakes it first. */
		for (;;) {
			if (poll(&pollfd, 1, GONE_SECONDS * 1000) != 1)
				_exit(1);
			ssize_t n = read(events, buf, sizeof(buf) - 1);

			if (n < 0)
				_exit(2);
			buf[n] = '\0';
			/* By the symbol: the program may be gone before its name is read. */
			if (strstr(buf, "_poller_wakes pid="))
				_exit(0);
		}
	}
	ksymfs_crash(fs);
	close(load_simple("poller_wakes", 0x7a3001));
	int status;
	assert_int_equal(waitpid(poller, &status, 0), poller);
	assert_int_equal(status, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_state_stays),
		cmocka_unit_test(test_poll_goes_on),
		cmocka_unit_test(test_pins_stay),
		cmocka_unit_test(test_history_stays),
		cmocka_unit_test(test_images_of_the_past_stay),
		cmocka_unit_test(test_what_happens_meanwhile),
		cmocka_unit_test(test_kills),
		cmocka_unit_test(test_reloads),
	};

	return live_run(tests);
}
