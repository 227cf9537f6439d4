/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symlinks of a held root, followed by hand: see root.h and linkpath.h.
 *
 * openat2(2) with RESOLVE_IN_ROOT would follow them right, but through every mount on the way: a
 * link to nowhere special would then hang whoever lists its directory on a FUSE server that is
 * dead, and /proc/self would be ours. So a walk here is made of root_stat()s.
 */
#include "core/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "core/linkpath.h"
#include "core/text.h"

/* As the kernel's own bound. */
#define MAX_LINKS 40

/* For all links of a walk together; each brings at most PATH_MAX / 2 names. */
#define MAX_STEPS 8192

static int read_link(int dir_fd, const char *name, char target[static PATH_MAX])
{
	ssize_t len = readlinkat(dir_fd, name, target, PATH_MAX);

	if (len < 0)
		return -errno;
	if (len == PATH_MAX)
		return -ENAMETOOLONG;
	target[len] = '\0';
	return 0;
}

struct walk {
	struct root *root;
	struct text path; /* without symlinks; empty for the root */
	int fd;		  /* of path; the root's own is borrowed */
	bool fd_owned;
	bool closed; /* path leads to what is shown as an empty directory */
	uint64_t mount;
	int links;
};

static void walk_set_fd(struct walk *walk, int fd, bool owned)
{
	if (walk->fd_owned)
		close(walk->fd);
	walk->fd = fd;
	walk->fd_owned = owned;
}

static void walk_deinit(struct walk *walk)
{
	walk_set_fd(walk, -1, false);
	text_deinit(&walk->path);
}

static int walk_to_top(struct walk *walk)
{
	struct root_dir top;
	struct root_entry entry;
	int r = root_stat(walk->root, NULL, NULL, &entry);

	if (r < 0)
		return r;
	root_top(walk->root, &top);
	walk_set_fd(walk, top.fd, false);
	walk->mount = top.mount;
	walk->path.len = 0;
	walk->closed = entry.closed;
	return 0;
}

static int walk_up(struct walk *walk)
{
	struct statx stx;
	int fd;

	while (walk->path.len && walk->path.data[--walk->path.len] != '/')
		;
	if (!walk->path.len)
		return walk_to_top(walk);
	int r = root_open_path(walk->root, walk->path.data, walk->path.len, &fd);

	if (r < 0)
		return r;
	walk_set_fd(walk, fd, true);
	walk->closed = false;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) < 0)
		return -errno;
	walk->mount = stx.stx_mnt_id;
	return 0;
}

static void walk_dir(const struct walk *walk, struct root_dir *ret)
{
	*ret = (struct root_dir){
		.fd = walk->fd,
		.mount = walk->mount,
		.path = walk->path.len ? walk->path.data : "/",
		.path_len = MAX(walk->path.len, (size_t)1),
	};
}

/* One name further. With a symlink, target is what to walk next and the walk stays where it is. */
static int walk_step(struct walk *walk, const char *name, char target[static PATH_MAX])
{
	struct root_dir dir;
	struct root_entry entry;
	int fd = -1, r;

	if (walk->closed)
		return -ENOENT;
	walk_dir(walk, &dir);
	r = root_stat(walk->root, &dir, name, &entry);
	if (r < 0)
		return r;
	if (!S_ISDIR(entry.stx.stx_mode) && (entry.closed || !S_ISLNK(entry.stx.stx_mode)))
		return -ENOTDIR;
	if (S_ISLNK(entry.stx.stx_mode))
		return ++walk->links > MAX_LINKS ? -ELOOP : read_link(walk->fd, name, target);
	if (!entry.closed) {
		struct root_identity seen;

		root_identify(&entry.stx, &seen);
		r = root_open_entry(&dir, name, &seen, &fd);
		if (r < 0)
			return r;
	}
	walk_set_fd(walk, fd, fd >= 0);
	walk->mount = entry.stx.stx_mnt_id;
	walk->closed = entry.closed;
	text_putc(&walk->path, '/');
	text_puts(&walk->path, name);
	return walk->path.failed ? -ENOMEM : 0;
}

static int walk_name(struct walk *walk, const char *name, char target[static PATH_MAX])
{
	*target = '\0';
	if (strcmp(name, ".") == 0)
		return 0;
	return strcmp(name, "..") == 0 ? walk_up(walk) : walk_step(walk, name, target);
}

/* Puts a link's target before what is left to walk. */
static int splice_target(char **rest, const char *at, const char *target)
{
	_cleanup_text_ struct text text = {};
	char *joined;

	text_puts(&text, target);
	text_putc(&text, '/');
	text_puts(&text, at);
	int r = text_take_string(&text, &joined);

	if (r < 0)
		return r;
	free(*rest);
	*rest = joined;
	return 0;
}

/* linkpath_resolve_fn, of a root. */
static int resolve(void *arg, const char *path, char **ret)
{
	CLEANUP(walk_deinit) struct walk walk = {.root = arg, .fd = -1};
	_cleanup_free_ char *rest = strdup(path);
	char target[PATH_MAX];
	int r = rest ? walk_to_top(&walk) : -ENOMEM;
	char *at = rest;

	for (int steps = 0; r == 0; steps++) {
		at += strspn(at, "/");
		size_t len = strcspn(at, "/");

		if (!len)
			break;
		if (steps == MAX_STEPS)
			return -ELOOP;
		char *end = at + len, ended_by = *end;

		*end = '\0';
		r = walk_name(&walk, at, target);
		*end = ended_by;
		at = end;
		if (r == 0 && *target) {
			if (*target == '/')
				r = walk_to_top(&walk);
			if (r == 0)
				r = splice_target(&rest, end, target);
			at = rest;
		}
	}
	if (r < 0)
		return r;
	if (!walk.path.len)
		text_putc(&walk.path, '/');
	return text_take_string(&walk.path, ret);
}

int root_readlink(struct root *root, const struct root_dir *dir, const char *name, char **ret)
{
	char target[PATH_MAX];
	int r = read_link(dir->fd, name, target);

	return r < 0 ? r : linkpath_rewrite(dir->path, target, resolve, root, ret);
}
