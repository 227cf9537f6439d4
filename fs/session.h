/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The session: requests of the kernel's FUSE client, answered from the node table (node.h) and the
 * views (views.h), or handed to the one module that has nodes of its own (struct foreign_ops).
 *
 * It drains what the kernel has written (tracker_sync) before it answers anything that could depend
 * on it, once a request. Two threads receive; they never wait for other people's file systems: a
 * view with `may_block`, and foreign nodes, are served by pools of workers, a pool each.
 */
#ifndef FS_SESSION_H
#define FS_SESSION_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"
#include "fs/view.h"

struct session;
struct tracker;

/* Node ids with this bit set are foreign: the session's own never have it. */
#define FOREIGN_NODE (UINT64_C(1) << 63)

/* Takes the entries of a foreign directory. */
struct foreign_listing;
/*
 * Adds an entry: its inode number and type (S_IFMT bits of mode), and the offset at which the
 * listing goes on after it, never 0. False: no room, stop here and return 0; the entry was not
 * taken.
 */
bool foreign_listing_add(struct foreign_listing *listing, const char *name, uint64_t ino,
			 mode_t mode, uint64_t next_offset);

/*
 * Nodes that another module numbers, counts and opens by itself: what is below the hidden top-level
 * name. Every call but forget() comes on a worker of a pool that serves nothing else, may block,
 * and may come on several workers at once. A caller who is killed is answered at once; his call
 * goes on, and what it opened or looked up is given back by release(), releasedir() or forget(), so
 * that the two sides' counts agree.
 *
 * -errno is handed to the caller as it is. What is not here answers EROFS (what would write) or
 * ENOSYS.
 */
struct foreign_ops {
	/* The top-level name that leads here. It is looked up, and never listed. */
	const char *name;
	/* How many workers there may be, all of which can hang. */
	unsigned int workers;

	/*
	 * Looks up name in parent and counts one lookup of the node found. parent is FUSE_ROOT_ID
	 * for `name` above. ret is zeroed before; ret->ino must have FOREIGN_NODE set. The name `.`
	 * is parent itself: it is asked for where a view says VIEW_FOREIGN.
	 */
	int (*lookup)(void *foreign, uint64_t parent, const char *name,
		      const struct view_caller *caller, struct fuse_entry_param *ret);
	/* Drops count lookups. Comes on a receiving thread: must not touch a file system. */
	void (*forget)(void *foreign, uint64_t node, uint64_t count);
	/* ret_timeout: seconds for which the kernel may use the answer, preset to 0. */
	int (*getattr)(void *foreign, uint64_t node, const struct view_caller *caller,
		       struct stat *ret, double *ret_timeout);
	/* A string of the caller's. */
	int (*readlink)(void *foreign, uint64_t node, const struct view_caller *caller, char **ret);

	/*
	 * fi->flags asks to read only; sets fi->fh, and fi->keep_cache or fi->direct_io. Or sets
	 * *ret_backing, preset to 0, to what session_backing_open() gave: then the kernel reads the
	 * file behind it by itself, and read() is not called. All opens of a node that are there at
	 * once must then have the same one. fi->fh is preset to the number of the request: one that
	 * a process has opened and did not live to say so comes again, to the next, under the same.
	 * So with opendir().
	 */
	int (*open)(void *foreign, uint64_t node, const struct view_caller *caller,
		    struct fuse_file_info *fi, int32_t *ret_backing);
	/* Fewer bytes than len only at the end of the file. */
	ssize_t (*read)(void *foreign, uint64_t node, uint64_t fh, uint64_t offset, void *buf,
			size_t len);
	void (*release)(void *foreign, uint64_t node, uint64_t fh);

	int (*opendir)(void *foreign, uint64_t node, const struct view_caller *caller,
		       struct fuse_file_info *fi);
	/* Entries from offset on, 0 being the start, `.` and `..` among them. */
	int (*readdir)(void *foreign, uint64_t node, uint64_t fh, uint64_t offset,
		       struct foreign_listing *listing);
	void (*releasedir)(void *foreign, uint64_t node, uint64_t fh);

