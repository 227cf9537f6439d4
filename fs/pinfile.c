/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open files and directories behind pins: see pinroot.h.
 *
 * Reads pass the page cache by (direct I/O), for the files are live. What is mapped is in the page
 * cache of our own mount, and dropped from it when its pin is let go of.
 *
 * The biggest files are handed to the kernel to read (passthrough), which costs nothing at all. But
 * what is open in that way is out of our hands: it goes on when its pin is let go of. All that have
 * one node open share the way.
 *
 * file_lock guards what is open of a node, and who is using what; it is taken before the handles'.
 * What a dropped tree has open is closed at once, or by the call that is using it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>

#include "core/mounts.h"
#include "fs/pinroot_internal.h"

/*
 * Below this, to say ESTALE when the pin goes is worth more than speed. Read by us, what is in
 * memory comes at a tenth to a half of its own speed, which still is gigabytes a second.
 */
#define PASSTHROUGH_MIN (256u << 20)

/* A block of core/carry.h; the pointers and the fd are this process's. */
struct pinfile {
	struct handle handle; /* first */
	uint64_t node_id;
	bool is_dir;
	bool is_left;	 /* by another process: to be opened again */
	int32_t backing; /* the node's when it was opened */
	struct pinroot *pinroot;
	struct pinnode *node;	  /* referenced */
	struct pinfile *next;	  /* of the node */
	int fd;			  /* -1: nothing to read, or not any more */
	DIR *dir;		  /* has fd; NULL for what is shown as empty */
	pthread_mutex_t dir_lock; /* of dir and where it is: an outer one */
	uint64_t dir_offset;
	struct dirent *dir_next; /* what is there, if it has been read already */
	unsigned int users;
	bool dropped; /* closed as soon as nobody is using it */
};

/* Under the lock: gives the fd up, to be closed without the lock. */
static void detach(struct pinfile *file, int *ret_fd, DIR **ret_dir)
{
	*ret_fd = file->dir ? -1 : file->fd;
	*ret_dir = file->dir;
	file->fd = -1;
	file->dir = NULL;
}

