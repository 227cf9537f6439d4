/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the objects back with elfutils' libraries, which did not write their DWARF. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/elfimage.h"
#include "tests/unit/progfixture.h"

#define BASE UINT64_C(0xffffffffc0010000)

static uint8_t code[64];
static const struct bpf_insn insns[32];

struct object {
	void *bytes;
	size_t len;
	Elf *elf;
};

static int fill_code(void **state)
{
	for (size_t i = 0; i < sizeof(code); i++)
		code[i] = i;
	return 0;
}

static void object_open(struct object *object, const struct prog *prog,
			const struct lineinfo *lines, uint16_t machine)
{
	struct snapshot *snapshot;

	assert_int_equal(elfimage_write(prog, lines, machine, &snapshot), 0);
	object->len = snapshot_size(snapshot);
	object->bytes = malloc(object->len);
	assert_non_null(object->bytes);
	assert_int_equal(snapshot_read(snapshot, 0, object->bytes, object->len), object->len);
	snapshot_unref(snapshot);
	object->elf = elf_memory(object->bytes, object->len);
	assert_non_null(object->elf);
}

static void object_close(struct object *object)
{
	elf_end(object->elf);
	free(object->bytes);
}

static Elf_Scn *find_section(const struct object *object, const char *name, GElf_Shdr *ret)
{
	size_t names;
	Elf_Scn *section = NULL;

	assert_int_equal(elf_getshdrstrndx(object->elf, &names), 0);
	while ((section = elf_nextscn(object->elf, section))) {
		assert_non_null(gelf_getshdr(section, ret));
		if (strcmp(elf_strptr(object->elf, names, ret->sh_name), name) == 0)
			return section;
	}
	return NULL;
}

/* The object has this function, and nothing that says otherwise, in each place that tells of it. */
static void assert_func(const struct object *object, const char *section_name, size_t index,
			uint64_t addr, const void *bytes, size_t len)
{
	GElf_Shdr header, names;
	GElf_Phdr segment;
	Elf_Scn *section = find_section(object, section_name, &header);
	Elf_Data *data = elf_getdata(section, NULL);
	Elf_Scn *table = find_section(object, ".symtab", &names);
	GElf_Sym symbol;

	assert_int_equal(elf_ndxscn(section), index + 1);
	assert_int_equal(header.sh_addr, addr);
	assert_int_equal(header.sh_flags, SHF_ALLOC | SHF_EXECINSTR);
	assert_int_equal(data->d_size, len);
	assert_memory_equal(data->d_buf, bytes, len);
	assert_non_null(gelf_getphdr(object->elf, index, &segment));
	assert_int_equal(segment.p_type, PT_LOAD);
	assert_int_equal(segment.p_vaddr, addr);
	assert_int_equal(segment.p_filesz, len);
	assert_memory_equal((uint8_t *)object->bytes + segment.p_offset, bytes, len);
	assert_non_null(gelf_getsym(elf_getdata(table, NULL), index + 1, &symbol));
	assert_string_equal(elf_strptr(object->elf, names.sh_link, symbol.st_name),
			    section_name + strlen(".text."));
	assert_int_equal(symbol.st_value, addr);
	assert_int_equal(symbol.st_size, len);
	assert_int_equal(symbol.st_shndx, index + 1);
	assert_int_equal(GELF_ST_TYPE(symbol.st_info), STT_FUNC);
}

static void assert_func_count(const struct object *object, size_t expected)
{
	size_t segments;
	GElf_Shdr header;

	assert_int_equal(elf_getphdrnum(object->elf, &segments), 0);
	assert_int_equal(segments, expected);
	assert_non_null(find_section(object, ".symtab", &header));
	assert_int_equal(header.sh_size / header.sh_entsize, expected + 1);
}

/* eu-elflint, where it is installed. */
static void assert_lint(const struct object *object)
{
	int fd = memfd_create("elf", 0);
	char command[64];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, object->bytes, object->len), object->len);
	if (system("command -v eu-elflint >/dev/null") == 0) {
		snprintf(command, sizeof(command), "eu-elflint -q /proc/%d/fd/%d", getpid(), fd);
		assert_int_equal(system(command), 0);
	}
	close(fd);
}

/* A sequence of lines ends where its function does, and has one row an address. */
static void assert_sequences(Dwarf *dwarf, const struct prog *prog)
{
	Dwarf_Off next;
	size_t header_size, count;
	Dwarf_Die unit;
	Dwarf_Lines *rows;
	Dwarf_Addr last = 0;

	assert_int_equal(dwarf_nextcu(dwarf, 0, &next, &header_size, NULL, NULL, NULL), 0);
	assert_non_null(dwarf_offdie(dwarf, header_size, &unit));
	assert_int_equal(dwarf_getsrclines(&unit, &rows, &count), 0);
	for (size_t i = 0; i < count; i++) {
		bool is_end, found = false;
		Dwarf_Addr addr;

		assert_int_equal(dwarf_lineendsequence(dwarf_onesrcline(rows, i), &is_end), 0);
		assert_int_equal(dwarf_lineaddr(dwarf_onesrcline(rows, i), &addr), 0);
		for (size_t j = 0; j < prog->func_count; j++)
			found |= addr == prog->funcs[j].addr + prog->funcs[j].len;
		assert_true(addr > last);
		last = is_end ? 0 : addr;
		if (is_end)
			assert_true(found);
	}
}

