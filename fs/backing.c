/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory files for passthrough: see backing.h. */
#include "fs/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/carry.h"
#include "fs/session.h"

/*
 * What all of them may hold: each has the whole of a version, of which snapshots share what has not
 * changed. So however many versions are held open, they cost little more than these.
 */
#define BYTES_MAX (UINT64_C(32) << 20)
#define FILES_MAX 16
/* Kept unused, for the next version: of ksyms and of kallsyms. */
#define IDLE_MAX     2
#define WRITE_PIECES 512

/* A block of carry.h. */
struct registered {
	int32_t id;
};

struct backing {
	struct backing *next; /* among those that another process made, which have no fd */
	struct registered *registered;
	int fd;
	int32_t id; /* the connection's, for as long as the file is here */
	uint64_t inherited_bytes;
	unsigned int refs;
	struct snapshot *snapshot; /* whose bytes it has, or will have when it is filled */
	bool is_filling;
	uint64_t used; /* when it was used last, in calls of backings_get() */
};

struct backings {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct session *session;
	int mount; /* a tmpfs of our own; -1 where there is none to be had */
	uint64_t clock;
	struct backing files[FILES_MAX]; /* fd -1: none */
	struct backing *inherited;
};

/*
 * A tmpfs that is mounted nowhere. memfd_create() has huge pages only where the administrator
 * turned them on for all of shmem.
 */
static int mount_tmpfs(void)
{
	_cleanup_fd_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0)
		return -errno;
	/* Refused where the kernel has no huge pages: then small ones will do. */
	fsconfig(fs, FSCONFIG_SET_STRING, "huge", "always", 0);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return mount < 0 ? -errno : mount;
}

int backings_create(struct session *session, struct backings **ret)
{
	struct backings *backings = calloc(1, sizeof(*backings));

	if (!backings)
		return -ENOMEM;
	pthread_mutex_init(&backings->lock, NULL);
	pthread_cond_init(&backings->filled, NULL);
	backings->session = session;
	/* Here, for later nothing may be mounted any more: see sandbox.h. */
	backings->mount = mount_tmpfs();
	for (size_t i = 0; i < FILES_MAX; i++)
		backings->files[i].fd = -1;
	*ret = backings;
	return 0;
}

static void close_file(struct backings *backings, struct backing *file)
{
	if (file->id > 0)
		session_backing_close(backings->session, file->id);
	carry_free(file->registered);
	if (file->fd >= 0)
		close(file->fd);
	snapshot_unref(file->snapshot);
	*file = (struct backing){.fd = -1};
}

void backings_destroy(struct backings *backings)
{
	if (!backings)
		return;
	for (size_t i = 0; i < FILES_MAX; i++) {
		if (backings->files[i].fd >= 0)
			close_file(backings, &backings->files[i]);
	}
	while (backings->inherited) {
		struct backing *file = backings->inherited;

		backings->inherited = file->next;
		close_file(backings, file);
		free(file);
	}
	if (backings->mount >= 0)
		close(backings->mount);
	pthread_cond_destroy(&backings->filled);
	pthread_mutex_destroy(&backings->lock);
	free(backings);
}

static int make_file(struct backings *backings)
{
	if (backings->mount < 0)
		return -ENOENT;
	int fd = openat(backings->mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0400);
	return fd < 0 ? -errno : fd;
}

/*
 * Has nobody but us the file open or mapped? The kernel gives a write lease on no other terms. A
 * file of which nothing was handed out cannot be opened meanwhile.
 */
static bool is_ours_alone(const struct backing *file)
{
	if (fcntl(file->fd, F_SETLEASE, F_WRLCK) < 0)
		return false;
	fcntl(file->fd, F_SETLEASE, F_UNLCK);
	return true;
}

static int write_snapshot(int fd, const struct snapshot *snapshot, uint64_t offset)
{
	struct iovec pieces[WRITE_PIECES];
	uint64_t size = snapshot_size(snapshot);

	while (offset < size) {
		int count = snapshot_iov(snapshot, offset, size - offset, pieces, WRITE_PIECES);
		ssize_t n = pwritev(fd, pieces, count, offset);

		if (n <= 0)
			return n ? -errno : -EIO;
		offset += n;
	}
	return ftruncate(fd, size) < 0 ? -errno : 0;
}

static struct backing *find_snapshot(struct backings *backings, const struct snapshot *snapshot)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		if (backings->files[i].fd >= 0 && backings->files[i].snapshot == snapshot)
			return &backings->files[i];
	}
	return NULL;
}

/* An unused file of an earlier version of this, which is then the one that is least to write. */
static struct backing *find_earlier(struct backings *backings, const struct snapshot *snapshot)
{
	struct backing *best = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < FILES_MAX; i++) {
		struct backing *file = &backings->files[i];

		if (file->fd < 0 || file->refs || !file->snapshot)
			continue;
		uint64_t same = snapshot_shared_prefix(file->snapshot, snapshot);

		if (same > most && is_ours_alone(file)) {
			best = file;
			most = same;
		}
	}
	return best;
}

static struct backing *add_file(struct backings *backings)
{
	struct backing *file = NULL;

