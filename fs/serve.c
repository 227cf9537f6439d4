/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libfuse calls, and the answers for our own nodes: lookups, attributes, files, symlinks, and
 * the many ways to say that this tree is read-only. Directories and streams are in handle.c,
 * foreign nodes in foreign.c.
 *
 * No lock is held here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/request.h"

/* Long enough for the kernel never to ask again for what does not change. */
#define FOREVER 86400.0
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
	mode_t mode = attr->kind == VIEW_DIR ? 0555 : attr->kind == VIEW_LINK ? 0777 : 0444;

	if (attr->mode)
		mode = attr->mode;
	else if (attr->kind != VIEW_LINK)
		mode &= ~session->options.umask;
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = view_kind_type(attr->kind) | mode,
		.st_nlink = 1,
		.st_uid = attr->mode ? attr->uid : session->options.uid,
		.st_gid = attr->mode ? attr->gid : session->options.gid,
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

/* Nothing about such a directory changes: not even its time, which is the session's start. */
static double attr_timeout(const struct session *session, const struct view_attr *attr)
{
	bool constant = attr->kind == VIEW_DIR && attr->fixed &&
			attr->mtime.tv_sec == session->started.tv_sec &&
			attr->mtime.tv_nsec == session->started.tv_nsec;

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

void session_set_time(const struct session *session, struct view_attr *attr)
{
	if (attr->mtime.tv_sec || attr->mtime.tv_nsec)
		return;
	if (attr->kind == VIEW_DIR && attr->fixed)
		attr->mtime = session->started;
	else
		clock_gettime(CLOCK_REALTIME, &attr->mtime);
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
	session_set_time(session, ret);
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

static void answer_entry(struct request *request, const struct view_attr *attr)
{
	struct session *session = request->session;
	struct fuse_entry_param entry;
	struct node *node;
	uint64_t size;
	int r = node_lookup(session->nodes, request->path, attr, &node, &size);

	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request_fill_entry(session, node, attr, size, &entry);
	if (request_reply_entry(request, &entry) != 0)
		node_forget(session->nodes, node->id, 1);
	node_put(session->nodes, node);
}

void session_serve_lookup(struct request *request)
{
	struct view_attr attr;
	int r = check_parent(request);

	if (r == 0)
		r = request_lookup_view(request, &attr);
	if (r < 0)
		request_reply_err(request, -r);
	else if (attr.kind == VIEW_FOREIGN)
		request_move_to_foreign(request, attr.generation);
	else
		answer_entry(request, &attr);
}

static int read_link(struct request *request, char **ret)
{
	const struct view_ops *ops = request->view ? request->view->ops : NULL;

	if (!ops || !ops->readlink)
		return -EINVAL;
	return ops->readlink(request->view->data, &request->names, &request->caller, ret);
}

/* The size of a file that nobody has open, rendered if nobody knows it. */
static int stat_file(struct request *request, const struct view_attr *now, struct view_attr *ret,
		     uint64_t *ret_size)
{
	struct node_table *nodes = request->session->nodes;
	struct rendering rendering;

	if (node_stat(nodes, request->node, now, ret, ret_size) == NODE_READY)
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
	node_stat_rendered(nodes, request->node, request->caller.pid, &rendering, ret, ret_size);
	snapshot_unref(rendering.snapshot);
	return 0;
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
		return stat_file(request, &now, ret, ret_size);
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

static void serve_getattr(struct request *request)
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

static void serve_readlink(struct request *request)
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
	r = node_open_rendered(nodes, request->node, &rendering, ret);
	snapshot_unref(rendering.snapshot);
	return r;
}

static void serve_open(struct request *request)
{
	struct node_open how = {};
	struct view_attr now;
	int r = request_lookup_node(request, &now);

	if (r == 0 && now.kind == VIEW_STREAM) {
		serve_stream_open(request, &now);
		return;
	}
	if (r == 0)
		r = now.kind == VIEW_FILE ? open_file(request, &now, &how) : -EISDIR;
	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request->fi.direct_io = how.direct;
	request->fi.keep_cache = how.keep_pages;
	request->fi.noflush = 1;
	if (request_reply_open(request) != 0)
		node_release(request->session->nodes, request->node);
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

static void serve_read(struct request *request)
{
	if (request->fi.fh) {
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

static void serve_release(struct request *request)
{
	if (request->fi.fh)
		handles_close(&request->session->streams, request->fi.fh);
	node_release(request->session->nodes, request->node);
	request_reply_err(request, 0);
}

static void serve_mkdir(struct request *request)
{
	const struct view *view = request->view;
	struct view_attr attr;
	int r = -EROFS;

	if (view && view->ops->mkdir)
		r = view->ops->mkdir(view->data, &request->names, &request->caller);
	if (r == 0)
		r = request_lookup_view(request, &attr);
	if (r < 0)
		request_reply_err(request, -r);
	else
		answer_entry(request, &attr);
}

static void serve_rmdir(struct request *request)
{
	const struct view *view = request->view;
	int r = -EROFS;

	if (view && view->ops->rmdir)
		r = view->ops->rmdir(view->data, &request->names, &request->caller);
	request_reply_err(request, -r);
}

/* libfuse's side. */

static void run(fuse_req_t fuse, uint64_t id, const char *name, const struct request_kind *kind)
{
	struct request request;

	request_init(&request, fuse, id, kind);
	request_run(&request, name);
}

static void run_on_handle(fuse_req_t fuse, uint64_t id, const struct fuse_file_info *fi,
			  size_t size, off_t offset, const struct request_kind *kind)
{
	struct request request;

	request_init(&request, fuse, id, kind);
	request.fi = *fi;
	request.size = size;
	request.offset = offset;
	request_run(&request, NULL);
}

static void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	static const struct request_kind kind = {
		.serve = session_serve_lookup,
		.serve_foreign = foreign_lookup,
		.sync = true,
	};

	run(fuse, parent, name, &kind);
}

static void forget(struct session *session, uint64_t id, uint64_t count)
{
	if (!(id & FOREIGN_NODE))
		node_forget(session->nodes, id, count);
	else if (session->foreign_ops)
		session->foreign_ops->forget(session->foreign, id, count);
}

static void op_forget(fuse_req_t fuse, fuse_ino_t id, uint64_t count)
{
	forget(fuse_req_userdata(fuse), id, count);
	fuse_reply_none(fuse);
}

static void op_forget_multi(fuse_req_t fuse, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget(fuse_req_userdata(fuse), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(fuse);
}

static void op_getattr(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_getattr,
		.serve_foreign = foreign_getattr,
		.sync = true,
		.renders = true,
	};

	run(fuse, id, NULL, &kind);
}

static void op_readlink(fuse_req_t fuse, fuse_ino_t id)
{
	static const struct request_kind kind = {
		.serve = serve_readlink,
		.serve_foreign = foreign_readlink,
		.sync = true,
	};

	run(fuse, id, NULL, &kind);
}

static void op_open(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_open,
		.serve_foreign = foreign_open,
		.sync = true,
		.renders = true,
	};

	if ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC)
		fuse_reply_err(fuse, EROFS);
	else
		run_on_handle(fuse, id, fi, 0, 0, &kind);
}

static void op_release(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_release,
		.serve_foreign = foreign_release,
		.here = true,
		.always = true,
	};

	run_on_handle(fuse, id, fi, 0, 0, &kind);
}

static void op_opendir(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_opendir,
		.serve_foreign = foreign_opendir,
		.sync = true,
	};

	run_on_handle(fuse, id, fi, 0, 0, &kind);
}

