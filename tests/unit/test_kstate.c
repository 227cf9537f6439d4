/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The effect of records, in order and out of it. */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/kstate.h"

#define BASE   UINT64_C(0xffffffffc0000000)
#define MARGIN 1000

static int gone(void *arg, uint32_t id, struct prog **ret)
{
	return -ENOENT;
}

static uint64_t unknown_len(void *arg, uint64_t addr, const char *name)
{
	return 0;
}

static int cannot_ask(void *arg, uint64_t addr, uint64_t *ret_start, uint64_t *ret_len,
		      char ret_name[512])
{
	return -ENOENT;
}

static void no_comm(void *arg, uint32_t pid, char ret[16])
{
	ret[0] = '\0';
}

static const struct kstate_ops blind = {gone, unknown_len, cannot_ask, no_comm};

struct fixture {
	struct blob_pool *pool;
	struct kstate state;
};

static void start_with(struct fixture *fixture, const struct kstate_ops *ops, void *arg)
{
	assert_int_equal(blob_pool_create(&fixture->pool), 0);
	assert_int_equal(kstate_init(&fixture->state, fixture->pool, 1 << 20, 1, ops, arg), 0);
}

static void stop(struct fixture *fixture)
{
	assert_int_equal(fixture->state.out_of_memory, 0);
	kstate_deinit(&fixture->state);
	blob_pool_destroy(fixture->pool);
}

static struct record ksymbol(uint64_t time, uint64_t addr, uint32_t len, const char *name,
			     bool unregister)
{
	return (struct record){
		.kind = RECORD_KSYMBOL,
		.time = time,
		.pid = 11,
		.tid = 11,
		.ksymbol = {.addr = addr,
			    .len = len,
			    .type = PERF_RECORD_KSYMBOL_TYPE_BPF,
			    .name = name,
			    .unregister = unregister},
	};
}

static struct record bpf_event(uint64_t time, uint32_t id, uint16_t type)
{
	struct record record = {
		.kind = RECORD_BPF_EVENT, .time = time, .pid = 11, .tid = 11, .bpf = {id, type}};

	memcpy(record.bpf.tag, "\x00\x01\x02\x03\x04\x05\x06\x07", 8);
	return record;
}

static void apply(struct fixture *fixture, struct record record)
{
	kstate_apply(&fixture->state, &record);
}

static void assert_ksyms(struct fixture *fixture, const char *expected)
{
	CLEANUP(snapshot_cleanup) struct snapshot *snapshot = NULL;
	char text[4096];

	assert_int_equal(symtab_render(fixture->state.symbols, SYMTAB_KSYMS, &snapshot), 0);
	text[snapshot_read(snapshot, 0, text, sizeof(text) - 1)] = '\0';
	assert_string_equal(text, expected);
}

/* The name at addr at that time: from the table, else from history; "" for none. */
static const char *name_at(struct fixture *fixture, uint64_t addr, uint64_t time)
{
	struct symtab_hit hit;

	return kstate_resolve(&fixture->state, addr, time, &hit) == 0 ? hit.symbol->name : "";
}

static void assert_events(struct fixture *fixture, const char *expected)
{
	char text[4096];
	ssize_t len = eventlog_read(fixture->state.events, 0, text, sizeof(text) - 1);

	assert_true(len >= 0);
	text[len] = '\0';
	assert_string_equal(text, expected);
}

static void test_load_and_unload(void **state)
{
	struct fixture f;

	start_with(&f, &blind, NULL);
	apply(&f, ksymbol(1000000100, BASE, 0x13, "bpf_prog_0001020304050607_x", false));
	apply(&f, bpf_event(1000000200, 5, PERF_BPF_EVENT_PROG_LOAD));
	assert_ksyms(&f,
		     "ffffffffc0000000 0000000000000013 t bpf_prog_0001020304050607_x\t[bpf]\n");
	assert_true(prog_is_loaded(progset_find(f.state.programs, 5)));
	assert_int_equal(symtab_at(f.state.symbols, BASE, 0)->prog_id, 5);

	apply(&f, ksymbol(2000000000, BASE, 0x13, "bpf_prog_0001020304050607_x", true));
	apply(&f, bpf_event(2000000001, 5, PERF_BPF_EVENT_PROG_UNLOAD));
	assert_ksyms(&f, "");
	assert_false(prog_is_loaded(progset_find(f.state.programs, 5)));

	assert_string_equal(name_at(&f, BASE, 1000000099), "");
	assert_string_equal(name_at(&f, BASE, 1000000100), "bpf_prog_0001020304050607_x");
	assert_string_equal(name_at(&f, BASE + 0x12, 1999999999), "bpf_prog_0001020304050607_x");
	assert_string_equal(name_at(&f, BASE + 0x13, 1999999999), "");
	assert_string_equal(name_at(&f, BASE, 2000000000), "");
	assert_events(
		&f, "1.000000100 ksym-add ffffffffc0000000 0000000000000013 "
		    "bpf_prog_0001020304050607_x pid=11 comm=-\n"
		    "1.000000200 prog-load id=5 tag=0001020304050607 type=- name=- pid=11 comm=-\n"
		    "2.000000000 ksym-del ffffffffc0000000 0000000000000013 "
		    "bpf_prog_0001020304050607_x\n"
		    "2.000000001 prog-unload id=5 tag=0001020304050607\n");
	stop(&f);
}

