/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The session's life: its threads, what it agrees on with the kernel, its end. See session.h. */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "core/clock.h"
#include "core/metric.h"
#include "fs/request.h"

/* Of each view that may block: how many of its calls can hang before it is that view's turn to. */
#define VIEW_WORKERS 16
#define MAX_QUEUE    256
/* For snapshots that nobody has open: one of the largest file, and the small ones. */
#define CACHE_BYTES (8 << 20)
/* How long to wait for workers when the session ends. */
#define STOP_MS 300

void session_init(void *userdata, struct fuse_conn_info *conn)
{
	/*
	 * Not splice, whose pipes cost more than the copy; not a mode in which a changed time or
	 * size drops what is cached, for each version has its own cache; nothing that is for
	 * writing.
	 */
	conn->want &=
		~(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
		  FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPORT_SUPPORT |
		  FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_IOCTL_DIR);
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
				       FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	conn->max_read = SESSION_MAX_READ;
	conn->max_readahead = SESSION_MAX_READ;
}

static void note_request(struct session *session, const void *request, size_t len)
{
	bool waits, resent;
	uint32_t opcode = fuseext_opcode(request, len, &waits);

	if (waits && !session->ext.can_resend)
		inflight_add(session->inflight, fuseext_unique(&resent), opcode);
}

static ssize_t read_device(int fd, void *buf, size_t len, void *userdata)
{
	struct session *session = userdata;
	/* The kernel hands out a request before read(2) returns, and we may die in between. */
	void *kept = session->ext.can_resend ? NULL : inflight_buffer(len);
	ssize_t n = read(fd, kept ?: buf, len);

	if (n > 0 && kept)
		memcpy(buf, kept, n);
	if (n > 0) {
		fuseext_saw_request(&session->ext, buf, n);
		note_request(session, buf, n);
		if (session->options.got_init && fuseext_is_init(buf, n))
			session->options.got_init(session->options.arg, buf, n);
	}
	return n;
}

static void signal_fd(int fd)
{
	const uint64_t one = 1;

	/* It can only fail where it is readable already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static ssize_t write_device(int fd, struct iovec *iov, int count, void *userdata)
{
	struct session *session = userdata;

	fuseext_patch_reply(&session->ext, iov, count);
	if (session->replaying) {
		size_t len = 0;

		for (int i = 0; i < count; i++)
			len += iov[i].iov_len;
		return len;
	}
	uint64_t unique = fuseext_answered(iov, count);
	ssize_t n = writev(fd, iov, count);

	if (unique && !session->ext.can_resend)
		inflight_remove(session->inflight, unique);
	/* The first is that to INIT, and the kernel has dealt with it when it returns. */
	if (!atomic_exchange(&session->ready, true))
		signal_fd(session->ready_fd);
	return n;
}

static void init_handles(struct session *session)
{
	struct carry_root *root = carry_root();

	if (!root->started_unix) {
		struct timespec now;

		clock_gettime(CLOCK_REALTIME, &now);
		root->started_unix = now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
	}
	root->last_stream |= STREAM_HANDLES;
	handles_init(&session->files, CARRY_FILE, &root->last_file, file_destroy_handle);
	handles_init(&session->directories, CARRY_DIRECTORY, &root->last_directory,
		     listing_destroy_handle);
	handles_init(&session->streams, CARRY_STREAM, &root->last_stream, stream_destroy_handle);
}

