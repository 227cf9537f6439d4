/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The notes of sys/sdt.h.
 *
 * A probe is a nop in the code and a note in a section .note.stapsdt, which is not allocated: no
 * segment has it, so it is found by section headers. A note is, 4-byte aligned,
 *
 *	namesz 8 "stapsdt\0"   descsz   type 3
 *	location, base, semaphore	an address each, of the file's class and byte order
 *	provider\0 name\0 arguments\0
 *
 * location is where the nop was when the object was linked. prelink could move the object and not
 * the notes, so base is where the section .stapsdt.base was then: what that section has moved by
 * since is added to location and semaphore. Linkers that collect sections drop it; then nothing is.
 *
 * What a tracer needs is not addresses but offsets in the file: a segment says how one follows from
 * the other. Each note is judged by itself, and the fault of one is no other's.
 */
#include "core/notes.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/elffile.h"
#include "core/notes_builder.h"
#include "core/usdt_args.h"

#define NOTE_SECTION  ".note.stapsdt"
#define BASE_SECTION  ".stapsdt.base"
#define STAPSDT_NOTE  3
#define LOADS_MAX     1024 /* the kernel itself refuses to run more than some 1,170 headers */
#define SECTIONS_MAX  1024 /* with notes, in one object */
#define SEGMENT_NOTES 65536

/* A tag of an interned argument string: it was parsed before, and how that went. */
enum args_tag {
	ARGS_NEW,
	ARGS_GOOD,
	ARGS_BAD,
};

struct reader {
	struct elf_file file;
	struct elf_segment *segments;
	size_t segment_count;
	struct elf_segment *loads; /* those of PT_LOAD */
	size_t load_count;
	struct elf_section *sections;
	size_t section_count;
	uint64_t base; /* sh_addr of .stapsdt.base, if has_base */
	bool has_base;
	bool no_code; /* a separate debug file: its segments are another file's */

	uint64_t note_bytes, work;
	struct notes_builder builder;
};

static void reader_deinit(struct reader *reader)
{
	free(reader->segments);
	free(reader->loads);
	free(reader->sections);
	notes_builder_deinit(&reader->builder);
}

const char *note_fault_name(enum note_fault fault)
{
	static const char *const names[] = {
		[NOTE_TRUNCATED] = "truncated", [NOTE_OVERFLOW] = "overflow",
		[NOTE_LOCATION] = "location",	[NOTE_SEMAPHORE] = "semaphore",
		[NOTE_ARGUMENTS] = "arguments",
	};

	return names[fault];
}

static int load_segments(struct reader *reader)
{
	int r = elf_file_segments(&reader->file, &reader->segments, &reader->segment_count);

	if (r < 0)
		return r;
	size_t room = MIN(reader->segment_count, (size_t)LOADS_MAX);

	reader->loads = calloc(MAX(room, (size_t)1), sizeof(*reader->loads));
	if (!reader->loads)
		return -ENOMEM;
	for (size_t i = 0; i < reader->segment_count; i++) {
		if (reader->segments[i].type != PT_LOAD)
			continue;
		if (reader->load_count == LOADS_MAX)
			return -EFBIG;
		reader->loads[reader->load_count++] = reader->segments[i];
	}
	return 0;
}

/* What the section headers say beside where the notes are. */
static int survey_sections(struct reader *reader, const char *names, size_t names_len)
{
	bool code = false, gone = false;
	size_t notes = 0;

	for (size_t i = 0; i < reader->section_count; i++) {
		struct elf_section *section = &reader->sections[i];
		const char *name = section->name < names_len ? names + section->name : "";

		if (!reader->has_base && strcmp(name, BASE_SECTION) == 0) {
			reader->base = section->addr;
			reader->has_base = true;
		}
		if (section->flags & SHF_EXECINSTR) {
			code |= section->type != SHT_NOBITS;
			gone |= section->type == SHT_NOBITS;
		}
		if (section->type != SHT_NOTE || strcmp(name, NOTE_SECTION) != 0)
			section->type = SHT_NULL;
		else if (++notes > SECTIONS_MAX)
			return -EFBIG;
	}
	reader->no_code = gone && !code;
	return 0;
}

static int load_sections(struct reader *reader)
{
	_cleanup_free_ char *names = NULL;
	size_t names_len;
	int r = elf_file_sections(&reader->file, &reader->sections, &reader->section_count);

	if (r < 0)
		return r;
	r = elf_file_names(&reader->file, reader->sections, reader->section_count, &names,
			   &names_len);
	if (r < 0)
		return r;
	return survey_sections(reader, names, names_len);
}

/*
 * The file offset of len bytes at an address, by a segment that has all of `flags` and none of
 * `without`. NOTE_VALID, NOTE_OVERFLOW, or `missing` if there is no such segment.
 */
