/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "core/notes.h"
#include "elfmaker.h"

static int read_bytes(const void *data, size_t len, struct notes *ret)
{
	_cleanup_fd_ int fd = memfd_create("notes", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	return notes_read(fd, ret);
}

/* Makes the file, frees the notes' text and reads it. */
static struct notes read_plan(const struct elf_plan *plan, struct text *notes)
{
	_cleanup_text_ struct text file = {};
	struct notes ret;

	elf_make(&file, plan, notes);
	assert_false(file.failed || notes->failed);
	text_deinit(notes);
	assert_int_equal(read_bytes(file.data, file.len, &ret), 0);
	return ret;
}

static void assert_site(const struct notes *notes, size_t index, const char *probe, uint64_t pc,
			uint64_t offset, uint64_t semaphore, uint64_t semaphore_offset,
			const char *args)
{
	const struct note_site *site = &notes->sites[index];
	char name[128];

	assert_true(index < notes->site_count);
	assert_int_equal(site->fault, NOTE_VALID);
	assert_true(site->has_pc && site->has_offset && site->has_names &&
		    site->has_semaphore_offset);
	snprintf(name, sizeof(name), "%s:%s", notes_string(notes, site->provider),
		 notes_string(notes, site->name));
	assert_string_equal(name, probe);
	assert_int_equal(site->pc, pc);
	assert_int_equal(site->offset, offset);
	assert_int_equal(site->semaphore, semaphore);
	assert_int_equal(site->semaphore_offset, semaphore_offset);
	assert_string_equal(notes_string(notes, site->args), args);
}

static void assert_fault(const struct notes *notes, size_t index, enum note_fault fault)
{
	assert_true(index < notes->site_count);
	assert_int_equal(notes->sites[index].fault, fault);
}

/* Both classes and byte orders, ET_EXEC and ET_DYN, notes first or last: all say the same. */
static void test_kinds(void **state)
{
	for (unsigned int bits = 0; bits < 32; bits++) {
		struct elf_plan plan = elf_plan_default();
		struct text text = {};

		plan.is32 = bits & 1;
		plan.big_endian = bits & 2;
		plan.type = bits & 4 ? ET_EXEC : ET_DYN;
		plan.notes_first = bits & 8;
		plan.more_sections = bits & 16;
		if (plan.is32)
			plan.machine = plan.big_endian ? EM_ARM : EM_386;
		else
			plan.machine = plan.big_endian ? EM_S390 : EM_X86_64;
		elf_note(&text, &plan, 0x12010, 0x30000, 0, "prov", "one", "");
		elf_note(&text, &plan, 0x12020, 0x30000, 0x24002, "prov", "two", "");
		struct notes notes = read_plan(&plan, &text);

		assert_int_equal(notes.machine, plan.machine);
		assert_int_equal(notes.site_count, 2);
		assert_site(&notes, 0, "prov:one", 0x12010, 0x1010, 0, 0, "");
		assert_site(&notes, 1, "prov:two", 0x12020, 0x1020, 0x24002, 0x2002, "");
		assert_int_equal(notes.build_id_len, sizeof(elf_build_id));
		assert_memory_equal(notes.build_id, elf_build_id, sizeof(elf_build_id));
		notes_deinit(&notes);
	}
}

static void test_base(void **state)
{
	static const struct {
		bool has_base;
		uint64_t base_addr, note_base, location, semaphore;
		bool is32;
	} cases[] = {
		{true, 0x30000, 0x20000, 0x2010, 0x14004},	 /* moved up */
		{true, 0x30000, 0x40000, 0x22010, 0x34004},	 /* moved down */
		{true, 0x30000, 0x20000, 0x2010, 0x14004, true}, /* the same in 32 bits */
		{true, 0x30000, 0x40000, 0x22010, 0x34004, true},
		{true, 0x30000, 0, 0x12010, 0x24004},	     /* the note has none */
		{false, 0x30000, 0x20000, 0x12010, 0x24004}, /* the object has none */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_plan plan = elf_plan_default();
		struct text text = {};

		plan.has_base = cases[i].has_base;
		plan.base_addr = cases[i].base_addr;
		plan.is32 = cases[i].is32;
		elf_note(&text, &plan, cases[i].location, cases[i].note_base, 0, "p", "a", "");
		elf_note(&text, &plan, cases[i].location, cases[i].note_base, cases[i].semaphore,
			 "p", "b", "");
		struct notes notes = read_plan(&plan, &text);

		assert_site(&notes, 0, "p:a", 0x12010, 0x1010, 0, 0, "");
		assert_site(&notes, 1, "p:b", 0x12010, 0x1010, 0x24004, 0x2004, "");
		notes_deinit(&notes);
	}
}

static void test_arguments(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	elf_note(&text, &plan, 0x12000, 0, 0, "p", "some", "-4@%edi 8@16(%rbp)");
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "empty", "");
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "absent", NULL);
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "colon", ":x");
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "bad", "-4@%edi 4@%foo");
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "bad", "-4@%edi 4@%foo");
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "good", "-4@%edi");
	struct notes notes = read_plan(&plan, &text);

	assert_int_equal(notes.site_count, 7);
	assert_site(&notes, 0, "p:some", 0x12000, 0x1000, 0, 0, "-4@%edi 8@16(%rbp)");
	assert_site(&notes, 1, "p:empty", 0x12000, 0x1000, 0, 0, "");
	assert_site(&notes, 2, "p:absent", 0x12000, 0x1000, 0, 0, "");
	assert_site(&notes, 3, "p:colon", 0x12000, 0x1000, 0, 0, "");
	assert_fault(&notes, 4, NOTE_ARGUMENTS);
	assert_fault(&notes, 5, NOTE_ARGUMENTS);
	assert_string_equal(notes_string(&notes, notes.sites[4].args), "-4@%edi 4@%foo");
	assert_site(&notes, 6, "p:good", 0x12000, 0x1000, 0, 0, "-4@%edi");
	notes_deinit(&notes);
}

