/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request, from its arrival to its answer: see request.h.
 *
 * Who answers is settled by one compare-and-swap of request->state, between the worker and the
 * interrupt, which libfuse calls on a receiving thread with the request's lock held. A worker that
 * won takes the interrupt function off before it answers, which waits for one that is under way;
 * one that lost leaves libfuse's request alone, for it is gone. session_refuse() is a third party
 * to that, on any thread.
 */
#include "fs/request.h"

#include <errno.h>
#include <string.h>

void request_init(struct request *request, fuse_req_t fuse, uint64_t id,
		  const struct request_kind *kind)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(fuse);

	/* Not the paths, which are written before they are read. */
	memset(request, 0, offsetof(struct request, path));
	request->session = fuse_req_userdata(fuse);
	request->kind = kind;
	request->fuse = fuse;
	request->id = id;
	request->unique = fuseext_unique(&request->resent);
	request->caller = (struct view_caller){.pid = ctx->pid};
}

static void list_foreign(struct request *request)
{
	struct session *session = request->session;

	LOCKED(&session->foreign_lock);
	request->after = session->foreign_requests;
	if (request->after)
		request->after->before = request;
	session->foreign_requests = request;
	request->is_listed = true;
}

static void add_reference(struct request *request)
{
	LOCKED(&request->session->foreign_lock);
	request->refs++;
}

/* Returns whether nobody uses the request any more. */
static bool drop_reference(struct request *request)
{
	struct session *session = request->session;

	LOCKED(&session->foreign_lock);
	if (--request->refs)
		return false;
	if (!request->is_listed)
		return true;
	if (request->before)
		request->before->after = request->after;
	else
		session->foreign_requests = request->after;
	if (request->after)
		request->after->before = request->before;
	return true;
}

static void request_free(struct request *request)
{
	bool pooled = request->pool;

	if (pooled && !drop_reference(request))
		return;
	if (request->node)
		node_put(request->session->nodes, request->node);
	if (pooled)
		free(request);
}

static bool claim(struct request *request)
{
	int expected = REQUEST_OPEN;

	if (!request->pool)
		return true;
	if (!atomic_compare_exchange_strong(&request->state, &expected, REQUEST_ANSWERED))
		return false;
	fuse_req_interrupt_func(request->fuse, NULL, NULL);
	return true;
}

int request_reply_err(struct request *request, int error)
{
	return claim(request) ? fuse_reply_err(request->fuse, error) : -EINTR;
}

int request_reply_entry(struct request *request, const struct fuse_entry_param *entry)
{
	return claim(request) ? fuse_reply_entry(request->fuse, entry) : -EINTR;
}

int request_reply_attr(struct request *request, const struct stat *attr, double timeout)
{
	return claim(request) ? fuse_reply_attr(request->fuse, attr, timeout) : -EINTR;
}

int request_reply_open(struct request *request)
{
	return claim(request) ? fuse_reply_open(request->fuse, &request->fi) : -EINTR;
}

int request_reply_open_passthrough(struct request *request, int32_t backing)
{
	struct fuseext_open_out out = fuseext_open_passthrough(request->fi.fh, backing);

	return request_reply_buf(request, &out, sizeof(out));
}

int request_reply_readlink(struct request *request, const char *target)
{
	return claim(request) ? fuse_reply_readlink(request->fuse, target) : -EINTR;
}

int request_reply_buf(struct request *request, const void *data, size_t len)
{
	return claim(request) ? fuse_reply_buf(request->fuse, data, len) : -EINTR;
}

int request_reply_xattr(struct request *request, size_t len)
{
	return claim(request) ? fuse_reply_xattr(request->fuse, len) : -EINTR;
}

int request_reply_statfs(struct request *request, const struct statvfs *statfs)
{
	return claim(request) ? fuse_reply_statfs(request->fuse, statfs) : -EINTR;
}

static void serve(struct request *request)
{
	/* Without a node: the foreign module's own name. */
	if (request->id & FOREIGN_NODE || !request->node)
		request->kind->serve_foreign(request);
	else
		request->kind->serve(request);
}

void request_move_to_foreign(struct request *request, uint64_t node)
{
	if (!request->session->foreign_ops || !(node & FOREIGN_NODE)) {
		request_reply_err(request, ENOENT);
		return;
	}
	request->id = node;
	strcpy(request->name, ".");
	request->moved = true;
}

static void submit(struct request *request, struct pool *pool)
{
	request->moved = false;
	atomic_store(&request->pool, pool);
	if (pool == request->session->foreign_pool)
		list_foreign(request);
	int r = pool_submit(pool, &request->job, request->kind->always);
	if (r < 0) {
		request_reply_err(request, -r);
		request_free(request);
	}
}

static void job_run(struct job *job)
{
	struct request *request = (struct request *)job;

	if (atomic_load(&request->state) == REQUEST_OPEN)
		serve(request);
	if (request->moved)
		submit(request, request->session->foreign_pool);
	else
		request_free(request);
}

static void job_drop(struct job *job)
{
	struct request *request = (struct request *)job;

	request_reply_err(request, EINTR);
	request_free(request);
}

