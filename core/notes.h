/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * USDT notes: what the .note.stapsdt sections of an ELF object say, each note judged by itself.
 *
 * The result holds no reference to the file. It is immutable once read, so that any number of
 * threads may look at it.
 */
#ifndef CORE_NOTES_H
#define CORE_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

/* Why a note cannot be right. */
enum note_fault {
	NOTE_VALID,
	/* The note or its descriptor ends early, or a string lacks its NUL. */
	NOTE_TRUNCATED,
	/* Base adjustment or file offset leave the range of addresses. */
	NOTE_OVERFLOW,
	/* The location is in no executable segment, or past the end of the file. */
	NOTE_LOCATION,
	/* The semaphore is in no writable, not executable segment, or at an odd offset. */
	NOTE_SEMAPHORE,
	/* An argument does not parse. */
	NOTE_ARGUMENTS,
};

/* The word for it, as after `invalid=`. NULL for NOTE_VALID. */
const char *note_fault_name(enum note_fault fault);

/* A string of the object: where it starts in notes->strings. */
typedef uint32_t note_string;

struct note_site {
	/* Link-time addresses after base adjustment, and where their bytes are in the file. */
	uint64_t pc, offset;
	uint64_t semaphore, semaphore_offset; /* both 0: none */
	note_string provider, name, args;
	uint8_t fault;
	/* What of a faulty note is known. A valid one has all. */
	bool has_pc, has_offset, has_names, has_semaphore_offset;
};

/* A distinct PROVIDER:NAME; sites[notes->by_probe[first + i]] are its sites, in file order. */
struct note_probe {
	note_string provider, name;
	uint32_t first, count;
	uint32_t valid; /* how many of them are */
};

#define BUILD_ID_MAX 64

struct notes {
	uint16_t machine; /* EM_... */
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_len; /* 0: none */
	/* In the order of the file. */
	struct note_site *sites;
	size_t site_count;
	/* Of sites whose names are known; sorted by provider, then name. */
	struct note_probe *probes;
	size_t probe_count;
	uint32_t *by_probe;
	char *strings;
	size_t strings_len;
};

/* What one object may have; past it: -EFBIG. */
#define NOTES_BYTES_MAX (64u << 20)
#define NOTES_SITES_MAX (1u << 20)
/* Notes times segments that they could be in. */
#define NOTES_WORK_MAX (1u << 28)

/*
 * Reads the notes of the ELF object that fd is, with pread() alone. An object without any has
 * site_count 0. -ENOEXEC: not an ELF object that can be mapped to run (an ET_REL, a core); -EFBIG;
 * -ENOMEM; what pread() said.
 */
int notes_read(int fd, struct notes *ret);
void notes_deinit(struct notes *notes);
#define _cleanup_notes_ CLEANUP(notes_deinit)

/* Bytes of memory. */
size_t notes_bytes(const struct notes *notes);

static inline const char *notes_string(const struct notes *notes, note_string string)
{
	return notes->strings + string;
}

/* The probe of this name, or NULL. Names are the real ones, not escaped. */
const struct note_probe *notes_find(const struct notes *notes, const char *provider,
				    const char *name);
/* Probes from the first of this provider on: an index into probes, probe_count if there is none. */
size_t notes_find_provider(const struct notes *notes, const char *provider);

#endif
