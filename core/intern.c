/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strings stored once: see intern.h. Open addressing, at most half full. */
#include "core/intern.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

struct intern_slot {
	uint32_t string_plus_one; /* 0: free */
	uint32_t hash;
	uint32_t tag;
};

void intern_deinit(struct intern *intern)
{
	free(intern->data);
	free(intern->slots);
	*intern = (struct intern){};
}

static int grow_slots(struct intern *intern)
{
	size_t count = intern->slot_count ? intern->slot_count * 2 : 256;
	struct intern_slot *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	/* Whoever writes the strings must not be able to choose where they collide. */
	if (!intern->slot_count && getrandom(&intern->seed, sizeof(intern->seed), 0) < 0) {
		int r = -errno;

		free(slots);
		return r;
	}
	for (size_t i = 0; i < intern->slot_count; i++) {
		if (!intern->slots[i].string_plus_one)
			continue;
		size_t at = intern->slots[i].hash & (count - 1);

		while (slots[at].string_plus_one)
			at = (at + 1) & (count - 1);
		slots[at] = intern->slots[i];
	}
	free(intern->slots);
	intern->slots = slots;
	intern->slot_count = count;
	return 0;
}

static int append(struct intern *intern, const char *string, size_t len)
{
	if (len >= UINT32_MAX - intern->len)
		return -EFBIG;
	if (len + 1 > intern->size - intern->len) {
		size_t size = MAX(MAX(intern->size * 2, intern->len + len + 1), (size_t)1024);
		char *data = realloc(intern->data, size);

		if (!data)
			return -ENOMEM;
		intern->data = data;
		intern->size = size;
	}
	memcpy(intern->data + intern->len, string, len);
	intern->data[intern->len + len] = '\0';
	intern->len += len + 1;
	return 0;
}

int intern_add(struct intern *intern, const char *string, size_t len, uint32_t *ret,
	       uint32_t **ret_tag)
{
	if (intern->used * 2 >= intern->slot_count) {
		int r = grow_slots(intern);

		if (r < 0)
			return r;
	}
	uint32_t hash = XXH3_64bits_withSeed(string, len, intern->seed);
	size_t at = hash & (intern->slot_count - 1);

	for (; intern->slots[at].string_plus_one; at = (at + 1) & (intern->slot_count - 1)) {
		const char *there = intern->data + intern->slots[at].string_plus_one - 1;

		if (intern->slots[at].hash == hash && strncmp(there, string, len) == 0 &&
		    there[len] == '\0')
			break;
	}
	struct intern_slot *slot = &intern->slots[at];

	if (!slot->string_plus_one) {
		uint32_t start = intern->len;
		int r = append(intern, string, len);

		if (r < 0)
			return r;
		*slot = (struct intern_slot){.string_plus_one = start + 1, .hash = hash};
		intern->used++;
	}
	*ret = slot->string_plus_one - 1;
	*ret_tag = &slot->tag;
	return 0;
}

char *intern_take(struct intern *intern, size_t *ret_len)
{
	char *data = intern->len ? realloc(intern->data, intern->len) : NULL;

	if (!data)
		data = intern->data;
	*ret_len = intern->len;
	intern->data = NULL;
	intern_deinit(intern);
	return data;
}
