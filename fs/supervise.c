/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One process that lives as long as the mount does: see supervise.h. */
#include "fs/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <syslog.h>

#include "core/clock.h"
#include "core/oomkills.h"
#include "fs/complain.h"
#include "fs/notify.h"
#include "fs/supervise_internal.h"

#define MS UINT64_C(1000000)

/* One a process that is pinned or read, one a program: more than the usual 1024. */
#define WANTED_FILES 65536

/* A daemon that has served so long and dies is not in a loop. */
#define STEADY_NS (10 * NSEC_PER_SEC)
/* After so many deaths in a row it gets nothing of what the others left; and then it is the last.
 */
#define FAILURES_FRESH 3
#define FAILURES_MAX   6
#define FIRST_DELAY_NS (100 * MS)
/* What a daemon has to end by itself, and to die when it is killed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define END_NS (20 * NSEC_PER_SEC)
#else
#define END_NS (700 * MS)
#endif
#define KILL_NS (200 * MS)

static void say(const struct supervisor *supervisor, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For people: to stderr while somebody sees it, else to the system's log. */
static void say(const struct supervisor *supervisor, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (supervisor->options->foreground || !supervisor->was_ready) {
		fputs("ksymfs: ", stderr);
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
	} else {
		vsyslog(LOG_DAEMON | LOG_WARNING, format, args);
	}
	va_end(args);
}

/* ---- a daemon's life ---- */

static void end_with(struct supervisor *supervisor, int status)
{
	supervisor->done = true;
	supervisor->status = status;
}

static void give_up(struct supervisor *supervisor, const char *why)
{
	say(supervisor, "%s: gave up: %s", supervisor->mount.path, why);
	end_with(supervisor, EXIT_FAILURE);
}

/* How a daemon has ended. */
struct end {
	int status; /* of waitpid(2) */
	bool was_killed, is_starved;
	char text[HANDOVER_CAUSE];
};

/* Was it for want of memory that the daemon was killed, and not by somebody? */
static bool is_starved(const struct supervisor *supervisor)
{
	uint64_t kills;

	return supervisor->knows_oom_kills && oom_kills_count(&kills) &&
	       kills != supervisor->oom_kills;
}

static void look_at_end(const struct supervisor *supervisor, int status, struct end *ret)
{
	*ret = (struct end){.status = status};
	if (!WIFSIGNALED(status)) {
		snprintf(ret->text, sizeof(ret->text), "exit status %d", WEXITSTATUS(status));
		return;
	}
	ret->was_killed = WTERMSIG(status) == SIGKILL;
	ret->is_starved = ret->was_killed && is_starved(supervisor);
	snprintf(ret->text, sizeof(ret->text), "signal %d (%s)%s", WTERMSIG(status),
		 strsignal(WTERMSIG(status)), ret->is_starved ? ", out of memory" : "");
}

/* A new program did not start: the old one goes on. Returns whether that was it. */
static bool retract_program(struct supervisor *supervisor)
{
	if (supervisor->next_program < 0)
		return false;
	say(supervisor, "%s does not start (%s): going on with the one that was running",
	    supervisor->program_path, supervisor->hello.cause);
	fd_cleanup(&supervisor->next_program);
	supervisor->next_program = -1;
	return true;
}

/*
 * Counts the deaths that look like a loop, and returns whether this is one more. Who kills one that
 * serves knows what he is doing. One that was about to is replaced later each time, but loses
 * nothing by it; unless nobody counts kills for want of memory, for then it can have been that.
 */
static bool count_failure(struct supervisor *supervisor, const struct end *end)
{
	bool is_steady = supervisor->is_ready && monotonic_ns() - supervisor->ready_at > STEADY_NS;
	bool by_somebody = end->was_killed && !end->is_starved;

	if (is_steady || (supervisor->is_ready && (by_somebody || supervisor->reloading)))
		supervisor->failures = 0;
	else if (!by_somebody || !supervisor->knows_oom_kills ||
		 supervisor->failures + 1 < FAILURES_FRESH)
		return ++supervisor->failures;
	return false;
}

static void replace_daemon(struct supervisor *supervisor, const struct end *end)
{
	bool is_reload = supervisor->reloading && supervisor->is_ready;
	bool is_broken =
		WIFEXITED(end->status) && (WEXITSTATUS(end->status) == EXIT_REGION_VERSION ||
					   WEXITSTATUS(end->status) == EXIT_REGION_BROKEN);
	uint64_t delay = 0;

	supervisor->hello.number++;
	strcpy(supervisor->hello.cause, is_reload ? "reload" : end->text);
	if (supervisor->is_ready || !retract_program(supervisor)) {
		bool is_one_more = count_failure(supervisor, end);
		if (supervisor->failures >= FAILURES_MAX) {
			give_up(supervisor, "the daemon dies again and again");
			return;
		}
		if (supervisor->failures)
			delay = FIRST_DELAY_NS << (supervisor->failures - 1);
		if (is_broken || (is_one_more && supervisor->failures == FAILURES_FRESH))
			supervisor_make_region(supervisor);
	}
	supervisor->restart_at = monotonic_ns() + delay;
}