/* Each byte of each function has in DWARF the line that lineinfo_find() has. */
static void assert_lines(const struct object *object, const struct prog *prog,
			 const struct lineinfo *lines)
{
	Dwarf *dwarf = dwarf_begin_elf(object->elf, DWARF_C_READ, NULL);

	assert_non_null(dwarf);
	for (size_t i = 0; i < prog->func_count; i++) {
		for (uint64_t addr = prog->funcs[i].addr;
		     addr < prog->funcs[i].addr + prog->funcs[i].len; addr++) {
			const struct line *expected = lineinfo_find(lines, prog, addr);
			Dwarf_Die unit;
			int number = -1, column = -1;

			assert_non_null(dwarf_addrdie(dwarf, addr, &unit));

			Dwarf_Line *line = dwarf_getsrc_die(&unit, addr);

			if (!expected) {
				assert_null(line);
				continue;
			}
			assert_non_null(line);
			assert_string_equal(dwarf_linesrc(line, NULL, NULL), expected->file);
			assert_int_equal(dwarf_lineno(line, &number), 0);
			assert_int_equal(dwarf_linecol(line, &column), 0);
			assert_int_equal(number, expected->number);
			assert_int_equal(column, expected->column);
		}
	}
	assert_sequences(dwarf, prog);
	dwarf_end(dwarf);
}

/* The functions that DWARF tells of, as NAME@ADDR+LEN, joined by blanks. */
static void assert_subprograms(const struct object *object, const char *expected)
{
	Dwarf *dwarf = dwarf_begin_elf(object->elf, DWARF_C_READ, NULL);
	Dwarf_Off next;
	Dwarf_Die unit, func;
	size_t header_size;
	char found[512] = "";

	assert_non_null(dwarf);
	assert_int_equal(dwarf_nextcu(dwarf, 0, &next, &header_size, NULL, NULL, NULL), 0);
	assert_non_null(dwarf_offdie(dwarf, header_size, &unit));
	for (int r = dwarf_child(&unit, &func); r == 0; r = dwarf_siblingof(&func, &func)) {
		Dwarf_Addr low, high;
		size_t len = strlen(found);

		assert_int_equal(dwarf_tag(&func), DW_TAG_subprogram);
		assert_int_equal(dwarf_lowpc(&func, &low), 0);
		assert_int_equal(dwarf_highpc(&func, &high), 0);
		snprintf(found + len, sizeof(found) - len, "%s%s@%llx+%llx", len ? " " : "",
			 dwarf_diename(&func), (unsigned long long)low,
			 (unsigned long long)(high - low));
	}
	assert_string_equal(found, expected);
	dwarf_end(dwarf);
}

static void pair(struct prog_fixture *f)
{
	fixture_init(f, code, 40, insns, 16);
	fixture_func(f, "bpf_prog_1_main", BASE + 0x100, 24, 0);
	fixture_func(f, "bpf_prog_2_sub", BASE, 16, 8);
}

static void test_functions(void **state)
{
	struct prog_fixture f;
	struct object object;
	GElf_Ehdr header;

	pair(&f);
	object_open(&object, &f.prog, NULL, EM_X86_64);
	assert_func_count(&object, 2);
	assert_func(&object, ".text.bpf_prog_2_sub", 0, BASE, code + 24, 16);
	assert_func(&object, ".text.bpf_prog_1_main", 1, BASE + 0x100, code, 24);
	assert_non_null(gelf_getehdr(object.elf, &header));
	assert_int_equal(header.e_machine, EM_X86_64);
	assert_int_equal(header.e_type, ET_EXEC);
	assert_subprograms(&object, "bpf_prog_2_sub@ffffffffc0010000+10 "
				    "bpf_prog_1_main@ffffffffc0010100+18");
	assert_lint(&object);
	object_close(&object);
}

static void test_other_machine(void **state)
{
	struct prog_fixture f;
	struct object object;
	struct snapshot *snapshot;
	GElf_Ehdr header;

	pair(&f);
	object_open(&object, &f.prog, NULL, EM_AARCH64);
	assert_non_null(gelf_getehdr(object.elf, &header));
	assert_int_equal(header.e_machine, EM_AARCH64);
	assert_lint(&object);
	object_close(&object);
	assert_int_equal(elfimage_write(&f.prog, NULL, EM_NONE, &snapshot), -EOPNOTSUPP);
}

