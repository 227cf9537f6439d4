/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sites put together to struct notes, with their strings stored once and an index of the distinct
 * probes; and how that is searched.
 */
#include "core/notes_builder.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

void notes_builder_deinit(struct notes_builder *builder)
{
	intern_deinit(&builder->strings);
	free(builder->sites);
	free(builder->probes);
	free(builder->probe_slots);
}

static int grow(void **array, size_t *size, size_t entry)
{
	size_t more = *size ? *size * 2 : 16;
	void *grown = reallocarray(*array, more, entry);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	*size = more;
	return 0;
}

static uint32_t *probe_slot(const struct notes_builder *builder, note_string provider,
			    note_string name)
{
	uint64_t key = (uint64_t)provider << 32 | name;
	size_t at = XXH3_64bits_withSeed(&key, sizeof(key), builder->strings.seed);

	for (;; at++) {
		uint32_t *slot = &builder->probe_slots[at & (builder->probe_slot_count - 1)];

		if (!*slot || (builder->probes[*slot - 1].provider == provider &&
			       builder->probes[*slot - 1].name == name))
			return slot;
	}
}

static int grow_probe_slots(struct notes_builder *builder)
{
	size_t count = builder->probe_slot_count ? builder->probe_slot_count * 2 : 64;
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(builder->probe_slots);
	builder->probe_slots = slots;
	builder->probe_slot_count = count;
	for (size_t i = 0; i < builder->probe_count; i++)
		*probe_slot(builder, builder->probes[i].provider, builder->probes[i].name) = i + 1;
	return 0;
}

/* Counts a site at its probe, which is made at its first. */
static int count_site(struct notes_builder *builder, const struct note_site *site)
{
	if (builder->probe_count * 2 >= builder->probe_slot_count) {
		int r = grow_probe_slots(builder);

		if (r < 0)
			return r;
	}
	uint32_t *slot = probe_slot(builder, site->provider, site->name);

	if (!*slot) {
		if (builder->probe_count == builder->probe_size) {
			int r = grow((void **)&builder->probes, &builder->probe_size,
				     sizeof(*builder->probes));

			if (r < 0)
				return r;
		}
		builder->probes[builder->probe_count] =
			(struct note_probe){.provider = site->provider, .name = site->name};
		*slot = ++builder->probe_count;
	}
	builder->probes[*slot - 1].count++;
	builder->probes[*slot - 1].valid += !site->fault;
	return 0;
}

int notes_builder_add(struct notes_builder *builder, const struct note_site *site)
{
	if (builder->site_count == NOTES_SITES_MAX)
		return -EFBIG;
	if (builder->site_count == builder->site_size) {
		int r = grow((void **)&builder->sites, &builder->site_size,
			     sizeof(*builder->sites));

		if (r < 0)
			return r;
	}
	builder->sites[builder->site_count++] = *site;
	return site->has_names ? count_site(builder, site) : 0;
}

static int compare_probes(const void *a, const void *b, void *strings)
{
	const struct note_probe *x = a, *y = b;
	int order = x->provider == y->provider
			    ? 0
			    : strcmp((char *)strings + x->provider, (char *)strings + y->provider);

	return order ? order : strcmp((char *)strings + x->name, (char *)strings + y->name);
}

/* Sorts the probes and gives each its run of by_probe. */
static int index_probes(struct notes_builder *builder, struct notes *notes)
{
	_cleanup_free_ uint32_t *by_probe =
		calloc(MAX(builder->site_count, (size_t)1), sizeof(*by_probe));
	uint32_t first = 0;

	if (!by_probe)
		return -ENOMEM;
	if (builder->probe_count) {
		qsort_r(builder->probes, builder->probe_count, sizeof(*builder->probes),
			compare_probes, builder->strings.data);
		/* They hold places of before the sorting. */
		memset(builder->probe_slots, 0,
		       builder->probe_slot_count * sizeof(*builder->probe_slots));
	}
	for (size_t i = 0; i < builder->probe_count; i++) {
		struct note_probe *probe = &builder->probes[i];

		*probe_slot(builder, probe->provider, probe->name) = i + 1;
		probe->first = first;
		first += probe->count;
		probe->count = 0;
	}
	for (size_t i = 0; i < builder->site_count; i++) {
		const struct note_site *site = &builder->sites[i];

		if (!site->has_names)
			continue;
		struct note_probe *probe =
			&builder->probes[*probe_slot(builder, site->provider, site->name) - 1];

		by_probe[probe->first + probe->count++] = i;
	}
	notes->by_probe = take_ptr(by_probe);
	return 0;
}

/* Cuts an array to what is in it: notes live long. */
static void *shrink(void *array, size_t count, size_t entry)
{
	void *shrunk = count ? reallocarray(array, count, entry) : NULL;

	return shrunk ? shrunk : array;
}

int notes_builder_finish(struct notes_builder *builder, struct notes *ret)
{
	struct notes notes = {.site_count = builder->site_count,
			      .probe_count = builder->probe_count};
	int r = index_probes(builder, &notes);

	if (r < 0)
		return r;
	notes.sites = shrink(builder->sites, builder->site_count, sizeof(*builder->sites));
	builder->sites = NULL;
	notes.probes = shrink(builder->probes, builder->probe_count, sizeof(*builder->probes));
	builder->probes = NULL;
	notes.strings = intern_take(&builder->strings, &notes.strings_len);
	*ret = notes;
	return 0;
}

void notes_deinit(struct notes *notes)
{
	free(notes->sites);
	free(notes->probes);
	free(notes->by_probe);
	free(notes->strings);
	*notes = (struct notes){};
}

size_t notes_bytes(const struct notes *notes)
{
	return notes->site_count * (sizeof(*notes->sites) + sizeof(*notes->by_probe)) +
	       notes->probe_count * sizeof(*notes->probes) + notes->strings_len;
}

size_t notes_find_provider(const struct notes *notes, const char *provider)
{
	size_t low = 0, high = notes->probe_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(notes_string(notes, notes->probes[mid].provider), provider) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == notes->probe_count ||
	    strcmp(notes_string(notes, notes->probes[low].provider), provider) != 0)
		return notes->probe_count;
	return low;
}

const struct note_probe *notes_find(const struct notes *notes, const char *provider,
				    const char *name)
{
	size_t low = 0, high = notes->probe_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct note_probe *probe = &notes->probes[mid];
		int order = strcmp(notes_string(notes, probe->provider), provider);

		if (!order)
			order = strcmp(notes_string(notes, probe->name), name);
		if (!order)
			return probe;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}