static void close_detached(int fd, DIR *dir)
{
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

static void end_use(struct pinfile *file)
{
	struct pinroot *pinroot = file->pinroot;
	DIR *dir = NULL;
	int fd = -1;

	pthread_mutex_lock(&pinroot->file_lock);
	if (--file->users == 0 && file->dropped)
		detach(file, &fd, &dir);
	pthread_mutex_unlock(&pinroot->file_lock);
	close_detached(fd, dir);
	handles_put(&pinroot->handles, &file->handle);
}

void pinfile_destroy_handle(struct handle *handle)
{
	struct pinfile *file = (struct pinfile *)handle;

	close_detached(file->fd, file->dir);
	pthread_mutex_destroy(&file->dir_lock);
	pinnode_put(&file->pinroot->nodes, file->node);
	carry_free(file);
}

static struct pinfile *make_file(struct pinroot *pinroot, struct pinnode *node, int fd)
{
	struct pinfile *file = carry_alloc(sizeof(*file));

	if (!file)
		return NULL;
	file->pinroot = pinroot;
	file->node = pinnode_ref(&pinroot->nodes, node);
	file->node_id = node->id;
	file->fd = fd;
	pthread_mutex_init(&file->dir_lock, NULL);
	return file;
}

/* Makes an open file known. If its tree was dropped meanwhile, so is this. */
static uint64_t add_file(struct pincall *call, struct pinfile *file, uint64_t unique)
{
	struct pinroot *pinroot = call->pinroot;
	uint64_t number = handles_add(&pinroot->handles, &file->handle, unique);

	pthread_mutex_lock(&pinroot->lock);
	bool dead = call->tree && call->tree->dead;
	pthread_mutex_unlock(&pinroot->lock);
	if (dead)
		pinfiles_drop(pinroot, call->tree);
	return number;
}

/*
 * Under the lock: how this node is to be read. As it is read already; else by the kernel, if it is
 * big. Returns whether it is passthrough.
 */
static bool choose_passthrough(struct pinroot *pinroot, struct pinnode *node, int fd)
{
	struct stat stat;

	if (node->opens)
		return node->backing > 0;
	if (fstat(fd, &stat) < 0 || stat.st_size < PASSTHROUGH_MIN)
		return false;
	node->backing = session_backing_open(pinroot->session, fd);
	return node->backing > 0;
}

/* A mapped file can be one of the kernel's own state, whose file system no root leads into. */
static int check_held(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	const char *type = mount_type_of_magic(fs.f_type);

	return type && mount_class_of(type) == MOUNT_NO_STORAGE ? -EACCES : 0;
}

static int open_to_read(struct pincall *call, int *ret_fd)
{
	const struct pinnode_what *what = &call->node->what;
	_cleanup_fd_ int fd = -1;

	if (what->identity.type != S_IFREG)
		return what->identity.type == S_IFDIR ? -EISDIR : -ENXIO;
	int r = pincall_open(call, &fd);

	if (r == 0 && what->kind == PINNODE_HELD)
		r = check_held(fd);
	if (r < 0)
		return r;
	r = root_reopen(fd, S_IFREG, ret_fd);
	return pinroot_make_room(call->pinroot, r) ? root_reopen(fd, S_IFREG, ret_fd) : r;
}

/* A process that is gone has opened this, and died before it could say so. */
static void forget_unanswered(struct pinroot *pinroot, uint64_t unique)
{
	if (pinroot->resumed_files)
		pinfile_release(pinroot, 0, handles_opened_by(&pinroot->handles, unique));
}

int pinfile_open(void *arg, uint64_t id, const struct view_caller *caller,
		 struct fuse_file_info *fi, int32_t *ret_backing)
{
	struct pinroot *pinroot = arg;
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	_cleanup_fd_ int fd = -1;
	int r = pincall_begin(&call, pinroot, id);

	forget_unanswered(pinroot, fi->fh);
	/* What is shown as an empty file. */
	if (r == 0 && !call.node->what.closed)
		r = open_to_read(&call, &fd);
	if (r < 0)
		return r;
	struct pinfile *file = make_file(pinroot, call.node, fd);

	if (!file)
		return -ENOMEM;
	{
		LOCKED(&pinroot->file_lock);
		if (fd >= 0 && choose_passthrough(pinroot, call.node, fd))
			file->backing = *ret_backing = call.node->backing;
		call.node->opens++;
		file->next = call.node->files;
		call.node->files = file;
	}
	take_fd(&fd);
	fi->direct_io = session_maps_direct_io(pinroot->session);
	fi->fh = add_file(&call, file, fi->fh);
	return 0;
}

/* What is closed is empty, and what is hidden shows nothing. */
static bool has_listing(const struct pinnode_what *what)
{
	return (what->kind == PINNODE_TOP || what->kind == PINNODE_ENTRY) && !what->closed;
}

static int open_dir(struct pincall *call, int *ret_fd)
{
	int r = pincall_use_dir(call, call->node);

	if (r < 0)
		return r;
	r = root_reopen(call->dir.fd, S_IFDIR, ret_fd);
	return pinroot_make_room(call->pinroot, r) ? root_reopen(call->dir.fd, S_IFDIR, ret_fd) : r;
}

/*
 * What another process had open, by the name that it still has; a deleted file went with that
 * process.
 */
static int open_again(struct pincall *call, struct pinfile *file)
{
	_cleanup_fd_ int fd = -1;
	DIR *dir = NULL;

	const struct pinnode_what *what = &call->node->what;

	LOCKED(&file->dir_lock);
	if (!file->is_left || !(file->is_dir ? has_listing(what) : !what->closed))
		return 0;
	int r = file->is_dir ? open_dir(call, &fd) : open_to_read(call, &fd);

	if (r < 0)
		return r;
	if (file->is_dir) {
		dir = fdopendir(fd);
		if (!dir)
			return -ENOMEM;
	}
	file->is_left = false;
	LOCKED(&call->pinroot->file_lock);
	/* If it is dropped by now, its user closes it. */
	file->dir = dir;
	file->fd = take_fd(&fd);
	return 0;
}

static int begin_use(struct pincall *call, uint64_t fh, struct pinfile **ret)
{
	struct pinroot *pinroot = call->pinroot;
	struct pinfile *file = (struct pinfile *)handles_get(&pinroot->handles, fh);

	if (!file)
		return -ESTALE;
	pthread_mutex_lock(&pinroot->file_lock);
	bool dropped = file->dropped;

	file->users += !dropped;
	pthread_mutex_unlock(&pinroot->file_lock);
	if (dropped) {
		handles_put(&pinroot->handles, &file->handle);
		return -ESTALE;
	}
	int r = open_again(call, file);

	if (r < 0) {
		end_use(file);
		return r;
	}
	*ret = file;
	return 0;
}

static ssize_t read_fully(int fd, char *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, buf + done, len - done, offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		/* What was read first is given first. */
		if (n < 0)
			return done ? (ssize_t)done : -errno;
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

ssize_t pinfile_read(void *arg, uint64_t id, uint64_t fh, uint64_t offset, void *buf, size_t len)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	struct pinfile *file = NULL;
	int r = pincall_begin(&call, arg, id);

	if (r == 0)
		r = begin_use(&call, fh, &file);
	if (r < 0)
		return r;
	ssize_t n = file->fd < 0 ? 0 : read_fully(file->fd, buf, len, offset);

	end_use(file);
	return n;
}

/* Under the lock. Returns the backing that nobody uses any more, or 0. */
static int32_t take_off_node(struct pinfile *file)
{
	struct pinnode *node = file->node;
	struct pinfile **at = &node->files;
	int32_t backing = 0;

	if (file->is_dir)
		return 0;
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	if (--node->opens == 0) {
		backing = node->backing;
		node->backing = 0;
	}
	return backing;
}

void pinfile_release(void *arg, uint64_t id, uint64_t fh)
{
	struct pinroot *pinroot = arg;
	struct pinfile *file = (struct pinfile *)handles_get(&pinroot->handles, fh);

	if (!file)
		return;
	pthread_mutex_lock(&pinroot->file_lock);
	int32_t backing = take_off_node(file);
	pthread_mutex_unlock(&pinroot->file_lock);
	if (backing > 0)
		session_backing_close(pinroot->session, backing);
	handles_close(&pinroot->handles, fh);
	handles_put(&pinroot->handles, &file->handle);
}

int pinfile_stat(struct pinroot *pinroot, struct pinnode *node, struct statx *ret)
{
	_cleanup_fd_ int fd = -1;

	{
		LOCKED(&pinroot->file_lock);
		for (struct pinfile *file = node->files; file && fd < 0; file = file->next)
			if (file->fd >= 0)
				fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	}
	if (fd < 0)
		return -ENOENT;
	return statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, ret) < 0 ? -errno : 0;
}

