/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "elfmaker.h"

#include <elf.h>
#include <string.h>

const uint8_t elf_build_id[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
				  11, 12, 13, 14, 15, 16, 17, 18, 19, 0xff};

struct elf_plan elf_plan_default(void)
{
	return (struct elf_plan){
		.type = ET_DYN,
		.machine = EM_X86_64,
		.text_vaddr = 0x12000,
		.text_offset = 0x1000,
		.text_size = 0x100,
		.data_vaddr = 0x24000,
		.data_offset = 0x2000,
		.data_size = 0x40,
		.has_base = true,
		.base_addr = 0x30000,
	};
}

static void put(struct text *text, const struct elf_plan *plan, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		text_putc(text, value >> (plan->big_endian ? size - 1 - i : i) * 8);
}

/* A word of the class. */
static void put_word(struct text *text, const struct elf_plan *plan, uint64_t value)
{
	put(text, plan, value, plan->is32 ? 4 : 8);
}

static void pad_to(struct text *text, size_t len)
{
	while (text->len < len && !text->failed)
		text_putc(text, '\0');
}

void elf_note_raw(struct text *notes, const struct elf_plan *plan, const char *owner,
		  uint32_t owner_len, uint32_t type, const void *desc, uint32_t desc_len)
{
	put(notes, plan, owner_len, 4);
	put(notes, plan, desc_len, 4);
	put(notes, plan, type, 4);
	text_append(notes, owner, owner_len);
	pad_to(notes, (notes->len + 3) & ~(size_t)3);
	text_append(notes, desc, desc_len);
	pad_to(notes, (notes->len + 3) & ~(size_t)3);
}

void elf_note(struct text *notes, const struct elf_plan *plan, uint64_t location, uint64_t base,
	      uint64_t semaphore, const char *provider, const char *name, const char *args)
{
	const char *strings[] = {provider, name, args};
	_cleanup_text_ struct text desc = {};

	put_word(&desc, plan, location);
	put_word(&desc, plan, base);
	put_word(&desc, plan, semaphore);
	for (int i = 0; i < 3; i++)
		if (strings[i])
			text_append(&desc, strings[i], strlen(strings[i]) + 1);
	elf_note_raw(notes, plan, "stapsdt", 8, 3, desc.data, desc.len);
}

static void put_segment(struct text *text, const struct elf_plan *plan, uint32_t type,
			uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t filesz)
{
	put(text, plan, type, 4);
	if (!plan->is32)
		put(text, plan, flags, 4);
	put_word(text, plan, offset);
	put_word(text, plan, vaddr);
	put_word(text, plan, vaddr);
	put_word(text, plan, filesz);
	put_word(text, plan, filesz + 0x1000); /* memsz: more than what the file has */
	if (plan->is32)
		put(text, plan, flags, 4);
	put_word(text, plan, 0x1000);
}

static void put_section(struct text *text, const struct elf_plan *plan, uint32_t name,
			uint32_t type, uint64_t flags, uint64_t addr, uint64_t offset,
			uint64_t size)
{
	put(text, plan, name, 4);
	put(text, plan, type, 4);
	put_word(text, plan, flags);
	put_word(text, plan, addr);
	put_word(text, plan, offset);
	put_word(text, plan, size);
	put(text, plan, 0, 4); /* sh_link */
	put(text, plan, 0, 4); /* sh_info */
	put_word(text, plan, 4);
	put_word(text, plan, 0);
}

static void put_segments(struct text *text, const struct elf_plan *plan, uint64_t build_id_at)
{
	uint32_t data_flags = plan->data_flags ? plan->data_flags : PF_R | PF_W;

	for (uint32_t i = 0; i < plan->more_segments; i++)
		put_segment(text, plan, plan->more_type, PF_R | PF_X, plan->text_offset,
			    plan->text_vaddr + plan->text_size + i, 0);
	put_segment(text, plan, PT_LOAD, PF_R | PF_X, plan->text_offset, plan->text_vaddr,
		    plan->text_size);
	put_segment(text, plan, PT_LOAD, data_flags, plan->data_offset, plan->data_vaddr,
		    plan->data_size);
	put_segment(text, plan, PT_NOTE, PF_R, build_id_at, 0, 36);
}