/* Programs of unprivileged users have no name in their record; ones that are not JITed, no length.
 */
static void test_unnamed(void **state)
{
	struct fixture f;

	start_with(&f, &blind, NULL);
	apply(&f, ksymbol(100, BASE, 0x20, "", false));
	assert_ksyms(&f, "");
	apply(&f, bpf_event(101, 5, PERF_BPF_EVENT_PROG_LOAD));
	assert_ksyms(&f, "ffffffffc0000000 0000000000000020 t bpf_prog_0001020304050607\t[bpf]\n");
	apply(&f, ksymbol(200, BASE, 0x20, "", true));
	apply(&f, bpf_event(201, 5, PERF_BPF_EVENT_PROG_UNLOAD));
	assert_ksyms(&f, "");
	assert_string_equal(name_at(&f, BASE, 150), "bpf_prog_0001020304050607");

	apply(&f, ksymbol(300, 0xffffffff81000000, 0, "", false));
	apply(&f, bpf_event(301, 6, PERF_BPF_EVENT_PROG_LOAD));
	assert_ksyms(&f, "");
	assert_int_equal(progset_find(f.state.programs, 6)->func_count, 0);
	stop(&f);
}

/* An address is reused at once, and the old one's removal is seen last. */
static void test_late_removal(void **state)
{
	struct fixture f;

	start_with(&f, &blind, NULL);
	apply(&f, ksymbol(100, BASE, 0x20, "bpf_trampoline_1", false));
	apply(&f, ksymbol(300, BASE, 0x10, "bpf_trampoline_2", false));
	apply(&f, ksymbol(200, BASE, 0x20, "bpf_trampoline_1", true));
	assert_ksyms(&f, "ffffffffc0000000 0000000000000010 t bpf_trampoline_2\t[bpf]\n");
	assert_string_equal(name_at(&f, BASE + 0x1f, 199), "bpf_trampoline_1");
	assert_string_equal(name_at(&f, BASE, 200), "");
	assert_string_equal(name_at(&f, BASE, 299), "");
	assert_string_equal(name_at(&f, BASE, 300), "bpf_trampoline_2");
	stop(&f);
}

/* What a baseline saw is mended by the records that were written meanwhile. */
static void test_replay_over_baseline(void **state)
{
	struct symbol seen = {.addr = BASE,
			      .len = 0x20,
			      .name = "bpf_trampoline_2",
			      .module = "bpf",
			      .type = 't',
			      .kind = SYMBOL_BPF_IMAGE};
	struct fixture f;

	start_with(&f, &blind, NULL);
	assert_int_equal(kstate_found_symbol(&f.state, &seen, 250, false), 1);
	apply(&f, ksymbol(100, BASE, 0x20, "bpf_trampoline_1", false));
	apply(&f, ksymbol(150, BASE, 0x20, "bpf_trampoline_1", true));
	apply(&f, ksymbol(200, BASE, 0x20, "bpf_trampoline_2", false));
	assert_ksyms(&f, "ffffffffc0000000 0000000000000020 t bpf_trampoline_2\t[bpf]\n");
	assert_string_equal(name_at(&f, BASE, 120), "bpf_trampoline_1");
	assert_string_equal(name_at(&f, BASE, 150), "");
	assert_string_equal(name_at(&f, BASE, 200), "bpf_trampoline_2");
	apply(&f, ksymbol(260, BASE, 0x20, "bpf_trampoline_2", true));
	assert_ksyms(&f, "");
	stop(&f);
}

