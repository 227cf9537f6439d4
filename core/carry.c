/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks in a memfd: see carry.h.
 *
 * Blocks lie one behind the other from the region's head to its end, each with its size ahead of
 * it, so that they can be walked whatever the process was about to do when it died. A size never
 * changes; which blocks are free is known by their kind, and the lists of free ones are this
 * process's own. Large blocks give their pages back when they are freed, and take none before they
 * are written to: the region may be as large as it likes.
 */
#include "core/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "core/cleanup.h"
#include "core/heap.h"

#define REGION_BYTES (UINT64_C(64) << 30)
#define REGION_MAGIC UINT64_C(0x7972726163736b01)
#define PAGE	     UINT64_C(4096)

/* From here on a block is a number of pages, and is given back when it is freed. */
#define LARGE (UINT64_C(1) << 20)
/* Sizes below, four to each doubling. */
#define CLASSES 64
/* From here on a copy through the mapping, each page of which is a fault, costs more than a call.
 */
#define WRITE_MIN (4 * PAGE)

struct head {
	uint64_t magic;
	uint64_t version;
	uint64_t end; /* offset of what has never been a block */
	struct carry_root root;
};

#define FIRST_BLOCK ((sizeof(struct head) + 63) / 64 * 64)

struct block {
	uint64_t size; /* with this header */
	_Atomic uint32_t kind;
	uint32_t asked; /* the last generation whose carry_at() asked for it */
	union {
		char data[1];
		uint64_t next_free; /* offset; 0: the last */
	};
};

#define HEADER offsetof(struct block, data)

static struct {
	pthread_mutex_t lock;
	char *base;
	struct head *head;
	bool is_inherited;
	struct carry_root own; /* without a region */
	uint64_t free[CLASSES];
	uint64_t free_large;
	uint64_t used;
	/* What was left, by kind, until it is taken. */
	struct inherited {
		uint64_t *offsets;
		size_t count, size;
	} inherited[CARRY_KINDS];
	int fd;
} region = {.fd = -1};

struct carry_root *carry_root(void)
{
	return region.head ? &region.head->root : &region.own;
}

bool carry_is_open(void)
{
	return region.base;
}

bool carry_is_inherited(void)
{
	return region.is_inherited;
}

static struct block *at(uint64_t offset)
{
	return (struct block *)(region.base + offset);
}

static uint64_t offset_of(const struct block *block)
{
	return (const char *)block - region.base;
}

static bool is_ours(const void *data)
{
	return region.base && (const char *)data > region.base &&
	       (const char *)data < region.base + REGION_BYTES;
}

static struct block *block_of(const void *data)
{
	return (struct block *)((char *)data - HEADER);
}

/* The smallest class that holds size, and how much it holds: 64, 80, 96, 112, 128, 160, ... */
static unsigned int class_of(uint64_t size, uint64_t *ret_size)
{
	unsigned int index = 0;
	uint64_t room = 64;

	while (room < size) {
		uint64_t step = (UINT64_C(1) << (63 - __builtin_clzll(room))) / 4;

		room += step;
		index++;
	}
	*ret_size = room;
	return index;
}

static void put_free(struct block *block)
{
	uint64_t size, *list = &region.free_large;

	if (block->size < LARGE)
		list = &region.free[class_of(block->size, &size)];
	block->next_free = *list;
	*list = offset_of(block);
}

/* A free block for so many bytes, header included; NULL: there is none. */
static struct block *take_free(uint64_t size, unsigned int class)
{
	uint64_t *link = size < LARGE ? &region.free[class] : &region.free_large;

	while (*link) {
		struct block *block = at(*link);

		if (size < LARGE || (block->size >= size && block->size / 2 <= size)) {
			*link = block->next_free;
			return block;
		}
		link = &block->next_free;
	}
	return NULL;
}

static struct block *take_new(uint64_t size)
{
	uint64_t offset = region.head->end;

