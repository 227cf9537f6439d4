/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Headers of ELF files, read with care: see elffile.h. */
#include "core/elffile.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"

uint64_t elf_load(const struct elf_file *file, const void *at, size_t size)
{
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (size) {
	case 8:
		memcpy(&u64, at, size);
		return file->swapped ? __builtin_bswap64(u64) : u64;
	case 4:
		memcpy(&u32, at, size);
		return file->swapped ? __builtin_bswap32(u32) : u32;
	case 2:
		memcpy(&u16, at, size);
		return file->swapped ? __builtin_bswap16(u16) : u16;
	default:
		return *(const uint8_t *)at;
	}
}

/* A member of a header at `at`, which is an Elf32_TYPE or an Elf64_TYPE. */
#define MEMBER_OF(file, at, struct_type, member)                                                   \
	elf_load(file, (const char *)(at) + offsetof(struct_type, member),                         \
		 sizeof(((struct_type *)0)->member))
#define MEMBER(file, at, type, member)                                                             \
	((file)->is64 ? MEMBER_OF(file, at, Elf64_##type, member)                                  \
		      : MEMBER_OF(file, at, Elf32_##type, member))
#define SIZE_OF(file, type) ((file)->is64 ? sizeof(Elf64_##type) : sizeof(Elf32_##type))

static ssize_t read_fully(int fd, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		uint64_t at;

		if (__builtin_add_overflow(offset, done, &at) || at > INT64_MAX)
			break;
		ssize_t n = pread(fd, (char *)buf + done, len - done, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

ssize_t elf_file_read(const struct elf_file *file, uint64_t offset, void *buf, size_t len)
{
	if (offset > file->head_len || len > file->head_len - offset)
		return read_fully(file->fd, offset, buf, len);
	memcpy(buf, file->head + offset, len);
	return len;
}

static void decode_section(const struct elf_file *file, const void *at, struct elf_section *ret)
{
	*ret = (struct elf_section){
		.name = MEMBER(file, at, Shdr, sh_name),
		.type = MEMBER(file, at, Shdr, sh_type),
		.flags = MEMBER(file, at, Shdr, sh_flags),
		.addr = MEMBER(file, at, Shdr, sh_addr),
		.offset = MEMBER(file, at, Shdr, sh_offset),
		.size = MEMBER(file, at, Shdr, sh_size),
	};
}

/*
 * Counts that do not fit into the header are in section 0: e_shnum 0 in sh_size, e_shstrndx
 * SHN_XINDEX in sh_link, e_phnum PN_XNUM in sh_info.
 */
static int extend_counts(struct elf_file *file)
{
	unsigned char zero[sizeof(Elf64_Shdr)];
	size_t size = SIZE_OF(file, Shdr);

	if (!file->sections_at || (file->section_count && file->names_index != SHN_XINDEX &&
				   file->segment_count != PN_XNUM))
		return 0;
	ssize_t n = elf_file_read(file, file->sections_at, zero, size);

	if (n < 0)
		return n;
	if ((size_t)n < size)
		return -ENOEXEC;
	uint64_t sections = MEMBER(file, zero, Shdr, sh_size);

	if (!file->section_count)
		file->section_count = MIN(sections, (uint64_t)UINT32_MAX);
	if (file->names_index == SHN_XINDEX)
		file->names_index = MEMBER(file, zero, Shdr, sh_link);
	if (file->segment_count == PN_XNUM)
		file->segment_count = MEMBER(file, zero, Shdr, sh_info);
	return 0;
}

static int decode_header(struct elf_file *file, const unsigned char *header)
{
	file->type = MEMBER(file, header, Ehdr, e_type);
	file->machine = MEMBER(file, header, Ehdr, e_machine);
	file->segments_at = MEMBER(file, header, Ehdr, e_phoff);
	file->segment_count = MEMBER(file, header, Ehdr, e_phnum);
	file->sections_at = MEMBER(file, header, Ehdr, e_shoff);
	file->section_count = MEMBER(file, header, Ehdr, e_shnum);
	file->names_index = MEMBER(file, header, Ehdr, e_shstrndx);
	if (!file->sections_at)
		file->section_count = 0;
	int r = extend_counts(file);

	if (r < 0)
		return r;
	if ((file->segment_count &&
	     MEMBER(file, header, Ehdr, e_phentsize) != SIZE_OF(file, Phdr)) ||
	    (file->section_count && MEMBER(file, header, Ehdr, e_shentsize) != SIZE_OF(file, Shdr)))
		return -ENOEXEC;
	if (file->segment_count > ELF_SEGMENTS_MAX || file->section_count > ELF_SECTIONS_MAX)
		return -EFBIG;
	return 0;
}

int elf_file_open(int fd, struct elf_file *ret)
{
	struct elf_file file = {.fd = fd};
	const unsigned char *header = file.head;
	struct stat st;

	ssize_t n = read_fully(fd, 0, file.head, sizeof(file.head));

	if (n < 0)
		return n;
	file.head_len = n;
	if (n < EI_NIDENT || memcmp(header, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	if (header[EI_CLASS] != ELFCLASS32 && header[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	if (header[EI_DATA] != ELFDATA2LSB && header[EI_DATA] != ELFDATA2MSB)
		return -ENOEXEC;
	file.is64 = header[EI_CLASS] == ELFCLASS64;
	file.swapped =
		(header[EI_DATA] == ELFDATA2LSB) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	if ((size_t)n < SIZE_OF(&file, Ehdr))
		return -ENOEXEC;
	if (fstat(fd, &st) < 0)
		return -errno;
	file.size = st.st_size;
	int r = decode_header(&file, header);

	if (r < 0)
		return r;
	*ret = file;
	return 0;
}

/*
 * The raw bytes of a table, as many whole entries as the file has. The file's size bounds what is
 * allocated, so that a short file that claims a long table costs little.
 */
static int read_table(const struct elf_file *file, uint64_t at, size_t entry, uint32_t count,
		      char **ret, size_t *ret_count)
{
	uint64_t room = at < file->size ? file->size - at : 0;
	size_t len = MIN((uint64_t)count * entry, room);
	_cleanup_free_ char *table = malloc(MAX(len, (size_t)1));

	if (!table)
		return -ENOMEM;
	ssize_t n = elf_file_read(file, at, table, len);

	if (n < 0)
		return n;
	*ret = take_ptr(table);
	*ret_count = n / entry;
	return 0;
}

int elf_file_segments(const struct elf_file *file, struct elf_segment **ret, size_t *ret_count)
{
	_cleanup_free_ char *table = NULL;
	size_t entry = SIZE_OF(file, Phdr), count;
	int r = read_table(file, file->segments_at, entry, file->segment_count, &table, &count);

	if (r < 0)
		return r;
	struct elf_segment *segments = calloc(MAX(count, (size_t)1), sizeof(*segments));

	if (!segments)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *at = table + i * entry;

		segments[i] = (struct elf_segment){
			.type = MEMBER(file, at, Phdr, p_type),
			.flags = MEMBER(file, at, Phdr, p_flags),
			.offset = MEMBER(file, at, Phdr, p_offset),
			.vaddr = MEMBER(file, at, Phdr, p_vaddr),
			.filesz = MEMBER(file, at, Phdr, p_filesz),
		};
	}
	*ret = segments;
	*ret_count = count;
	return 0;
}

int elf_file_sections(const struct elf_file *file, struct elf_section **ret, size_t *ret_count)
{
	_cleanup_free_ char *table = NULL;
	size_t entry = SIZE_OF(file, Shdr), count;
	int r = read_table(file, file->sections_at, entry, file->section_count, &table, &count);

	if (r < 0)
		return r;
	struct elf_section *sections = calloc(MAX(count, (size_t)1), sizeof(*sections));

	if (!sections)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		decode_section(file, table + i * entry, &sections[i]);
	*ret = sections;
	*ret_count = count;
	return 0;
}

int elf_file_names(const struct elf_file *file, const struct elf_section *sections, size_t count,
		   char **ret, size_t *ret_len)
{
	size_t len = 0;
	ssize_t n = 0;

	if (file->names_index < count && sections[file->names_index].type == SHT_STRTAB)
		len = MIN(sections[file->names_index].size, (uint64_t)ELF_NAMES_MAX);
	_cleanup_free_ char *names = malloc(len + 1);

	if (!names)
		return -ENOMEM;
	if (len)
		n = elf_file_read(file, sections[file->names_index].offset, names, len);
	if (n < 0)
		return n;
	names[n] = '\0';
	*ret = take_ptr(names);
	*ret_len = n;
	return 0;
}
