/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open files of our own: how each is read, and what of it outlives the process.
 *
 * A handle is a block of carry.h, made before its number is told and freed when the kernel gives it
 * back. Its node's bytes are kept too, unless the kernel has a file of them that it reads by
 * itself. So whoever takes over finds each file that is open, and its bytes.
 */
#include <errno.h>

#include "fs/request.h"

struct file {
	struct handle handle; /* first */
	uint64_t node;
};

void file_destroy_handle(struct handle *handle)
{
	carry_free(handle);
}

/* The file from which the kernel is to read what was opened; NULL: it asks us. */
static struct backing *settle_reading(struct request *request)
{
	struct session *session = request->session;
	_cleanup_snapshot_ struct snapshot *snapshot = node_snapshot(session->nodes, request->node);

	/* All who have the node open find the same here. */
	if (!snapshot || snapshot_size(snapshot) < BACKING_MIN)
		return NULL;
	struct backing *file = backings_get(session->backings, snapshot), *ret;

	if (!node_settle_reading(session->nodes, request->node, file, &ret))
		backings_put(session->backings, file);
	return ret;
}

int request_add_file(struct request *request, int32_t *ret_backing)
{
	struct session *session = request->session;
	struct file *file = carry_alloc(sizeof(*file));

	if (!file) {
		request_release_node(request);
		return -ENOMEM;
	}
	struct backing *backing = settle_reading(request);

	*ret_backing = backing ? backing_id(backing) : 0;
	if (!backing)
		node_keep(session->nodes, request->node);
	file->node = request->id;
	request->fi.fh = handles_add(&session->files, &file->handle, request->unique);
	return 0;
}

void request_release_node(struct request *request)
{
	struct session *session = request->session;

	backings_put(session->backings, node_release(session->nodes, request->node));
}

void request_close_file(struct request *request)
{
	struct session *session = request->session;
	bool is_stream = request->fi.fh & STREAM_HANDLES;

	if (handles_close(is_stream ? &session->streams : &session->files, request->fi.fh))
		request_release_node(request);
}

static uint64_t file_node(const struct handle *handle)
{
	return ((const struct file *)handle)->node;
}

/* Closes the handle that a request has opened, and gives its node back. */
static void undo_in(struct session *session, struct handles *handles, uint64_t unique,
		    uint64_t (*node_of)(const struct handle *handle))
{
	uint64_t number = handles_opened_by(handles, unique);
	struct handle *handle = number ? handles_get(handles, number) : NULL;

	if (!handle)
		return;
	struct node *node = node_get(session->nodes, node_of(handle));

	if (handles_close(handles, number) && node)
		backings_put(session->backings, node_release(session->nodes, node));
	if (node)
		node_put(session->nodes, node);
	handles_put(handles, handle);
}

void session_undo_open(void *arg, uint64_t unique)
{
	struct session *session = arg;

	undo_in(session, &session->files, unique, file_node);
	undo_in(session, &session->streams, unique, stream_node);
	handles_close(&session->directories, handles_opened_by(&session->directories, unique));
}

void request_undo_open(struct request *request)
{
	if (request->resent)
		session_undo_open(request->session, request->unique);
}

bool file_resume(void *block, size_t room, void *arg)
{
	struct session *session = arg;
	struct file *file = block;
	struct node *node = room < sizeof(*file) ? NULL : node_resume(session->nodes, file->node);

	if (!node)
		return false;
	/* By the first of its handles. */
	if (node->backing_id > 0 && !node->backing)
		node->backing = backings_inherit(session->backings, node->backing_id, node->size);
	handles_resume(&session->files, &file->handle);
	node_put(session->nodes, node);
	return true;
}
