/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A hash table of numbers: see inflight.h. */
#include "fs/inflight.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/carry.h"
#include "core/cleanup.h"
#include "fs/fuseext.h"

/* More than there are threads and places in queues; what has no place is not answered. */
#define SLOTS 1024

/* Of include/uapi/linux/fuse.h: those whose caller walks no path, and would see ESTALE. */
enum { OP_READ = 15, OP_READDIR = 28, OP_POLL = 40, OP_READDIRPLUS = 44 };

struct inflight {
	/* The number, shifted by a byte for what it asks for; 0: free. */
	_Atomic uint64_t slots[SLOTS];
};

static bool take_list(void *block, size_t room, void *arg)
{
	struct inflight **ret = arg;

	if (room < sizeof(**ret) || *ret)
		return false;
	*ret = block;
	return true;
}

/* A request that a thread received last, answered or not. */
static bool take_request(void *block, size_t room, void *arg)
{
	struct inflight *list = arg;
	bool waits;
	uint32_t opcode = fuseext_opcode(block, room, &waits);

	if (waits) {
		uint64_t unique = fuseext_unique_of(block, room);

		inflight_remove(list, unique);
		inflight_add(list, unique, opcode);
	}
	return false;
}

void *inflight_buffer(size_t len)
{
	static _Thread_local struct {
		void *data;
		size_t len;
	} own;

	if (own.len < len) {
		void *data = carry_alloc(len);

		if (!data)
			return NULL;
		carry_free(own.data);
		own.data = data;
		own.len = len;
		carry_publish(data, CARRY_REQUEST);
	}
	return own.data;
}

int inflight_create(struct inflight **ret)
{
	struct inflight *list = NULL;

	carry_take(CARRY_INFLIGHT, take_list, &list);
	if (!list) {
		list = carry_alloc(sizeof(*list));
		if (!list)
			return -ENOMEM;
		carry_publish(list, CARRY_INFLIGHT);
	}
	carry_take(CARRY_REQUEST, take_request, list);
	*ret = list;
	return 0;
}

void inflight_destroy(struct inflight *list)
{
	carry_free(list);
}

/* The kernel counts by two. */
static size_t first_slot(uint64_t unique)
{
	return unique / 2 % SLOTS;
}

void inflight_add(struct inflight *list, uint64_t unique, uint32_t opcode)
{
	for (size_t i = 0; i < SLOTS; i++) {
		uint64_t expected = 0;

		if (atomic_compare_exchange_strong(&list->slots[(first_slot(unique) + i) % SLOTS],
						   &expected, unique << 8 | (opcode & 0xff)))
			return;
	}
}

void inflight_remove(struct inflight *list, uint64_t unique)
{
	for (size_t i = 0; i < SLOTS; i++) {
		_Atomic uint64_t *slot = &list->slots[(first_slot(unique) + i) % SLOTS];

		if (atomic_load(slot) >> 8 == unique) {
			atomic_store(slot, 0);
			return;
		}
	}
}

static int error_for(uint8_t opcode)
{
	switch (opcode) {
	case OP_READ:
	case OP_READDIR:
	case OP_READDIRPLUS:
	case OP_POLL:
		return EINTR;
	default:
		return ESTALE;
	}
}

void inflight_answer(struct inflight *list, int dev_fd, void (*undo)(void *arg, uint64_t unique),
		     void *arg)
{
	for (size_t i = 0; i < SLOTS; i++) {
		uint64_t slot = atomic_load(&list->slots[i]);

		if (!slot)
			continue;
		/* One that was answered in the last moment is not there any more. */
		if (fuseext_reply_error(dev_fd, slot >> 8, error_for(slot & 0xff)) == 0)
			undo(arg, slot >> 8);
		atomic_store(&list->slots[i], 0);
	}
}
