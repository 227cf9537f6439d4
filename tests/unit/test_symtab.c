/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/snapshot.h"
#include "core/symtab.h"
#include "core/text.h"

#define TEXT  UINT64_C(0xffffffff81000000)
#define AREAS UINT64_C(0xffffffffc0000000)

static struct symtab *new_table(void)
{
	struct symtab *table;

	assert_int_equal(symtab_create(&table), 0);
	return table;
}

static char *rendered(struct symtab *table, enum symtab_format format)
{
	struct snapshot *snapshot;

	assert_int_equal(symtab_render(table, format, &snapshot), 0);

	uint64_t size = snapshot_size(snapshot);
	char *text = malloc(size + 1);

	assert_non_null(text);
	assert_int_equal(snapshot_read(snapshot, 0, text, size), size);
	text[size] = '\0';
	snapshot_unref(snapshot);
	return text;
}

static void assert_renders(struct symtab *table, enum symtab_format format, const char *expected)
{
	char *text = rendered(table, format);

	assert_string_equal(text, expected);
	free(text);
}

static struct symbol core_symbol(uint64_t addr, char type, const char *name)
{
	return (struct symbol){.addr = addr, .type = type, .name = name, .kind = SYMBOL_CORE};
}

static struct symbol module_symbol(uint64_t addr, const char *name, const char *module)
{
	return (struct symbol){
		.addr = addr, .type = 't', .name = name, .module = module, .kind = SYMBOL_MODULE};
}

static struct symbol bpf_symbol(uint64_t addr, uint64_t len, enum symbol_kind kind,
				const char *name)
{
	return (struct symbol){.addr = addr,
			       .len = len,
			       .type = 't',
			       .name = name,
			       .module = "bpf",
			       .kind = kind,
			       .added = 5,
			       .prog_id = 7};
}

static void assert_hit(const struct symtab *table, uint64_t addr, const char *name, uint64_t size)
{
	struct symtab_hit hit;

	assert_int_equal(symtab_lookup(table, addr, &hit), 0);
	assert_string_equal(hit.symbol->name, name);
	assert_int_equal(hit.size, size);
}

static void assert_no_hit(const struct symtab *table, uint64_t addr)
{
	struct symtab_hit hit;

	assert_int_equal(symtab_lookup(table, addr, &hit), -ENOENT);
}

static void test_empty(void **state)
{
	struct symtab *table = new_table();

	assert_int_equal(symtab_generation(table), 1);
	assert_int_equal(symtab_count(table), 0);
	assert_renders(table, SYMTAB_KSYMS, "");
	assert_renders(table, SYMTAB_KALLSYMS, "");
	assert_no_hit(table, 0);
	assert_no_hit(table, UINT64_MAX);
	assert_null(symtab_at(table, TEXT, 0));
	assert_int_equal(symtab_remove(table, TEXT, "_text", NULL), -ENOENT);
	assert_int_equal(symtab_add_all(table, NULL, 0), 0);
	assert_int_equal(symtab_remove_bound(table, TEXT), -ENOENT);
	assert_int_equal(symtab_add_bound(table, TEXT, TEXT), -EINVAL);
	assert_int_equal(symtab_add_bound(table, TEXT + 1, TEXT), -EINVAL);
	assert_int_equal(symtab_generation(table), 1);
	symtab_destroy(table);
	symtab_destroy(NULL);
}

/* A table as the contract shows it, with each rule for sizes. */
static void add_example(struct symtab *table)
{
	const struct symbol symbols[] = {
		core_symbol(TEXT, 'T', "_stext"),
		core_symbol(TEXT, 'T', "_text"),
		core_symbol(TEXT + 0x140, 't', "do_one"),
		core_symbol(TEXT + 0x1ff0, 'T', "last_of_text"),
		core_symbol(TEXT + 0x2000, 'T', "_etext"),
		core_symbol(TEXT + 0x400000, 'D', "__start_rodata"),
		core_symbol(TEXT + 0x500000, 'T', "_sinittext"),
		module_symbol(AREAS, "dummy_init", "dummy"),
		module_symbol(AREAS + 0x20, "dummy_exit", "dummy"),
		bpf_symbol(AREAS + 0x3000, 0x13, SYMBOL_BPF_PROG, "bpf_prog_62efe59b7d4f5ea1"),
		bpf_symbol(AREAS + 0x3040, 0, SYMBOL_BPF_PROG, "bpf_prog_e1425229c865ac8b_x"),
		bpf_symbol(AREAS + 0x4000, 4096, SYMBOL_BPF_IMAGE, "bpf__ops_ssthresh"),
		bpf_symbol(AREAS + 0x40a7, 4096, SYMBOL_BPF_IMAGE, "bpf__ops_init"),
		bpf_symbol(AREAS + 0x6000, 0, SYMBOL_BPF_IMAGE, "bpf_trampoline_6442"),
		bpf_symbol(AREAS + 0x9000, 0, SYMBOL_BPF_AUX, "__cfi_bpf_prog_1111111111111111"),
		bpf_symbol(AREAS + 0x9010, 0x40, SYMBOL_BPF_PROG, "bpf_prog_1111111111111111"),
	};

	assert_int_equal(symtab_add_bound(table, TEXT, TEXT + 0x2000), 0);
	assert_int_equal(symtab_add_bound(table, TEXT + 0x500000, TEXT + 0x501000), 0);
	assert_int_equal(symtab_add_bound(table, AREAS, AREAS + 0x1000), 0);
	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), ARRAY_SIZE(symbols));
}

