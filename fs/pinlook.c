/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looking at an entry of a root, where that could wait for a server that does not answer.
 *
 * While a lookup is not answered the kernel keeps everybody else who wants that name waiting, and
 * such a wait cannot even be killed. So a lookup into a FUSE or network mount (--pin-cross) is
 * given up after a while; other requests hang for their caller alone, who can be killed. No lock is
 * held here.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/pinroot_internal.h"

/* The work of a thread that can be left behind, with all that it needs. */
struct look {
	struct root *root;
	struct root_dir dir;
	char *path;
	char *name;
	uint64_t key;
	bool stat; /* or only the link */

	struct root_entry entry;
	char *target;
	int result;
	bool done; /* in time: the three above may be looked at */
};

/* Looks at the entry, and if it is a link where it is shown to lead. */
static int look_at(struct look *look)
{
	int r = 0;

	if (look->stat)
		r = root_stat(look->root, &look->dir, look->name, &look->entry);
	if (r == 0 && !look->entry.closed && S_ISLNK(look->entry.stx.stx_mode))
		r = root_readlink(look->root, &look->dir, look->name, &look->target);
	/* So long a way that it cannot be told: readlink() will say so. */
	return r == -ENAMETOOLONG && look->entry.stx.stx_mask ? 0 : r;
}

static void look_step(void *arg, size_t index)
{
	struct look *look = arg;

	look->result = look_at(look);
}

static void look_done(void *arg, size_t index)
{
	((struct look *)arg)->done = true;
}

static uint64_t look_key(void *arg, size_t index)
{
	return ((const struct look *)arg)->key;
}

static void look_release(void *arg)
{
	struct look *look = arg;

	root_unref(look->root);
	if (look->dir.fd >= 0)
		close(look->dir.fd);
	free(look->path);
	free(look->name);
	free(look->target);
	free(look);
}

static int make_look(const struct look *like, struct look **ret)
{
	struct look *look = calloc(1, sizeof(*look));

	if (!look)
		return -ENOMEM;
	*look = *like;
	look->root = root_ref(like->root);
	look->dir.fd = fcntl(like->dir.fd, F_DUPFD_CLOEXEC, 0);
	look->path = strdup(like->dir.path);
	look->name = strdup(like->name);
	look->dir.path = look->path;
	look->result = -ETIMEDOUT;
	if (look->dir.fd < 0 || !look->path || !look->name) {
		int r = look->dir.fd < 0 ? -errno : -ENOMEM;

		look_release(look);
		return r;
	}
	*ret = look;
	return 0;
}

/* The same on another thread, for as long as the patience lasts. */
static int look_patiently(struct pinroot *pinroot, struct look *mine)
{
	static const struct offload_work work = {
		.step = look_step,
		.done = look_done,
		.key = look_key,
		.release = look_release,
	};
	struct offload_job *job;
	struct look *look;
	int r = make_look(mine, &look);

	if (r < 0)
		return r;
	r = offload_run(pinroot->offload, &work, look, &job);
	if (r < 0)
		return r == -EAGAIN ? -ETIMEDOUT : r;
	r = -ETIMEDOUT;
	if (look->done) {
		r = look->result;
		mine->entry = look->entry;
		mine->target = take_ptr(look->target);
	}
	offload_drop(job);
	return r;
}

int pincall_look(struct pincall *call, const char *name, struct root_entry *ret, char **ret_target)
{
	struct look look = {
		.root = call->root,
		.dir = call->dir,
		.name = (char *)name,
		.key = root_entry_may_hang(call->root, &call->dir, name),
		.stat = true,
	};
	int r;

	if (look.key) {
		r = look_patiently(call->pinroot, &look);
	} else {
		r = root_stat(call->root, &call->dir, name, &look.entry);
		if (r == 0 && !look.entry.closed && S_ISLNK(look.entry.stx.stx_mode)) {
			look.stat = false;
			look.key = root_links_may_hang(call->root);
			r = look.key ? look_patiently(call->pinroot, &look) : look_at(&look);
		}
	}
	*ret = look.entry;
	*ret_target = look.target;
	return r;
}
