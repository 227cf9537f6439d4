/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answers for our own nodes: lookups, attributes, files and symlinks. Directories are in
 * listing.c, streams in stream.c, foreign nodes in foreign.c, and what libfuse calls in ops.c.
 *
 * No lock is held here.
 */
#include <errno.h>
#include <string.h>

#include "fs/request.h"

/* Long enough for the kernel never to ask again for what does not change. */
#define FOREVER 86400.0
/* What follows a lookup in one open(2) and read(2), and little else. */
#define MOMENT 0.01
/* Chunks of a snapshot that one answer is made of without a copy. */
#define READ_PIECES 256

mode_t view_kind_type(enum view_kind kind)
{
	switch (kind) {
	case VIEW_DIR:
		return S_IFDIR;
	case VIEW_LINK:
		return S_IFLNK;
	default:
		return S_IFREG;
	}
}

void request_fill_stat(const struct session *session, uint64_t ino, const struct view_attr *attr,
		       uint64_t size, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = view_kind_type(attr->kind) | attr->mode,
		.st_nlink = 1,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_size = size,
		.st_blocks = (size + 511) / 512,
		.st_blksize = 4096,
		.st_mtim = attr->mtime,
		/*
		 * Not the time of the change: tar takes one that differs between the stat of a path
		 * and that of the open file for a change under its hands.
		 */
		.st_ctim = session->started,
		.st_atim = attr->mtime,
	};
}

/* For how long the kernel may take our word for attributes. */
static double attr_timeout(const struct session *session, const struct view_attr *attr)
{
	/* Nothing about such a directory changes: its time is the session's start. */
	bool constant = attr->kind == VIEW_DIR && attr->fixed &&
			attr->mtime.tv_sec == session->started.tv_sec &&
			attr->mtime.tv_nsec == session->started.tv_nsec;

	if (attr->quick)
		return MOMENT;
	return constant ? FOREVER : 0;
}

void request_fill_entry(const struct session *session, const struct node *node,
			const struct view_attr *attr, uint64_t size, struct fuse_entry_param *ret)
{
	*ret = (struct fuse_entry_param){
		.ino = node->id,
		.generation = 1,
		.entry_timeout = attr->fixed ? FOREVER : 0,
		.attr_timeout = attr_timeout(session, attr),
	};
	request_fill_stat(session, node->ino, attr, size, &ret->attr);
}

/* A time for what has none: now, or the start of the session where nothing changes. */
static void set_time(const struct session *session, struct view_attr *attr)
{
	if (attr->mtime.tv_sec || attr->mtime.tv_nsec)
		return;
	if (attr->kind == VIEW_DIR && attr->fixed)
		attr->mtime = session->started;
	else
		clock_gettime(CLOCK_REALTIME, &attr->mtime);
}

void session_complete(const struct session *session, const struct view *view,
		      struct view_attr *attr)
{
	set_time(session, attr);
	access_set_mode(&session->options.access, view ? view->ops->access : ACCESS_TREE, attr);
}

int request_check_access(const struct request *request)
{
	const struct session *session = request->session;

	if (!request->view)
		return 0;
	return access_check(&session->options.access, request->view->ops->access, session->proc_fd,
			    &request->caller);
}

/* What is now at the request's path? */
int request_lookup_view(struct request *request, struct view_attr *ret)
{
	const struct session *session = request->session;

	*ret = (struct view_attr){.kind = VIEW_DIR, .fixed = true};
	if (request->path[0]) {
		*ret = (struct view_attr){};
		if (!request->view)
			return -ENOENT;
		int r = request->view->ops->lookup(request->view->data, &request->names,
						   &request->caller, ret);
		if (r < 0)
			return r;
	}
	session_complete(session, request->view, ret);
	return 0;
}

int request_lookup_node(struct request *request, struct view_attr *ret)
{
	int r = request_lookup_view(request, ret);

	if (r == -ENOENT)
		return -ESTALE;
	return r < 0 ? r : node_check(request->node, ret);
}

/* Is the directory in which something is looked up still the one that its node belongs to? */
static int check_parent(struct request *request)
{
	struct view_attr attr = {};

	if (!request->node->generation)
		return 0;
	request->names.count--;
	int r = request->view->ops->lookup(request->view->data, &request->names, &request->caller,
					   &attr);
	request->names.count++;
	if (r == -ENOENT)
		return -ESTALE;
	return r < 0 ? r : node_check(request->node, &attr);
}