/* Each bad note is a row, and between them the good ones are as if they were alone. */
static void test_faults(void **state)
{
	static const struct {
		uint64_t location, base, semaphore;
		enum note_fault fault;
	} cases[] = {
		{0x77, 0, 0, NOTE_LOCATION},	       /* in no segment */
		{0x11fff, 0, 0, NOTE_LOCATION},	       /* a byte before */
		{0x12100, 0, 0, NOTE_LOCATION},	       /* past filesz, within memsz */
		{0x24000, 0, 0, NOTE_LOCATION},	       /* in data */
		{0x12000, 0, 0x77, NOTE_SEMAPHORE},    /* in no segment */
		{0x12000, 0, 0x12004, NOTE_SEMAPHORE}, /* in code */
		{0x12000, 0, 0x2403f, NOTE_SEMAPHORE}, /* half outside */
		{0x12000, 0, 0x24001, NOTE_SEMAPHORE}, /* odd */
		{UINT64_MAX, 0, 0, NOTE_LOCATION},
		{UINT64_MAX - 8, 0x20000, 0, NOTE_OVERFLOW},  /* 0x30000 - 0x20000 wraps it */
		{0x8, 0x40000, 0, NOTE_OVERFLOW},	      /* moved below 0 */
		{0x2000, 0x20000, UINT64_MAX, NOTE_OVERFLOW}, /* the semaphore wraps */
	};
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		elf_note(&text, &plan, cases[i].location, cases[i].base, cases[i].semaphore, "p",
			 "bad", "4@%eax");
		elf_note(&text, &plan, 0x120ff, 0, 0x2403e, "p", "good", "4@%ebx");
	}
	struct notes notes = read_plan(&plan, &text);

	assert_int_equal(notes.site_count, 2 * ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %zu\n", i);
		assert_fault(&notes, 2 * i, cases[i].fault);
		assert_true(notes.sites[2 * i].has_names);
		assert_string_equal(notes_string(&notes, notes.sites[2 * i].args), "4@%eax");
		assert_site(&notes, 2 * i + 1, "p:good", 0x120ff, 0x10ff, 0x2403e, 0x203e,
			    "4@%ebx");
	}
	const struct note_probe *bad = notes_find(&notes, "p", "bad");
	const struct note_probe *good = notes_find(&notes, "p", "good");

	assert_int_equal(bad->count, ARRAY_SIZE(cases));
	assert_int_equal(bad->valid, 0);
	assert_int_equal(good->valid, ARRAY_SIZE(cases));
	notes_deinit(&notes);
}