static void op_read(fuse_req_t fuse, fuse_ino_t id, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_read,
		.serve_foreign = foreign_read,
		.here = true,
	};
	static const struct request_kind stream = {
		.serve = serve_read,
		.serve_foreign = foreign_read,
		.here = true,
		.sync = true,
	};

	run_on_handle(fuse, id, fi, size, offset, fi->fh ? &stream : &kind);
}

static void op_readdir(fuse_req_t fuse, fuse_ino_t id, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_readdir,
		.serve_foreign = foreign_readdir,
		.here = true,
	};

	run_on_handle(fuse, id, fi, size, offset, &kind);
}

static void op_readdirplus(fuse_req_t fuse, fuse_ino_t id, size_t size, off_t offset,
			   struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_readdirplus,
		.serve_foreign = foreign_readdirplus,
		.here = true,
	};

	run_on_handle(fuse, id, fi, size, offset, &kind);
}

static void op_releasedir(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi)
{
	static const struct request_kind kind = {
		.serve = serve_releasedir,
		.serve_foreign = foreign_releasedir,
		.here = true,
		.always = true,
	};

	run_on_handle(fuse, id, fi, 0, 0, &kind);
}

static void op_poll(fuse_req_t fuse, fuse_ino_t id, struct fuse_file_info *fi,
		    struct fuse_pollhandle *poll)
{
	struct session *session = fuse_req_userdata(fuse);

