/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Notes by file, each read once: see objcache.h. */
#include "core/objcache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#define SLOTS	    4096
#define ENTRIES_MAX 65536

/*
 * A file can change twice within one tick of the clock that its times are taken from, and then look
 * the same. So what was read so soon after a change is not kept.
 */
#define FRESH_NS (NSEC_PER_SEC / 10)

struct object_box {
	struct object object; /* first: what callers hold points here */
	atomic_uint refs;
};

struct entry {
	struct file_state state;
	struct entry *next_in_slot;
	/* By use: the one used last is first. */
	struct entry *newer, *older;
	struct object_box *box; /* NULL while it is being read */
	size_t bytes;
};

struct objcache {
	pthread_mutex_t lock;
	pthread_cond_t read_done;
	unsigned int refs;
	size_t bytes_max;
	struct entry *slots[SLOTS];
	struct entry *newest, *oldest; /* without those being read */
	struct objcache_stats stats;
};

struct object *object_ref(struct object *object)
{
	struct object_box *box = (struct object_box *)object;

	atomic_fetch_add_explicit(&box->refs, 1, memory_order_relaxed);
	return object;
}

void object_unref(struct object *object)
{
	struct object_box *box = (struct object_box *)object;

	if (!box || atomic_fetch_sub_explicit(&box->refs, 1, memory_order_acq_rel) != 1)
		return;
	notes_deinit(&box->object.notes);
	free(box);
}

int objcache_create(size_t bytes_max, struct objcache **ret)
{
	struct objcache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->read_done, NULL);
	cache->refs = 1;
	cache->bytes_max = bytes_max;
	*ret = cache;
	return 0;
}

struct objcache *objcache_ref(struct objcache *cache)
{
	LOCKED(&cache->lock);
	cache->refs++;
	return cache;
}

static struct entry **find_slot(struct objcache *cache, const struct file_state *state)
{
	uint64_t key[2] = {state->dev, state->ino};

	return &cache->slots[XXH3_64bits(key, sizeof(key)) % SLOTS];
}

static struct entry *find_entry(struct objcache *cache, const struct file_state *state)
{
	struct entry *entry = *find_slot(cache, state);

	while (entry && !file_state_equal(&entry->state, state))
		entry = entry->next_in_slot;
	return entry;
}