static void test_overflow_32(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	plan.is32 = true;
	elf_note(&text, &plan, 0xfffffff0, 0x20000, 0, "p", "wraps", "");
	struct notes notes = read_plan(&plan, &text);

	assert_fault(&notes, 0, NOTE_OVERFLOW);
	notes_deinit(&notes);
}

/* p_offset + (location - p_vaddr) past 64 bits. */
static void test_offset_overflow(void **state)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text file = {};
	struct text text = {};
	uint64_t offset = UINT64_MAX - 0x10, filesz = 0x100;
	struct notes notes;

	elf_note(&text, &plan, 0x12010, 0, 0, "p", "fits", "");
	elf_note(&text, &plan, 0x12011, 0, 0, "p", "wraps", "");
	elf_make(&file, &plan, &text);
	memcpy(file.data + sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_offset), &offset, 8);
	memcpy(file.data + sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), &filesz, 8);
	assert_int_equal(read_bytes(file.data, file.len, &notes), 0);
	/* There is no such byte in the file, but that is another fault. */
	assert_fault(&notes, 0, NOTE_LOCATION);
	assert_fault(&notes, 1, NOTE_OVERFLOW);
	notes_deinit(&notes);
	text_deinit(&text);
}

static void test_truncated_descriptors(void **state)
{
	struct elf_plan plan = elf_plan_default();
	char desc[24 + 6];
	struct text text = {};
	uint64_t location = 0x12000;

	memset(desc, 0, sizeof(desc));
	memcpy(desc, &location, 8);
	memcpy(desc + 24, "p\0n\0%", 6);
	/* Every length: what is enough is valid, what is not is a row. */
	for (uint32_t len = 0; len <= sizeof(desc); len++)
		elf_note_raw(&text, &plan, "stapsdt", 8, 3, desc, len);
	struct notes notes = read_plan(&plan, &text);

	assert_int_equal(notes.site_count, sizeof(desc) + 1);
	for (uint32_t len = 0; len <= sizeof(desc); len++) {
		/* 28: the name's NUL is there, and no arguments; 29: arguments without their NUL;
		 * 30: `%`, which no machine has. */
		print_message("# %u\n", len);
		assert_fault(&notes, len,
			     len == 28	 ? NOTE_VALID
			     : len == 30 ? NOTE_ARGUMENTS
					 : NOTE_TRUNCATED);
		assert_int_equal(notes.sites[len].has_names, len >= 28);
		assert_int_equal(notes.sites[len].has_pc, len >= 24);
	}
	notes_deinit(&notes);
}

