/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mounting and unmounting, refusals, and the end of a daemon. Daemons in the background become
 * children of this process, a subreaper, which sees how they end.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "core/mountinfo.h"
#include "tests/live/support.h"

extern char **environ;

/* A directory of this test's own, and what the last command said. */
struct place {
	char dir[64];
	char error_path[80];
	char *error;
};

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	strcpy(place->dir, "/tmp/ksymfs-mount-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	snprintf(place->error_path, sizeof(place->error_path), "%s.log", place->dir);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	while (umount2(place->dir, MNT_DETACH) == 0)
		;
	unlink(place->error_path);
	if (rmdir(place->dir) < 0)
		fail_msg("%s: %s", place->dir, strerror(errno));
	free(place->error);
	free(place);
	return 0;
}

static pid_t spawn(struct place *place, const char *const *args)
{
	const char *argv[8] = {getenv("KSYMFS")};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	assert_non_null(argv[0]);
	for (size_t i = 0; args[i]; i++) {
		assert_true(i + 2 < ARRAY_SIZE(argv));
		argv[i + 1] = args[i];
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, place->error_path,
					 O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)argv, environ),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static int exit_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fail_msg("ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* Runs the program with up to three arguments; its exit status. */
static int ksymfs(struct place *place, const char *a, const char *b, const char *c)
{
	const char *const args[] = {a, b, c, NULL};
	int status = exit_status(spawn(place, args));

	free(place->error);
	place->error = read_path(place->error_path, NULL);
	return status;
}

static void mount_it(struct place *place)
{
	if (ksymfs(place, place->dir, NULL, NULL) != 0)
		fail_msg("cannot mount: %s", place->error);
}

static void assert_said(const struct place *place, const char *needle)
{
	if (!strstr(place->error, needle))
		fail_msg("'%s' is not in '%s'", needle, place->error);
	/* One line. */
	assert_ptr_equal(strchr(place->error, '\n'), place->error + strlen(place->error) - 1);
}

static char *in(const struct place *place, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
	return path;
}

static pid_t pid_in_status(const struct place *place, const char *key)
{
	_cleanup_free_ char *path = in(place, "status");
	_cleanup_free_ char *text = read_path(path, NULL);
	const char *line = strstr(text, key);

	assert_non_null(line);
	return atoi(line + strlen(key));
}

static pid_t daemon_of(const struct place *place)
{
	return pid_in_status(place, "\npid: ");
}

/* Who mounted, becomes our child, and ends when the daemon has. */
static pid_t supervisor_of(const struct place *place)
{
	return pid_in_status(place, "\nsupervisor: ");
}

static size_t count_mounts(const struct place *place)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	size_t count = 0;

	assert_int_equal(mountinfo_read(&list), 0);
	for (size_t i = 0; i < list.count; i++)
		count += strcmp(list.mounts[i].mountpoint, place->dir) == 0;
	return count;
}

/* The supervisor ends, with success. How soon: scripts/bench. */
static void assert_ends(pid_t supervisor)
{
	assert_int_equal(exit_status(supervisor), 0);
}

static void unmount(struct place *place)
{
	pid_t supervisor = supervisor_of(place);

	assert_int_equal(ksymfs(place, "umount", place->dir, NULL), 0);
	assert_int_equal(count_mounts(place), 0);
	assert_ends(supervisor);
}

static void returns_once_the_tree_answers(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *path = in(place, "ksyms");
	struct stat st;

	mount_it(place);
	assert_string_equal(place->error, "");
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0);
	unmount(place);
}

static void a_second_daemon_is_refused_with_the_pid(void **state)
{
	struct place *place = *state;
	char expected[64];

	mount_it(place);
	snprintf(expected, sizeof(expected), "its pid is %d;", daemon_of(place));
	assert_int_equal(ksymfs(place, place->dir, NULL, NULL), 1);
	assert_said(place, "a ksymfs is mounted there already");
	assert_said(place, expected);
	assert_int_equal(count_mounts(place), 1);
	unmount(place);
}

static void a_dead_mount_is_taken_over(void **state)
{
	struct place *place = *state;
	int status;

	for (int i = 0; i < 3; i++) {
		mount_it(place);
		pid_t supervisor = supervisor_of(place), daemon = daemon_of(place);
		kill(supervisor, SIGKILL);
		assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
		/* Alone it goes too. */
		assert_int_equal(waitpid(daemon, &status, 0), daemon);
		assert_int_equal(open(place->dir, O_RDONLY | O_DIRECTORY), -1);
		assert_int_equal(errno, ENOTCONN);
	}
	mount_it(place);
	assert_int_equal(count_mounts(place), 1);
	unmount(place);
}