static void test_sizes(void **state)
{
	struct symtab *table = new_table();

	add_example(table);
	assert_renders(
		table, SYMTAB_KSYMS,
		"ffffffff81000000 0000000000000140 T _stext\n"
		"ffffffff81000000 0000000000000140 T _text\n"
		"ffffffff81000140 0000000000001eb0 t do_one\n"
		"ffffffff81001ff0 0000000000000010 T last_of_text\n"
		"ffffffff81002000 0000000000000000 T _etext\n"
		"ffffffff81400000 0000000000000000 D __start_rodata\n"
		"ffffffff81500000 0000000000001000 T _sinittext\n"
		"ffffffffc0000000 0000000000000020 t dummy_init\t[dummy]\n"
		"ffffffffc0000020 0000000000000fe0 t dummy_exit\t[dummy]\n"
		"ffffffffc0003000 0000000000000013 t bpf_prog_62efe59b7d4f5ea1\t[bpf]\n"
		"ffffffffc0003040 0000000000000000 t bpf_prog_e1425229c865ac8b_x\t[bpf]\n"
		"ffffffffc0004000 00000000000000a7 t bpf__ops_ssthresh\t[bpf]\n"
		"ffffffffc00040a7 0000000000001000 t bpf__ops_init\t[bpf]\n"
		"ffffffffc0006000 0000000000001000 t bpf_trampoline_6442\t[bpf]\n"
		"ffffffffc0009000 0000000000000010 t __cfi_bpf_prog_1111111111111111\t[bpf]\n"
		"ffffffffc0009010 0000000000000040 t bpf_prog_1111111111111111\t[bpf]\n");
	assert_int_equal(symtab_count(table), 16);
	assert_int_equal(symtab_count_kind(table, SYMBOL_CORE), 7);
	assert_int_equal(symtab_count_kind(table, SYMBOL_BPF_IMAGE), 3);
	symtab_destroy(table);
}

static void test_kallsyms_format(void **state)
{
	struct symtab *table = new_table();
	struct symbol odd = module_symbol(AREAS, "a b\\\n\xff", "m d");

	assert_int_equal(symtab_add(table, &odd), 0);
	odd = core_symbol(0, 'A', "fixed_percpu_data");
	assert_int_equal(symtab_add(table, &odd), 0);
	assert_renders(table, SYMTAB_KALLSYMS,
		       "0000000000000000 A fixed_percpu_data\n"
		       "ffffffffc0000000 t a\\040b\\134\\012\\377\t[m\\040d]\n");
	symtab_destroy(table);
}

static void test_lookup(void **state)
{
	struct symtab *table = new_table();
	struct symtab_hit hit;

	add_example(table);
	assert_no_hit(table, TEXT - 1);
	assert_hit(table, TEXT, "_stext", 0x140);
	assert_hit(table, TEXT + 0x13f, "_stext", 0x140);
	assert_hit(table, TEXT + 0x140, "do_one", 0x1eb0);
	assert_hit(table, TEXT + 0x1fff, "last_of_text", 0x10);
	assert_no_hit(table, TEXT + 0x2000);
	assert_no_hit(table, TEXT + 0x400000);
	assert_hit(table, TEXT + 0x500fff, "_sinittext", 0x1000);
	assert_no_hit(table, TEXT + 0x501000);
	assert_hit(table, AREAS + 0xfff, "dummy_exit", 0xfe0);
	assert_no_hit(table, AREAS + 0x1000);
	assert_hit(table, AREAS + 0x3012, "bpf_prog_62efe59b7d4f5ea1", 0x13);
	assert_no_hit(table, AREAS + 0x3013);
	assert_no_hit(table, AREAS + 0x3040);
	assert_hit(table, AREAS + 0x40a6, "bpf__ops_ssthresh", 0xa7);
	assert_hit(table, AREAS + 0x40a7, "bpf__ops_init", 0x1000);
	assert_no_hit(table, UINT64_MAX);

	assert_int_equal(symtab_lookup(table, TEXT + 1, &hit), 0);
	assert_int_equal(hit.aliases, 1);
	assert_string_equal(symtab_alias(table, &hit, 0)->name, "_text");
	assert_null(symtab_alias(table, &hit, 1));
	symtab_destroy(table);
}

/* The first alias that reaches so far: one symbol of an address may be stale and shorter. */
static void test_lookup_of_longer_alias(void **state)
{
	struct symtab *table = new_table();
	struct symbol stale = bpf_symbol(AREAS, 0x10, SYMBOL_BPF_PROG, "stale");
	struct symbol other = bpf_symbol(AREAS, 0x40, SYMBOL_BPF_PROG, "other");
	struct symtab_hit hit;

	assert_int_equal(symtab_add(table, &stale), 0);
	assert_int_equal(symtab_add(table, &other), 0);
	assert_hit(table, AREAS + 0xf, "stale", 0x10);
	assert_int_equal(symtab_lookup(table, AREAS + 0x10, &hit), 0);
	assert_string_equal(hit.symbol->name, "other");
	assert_int_equal(hit.aliases, 1);
	assert_string_equal(symtab_alias(table, &hit, 0)->name, "stale");
	assert_no_hit(table, AREAS + 0x40);
	symtab_destroy(table);
}

/* What kallsyms has near 0 is no address. */
static void test_offsets(void **state)
{
	struct symtab *table = new_table();
	const struct symbol symbols[] = {
		core_symbol(0, 'A', "__per_cpu_start"),
		core_symbol(0x1000, 'A', "cpu_info"),
		core_symbol(0x3000, 'A', "__per_cpu_end"),
		module_symbol(0x3a000, "percpu_of_module", "dummy"),
		core_symbol(TEXT, 'A', "absolute_but_an_address"),
	};

	assert_int_equal(symtab_add_bound(table, 0, 0x3000), 0);
	assert_int_equal(symtab_add_bound(table, TEXT, TEXT + 0x100), 0);
	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), ARRAY_SIZE(symbols));
	assert_renders(table, SYMTAB_KSYMS,
		       "0000000000000000 0000000000001000 A __per_cpu_start\n"
		       "0000000000001000 0000000000002000 A cpu_info\n"
		       "0000000000003000 0000000000000000 A __per_cpu_end\n"
		       "000000000003a000 0000000000001000 t percpu_of_module\t[dummy]\n"
		       "ffffffff81000000 0000000000000100 A absolute_but_an_address\n");
	assert_no_hit(table, 0);
	assert_no_hit(table, 0x1008);
	assert_no_hit(table, 0x3a001);
	assert_hit(table, TEXT + 0xff, "absolute_but_an_address", 0x100);
	symtab_destroy(table);
}

