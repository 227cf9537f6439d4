/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program: reads the command line, mounts, serves, and goes away cleanly.
 *
 * In the background the parent waits for a byte from the child, which comes once the tree answers;
 * until then the child has the parent's stderr, and says there what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/heap.h"
#include "core/tracker.h"
#include "fs/attach.h"
#include "fs/mount.h"
#include "fs/options.h"
#include "fs/session.h"
#include "fs/views.h"

#define EXIT_USAGE 2
/* One a process that is pinned or read, one a program: more than the usual 1024. */
#define WANTED_FILES 65536

/* What there is while the tree is served, in the order in which it is made. */
struct instance {
	struct mount mount;
	struct tracker *tracker;
	struct session *session;
	/* Keeps the session for whoever wakes its readers: an outer lock. */
	pthread_mutex_t wake_lock;
	struct session *awake;
	struct view views[VIEWS_MAX];
	size_t view_count;
};

/* For the signal handler. */
static _Atomic(struct session *) signalled;

static void on_signal(int signal)
{
	struct session *session = atomic_load(&signalled);

	if (session)
		session_stop(session);
}

static void on_events_grew(void *arg)
{
	struct instance *instance = arg;

	LOCKED(&instance->wake_lock);
	/* The baseline's events come before there is a session, others after it. */
	if (instance->awake)
		session_notify_streams(instance->awake);
}

static void set_awake(struct instance *instance, struct session *session)
{
	LOCKED(&instance->wake_lock);
	instance->awake = session;
}

static void complain(const struct text *error, int r)
{
	if (error->len && !error->failed)
		fprintf(stderr, "ksymfs: %.*s\n", (int)error->len, error->data);
	else
		fprintf(stderr, "ksymfs: %s\n", strerror(-r));
}

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

static void ending_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGHUP);
}

/* Until there is something to end: threads that are made meanwhile inherit it, and keep it. */
static void block_signals(void)
{
	sigset_t set;

	ending_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void catch_signals(struct session *session)
{
	const struct sigaction action = {.sa_handler = on_signal};
	sigset_t set;

	atomic_store(&signalled, session);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	ending_signals(&set);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int create(struct instance *instance, const struct options *options, struct text *error)
{
	const struct tracker_options tracker_options = {
		.retain_ns = options->retain_ns,
		.retain_bytes = options->retain_bytes,
		.events_bytes = options->events_bytes,
		.events_grew = on_events_grew,
		.arg = instance,
	};
	const struct session_options session_options = {
		.access = options->access,
		.debug = options->debug,
	};
	int r = tracker_create(&tracker_options, &instance->tracker);

	if (r < 0) {
		text_printf(error, "cannot read the kernel's symbols and programs: %s",
			    strerror(-r));
		return r;
	}
	r = session_create(&session_options, instance->tracker, &instance->session);
	if (r < 0)
		return r;
	const struct view_context context = {
		.options = options,
		.tracker = instance->tracker,
		.session = instance->session,
		.own_dev = &instance->mount.dev,
		.views = instance->views,
		.view_count = &instance->view_count,
	};
	r = views_create(&context, instance->views, &instance->view_count);
	if (r < 0)
		return r;
	session_set_views(instance->session, instance->views, instance->view_count);
	return 0;
}

static void destroy(struct instance *instance)
{
	/* The views give back what is the session's and the tracker's. */
	views_destroy(instance->views, instance->view_count);
	session_destroy(instance->session);
	tracker_destroy(instance->tracker);
	mount_deinit(&instance->mount);
	pthread_mutex_destroy(&instance->wake_lock);
}

static int start(struct instance *instance, const struct options *options, struct text *error)
{
	int r = mount_prepare(options, &instance->mount, error);

	if (r < 0)
		return r;
	r = create(instance, options, error);
	if (r < 0)
		return r;
	set_awake(instance, instance->session);
	catch_signals(instance->session);
	r = mount_attach(&instance->mount, options, error);
	if (r < 0)
		return r;
	r = session_start(instance->session, instance->mount.fd);
	if (r < 0)
		return r;
	if (!session_wait_ready(instance->session)) {
		text_printf(error, "%s was unmounted, or we were told to end, before it was ready",
			    instance->mount.path);
		return -EINTR;
	}
	mount_set_readahead(&instance->mount);
	return 0;
}

/* Tells the parent that the tree answers, and lets go of its terminal. */
static void become_daemon(int ready)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char byte = 0;

	/* A parent that was killed meanwhile need not know. */
	if (chdir("/") < 0 || write(ready, &byte, 1) < 0)
		byte = 1;
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	close(ready);
}

/* Symbols, their names and the text of ksyms. */
#define BASELINE_BYTES ((size_t)20 << 20)

/* Returns the exit status. ready: where to tell that the tree answers; -1 in the foreground. */
static int serve(const struct options *options, int ready)
{
	struct instance instance = {.mount = {.directory = -1, .fd = -1}};
	_cleanup_text_ struct text error = {};

	heap_use_huge_pages(BASELINE_BYTES);
	pthread_mutex_init(&instance.wake_lock, NULL);
	block_signals();
	raise_file_limit();
	int r = start(&instance, options, &error);
	if (r < 0)
		complain(&error, r);
	else if (ready >= 0)
		become_daemon(ready);
	if (r == 0)
		session_wait(instance.session);
	/* First away from the tree, so that nobody comes any more; then without us. */
	mount_detach(&instance.mount);
	atomic_store(&signalled, NULL);
	set_awake(&instance, NULL);
	if (instance.session && !session_end(instance.session))
		_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	destroy(&instance);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
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

static int serve_in_background(const struct options *options)
{
	int ready[2];

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
	return serve(options, ready[1]);
}

static int check(void)
{
	_cleanup_text_ struct text text = {};
	bool tracker_ok = tracker_check(&text);
	bool mount_ok = mount_check(&text);

	if (text.failed) {
		complain(&text, -ENOMEM);
		return EXIT_FAILURE;
	}
	fwrite(text.data, 1, text.len, stdout);
	return tracker_ok && mount_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int unmount(const struct options *options)
{
	_cleanup_text_ struct text error = {};
	int r = mount_umount(options->mountpoint, options->lazy, &error);

	if (r < 0)
		complain(&error, r);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int in_container(const struct options *options,
			int (*command)(const struct options *options, struct text *message))
{
	_cleanup_text_ struct text message = {};
	int r = command(options, &message);

	if (r < 0 || message.len)
		complain(&message, r);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	_cleanup_text_ struct text error = {};
	_cleanup_options_ struct options options = {};

	/* Workers come and go, and arenas of their own would each keep what was once needed. */
	mallopt(M_ARENA_MAX, 1);
	int r = options_parse(argc, argv, &options, &error);

	if (r < 0) {
		complain(&error, r);
		return EXIT_USAGE;
	}
	switch (options.command) {
	case COMMAND_HELP:
		fputs(options_help, stdout);
		return EXIT_SUCCESS;
	case COMMAND_VERSION:
		puts("ksymfs " KSYMFS_VERSION);
		return EXIT_SUCCESS;
	case COMMAND_CHECK:
		return check();
	case COMMAND_UMOUNT:
		return unmount(&options);
	case COMMAND_ATTACH:
		return in_container(&options, attach);
	case COMMAND_DETACH:
		return in_container(&options, detach);
	case COMMAND_MOUNT:
		break;
	}
	return options.foreground ? serve(&options, -1) : serve_in_background(&options);
}