static void bad_mount_points_are_refused(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *file = in(place, "file");
	_cleanup_free_ char *missing = in(place, "missing");
	int fd = open(file, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ksymfs(place, missing, NULL, NULL), 1);
	assert_said(place, "it does not exist");
	assert_int_equal(ksymfs(place, file, NULL, NULL), 1);
	assert_said(place, "it is not a directory");
	assert_int_equal(ksymfs(place, place->dir, NULL, NULL), 1);
	assert_said(place, "it is not empty");
	assert_int_equal(ksymfs(place, "-o", "nonempty", place->dir), 0);
	unmount(place);
	unlink(file);
	assert_int_equal(ksymfs(place, "umount", place->dir, NULL), 1);
	assert_said(place, "no ksymfs is mounted there");
	assert_int_equal(ksymfs(place, "--nonsense", place->dir, NULL), 2);
	assert_said(place, "--nonsense: no such option");
	assert_int_equal(count_mounts(place), 0);
}

static void without_rights_it_says_so(void **state)
{
	struct place *place = *state;
	char name[] = "ksymfs";
	char *const argv[] = {name, place->dir, NULL};
	/* By fd: it may lie where others cannot go. */
	_cleanup_fd_ int program = open(getenv("KSYMFS"), O_PATH);
	int log = open(place->error_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	pid_t pid = fork();

	assert_true(program >= 0 && log >= 0);
	if (pid == 0) {
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(99);
		dup2(log, STDERR_FILENO);
		fexecve(program, argv, environ);
		_exit(98);
	}
	close(log);
	assert_int_equal(exit_status(pid), 1);
	place->error = read_path(place->error_path, NULL);
	assert_said(place, "that takes CAP_SYS_ADMIN; run as root");
}

static void sigterm_ends_it_whatever_is_open(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *ksyms = in(place, "ksyms");
	_cleanup_free_ char *events = in(place, "events");
	char byte;

	mount_it(place);
	pid_t supervisor = supervisor_of(place);
	_cleanup_fd_ int file = open(ksyms, O_RDONLY);
	_cleanup_fd_ int stream = open(events, O_RDONLY);
	_cleanup_fd_ int directory = open(place->dir, O_RDONLY | O_DIRECTORY);
	assert_true(file >= 0 && stream >= 0 && directory >= 0);
	assert_int_equal(read(file, &byte, 1), 1);
	void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	/* Somebody lives in it and waits for events. */
	pid_t reader = fork();
	if (reader == 0) {
		struct pollfd pollfd = {.fd = stream, .events = POLLIN};
		char buf[4096];

		if (fchdir(directory) < 0)
			_exit(1);
		while (read(stream, buf, sizeof(buf)) > 0)
			;
		poll(&pollfd, 1, 10000);
		_exit(0);
	}
	usleep(100000);
	kill(supervisor, SIGTERM);
	assert_ends(supervisor);
	assert_int_equal(count_mounts(place), 0);
	assert_int_equal(read(stream, &byte, 1), -1);
	munmap(map, 4096);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
}

static void sigint_ends_it_too(void **state)
{
	struct place *place = *state;

	mount_it(place);
	pid_t supervisor = supervisor_of(place);
	kill(supervisor, SIGINT);
	assert_ends(supervisor);
	assert_int_equal(count_mounts(place), 0);
}

/* The one whose pid the refusal and status tell. */
static void sigterm_to_the_daemon_ends_it_too(void **state)
{
	struct place *place = *state;

	mount_it(place);
	pid_t supervisor = supervisor_of(place);
	kill(daemon_of(place), SIGTERM);
	assert_ends(supervisor);
	assert_int_equal(count_mounts(place), 0);
}

/* The next message of a service is one that begins so. */
static bool is_notified(int fd, const char *state)
{
	char message[64] = "";

	assert_true(recv(fd, message, sizeof(message) - 1, 0) > 0);
	return strncmp(message, state, strlen(state)) == 0;
}

/* As systemd starts it: Type=notify, with a socket of either kind. */
static void the_service_manager_is_told(void **state)
{
	static const char *const starts[] = {"/tmp/", "@"};
	struct place *place = *state;

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		char path[64];

		snprintf(path, sizeof(path), "%sksymfs-notify-%d", starts[i], getpid());
		memcpy(address.sun_path, path, strlen(path));
		if (path[0] == '@')
			address.sun_path[0] = '\0';
		assert_int_equal(bind(fd, (struct sockaddr *)&address,
				      offsetof(struct sockaddr_un, sun_path) + strlen(path)),
				 0);
		setenv("NOTIFY_SOCKET", path, 1);
		pid_t supervisor = spawn(place, (const char *const[]){"-f", place->dir, NULL});
		unsetenv("NOTIFY_SOCKET");
		assert_true(is_notified(fd, "READY=1"));
		assert_int_equal(supervisor_of(place), supervisor);
		/* As `systemctl reload` does. The second is not lost if it comes too soon. */
		kill(supervisor, SIGHUP);
		assert_true(is_notified(fd, "RELOADING=1\nMONOTONIC_USEC="));
		kill(supervisor, SIGHUP);
		do {
			while (!is_notified(fd, "READY=1"))
				;
		} while (pid_in_status(place, "\nhandovers: ") < 2);
		kill(supervisor, SIGTERM);
		assert_true(is_notified(fd, "STOPPING=1"));
		assert_ends(supervisor);
		if (path[0] == '/')
			unlink(path);
	}
}