/* The parts of a module that lie outside of the bound that is known: page by page. */
static void test_module_parts(void **state)
{
	struct symtab *table = new_table();
	const struct symbol symbols[] = {
		module_symbol(AREAS + 0xff0, "text_end", "one"),
		module_symbol(AREAS + 0x5000, "data", "one"),
		module_symbol(AREAS + 0x5ff0, "data_end", "one"),
		module_symbol(AREAS + 0x8010, "init_of_another", "two"),
	};

	assert_int_equal(symtab_add_bound(table, AREAS, AREAS + 0x3000), 0);
	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), ARRAY_SIZE(symbols));
	assert_hit(table, AREAS + 0x2fff, "text_end", 0x2010);
	assert_hit(table, AREAS + 0x5001, "data", 0xff0);
	assert_hit(table, AREAS + 0x5fff, "data_end", 0x10);
	assert_no_hit(table, AREAS + 0x6000);
	assert_hit(table, AREAS + 0x8fff, "init_of_another", 0xff0);

	/* A module that lies where the first one only seemed to reach. */
	assert_int_equal(symtab_add_bound(table, AREAS + 0x1000, AREAS + 0x9000), 0);
	assert_int_equal(symtab_add_bound(table, AREAS + 0x1000, AREAS + 0x2000), -EEXIST);
	assert_hit(table, AREAS + 0xfff, "text_end", 0x10);
	assert_no_hit(table, AREAS + 0x1000);
	assert_int_equal(symtab_remove_bound(table, AREAS + 0x1000), 0);
	assert_hit(table, AREAS + 0x2fff, "text_end", 0x2010);
	symtab_destroy(table);
}

static void test_same_again(void **state)
{
	struct symtab *table = new_table();
	struct symbol symbol = bpf_symbol(TEXT, 0x10, SYMBOL_BPF_PROG, "init");

	symbol.module = NULL;
	assert_int_equal(symtab_add(table, &symbol), 0);
	assert_int_equal(symtab_add(table, &symbol), -EEXIST);
	symbol.module = "m";
	assert_int_equal(symtab_add(table, &symbol), 0);
	assert_int_equal(symtab_add(table, &symbol), -EEXIST);
	assert_int_equal(symtab_generation(table), 3);
	assert_null(symtab_at(table, TEXT, 0)->module);
	assert_int_equal(symtab_remove(table, TEXT, "init", "other"), -ENOENT);
	assert_int_equal(symtab_remove(table, TEXT, "init", "m"), 0);
	assert_int_equal(symtab_remove(table, TEXT, "init", "m"), -ENOENT);
	assert_int_equal(symtab_remove(table, TEXT, "init", NULL), 0);
	assert_int_equal(symtab_count(table), 0);
	symtab_destroy(table);
}

/* The kernel's list has such rows, and each is taken back by itself. */
static void test_rows_twice(void **state)
{
	static const char once[] = "ffffffff81000000 b __key.0\n";
	const struct symbol symbols[] = {core_symbol(TEXT, 'b', "__key.0"),
					 core_symbol(TEXT, 'b', "__key.1"),
					 core_symbol(TEXT, 'b', "__key.0")};
	struct symtab *table = new_table();

	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), 3);
	assert_renders(table, SYMTAB_KALLSYMS,
		       "ffffffff81000000 b __key.0\n"
		       "ffffffff81000000 b __key.1\n"
		       "ffffffff81000000 b __key.0\n");
	assert_int_equal(symtab_remove(table, TEXT, "__key.1", NULL), 0);
	assert_int_equal(symtab_remove(table, TEXT, "__key.0", NULL), 0);
	assert_renders(table, SYMTAB_KALLSYMS, once);
	assert_int_equal(symtab_remove(table, TEXT, "__key.0", NULL), 0);
	assert_int_equal(symtab_add(table, &symbols[0]), 0);
	assert_int_equal(symtab_add(table, &symbols[0]), 0);
	assert_int_equal(symtab_count(table), 2);
	symtab_destroy(table);
}

static void test_update(void **state)
{
	struct symtab *table = new_table();
	struct symbol symbol = bpf_symbol(AREAS, 0, SYMBOL_BPF_PROG, "x");

	assert_int_equal(symtab_update(table, &symbol), -ENOENT);
	assert_int_equal(symtab_add(table, &symbol), 0);

	uint64_t generation = symtab_generation(table);

	symbol.added = 99;
	symbol.prog_id = 12;
	assert_int_equal(symtab_update(table, &symbol), 0);
	assert_int_equal(symtab_generation(table), generation);
	assert_int_equal(symtab_find(table, AREAS, "x", NULL)->added, 99);
	assert_int_equal(symtab_find(table, AREAS, "x", NULL)->prog_id, 12);

	assert_renders(table, SYMTAB_KSYMS, "ffffffffc0000000 0000000000000000 t x\t[bpf]\n");
	symbol.len = 0x9f;
	symbol.kind = SYMBOL_BPF_AUX;
	assert_int_equal(symtab_update(table, &symbol), 0);
	assert_int_equal(symtab_generation(table), generation + 1);
	assert_int_equal(symtab_count_kind(table, SYMBOL_BPF_AUX), 1);
	assert_int_equal(symtab_count_kind(table, SYMBOL_BPF_PROG), 0);
	assert_renders(table, SYMTAB_KSYMS, "ffffffffc0000000 000000000000009f t x\t[bpf]\n");
	symtab_destroy(table);
}