static void unlink_use(struct objcache *cache, struct entry *entry)
{
	*(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
	*(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct objcache *cache, struct entry *entry)
{
	entry->newer = NULL;
	entry->older = cache->newest;
	*(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
	cache->newest = entry;
}

/* Takes an entry out of its slot and frees it. It is not among the used. */
static void free_entry(struct objcache *cache, struct entry *entry)
{
	struct entry **at = find_slot(cache, &entry->state);

	while (*at != entry)
		at = &(*at)->next_in_slot;
	*at = entry->next_in_slot;
	if (entry->box)
		object_unref(&entry->box->object);
	free(entry);
}

static void forget(struct objcache *cache, struct entry *entry)
{
	unlink_use(cache, entry);
	cache->stats.objects--;
	cache->stats.bytes -= entry->bytes;
	free_entry(cache, entry);
}

void objcache_destroy(struct objcache *cache)
{
	if (!cache)
		return;
	pthread_mutex_lock(&cache->lock);
	bool last = --cache->refs == 0;

	pthread_mutex_unlock(&cache->lock);
	if (!last)
		return;
	while (cache->oldest)
		forget(cache, cache->oldest);
	pthread_mutex_destroy(&cache->lock);
	pthread_cond_destroy(&cache->read_done);
	free(cache);
}

/* Of a file, states of the past are of no more use. */
static void forget_older_states(struct objcache *cache, const struct entry *fresh)
{
	struct entry *next;

	for (struct entry *entry = *find_slot(cache, &fresh->state); entry; entry = next) {
		next = entry->next_in_slot;
		if (entry != fresh && entry->box && entry->state.dev == fresh->state.dev &&
		    entry->state.ino == fresh->state.ino)
			forget(cache, entry);
	}
}

static bool is_fresh(const struct file_state *state, const struct timespec *now)
{
	const struct timespec *changed = &state->ctime;
	int64_t age = (now->tv_sec - changed->tv_sec) * (int64_t)NSEC_PER_SEC + now->tv_nsec -
		      changed->tv_nsec;

	/* A time in the future is some server's, and says nothing. */
	return age > -(int64_t)FRESH_NS && age < (int64_t)FRESH_NS;
}

/* Reads the file. *ret_keep: it is known to be what the state says, now and later. */
static int read_object(const struct mapped_file *file, struct object_box **ret, bool *ret_keep)
{
	struct file_state after;
	struct timespec now;

	*ret_keep = false;
	clock_gettime(CLOCK_REALTIME, &now);
	_cleanup_fd_ int fd = mapped_file_reopen(file);

	if (fd < 0)
		return fd;
	struct object_box *box = calloc(1, sizeof(*box));

	if (!box)
		return -ENOMEM;
	atomic_init(&box->refs, 1);
	int r = notes_read(fd, &box->object.notes);

	if (r < 0 && r != -ENOEXEC && r != -EFBIG) {
		free(box);
		return r;
	}
	box->object.error = r;
	*ret_keep = file_state_of(fd, &after) == 0 && file_state_equal(&file->state, &after) &&
		    !is_fresh(&after, &now);
	*ret = box;
	return 0;
}

/* Puts what was read into its entry, or does away with that, and wakes those who wait. */
static void finish_read(struct objcache *cache, struct entry *entry, struct object_box *box,
			bool keep)
{
	size_t bytes = sizeof(*entry) + (box ? sizeof(*box) + notes_bytes(&box->object.notes) : 0);

	cache->stats.reads++;
	cache->stats.too_large += box && box->object.error == -EFBIG;
	pthread_cond_broadcast(&cache->read_done);
	if (!keep || bytes > cache->bytes_max) {
		free_entry(cache, entry);
		return;
	}
	object_ref(&box->object);
	entry->box = box;
	entry->bytes = bytes;
	link_newest(cache, entry);
	cache->stats.objects++;
	cache->stats.bytes += bytes;
	forget_older_states(cache, entry);
	while (cache->stats.bytes > cache->bytes_max || cache->stats.objects > ENTRIES_MAX)
		forget(cache, cache->oldest);
}

/* With the lock held: notes that an entry is used, and references its object. */
static struct object_box *use_entry(struct objcache *cache, struct entry *entry)
{
	unlink_use(cache, entry);
	link_newest(cache, entry);
	cache->stats.hits++;
	object_ref(&entry->box->object);
	return entry->box;
}

struct object *objcache_find(struct objcache *cache, const struct file_state *state)
{
	LOCKED(&cache->lock);
	struct entry *entry = find_entry(cache, state);

	return entry && entry->box ? &use_entry(cache, entry)->object : NULL;
}

/* With the lock held: what is there already, or a new entry that is to be read. */
static int find_or_add(struct objcache *cache, const struct file_state *state,
		       struct object_box **ret, struct entry **ret_entry)
{
	struct entry *entry;

	while ((entry = find_entry(cache, state)) && !entry->box)
		pthread_cond_wait(&cache->read_done, &cache->lock);
	if (entry) {
		*ret = use_entry(cache, entry);
		return 0;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	struct entry **slot = find_slot(cache, state);

	entry->state = *state;
	entry->next_in_slot = *slot;
	*slot = entry;
	*ret_entry = entry;
	return 0;
}

int objcache_get(struct objcache *cache, const struct mapped_file *file, struct object **ret)
{
	struct object_box *box = NULL;
	struct entry *entry = NULL;
	bool keep;

	pthread_mutex_lock(&cache->lock);
	int r = find_or_add(cache, &file->state, &box, &entry);

	pthread_mutex_unlock(&cache->lock);
	if (r < 0)
		return r;
	if (entry) {
		r = read_object(file, &box, &keep);
		LOCKED(&cache->lock);
		finish_read(cache, entry, box, keep);
	}
	if (r == 0)
		*ret = &box->object;
	return r;
}

void objcache_left_out(struct objcache *cache)
{
	LOCKED(&cache->lock);
	cache->stats.too_large++;
}

void objcache_stats(struct objcache *cache, struct objcache_stats *ret)
{
	LOCKED(&cache->lock);
	*ret = cache->stats;
}