/* An image where the kernel still lists a module's init function, freed or not known to be. */
static void check_image_over_init(enum symbol_kind kind)
{
	const struct symbol init = {.addr = BASE,
				    .len = 0x20,
				    .name = "dummy_init_module",
				    .module = "dummy",
				    .type = 'T',
				    .kind = kind};
	struct fixture f;

	start_with(&f, &blind, NULL);
	assert_int_equal(symtab_add(f.state.symbols, &init), 0);
	apply(&f, ksymbol(100, BASE, 0x20, "bpf_trampoline_1", false));
	apply(&f, ksymbol(150, BASE, 0x20, "bpf_trampoline_1", true));
	apply(&f, ksymbol(200, BASE, 0x20, "bpf_trampoline_2", false));
	assert_null(symtab_find(f.state.symbols, BASE, "bpf_trampoline_1", NULL));
	assert_non_null(symtab_find(f.state.symbols, BASE, "bpf_trampoline_2", NULL));
	apply(&f, ksymbol(250, BASE, 0x20, "bpf_trampoline_2", true));
	assert_int_equal(symtab_count(f.state.symbols), 1);
	if (kind == SYMBOL_FREED)
		assert_string_equal(name_at(&f, BASE, 120), "bpf_trampoline_1");
	assert_string_equal(name_at(&f, BASE, UINT64_MAX), "dummy_init_module");
	stop(&f);
}

static void test_image_over_init(void **state)
{
	check_image_over_init(SYMBOL_MODULE);
	check_image_over_init(SYMBOL_FREED);
}

/* The kernel does not list any more what a module had at another's symbol: that one stays. */
static void test_module_over_core(void **state)
{
	const struct symbol core = {
		.addr = BASE, .name = "__fentry__", .type = 'T', .kind = SYMBOL_CORE};
	const struct symbol other = {.addr = BASE,
				     .name = "__fentry__",
				     .module = "dummy",
				     .type = 't',
				     .kind = SYMBOL_MODULE};
	struct fixture f;

	start_with(&f, &blind, NULL);
	assert_int_equal(symtab_add(f.state.symbols, &core), 0);
	assert_int_equal(symtab_add(f.state.symbols, &other), 0);
	assert_int_equal(kstate_missed_removal(&f.state, BASE, "__fentry__", "dummy", 100, false),
			 1);
	assert_int_equal(kstate_missed_removal(&f.state, BASE, "__fentry__", "dummy", 100, false),
			 0);
	assert_int_equal(symtab_count(f.state.symbols), 1);
	assert_null(symtab_find(f.state.symbols, BASE, "__fentry__", NULL)->module);
	stop(&f);
}

static void find_program(struct fixture *f, uint32_t id, const char *symbol, uint64_t seen)
{
	const uint8_t tag[BPF_TAG_SIZE] = {id};
	struct prog_func *func = calloc(1, sizeof(*func));
	struct prog *prog;

	assert_non_null(func);
	*func = (struct prog_func){.addr = BASE, .len = 0x20, .symbol = strdup(symbol)};
	assert_non_null(func->symbol);
	assert_int_equal(prog_from_records(id, tag, func, 1, 0, &prog), 0);
	prog->loaded_mono = seen - 10;
	assert_int_equal(kstate_found_program(&f->state, prog, seen, false), 1);
}

/*
 * Without records, a program is found where the last look found another, and the next look finds
 * both gone: they were there last just before the look that found the second.
 */
static void test_found_and_gone(void **state)
{
	struct fixture f;

	start_with(&f, &blind, NULL);
	find_program(&f, 1, "bpf_prog_0100000000000000_a", 100);
	find_program(&f, 2, "bpf_prog_0200000000000000_b", 200);
	assert_ksyms(&f,
		     "ffffffffc0000000 0000000000000020 t bpf_prog_0200000000000000_b\t[bpf]\n");
	kstate_missed_unload(&f.state, 1, 195);
	assert_ksyms(&f,
		     "ffffffffc0000000 0000000000000020 t bpf_prog_0200000000000000_b\t[bpf]\n");
	kstate_missed_unload(&f.state, 2, 195);
	assert_ksyms(&f, "");
	assert_string_equal(name_at(&f, BASE, 150), "bpf_prog_0100000000000000_a");
	stop(&f);
}

