/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What usdt/ costs: the first look at a process against tplist of bcc, looks after that, an object
 * with very many notes, and a machine with very many processes. The tree must be one in which
 * nobody has looked yet. Prints rows as scripts/bench shows them.
 *
 *	bench_usdt MOUNT DAEMON_PID TMPFS_DIR
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/clock.h"
#include "elfmaker.h"

#define ROUNDS	  21
#define PROCESSES 500
#define OBJECTS	  100
#define NOTES	  400000
#define NAMES	  40000

static const char *mount_dir;

static void die(const char *what)
{
	fprintf(stderr, "bench_usdt: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double median_ms(uint64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2] / 1e6;
}

/* ns for one whole read of a file of the tree; how many bytes there were. */
static uint64_t read_tree(const char *name, size_t *ret_len)
{
	static char block[128 << 10];
	char path[256];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", mount_dir, name);
	uint64_t begin = monotonic_ns();
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(path);
	for (*ret_len = 0; (n = read(fd, block, sizeof(block))) > 0;)
		*ret_len += n;
	if (n < 0)
		die(path);
	return monotonic_ns() - begin;
}

static pid_t start(const char *const *argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	if (pid < 0)
		die(argv[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static uint64_t time_command(const char *const *argv)
{
	uint64_t begin = monotonic_ns();
	int status;

	waitpid(start(argv), &status, 0);
	if (status != 0)
		die(argv[0]);
	return monotonic_ns() - begin;
}

/* Waits until its objects are mapped: the number of mappings stays for a while. */
static void wait_for_maps(pid_t pid, const char *object)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	for (int i = 0; i < 600; i++) {
		_cleanup_file_ FILE *maps = fopen(path, "re");
		char line[4096];

		while (maps && fgets(line, sizeof(line), maps))
			if (strstr(line, object)) {
				usleep(500000);
				return;
			}
		usleep(50000);
	}
	errno = ETIMEDOUT;
	die(object);
}

static void against_tplist(const char *figure, const char *const *argv, const char *object)
{
	pid_t pid = start(argv);
	char name[64], number[16];
	size_t len;

	wait_for_maps(pid, object);
	snprintf(name, sizeof(name), "usdt/%d/notes", pid);
	snprintf(number, sizeof(number), "%d", pid);
	const char *tplist[] = {"tplist-bpfcc", "-p", number, NULL};
	uint64_t first = read_tree(name, &len), ns[3];

	for (int i = 0; i < 3; i++)
		ns[i] = time_command(tplist);
	printf("usdt/PID/notes of %s, first time, against tplist -p\t%.0f times\t50 times faster\n",
	       figure, median_ms(ns, 3) / (first / 1e6));
	fflush(stdout);
	end(pid);
}

/* A process that maps files, each as a whole and once more in part. */
static pid_t start_mapper(char **paths, size_t count)
{
	int ready[2];
	char c = 0;

	if (pipe(ready) < 0)
		die("pipe");
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < count; i++) {
			int fd = open(paths[i], O_RDONLY);
			struct stat st;

			if (fd < 0 || fstat(fd, &st) < 0)
				continue;
			mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
			mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
			close(fd);
		}
		if (write(ready[1], &c, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		die("mapper");
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void cached_process(void)
{
	glob_t found;
	uint64_t ns[ROUNDS];
	char name[64];
	size_t len;

	if (glob("/usr/lib/*-linux-gnu/*.so.[0-9]*", 0, NULL, &found) != 0)
		die("libraries");
	pid_t pid = start_mapper(found.gl_pathv, MIN(found.gl_pathc, (size_t)OBJECTS));

	snprintf(name, sizeof(name), "usdt/%d/notes", pid);
	read_tree(name, &len);
	for (int i = 0; i < ROUNDS; i++)
		ns[i] = read_tree(name, &len);
	printf("usdt/PID/notes again, %d mapped objects, 200 mappings\t%.2f ms\tunder 2 ms\n",
	       OBJECTS, median_ms(ns, ROUNDS));
	fflush(stdout);
	globfree(&found);
	end(pid);
}

static void make_large(const char *path)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text notes = {}, file = {};

	plan.text_size = NOTES;
	plan.data_offset = 0x1000 + NOTES;
	for (unsigned int i = 0; i < NOTES; i++) {
		char probe[32], args[64];

		snprintf(probe, sizeof(probe), "probe_%u", i % NAMES);
		snprintf(args, sizeof(args), "-4@%u(%%rbp) 8@%%rax 8@$%u", i % 50 * 8, i % 1000);
		elf_note(&notes, &plan, plan.text_vaddr + i, 0, 0, "provider", probe, args);
	}
	elf_make(&file, &plan, &notes);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	if (file.failed || fd < 0 || write(fd, file.data, file.len) != (ssize_t)file.len)
		die(path);
}

static atomic_bool large_done;

/* How long at the worst the rest of the tree lets wait, meanwhile. */
static void *read_meanwhile(void *arg)
{
	uint64_t *worst = arg;
	char path[256], block[4096];

	snprintf(path, sizeof(path), "%s/ksyms", mount_dir);
	while (!atomic_load(&large_done)) {
		uint64_t begin = monotonic_ns();
		_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || read(fd, block, sizeof(block)) < 0)
			die(path);
		*worst = MAX(*worst, monotonic_ns() - begin);
		usleep(1000);
	}
	return NULL;
}

static long peak_kib(const char *daemon)
{
	char path[64], line[256];
	long kib = 0;

	snprintf(path, sizeof(path), "/proc/%s/status", daemon);
	_cleanup_file_ FILE *status = fopen(path, "re");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	return kib;
}

static void large_object(const char *daemon, const char *dir)
{
	char path[256], name[64];
	char *paths[] = {path};
	pthread_t thread;
	uint64_t worst = 0;
	size_t len;

	snprintf(path, sizeof(path), "%s/large.so", dir);
	make_large(path);
	pid_t pid = start_mapper(paths, 1);

	snprintf(name, sizeof(name), "usdt/%d/notes", pid);
	if (pthread_create(&thread, NULL, read_meanwhile, &worst) != 0)
		die("thread");
	uint64_t first = read_tree(name, &len);

	atomic_store(&large_done, true);
	pthread_join(thread, NULL);
	printf("400,000 notes of 40,000 names, first time\t%.2f s\tunder 3 s\n", first / 1e9);
	printf("... the daemon's memory at its peak\t%ld MiB\tunder 300 MiB\n",
	       peak_kib(daemon) / 1024);
	printf("... opening ksyms meanwhile, at the worst\t%.1f ms\tanswers\n", worst / 1e6);
	fflush(stdout);
	end(pid);
	unlink(path);
}

/* ns for reading a directory; and then a stat of each process in it, if there are any. */
struct listing_cost {
	uint64_t list, stat;
	unsigned int processes;
};

static struct listing_cost list_directory(const char *path)
{
	struct listing_cost cost = {};
	pid_t pids[4 * PROCESSES];
	uint64_t begin = monotonic_ns();
	_cleanup_dir_ DIR *dir = opendir(path);
	struct stat st;

	if (!dir)
		die(path);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (atoi(entry->d_name) > 0 && cost.processes < ARRAY_SIZE(pids))
			pids[cost.processes++] = atoi(entry->d_name);
	uint64_t end = monotonic_ns();

	for (unsigned int i = 0; i < cost.processes; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", pids[i]);
		/* Others may have ended. */
		if (fstatat(dirfd(dir), name, &st, 0) < 0 && errno != ENOENT)
			die(path);
	}
	cost.list = end - begin;
	cost.stat = monotonic_ns() - end;
	return cost;
}

/* ns for so many lookups in the tree that find nothing: what any request costs. */
static uint64_t time_lookups(unsigned int count)
{
	char path[256];
	uint64_t begin = monotonic_ns();
	struct stat st;

	snprintf(path, sizeof(path), "%s/none", mount_dir);
	for (unsigned int i = 0; i < count; i++)
		if (stat(path, &st) == 0 || errno != ENOENT)
			die(path);
	return monotonic_ns() - begin;
}

/*
 * Whoever lists usdt/ asks for what he asks of /proc, by way of FUSE: that alone is what an empty
 * directory and a name that is not there cost.
 */
static void listings(void)
{
	static const char *const names[] = {"/proc", "usdt", "addr"};
	uint64_t list[ARRAY_SIZE(names)][ROUNDS], stats[ARRAY_SIZE(names)][ROUNDS];
	uint64_t lookups[ROUNDS];
	double list_ms[ARRAY_SIZE(names)], stat_ms[ARRAY_SIZE(names)];
	char path[256];

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			const char *name = names[i];

			snprintf(path, sizeof(path), "%s/%s", *name == '/' ? "" : mount_dir, name);
			struct listing_cost cost = list_directory(path);

			list[i][round] = cost.list;
			stats[i][round] = cost.stat;
			if (*name == '/')
				lookups[round] = time_lookups(cost.processes);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		list_ms[i] = median_ms(list[i], ROUNDS);
		stat_ms[i] = median_ms(stats[i], ROUNDS);
	}
	double lookups_ms = median_ms(lookups, ROUNDS);

	printf("listing usdt/\t%.2f times (%.2f ms, /proc %.2f, empty %.2f)\twithin 3 times\n",
	       list_ms[1] / (list_ms[0] + list_ms[2]), list_ms[1], list_ms[0], list_ms[2]);
	printf("a stat of each\t%.2f times (%.1f ms, /proc %.1f, lookups %.1f)\twithin 2 times\n",
	       stat_ms[1] / (stat_ms[0] + lookups_ms), stat_ms[1], stat_ms[0], lookups_ms);
}

static void many_processes(void)
{
	static pid_t pids[PROCESSES];
	const char *sleeper[] = {"sleep", "1000", NULL};
	uint64_t ns[ROUNDS];
	size_t len;

	for (int i = 0; i < PROCESSES; i++)
		pids[i] = start(sleeper);
	wait_for_maps(pids[PROCESSES - 1], "/sleep");
	read_tree("usdt/probes", &len);
	for (int i = 0; i < ROUNDS; i++)
		ns[i] = read_tree("usdt/probes", &len);
	printf("usdt/probes with 500 processes, second time\t%.1f ms\tunder 100 ms\n",
	       median_ms(ns, ROUNDS));
	listings();
	for (int i = 0; i < PROCESSES; i++)
		end(pids[i]);
}

int main(int argc, char **argv)
{
	const char *python[] = {"/usr/bin/python3.11", "-c", "import time; time.sleep(999)", NULL};
	const char *jvm[] = {"/usr/lib/jvm/java-17-openjdk-amd64/bin/rmiregistry", "0", NULL};

	if (argc != 4) {
		fprintf(stderr, "usage: bench_usdt MOUNT DAEMON_PID TMPFS_DIR\n");
		return 2;
	}
	mount_dir = argv[1];
	against_tplist("python3.11", python, "python3.11");
	if (access(jvm[0], X_OK) == 0)
		against_tplist("a JVM", jvm, "libjvm.so");
	cached_process();
	many_processes();
	large_object(argv[2], argv[3]);
	return 0;
}
