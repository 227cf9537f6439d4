/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A hash table of files held open, by device and inode: see heldfile.h. */
#include "core/heldfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define BUCKETS 1024

struct held_file {
	struct held_files *files;
	struct held_file *next;
	struct held_file *next_kept;
	uint64_t number; /* 0: it is not kept */
	dev_t dev;
	uint64_t inode;
	unsigned int refs; /* under the table's lock: a lookup may revive none that is going */
	int fd;
};

struct held_files {
	pthread_mutex_t lock;
	unsigned int max;
	unsigned int count;
	bool owned;
	const dev_t *own_dev;
	const struct keeper *keeper;
	struct held_file *buckets[BUCKETS];
	struct held_file *kept[BUCKETS]; /* by number */
};

int held_files_create(unsigned int max, const dev_t *own_dev, struct held_files **ret)
{
	struct held_files *files = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	pthread_mutex_init(&files->lock, NULL);
	files->max = max;
	files->own_dev = own_dev;
	files->owned = true;
	*ret = files;
	return 0;
}

static void free_files(struct held_files *files)
{
	pthread_mutex_destroy(&files->lock);
	free(files);
}

void held_files_destroy(struct held_files *files)
{
	if (!files)
		return;
	pthread_mutex_lock(&files->lock);
	files->owned = false;
	bool last = files->count == 0;
	pthread_mutex_unlock(&files->lock);
	if (last)
		free_files(files);
}

unsigned int held_files_count(struct held_files *files)
{
	LOCKED(&files->lock);
	return files->count;
}

void held_files_set_keeper(struct held_files *files, const struct keeper *keeper)
{
	files->keeper = keeper;
}

static struct held_file **find_kept(struct held_files *files, uint64_t number)
{
	struct held_file **at = &files->kept[number % BUCKETS];

	while (*at && (*at)->number != number)
		at = &(*at)->next_kept;
	return at;
}

/* Under the lock: the file has no number yet. */
static void set_number(struct held_file *file, uint64_t number)
{
	struct held_file **at = find_kept(file->files, number);

	file->number = number;
	file->next_kept = *at;
	*at = file;
}

static struct held_file **find(struct held_files *files, dev_t dev, uint64_t inode)
{
	uint64_t hash = (inode ^ (uint64_t)dev << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct held_file **at = &files->buckets[hash >> 54];

	while (*at && ((*at)->dev != dev || (*at)->inode != inode))
		at = &(*at)->next;
	return at;
}

/* Under the lock. Takes the fd, or leaves it where the file is held already. */
static int get_locked(struct held_files *files, int *fd, struct held_file **ret)
{
	struct statx stx;

	/* Not to be asked of a file system that may be dead. */
	if (statx(*fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &stx) < 0)
		return -errno;
	dev_t dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	struct held_file **at = find(files, dev, stx.stx_ino);

	if (*at) {
		(*at)->refs++;
		*ret = *at;
		return 0;
	}
	if (dev == __atomic_load_n(files->own_dev, __ATOMIC_RELAXED))
		return -EXDEV;
	if (files->count >= files->max)
		return -ENFILE;
	struct held_file *file = malloc(sizeof(*file));

	if (!file)
		return -ENOMEM;
	*file = (struct held_file){
		.files = files,
		.dev = dev,
		.inode = stx.stx_ino,
		.refs = 1,
		.fd = take_fd(fd),
	};
	*at = file;
	files->count++;
	*ret = file;
	return 0;
}

int held_file_get(struct held_files *files, int dir_fd, const char *name, struct held_file **ret)
{
	_cleanup_fd_ int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	LOCKED(&files->lock);
	return get_locked(files, &fd, ret);
}

uint64_t held_file_keep(struct held_file *file)
{
	LOCKED(&file->files->lock);
	if (!file->number && file->files->keeper)
		set_number(file, keeper_keep(file->files->keeper, file->fd));
	return file->number;
}

int held_file_restore(struct held_files *files, uint64_t number, struct held_file **ret)
{
	LOCKED(&files->lock);
	struct held_file *file = number ? *find_kept(files, number) : NULL;

	if (file) {
		file->refs++;
		*ret = file;
		return 0;
	}
	_cleanup_fd_ int fd = keeper_take(files->keeper, number);

	if (fd < 0)
		return -ENOENT;
	int r = get_locked(files, &fd, ret);

	/* One is enough: of a file that is kept under another number, and of one that is not to be
	 * held. */
	if (r < 0 || (*ret)->number)
		keeper_drop(files->keeper, number);
	else
		set_number(*ret, number);
	return r;
}

struct held_file *held_file_ref(struct held_file *file)
{
	LOCKED(&file->files->lock);
	file->refs++;
	return file;
}

void held_file_unref(struct held_file *file)
{
	if (!file)
		return;
	struct held_files *files = file->files;
	const struct keeper *keeper = files->keeper;

	pthread_mutex_lock(&files->lock);
	bool gone = --file->refs == 0;

	if (gone) {
		*find(files, file->dev, file->inode) = file->next;
		if (file->number)
			*find_kept(files, file->number) = file->next_kept;
		files->count--;
	}
	bool last = gone && files->count == 0 && !files->owned;
	pthread_mutex_unlock(&files->lock);

	if (gone) {
		keeper_drop(keeper, file->number);
		close(file->fd);
		free(file);
	}
	if (last)
		free_files(files);
}

int held_file_fd(const struct held_file *file)
{
	return file->fd;
}