int pinfile_opendir(void *arg, uint64_t id, const struct view_caller *caller,
		    struct fuse_file_info *fi)
{
	struct pinroot *pinroot = arg;
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	_cleanup_fd_ int fd = -1;
	int r = pincall_begin(&call, pinroot, id);

	forget_unanswered(pinroot, fi->fh);

	if (r < 0)
		return r;
	if (has_listing(&call.node->what)) {
		r = open_dir(&call, &fd);
		if (r < 0)
			return r;
	}
	struct pinfile *file = make_file(pinroot, call.node, fd);

	if (!file)
		return -ENOMEM;
	file->is_dir = true;
	if (fd >= 0)
		file->dir = fdopendir(fd);
	if (fd >= 0 && !file->dir) {
		file->fd = -1;
		pinfile_destroy_handle(&file->handle);
		return -ENOMEM;
	}
	take_fd(&fd);
	fi->fh = add_file(&call, file, fi->fh);
	return 0;
}

/* The two names that every directory has. */
static int list_nothing(const struct pinnode *node, uint64_t offset,
			struct foreign_listing *listing)
{
	if (offset < 1 && !foreign_listing_add(listing, ".", node->id, S_IFDIR, 1))
		return 0;
	if (offset < 2)
		foreign_listing_add(listing, "..", node->id, S_IFDIR, 2);
	return 0;
}

