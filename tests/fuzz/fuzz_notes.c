/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A whole ELF file through the notes reader. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct notes *notes)
{
	size_t in_probes = 0;

	for (size_t i = 0; i < notes->site_count; i++) {
		const struct note_site *site = &notes->sites[i];

		if ((!site->fault) != (!note_fault_name(site->fault)))
			abort();
		if (!site->has_names)
			continue;
		in_probes++;
		if (!notes_find(notes, notes_string(notes, site->provider),
				notes_string(notes, site->name)) ||
		    strlen(notes_string(notes, site->args)) >= notes->strings_len)
			abort();
	}
	for (size_t i = 0; i < notes->probe_count; i++) {
		const struct note_probe *probe = &notes->probes[i];

		if (probe->valid > probe->count)
			abort();
		in_probes -= probe->count;
	}
	if (in_probes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct notes notes;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (notes_read(fd, &notes) == 0) {
		check(&notes);
		notes_deinit(&notes);
	}
	return 0;
}