/* What came before stays first; what comes again of BPF's, in one call or the next, is left out. */
static void test_add_all(void **state)
{
	struct symtab *table = new_table();
	const struct symbol first = bpf_symbol(TEXT, 0x10, SYMBOL_BPF_AUX, "early");
	const struct symbol symbols[] = {
		bpf_symbol(TEXT + 0x20, 0x10, SYMBOL_BPF_AUX, "d"),
		bpf_symbol(TEXT, 0x10, SYMBOL_BPF_AUX, "z"),
		bpf_symbol(TEXT + 0x10, 0x10, SYMBOL_BPF_AUX, "c"),
		bpf_symbol(TEXT, 0x10, SYMBOL_BPF_AUX, "a"),
		bpf_symbol(TEXT, 0x10, SYMBOL_BPF_AUX, "early"),
		bpf_symbol(TEXT, 0x10, SYMBOL_BPF_AUX, "z"),
		bpf_symbol(TEXT + 0x10, 0x10, SYMBOL_BPF_AUX, "c"),
		module_symbol(TEXT, "z", "m"),
	};

	assert_int_equal(symtab_add(table, &first), 0);
	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), 5);
	assert_renders(table, SYMTAB_KALLSYMS,
		       "ffffffff81000000 t z\t[m]\n"
		       "ffffffff81000000 t early\t[bpf]\n"
		       "ffffffff81000000 t z\t[bpf]\n"
		       "ffffffff81000000 t a\t[bpf]\n"
		       "ffffffff81000010 t c\t[bpf]\n"
		       "ffffffff81000020 t d\t[bpf]\n");

	uint64_t generation = symtab_generation(table);

	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols) - 1), 0);
	assert_int_equal(symtab_generation(table), generation);
	symtab_destroy(table);
}

static struct symbol freed_symbol(uint64_t addr, uint64_t len, const char *name)
{
	return (struct symbol){.addr = addr,
			       .len = len,
			       .type = 'T',
			       .name = name,
			       .module = "gone",
			       .kind = SYMBOL_FREED};
}

/* Code that was freed and is listed on names what nothing else is at, and cuts nothing. */
static void test_freed(void **state)
{
	struct symtab *table = new_table();
	const struct symbol symbols[] = {
		bpf_symbol(AREAS, 0x100, SYMBOL_BPF_IMAGE, "image"),
		freed_symbol(AREAS, 0x20, "at_start"),
		freed_symbol(AREAS + 0x40, 0x20, "inside"),
		freed_symbol(AREAS + 0xf0, 0x80, "over_end"),
		freed_symbol(AREAS + 0x110, 0x30, "between"),
		freed_symbol(AREAS + 0x120, 0x80, "to_next"),
		module_symbol(AREAS + 0x180, "there", "m"),
		freed_symbol(AREAS + 0x180, 0x10, "at_module"),
		freed_symbol(AREAS + 0x200, 0, "of_no_length"),
	};
	struct symtab_hit hit;

	assert_int_equal(symtab_add_bound(table, AREAS + 0x180, AREAS + 0x1c0), 0);
	assert_int_equal(symtab_add_all(table, symbols, ARRAY_SIZE(symbols)), ARRAY_SIZE(symbols));
	assert_renders(table, SYMTAB_KSYMS,
		       "ffffffffc0000000 0000000000000000 T at_start\t[gone]\n"
		       "ffffffffc0000000 0000000000000100 t image\t[bpf]\n"
		       "ffffffffc0000040 0000000000000000 T inside\t[gone]\n"
		       "ffffffffc00000f0 0000000000000000 T over_end\t[gone]\n"
		       "ffffffffc0000110 0000000000000010 T between\t[gone]\n"
		       "ffffffffc0000120 0000000000000060 T to_next\t[gone]\n"
		       "ffffffffc0000180 0000000000000040 t there\t[m]\n"
		       "ffffffffc0000180 0000000000000000 T at_module\t[gone]\n"
		       "ffffffffc0000200 0000000000000000 T of_no_length\t[gone]\n");
	assert_hit(table, AREAS, "image", 0x100);
	assert_hit(table, AREAS + 0xff, "image", 0x100);
	assert_no_hit(table, AREAS + 0x100);
	assert_hit(table, AREAS + 0x118, "between", 0x10);
	assert_hit(table, AREAS + 0x17f, "to_next", 0x60);
	assert_no_hit(table, AREAS + 0x1c0);
	assert_no_hit(table, AREAS + 0x200);
	/* Nothing is an alias of what was freed, nor the other way around. */
	assert_int_equal(symtab_lookup(table, AREAS + 0x190, &hit), 0);
	assert_string_equal(hit.symbol->name, "there");
	assert_int_equal(hit.aliases, 0);
	assert_null(symtab_alias(table, &hit, 0));

	/* What was there goes, and leaves room. */
	assert_int_equal(symtab_remove(table, AREAS, "image", "bpf"), 0);
	assert_int_equal(symtab_remove(table, AREAS + 0x180, "there", "m"), 0);
	assert_renders(table, SYMTAB_KSYMS,
		       "ffffffffc0000000 0000000000000020 T at_start\t[gone]\n"
		       "ffffffffc0000040 0000000000000020 T inside\t[gone]\n"
		       "ffffffffc00000f0 0000000000000020 T over_end\t[gone]\n"
		       "ffffffffc0000110 0000000000000010 T between\t[gone]\n"
		       "ffffffffc0000120 0000000000000060 T to_next\t[gone]\n"
		       "ffffffffc0000180 0000000000000010 T at_module\t[gone]\n"
		       "ffffffffc0000200 0000000000000000 T of_no_length\t[gone]\n");
	symtab_remove_kind(table, SYMBOL_FREED);
	assert_renders(table, SYMTAB_KSYMS, "");
	symtab_destroy(table);
}

/* As after a list that was refused in the middle: nothing is left, and the table works. */
static void test_clear(void **state)
{
	struct symtab *table = new_table();
	uint64_t generation;

	add_example(table);
	free(rendered(table, SYMTAB_KSYMS));
	generation = symtab_generation(table);
	symtab_clear(table);
	assert_true(symtab_generation(table) > generation);
	assert_int_equal(symtab_count(table), 0);
	assert_int_equal(symtab_count_kind(table, SYMBOL_CORE), 0);
	assert_renders(table, SYMTAB_KSYMS, "");
	assert_no_hit(table, TEXT);
	assert_int_equal(symtab_remove_bound(table, TEXT), -ENOENT);
	add_example(table);
	assert_hit(table, TEXT, "_stext", 0x140);
	symtab_destroy(table);
}