static int list_dir(struct pinfile *file, uint64_t offset, struct foreign_listing *listing)
{
	dev_t dev = file->node->what.identity.dev;

	LOCKED(&file->dir_lock);
	if (offset != file->dir_offset) {
		if (offset)
			seekdir(file->dir, offset);
		else
			rewinddir(file->dir);
		file->dir_offset = offset;
		file->dir_next = NULL;
	}
	for (;;) {
		errno = 0;
		struct dirent *entry = file->dir_next ?: readdir(file->dir);

		if (!entry)
			return -errno;
		file->dir_next = entry;
		if (!foreign_listing_add(listing, entry->d_name, pinattr_ino(dev, entry->d_ino),
					 DTTOIF(entry->d_type), entry->d_off))
			return 0;
		file->dir_next = NULL;
		file->dir_offset = entry->d_off;
	}
}

int pinfile_readdir(void *arg, uint64_t id, uint64_t fh, uint64_t offset,
		    struct foreign_listing *listing)
{
	_cleanup_pincall_ struct pincall call = PINCALL_NONE;
	struct pinfile *file = NULL;
	int r = pincall_begin(&call, arg, id);

	if (r == 0)
		r = begin_use(&call, fh, &file);
	if (r < 0)
		return r;
	r = file->dir ? list_dir(file, offset, listing) : list_nothing(call.node, offset, listing);
	end_use(file);
	return r;
}

struct detached {
	uint64_t node;
	int fd;
	DIR *dir;
	int32_t backing;
};

/* Under the lock. */
static void drop_file(struct pinfile *file, struct detached *ret)
{
	file->dropped = true;
	*ret = (struct detached){.node = file->node->id, .fd = -1};
	if (!file->users)
		detach(file, &ret->fd, &ret->dir);
	/* The kernel keeps what is open; no more will be opened. */
	ret->backing = file->node->backing;
	file->node->backing = 0;
}

/* What is mapped of them must be asked for again, to be refused. */
static void drop_pages(struct pinroot *pinroot, const struct detached *detached, size_t count)
{
	_cleanup_free_ uint64_t *nodes = calloc(MAX(count, (size_t)1), sizeof(*nodes));

	if (!nodes || !count)
		return;
	for (size_t i = 0; i < count; i++)
		nodes[i] = detached[i].node;
	session_drop_pages(pinroot->session, nodes, count);
}

void pinfiles_drop(struct pinroot *pinroot, const struct pintree *tree)
{
	_cleanup_free_ struct detached *detached = NULL;
	size_t all = 0, count = 0;

	{
		LOCKED(&pinroot->file_lock);
		LOCKED(&pinroot->handles.lock);
		for (struct handle *at = NULL; (at = handles_next(&pinroot->handles, at));)
			all++;
		detached = calloc(MAX(all, (size_t)1), sizeof(*detached));
		/* Then they are closed by whoever has them open. */
		if (!detached)
			return;
		for (struct handle *at = NULL; (at = handles_next(&pinroot->handles, at));) {
			struct pinfile *file = (struct pinfile *)at;

			if (file->node->what.tree == tree && !file->dropped)
				drop_file(file, &detached[count++]);
		}
	}
	for (size_t i = 0; i < count; i++) {
		close_detached(detached[i].fd, detached[i].dir);
		if (detached[i].backing > 0)
			session_backing_close(pinroot->session, detached[i].backing);
	}
	drop_pages(pinroot, detached, count);
}

static bool resume_file(void *block, size_t room, void *arg)
{
	struct pinroot *pinroot = arg;
	struct pinfile *file = block;
	struct pinnode *node =
		room < sizeof(*file) ? NULL : pinnode_get(&pinroot->nodes, file->node_id);

	/* Who has it open hears that it is stale. */
	if (!node)
		return false;
	*file = (struct pinfile){
		.handle = {.number = file->handle.number, .unique = file->handle.unique},
		.node_id = file->node_id,
		.is_dir = file->is_dir,
		.is_left = true,
		.backing = file->backing,
		.pinroot = pinroot,
		.node = node,
		.fd = -1,
	};
	pthread_mutex_init(&file->dir_lock, NULL);
	if (!file->is_dir) {
		node->opens++;
		node->backing = file->backing;
		file->next = node->files;
		node->files = file;
	}
	handles_resume(&pinroot->handles, &file->handle);
	return true;
}

void pinfiles_resume(struct pinroot *pinroot)
{
	carry_take(CARRY_FOREIGN_FILE, resume_file, pinroot);
}