static int render(struct request *request, const struct view_attr *now, struct rendering *ret)
{
	const struct view_ops *ops = request->view->ops;
	struct view_attr after;

	*ret = (struct rendering){.attr = *now};
	if (!ops->render)
		return -EINVAL;
	int r = ops->render(request->view->data, &request->names, &request->caller, &ret->snapshot);
	if (r < 0)
		return r;
	/* Generations only rise: the same one on both sides is that of the bytes. */
	ret->settled = now->generation != VIEW_VOLATILE &&
		       request_lookup_view(request, &after) == 0 &&
		       after.generation == now->generation;
	return 0;
}

static int read_link(struct request *request, char **ret)
{
	const struct view_ops *ops = request->view ? request->view->ops : NULL;

	if (!ops || !ops->readlink)
		return -EINVAL;
	return ops->readlink(request->view->data, &request->names, &request->caller, ret);
}

/* The size of a file that is at the request's path, rendered if nobody knows it. */
static int stat_file(struct request *request, struct node *node, const struct view_attr *now,
		     struct view_attr *ret, uint64_t *ret_size)
{
	struct node_table *nodes = request->session->nodes;
	struct rendering rendering;

	if (node_stat(nodes, node, now, ret, ret_size) == NODE_READY)
		return 0;
	int r = render(request, now, &rendering);
	if (r == -EACCES || r == -EPERM) {
		/* It can be seen, and not opened. */
		*ret = *now;
		*ret_size = 0;
		return 0;
	}
	if (r < 0)
		return r;
	node_stat_rendered(nodes, node, request->caller.pid, &rendering, ret, ret_size);
	snapshot_unref(rendering.snapshot);
	return 0;
}

static void answer_entry(struct request *request, const struct view_attr *attr)
{
	struct session *session = request->session;
	struct view_attr measured = *attr;
	struct fuse_entry_param entry;
	struct node *node;
	uint64_t size;
	int r = node_lookup(session->nodes, request->path, attr, request->caller.pid, &node, &size);

	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	if (attr->kind == VIEW_FILE && attr->quick)
		r = stat_file(request, node, attr, &measured, &size);
	if (r == 0) {
		request_fill_entry(session, node, &measured, size, &entry);
		r = request_reply_entry(request, &entry);
	} else {
		request_reply_err(request, -r);
	}
	if (r != 0)
		node_forget(session->nodes, node->id, 1);
	node_put(session->nodes, node);
}

void serve_lookup(struct request *request)
{
	struct view_attr attr;
	int r = check_parent(request);

	/* The view itself may be seen. */
	if (r == 0 && request->view && request->view->ops->secret_names && request->names.count)
		r = request_check_access(request);
	if (r == 0)
		r = request_lookup_view(request, &attr);
	if (r < 0)
		request_reply_err(request, -r);
	else if (attr.kind == VIEW_FOREIGN)
		request_move_to_foreign(request, attr.generation);
	else
		answer_entry(request, &attr);
}

static int stat_path(struct request *request, struct view_attr *ret, uint64_t *ret_size)
{
	_cleanup_free_ char *target = NULL;
	struct view_attr now;
	int r = request_lookup_node(request, &now);

	if (r < 0)
		return r;
	*ret = now;
	switch (now.kind) {
	case VIEW_FILE:
		return stat_file(request, request->node, &now, ret, ret_size);
	case VIEW_STREAM:
		*ret_size = now.size;
		return 0;
	case VIEW_LINK:
		r = read_link(request, &target);
		*ret_size = r < 0 ? 0 : strlen(target);
		return r == -ENOENT ? r : 0;
	default:
		return 0;
	}
}

void serve_getattr(struct request *request)
{
	const struct session *session = request->session;
	struct node *node = request->node;
	struct view_attr attr;
	uint64_t size = 0;
	struct stat st;
	int r = 0;

	if (!node_stat_open(session->nodes, node, &attr, &size))
		r = stat_path(request, &attr, &size);
	else if (node->kind == VIEW_STREAM && !stream_size_of_node(request->session, node, &size))
		r = stat_path(request, &attr, &size);
	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request_fill_stat(session, node->ino, &attr, size, &st);
	request_reply_attr(request, &st, attr_timeout(session, &attr));
}

