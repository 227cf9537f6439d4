/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request of the kernel's, from its arrival to its answer, and what the files that serve requests
 * share: inside of the session only.
 *
 * A request is begun on a receiving thread. If a worker is to serve it, it is copied to the heap,
 * and then it can be interrupted: the caller gets EINTR at once, and what the worker finds later is
 * given back. So each serving function asks request_reply_...() whether its answer was taken.
 */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#include <limits.h>
#include <stdatomic.h>

#include "core/tracker.h"
#include "fs/backing.h"
#include "fs/fuseext.h"
#include "fs/handle.h"
#include "fs/inflight.h"
#include "fs/node.h"
#include "fs/pool.h"
#include "fs/readbuf.h"
#include "fs/receiver.h"
#include "fs/session.h"
#include "fs/views.h"

/* More threads than two do not help on few CPUs, and what blocks is not theirs. */
#define RECEIVERS 2

struct session {
	struct session_options options;
	struct tracker *tracker;
	const struct view *views;
	size_t view_count;
	/* What kind each view's top is, which never changes, and the workers for what may block. */
	enum view_kind view_kinds[VIEWS_MAX];
	struct pool *pools[VIEWS_MAX];
	const struct foreign_ops *foreign_ops;
	void *foreign;
	struct pool *foreign_pool;
	struct readbufs *readbufs;
	/* An inner lock. */
	pthread_mutex_t foreign_lock;
	struct request *foreign_requests; /* on the pool, from their arrival on */
	struct pool *notifier;		  /* of one worker, which serves no requests */

	struct node_table *nodes;
	struct handles files, directories, streams;
	struct backings *backings;
	struct timespec started;
	struct fuse_session *fuse;
	struct fuseext ext;
	struct inflight *inflight; /* kept where the kernel cannot send again */
	struct session_resumed resumed;
	int proc_fd;  /* /proc, to know callers by */
	int fd;	      /* /dev/fuse */
	int exit_fd;  /* readable once the session is to end */
	int ready_fd; /* readable once the kernel has an answer */
	atomic_bool ready;
	atomic_bool stopping;
	bool replaying; /* the reply is the one that another process has given */
	struct receiver receivers[RECEIVERS];
	size_t receiver_count;
};

struct request;

/* Numbers of streams have it, those of other handles do not. */
#define STREAM_HANDLES (UINT64_C(1) << 63)

/* How to serve a kind of request: on nodes of our own, and on foreign ones. */
struct request_kind {
	void (*serve)(struct request *request);
	void (*serve_foreign)(struct request *request);
	bool sync;    /* could depend on what the kernel has just done */
	bool renders; /* goes to a worker for a `slow` file */
	bool looks;   /* a lookup and no more: goes to none where the view is prompt */
	bool here;    /* on our own nodes, asks no view: never goes to a worker */
	bool always;  /* no answer but success will do: never refused for a full queue */
};

enum request_state {
	REQUEST_OPEN,
	REQUEST_ANSWERED,
	REQUEST_INTERRUPTED,
};

struct request {
	struct job job; /* first: the pool's handle */
	struct session *session;
	const struct request_kind *kind;
	fuse_req_t fuse;
	uint64_t unique; /* the kernel's number of it */
	bool resent;	 /* once more: a process that is gone has had it */
	struct view_caller caller;

	_Atomic(struct pool *) pool; /* NULL: on the receiving thread, and not on the heap */
	atomic_int state;	     /* enum request_state, of a pooled one */
	bool moved;		     /* to be served once more, by the foreign module */
	unsigned int refs;	     /* of a pooled one, under the session's foreign_lock */
	/* Among the session's foreign ones, under its lock. */
	bool is_listed;
	struct request *before, *after;

	uint64_t id;	   /* the node that it is about, or the directory that name is in */
	struct node *node; /* the same, held; NULL if foreign */
	size_t size;
	uint64_t offset;
	struct fuse_file_info fi;
	char name[NAME_MAX + 1]; /* empty: about the node itself; an attribute's name for xattrs */

	/* Of our own nodes: the path it is about, and its view with the names below it. */
	const struct view *view; /* NULL at the root, and where there is nothing */
	struct view_path names;
	char path[PATH_MAX];
	char split[PATH_MAX]; /* the path with NULs for slashes, for names */
};

void request_init(struct request *request, fuse_req_t fuse, uint64_t id,
		  const struct request_kind *kind);
/* name: of an entry in the directory that the request is about, or NULL. Ends with the answer. */
void request_run(struct request *request, const char *name);

/*
 * From a lookup of our own: lets the foreign module answer, with its node. Nothing may be done with
 * the request after.
 */
