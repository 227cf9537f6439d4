/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes the ELF object of a program's code: see elfimage.h. */
#include "core/elfimage.h"

#include <errno.h>
#include <gelf.h>
#include <sha1.h>
#include <string.h>
#include <sys/mman.h>

#include "core/debuginfo.h"

DEFINE_CLEANUP(elf, Elf *, elf_end)

uint16_t elfimage_host_machine(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#else
	return EM_NONE;
#endif
}

static int compare_funcs(const void *a, const void *b)
{
	const struct code_func *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Lists the functions that have code, by address. Caller frees. */
static int list_code(const struct prog *prog, struct code_func **ret, size_t *ret_count)
{
	struct code_func *funcs = calloc(prog->func_count + 1, sizeof(*funcs));
	size_t offset = 0, count = 0, apart = 0;

	if (!funcs)
		return -ENOMEM;
	for (size_t i = 0; i < prog->func_count && prog->jited; i++) {
		const struct prog_func *func = &prog->funcs[i];

		if (func->len > prog->jited->len - offset)
			break;
		if (func->len && func->addr <= UINT64_MAX - func->len)
			funcs[count++] = (struct code_func){
				.index = i,
				.addr = func->addr,
				.len = func->len,
				.code = (const char *)prog->jited->data + offset,
			};
		offset += func->len;
	}
	qsort(funcs, count, sizeof(*funcs), compare_funcs);
	for (size_t i = 0; i < count; i++)
		if (!apart || funcs[apart - 1].addr + funcs[apart - 1].len <= funcs[i].addr)
			funcs[apart++] = funcs[i];
	*ret = funcs;
	*ret_count = apart;
	return 0;
}

#define BUILD_ID_SIZE SHA1_DIGEST_LENGTH

struct build_id_note {
	Elf64_Nhdr header;
	char owner[4];
	uint8_t id[BUILD_ID_SIZE];
};

/* One image at one place has one build id, whatever else is said of it. */
static void build_id_note(const struct code_func *funcs, size_t count, struct build_id_note *ret)
{
	SHA1_CTX hash;

	*ret = (struct build_id_note){
		.header = {.n_namesz = sizeof(ret->owner),
			   .n_descsz = sizeof(ret->id),
			   .n_type = NT_GNU_BUILD_ID},
		.owner = ELF_NOTE_GNU,
	};
	SHA1Init(&hash);
	for (size_t i = 0; i < count; i++) {
		SHA1Update(&hash, (const uint8_t *)&funcs[i].addr, sizeof(funcs[i].addr));
		SHA1Update(&hash, (const uint8_t *)&funcs[i].len, sizeof(funcs[i].len));
		SHA1Update(&hash, funcs[i].code, funcs[i].len);
	}
	SHA1Final(ret->id, &hash);
}

/* What is being written; sections point into it until elf_update(). */
struct image {
	Elf *elf;
	struct text section_names, symbol_names;
};

static uint32_t add_name(struct text *names, const char *prefix, const char *name)
{
	uint32_t offset = names->len;

	text_puts(names, prefix);
	text_append(names, name, strlen(name) + 1);
	return offset;
}

/* Adds a section of these bytes; header gets its name and type and keeps what it has else. */
static int add_section(struct image *image, uint32_t name, GElf_Word type, const void *data,
		       size_t len, Elf_Type data_type, GElf_Shdr *header, size_t *ret_index)
{
	Elf_Scn *section = elf_newscn(image->elf);
	Elf_Data *contents = section ? elf_newdata(section) : NULL;
	GElf_Shdr made;

	if (!contents || !gelf_getshdr(section, &made))
		return -ENOMEM;
	contents->d_buf = (void *)data;
	contents->d_size = len;
	contents->d_type = data_type;
	contents->d_align = MAX(header->sh_addralign, (GElf_Xword)1);
	made.sh_name = name;
	made.sh_type = type;
	made.sh_flags = header->sh_flags;
	made.sh_addr = header->sh_addr;
	made.sh_link = header->sh_link;
	made.sh_info = header->sh_info;
	made.sh_entsize = header->sh_entsize;
	made.sh_addralign = contents->d_align;
	if (!gelf_update_shdr(section, &made))
		return -EIO;
	if (ret_index)
		*ret_index = elf_ndxscn(section);
	return 0;
}

static int add_code(struct image *image, const struct prog *prog, const struct code_func *funcs,
		    size_t count)
{
	for (size_t i = 0; i < count; i++) {
		GElf_Shdr header = {.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				    .sh_addr = funcs[i].addr};
		uint32_t name = add_name(&image->section_names, ".text.",
					 prog->funcs[funcs[i].index].symbol);
		int r = add_section(image, name, SHT_PROGBITS, funcs[i].code, funcs[i].len,
				    ELF_T_BYTE, &header, NULL);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_debug(struct image *image, const struct debuginfo *debug)
{
	const struct {
		const char *name;
		const struct text *bytes;
		bool strings;
	} sections[] = {
		{".debug_info", &debug->info},	   {".debug_abbrev", &debug->abbrev},
		{".debug_line", &debug->line},	   {".debug_str", &debug->str, .strings = true},
		{".debug_ranges", &debug->ranges}, {".debug_aranges", &debug->aranges},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		GElf_Shdr header = {};

		if (!sections[i].bytes->len)
			continue;
		if (sections[i].strings) {
			header.sh_flags = SHF_MERGE | SHF_STRINGS;
			header.sh_entsize = 1;
		}

		int r = add_section(image, add_name(&image->section_names, "", sections[i].name),
				    SHT_PROGBITS, sections[i].bytes->data, sections[i].bytes->len,
				    ELF_T_BYTE, &header, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Adds the symbol table and its names. Function n of the list is in section n + 1. */
static int add_symbols(struct image *image, const struct prog *prog, const struct code_func *funcs,
		       size_t count, Elf64_Sym *symbols)
{
	GElf_Shdr names = {}, table = {.sh_entsize = sizeof(*symbols),
				       .sh_addralign = _Alignof(Elf64_Sym),
				       /* Past the last local one, as all of them are. */
				       .sh_info = count + 1};
	size_t names_index;

	for (size_t i = 0; i < count; i++)
		symbols[i + 1] = (Elf64_Sym){
			.st_name = add_name(&image->symbol_names, "",
					    prog->funcs[funcs[i].index].symbol),
			.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
			.st_shndx = i + 1,
			.st_value = funcs[i].addr,
			.st_size = funcs[i].len,
		};
	if (image->symbol_names.failed)
		return -ENOMEM;

	int r = add_section(image, add_name(&image->section_names, "", ".strtab"), SHT_STRTAB,
			    image->symbol_names.data, image->symbol_names.len, ELF_T_BYTE, &names,
			    &names_index);
	if (r < 0)
		return r;
	table.sh_link = names_index;
	return add_section(image, add_name(&image->section_names, "", ".symtab"), SHT_SYMTAB,
			   symbols, (count + 1) * sizeof(*symbols), ELF_T_SYM, &table, NULL);
}

/* Where the sections lie in the file is known once libelf has laid them out. */
static int fill_segments(struct image *image, size_t count)
{
	if (elf_update(image->elf, ELF_C_NULL) < 0)
		return -EIO;
	for (size_t i = 0; i < count; i++) {
		GElf_Shdr header;

		if (!gelf_getshdr(elf_getscn(image->elf, i + 1), &header))
			return -EIO;

		GElf_Phdr segment = {
			.p_type = PT_LOAD,
			.p_flags = PF_R | PF_X,
			.p_offset = header.sh_offset,
			.p_vaddr = header.sh_addr,
			.p_paddr = header.sh_addr,
			.p_filesz = header.sh_size,
			.p_memsz = header.sh_size,
			.p_align = 1,
		};

		if (!gelf_update_phdr(image->elf, i, &segment))
			return -EIO;
	}
	return 0;
}

static int write_header(struct image *image, uint16_t machine, size_t count)
{
	GElf_Ehdr header;

	if (!gelf_newehdr(image->elf, ELFCLASS64) || !gelf_getehdr(image->elf, &header))
		return -ENOMEM;
	header.e_ident[EI_DATA] =
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	header.e_type = ET_EXEC;
	header.e_machine = machine;
	header.e_version = EV_CURRENT;
	if (!gelf_update_ehdr(image->elf, &header) || !gelf_newphdr(image->elf, count))
		return -ENOMEM;
	return 0;
}

/* Adds the section names as the last section, which the header then knows. */
static int add_section_names(struct image *image)
{
	GElf_Shdr header = {};
	uint32_t name = add_name(&image->section_names, "", ".shstrtab");
	GElf_Ehdr elf_header;
	size_t index;

	if (image->section_names.failed)
		return -ENOMEM;

	int r = add_section(image, name, SHT_STRTAB, image->section_names.data,
			    image->section_names.len, ELF_T_BYTE, &header, &index);
	if (r < 0)
		return r;
	if (!gelf_getehdr(image->elf, &elf_header))
		return -EIO;
	elf_header.e_shstrndx = index;
	return gelf_update_ehdr(image->elf, &elf_header) ? 0 : -EIO;
}

static void image_deinit(struct image *image)
{
	elf_cleanup(&image->elf);
	text_deinit(&image->section_names);
	text_deinit(&image->symbol_names);
}

/* Reads back what libelf wrote: it writes to files only. */
static int read_all(int fd, size_t size, struct snapshot **ret)
{
	char *data = malloc(size);

	if (!data)
		return -ENOMEM;
	if (pread(fd, data, size, 0) != (ssize_t)size) {
		free(data);
		return -EIO;
	}
	return snapshot_take(data, size, ret);
}

static int write_image(const struct prog *prog, const struct code_func *funcs, size_t count,
		       const struct debuginfo *debug, uint16_t machine, struct snapshot **ret)
{
	_cleanup_fd_ int fd = memfd_create("elf", MFD_CLOEXEC);
	_cleanup_free_ Elf64_Sym *symbols = calloc(count + 1, sizeof(*symbols));
	CLEANUP(image_deinit) struct image image = {};
	GElf_Shdr note_header = {.sh_addralign = sizeof(uint32_t)};
	struct build_id_note note;

	if (fd < 0)
		return -errno;
	if (!symbols || elf_version(EV_CURRENT) == EV_NONE)
		return -ENOMEM;
	image.elf = elf_begin(fd, ELF_C_WRITE, NULL);
	if (!image.elf)
		return -ENOMEM;
	text_putc(&image.section_names, '\0');
	text_putc(&image.symbol_names, '\0');
	build_id_note(funcs, count, &note);

	int r = write_header(&image, machine, count);
	if (r == 0)
		r = add_code(&image, prog, funcs, count);
	if (r == 0)
		r = add_section(&image, add_name(&image.section_names, "", ".note.gnu.build-id"),
				SHT_NOTE, &note, sizeof(note), ELF_T_BYTE, &note_header, NULL);
	if (r == 0)
		r = add_debug(&image, debug);
	if (r == 0)
		r = add_symbols(&image, prog, funcs, count, symbols);
	if (r == 0)
		r = add_section_names(&image);
	if (r == 0)
		r = fill_segments(&image, count);
	if (r < 0)
		return r;

	int64_t size = elf_update(image.elf, ELF_C_WRITE);

	return size < 0 ? -EIO : read_all(fd, size, ret);
}

int elfimage_write(const struct prog *prog, const struct lineinfo *lines, uint16_t machine,
		   struct snapshot **ret)
{
	_cleanup_free_ struct code_func *funcs = NULL;
	_cleanup_debuginfo_ struct debuginfo debug = {};
	size_t count;

	if (machine == EM_NONE)
		return -EOPNOTSUPP;

	int r = list_code(prog, &funcs, &count);
	if (r < 0)
		return r;
	if (!count)
		return -ENODATA;
	if (count > SHN_LORESERVE / 2)
		return -E2BIG;
	r = debuginfo_build(prog, funcs, count, lines, &debug);
	if (r < 0)
		return r;
	return write_image(prog, funcs, count, &debug, machine, ret);
}
