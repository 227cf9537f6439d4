/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A view is a top-level name of the tree with all that is below it. It fills one table, and that
 * is all that the rest of fs/ knows of it: node.c and session.c have no switch on path names.
 *
 * A view is asked by path, each time anew, and keeps no state for a node. So node ids can be
 * computed from paths, and a new process can take a mount over from a list of them.
 *
 * Every call may come on any thread. tracker_sync() has been called for the request that it serves.
 * A view without `may_block` is called where the tree is served and must not touch a file system of
 * others; one with it is called on a pool of workers, and so is render() of a file that is `slow`.
 */
#ifndef FS_VIEW_H
#define FS_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "core/cleanup.h"
#include "core/snapshot.h"
#include "core/text.h"
#include "fs/access.h"

enum view_kind {
	VIEW_DIR,
	VIEW_FILE,
	VIEW_LINK,
	VIEW_STREAM, /* a file whose open handles grow: events */
	/*
	 * A regular file that is a node of the foreign module (fs/session.h): `generation` is its
	 * node id. A lookup is answered by that module's lookup of `.` in the node.
	 */
	VIEW_FOREIGN,
};

/*
 * Content that has no version: what each open shows is rendered for it (status, stats, usdt/).
 * As a generation.
 */
#define VIEW_VOLATILE UINT64_MAX

struct view_attr {
	enum view_kind kind;
	/*
	 * Of a file: which content this name has now; equal numbers, equal bytes, for as long as
	 * the process runs. Of a stream: its epoch, changed when old bytes leave. Of a directory:
	 * 0, or, where its name can come to mean something else (pins/PID), a number of what it
	 * means; then whoever is still in the old one is told ESTALE. Of a symlink: 0.
	 */
	uint64_t generation;
	struct timespec mtime; /* zero: now; view_time() makes one */
	/*
	 * This name leads here, with this generation, for as long as the directory that it is in
	 * exists: the kernel may remember it without asking again.
	 */
	bool fixed;
	/*
	 * Of a file: render() takes long or can block (bpf/TAG/ID/holders walks /proc), so it is
	 * called on the pool of workers, as in a view that may_block.
	 */
	bool slow;
	/*
	 * For a moment the kernel takes a lookup's word for the attributes: an open(2) is a lookup,
	 * a stat for the permission check, the open and, at the first read, a stat for the size. Of
	 * a file: a few bytes, rendered in no time, so that the lookup can measure it. Of a
	 * directory: only its time changes.
	 */
	bool quick;
	uint64_t size; /* of a stream: bytes kept. Others: 0, files are measured when asked for */
	mode_t mode;   /* permission bits; 0: what fs/access.h gives this kind, and the owner */
	uid_t uid;
	gid_t gid;
};

/* CLOCK_REALTIME ns as an mtime. */
static inline struct timespec view_time(uint64_t unix_ns)
{
	return (struct timespec){
		.tv_sec = unix_ns / NSEC_PER_SEC,
		.tv_nsec = unix_ns % NSEC_PER_SEC,
	};
}

/* The names below the view: count is 0 for the view's own top. Escaped, as in the tree. */
#define VIEW_DEPTH 8
struct view_path {
	int count;
	const char *name[VIEW_DEPTH];
};

/*
 * Who asks: a thread id in the mounter's pid namespace, 0 for one outside of it. The uid and gid
 * that FUSE has, too, are none where mounts may be id-mapped (6.12): /proc knows them.
 */
struct view_caller {
	pid_t pid;
};

struct view_list;
/*
 * Adds an entry to a listing. name is copied. attr may be NULL where only the kind is known
 * cheaply; then `kind` is all that readdir tells, and a later lookup fills in the rest.
 */
int view_list_add(struct view_list *list, const char *name, enum view_kind kind,
		  const struct view_attr *attr);

struct view_ops {
	const char *name;
	/* Who may open what is in it, and list its directories. */
	enum access_class access;
	/* A name that is found in it tells already: who may not open may not look up either. */
	bool secret_names;
	bool may_block;
	/*
	 * With may_block: a lookup of this path, and of those above it, does not block. NULL: any
	 * can.
	 */
	bool (*prompt)(const struct view_path *path);

	/* What is at path? -ENOENT. count 0 asks for the view's own top. */
	int (*lookup)(void *view, const struct view_path *path, const struct view_caller *caller,
		      struct view_attr *ret);
	/* The entries of a directory, without . and .., in an order that does not jump. */
	int (*list)(void *view, const struct view_path *path, const struct view_caller *caller,
		    struct view_list *list);
	/* The bytes of a file, as of now. */
	int (*render)(void *view, const struct view_path *path, const struct view_caller *caller,
		      struct snapshot **ret);
	/* Where a symlink leads: a string of the caller's. */
	int (*readlink)(void *view, const struct view_path *path, const struct view_caller *caller,
			char **ret);

	/* A stream: an open handle, its size now, and bytes at an offset of that handle. */
	int (*stream_open)(void *view, const struct view_path *path, void **ret);
	uint64_t (*stream_size)(void *view, void *stream);
	ssize_t (*stream_read)(void *view, void *stream, uint64_t offset, void *buf, size_t len);
	void (*stream_close)(void *view, void *stream);
	/*
	 * Takes over one that another process has opened: a published block of CARRY_VIEW_STREAM,
	 * as stream_open() makes them. False: it makes no sense.
	 */
	bool (*stream_resume)(void *view, void *stream, size_t room);

	/* Only pins/ has these. NULL: EROFS. */
	int (*mkdir)(void *view, const struct view_path *path, const struct view_caller *caller);
	int (*rmdir)(void *view, const struct view_path *path, const struct view_caller *caller);

	/* What this view has to say in `status` and `metrics`. NULL: nothing. */
	void (*status)(void *view, struct text *text);
	void (*metrics)(void *view, struct text *text);
	void (*destroy)(void *view);
};

struct view {
	const struct view_ops *ops;
	void *data;
};

#endif