/* More symbols of one address than a leaf holds: still aliases, in order, of one size. */
static void test_many_aliases(void **state)
{
	enum { COUNT = 700 };
	struct symtab *table = new_table();
	struct symbol symbol = core_symbol(TEXT - 0x10, 't', "below");
	struct symtab_hit hit;
	char name[16];

	assert_int_equal(symtab_add(table, &symbol), 0);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", (i * 37) % COUNT);
		symbol = core_symbol(TEXT, 't', name);
		assert_int_equal(symtab_add(table, &symbol), 0);
	}
	/* Rendered before the size of all of them changes. */
	free(rendered(table, SYMTAB_KSYMS));
	symbol = core_symbol(TEXT + 0x30, 't', "above");
	assert_int_equal(symtab_add(table, &symbol), 0);

	assert_int_equal(symtab_lookup(table, TEXT + 0x2f, &hit), 0);
	assert_string_equal(hit.symbol->name, "n0");
	assert_int_equal(hit.aliases, COUNT - 1);
	assert_int_equal(hit.size, 0x30);
	for (int i = 1; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", (i * 37) % COUNT);
		assert_string_equal(symtab_alias(table, &hit, i - 1)->name, name);
	}
	assert_hit(table, TEXT - 1, "below", 0x10);

	char *text = rendered(table, SYMTAB_KSYMS);
	int rows = 0;

	for (char *at = text; (at = strstr(at, " 0000000000000030 t n")); at++)
		rows++;
	assert_int_equal(rows, COUNT);
	free(text);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(symtab_remove(table, TEXT, name, NULL), 0);
	}
	assert_hit(table, TEXT - 1, "below", 0x40);
	symtab_destroy(table);
}

/*
 * Each change next to each symbol of a table that has all its text, so that what changed must be
 * told from what did not, wherever leaves begin and end.
 */
static void test_text_around_changes(void **state)
{
	enum { COUNT = 700 };
	struct symtab *table = new_table();
	bool gone[COUNT] = {};
	char name[16], *text;

	for (int i = 0; i < COUNT; i++) {
		struct symbol symbol = module_symbol(AREAS + i / 2 * 0x20, name, "m");

		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(symtab_add(table, &symbol), 0);
	}

	char *before = rendered(table, SYMTAB_KSYMS);

	/* All of them, in an order that jumps, so that the first to split is split in its end. */
	for (int n = 0; n < COUNT / 2; n++) {
		int i = (n * 101 + 120) % (COUNT / 2);
		struct symbol symbol = module_symbol(AREAS + i * 0x20 + 0x10, "new", "m");
		char expected[3][64];

		assert_int_equal(symtab_add(table, &symbol), 0);
		text = rendered(table, SYMTAB_KSYMS);
		for (int k = 0; k < 2; k++) {
			snprintf(expected[k], sizeof(expected[k]),
				 "%016" PRIx64 " 0000000000000010 t n%d\t[m]\n", symbol.addr - 0x10,
				 2 * i + k);
			assert_non_null(strstr(text, expected[k]));
		}
		snprintf(expected[2], sizeof(expected[2]), "%016" PRIx64 " %016x t new\t[m]\n",
			 symbol.addr, i < COUNT / 2 - 1 ? 0x10 : 0x450);
		assert_non_null(strstr(text, expected[2]));
		free(text);
		assert_int_equal(symtab_remove(table, symbol.addr, "new", "m"), 0);
		assert_renders(table, SYMTAB_KSYMS, before);
	}
	free(before);

	for (int n = 0; n < COUNT; n++) {
		int i = (n * 101 + 120) % COUNT;
		struct symtab *fresh = new_table();

		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(symtab_remove(table, AREAS + i / 2 * 0x20, name, NULL), 0);
		gone[i] = true;
		for (int k = 0; k < COUNT; k++) {
			struct symbol symbol = module_symbol(AREAS + k / 2 * 0x20, name, "m");

			if (gone[k])
				continue;
			snprintf(name, sizeof(name), "n%d", k);
			assert_int_equal(symtab_add(fresh, &symbol), 0);
		}
		for (int format = 0; format <= SYMTAB_KALLSYMS; format++) {
			text = rendered(fresh, format);
			assert_renders(table, format, text);
			free(text);
		}
		symtab_destroy(fresh);
	}
	symtab_destroy(table);
}

/* A bound that comes or goes changes rows in every leaf that it says something of. */
static void test_text_around_bounds(void **state)
{
	enum { COUNT = 900 };
	struct symtab *table = new_table();
	struct symbol symbol;
	char name[16];

	assert_int_equal(symtab_add_bound(table, TEXT, TEXT + 0x100), 0);
	for (int i = 0; i < COUNT; i++) {
		/* 400 symbols, 300 aliases, 200 symbols */
		int slot = i < 400 ? i : i < 700 ? 400 : i - 299;

		snprintf(name, sizeof(name), "n%d", i);
		symbol = core_symbol(AREAS + slot * 0x10, 't', name);
		assert_int_equal(symtab_add(table, &symbol), 0);
	}

	char *bare = rendered(table, SYMTAB_KSYMS);

	assert_int_equal(symtab_add_bound(table, AREAS, AREAS + COUNT * 0x10), 0);

	char *whole = rendered(table, SYMTAB_KSYMS);

	/* One inside the other: what is behind the inner one is in no bound. */
	assert_int_equal(symtab_add_bound(table, AREAS + 0x10, AREAS + 0x28), 0);
	assert_hit(table, AREAS + 0x20, "n2", 8);
	assert_no_hit(table, AREAS + 0x30);

	char *inner = rendered(table, SYMTAB_KSYMS);

	assert_non_null(strstr(whole, "0000000000000010 t n898\n"));
	assert_null(strstr(inner, "0000000000000010 t n898\n"));
	assert_null(strstr(inner, "0000000000000010 t n3\n"));
	free(inner);
	assert_int_equal(symtab_remove_bound(table, AREAS + 0x10), 0);
	assert_renders(table, SYMTAB_KSYMS, whole);
	free(whole);

	/* One that begins right behind many aliases ends them all. */
	assert_int_equal(symtab_add_bound(table, AREAS + 400 * 0x10 + 4, AREAS + COUNT * 0x10), 0);

	char *cut = rendered(table, SYMTAB_KSYMS);
	int rows = 0;

	for (char *at = cut; (at = strstr(at, " 0000000000000004 t n")); at++)
		rows++;
	assert_int_equal(rows, 300);
	free(cut);
	assert_int_equal(symtab_remove_bound(table, AREAS + 400 * 0x10 + 4), 0);
	assert_int_equal(symtab_remove_bound(table, AREAS), 0);
	assert_renders(table, SYMTAB_KSYMS, bare);
	free(bare);
	symtab_destroy(table);
}