static void test_lines(void **state)
{
	struct prog_fixture f;
	struct object object;
	struct lineinfo lines;

	pair(&f);
	fixture_line(&f, 0, BASE + 0x100, "/src/b.c", "one", 1000000, 1);
	fixture_line(&f, 1, BASE + 0x101, "/src/b.c", "two", 2, 1023);
	fixture_line(&f, 2, BASE + 0x101, "/src/hidden.c", "no code of its own", 3, 2);
	fixture_line(&f, 3, BASE + 0x101, "/src/a \"b\"\n.h", "three", 4194303, 0);
	fixture_line(&f, 4, BASE + 0x117, "", "last byte", 0, 0);
	fixture_line(&f, 8, BASE + 5, "relative.c", "five bytes late", 7, 7);
	fixture_func(&f, "bpf_prog_3_without_code", BASE - 0x100, 16, 12);
	fixture_line(&f, 12, BASE - 0x100, "a.c", "its line", 9, 1);
	assert_int_equal(lineinfo_read(&f.prog, &lines), 0);
	assert_int_equal(lines.addr_count, 7);
	object_open(&object, &f.prog, &lines, EM_X86_64);
	f.prog.func_count = 2;
	assert_lines(&object, &f.prog, &lines);
	assert_lint(&object);
	object_close(&object);
	lineinfo_deinit(&lines);
}

/* Nothing could be placed: an object all the same, without a line table. */
static void test_no_lines(void **state)
{
	struct prog_fixture f;
	struct object object;
	struct lineinfo lines;
	GElf_Shdr header;

	pair(&f);
	fixture_line(&f, 0, 0, "a.c", "x", 1, 1);
	assert_int_equal(lineinfo_read(&f.prog, &lines), 0);
	object_open(&object, &f.prog, &lines, EM_X86_64);
	assert_null(find_section(&object, ".debug_line", &header));
	assert_non_null(find_section(&object, ".debug_info", &header));
	assert_lint(&object);
	object_close(&object);
	lineinfo_deinit(&lines);
}

static void test_functions_left_out(void **state)
{
	struct prog_fixture f;
	struct object object;
	struct snapshot *snapshot;

	fixture_init(&f, code, 40, insns, 16);
	fixture_func(&f, "bpf_prog_1_main", BASE, 16, 0);
	fixture_func(&f, "bpf_prog_2_empty", BASE + 0x20, 0, 4);
	fixture_func(&f, "bpf_prog_3_inside", BASE + 8, 16, 8);
	fixture_func(&f, "bpf_prog_4_past", BASE + 0x100, 16, 12); /* 8 bytes are left */
	object_open(&object, &f.prog, NULL, EM_X86_64);
	assert_func_count(&object, 1);
	assert_func(&object, ".text.bpf_prog_1_main", 0, BASE, code, 16);
	assert_lint(&object);
	object_close(&object);

	f.funcs[0].addr = UINT64_MAX - 8; /* its end wraps */
	f.funcs[2].len = 17;
	object_open(&object, &f.prog, NULL, EM_X86_64);
	assert_func_count(&object, 1);
	assert_func(&object, ".text.bpf_prog_3_inside", 0, BASE + 8, code + 16, 17);
	object_close(&object);

	f.prog.func_count = 1;
	assert_int_equal(elfimage_write(&f.prog, NULL, EM_X86_64, &snapshot), -ENODATA);
	f.prog.func_count = 0;
	assert_int_equal(elfimage_write(&f.prog, NULL, EM_X86_64, &snapshot), -ENODATA);
	pair(&f);
	f.prog.jited = NULL;
	assert_int_equal(elfimage_write(&f.prog, NULL, EM_X86_64, &snapshot), -ENODATA);
}

static void build_id_of(const struct prog *prog, uint8_t ret[20])
{
	struct object object;
	GElf_Shdr header;
	GElf_Nhdr note;
	size_t name, desc;

	object_open(&object, prog, NULL, EM_X86_64);

	Elf_Data *data = elf_getdata(find_section(&object, ".note.gnu.build-id", &header), NULL);

	assert_int_equal(gelf_getnote(data, 0, &note, &name, &desc), data->d_size);
	assert_int_equal(note.n_type, NT_GNU_BUILD_ID);
	assert_int_equal(note.n_descsz, 20);
	assert_string_equal((char *)data->d_buf + name, "GNU");
	memcpy(ret, (uint8_t *)data->d_buf + desc, 20);
	object_close(&object);
}

/* It follows the image and its place, and nothing else. */
static void test_build_id(void **state)
{
	uint8_t id[20], other[20];
	struct prog_fixture f;

	pair(&f);
	build_id_of(&f.prog, id);
	f.funcs[1].symbol = (char *)"bpf_prog_2_renamed";
	build_id_of(&f.prog, other);
	assert_memory_equal(id, other, sizeof(id));
	f.funcs[1].addr++;
	build_id_of(&f.prog, other);
	assert_memory_not_equal(id, other, sizeof(id));
	f.funcs[1].addr--;
	f.jited.data = code + 1;
	build_id_of(&f.prog, other);
	assert_memory_not_equal(id, other, sizeof(id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_other_machine),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_no_lines),
		cmocka_unit_test(test_functions_left_out),
		cmocka_unit_test(test_build_id),
	};

	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, fill_code, NULL);
}