/* What is no stapsdt note is no row; a header that claims too much ends its section. */
static void test_other_notes(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	elf_note_raw(&text, &plan, "GNU", 4, 3, "abcde", 5);
	elf_note_raw(&text, &plan, "stapsdt", 8, 2, "abcde", 5);
	elf_note_raw(&text, &plan, "stapsdx", 8, 3, "abcde", 5);
	elf_note_raw(&text, &plan, "", 0, 0, "", 0);
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "n", "");
	text_append(&text, "\0\0\0\0\0\0\0\0", 8);
	struct notes notes = read_plan(&plan, &text);

	assert_int_equal(notes.site_count, 1);
	assert_site(&notes, 0, "p:n", 0x12000, 0x1000, 0, 0, "");
	notes_deinit(&notes);

	static const uint32_t claims[][2] = {
		{0xffffffff, 4}, {8, 0xffffffff}, {0xfffffffd, 0xffffffff}, {8, 17}, {21, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		elf_note(&text, &plan, 0x12000, 0, 0, "p", "n", "");
		text_append(&text, &claims[i], 8);
		text_append(&text, "\3\0\0\0stapsdt\0abcdefghijklmnop", 28);
		notes = read_plan(&plan, &text);
		assert_int_equal(notes.site_count, 2);
		assert_site(&notes, 0, "p:n", 0x12000, 0x1000, 0, 0, "");
		assert_fault(&notes, 1, NOTE_TRUNCATED);
		assert_false(notes.sites[1].has_names);
		notes_deinit(&notes);
	}
}

static void test_segment_flags(void **state)
{
	static const struct {
		uint32_t flags;
		enum note_fault fault;
	} cases[] = {{PF_R | PF_W, NOTE_VALID},
		     {PF_R, NOTE_SEMAPHORE},
		     {PF_R | PF_W | PF_X, NOTE_SEMAPHORE}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_plan plan = elf_plan_default();
		struct text text = {};

		plan.data_flags = cases[i].flags;
		elf_note(&text, &plan, 0x12000, 0, 0x24000, "p", "n", "");
		struct notes notes = read_plan(&plan, &text);

		assert_fault(&notes, 0, cases[i].fault);
		notes_deinit(&notes);
	}
}

/* A separate debug file has the notes; its segments are about bytes that it does not have. */
static void test_debug_file(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	plan.no_code = true;
	elf_note(&text, &plan, 0x12000, 0, 0, "p", "n", "");
	struct notes notes = read_plan(&plan, &text);

	assert_fault(&notes, 0, NOTE_LOCATION);
	notes_deinit(&notes);
}

static void test_not_objects(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};
	struct notes notes;

	elf_note(&text, &plan, 0x12000, 0, 0, "p", "n", "");
	static const uint16_t types[] = {ET_NONE, ET_REL, ET_CORE, 0xfe00};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		_cleanup_text_ struct text file = {};

		plan.type = types[i];
		elf_make(&file, &plan, &text);
		assert_int_equal(read_bytes(file.data, file.len, &notes), -ENOEXEC);
	}
	assert_int_equal(read_bytes("", 0, &notes), -ENOEXEC);
	assert_int_equal(read_bytes("#!/bin/sh\n", 10, &notes), -ENOEXEC);
	plan.type = ET_DYN;
	/* A section of that name that is no SHT_NOTE is none. */
	plan.note_type = SHT_PROGBITS;
	notes = read_plan(&plan, &text);
	assert_int_equal(notes.site_count, 0);
	notes_deinit(&notes);
}

/* A file cut at every length: never more rows than notes and one, never a wrong one. */
static void test_cut_files(void **state)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text file = {};
	struct text text = {};

	plan.text_offset = 0x400;
	plan.text_size = 0x40;
	plan.data_offset = 0x440;
	plan.notes_first = true;
	for (int i = 0; i < 3; i++)
		elf_note(&text, &plan, 0x12000 + i, 0, 0, "p", "n", "4@%eax");
	elf_make(&file, &plan, &text);
	for (size_t len = 0; len <= file.len; len++) {
		struct notes notes = {};
		int r = read_bytes(file.data, len, &notes);

		assert_true(r == 0 || r == -ENOEXEC);
		assert_true(notes.site_count <= 4);
		for (size_t i = 0; i < notes.site_count; i++)
			if (!notes.sites[i].fault)
				assert_site(&notes, i, "p:n", 0x12000 + i, 0x400 + i, 0, 0,
					    "4@%eax");
		if (len == file.len)
			assert_int_equal(notes_find(&notes, "p", "n")->valid, 3);
		notes_deinit(&notes);
	}
	text_deinit(&text);
}