/* Modules that come and go, each with names of its own, leave nothing behind. */
static void test_modules_leave_nothing(void **state)
{
	enum { ROUNDS = 200, COUNT = 400 };
	struct symtab *table = new_table();
	struct symbol symbols[COUNT];
	size_t used = 0;

	for (int round = 0; round < ROUNDS; round++) {
		char module[32], name[32];

		snprintf(module, sizeof(module), "module_%d", round);
		snprintf(name, sizeof(name), "a_function_of_module_%d", round);
		for (int i = 0; i < COUNT; i++)
			symbols[i] =
				module_symbol(AREAS + (round % 7 * COUNT + i) * 0x20, name, module);
		assert_int_equal(symtab_add_all(table, symbols, COUNT), COUNT);
		free(rendered(table, SYMTAB_KSYMS));
		for (int i = 0; i < COUNT; i++)
			assert_int_equal(symtab_remove(table, symbols[i].addr, name, module), 0);
		free(rendered(table, SYMTAB_KSYMS));
		if (round == 20)
			used = mallinfo2().uordblks;
	}
	assert_in_range(mallinfo2().uordblks, 0, used + 1024);
	symtab_destroy(table);
}

static int pieces_of(const struct snapshot *snapshot, struct iovec *iov, int max)
{
	int n = snapshot_iov(snapshot, 0, snapshot_size(snapshot), iov, max);

	assert_true(n < max);
	return n;
}

/* The cost of a change: text of the leaves around it, whatever the table holds. */
static void test_unchanged_text_is_shared(void **state)
{
	enum { COUNT = 50000, MAX_PIECES = 1000 };
	struct symtab *table = new_table();
	struct symbol *symbols = calloc(COUNT, sizeof(*symbols));
	struct snapshot *before, *again, *after;
	static struct iovec old[MAX_PIECES], new[MAX_PIECES];

	assert_non_null(symbols);
	for (int i = 0; i < COUNT; i++)
		symbols[i] = core_symbol(TEXT + i * 0x10, 't', "f");
	assert_int_equal(symtab_add_all(table, symbols, COUNT), COUNT);
	free(symbols);
	assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &before), 0);
	assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &again), 0);
	assert_ptr_equal(before, again);

	int count = pieces_of(before, old, MAX_PIECES);

	assert_true(count > 100);
	for (int i = 0; i < 100; i++) {
		struct symbol symbol = core_symbol(TEXT + i * 0x1fa0 + 8, 't', "new");

		assert_int_equal(symtab_add(table, &symbol), 0);
		assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &after), 0);

		int fresh = 0, n = pieces_of(after, new, MAX_PIECES);

		for (int k = 0, o = 0; k < n; k++) {
			int at = o;

			while (at < count && old[at].iov_base != new[k].iov_base)
				at++;
			if (at == count)
				fresh++;
			else
				o = at + 1;
		}
		assert_in_range(fresh, 1, 3);
		assert_int_equal(symtab_remove(table, symbol.addr, "new", NULL), 0);
		snapshot_unref(after);
		/* What was rendered last is what the next round compares with. */
		snapshot_unref(before);
		assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &before), 0);
		count = pieces_of(before, old, MAX_PIECES);
	}
	snapshot_unref(before);
	snapshot_unref(again);
	symtab_destroy(table);
}

/*
 * The same table, written down the plain way: an array, searched from end to end.
 */
#define MODEL_MAX 3000

struct model {
	struct symbol symbols[MODEL_MAX]; /* sorted; names are literals */
	size_t count;
	struct {
		uint64_t start, end;
	} bounds[64];
	size_t bound_count;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % limit;
}

static bool model_same(const struct symbol *a, const struct symbol *b)
{
	return a->addr == b->addr && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->module ?: "-", b->module ?: "-") == 0;
}

static int model_rank(const struct symbol *symbol)
{
	if (symbol->kind == SYMBOL_CORE || symbol->kind == SYMBOL_MODULE)
		return 0;
	return symbol->kind == SYMBOL_FREED ? 1 : 2;
}

static bool model_add(struct model *model, const struct symbol *symbol)
{
	size_t at = 0;

	for (size_t i = 0; i < model->count; i++) {
		if (model_same(&model->symbols[i], symbol) && model_rank(symbol) == 2)
			return false;
		if (model->symbols[i].addr <= symbol->addr)
			at = i + 1;
	}
	while (at > 0 && model->symbols[at - 1].addr == symbol->addr &&
	       model_rank(&model->symbols[at - 1]) > model_rank(symbol))
		at--;
	memmove(&model->symbols[at + 1], &model->symbols[at],
		(model->count - at) * sizeof(*symbol));
	model->symbols[at] = *symbol;
	model->count++;
	return true;
}

/* Where the bound ends that holds addr, or 0. */
static uint64_t model_bound_end(const struct model *model, uint64_t addr)
{
	uint64_t start = 0, end = 0;

	for (size_t i = 0; i < model->bound_count; i++) {
		if (model->bounds[i].start <= addr && model->bounds[i].start >= start) {
			start = model->bounds[i].start;
			end = model->bounds[i].end;
		}
	}
	for (size_t i = 0; i < model->bound_count; i++) {
		if (model->bounds[i].start > start && model->bounds[i].start < end)
			end = model->bounds[i].start;
	}
	return addr < end ? end : 0;
}