static void apply_remains_at(struct fixture *f, uint64_t loaded, uint64_t freed, const char *tag,
			     char content)
{
	struct remains_func func = {.addr = BASE, .len = 1};
	struct bpf_insn insn = {.code = BPF_JMP | BPF_EXIT};
	struct remains remains = {
		.head = {.freed = freed, .funcs = 1, .insns = 1},
		.loaded_mono = loaded,
		.funcs = &func,
		.insns = &insn,
		.jited = (uint8_t *)&content,
		.jited_len = 1,
	};

	memcpy(remains.head.tag, tag, BPF_TAG_SIZE);
	kstate_apply_remains(&f->state, &remains);
}

/* What remains of programs that follow each other at one address goes to the one that it is of. */
static void test_remains(void **state)
{
	static const char tag[] = "\x00\x01\x02\x03\x04\x05\x06\x07";
	static const char other[] = "another";
	struct fixture f;

	start_with(&f, &blind, NULL);
	for (uint32_t id = 1; id <= 3; id++) {
		apply(&f, ksymbol(id * 100, BASE, 0x20, "bpf_prog_0001020304050607_a", false));
		apply(&f, bpf_event(id * 100 + 1, id, PERF_BPF_EVENT_PROG_LOAD));
		apply(&f, ksymbol(id * 100 + 50, BASE, 0x20, "bpf_prog_0001020304050607_a", true));
		apply(&f, bpf_event(id * 100 + 51, id, PERF_BPF_EVENT_PROG_UNLOAD));
	}
	uint64_t before = f.state.parts[KSTATE_PROGRAMS].generation;

	/* Of none of them: freed before the unload, loaded after the record of it, another tag. */
	apply_remains_at(&f, 90, 140, tag, 'x');
	apply_remains_at(&f, 205, 290, tag, 'x');
	apply_remains_at(&f, 90, 190, other, 'x');
	apply_remains_at(&f, 10, 20, tag, 'x');
	assert_int_equal(f.state.recovered, 0);
	assert_int_equal(f.state.parts[KSTATE_PROGRAMS].generation, before);
	/* The load of the second began before the first was gone. */
	apply_remains_at(&f, 90, 260, tag, '2');
	apply_remains_at(&f, 80, 190, tag, '1');
	/* A second time, as if it had been captured. */
	apply_remains_at(&f, 90, 260, tag, 'x');
	assert_int_equal(f.state.recovered, 2);
	assert_int_not_equal(f.state.parts[KSTATE_PROGRAMS].generation, before);
	for (uint32_t id = 1; id <= 2; id++) {
		const struct prog *prog = progset_find(f.state.programs, id);

		assert_true(prog->captured && prog->at_unload);
		assert_false(prog_is_loaded(prog));
		assert_int_equal(prog->loaded_mono, id * 100 + 1);
		assert_int_equal(*(const char *)prog->jited->data, '0' + (int)id);
	}
	assert_false(progset_find(f.state.programs, 3)->captured);
	stop(&f);
}

static void test_expiry(void **state)
{
	struct fixture f;
	char name[64];

	start_with(&f, &blind, NULL);
	for (uint32_t i = 1; i <= 100; i++) {
		snprintf(name, sizeof(name), "bpf_prog_0001020304050607_%u", i);
		apply(&f, ksymbol(i * 1000, BASE, 0x20, name, false));
		apply(&f, bpf_event(i * 1000 + 1, i, PERF_BPF_EVENT_PROG_LOAD));
		apply(&f, ksymbol(i * 1000 + 500, BASE, 0x20, name, true));
		apply(&f, bpf_event(i * 1000 + 501, i, PERF_BPF_EVENT_PROG_UNLOAD));
	}
	/* By time: what was unloaded 50 or more units of 1000 ago. */
	uint64_t due = kstate_expire(&f.state, 100501, 50000, SIZE_MAX);

	assert_null(progset_find(f.state.programs, 50));
	assert_non_null(progset_find(f.state.programs, 51));
	assert_int_equal(due, 51501 - 1 + 50000);
	assert_string_equal(name_at(&f, BASE, 50400), "");
	assert_string_equal(name_at(&f, BASE, 51400), "bpf_prog_0001020304050607_51");
	assert_true(f.state.history_since <= 51400);

	/* By bytes: half of what is held now, oldest first. */
	size_t bytes = progset_retained_bytes(f.state.programs) + history_bytes(f.state.history);

	kstate_expire(&f.state, 100501, 50000, bytes / 2);
	assert_true(progset_retained_bytes(f.state.programs) + history_bytes(f.state.history) <=
		    bytes / 2);
	assert_null(progset_find(f.state.programs, 70));
	assert_non_null(progset_find(f.state.programs, 100));
	/* For ever: nothing goes, and no timer is due in the past. */
	size_t held = progset_retained(f.state.programs);

	due = kstate_expire(&f.state, 100501, UINT64_MAX, SIZE_MAX);
	assert_true(due > 100501);
	assert_int_equal(progset_retained(f.state.programs), held);

	kstate_expire(&f.state, 100501, 50000, 0);
	assert_int_equal(progset_retained(f.state.programs), 0);
	assert_int_equal(history_count(f.state.history), 0);
	stop(&f);
}

