/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open streams: files that grow while they are open, read past the page cache, and polled.
 *
 * A node of a stream is one epoch of it; its handles have the same first byte, and so the same
 * size. Whoever polls is woken when the stream grows past what was read, reads of the end included.
 * A saved poll handle is set before the size is asked for, and taken when it is used, both under
 * the lock of the handles; so growth is seen by the one or by the other.
 */
#include <errno.h>
#include <poll.h>

#include "fs/request.h"

struct stream {
	struct handle handle; /* first */
	const struct view *view;
	void *data; /* the view's */
	uint64_t node;
	uint64_t position; /* past what was read last */
	struct fuse_pollhandle *poll;
};

void stream_destroy_handle(struct handle *handle)
{
	struct stream *stream = (struct stream *)handle;

	stream->view->ops->stream_close(stream->view->data, stream->data);
	if (stream->poll)
		fuse_pollhandle_destroy(stream->poll);
	free(stream);
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
	r = node_open_rendered(nodes, request->node, &rendering, &how);
	if (r < 0)
		view->ops->stream_close(view->data, stream->data);
	return r;
}

void serve_stream_open(struct request *request, const struct view_attr *now)
{
	struct session *session = request->session;
	struct stream *stream = calloc(1, sizeof(*stream));
	int r = -ENOMEM;

	if (stream) {
		stream->view = request->view;
		stream->node = request->id;
		r = open_stream(request, now, stream);
	}
	if (r < 0) {
		free(stream);
		request_reply_err(request, -r);
		return;
	}
	request->fi.fh = handles_add(&session->streams, &stream->handle);
	request->fi.direct_io = 1;
	request->fi.noflush = 1;
	if (request_reply_open(request) != 0) {
		handles_close(&session->streams, request->fi.fh);
		request_release_node(request);
	}
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
