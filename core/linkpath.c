/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Targets of symlinks, made relative to where they are shown: see linkpath.h. */
#include "core/linkpath.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/text.h"

/* A path as it grows: each name with a slash before it, the root is nothing at all. */
struct walk {
	struct text path;
	/* Up to here no name is a symlink. */
	size_t physical;
};

static void walk_deinit(struct walk *walk)
{
	text_deinit(&walk->path);
}

static void walk_pop(struct walk *walk)
{
	while (walk->path.len && walk->path.data[--walk->path.len] != '/')
		;
	walk->physical = walk->path.len;
}

/* Makes the whole path one without symlinks. */
static int walk_resolve(struct walk *walk, linkpath_resolve_fn *resolve, void *arg)
{
	_cleanup_free_ char *resolved = NULL;
	size_t len = walk->path.len;

	text_putc(&walk->path, '\0');
	if (walk->path.failed)
		return -ENOMEM;
	walk->path.len = len;

	int r = resolve(arg, walk->path.data, &resolved);

	if (r < 0)
		return r;
	walk->path.len = 0;
	if (strcmp(resolved, "/") != 0)
		text_puts(&walk->path, resolved);
	walk->physical = walk->path.len;
	return 0;
}

static bool is_walk_error(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -ENAMETOOLONG;
}

/* How much of two paths are the same names. */
static size_t common_length(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t common = 0;

	for (size_t i = 0;; i++) {
		bool a_ends = i == a_len || a[i] == '/', b_ends = i == b_len || b[i] == '/';

		if (a_ends && b_ends)
			common = i;
		if (i == a_len || i == b_len || a[i] != b[i])
			return common;
	}
}

/* The way from dir to walk->path. */
static int relative(const char *dir, const struct walk *walk, bool must_be_dir, char **ret)
{
	_cleanup_text_ struct text out = {};
	size_t dir_len = strlen(dir);
	const char *path = walk->path.len ? walk->path.data : "";
	size_t common = common_length(dir, dir_len, path, walk->path.len);

	for (size_t i = common; i < dir_len; i++)
		if (dir[i] == '/')
			text_puts(&out, out.len ? "/.." : "..");
	/* The rest begins with a slash, if there is one. What climbs is a directory by itself. */
	if (common < walk->path.len) {
		text_append(&out, path + common + (out.len == 0),
			    walk->path.len - common - (out.len == 0));
		if (must_be_dir)
			text_putc(&out, '/');
	}
	if (!out.len)
		text_putc(&out, '.');
	return text_take_string(&out, ret);
}

int linkpath_rewrite(const char *dir, const char *target, linkpath_resolve_fn *resolve, void *arg,
		     char **ret)
{
	CLEANUP(walk_deinit) struct walk walk = {};
	bool must_be_dir = false;

	if (!*target)
		return -EINVAL;
	if (strcmp(dir, "/") == 0)
		dir = "";
	if (*target != '/')
		text_puts(&walk.path, dir);
	walk.physical = walk.path.len;

	for (const char *at = target, *end; *at; at = end) {
		at += strspn(at, "/");
		end = at + strcspn(at, "/");
		size_t len = end - at;

		/* `x/` and `x/.` are there only if x is a directory. */
		must_be_dir = len == 0 || (len == 1 && *at == '.');
		if (must_be_dir)
			continue;
		if (len != 2 || memcmp(at, "..", 2) != 0) {
			text_putc(&walk.path, '/');
			text_append(&walk.path, at, len);
			continue;
		}
		if (walk.path.len > walk.physical) {
			int r = walk_resolve(&walk, resolve, arg);

			/*
			 * The walk ends here, and must even if the next moment there is such a
			 * directory: from wherever that led, the rest could climb out.
			 */
			if (is_walk_error(r)) {
				must_be_dir = true;
				break;
			}
			if (r < 0)
				return r;
		}
		walk_pop(&walk);
	}
	if (walk.path.failed)
		return -ENOMEM;
	return relative(dir, &walk, must_be_dir, ret);
}