/* Each byte of a small file set to each of a few values: ends, and within bounds. */
static void test_corrupt_files(void **state)
{
	static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text file = {};
	struct text text = {};

	plan.text_offset = 0x400;
	plan.text_size = 0x40;
	plan.data_offset = 0x440;
	elf_note(&text, &plan, 0x12000, 0x30000, 0x24000, "p", "n", "4@%eax");
	elf_make(&file, &plan, &text);
	for (size_t at = 0; at < file.len; at++) {
		char was = file.data[at];

		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct notes notes = {};

			file.data[at] = values[i];
			int r = read_bytes(file.data, file.len, &notes);

			assert_true(r == 0 || r == -ENOEXEC || r == -EFBIG);
			assert_true(notes.site_count <= 64);
			notes_deinit(&notes);
		}
		file.data[at] = was;
	}
	text_deinit(&text);
}

/* A file of 2^60 bytes that has nothing in it but claims. */
static void test_sparse_file(void **state)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_fd_ int fd = memfd_create("sparse", MFD_CLOEXEC);
	_cleanup_text_ struct text file = {};
	struct text text = {};
	struct notes notes;
	uint64_t huge = UINT64_C(1) << 40;

	elf_make(&file, &plan, &text);
	assert_int_equal(write(fd, file.data, file.len), file.len);
	assert_int_equal(ftruncate(fd, 1L << 60), 0);
	assert_int_equal(notes_read(fd, &notes), 0);
	assert_int_equal(notes.site_count, 0);
	notes_deinit(&notes);
	/* The last section header is that of the notes. */
	off_t header = file.len - sizeof(Elf64_Shdr);

	assert_int_equal(pwrite(fd, &huge, 8, header + offsetof(Elf64_Shdr, sh_size)), 8);
	assert_int_equal(notes_read(fd, &notes), -EFBIG);
	/* And as many sections as 64 bits can say. */
	uint16_t none = 0;

	header -= 4 * sizeof(Elf64_Shdr);
	assert_int_equal(pwrite(fd, &none, 2, offsetof(Elf64_Ehdr, e_shnum)), 2);
	assert_int_equal(pwrite(fd, &huge, 8, header + offsetof(Elf64_Shdr, sh_size)), 8);
	assert_int_equal(notes_read(fd, &notes), -EFBIG);
}

static void test_index(void **state)
{
	static const char *const probes[][2] = {{"b", "z"}, {"a", "x"}, {"b", ""},   {"", "x"},
						{"b", "z"}, {"a", "y"}, {"ab", "x"}, {"b", "z"}};
	struct elf_plan plan = elf_plan_default();
	struct text text = {};

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		elf_note(&text, &plan, 0x12000 + i, 0, 0, probes[i][0], probes[i][1],
			 i == 4 ? "4@%foo" : "");
	struct notes notes = read_plan(&plan, &text);
	static const char *const sorted[] = {":x", "a:x", "a:y", "ab:x", "b:", "b:z"};

	assert_int_equal(notes.probe_count, ARRAY_SIZE(sorted));
	for (size_t i = 0; i < notes.probe_count; i++) {
		const struct note_probe *probe = &notes.probes[i];
		const char *provider = notes_string(&notes, probe->provider);
		const char *name = notes_string(&notes, probe->name);
		char joined[16];

		snprintf(joined, sizeof(joined), "%s:%s", provider, name);
		assert_string_equal(joined, sorted[i]);
		assert_ptr_equal(notes_find(&notes, provider, name), probe);
	}
	const struct note_probe *bz = notes_find(&notes, "b", "z");

	assert_int_equal(bz->count, 3);
	assert_int_equal(bz->valid, 2);
	assert_int_equal(notes.by_probe[bz->first], 0);
	assert_int_equal(notes.by_probe[bz->first + 1], 4);
	assert_int_equal(notes.by_probe[bz->first + 2], 7);
	assert_null(notes_find(&notes, "b", "zz"));
	assert_null(notes_find(&notes, "c", "z"));
	assert_int_equal(notes_find_provider(&notes, "b"), 4);
	assert_int_equal(notes_find_provider(&notes, ""), 0);
	assert_int_equal(notes_find_provider(&notes, "aa"), notes.probe_count);
	notes_deinit(&notes);
}