static void interrupt(fuse_req_t fuse, void *data)
{
	struct request *request = data;
	int expected = REQUEST_OPEN;

	/* It is there, for who has answered waits for us; but it goes once we have. */
	add_reference(request);
	if (atomic_compare_exchange_strong(&request->state, &expected, REQUEST_INTERRUPTED)) {
		if (pool_cancel(request->pool, &request->job))
			request_free(request);
		fuse_reply_err(fuse, EINTR);
	}
	request_free(request);
}

/* One that is meant and that nobody has answered: it is the caller's to answer, and to free. */
static struct request *take_foreign(struct session *session, bool (*is_meant)(void *, uint64_t),
				    void *arg)
{
	LOCKED(&session->foreign_lock);
	for (struct request *at = session->foreign_requests; at; at = at->after) {
		int expected = REQUEST_OPEN;

		if (at->kind->always || !is_meant(arg, at->id))
			continue;
		if (!atomic_compare_exchange_strong(&at->state, &expected, REQUEST_INTERRUPTED))
			continue;
		at->refs++;
		return at;
	}
	return NULL;
}

void session_refuse(struct session *session, int error, bool (*is_meant)(void *arg, uint64_t node),
		    void *arg)
{
	struct request *request;

	while ((request = take_foreign(session, is_meant, arg))) {
		fuse_req_interrupt_func(request->fuse, NULL, NULL);
		fuse_reply_err(request->fuse, error);
		if (pool_cancel(request->pool, &request->job))
			request_free(request);
		request_free(request);
	}
}

/* Makes names of the path below the view. False: so deep that no view has it. */
static bool split_path(struct request *request)
{
	char *save = NULL;

	strcpy(request->split, request->path);
	request->names.count = 0;
	for (char *name = strtok_r(request->split, "/", &save);
	     (name = strtok_r(NULL, "/", &save));) {
		if (request->names.count == VIEW_DEPTH)
			return false;
		request->names.name[request->names.count++] = name;
	}
	return true;
}

static void run_on_pool(const struct request *request, struct pool *pool)
{
	/* Foreign nodes have no path here. */
	size_t len = request->node ? sizeof(*request) : offsetof(struct request, view);
	struct request *copy = malloc(sizeof(*copy));

	if (!copy) {
		fuse_reply_err(request->fuse, ENOMEM);
		if (request->node)
			node_put(request->session->nodes, request->node);
		return;
	}
	memcpy(copy, request, len);
	atomic_store(&copy->pool, pool);
	copy->refs = 1;
	copy->job.run = job_run;
	copy->job.drop = job_drop;
	if (copy->node && !split_path(copy)) {
		request_reply_err(copy, ENOENT);
		request_free(copy);
		return;
	}
	fuse_req_interrupt_func(copy->fuse, interrupt, copy);
	submit(copy, pool);
}

static void run_here(struct request *request)
{
	if (!split_path(request))
		request_reply_err(request, ENOENT);
	else
		serve(request);
	if (request->moved)
		run_on_pool(request, request->session->foreign_pool);
	else
		request_free(request);
}

static bool is_foreign(const struct request *request)
{
	const struct foreign_ops *ops = request->session->foreign_ops;

	if (request->id & FOREIGN_NODE)
		return true;
	return ops && request->id == NODE_ROOT && request->kind->serve == serve_lookup &&
	       strcmp(request->name, ops->name) == 0;
}

int session_find_view(const struct session *session, const char *path)
{
	size_t len = strcspn(path, "/");

	for (size_t i = 0; i < session->view_count; i++) {
		const char *name = session->views[i].ops->name;

		if (strlen(name) == len && memcmp(name, path, len) == 0)
			return i;
	}
	return -1;
}

static int set_path(struct request *request, const char *name)
{
	const char *base = request->node->path;
	int len = snprintf(request->path, sizeof(request->path), "%s%s%s", base,
			   name && *base ? "/" : "", name ?: "");

	return len >= 0 && (size_t)len < sizeof(request->path) ? 0 : -ENAMETOOLONG;
}

static bool can_block(struct request *request)
{
	const struct view_ops *ops = request->view->ops;

	if (!ops->may_block)
		return request->kind->renders && request->node->slow;
	return !(request->kind->looks && ops->prompt && split_path(request) &&
		 ops->prompt(&request->names));
}

void request_run(struct request *request, const char *name)
{
	struct session *session = request->session;

	if (name && strlen(name) > NAME_MAX) {
		request_reply_err(request, ENAMETOOLONG);
		return;
	}
	if (name)
		strcpy(request->name, name);
	if (is_foreign(request)) {
		if (!session->foreign_ops)
			request_reply_err(request, ESTALE);
		else if (!request->kind->serve_foreign)
			request_reply_err(request, EROFS);
		else
			run_on_pool(request, session->foreign_pool);
		return;
	}
	if (request->kind->sync)
		tracker_sync(session->tracker);
	request->node = node_get(session->nodes, request->id);
	int r = request->node ? set_path(request, name) : -ESTALE;
	if (r < 0) {
		request_reply_err(request, -r);
		request_free(request);
		return;
	}
	int view = session_find_view(session, request->path);
	if (view >= 0)
		request->view = &session->views[view];
	if (view >= 0 && !request->kind->here && can_block(request))
		run_on_pool(request, session->pools[view]);
	else
		run_here(request);
}
