/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The headers of somebody else's ELF file, of either class and byte order.
 *
 * The file is hostile and can change or be cut short while it is read. So nothing is mapped (a map
 * past a new end is SIGBUS), and no size that the file claims is believed: a table is read only as
 * far as the limits below allow. libelf does neither: its tables are as long as the file says, and
 * a sparse file can say anything.
 */
#ifndef CORE_ELFFILE_H
#define CORE_ELFFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How much of a file's beginning is kept: most have their segments and build id there. */
#define ELF_HEAD_BYTES 1024

struct elf_file {
	int fd; /* the caller's */
	size_t head_len;
	unsigned char head[ELF_HEAD_BYTES];
	uint64_t size;
	bool is64;
	bool swapped;  /* other byte order than ours */
	uint16_t type; /* ET_... */
	uint16_t machine;
	uint64_t segments_at, sections_at;
	uint32_t segment_count, section_count, names_index;
};

struct elf_segment {
	uint32_t type, flags;
	uint64_t offset, vaddr, filesz;
};

struct elf_section {
	uint32_t name, type;
	uint64_t flags, addr, offset, size;
};

#define ELF_SEGMENTS_MAX (1u << 16)
#define ELF_SECTIONS_MAX (1u << 17)
#define ELF_NAMES_MAX	 (4u << 20)

/* -ENOEXEC: not an ELF file, or one with headers of unknown sizes; -EFBIG; what pread() said. */
int elf_file_open(int fd, struct elf_file *ret);

/* malloc()ed tables. They end early where the file does. -ENOMEM, what pread() said. */
int elf_file_segments(const struct elf_file *file, struct elf_segment **ret, size_t *ret_count);
int elf_file_sections(const struct elf_file *file, struct elf_section **ret, size_t *ret_count);
/*
 * The section names, NUL-terminated at the end and *ret_len long without that; empty if there are
 * none. malloc()ed.
 */
int elf_file_names(const struct elf_file *file, const struct elf_section *sections, size_t count,
		   char **ret, size_t *ret_len);

/* Reads up to len bytes: fewer only at the end of the file. Returns how many, or -errno. */
ssize_t elf_file_read(const struct elf_file *file, uint64_t offset, void *buf, size_t len);

/* A number of size 1, 2, 4 or 8 at `at`, which need not be aligned, in the file's byte order. */
uint64_t elf_load(const struct elf_file *file, const void *at, size_t size);

#endif