	if (size > REGION_BYTES - offset)
		return NULL;
	struct block *block = at(offset);

	block->size = size;
	/* A block is there once the end is behind it. */
	__atomic_store_n(&region.head->end, offset + size, __ATOMIC_RELEASE);
	return block;
}

/* The whole pages of a block's own, behind its header. False: it has none. */
static bool own_pages(const struct block *block, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = (offset_of(block) + sizeof(*block) + PAGE - 1) & ~(PAGE - 1);
	*ret_end = (offset_of(block) + block->size) & ~(PAGE - 1);
	return *ret_start < *ret_end;
}

/* Zeroes a block that was free. A large one is a hole, but for what shares a page with others. */
static void clear(struct block *block)
{
	char *end = (char *)block + block->size;
	uint64_t hole, hole_end;

	if (block->size < LARGE || !own_pages(block, &hole, &hole_end)) {
		memset(block->data, 0, end - block->data);
		return;
	}
	memset(block->data, 0, region.base + hole - block->data);
	memset(region.base + hole_end, 0, end - (region.base + hole_end));
}

void *carry_alloc(size_t len)
{
	if (!region.base)
		return calloc(1, MAX(len, (size_t)1));

	LOCKED(&region.lock);
	uint64_t size = MAX(len + HEADER, sizeof(struct block));
	unsigned int class = 0;

	if (size < len)
		return NULL;
	if (size < LARGE)
		class = class_of(size, &size);
	if (size >= LARGE)
		size = (size + PAGE - 1) & ~(PAGE - 1);
	struct block *block = take_free(size, class);

	if (block)
		clear(block);
	else
		block = take_new(size);
	if (!block)
		return NULL;
	region.used += block->size;
	return block->data;
}

void carry_publish(void *data, enum carry_kind kind)
{
	if (is_ours(data))
		atomic_store(&block_of(data)->kind, kind);
}

static void punch(const struct block *block)
{
	uint64_t start, end;

	if (own_pages(block, &start, &end) &&
	    fallocate(region.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, end - start) <
		    0)
		memset(region.base + start, 0, end - start);
}

void carry_write(void *to, const void *from, size_t len)
{
	size_t done = 0;

	if (is_ours(to) && len >= WRITE_MIN) {
		while (done < len) {
			ssize_t n = pwrite(region.fd, (const char *)from + done, len - done,
					   (char *)to + done - region.base);

			if (n <= 0)
				break;
			done += n;
		}
	}
	if (done < len)
		memcpy((char *)to + done, (const char *)from + done, len - done);
}

void carry_free(void *data)
{
	if (!is_ours(data)) {
		free(data);
		return;
	}
	struct block *block = block_of(data);

	LOCKED(&region.lock);
	atomic_store(&block->kind, CARRY_FREE);
	region.used -= block->size;
	if (block->size >= LARGE)
		punch(block);
	put_free(block);
}

static int note_inherited(struct block *block)
{
	struct inherited *list = &region.inherited[block->kind];

	if (list->count == list->size) {
		size_t size = MAX(list->size * 2, (size_t)64);
		uint64_t *offsets = reallocarray(list->offsets, size, sizeof(*offsets));

		if (!offsets)
			return -ENOMEM;
		list->offsets = offsets;
		list->size = size;
	}
	list->offsets[list->count++] = offset_of(block);
	region.used += block->size;
	return 0;
}

static int walk(void)
{
	uint64_t end = region.head->end, offset = FIRST_BLOCK;

	if (end < FIRST_BLOCK || end > REGION_BYTES)
		return -EBADMSG;
	while (offset < end) {
		struct block *block = at(offset);
		uint64_t size = block->size;

		if (size < 64 || size % 16 || size > end - offset || block->kind >= CARRY_KINDS)
			return -EBADMSG;
		if (block->kind == CARRY_FREE)
			put_free(block);
		else if (note_inherited(block) < 0)
			return -ENOMEM;
		offset += size;
	}
	return 0;
}