static enum note_fault locate(const struct reader *reader, uint64_t addr, uint64_t len,
			      uint32_t flags, uint32_t without, enum note_fault missing,
			      uint64_t *ret)
{
	for (size_t i = 0; i < reader->load_count; i++) {
		const struct elf_segment *segment = &reader->loads[i];
		uint64_t skip = addr - segment->vaddr;

		if (addr < segment->vaddr || skip >= segment->filesz ||
		    segment->filesz - skip < len || (segment->flags & flags) != flags ||
		    (segment->flags & without))
			continue;
		if (__builtin_add_overflow(segment->offset, skip, ret))
			return NOTE_OVERFLOW;
		/* Of a file that was cut short the segment promises what is not there. */
		if (*ret >= reader->file.size || reader->file.size - *ret < len)
			return missing;
		return NOTE_VALID;
	}
	return missing;
}

/* Adds what .stapsdt.base has moved by, a difference of either sign. False: the sum wraps around.
 */
static bool adjust(const struct reader *reader, uint64_t delta, uint64_t *addr)
{
	uint64_t sum = *addr + delta;
	bool wrapped = (int64_t)delta < 0 ? sum > *addr : sum < *addr;

	*addr = sum;
	return !wrapped && (reader->file.is64 || sum <= UINT32_MAX);
}

static enum note_fault place(const struct reader *reader, uint64_t base, struct note_site *site)
{
	uint64_t delta = reader->has_base && base ? reader->base - base : 0;

	if (!adjust(reader, delta, &site->pc) ||
	    (site->semaphore && !adjust(reader, delta, &site->semaphore)))
		return NOTE_OVERFLOW;
	site->has_pc = true;
	site->has_semaphore_offset = !site->semaphore;
	enum note_fault fault = reader->no_code ? NOTE_LOCATION
						: locate(reader, site->pc, 1, PF_X, 0,
							 NOTE_LOCATION, &site->offset);

	if (fault)
		return fault;
	site->has_offset = true;
	if (site->semaphore) {
		fault = locate(reader, site->semaphore, 2, PF_W, PF_X, NOTE_SEMAPHORE,
			       &site->semaphore_offset);
		if (fault)
			return fault;
		site->has_semaphore_offset = true;
	}
	/* The kernel counts in aligned 16-bit words only (uprobe_register(), ref_ctr_offset). */
	return site->semaphore_offset & 1 ? NOTE_SEMAPHORE : NOTE_VALID;
}

/* Interns the string at *at, and moves *at past its NUL. -ENODATA: it has none before end. */
static int take_string(struct reader *reader, const char **at, const char *end, note_string *ret,
		       uint32_t **ret_tag)
{
	const char *nul = memchr(*at, '\0', end - *at);

	if (!nul)
		return -ENODATA;
	int r = intern_add(&reader->builder.strings, *at, nul - *at, ret, ret_tag);

	*at = nul + 1;
	return r;
}

static int take_arguments(struct reader *reader, const char *at, const char *end,
			  struct note_site *site)
{
	uint32_t *tag;
	int r;

	/* Absent, empty, or with a colon in front: none, all three. */
	if (at == end || *at == ':')
		r = intern_add(&reader->builder.strings, "", 0, &site->args, &tag);
	else
		r = take_string(reader, &at, end, &site->args, &tag);
	if (r < 0)
		return r;
	if (*tag == ARGS_NEW) {
		const char *args = reader->builder.strings.data + site->args;

		*tag = usdt_args_valid(reader->file.machine, args, strlen(args)) ? ARGS_GOOD
										 : ARGS_BAD;
	}
	if (*tag == ARGS_BAD && !site->fault)
		site->fault = NOTE_ARGUMENTS;
	return 0;
}

/* -ENODATA: it ends early. What is known of it is in site all the same. */
static int parse_descriptor(struct reader *reader, const char *desc, size_t len,
			    struct note_site *site)
{
	size_t word = reader->file.is64 ? 8 : 4;
	const char *at = desc + 3 * word, *end = desc + len;
	uint32_t *tag;

	if (len < 3 * word)
		return -ENODATA;
	site->pc = elf_load(&reader->file, desc, word);
	site->semaphore = elf_load(&reader->file, desc + 2 * word, word);
	site->fault = place(reader, elf_load(&reader->file, desc + word, word), site);
	int r = take_string(reader, &at, end, &site->provider, &tag);

	if (r < 0)
		return r;
	r = take_string(reader, &at, end, &site->name, &tag);
	if (r < 0)
		return r;
	site->has_names = true;
	return take_arguments(reader, at, end, site);
}

static int add_note(struct reader *reader, const char *desc, size_t len)
{
	struct note_site site = {};

	reader->work += reader->load_count;
	if (reader->work > NOTES_WORK_MAX)
		return -EFBIG;
	int r = parse_descriptor(reader, desc, len, &site);

	if (r == -ENODATA)
		site.fault = NOTE_TRUNCATED;
	else if (r < 0)
		return r;
	return notes_builder_add(&reader->builder, &site);
}

static uint64_t align4(uint64_t value)
{
	return (value + 3) & ~UINT64_C(3);
}

struct note {
	uint32_t type;
	const char *name, *desc;
	uint32_t name_len, desc_len;
};