	if (id & FOREIGN_NODE || !fi->fh) {
		if (poll)
			fuse_pollhandle_destroy(poll);
		fuse_reply_poll(fuse, POLLIN | POLLRDNORM);
		return;
	}
	tracker_sync(session->tracker);
	fuse_reply_poll(fuse, stream_poll(session, fi->fh, poll));
}

static void serve_statfs(struct request *request)
{
	const struct statvfs statfs = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = NAME_MAX};

	request_reply_statfs(request, &statfs);
}

static void op_statfs(fuse_req_t fuse, fuse_ino_t id)
{
	static const struct request_kind kind = {
		.serve = serve_statfs,
		.serve_foreign = foreign_statfs,
		.here = true,
	};

	run(fuse, id, NULL, &kind);
}

/* Our own nodes have no extended attributes. */
static void serve_getxattr(struct request *request)
{
	request_reply_err(request, ENODATA);
}

static void serve_listxattr(struct request *request)
{
	if (request->size)
		request_reply_buf(request, NULL, 0);
	else
		request_reply_xattr(request, 0);
}

static void op_getxattr(fuse_req_t fuse, fuse_ino_t id, const char *name, size_t size)
{
	static const struct request_kind kind = {
		.serve = serve_getxattr,
		.serve_foreign = foreign_getxattr,
		.here = true,
	};
	struct request request;

	request_init(&request, fuse, id, &kind);
	request.size = size;
	snprintf(request.name, sizeof(request.name), "%s", name);
	request_run(&request, NULL);
}

static void op_listxattr(fuse_req_t fuse, fuse_ino_t id, size_t size)
{
	static const struct request_kind kind = {
		.serve = serve_listxattr,
		.serve_foreign = foreign_listxattr,
		.here = true,
	};
	struct request request;

	request_init(&request, fuse, id, &kind);
	request.size = size;
	request_run(&request, NULL);
}

static void op_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode)
{
	static const struct request_kind kind = {.serve = serve_mkdir, .sync = true};

	run(fuse, parent, name, &kind);
}

static void op_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	static const struct request_kind kind = {.serve = serve_rmdir, .sync = true};

	run(fuse, parent, name, &kind);
}

/*
 * A missing operation would say "Function not implemented". Reading is all that there is; and the
 * mount is not read-only for the sake of mkdir and rmdir.
 */
static void op_setattr(fuse_req_t fuse, fuse_ino_t id, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_mknod(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_symlink(fuse_req_t fuse, const char *target, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned int flags)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_link(fuse_req_t fuse, fuse_ino_t id, fuse_ino_t new_parent, const char *new_name)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_write(fuse_req_t fuse, fuse_ino_t id, const char *data, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_setxattr(fuse_req_t fuse, fuse_ino_t id, const char *name, const char *value,
			size_t size, int flags)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_removexattr(fuse_req_t fuse, fuse_ino_t id, const char *name)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_create(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	fuse_reply_err(fuse, EROFS);
}

static void op_fallocate(fuse_req_t fuse, fuse_ino_t id, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	fuse_reply_err(fuse, EROFS);
}

const struct fuse_lowlevel_ops session_ops = {
	.init = session_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.release = op_release,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.create = op_create,
	.poll = op_poll,
	.fallocate = op_fallocate,
};