static uint64_t model_size(const struct model *model, const struct symbol *symbol)
{
	const struct symbol *next = NULL, *below = NULL;
	bool is_freed = symbol->kind == SYMBOL_FREED;
	uint64_t end, limit = UINT64_MAX;

	for (size_t i = model->count; i-- > 0;) {
		const struct symbol *other = &model->symbols[i];
		bool is_there = other->kind != SYMBOL_FREED;

		if (other->addr > symbol->addr && (is_freed || is_there))
			next = other;
		if (is_freed && is_there && other->addr <= symbol->addr && !below)
			below = other;
	}
	/* No range overlaps another one's. */
	for (const struct symbol *other = below;
	     other && other >= model->symbols && other->addr == below->addr; other--)
		if (other->kind != SYMBOL_FREED &&
		    (other->addr == symbol->addr ||
		     model_size(model, other) > symbol->addr - other->addr))
			return 0;
	/* There is no address behind the last byte. */
	if (symbol->addr == UINT64_MAX)
		return 0;
	if (next)
		limit = next->addr;
	if (symbol->len) {
		end = symbol->addr + symbol->len;
	} else if (symbol->kind == SYMBOL_BPF_PROG || is_freed) {
		end = symbol->addr;
	} else if (symbol->kind >= SYMBOL_BPF_AUX) {
		end = symbol->addr + 4096;
	} else if (model_bound_end(model, symbol->addr)) {
		end = model_bound_end(model, symbol->addr);
	} else if (symbol->kind == SYMBOL_CORE && model->bound_count) {
		end = symbol->addr;
	} else if (next && strcmp(next->module ?: "-", symbol->module ?: "-") == 0 &&
		   !model_bound_end(model, next->addr)) {
		end = limit;
	} else {
		end = (symbol->addr | 4095) + 1;
	}
	return MIN(end, limit) - symbol->addr;
}

static char *model_text(const struct model *model, enum symtab_format format)
{
	struct text text = {};
	char *string;

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *symbol = &model->symbols[i];

		text_printf(&text, "%016" PRIx64 " ", symbol->addr);
		if (format == SYMTAB_KSYMS)
			text_printf(&text, "%016" PRIx64 " ", model_size(model, symbol));
		text_printf(&text, "%c %s", symbol->type, symbol->name);
		if (symbol->module)
			text_printf(&text, "\t[%s]", symbol->module);
		text_putc(&text, '\n');
	}
	assert_int_equal(text_take_string(&text, &string), 0);
	return string;
}

struct visit_check {
	const struct model *model;
	size_t next;
	size_t stop;
};

static int check_visited(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct visit_check *check = arg;
	const struct symbol *expected = &check->model->symbols[check->next];

	if (check->next == check->stop)
		return 17;
	assert_true(check->next < check->model->count);
	assert_true(model_same(symbol, expected));
	assert_int_equal(symbol->len, expected->len);
	assert_int_equal(symbol->kind, expected->kind);
	assert_int_equal(symbol->prog_id, expected->prog_id);
	assert_int_equal(size, model_size(check->model, expected));
	check->next++;
	return 0;
}

static void check_lookup(const struct symtab *table, const struct model *model, uint64_t addr)
{
	const struct symbol *expected = NULL;
	struct symtab_hit hit;
	int r = symtab_lookup(table, addr, &hit);

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *symbol = &model->symbols[i];

		if (!expected && symbol->addr <= addr &&
		    addr - symbol->addr < model_size(model, symbol))
			expected = symbol;
	}
	if (!expected) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	assert_int_equal(r, 0);
	assert_true(model_same(hit.symbol, expected));
	assert_int_equal(hit.size, model_size(model, expected));

	size_t alias = 0;

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *symbol = &model->symbols[i];

		if (symbol->addr == expected->addr && symbol != expected &&
		    symbol->kind != SYMBOL_FREED)
			assert_true(model_same(symtab_alias(table, &hit, alias++), symbol));
	}
	assert_int_equal(hit.aliases, alias);
}

static struct symbol random_symbol(uint32_t addresses)
{
	static const char *const names[] = {"a", "b", "c", "longer_than_the_others"};
	static const char *const modules[] = {NULL, "bpf", "dummy", "__builtin__ftrace"};
	/* Half a page apart at most, and up to the last byte that there is. */
	uint32_t slot = random_below(addresses);
	struct symbol symbol = {
		.addr = slot == 0 ? UINT64_MAX : AREAS + slot * UINT64_C(0x250),
		.len = random_below(2) ? 0 : 1 + random_below(0x600),
		.name = names[random_below(ARRAY_SIZE(names))],
		.module = modules[random_below(ARRAY_SIZE(modules))],
		.type = "tTdR"[random_below(4)],
		.kind = random_below(SYMBOL_FREED + 1),
		.prog_id = random_below(100),
	};

	return symbol;
}

static void change_bounds(struct symtab *table, struct model *model, uint32_t addresses)
{
	uint64_t start = AREAS + random_below(addresses) * UINT64_C(0x250);
	uint64_t end = start + 1 + random_below(0x4000);

	if (random_below(2) && model->bound_count < ARRAY_SIZE(model->bounds)) {
		bool known = false;

		for (size_t i = 0; i < model->bound_count; i++)
			known |= model->bounds[i].start == start;
		assert_int_equal(symtab_add_bound(table, start, end), known ? -EEXIST : 0);
		if (!known) {
			model->bounds[model->bound_count].start = start;
			model->bounds[model->bound_count++].end = end;
		}
	} else if (model->bound_count) {
		size_t i = random_below(model->bound_count);

		assert_int_equal(symtab_remove_bound(table, model->bounds[i].start), 0);
		model->bounds[i] = model->bounds[--model->bound_count];
	}
}

static void add_some(struct symtab *table, struct model *model, uint32_t addresses)
{
	struct symbol symbols[8];
	int count = random_below(ARRAY_SIZE(symbols) + 1), expected = 0;

	for (int i = 0; i < count; i++) {
		symbols[i] = random_symbol(addresses);
		expected += model_add(model, &symbols[i]);
	}
	assert_int_equal(symtab_add_all(table, symbols, count), expected);
}

