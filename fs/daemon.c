/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon: serves the tree on a connection that its supervisor has opened, and says when the
 * tree answers. See daemon.h.
 */
#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/carry.h"
#include "core/heap.h"
#include "core/rights.h"
#include "core/pidns.h"
#include "core/tracker.h"
#include "fs/complain.h"
#include "fs/handover.h"
#include "fs/sandbox.h"
#include "fs/session.h"
#include "fs/supervise.h"
#include "fs/views.h"

/* Symbols, their names and the text of ksyms. */
#define BASELINE_BYTES ((size_t)20 << 20)
/* Of what is retained: more than that, if more is asked for, comes in small pages. */
#define RETAINED_BYTES ((size_t)256 << 20)

/* What there is while the tree is served, in the order in which it is made. */
struct instance {
	struct handover handover;
	struct keeper keeper;
	dev_t dev;
	struct pidns *pidns;
	struct tracker *tracker;
	struct session *session;
	/* Keeps the session for whoever wakes its readers: an outer lock. */
	pthread_mutex_t wake_lock;
	struct session *awake;
	int rights_error; /* -errno; 0: those that are not needed are gone */
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

static void ending_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGQUIT);
}

/* Until there is something to end: threads that are made meanwhile inherit it, and keep it. */
static void block_signals(void)
{
	sigset_t set;

	ending_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Of a terminal that is gone: the supervisor knows what to make of it. */
	signal(SIGHUP, SIG_IGN);
}

static void catch_signals(struct session *session)
{
	const struct sigaction action = {.sa_handler = on_signal};
	sigset_t set;

	atomic_store(&signalled, session);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGQUIT, &action, NULL);
	ending_signals(&set);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_init(void *arg, const void *init, size_t len)
{
	const struct instance *instance = arg;

	handover_init(&instance->handover, init, len);
}

/* The process that --pidns names may be gone by the time that we take another daemon's place. */
static int open_pidns(struct instance *instance, const struct options *options, struct text *error)
{
	struct handover *handover = &instance->handover;
	int ns_fd = handover_take(handover, HANDOVER_KEY_PIDNS);
	int proc_fd = handover_take(handover, HANDOVER_KEY_PIDNS_PROC);
	int r;

	if (ns_fd >= 0 && proc_fd >= 0) {
		r = pidns_reopen(ns_fd, proc_fd, &instance->pidns);
	} else {
		fd_cleanup(&ns_fd);
		fd_cleanup(&proc_fd);
		r = pidns_open(options->pidns, &instance->pidns);
	}
	if (r < 0) {
		text_printf(error, "cannot show the pid namespace of process %d: %s",
			    options->pidns, strerror(-r));
		return r;
	}
	if (pidns_fd(instance->pidns) >= 0) {
		handover_keep(handover, HANDOVER_KEY_PIDNS, pidns_fd(instance->pidns));
		handover_keep(handover, HANDOVER_KEY_PIDNS_PROC, pidns_proc_fd(instance->pidns));
	}
	return 0;
}

static void on_opened(void *arg)
{
	struct instance *instance = arg;

	instance->rights_error = sandbox_drop_rights();
}

static int create(struct instance *instance, const struct options *options, struct text *error)
{
	const struct tracker_options tracker_options = {
		.retain_ns = options->retain_ns,
		.retain_bytes = options->retain_bytes,
		.events_bytes = options->events_bytes,
		.capture_at_unload = options->capture_at_unload,
		.events_grew = on_events_grew,
		.opened = on_opened,
		.arg = instance,
	};
	const struct session_options session_options = {
		.access = options->access,
		.debug = options->debug,
		.got_init = on_init,
		.arg = instance,
		.init = instance->handover.hello.init,
		.init_len = instance->handover.hello.init_len,
	};
	int r = open_pidns(instance, options, error);

	if (r < 0)
		return r;
	r = tracker_create(&tracker_options, &instance->tracker);
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
		.pidns = instance->pidns,
		.own_dev = &instance->dev,
		.handover = &instance->handover,
		.keeper = &instance->keeper,
		.views = instance->views,
		.view_count = &instance->view_count,
	};
	r = views_create(&context, instance->views, &instance->view_count);
	if (r < 0)
		return r;
	session_set_views(instance->session, instance->views, instance->view_count);
	if (instance->rights_error < 0)
		text_printf(error, "cannot drop rights: %s", strerror(-instance->rights_error));
	return instance->rights_error;
}

static void destroy(struct instance *instance)
{
	/* The views give back what is the session's and the tracker's. */
	views_destroy(instance->views, instance->view_count);
	session_destroy(instance->session);
	tracker_destroy(instance->tracker);
	pidns_close(instance->pidns);
	handover_deinit(&instance->handover);
	pthread_mutex_destroy(&instance->wake_lock);
}

/* Takes what the supervisor has for us. */
static int receive(struct instance *instance, int socket)
{
	int r = handover_begin(socket, &instance->handover);

	if (r < 0)
		return r;
	handover_keeper(&instance->handover, &instance->keeper);
	instance->dev = instance->handover.hello.dev;
	return carry_open(instance->handover.region, instance->handover.hello.number + UINT64_C(1));
}

static int start(struct instance *instance, const struct options *options, struct text *error)
{
	int r = create(instance, options, error);

	if (r < 0)
		return r;
	heap_use_small_pages();
	set_awake(instance, instance->session);
	catch_signals(instance->session);
	r = session_start(instance->session, instance->handover.device);
	/* Who is to be real-time is. */
	rights_drop_nice();
	if (r < 0)
		return r;
	if (!session_wait_ready(instance->session)) {
		text_puts(error, "it was unmounted, or we were told to end, before it was ready");
		return -EINTR;
	}
	return 0;
}

/* Lets go of the terminal, which the supervisor does too. */
static void leave_terminal(void)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
}

int daemon_serve(const struct options *options)
{
	struct instance instance = {.handover = {.socket = -1, .device = -1, .region = -1}};
	_cleanup_text_ struct text error = {};

	heap_use_huge_pages(BASELINE_BYTES + MIN(options->retain_bytes, RETAINED_BYTES));
	inheriting_mutex_init(&instance.wake_lock);
	/* By its fd it is started under another name. */
	prctl(PR_SET_NAME, "ksymfs");
	block_signals();
	int r = receive(&instance, options->serve);
	if (r == -EPROTO || r == -EBADMSG)
		_exit(r == -EPROTO ? EXIT_REGION_VERSION : EXIT_REGION_BROKEN);
	if (r == 0)
		r = start(&instance, options, &error);
	if (r < 0) {
		complain(&error, r);
	} else {
		if (!options->foreground && chdir("/") == 0)
			leave_terminal();
		/* Where the kernel has no filters, status says so. */
		sandbox_filter_calls();
		handover_ready(&instance.handover);
		session_wait(instance.session);
	}
	atomic_store(&signalled, NULL);
	set_awake(&instance, NULL);
	if (instance.session && !session_end(instance.session))
		_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	destroy(&instance);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
