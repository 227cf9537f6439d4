/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a symlink leads when the tree that it is in is shown at another place.
 *
 * Followed by somebody else, the raw target of a link in a process's root would resolve in the
 * follower's root: an absolute one, or one with more `..` than there are directories, reads the
 * host's files. So a link is shown with the shortest relative path from its own place: some `../`,
 * never more than its depth, then names, and no `..` after them. What follows names that may be
 * symlinks is resolved first. However the tree changes between readlink and walk, no such path
 * leads out of it.
 *
 * Pure: the one question that needs a file system is asked through a callback.
 */
#ifndef CORE_LINKPATH_H
#define CORE_LINKPATH_H

/*
 * The path, in the root and without symlinks, of the directory that `path` leads to, `/` being the
 * root; a string of the caller's. `path` is absolute, its `..` are resolved already. -errno: it
 * leads to no directory.
 */
typedef int linkpath_resolve_fn(void *arg, const char *path, char **ret);

/*
 * Rewrites the target of a link in `dir`, the directory's path in the root without symlinks (`/`,
 * `/a/b`). A target that cannot be followed becomes one that cannot be followed for the same
 * reason. -ENOMEM, -EINVAL for an empty target; errors of resolve() other than those that a walk
 * has (-EIO, -EINTR) are handed on.
 */
int linkpath_rewrite(const char *dir, const char *target, linkpath_resolve_fn *resolve, void *arg,
		     char **ret);

#endif