int session_create(const struct session_options *options, struct tracker *tracker,
		   struct session **ret)
{
	char program[] = "ksymfs", o[] = "-o", max_read[32], d[] = "-d";
	char *argv[] = {program, o, max_read, d, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(options->debug ? 4 : 3, argv);
	_cleanup_session_ struct session *session = calloc(1, sizeof(*session));
	int r;

	if (!session)
		return -ENOMEM;
	snprintf(max_read, sizeof(max_read), "max_read=%d", SESSION_MAX_READ);
	session->options = *options;
	session->tracker = tracker;
	session->fd = session->exit_fd = session->ready_fd = -1;
	session->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (session->proc_fd < 0)
		return -errno;
	init_handles(session);
	pthread_mutex_init(&session->foreign_lock, NULL);
	session->started = view_time(carry_root()->started_unix);
	session->exit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (session->exit_fd < 0 || session->ready_fd < 0)
		return -errno;
	r = inflight_create(&session->inflight);
	if (r < 0)
		return r;
	r = readbufs_create(&session->readbufs);
	if (r < 0)
		return r;
	r = node_table_create(CACHE_BYTES, &session->nodes);
	if (r == 0)
		r = backings_create(session, &session->backings);
	if (r < 0)
		return r;
	session->fuse = fuse_session_new(&args, &session_ops, sizeof(session_ops), session);
	fuse_opt_free_args(&args);
	if (!session->fuse)
		return -EINVAL;
	*ret = take_ptr(session);
	return 0;
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	backings_destroy(session->backings);
	if (session->fuse)
		fuse_session_destroy(session->fuse);
	handles_deinit(&session->files);
	handles_deinit(&session->directories);
	handles_deinit(&session->streams);
	for (size_t i = 0; i < VIEWS_MAX; i++)
		pool_destroy(session->pools[i]);
	pool_destroy(session->foreign_pool);
	pool_destroy(session->notifier);
	pthread_mutex_destroy(&session->foreign_lock);
	node_table_destroy(session->nodes);
	inflight_destroy(session->inflight);
	readbufs_destroy(session->readbufs);
	if (session->proc_fd >= 0)
		close(session->proc_fd);
	if (session->exit_fd >= 0)
		close(session->exit_fd);
	if (session->ready_fd >= 0)
		close(session->ready_fd);
	free(session);
}

void session_set_views(struct session *session, const struct view *views, size_t count)
{
	session->views = views;
	session->view_count = count;
}

void session_set_foreign(struct session *session, const struct foreign_ops *ops, void *foreign)
{
	session->foreign_ops = ops;
	session->foreign = foreign;
}

void session_stop(struct session *session)
{
	atomic_store(&session->stopping, true);
	signal_fd(session->exit_fd);
}

bool session_wait_ready(struct session *session)
{
	struct pollfd fds[] = {
		{.fd = session->exit_fd, .events = POLLIN},
		{.fd = session->ready_fd, .events = POLLIN},
	};

	while (!atomic_load(&session->stopping) && !atomic_load(&session->ready))
		poll(fds, ARRAY_SIZE(fds), -1);
	return !atomic_load(&session->stopping);
}

void session_wait(struct session *session)
{
	struct pollfd pollfd = {.fd = session->exit_fd, .events = POLLIN};

	while (!atomic_load(&session->stopping))
		poll(&pollfd, 1, -1);
}

static int create_pools(struct session *session)
{
	int r = pool_create(1, MAX_QUEUE, &session->notifier);

	if (r < 0)
		return r;

	for (size_t i = 0; i < session->view_count; i++) {
		r = pool_create(VIEW_WORKERS, MAX_QUEUE, &session->pools[i]);
		if (r < 0)
			return r;
	}
	if (!session->foreign_ops)
		return 0;
	return pool_create(session->foreign_ops->workers, MAX_QUEUE, &session->foreign_pool);
}

static void ask_view_kinds(struct session *session)
{
	const struct view_path top = {};
	const struct view_caller self = {.pid = getpid()};

	for (size_t i = 0; i < session->view_count; i++) {
		const struct view *view = &session->views[i];
		struct view_attr attr = {};

		if (view->ops->lookup(view->data, &top, &self, &attr) == 0)
			session->view_kinds[i] = attr.kind;
	}
}

static int start_receivers(struct session *session)
{
	for (; session->receiver_count < RECEIVERS; session->receiver_count++) {
		size_t i = session->receiver_count;
		int r = receiver_start(session, i ? &session->receivers[0] : NULL,
				       &session->receivers[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Has libfuse agree with itself to what the kernel and another process have agreed to. */
static int replay_init(struct session *session)
{
	_cleanup_free_ void *copy = malloc(session->options.init_len);
	struct fuse_buf buf = {.mem = copy, .size = session->options.init_len};

	if (!copy || !fuseext_is_init(session->options.init, session->options.init_len))
		return -EINVAL;
	memcpy(copy, session->options.init, session->options.init_len);
	fuseext_saw_request(&session->ext, copy, session->options.init_len);
	session->replaying = true;
	fuse_session_process_buf(session->fuse, &buf);
	session->replaying = false;
	atomic_store(&session->ready, true);
	signal_fd(session->ready_fd);
	return 0;
}

/* What another process had open of our own nodes. */
static void take_over(struct session *session)
{
	struct session_resumed *resumed = &session->resumed;
	struct node_stats nodes;

	carry_take(CARRY_FILE, file_resume, session);
	carry_take(CARRY_DIRECTORY, listing_resume, session);
	carry_take(CARRY_STREAM, stream_resume, session);
	carry_sweep(CARRY_VIEW_STREAM);
	backings_forget_others(session->backings);
	node_table_settle(session->nodes);
	snapshots_forget_unrestored();
	node_table_stats(session->nodes, &nodes);
	resumed->nodes = nodes.nodes;
	resumed->files = handles_count(&session->files);
	resumed->directories = handles_count(&session->directories);
	resumed->streams = handles_count(&session->streams);
}

int session_start(struct session *session, int fd)
{
	static const struct fuse_custom_io io = {.read = read_device, .writev = write_device};
	int r = create_pools(session);

	if (r < 0)
		return r;
	ask_view_kinds(session);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	_cleanup_fd_ int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own < 0)
		return -errno;
	if (fuse_session_custom_io(session->fuse, &io, own) != 0)
		return -EINVAL;
	session->fd = take_fd(&own); /* libfuse closes it */
	take_over(session);
	if (session->options.init_len) {
		r = replay_init(session);
		if (r < 0)
			return r;
		if (!carry_is_inherited())
			backings_forget_unknown(session->backings);
		/* Before anything else is received: these come ahead of it. */
		session->resumed.resent =
			session->ext.can_resend && fuseext_resend(session->fd) == 0;
		if (!session->resumed.resent)
			inflight_answer(session->inflight, session->fd, session_undo_open, session);
		streams_wake_all(session);
	}
	r = start_receivers(session);
	if (r < 0)
		session_end(session);
	return r;
}

static struct pool *nth_pool(const struct session *session, size_t i)
{
	if (i < session->view_count)
		return session->pools[i];
	return i == session->view_count ? session->foreign_pool : session->notifier;
}

static uint64_t now_ms(void)
{
	return monotonic_ns() / 1000000;
}

bool session_end(struct session *session)
{
	uint64_t deadline = now_ms() + STOP_MS;
	bool ended = true;

	session_stop(session);
	while (session->receiver_count)
		receiver_join(&session->receivers[--session->receiver_count]);
	/* Stop them all at once, then wait for each. */
	for (size_t i = 0; i < session->view_count + 2; i++) {
		if (nth_pool(session, i))
			pool_stop(nth_pool(session, i), 0);
	}
	for (size_t i = 0; i < session->view_count + 2; i++) {
		uint64_t now = now_ms();

		if (nth_pool(session, i) &&
		    !pool_stop(nth_pool(session, i), now < deadline ? deadline - now : 0))
			ended = false;
	}
	/* What is still open goes back to the views while they are there. */
	if (ended) {
		handles_clear(&session->files);
		handles_clear(&session->directories);
		handles_clear(&session->streams);
	}
	return ended;
}

void session_get_resumed(const struct session *session, struct session_resumed *ret)
{
	*ret = session->resumed;
}

int32_t session_backing_open(struct session *session, int fd)
{
	if (!atomic_load(&session->ext.passthrough))
		return -EOPNOTSUPP;
	return fuseext_backing_open(session->fd, fd);
}

void session_backing_close(struct session *session, int32_t backing)
{
	fuseext_backing_close(session->fd, backing);
}

bool session_maps_direct_io(const struct session *session)
{
	return atomic_load(&session->ext.mmap_direct_io);
}

/* Of all pools: workers, those that are at something, and jobs that wait. */
static struct pool_stats add_pools(const struct session *session)
{
	struct pool_stats sum = {}, stats;

	for (size_t i = 0; i <= session->view_count; i++) {
		struct pool *pool = nth_pool(session, i);

		if (!pool)
			continue;
		pool_get_stats(pool, &stats);
		sum.workers += stats.workers;
		sum.busy += stats.busy;
		sum.queued += stats.queued;
	}
	return sum;
}

void session_status(struct session *session, struct text *text)
{
	struct pool_stats pools = add_pools(session);

	text_printf(text, "pid: %d\nworkers: %u busy=%u queued=%zu\n", getpid(), pools.workers,
		    pools.busy, pools.queued);
}

void session_metrics(struct session *session, struct text *text)
{
	struct pool_stats pools = add_pools(session);
	struct node_stats nodes;

	node_table_stats(session->nodes, &nodes);
	metric_write(text, "nodes", "Nodes that the kernel knows.", nodes.nodes);
	metric_write(text, "open_files", "Open handles of files.", nodes.open);
	metric_write(text, "cached_bytes", "Bytes of files that nobody has open.",
		     nodes.cached_bytes);
	metric_write(text, "backing_bytes",
		     "Bytes of files in memory that the kernel reads by itself.",
		     backings_bytes(session->backings));
	metric_write(text, "workers_busy", "Workers that are at something or hang.", pools.busy);
	metric_write(text, "requests_queued", "Requests that wait for a worker.", pools.queued);
}