void request_move_to_foreign(struct request *request, uint64_t node);

/*
 * The answers. Each may be given once. Not 0: nobody took it, and what it gave must be taken back.
 */
int request_reply_err(struct request *request, int error);
int request_reply_entry(struct request *request, const struct fuse_entry_param *entry);
int request_reply_attr(struct request *request, const struct stat *attr, double timeout);
int request_reply_open(struct request *request);
/* Opens a file that the kernel reads by itself, from this backing file. */
int request_reply_open_passthrough(struct request *request, int32_t backing);
int request_reply_readlink(struct request *request, const char *target);
int request_reply_buf(struct request *request, const void *data, size_t len);
int request_reply_xattr(struct request *request, size_t len);
int request_reply_statfs(struct request *request, const struct statvfs *statfs);

/* ops.c */
extern const struct fuse_lowlevel_ops session_ops;

/* serve.c */
void serve_lookup(struct request *request);
void serve_getattr(struct request *request);
void serve_readlink(struct request *request);
void serve_open(struct request *request);
void serve_read(struct request *request);
void serve_release(struct request *request);
/* openfile.c */
/*
 * Makes a handle of the request's node, which is open by now, and says which file the kernel is to
 * read; 0: it asks us. -ENOMEM: then it is not open any more.
 */
int request_add_file(struct request *request, int32_t *ret_backing);
/* Closes the request's handle, of a file or a stream, if it is there. */
void request_close_file(struct request *request);
/* Closes what a process that died has opened for this very request. */
void request_undo_open(struct request *request);
/* The same for one that was not sent again. */
void session_undo_open(void *session, uint64_t unique);
/* Gives back one opening of the request's node. */
void request_release_node(struct request *request);
void file_destroy_handle(struct handle *handle);
/* Takes over an open file, directory or stream of another process: for carry_take(). */
bool file_resume(void *block, size_t room, void *session);
bool listing_resume(void *block, size_t room, void *session);
bool stream_resume(void *block, size_t room, void *session);
/* Has all that ever polled ask again. */
void streams_wake_all(struct session *session);
void serve_mkdir(struct request *request);
void serve_rmdir(struct request *request);
/* What is now at the request's path, with its time set. */
int request_lookup_view(struct request *request, struct view_attr *ret);
/* The same where the request is about a node: -ESTALE if what it belongs to is gone. */
int request_lookup_node(struct request *request, struct view_attr *ret);
/* May the caller open or list what is in the request's view? -EACCES. */
int request_check_access(const struct request *request);
/* Time, mode and owner of what a view has found; NULL: of the root. */
void session_complete(const struct session *session, const struct view *view,
		      struct view_attr *attr);
mode_t view_kind_type(enum view_kind kind);
void request_fill_entry(const struct session *session, const struct node *node,
			const struct view_attr *attr, uint64_t size, struct fuse_entry_param *ret);
void request_fill_stat(const struct session *session, uint64_t ino, const struct view_attr *attr,
		       uint64_t size, struct stat *ret);

/* foreign.c */
void foreign_lookup(struct request *request);
void foreign_getattr(struct request *request);
void foreign_readlink(struct request *request);
void foreign_open(struct request *request);
void foreign_read(struct request *request);
void foreign_release(struct request *request);
void foreign_opendir(struct request *request);
void foreign_readdir(struct request *request);
void foreign_readdirplus(struct request *request);
void foreign_releasedir(struct request *request);
void foreign_getxattr(struct request *request);
void foreign_listxattr(struct request *request);
void foreign_statfs(struct request *request);

/* listing.c: open directories. */
void serve_opendir(struct request *request);
void serve_readdir(struct request *request);
void serve_readdirplus(struct request *request);
void serve_releasedir(struct request *request);
void listing_destroy_handle(struct handle *handle);

/* stream.c: open streams, and who polls them. */
void serve_stream_open(struct request *request, const struct view_attr *now);
void serve_stream_read(struct request *request);
/* The size that the open handles of a stream's node have. False: there are none. */
bool stream_size_of_node(struct session *session, const struct node *node, uint64_t *ret);
/* What poll(2) says of a stream; poll is who to wake, or NULL, and the stream's to keep. */
unsigned int stream_poll(struct session *session, uint64_t number, struct fuse_pollhandle *poll);
uint64_t stream_node(const struct handle *handle);
void stream_destroy_handle(struct handle *handle);

/* request.c: the index of the view that a path is in; -1: of none. */
int session_find_view(const struct session *session, const char *path);

/* session.c */
void session_init(void *session, struct fuse_conn_info *conn);

#endif
