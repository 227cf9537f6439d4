/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes ELF files with USDT notes, byte by byte, for tests: either class and byte order, and each
 * thing wrong that a note can have.
 */
#ifndef TESTS_ELFMAKER_H
#define TESTS_ELFMAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text.h"

struct elf_plan {
	bool is32, big_endian;
	uint16_t type, machine;
	/* An executable segment full of nops, and a writable one. */
	uint64_t text_vaddr, text_offset, text_size;
	uint64_t data_vaddr, data_offset, data_size;
	bool has_base;
	uint64_t base_addr;
	bool notes_first;    /* in the file and in the table of sections */
	bool no_code;	     /* as in a separate debug file: the code is NOBITS */
	uint32_t data_flags; /* of the second segment, PF_R | PF_W unless given */
	uint32_t note_type;  /* of the section, SHT_NOTE unless given */
	/* That many more program headers, of this type, none of which has anything of the file. */
	uint32_t more_segments, more_type;
	bool more_sections; /* the count is in section 0, as for more than 65,279 */
};

/* A 64-bit little-endian x86-64 ET_DYN whose offsets differ from addresses. */
struct elf_plan elf_plan_default(void);

/* Appends a note to the bytes of the section. NULL strings are left out, with their NUL. */
void elf_note(struct text *notes, const struct elf_plan *plan, uint64_t location, uint64_t base,
	      uint64_t semaphore, const char *provider, const char *name, const char *args);
/* Appends a note with any descriptor. */
void elf_note_raw(struct text *notes, const struct elf_plan *plan, const char *owner,
		  uint32_t owner_len, uint32_t type, const void *desc, uint32_t desc_len);

/* The whole file. */
void elf_make(struct text *file, const struct elf_plan *plan, const struct text *notes);

extern const uint8_t elf_build_id[20];

#endif