static void change_something(struct symtab *table, struct model *model, uint32_t addresses,
			     bool growing)
{
	struct symbol symbol = random_symbol(addresses);
	uint32_t what = random_below(16);

	if (what < 1) {
		change_bounds(table, model, addresses);
	} else if (what < 2 && growing) {
		add_some(table, model, addresses);
	} else if (what < (growing ? 11 : 6)) {
		bool added = model_add(model, &symbol);

		assert_int_equal(symtab_add(table, &symbol), added ? 0 : -EEXIST);
	} else if (model->count) {
		size_t i = random_below(model->count);
		struct symbol *known = &model->symbols[i];

		/* The first one is meant, and without a module the first of that name. */
		for (i = 0; model->symbols[i].addr != known->addr ||
			    strcmp(model->symbols[i].name, known->name) != 0 ||
			    (known->module &&
			     strcmp(model->symbols[i].module ?: "-", known->module) != 0);)
			i++;
		known = &model->symbols[i];
		if (what < (growing ? 13 : 7)) {
			/* None is freed by an update. */
			if (known->kind == SYMBOL_FREED || symbol.kind == SYMBOL_FREED)
				symbol.kind = known->kind;
			for (size_t k = 0; k < model->count; k++) {
				if (!model_same(&model->symbols[k], known) ||
				    (model->symbols[k].kind == SYMBOL_FREED) !=
					    (symbol.kind == SYMBOL_FREED))
					continue;
				model->symbols[k].len = symbol.len;
				model->symbols[k].kind = symbol.kind;
				model->symbols[k].prog_id = symbol.prog_id;
			}
			assert_int_equal(symtab_update(table, known), 0);
		} else {
			assert_int_equal(
				symtab_remove(table, known->addr, known->name, known->module), 0);
			model->count--;
			memmove(known, known + 1, (model->count - i) * sizeof(*known));
		}
	}
}

static void check_all(struct symtab *table, const struct model *model, uint32_t addresses)
{
	for (int i = 0; i < 20; i++)
		check_lookup(table, model, AREAS + random_below(addresses * 0x250 + 0x2000));
	check_lookup(table, model, UINT64_MAX);

	struct visit_check check = {model, 0, SIZE_MAX};
	uint64_t start = AREAS + random_below(addresses * 0x250);

	assert_int_equal(symtab_visit(table, 0, check_visited, &check), 0);
	assert_int_equal(check.next, model->count);

	while (check.next > 0 && model->symbols[check.next - 1].addr >= start)
		check.next--;
	check.stop = model->count > 0 ? model->count - 1 : SIZE_MAX;
	assert_int_equal(symtab_visit(table, start, check_visited, &check),
			 check.next <= check.stop && model->count > 0 &&
					 model->symbols[model->count - 1].addr >= start
				 ? 17
				 : 0);

	size_t kinds = 0;

	for (int kind = 0; kind <= SYMBOL_FREED; kind++)
		kinds += symtab_count_kind(table, kind);
	assert_int_equal(kinds, model->count);
	assert_int_equal(symtab_count(table), model->count);
}

/* Snapshots taken on the way, and what they said then. */
struct kept {
	struct snapshot *snapshot;
	char *text;
};

static void check_kept(struct kept *kept)
{
	if (!kept->snapshot)
		return;

	size_t len = strlen(kept->text);
	char *now = malloc(len + 1);

	assert_non_null(now);
	assert_int_equal(snapshot_size(kept->snapshot), len);
	assert_int_equal(snapshot_read(kept->snapshot, 0, now, len), len);
	assert_memory_equal(now, kept->text, len);
	free(now);
	snapshot_unref(kept->snapshot);
	free(kept->text);
}

/* Random changes of a table of up to `addresses` addresses, against the model. */
static void check_against_model(uint64_t seed, uint32_t addresses, int steps, int check_every)
{
	static struct model model;
	struct symtab *table = new_table();
	struct kept kept[10] = {};

	memset(&model, 0, sizeof(model));
	random_state = seed;

	uint64_t generation = symtab_generation(table);
	char *text = strdup("");

	for (int step = 0; step < steps; step++) {
		bool growing = step < steps * 3 / 5 && model.count < MODEL_MAX - 10;

		change_something(table, &model, addresses, growing);
		if (step % check_every)
			continue;

		char *expected = model_text(&model, SYMTAB_KSYMS);
		bool changed = strcmp(expected, text) != 0;

		assert_renders(table, SYMTAB_KSYMS, expected);
		free(text);
		text = expected;
		expected = model_text(&model, SYMTAB_KALLSYMS);
		assert_renders(table, SYMTAB_KALLSYMS, expected);
		free(expected);
		if (check_every == 1)
			assert_int_equal(symtab_generation(table) > generation, changed);
		generation = symtab_generation(table);
		check_all(table, &model, addresses);

		struct kept *slot = &kept[random_below(ARRAY_SIZE(kept))];

		check_kept(slot);
		assert_int_equal(symtab_render(table, SYMTAB_KSYMS, &slot->snapshot), 0);
		slot->text = strdup(text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		check_kept(&kept[i]);
	free(text);
	symtab_destroy(table);
}

static void test_model_small(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		check_against_model(seed, 5 + seed, 400, 1);
}

static void test_model_large(void **state)
{
	/* Few addresses: aliases that straddle leaves. Many: splits and merges. */
	check_against_model(100, 40, 6000, 97);
	check_against_model(101, 3000, 8000, 401);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_kallsyms_format),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_lookup_of_longer_alias),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_module_parts),
		cmocka_unit_test(test_same_again),
		cmocka_unit_test(test_rows_twice),
		cmocka_unit_test(test_update),
		cmocka_unit_test(test_add_all),
		cmocka_unit_test(test_freed),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_many_aliases),
		cmocka_unit_test(test_text_around_changes),
		cmocka_unit_test(test_text_around_bounds),
		cmocka_unit_test(test_modules_leave_nothing),
		cmocka_unit_test(test_unchanged_text_is_shared),
		cmocka_unit_test(test_model_small),
		cmocka_unit_test(test_model_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
