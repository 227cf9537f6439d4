/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How struct notes comes about: the inner half of notes.c, which reads and judges, while this keeps
 * and sorts.
 */
#ifndef CORE_NOTES_BUILDER_H
#define CORE_NOTES_BUILDER_H

#include "core/intern.h"
#include "core/notes.h"

struct notes_builder {
	struct intern strings;
	struct note_site *sites;
	size_t site_count, site_size;
	struct note_probe *probes;
	size_t probe_count, probe_size;
	uint32_t *probe_slots; /* index into probes, plus one; 0: free */
	size_t probe_slot_count;
};

/* Adds a site, whose strings are in builder->strings. -EFBIG past NOTES_SITES_MAX, -ENOMEM. */
int notes_builder_add(struct notes_builder *builder, const struct note_site *site);
/* Hands over what there is; machine and build id are the caller's to fill in. -ENOMEM. */
int notes_builder_finish(struct notes_builder *builder, struct notes *ret);
void notes_builder_deinit(struct notes_builder *builder);

#endif