/*
 * Takes the next note of data[*pos..len). 0: there is none; -ENODATA: it is cut short, and so
 * nobody knows where the next would be.
 */
static int next_note(const struct elf_file *file, const char *data, size_t len, size_t *pos,
		     struct note *ret)
{
	static const char padding[sizeof(Elf32_Nhdr)];
	size_t left = len - *pos;
	const char *at = data + *pos;

	if (left < sizeof(Elf32_Nhdr)) {
		*pos = len;
		return memcmp(at, padding, left) == 0 ? 0 : -ENODATA;
	}
	ret->name_len = elf_load(file, at + offsetof(Elf32_Nhdr, n_namesz), 4);
	ret->desc_len = elf_load(file, at + offsetof(Elf32_Nhdr, n_descsz), 4);
	ret->type = elf_load(file, at + offsetof(Elf32_Nhdr, n_type), 4);
	uint64_t desc = sizeof(Elf32_Nhdr) + align4(ret->name_len);

	if (desc > left || ret->desc_len > left - desc) {
		*pos = len;
		return -ENODATA;
	}
	ret->name = at + sizeof(Elf32_Nhdr);
	ret->desc = at + desc;
	*pos += MIN(desc + align4(ret->desc_len), (uint64_t)left);
	return 1;
}

static bool note_is(const struct note *note, const char *name, size_t size, uint32_t type)
{
	return note->type == type && note->name_len == size && memcmp(note->name, name, size) == 0;
}

static int parse_notes(struct reader *reader, const char *data, size_t len)
{
	struct note note;

	for (size_t pos = 0; pos < len;) {
		int r = next_note(&reader->file, data, len, &pos, &note);

		if (r == -ENODATA)
			r = notes_builder_add(&reader->builder,
					      &(struct note_site){.fault = NOTE_TRUNCATED});
		else if (r > 0 && note_is(&note, "stapsdt", sizeof("stapsdt"), STAPSDT_NOTE))
			r = add_note(reader, note.desc, note.desc_len);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_section(struct reader *reader, const struct elf_section *section)
{
	uint64_t room =
		section->offset < reader->file.size ? reader->file.size - section->offset : 0;
	uint64_t len = MIN(section->size, room);

	if (len > NOTES_BYTES_MAX - reader->note_bytes)
		return -EFBIG;
	reader->note_bytes += len;
	_cleanup_free_ char *data = malloc(MAX(len, UINT64_C(1)));

	if (!data)
		return -ENOMEM;
	ssize_t n = elf_file_read(&reader->file, section->offset, data, len);

	if (n < 0)
		return n;
	int r = parse_notes(reader, data, n);

	if (r < 0)
		return r;
	/* A section that goes on past the end of the file has lost at least one note. */
	if ((uint64_t)n < section->size)
		return notes_builder_add(&reader->builder,
					 &(struct note_site){.fault = NOTE_TRUNCATED});
	return 0;
}

static int read_build_id(const struct reader *reader, struct notes *notes)
{
	_cleanup_free_ char *data = malloc(SEGMENT_NOTES);
	int budget = 16;

	if (!data)
		return -ENOMEM;
	for (size_t i = 0; i < reader->segment_count && budget && !notes->build_id_len; i++) {
		const struct elf_segment *segment = &reader->segments[i];
		struct note note;

		if (segment->type != PT_NOTE)
			continue;
		budget--;
		ssize_t n = elf_file_read(&reader->file, segment->offset, data,
					  MIN(segment->filesz, (uint64_t)SEGMENT_NOTES));

		if (n < 0)
			return n;
		for (size_t pos = 0;
		     next_note(&reader->file, data, n, &pos, &note) > 0 && !notes->build_id_len;) {
			if (!note_is(&note, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU), NT_GNU_BUILD_ID) ||
			    note.desc_len > BUILD_ID_MAX)
				continue;
			memcpy(notes->build_id, note.desc, note.desc_len);
			notes->build_id_len = note.desc_len;
		}
	}
	return 0;
}

static int finish(struct reader *reader, struct notes *ret)
{
	_cleanup_notes_ struct notes notes = {};
	int r = notes_builder_finish(&reader->builder, &notes);

	if (r >= 0)
		r = read_build_id(reader, &notes);
	if (r < 0)
		return r;
	notes.machine = reader->file.machine;
	*ret = notes;
	notes = (struct notes){};
	return 0;
}

int notes_read(int fd, struct notes *ret)
{
	CLEANUP(reader_deinit) struct reader reader = {};
	int r = elf_file_open(fd, &reader.file);

	if (r < 0)
		return r;
	if (reader.file.type != ET_EXEC && reader.file.type != ET_DYN)
		return -ENOEXEC;
	r = load_sections(&reader);
	if (r < 0)
		return r;
	r = load_segments(&reader);
	for (size_t i = 0; i < reader.section_count && r >= 0; i++)
		if (reader.sections[i].type == SHT_NOTE)
			r = read_section(&reader, &reader.sections[i]);
	return r < 0 ? r : finish(&reader, ret);
}