void serve_readlink(struct request *request)
{
	_cleanup_free_ char *target = NULL;
	int r = read_link(request, &target);

	if (r < 0)
		request_reply_err(request, -r);
	else
		request_reply_readlink(request, target);
}

static int open_file(struct request *request, const struct view_attr *now, struct node_open *ret)
{
	struct node_table *nodes = request->session->nodes;
	struct rendering rendering;
	int r = node_open(nodes, request->node, now, request->caller.pid, ret);

	if (r != NODE_RENDER)
		return r;
	r = render(request, now, &rendering);
	if (r < 0)
		return r;
	r = node_open_rendered(nodes, request->node, &rendering, request->caller.pid, ret);
	snapshot_unref(rendering.snapshot);
	return r;
}

void serve_open(struct request *request)
{
	struct node_open how = {};
	struct view_attr now;
	int32_t backing = 0;

	request_undo_open(request);
	int r = request_check_access(request);

	if (r == 0)
		r = request_lookup_node(request, &now);
	if (r == 0 && now.kind == VIEW_STREAM) {
		serve_stream_open(request, &now);
		return;
	}
	if (r == 0)
		r = now.kind == VIEW_FILE ? open_file(request, &now, &how) : -EISDIR;
	if (r == 0)
		r = request_add_file(request, &backing);
	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request->fi.direct_io = how.direct;
	request->fi.keep_cache = how.keep_pages;
	request->fi.noflush = 1;
	r = backing > 0 ? request_reply_open_passthrough(request, backing)
			: request_reply_open(request);
	if (r != 0)
		request_close_file(request);
}

static void answer_snapshot(fuse_req_t fuse, const struct snapshot *snapshot, uint64_t offset,
			    size_t size)
{
	struct iovec pieces[READ_PIECES];
	uint64_t total = snapshot_size(snapshot);
	size_t len = offset < total ? MIN(total - offset, size) : 0;
	int count = snapshot_iov(snapshot, offset, len, pieces, READ_PIECES);
	size_t covered = 0;

	for (int i = 0; i < count; i++)
		covered += pieces[i].iov_len;
	if (covered == len) {
		fuse_reply_iov(fuse, pieces, count);
		return;
	}
	/* A short answer would mean the end of the file. */
	_cleanup_free_ char *copy = malloc(len);
	if (copy)
		fuse_reply_buf(fuse, copy, snapshot_read(snapshot, offset, copy, len));
	else
		fuse_reply_err(fuse, ENOMEM);
}

void serve_read(struct request *request)
{
	if (request->fi.fh & STREAM_HANDLES) {
		serve_stream_read(request);
		return;
	}
	_cleanup_snapshot_ struct snapshot *snapshot =
		node_snapshot(request->session->nodes, request->node);
	if (snapshot)
		answer_snapshot(request->fuse, snapshot, request->offset, request->size);
	else
		request_reply_err(request, ESTALE);
}

void serve_release(struct request *request)
{
	/* One that is not there was closed by a process that died before it could say so. */
	request_close_file(request);
	request_reply_err(request, 0);
}

void serve_mkdir(struct request *request)
{
	const struct view *view = request->view;
	struct view_attr attr;
	int r = -EROFS;

	if (view && view->ops->mkdir)
		r = request_check_access(request);
	if (r == 0)
		r = view->ops->mkdir(view->data, &request->names, &request->caller);
	/* Made by a process that died before it could say so. */
	if (r == -EEXIST && request->resent)
		r = 0;
	if (r == 0)
		r = request_lookup_view(request, &attr);
	if (r < 0)
		request_reply_err(request, -r);
	else
		answer_entry(request, &attr);
}

void serve_rmdir(struct request *request)
{
	const struct view *view = request->view;
	int r = -EROFS;

	if (view && view->ops->rmdir)
		r = request_check_access(request);
	if (r == 0)
		r = view->ops->rmdir(view->data, &request->names, &request->caller);
	if (r == -ENOENT && request->resent)
		r = 0;
	request_reply_err(request, -r);
}