/* The figure of the issue: 400,000 notes of 40,000 names within 3 s, and in little memory. */
static void test_many(void **state)
{
	struct elf_plan plan = elf_plan_default();
	struct text text = {};
	struct timespec start, end;

	plan.text_size = 0x70000;
	plan.data_offset = 0x80000;
	for (unsigned int i = 0; i < 400000; i++) {
		char name[32], args[64];

		snprintf(name, sizeof(name), "probe_%u", i % 40000);
		snprintf(args, sizeof(args), "-4@%u(%%rbp) 8@%%rax 8@$%u", i % 50 * 8, i % 1000);
		elf_note(&text, &plan, 0x12000 + i, 0, 0, "provider", name, args);
	}
	_cleanup_text_ struct text file = {};
	struct notes notes;

	elf_make(&file, &plan, &text);
	text_deinit(&text);
	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start), 0);
	assert_int_equal(read_bytes(file.data, file.len, &notes), 0);
	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end), 0);
	double seconds = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;

	print_message("# %.2f s, %zu bytes\n", seconds, notes_bytes(&notes));
	assert_int_equal(notes.site_count, 400000);
	assert_int_equal(notes.probe_count, 40000);
	assert_int_equal(notes_find(&notes, "provider", "probe_39999")->valid, 10);
	assert_true(notes_bytes(&notes) < 48u << 20);
	/* Of the processor: others may be at work. */
	assert_true(seconds < 3);
	notes_deinit(&notes);
}

static struct notes read_many_segments(uint32_t type, uint32_t segments, unsigned int count,
				       int expected)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text text = {}, file = {};
	struct notes notes = {};

	plan.more_segments = segments;
	plan.more_type = type;
	for (unsigned int i = 0; i < count; i++)
		elf_note(&text, &plan, 0x12000, 0, 0x24000, "p", "n", "");
	elf_make(&file, &plan, &text);
	assert_false(file.failed || text.failed);
	assert_int_equal(read_bytes(file.data, file.len, &notes), expected);
	return notes;
}

/* What a note costs is bounded, whatever the program headers are: this would take minutes. */
static void test_many_segments(void **state)
{
	struct notes notes = read_many_segments(PT_NULL, 65000, 300000, 0);

	assert_int_equal(notes.site_count, 300000);
	assert_site(&notes, 299999, "p:n", 0x12000, 0x1000, 0x24000, 0x2000, "");
	notes_deinit(&notes);
	notes = read_many_segments(PT_LOAD, 1000, 100, 0);
	assert_site(&notes, 99, "p:n", 0x12000, 0x1000, 0x24000, 0x2000, "");
	notes_deinit(&notes);
	read_many_segments(PT_LOAD, 1000, 300000, -EFBIG);
	read_many_segments(PT_LOAD, 1100, 1, -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_overflow_32),
		cmocka_unit_test(test_offset_overflow),
		cmocka_unit_test(test_truncated_descriptors),
		cmocka_unit_test(test_other_notes),
		cmocka_unit_test(test_segment_flags),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_not_objects),
		cmocka_unit_test(test_cut_files),
		cmocka_unit_test(test_corrupt_files),
		cmocka_unit_test(test_sparse_file),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