/*
 * A timeline of programs that come and go at few addresses, its records applied in a random order:
 * the end is that of the right order, for the present and for every moment of the past.
 */
#define PROGRAMS  60
#define ADDRESSES 5

struct life {
	uint64_t from, to; /* to 0: still loaded */
	uint64_t addr;
	char name[64];
};

static uint32_t draw(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static size_t make_timeline(uint32_t *seed, struct life *lives, struct record *records)
{
	uint64_t free_from[ADDRESSES] = {};
	uint64_t time = MARGIN;
	size_t count = 0;

	for (uint32_t i = 0; i < PROGRAMS; i++) {
		uint32_t slot = draw(seed) % ADDRESSES;
		struct life *life = &lives[i];

		while (free_from[slot] == UINT64_MAX)
			slot = (slot + 1) % ADDRESSES;
		time = MAX(time, free_from[slot]) + 1 + draw(seed) % 20;
		*life = (struct life){.from = time, .addr = BASE + slot * 0x40};
		snprintf(life->name, sizeof(life->name), "bpf_prog_0001020304050607_%u",
			 draw(seed) % 3);
		records[count] = ksymbol(time, life->addr, 0x40, life->name, false);
		records[count].tid = i + 1;
		count++;
		records[count] = bpf_event(time, i + 1, PERF_BPF_EVENT_PROG_LOAD);
		records[count].tid = i + 1;
		count++;
		/* At most all but one address end up taken for good. */
		if (i >= PROGRAMS - ADDRESSES + 1 && draw(seed) % 2) {
			free_from[slot] = UINT64_MAX;
			continue;
		}
		life->to = time + 1 + draw(seed) % 30;
		free_from[slot] = life->to;
		records[count++] = ksymbol(life->to, life->addr, 0x40, life->name, true);
		records[count++] = bpf_event(life->to, i + 1, PERF_BPF_EVENT_PROG_UNLOAD);
	}
	return count;
}

static const char *true_name(const struct life *lives, uint64_t addr, uint64_t time)
{
	for (int i = 0; i < PROGRAMS; i++)
		if (addr >= lives[i].addr && addr < lives[i].addr + 0x40 && time >= lives[i].from &&
		    (!lives[i].to || time < lives[i].to))
			return lives[i].name;
	return "";
}

/* Mixes the records up to `reach` places far. */
static void shuffle(uint32_t *seed, struct record *records, size_t count, size_t reach)
{
	for (size_t i = 0; i < count; i++) {
		size_t other = i + draw(seed) % reach;
		struct record saved = records[i];

		if (other >= count)
			continue;
		records[i] = records[other];
		records[other] = saved;
	}
}

static void test_any_order(void **state)
{
	static struct life lives[PROGRAMS];
	static struct record records[PROGRAMS * 4];

	for (uint32_t round = 0; round < 400; round++) {
		uint32_t seed = round;
		size_t count = make_timeline(&seed, lives, records);
		struct fixture f;

		shuffle(&seed, records, count, round % 2 ? 6 : count);
		start_with(&f, &blind, NULL);
		for (size_t i = 0; i < count; i++)
			apply(&f, records[i]);
		for (uint64_t addr = BASE; addr < BASE + ADDRESSES * 0x40; addr += 0x20)
			for (uint64_t time = MARGIN - 1; time < MARGIN + PROGRAMS * 60; time++)
				assert_string_equal(name_at(&f, addr, time),
						    true_name(lives, addr, time));
		for (uint32_t i = 0; i < PROGRAMS; i++) {
			const struct prog *prog = progset_find(f.state.programs, i + 1);

			assert_non_null(prog);
			assert_int_equal(prog_is_loaded(prog), lives[i].to == 0);
		}
		stop(&f);
	}
}

#define FIRST "bpf_prog_0f0f0f0f0f0f0f0f_F"
#define WHOLE "bpf_prog_0001020304050607_x"

static int two_functions(void *arg, uint32_t id, struct prog **ret)
{
	static const uint8_t tag[BPF_TAG_SIZE] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct prog_func *funcs = calloc(2, sizeof(*funcs));

	assert_non_null(funcs);
	funcs[0] = (struct prog_func){.addr = BASE, .len = 0x20, .symbol = strdup(WHOLE)};
	funcs[1] = (struct prog_func){
		.addr = BASE + 0x40, .len = 0x10, .symbol = strdup("bpf_prog_1111111111111111_F")};
	memcpy(funcs[0].tag, tag, sizeof(tag));
	assert_int_equal(prog_from_records(id, tag, funcs, 2, 0, ret), 0);
	(*ret)->first_symbol = strdup(FIRST);
	return 0;
}

/* What a kernel before 6.4 lists of a program of two functions, and one since. */
#define ROWS_SINCE                                                                                 \
	"ffffffffc0000000 0000000000000020 t " WHOLE "\t[bpf]\n"                                   \
	"ffffffffc0000040 0000000000000010 t bpf_prog_1111111111111111_F\t[bpf]\n"
#define ROWS_BEFORE "ffffffffc0000000 0000000000000020 t " FIRST "\t[bpf]\n" ROWS_SINCE

static void load_two_functions(struct fixture *f, uint64_t time, const char *first)
{
	apply(f, ksymbol(time, BASE, 0x20, first, false));
	apply(f, ksymbol(time + 1, BASE + 0x40, 0x10, "bpf_prog_1111111111111111_F", false));
	apply(f, bpf_event(time + 2, 5, PERF_BPF_EVENT_PROG_LOAD));
}

/* The name in the first function's record tells what the kernel lists. */
static void test_first_function(void **state)
{
	static const struct kstate_ops seeing = {two_functions, unknown_len, cannot_ask, no_comm};
	struct fixture f;

	start_with(&f, &seeing, NULL);
	load_two_functions(&f, 100, WHOLE);
	assert_ksyms(&f, ROWS_SINCE);
	stop(&f);

	start_with(&f, &seeing, NULL);
	load_two_functions(&f, 100, FIRST);
	assert_ksyms(&f, ROWS_BEFORE);
	apply(&f, ksymbol(200, BASE, 0x20, FIRST, true));
	apply(&f, ksymbol(201, BASE + 0x40, 0x10, "bpf_prog_1111111111111111_F", true));
	assert_ksyms(&f, "");
	assert_string_equal(name_at(&f, BASE, 199), WHOLE);
	assert_string_equal(name_at(&f, BASE, 200), "");
	stop(&f);
}

/* Programs that were there before: kallsyms tells, and their records may still come. */
static void test_first_function_found(void **state)
{
	const struct symbol row = {.addr = BASE, .name = FIRST, .module = "bpf", .type = 't'};
	const struct symbol other = {.addr = BASE, .name = WHOLE, .module = "bpf", .type = 't'};
	struct prog *prog;
	struct fixture f;

	start_with(&f, &blind, NULL);
	two_functions(NULL, 5, &prog);
	assert_int_equal(kstate_found_program(&f.state, prog, 150, false), 1);
	kstate_found_row(&f.state, &other);
	assert_ksyms(&f, ROWS_SINCE);
	kstate_found_row(&f.state, &row);
	assert_ksyms(&f, ROWS_BEFORE);
	load_two_functions(&f, 100, FIRST);
	assert_ksyms(&f, ROWS_BEFORE);
	assert_string_equal(name_at(&f, BASE, 100), FIRST);
	apply(&f, bpf_event(200, 5, PERF_BPF_EVENT_PROG_UNLOAD));
	assert_ksyms(&f, "");
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load_and_unload),
		cmocka_unit_test(test_unnamed),
		cmocka_unit_test(test_late_removal),
		cmocka_unit_test(test_replay_over_baseline),
		cmocka_unit_test(test_found_and_gone),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_first_function),
		cmocka_unit_test(test_first_function_found),
		cmocka_unit_test(test_image_over_init),
		cmocka_unit_test(test_module_over_core),
		cmocka_unit_test(test_remains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