static void unmounting_from_outside_ends_it(void **state)
{
	struct place *place = *state;

	mount_it(place);
	pid_t supervisor = supervisor_of(place);
	assert_int_equal(umount2(place->dir, 0), 0);
	assert_ends(supervisor);
}

static dev_t dev_of(const struct place *place)
{
	struct stat st;

	assert_int_equal(stat(place->dir, &st), 0);
	return st.st_dev;
}

/* The number of a file system that has gone is soon another one's. */
static void the_next_mount_is_let_alone(void **state)
{
	struct place *place = *state;
	bool same = false;

	mount_it(place);
	for (int i = 0; i < 50 && !same; i++) {
		pid_t supervisor = supervisor_of(place);
		dev_t dev = dev_of(place);

		assert_int_equal(kill(supervisor, SIGSTOP), 0);
		assert_int_equal(umount2(place->dir, 0), 0);
		mount_it(place);
		same = dev_of(place) == dev;
		assert_int_equal(kill(supervisor, SIGCONT), 0);
		assert_ends(supervisor);
		assert_true(supervisor_of(place) != supervisor);
	}
	if (!same)
		skip_because("others mount at the same time");
}

static void a_busy_mount_says_so_and_can_be_detached(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *path = in(place, "ksyms");
	char buf[16];

	mount_it(place);
	pid_t supervisor = supervisor_of(place);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(ksymfs(place, "umount", place->dir, NULL), 1);
	assert_said(place, "files in it are open");
	assert_int_equal(umount2(place->dir, MNT_DETACH), 0);
	/* What is open goes on. */
	assert_int_equal(pread(fd, buf, sizeof(buf), 0), sizeof(buf));
	assert_int_equal(kill(supervisor, 0), 0);
	close(fd);
	assert_ends(supervisor);
}

static void as_an_fstab_line_says_it(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *path = in(place, "README");
	struct stat st;

	assert_int_equal(ksymfs(place, "ksymfs", place->dir,
				"-orw,nodev,suid,_netdev,uid=7,gid=8,umask=027"),
			 0);
	assert_int_equal(stat(place->dir, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0550);
	assert_int_equal(st.st_uid, 7);
	assert_int_equal(st.st_gid, 8);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0440);
	assert_int_equal(st.st_uid, 7);
	assert_int_equal(st.st_gid, 8);

	_cleanup_free_ char *mounts = read_path("/proc/self/mounts", NULL);
	_cleanup_free_ char *expected = NULL;
	assert_true(asprintf(&expected,
			     "ksymfs %s fuse.ksymfs rw,nosuid,nodev,noexec,noatime,user_id=0,"
			     "group_id=0,default_permissions,allow_other",
			     place->dir) > 0);
	if (!strstr(mounts, expected))
		fail_msg("no '%s' in\n%s", expected, mounts);
	unmount(place);
}

static void too_few_files_and_a_full_output_are_said(void **state)
{
	struct place *place = *state;
	const char *program = getenv("KSYMFS");

	assert_int_equal(run("ulimit -n 20; %s %s 2>%s", program, place->dir, place->error_path),
			 1);
	place->error = read_path(place->error_path, NULL);
	assert_said(place, "ulimit -n");
	for (const char *const *option = (const char *const[]){"--version", "--help", NULL};
	     *option; option++)
		assert_int_equal(run("%s %s >/dev/full 2>%s", program, *option, place->error_path),
				 1);
}

