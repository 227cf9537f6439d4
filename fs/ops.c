/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libfuse calls: each operation begins a request (request.h), says how it is served, or says
 * that this tree is read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/statvfs.h>

#include "fs/request.h"

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
		.serve = serve_lookup,
		.serve_foreign = foreign_lookup,
		.sync = true,
		.looks = true,
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

	run_on_handle(fuse, id, fi, size, offset, fi->fh & STREAM_HANDLES ? &stream : &kind);
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

	if (id & FOREIGN_NODE || !(fi->fh & STREAM_HANDLES)) {
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