static void daemon_ended(struct supervisor *supervisor, int status)
{
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
	int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
	struct end end;

	look_at_end(supervisor, status, &end);
	supervisor->daemon = 0;
	/* What it has said last. */
	if (supervisor->socket >= 0)
		supervisor_read_messages(supervisor);
	fd_cleanup(&supervisor->socket);
	supervisor->socket = -1;
	/* It did not end by itself in time, or was not even there yet. */
	if (supervisor->killed ||
	    (supervisor->stopping && supervisor->was_ready && !supervisor->is_ready))
		end_with(supervisor, EXIT_SUCCESS);
	else if (supervisor->stopping || good)
		end_with(supervisor, exit_status);
	else if (mount_is_dead(&supervisor->mount))
		end_with(supervisor, exit_status);
	else if (supervisor->was_ready)
		replace_daemon(supervisor, &end);
	else
		end_with(supervisor, exit_status);
	if (WIFSIGNALED(status) && !supervisor->killed && !supervisor->reloading)
		say(supervisor, "the daemon was ended by %s", end.text);
}

static void reap(struct supervisor *supervisor)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == supervisor->daemon)
			daemon_ended(supervisor, status);
}

/* ---- what it is told ---- */

/* First away from the tree, so that nobody comes any more; then without us. */
static void stop(struct supervisor *supervisor)
{
	if (supervisor->stopping)
		return;
	supervisor->stopping = true;
	notify_manager("STOPPING=1");
	supervisor->kill_at = monotonic_ns() + END_NS;
	mount_detach(&supervisor->mount);
	if (supervisor->daemon)
		kill(supervisor->daemon, SIGTERM);
	else
		end_with(supervisor, EXIT_SUCCESS);
}

void supervisor_reload(struct supervisor *supervisor)
{
	char state[64];

	if (supervisor->stopping)
		return;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 monotonic_ns() / 1000);
	notify_manager(state);
	supervisor->reload_due =
		!supervisor->is_ready || !supervisor->daemon || supervisor->reloading;
	if (supervisor->reload_due)
		return;
	supervisor->next_program = open(supervisor->program_path, O_PATH | O_CLOEXEC);
	if (supervisor->next_program < 0) {
		say(supervisor, "cannot reload: %s: %s", supervisor->program_path, strerror(errno));
		notify_manager("READY=1");
		return;
	}
	supervisor->reloading = true;
	kill(supervisor->daemon, SIGKILL);
}

static void read_signals(struct supervisor *supervisor)
{
	struct signalfd_siginfo info;

	while (read(supervisor->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(supervisor);
		else if (info.ssi_signo == SIGHUP)
			supervisor_reload(supervisor);
		else
			stop(supervisor);
	}
}

/* Until when to wait for something to happen; UINT64_MAX: for ever. */
static uint64_t next_time(const struct supervisor *supervisor)
{
	if (supervisor->stopping)
		return supervisor->kill_at;
	return supervisor->restart_at ? supervisor->restart_at : UINT64_MAX;
}

static int milliseconds_until(uint64_t time)
{
	uint64_t now = monotonic_ns();

	if (time == UINT64_MAX)
		return -1;
	return time > now ? (time - now + MS - 1) / MS : 0;
}

static void time_is_up(struct supervisor *supervisor)
{
	if (supervisor->stopping && !supervisor->killed) {
		kill(supervisor->daemon, SIGKILL);
		supervisor->killed = true;
		supervisor->kill_at = monotonic_ns() + KILL_NS;
	} else if (supervisor->stopping) {
		/* It hangs in somebody's file system, and dies when that lets it. */
		end_with(supervisor, EXIT_SUCCESS);
	} else if (supervisor->restart_at) {
		int r = supervisor_start_daemon(supervisor);

		if (r < 0)
			give_up(supervisor, strerror(-r));
	}
}

static void run(struct supervisor *supervisor)
{
	while (!supervisor->done) {
		uint64_t time = next_time(supervisor);
		struct pollfd fds[] = {
			{.fd = supervisor->signals, .events = POLLIN},
			{.fd = supervisor->socket, .events = POLLIN},
		};
		int n = poll(fds, ARRAY_SIZE(fds), milliseconds_until(time));

		if (n > 0 && fds[1].revents)
			supervisor_read_messages(supervisor);
		if (n > 0 && fds[0].revents)
			read_signals(supervisor);
		if (!supervisor->done && monotonic_ns() >= next_time(supervisor))
			time_is_up(supervisor);
	}
}

/* ---- its beginning and end ---- */

/* What would end a process that is to stay: sent in error, or for a limit that a call can tell. */
static void ignore_signals(void)
{
	static const int strays[] = {SIGALRM, SIGIO,   SIGPIPE,	  SIGPROF, SIGPWR,
				     SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};

	for (size_t i = 0; i < ARRAY_SIZE(strays); i++)
		signal(strays[i], SIG_IGN);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		signal(i, SIG_IGN);
}

/* The daemon has them from here. */
static int watch_signals(struct supervisor *supervisor)
{
	sigset_t set;

	ignore_signals();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &supervisor->old_mask);
	supervisor->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return supervisor->signals < 0 ? -errno : 0;
}