static void others_are_kept_out(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *path = in(place, "ksyms");

	mount_it(place);
	pid_t pid = fork();
	if (pid == 0) {
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(99);
		if (open(path, O_RDONLY) >= 0 || errno != EACCES)
			_exit(1);
		if (open(place->dir, O_RDONLY | O_DIRECTORY) >= 0 || errno != EACCES)
			_exit(2);
		_exit(0);
	}
	assert_int_equal(exit_status(pid), 0);
	unmount(place);
}

/* Every inode number below bpf/ and at the top, in a list of one line each. */
static char *inode_numbers(const char *dir)
{
	char command[256];
	char *text;

	snprintf(command, sizeof(command), "cd %s && stat -c '%%n %%i' * bpf/by-* bpf/programs",
		 dir);
	FILE *pipe = popen(command, "re");
	assert_non_null(pipe);
	text = read_fd(fileno(pipe), NULL);
	assert_int_equal(pclose(pipe), 0);
	assert_non_null(strstr(text, "ksyms "));
	return text;
}

static void inode_numbers_stay(void **state)
{
	struct place *place = *state;
	_cleanup_free_ char *bpf = in(place, "bpf");
	struct stat st;

	mount_it(place);
	_cleanup_free_ char *first = inode_numbers(place->dir);
	assert_int_equal(stat(bpf, &st), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(run("echo 2 > /proc/sys/vm/drop_caches"), 0);
	_cleanup_free_ char *second = inode_numbers(place->dir);
	assert_string_equal(first, second);
	unmount(place);
	mount_it(place);
	_cleanup_free_ char *third = inode_numbers(place->dir);
	assert_string_equal(first, third);
	unmount(place);
}

/* What is sent in error ends nobody; what a terminal ends a program by does. */
static void stray_signals_are_ignored(void **state)
{
	static const int strays[] = {SIGALRM, SIGIO,   SIGPIPE,	  SIGPROF, SIGPWR,
				     SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};
	struct place *place = *state;

	mount_it(place);
	pid_t supervisor = supervisor_of(place), daemon = daemon_of(place);

	for (size_t i = 0; i < ARRAY_SIZE(strays); i++) {
		assert_int_equal(kill(supervisor, strays[i]), 0);
		assert_int_equal(kill(daemon, strays[i]), 0);
	}
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
		assert_int_equal(kill(supervisor, i), 0);
		assert_int_equal(kill(daemon, i), 0);
	}
	assert_int_equal(supervisor_of(place), supervisor);
	assert_int_equal(daemon_of(place), daemon);
	kill(supervisor, SIGQUIT);
	assert_ends(supervisor);
	assert_int_equal(count_mounts(place), 0);
}

/* Processes could not be told apart. */
static void refuses_the_proc_of_others(void **state)
{
	struct place *place = *state;

	assert_int_equal(
		run("unshare --pid --fork \"$KSYMFS\" %s 2>%s", place->dir, place->error_path),
		EXIT_FAILURE);
	place->error = read_path(place->error_path, NULL);
	assert_said(place, "mount -t proc proc /proc");
	assert_int_equal(count_mounts(place), 0);
	assert_int_equal(run("unshare --pid --fork \"$KSYMFS\" check 2>/dev/null | "
			     "grep -q '^mount: no: /proc'"),
			 0);
}

int main(void)
{
#define OWN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	static const struct CMUnitTest mounting[] = {
		OWN(returns_once_the_tree_answers),
		OWN(a_second_daemon_is_refused_with_the_pid),
		OWN(a_dead_mount_is_taken_over),
		OWN(bad_mount_points_are_refused),
		OWN(without_rights_it_says_so),
		OWN(sigterm_ends_it_whatever_is_open),
		OWN(sigint_ends_it_too),
		OWN(sigterm_to_the_daemon_ends_it_too),
		OWN(the_service_manager_is_told),
		OWN(unmounting_from_outside_ends_it),
		OWN(the_next_mount_is_let_alone),
		OWN(a_busy_mount_says_so_and_can_be_detached),
		OWN(as_an_fstab_line_says_it),
		OWN(too_few_files_and_a_full_output_are_said),
		OWN(others_are_kept_out),
		OWN(inode_numbers_stay),
		OWN(stray_signals_are_ignored),
		OWN(refuses_the_proc_of_others),
	};
#undef OWN

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return live_run_bare(mounting);
}