	for (size_t i = 0; i < FILES_MAX && !file; i++)
		file = backings->files[i].fd < 0 ? &backings->files[i] : NULL;
	if (!file)
		return NULL;
	int fd = make_file(backings);
	if (fd < 0)
		return NULL;
	file->fd = fd;
	file->id = session_backing_open(backings->session, fd);
	/* Killed in between, one file in memory stays until the end of the mount. */
	file->registered = file->id > 0 ? carry_alloc(sizeof(*file->registered)) : NULL;
	if (file->registered) {
		file->registered->id = file->id;
		carry_publish(file->registered, CARRY_BACKING);
		return file;
	}
	close_file(backings, file);
	return NULL;
}

static uint64_t count_bytes(const struct backings *backings)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < FILES_MAX; i++) {
		if (backings->files[i].snapshot)
			sum += snapshot_size(backings->files[i].snapshot);
	}
	for (const struct backing *file = backings->inherited; file; file = file->next)
		sum += file->inherited_bytes;
	return sum;
}

/*
 * The unused file that is first to go when so many bytes are to come; NULL: all may stay. To close
 * one that is mapped frees nothing but our count of it.
 */
static struct backing *find_surplus(struct backings *backings, uint64_t coming)
{
	struct backing *oldest = NULL;
	unsigned int idle = 0;

	for (size_t i = 0; i < FILES_MAX; i++) {
		struct backing *file = &backings->files[i];

		if (file->fd < 0 || file->refs || !is_ours_alone(file))
			continue;
		idle++;
		if (!oldest || file->used < oldest->used)
			oldest = file;
	}
	return idle > IDLE_MAX || count_bytes(backings) + coming > BYTES_MAX ? oldest : NULL;
}

/* Returns whether there is room for so many bytes. */
static bool make_room(struct backings *backings, uint64_t coming)
{
	struct backing *file;

	while ((file = find_surplus(backings, coming)))
		close_file(backings, file);
	return count_bytes(backings) + coming <= BYTES_MAX;
}

/*
 * Gives a file that nobody else uses the bytes of a snapshot, without the lock meanwhile: others
 * may be after another file. Who comes for this one waits.
 */
static int fill(struct backings *backings, struct backing *file, struct snapshot *snapshot)
{
	_cleanup_snapshot_ struct snapshot *old = file->snapshot;
	uint64_t same = old ? snapshot_shared_prefix(old, snapshot) : 0;

	file->snapshot = snapshot_ref(snapshot);
	file->is_filling = true;
	pthread_mutex_unlock(&backings->lock);
	int r = write_snapshot(file->fd, snapshot, same);
	pthread_mutex_lock(&backings->lock);
	file->is_filling = false;
	pthread_cond_broadcast(&backings->filled);
	return r;
}

struct backing *backings_get(struct backings *backings, struct snapshot *snapshot)
{
	LOCKED(&backings->lock);
	struct backing *file;

	while ((file = find_snapshot(backings, snapshot)) && file->is_filling)
		pthread_cond_wait(&backings->filled, &backings->lock);
	bool is_new = !file;

	if (!file)
		file = find_earlier(backings, snapshot);
	if (!file && make_room(backings, snapshot_size(snapshot)))
		file = add_file(backings);
	if (!file)
		return NULL;
	file->refs++;
	file->used = ++backings->clock;
	if (is_new && fill(backings, file, snapshot) < 0) {
		close_file(backings, file);
		return NULL;
	}
	make_room(backings, 0);
	return file;
}

static void drop_inherited(struct backings *backings, struct backing *file)
{
	struct backing **at = &backings->inherited;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	close_file(backings, file);
	free(file);
}

void backings_put(struct backings *backings, struct backing *backing)
{
	if (!backing)
		return;
	LOCKED(&backings->lock);
	backing->refs--;
	if (backing->fd >= 0)
		make_room(backings, 0);
	else if (!backing->refs)
		drop_inherited(backings, backing);
}

struct backing *backings_inherit(struct backings *backings, int32_t id, uint64_t size)
{
	LOCKED(&backings->lock);
	struct backing *file = backings->inherited;

	while (file && file->id != id)
		file = file->next;
	if (!file) {
		file = calloc(1, sizeof(*file));
		if (!file)
			return NULL;
		*file = (struct backing){
			.next = backings->inherited,
			.fd = -1,
			.id = id,
			.inherited_bytes = size,
		};
		backings->inherited = file;
	}
	file->refs++;
	return file;
}

/* Returns whether somebody needs it. */
static bool claim(void *block, size_t room, void *arg)
{
	struct backings *backings = arg;
	struct registered *registered = block;
	struct backing *file = backings->inherited;

	while (file && file->id != registered->id)
		file = file->next;
	if (file && !file->registered) {
		file->registered = registered;
		return true;
	}
	session_backing_close(backings->session, registered->id);
	return false;
}

void backings_forget_others(struct backings *backings)
{
	LOCKED(&backings->lock);
	carry_take(CARRY_BACKING, claim, backings);
}

/* The kernel counts them up, to where it has come is told by one more. */
void backings_forget_unknown(struct backings *backings)
{
	_cleanup_fd_ int fd = make_file(backings);
	int32_t last = fd < 0 ? 0 : session_backing_open(backings->session, fd);

	for (int32_t id = 1; id <= last; id++)
		session_backing_close(backings->session, id);
}

int32_t backing_id(const struct backing *backing)
{
	return backing->id;
}

uint64_t backings_bytes(struct backings *backings)
{
	LOCKED(&backings->lock);
	return count_bytes(backings);
}