	/* As getxattr(2) and listxattr(2): with size 0, how much there is; -ERANGE. */
	ssize_t (*getxattr)(void *foreign, uint64_t node, const struct view_caller *caller,
			    const char *name, void *buf, size_t size);
	ssize_t (*listxattr)(void *foreign, uint64_t node, const struct view_caller *caller,
			     void *buf, size_t size);
	int (*statfs)(void *foreign, uint64_t node, struct statvfs *ret);
};

/* The longest read that the kernel is offered; the mount option must say the same. */
#define SESSION_MAX_READ (1 << 20)

struct session_options {
	struct access_rules access;
	bool debug; /* libfuse's own trace to stderr */
	/* The kernel's INIT request has come: whoever takes over from us needs it. */
	void (*got_init)(void *arg, const void *init, size_t len);
	void *arg;
	/*
	 * Of a connection that another process has served: that request. The kernel does not repeat
	 * it, and what was agreed to follows from it.
	 */
	const void *init;
	size_t init_len; /* 0: a connection of which nobody has read yet */
};

/* -ENOMEM, or -EINVAL where libfuse refuses. The tracker and the views outlive the session. */
int session_create(const struct session_options *options, struct tracker *tracker,
		   struct session **ret);
/* After session_end(), and after the views are gone, which may have backing files to close. */
void session_destroy(struct session *session); /* NULL is fine */
DEFINE_CLEANUP(session, struct session *, session_destroy)
#define _cleanup_session_ CLEANUP(session_cleanup)

/* Before session_start(). The views are the caller's. */
void session_set_views(struct session *session, const struct view *views, size_t count);
void session_set_foreign(struct session *session, const struct foreign_ops *ops, void *foreign);

/*
 * Begins to serve fd, which is /dev/fuse of a mount and stays the caller's. -errno: there are no
 * threads to be had, and nothing runs.
 */
int session_start(struct session *session, int fd);
/* Waits until the kernel has got the first answer, with which requests begin. False: it ends. */
bool session_wait_ready(struct session *session);
/* Returns once the file system was unmounted or session_stop() was called. */
void session_wait(struct session *session);
/* Makes session_wait() return. Any thread, and signal handlers. */
void session_stop(struct session *session);
/*
 * Ends the threads, and closes what the views have open. False if a worker hangs in somebody's file
 * system: then nothing that it could use may be freed, and all that is left to do is to exit.
 */
bool session_end(struct session *session);

/*
 * Passthrough, which libfuse has from 3.17 on and the kernel from 6.9 on: registers an open file
 * that the kernel may read from without asking us. Returns its id, above 0, -EOPNOTSUPP where
 * the kernel did not agree to it in INIT, or -errno. fd may be closed after. Any thread, from
 * foreign_ops on.
 */
int32_t session_backing_open(struct session *session, int fd);
void session_backing_close(struct session *session, int32_t backing);
/*
 * Whether files that are opened with direct_io can be mapped shared (6.6): what is not kept in the
 * page cache is never stale, but without this a shared mapping of it says ENODEV.
 */
bool session_maps_direct_io(const struct session *session);

/*
 * Answers what is asked of foreign nodes that are meant, and whose answer is not known yet, as with
 * a lookup that hangs. What a call finds later is given back by it, as when its caller is killed.
 * is_meant comes with a lock held. Any thread.
 */
void session_refuse(struct session *session, int error, bool (*is_meant)(void *arg, uint64_t node),
		    void *arg);
/*
 * Has the kernel drop the pages that it has of foreign nodes, also those that are mapped: soon, for
 * it waits for whoever is reading one, so that no request may wait for it. -ENOMEM.
 */
int session_drop_pages(struct session *session, const uint64_t *nodes, size_t count);

/* Wakes who polls a stream that has grown. Any thread, with any lock of a view held. */
void session_notify_streams(struct session *session);

/* What a session that took over from another process found: open files, directories, streams. */
struct session_resumed {
	size_t nodes, files, directories, streams;
	bool resent; /* what was not answered has come again; else it was refused */
};
void session_get_resumed(const struct session *session, struct session_resumed *ret);

/* The `key: value` lines of status, and the lines of metrics, that are about the session. */
void session_status(struct session *session, struct text *text);
void session_metrics(struct session *session, struct text *text);

#endif
