/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests on foreign nodes, on workers of a pool that serves nothing else: see struct foreign_ops.
 * What a call has counted or opened is given back when its answer is not taken.
 */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/request.h"

struct foreign_listing {
	struct request *request;
	char *data;
	size_t len;
	bool plus;
};

struct page_drop {
	struct job job; /* first */
	struct session *session;
	size_t count;
	uint64_t nodes[];
};

static void drop_pages(struct job *job)
{
	struct page_drop *drop = (struct page_drop *)job;

	/* Of those that it has forgotten meanwhile the kernel has no pages either. */
	for (size_t i = 0; i < drop->count; i++)
		fuse_lowlevel_notify_inval_inode(drop->session->fuse, drop->nodes[i], 0, 0);
	free(drop);
}

static void forget_page_drop(struct job *job)
{
	free(job);
}

int session_drop_pages(struct session *session, const uint64_t *nodes, size_t count)
{
	struct page_drop *drop = malloc(sizeof(*drop) + count * sizeof(*nodes));

	if (!drop)
		return -ENOMEM;
	*drop = (struct page_drop){
		.job = {.run = drop_pages, .drop = forget_page_drop},
		.session = session,
		.count = count,
	};
	memcpy(drop->nodes, nodes, count * sizeof(*nodes));
	int r = pool_submit(session->notifier, &drop->job, true);

	if (r < 0)
		free(drop);
	return r;
}

void foreign_lookup(struct request *request)
{
	struct session *session = request->session;
	const struct foreign_ops *ops = session->foreign_ops;
	struct fuse_entry_param entry = {};
	int r = 0;

	/* Every walk comes by here: what is below the one name at the top is for root. */
	if (request->id == FUSE_ROOT_ID)
		r = access_check(&session->options.access, ACCESS_ROOT, session->proc_fd,
				 &request->caller);
	if (r == 0)
		r = ops->lookup(session->foreign, request->id, request->name, &request->caller,
				&entry);

	if (r < 0)
		request_reply_err(request, -r);
	else if (request_reply_entry(request, &entry) != 0)
		ops->forget(session->foreign, entry.ino, 1);
}

void foreign_getattr(struct request *request)
{
	struct session *session = request->session;
	struct stat st = {};
	double timeout = 0;
	int r = session->foreign_ops->getattr(session->foreign, request->id, &request->caller, &st,
					      &timeout);

	if (r < 0)
		request_reply_err(request, -r);
	else
		request_reply_attr(request, &st, timeout);
}

void foreign_readlink(struct request *request)
{
	struct session *session = request->session;
	_cleanup_free_ char *target = NULL;
	int r = session->foreign_ops->readlink(session->foreign, request->id, &request->caller,
					       &target);

	if (r < 0)
		request_reply_err(request, -r);
	else
		request_reply_readlink(request, target);
}

void foreign_open(struct request *request)
{
	struct session *session = request->session;
	const struct foreign_ops *ops = session->foreign_ops;
	int32_t backing = 0;

	request->fi.fh = request->unique;
	int r = ops->open(session->foreign, request->id, &request->caller, &request->fi, &backing);

	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request->fi.noflush = 1;
	r = backing > 0 ? request_reply_open_passthrough(request, backing)
			: request_reply_open(request);
	if (r != 0)
		ops->release(session->foreign, request->id, request->fi.fh);
}

void foreign_read(struct request *request)
{
	struct session *session = request->session;
	_cleanup_readbuf_ struct readbuf *buf = readbuf_get(session->readbufs, request->size);
	void *data = buf ? readbuf_data(buf) : NULL;
	ssize_t n = -ENOMEM;

	if (data)
		n = session->foreign_ops->read(session->foreign, request->id, request->fi.fh,
					       request->offset, data, request->size);
	if (n < 0)
		request_reply_err(request, -n);
	else
		request_reply_buf(request, data, n);
}

void foreign_release(struct request *request)
{
	struct session *session = request->session;

	session->foreign_ops->release(session->foreign, request->id, request->fi.fh);
	request_reply_err(request, 0);
}

void foreign_opendir(struct request *request)
{
	struct session *session = request->session;
	const struct foreign_ops *ops = session->foreign_ops;

	request->fi.fh = request->unique;
	int r = ops->opendir(session->foreign, request->id, &request->caller, &request->fi);

	if (r < 0)
		request_reply_err(request, -r);
	else if (request_reply_open(request) != 0)
		ops->releasedir(session->foreign, request->id, request->fi.fh);
}

bool foreign_listing_add(struct foreign_listing *listing, const char *name, uint64_t ino,
			 mode_t mode, uint64_t next_offset)
{
	struct request *request = listing->request;
	size_t room = request->size - listing->len, len;
	char *at = listing->data + listing->len;
	/* Without a node id: only the name, its type and number. */
	struct fuse_entry_param entry = {.attr = {.st_ino = ino, .st_mode = mode}};

	if (listing->plus)
		len = fuse_add_direntry_plus(request->fuse, at, room, name, &entry, next_offset);
	else
		len = fuse_add_direntry(request->fuse, at, room, name, &entry.attr, next_offset);
	if (len > room)
		return false;
	listing->len += len;
	return true;
}

static void read_listing(struct request *request, bool plus)
{
	struct session *session = request->session;
	_cleanup_free_ char *data = malloc(MAX(request->size, (size_t)1));
	struct foreign_listing listing = {.request = request, .data = data, .plus = plus};
	int r = -ENOMEM;

	if (data)
		r = session->foreign_ops->readdir(session->foreign, request->id, request->fi.fh,
						  request->offset, &listing);
	if (r < 0)
		request_reply_err(request, -r);
	else
		request_reply_buf(request, data, listing.len);
}

void foreign_readdir(struct request *request)
{
	read_listing(request, false);
}

void foreign_readdirplus(struct request *request)
{
	read_listing(request, true);
}

void foreign_releasedir(struct request *request)
{
	struct session *session = request->session;

	session->foreign_ops->releasedir(session->foreign, request->id, request->fi.fh);
	request_reply_err(request, 0);
}

static void answer_xattr(struct request *request, const char *data, ssize_t n)
{
	if (n < 0)
		request_reply_err(request, -n);
	else if (request->size)
		request_reply_buf(request, data, n);
	else
		request_reply_xattr(request, n);
}

void foreign_getxattr(struct request *request)
{
	struct session *session = request->session;
	_cleanup_free_ char *data = malloc(MAX(request->size, (size_t)1));
	ssize_t n = -ENOMEM;

	if (data)
		n = session->foreign_ops->getxattr(session->foreign, request->id, &request->caller,
						   request->name, data, request->size);
	answer_xattr(request, data, n);
}

void foreign_listxattr(struct request *request)
{
	struct session *session = request->session;
	_cleanup_free_ char *data = malloc(MAX(request->size, (size_t)1));
	ssize_t n = -ENOMEM;

	if (data)
		n = session->foreign_ops->listxattr(session->foreign, request->id, &request->caller,
						    data, request->size);
	answer_xattr(request, data, n);
}

void foreign_statfs(struct request *request)
{
	struct session *session = request->session;
	struct statvfs statfs = {};
	int r = session->foreign_ops->statfs(session->foreign, request->id, &statfs);

	if (r < 0)
		request_reply_err(request, -r);
	else
		request_reply_statfs(request, &statfs);
}
