/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open streams: files that grow while they are open, read past the page cache, and polled.
 *
 * A node of a stream is one epoch of it; its handles have the same first byte, and so the same
 * size. Whoever polls is woken when the stream grows past what was read, reads of the end included.
 * A saved poll handle is set before the size is asked for, and taken when it is used, both under
 * the lock of the handles; so growth is seen by the one or by the other.
 *
 * Streams outlive the process, with what the view has of each (core/carry.h). The next process
 * finds them, and wakes all that polled: they ask again.
 */
#include <errno.h>
#include <poll.h>

#include "fs/request.h"

struct stream {
	struct handle handle; /* first */
	const struct view *view;
	void *data; /* the view's */
	uint64_t data_ref;
	uint64_t node;
	uint64_t position; /* past what was read last */
	struct fuse_pollhandle *poll;
	uint64_t poll_handle; /* the kernel's number of what polls or has polled; 0 */
};

uint64_t stream_node(const struct handle *handle)
{
	return ((const struct stream *)handle)->node;
}

void stream_destroy_handle(struct handle *handle)
{
	struct stream *stream = (struct stream *)handle;

	stream->view->ops->stream_close(stream->view->data, stream->data);
	if (stream->poll)
		fuse_pollhandle_destroy(stream->poll);
	carry_free(stream);
}

static int open_stream(struct request *request, const struct view_attr *now, struct stream *stream)
{
	struct node_table *nodes = request->session->nodes;
	const struct view *view = request->view;
	struct rendering rendering = {.attr = *now};
	struct view_attr after;
	struct node_open how;
	int r = node_open(nodes, request->node, now, request->caller.pid, &how);

	if (r < 0)
		return r;
	r = view->ops->stream_open(view->data, &request->names, &stream->data);
	if (r < 0)
		return r;
	/* In between an epoch may have ended; then it is a handle of neither. */
	rendering.settled =
		request_lookup_view(request, &after) == 0 && after.generation == now->generation;
	r = node_open_rendered(nodes, request->node, &rendering, request->caller.pid, &how);
	if (r < 0)
		view->ops->stream_close(view->data, stream->data);
	return r;
}

void serve_stream_open(struct request *request, const struct view_attr *now)
{
	struct session *session = request->session;
	struct stream *stream = carry_alloc(sizeof(*stream));
	int r = -ENOMEM;

	if (stream) {
		stream->view = request->view;
		stream->node = request->id;
		r = open_stream(request, now, stream);
	}
	if (r < 0) {
		carry_free(stream);
		request_reply_err(request, -r);
		return;
	}
	stream->data_ref = carry_ref(stream->data);
	request->fi.fh = handles_add(&session->streams, &stream->handle, request->unique);
	request->fi.direct_io = 1;
	request->fi.noflush = 1;
	if (request_reply_open(request) != 0)
		request_close_file(request);
}

static ssize_t read_stream(struct request *request, struct stream *stream, void *buf)
{
	ssize_t n = stream->view->ops->stream_read(stream->view->data, stream->data,
						   request->offset, buf, request->size);

	if (n >= 0) {
		LOCKED(&request->session->streams.lock);
		stream->position = request->offset + n;
	}
	return n;
}

void serve_stream_read(struct request *request)
{
	struct handles *streams = &request->session->streams;
	struct handle *handle = handles_get(streams, request->fi.fh);
	_cleanup_free_ char *data = malloc(MAX(request->size, (size_t)1));
	ssize_t n = -ESTALE;

	if (handle) {
		n = data ? read_stream(request, (struct stream *)handle, data) : -ENOMEM;
		handles_put(streams, handle);
	}
	if (n < 0)
		request_reply_err(request, -n);
	else
		request_reply_buf(request, data, n);
}

bool stream_size_of_node(struct session *session, const struct node *node, uint64_t *ret)
{
	struct handles *streams = &session->streams;
	struct handle *handle = NULL;

	LOCKED(&streams->lock);
	while ((handle = handles_next(streams, handle))) {
		struct stream *stream = (struct stream *)handle;

		if (stream->node != node->id)
			continue;
		*ret = stream->view->ops->stream_size(stream->view->data, stream->data);
		return true;
	}
	return false;
}

static unsigned int poll_stream(struct stream *stream, struct fuse_pollhandle *poll)
{
	if (poll) {
		if (stream->poll)
			fuse_pollhandle_destroy(stream->poll);
		stream->poll = poll;
		stream->poll_handle = fuseext_poll_handle();
	}
	uint64_t size = stream->view->ops->stream_size(stream->view->data, stream->data);
	return size > stream->position ? POLLIN | POLLRDNORM : 0;
}

unsigned int stream_poll(struct session *session, uint64_t number, struct fuse_pollhandle *poll)
{
	struct handles *streams = &session->streams;
	struct handle *handle = handles_get(streams, number);
	unsigned int events;

	if (!handle) {
		if (poll)
			fuse_pollhandle_destroy(poll);
		return POLLERR;
	}
	{
		LOCKED(&streams->lock);
		events = poll_stream((struct stream *)handle, poll);
	}
	handles_put(streams, handle);
	return events;
}

void session_notify_streams(struct session *session)
{
	struct handles *streams = &session->streams;
	struct handle *handle = NULL;

	LOCKED(&streams->lock);
	while ((handle = handles_next(streams, handle))) {
		struct stream *stream = (struct stream *)handle;
		struct fuse_pollhandle *poll = take_ptr(stream->poll);

		if (!poll)
			continue;
		fuse_lowlevel_notify_poll(poll);
		fuse_pollhandle_destroy(poll);
	}
}

static const struct view *view_of(const struct session *session, const struct node *node)
{
	int view = session_find_view(session, node->path);

	return view >= 0 && session->views[view].ops->stream_resume ? &session->views[view] : NULL;
}

bool stream_resume(void *block, size_t room, void *arg)
{
	struct session *session = arg;
	struct stream *stream = block;

	if (room < sizeof(*stream))
		return false;
	stream->poll = NULL;
	stream->data = carry_at(stream->data_ref, CARRY_VIEW_STREAM, &room);
	struct node *node = stream->data ? node_resume(session->nodes, stream->node) : NULL;
	if (!node)
		return false;
	stream->view = view_of(session, node);
	bool good = stream->view &&
		    stream->view->ops->stream_resume(stream->view->data, stream->data, room);
	if (good)
		handles_resume(&session->streams, &stream->handle);
	else
		node_release(session->nodes, node);
	node_put(session->nodes, node);
	return good;
}

void streams_wake_all(struct session *session)
{
	struct handles *streams = &session->streams;
	struct handle *handle = NULL;

	LOCKED(&streams->lock);
	while ((handle = handles_next(streams, handle))) {
		const struct stream *stream = (struct stream *)handle;

		if (stream->poll_handle)
			fuseext_notify_poll(session->fd, stream->poll_handle);
	}
}