/* The program by its fd, which stays what it is when the file is replaced, and by its path. */
static int find_program(struct supervisor *supervisor)
{
	ssize_t len = readlink("/proc/self/exe", supervisor->program_path,
			       sizeof(supervisor->program_path) - 1);

	supervisor->program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (len < 0 || supervisor->program < 0)
		return -errno;
	supervisor->program_path[len] = '\0';
	return 0;
}

/* Of the daemon too, whose pins each hold files that we keep. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	rlim_t wanted = MIN(limit.rlim_max, (rlim_t)WANTED_FILES);
	if (limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int start(struct supervisor *supervisor, struct text *error)
{
	raise_file_limit();
	int r = mount_prepare(supervisor->options, &supervisor->mount, error);

	if (r == 0)
		r = find_program(supervisor);
	if (r == 0)
		r = supervisor_make_region(supervisor);
	if (r == 0)
		r = watch_signals(supervisor);
	if (r == 0)
		r = mount_attach(&supervisor->mount, supervisor->options, error);
	if (r < 0)
		return r;
	supervisor->hello.dev = supervisor->mount.dev;
	supervisor->hello.supervisor = getpid();
	return supervisor_start_daemon(supervisor);
}

static void deinit(struct supervisor *supervisor)
{
	mount_detach(&supervisor->mount);
	mount_deinit(&supervisor->mount);
	supervisor_drop_all(supervisor);
	free(supervisor->kept);
	fd_cleanup(&supervisor->program);
	fd_cleanup(&supervisor->next_program);
	fd_cleanup(&supervisor->signals);
	fd_cleanup(&supervisor->region);
	fd_cleanup(&supervisor->socket);
	free(supervisor->argv);
}

/* told: where to say that the tree answers; -1 in the foreground. */
static int serve(const struct options *options, int argc, char **argv, int told)
{
	CLEANUP(deinit)
	struct supervisor supervisor = {
		.options = options,
		.mount = {.directory = -1, .fd = -1},
		.program = -1,
		.next_program = -1,
		.signals = -1,
		.told = told,
		.region = -1,
		.socket = -1,
	};
	_cleanup_text_ struct text error = {};

	supervisor.argv = calloc(argc + 2, sizeof(argv[0]));
	int r = supervisor.argv ? 0 : -ENOMEM;
	if (r == 0) {
		supervisor.argv[0] = argv[0];
		memcpy(&supervisor.argv[2], argv + 1, (argc - 1) * sizeof(argv[0]));
		r = start(&supervisor, &error);
	}
	if (r < 0) {
		complain(&error, r);
		return EXIT_FAILURE;
	}
	run(&supervisor);
	return supervisor.status;
}

/* Waits for the child to be ready, or to end. */
static int wait_for_child(pid_t child, int ready)
{
	int status;
	ssize_t n;
	char byte;

	do {
		n = read(ready, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1)
		return EXIT_SUCCESS;
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILURE;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status))
		return WEXITSTATUS(status);
	if (WIFSIGNALED(status))
		fprintf(stderr, "ksymfs: ended by signal %d before it was ready\n",
			WTERMSIG(status));
	else
		fputs("ksymfs: unmounted before it was ready\n", stderr);
	return EXIT_FAILURE;
}

int supervise(const struct options *options, int argc, char **argv)
{
	int ready[2];

	if (options->foreground)
		return serve(options, argc, argv, -1);
	if (pipe2(ready, O_CLOEXEC) < 0) {
		fprintf(stderr, "ksymfs: cannot make a pipe: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	pid_t child = fork();
	if (child < 0) {
		fprintf(stderr, "ksymfs: cannot go to the background: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	if (child) {
		close(ready[1]);
		return wait_for_child(child, ready[0]);
	}
	close(ready[0]);
	setsid();
	return serve(options, argc, argv, ready[1]);
}