/* Numbers go on from where no process before this one has come. */
static void begin(struct head *head, uint64_t generation)
{
	uint64_t numbers = generation << 40;

	head->version = CARRY_VERSION;
	head->end = FIRST_BLOCK;
	head->root = (struct carry_root){
		.last_file = numbers,
		.last_directory = numbers,
		.last_stream = numbers,
		.last_foreign = numbers,
		.events_epoch = numbers,
	};
	atomic_signal_fence(memory_order_seq_cst);
	head->magic = REGION_MAGIC;
}

int carry_open(int fd, uint64_t generation)
{
	if (ftruncate(fd, REGION_BYTES) < 0)
		return -errno;
	void *base =
		mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	/* A core dump would go through all of it. */
	madvise(base, REGION_BYTES, MADV_DONTDUMP);
	region.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (region.fd < 0)
		return -errno;
	inheriting_mutex_init(&region.lock);
	region.base = base;
	region.head = base;
	region.is_inherited = region.head->magic;
	if (!region.is_inherited)
		begin(region.head, generation);
	if (region.head->magic != REGION_MAGIC || region.head->version != CARRY_VERSION)
		return -EPROTO;
	region.head->root.generation = generation;
	return walk();
}

static int compare_blocks(const void *a, const void *b, void *arg)
{
	int (**compare)(const void *, const void *) = arg;

	return (*compare)(at(*(const uint64_t *)a)->data, at(*(const uint64_t *)b)->data);
}

size_t carry_sort(enum carry_kind kind, bool (*is_sound)(const void *block, size_t len),
		  int (*compare)(const void *a, const void *b))
{
	struct inherited *list = &region.inherited[kind];
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct block *block = at(list->offsets[i]);

		if (block->kind == kind && is_sound(block->data, block->size - HEADER))
			list->offsets[count++] = list->offsets[i];
		else if (block->kind == kind)
			carry_free(block->data);
	}
	list->count = count;
	if (count)
		qsort_r(list->offsets, count, sizeof(list->offsets[0]), compare_blocks, &compare);
	return count;
}

void carry_take(enum carry_kind kind, bool (*take)(void *block, size_t len, void *arg), void *arg)
{
	struct inherited list = region.inherited[kind];

	region.inherited[kind] = (struct inherited){};
	for (size_t i = 0; i < list.count; i++) {
		struct block *block = at(list.offsets[i]);

		/* It can have been freed with another one. */
		if (block->kind == kind && !take(block->data, block->size - HEADER, arg))
			carry_free(block->data);
	}
	free(list.offsets);
}

uint64_t carry_ref(const void *data)
{
	return is_ours(data) ? offset_of(block_of(data)) : 0;
}

void *carry_at(uint64_t ref, enum carry_kind kind, size_t *ret_len)
{
	/* Without the lock: others are allocated meanwhile, behind what is asked for. */
	uint64_t end = region.base ? __atomic_load_n(&region.head->end, __ATOMIC_ACQUIRE) : 0;

	if (ref < FIRST_BLOCK || ref >= end || ref % 16)
		return NULL;
	struct block *block = at(ref);

	if (block->kind != kind || block->size > end - ref || block->size < sizeof(*block))
		return NULL;
	block->asked = region.head->root.generation;
	*ret_len = block->size - HEADER;
	return block->data;
}

static bool was_asked_for(void *data, size_t len, void *arg)
{
	return block_of(data)->asked == (uint32_t)region.head->root.generation;
}

void carry_sweep(enum carry_kind kind)
{
	carry_take(kind, was_asked_for, NULL);
}

size_t carry_size(const void *block, size_t len)
{
	if (!block)
		return 0;
	return is_ours(block) ? block_of(block)->size : heap_bytes(len);
}

size_t carry_bytes(void)
{
	if (!region.base)
		return 0;
	LOCKED(&region.lock);
	return region.used;
}