static void put_header(struct text *text, const struct elf_plan *plan, uint64_t segments_at,
		       uint64_t sections_at, int sections)
{
	unsigned char ident[EI_NIDENT] = {
		0x7f, 'E', 'L', 'F', plan->is32 ? 1 : 2, plan->big_endian ? 2 : 1, 1};

	text_append(text, ident, sizeof(ident));
	put(text, plan, plan->type, 2);
	put(text, plan, plan->machine, 2);
	put(text, plan, 1, 4);
	put_word(text, plan, 0);
	put_word(text, plan, segments_at);
	put_word(text, plan, sections_at);
	put(text, plan, 0, 4);
	put(text, plan, plan->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr), 2);
	put(text, plan, plan->is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr), 2);
	put(text, plan, 3 + plan->more_segments, 2);
	put(text, plan, plan->is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr), 2);
	put(text, plan, plan->more_sections ? 0 : sections, 2);
	put(text, plan, 1, 2); /* .shstrtab */
}

void elf_make(struct text *file, const struct elf_plan *plan, const struct text *notes)
{
	static const char names[] = "\0.shstrtab\0.note.stapsdt\0.stapsdt.base\0.text";
	enum { SHSTRTAB = 1, NOTE = 11, BASE = 25, TEXT = 39 };
	uint32_t note_type = plan->note_type ? plan->note_type : SHT_NOTE;
	uint64_t text_end = plan->text_offset + plan->text_size;
	uint64_t end = MAX(text_end, plan->data_offset + plan->data_size);
	/* Where the notes are: behind all, or between the headers and the code. */
	uint64_t notes_at = plan->notes_first ? 0x300 : (end + 3) & ~UINT64_C(3);
	uint64_t names_at = plan->notes_first ? end : notes_at + notes->len;
	uint64_t build_id_at = 0x200;
	int sections = 4 + plan->has_base;
	uint64_t sections_at = names_at + sizeof(names);
	uint64_t segments_at = plan->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);

	/* Where a table of any length has room. */
	if (plan->more_segments)
		segments_at = sections_at +
			      sections * (plan->is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr));
	put_header(file, plan, segments_at, sections_at, sections);
	if (!plan->more_segments)
		put_segments(file, plan, build_id_at);
	pad_to(file, build_id_at);
	elf_note_raw(file, plan, ELF_NOTE_GNU, 4, NT_GNU_BUILD_ID, elf_build_id,
		     sizeof(elf_build_id));
	if (plan->notes_first) {
		pad_to(file, notes_at);
		text_append(file, notes->data, notes->len);
	}
	pad_to(file, plan->text_offset);
	while (file->len < text_end && !file->failed)
		text_putc(file, (char)0x90);
	pad_to(file, MIN(notes_at, end));
	pad_to(file, end);
	if (!plan->notes_first) {
		pad_to(file, notes_at);
		text_append(file, notes->data, notes->len);
	}
	text_append(file, names, sizeof(names));
	/* Section 0 has the count of sections where the header has none. */
	put_section(file, plan, 0, SHT_NULL, 0, 0, 0, plan->more_sections ? sections : 0);
	put_section(file, plan, SHSTRTAB, SHT_STRTAB, 0, 0, names_at, sizeof(names));
	if (plan->notes_first)
		put_section(file, plan, NOTE, note_type, 0, 0, notes_at, notes->len);
	put_section(file, plan, TEXT, plan->no_code ? SHT_NOBITS : SHT_PROGBITS,
		    SHF_ALLOC | SHF_EXECINSTR, plan->text_vaddr, plan->text_offset,
		    plan->text_size);
	if (plan->has_base)
		put_section(file, plan, BASE, SHT_PROGBITS, SHF_ALLOC, plan->base_addr, 0, 1);
	if (!plan->notes_first)
		put_section(file, plan, NOTE, note_type, 0, 0, notes_at, notes->len);
	if (plan->more_segments)
		put_segments(file, plan, build_id_at);
}
