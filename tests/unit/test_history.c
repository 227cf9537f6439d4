/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/history.h"

#define AREAS UINT64_C(0xffffffffc0000000)

static struct history *new_history(void)
{
	struct history *history;

	assert_int_equal(history_create(&history), 0);
	return history;
}

static struct symbol symbol_of(uint64_t addr, uint64_t len, uint64_t added, const char *name)
{
	return (struct symbol){.addr = addr,
			       .len = len,
			       .added = added,
			       .name = name,
			       .module = "bpf",
			       .type = 't',
			       .kind = SYMBOL_BPF_PROG,
			       .prog_id = added};
}

static void add(struct history *history, uint64_t addr, uint64_t len, uint64_t added,
		uint64_t removed, const char *name)
{
	struct symbol symbol = symbol_of(addr, len, added, name);

	assert_int_equal(history_add(history, &symbol, removed), 0);
}

static void assert_was(const struct history *history, uint64_t addr, uint64_t time,
		       const char *name, uint64_t removed)
{
	const struct symbol *symbol;
	uint64_t until;

	assert_int_equal(history_lookup(history, addr, time, &symbol, &until), 0);
	assert_string_equal(symbol->name, name);
	assert_string_equal(symbol->module, "bpf");
	assert_int_equal(until, removed);
}

static void assert_was_nothing(const struct history *history, uint64_t addr, uint64_t time)
{
	const struct symbol *symbol;
	uint64_t until;

	assert_int_equal(history_lookup(history, addr, time, &symbol, &until), -ENOENT);
}

static void test_empty(void **state)
{
	struct history *history = new_history();
	struct symbol symbol = symbol_of(AREAS, 1, 1, "x");
	uint64_t end;

	assert_int_equal(history_count(history), 0);
	assert_int_equal(history_bytes(history), 0);
	assert_int_equal(history_oldest(history), 0);
	assert_was_nothing(history, 0, 0);
	assert_was_nothing(history, UINT64_MAX, UINT64_MAX);
	assert_int_equal(history_complete(history, &symbol), -ENOENT);
	assert_int_equal(history_close(history, AREAS, "x", 1, &end), -ENOENT);
	history_expire(history, UINT64_MAX);
	history_destroy(history);
	history_destroy(NULL);
}

/* One address used by A, then by B: each in its time, to the nanosecond. */
static void test_reused_address(void **state)
{
	struct history *history = new_history();

	add(history, AREAS, 0x10, 100, 200, "a");
	add(history, AREAS, 0x40, 200, 300, "b");
	add(history, AREAS + 0x10, 0x10, 150, 180, "c");
	assert_was_nothing(history, AREAS, 99);
	assert_was(history, AREAS, 100, "a", 200);
	assert_was(history, AREAS + 0xf, 199, "a", 200);
	assert_was_nothing(history, AREAS + 0x10, 149);
	assert_was(history, AREAS + 0x10, 150, "c", 180);
	assert_was_nothing(history, AREAS + 0x10, 180);
	assert_was(history, AREAS, 200, "b", 300);
	assert_was(history, AREAS + 0x3f, 299, "b", 300);
	assert_was_nothing(history, AREAS + 0x40, 299);
	assert_was_nothing(history, AREAS, 300);
	assert_was_nothing(history, AREAS - 1, 200);
	assert_int_equal(history_count(history), 3);
	assert_int_equal(history_oldest(history), 180);

	struct symbol backwards = symbol_of(AREAS, 1, 5, "x");

	assert_int_equal(history_add(history, &backwards, 4), -EINVAL);
	assert_int_equal(history_count(history), 3);
	history_destroy(history);
}

static void test_complete(void **state)
{
	struct history *history = new_history();
	struct symbol late = symbol_of(AREAS, 0x20, 250, "a");

	late.kind = SYMBOL_BPF_IMAGE;
	late.observed = true;
	add(history, AREAS, 0, 0, 200, "a");
	add(history, AREAS, 0, 0, 400, "a");
	add(history, AREAS, 0, 0, 300, "a");
	add(history, AREAS, 0x8, 0, 290, "b");
	assert_was_nothing(history, AREAS, 199);
	assert_was_nothing(history, AREAS, 0);

	assert_int_equal(history_complete(history, &late), 0);
	assert_was_nothing(history, AREAS, 249);
	assert_was(history, AREAS + 0x1f, 250, "a", 300);
	assert_was_nothing(history, AREAS + 0x20, 250);
	assert_was_nothing(history, AREAS, 300);

	const struct symbol *symbol;
	uint64_t until;

	assert_int_equal(history_lookup(history, AREAS, 250, &symbol, &until), 0);
	assert_int_equal(symbol->kind, SYMBOL_BPF_IMAGE);
	assert_int_equal(symbol->prog_id, 250);
	assert_true(symbol->observed);

	/* The one of 300 has its registration now; then none is left that is late enough. */
	assert_int_equal(history_complete(history, &late), 0);
	assert_was(history, AREAS, 399, "a", 400);
	assert_int_equal(history_complete(history, &late), -ENOENT);
	late.name = "c";
	assert_int_equal(history_complete(history, &late), -ENOENT);
	/* A length that was known stays. */
	late.name = "b";
	assert_int_equal(history_complete(history, &late), 0);
	assert_was(history, AREAS + 7, 280, "b", 290);
	assert_was(history, AREAS + 8, 280, "a", 400);
	assert_int_equal(history_count(history), 4);
	history_destroy(history);
}

static void test_close(void **state)
{
	struct history *history = new_history();
	uint64_t end = 7;

	add(history, AREAS, 0x10, 100, 500, "a");
	add(history, AREAS, 0x10, 0, 600, "a");
	add(history, AREAS, 0x10, 150, 450, "b");
	assert_int_equal(history_close(history, AREAS, "a", 100, &end), -ENOENT);
	assert_int_equal(history_close(history, AREAS, "a", 500, &end), -ENOENT);
	assert_int_equal(history_close(history, AREAS, "c", 300, &end), -ENOENT);
	assert_int_equal(history_close(history, AREAS + 1, "a", 300, &end), -ENOENT);
	assert_int_equal(end, 7);
	assert_int_equal(history_close(history, AREAS, "a", 300, &end), 0);
	assert_int_equal(end, 500);
	assert_was(history, AREAS, 120, "a", 300);
	assert_was(history, AREAS, 300, "b", 450);
	assert_was_nothing(history, AREAS, 450);
	assert_int_equal(history_oldest(history), 300);

	/* The youngest of several. */
	add(history, AREAS, 0x10, 200, 280, "a");
	assert_int_equal(history_close(history, AREAS, "a", 250, &end), 0);
	assert_int_equal(end, 280);
	assert_int_equal(history_oldest(history), 250);
	history_destroy(history);
}

static void test_expire(void **state)
{
	struct history *history = new_history();

	add(history, AREAS, 0x10, 100, 200, "a");
	add(history, AREAS + 0x40, 0x10, 100, 300, "b");
	add(history, AREAS, 0x10, 0, 150, "c");
	assert_int_equal(history_oldest(history), 150);
	history_expire(history, 150);
	assert_int_equal(history_count(history), 3);
	history_expire(history, 151);
	assert_int_equal(history_count(history), 2);
	assert_int_equal(history_oldest(history), 200);
	history_expire(history, 300);
	assert_was_nothing(history, AREAS, 150);
	assert_was(history, AREAS + 0x40, 150, "b", 300);
	history_expire(history, UINT64_MAX);
	assert_int_equal(history_count(history), 0);
	assert_int_equal(history_bytes(history), 0);
	assert_int_equal(history_oldest(history), 0);
	history_destroy(history);
}

/*
 * One address and very many programs, as a loader in a loop makes them: what asks for the distant
 * past, for a moment between two of them, and what lets them go again must not walk them all. It
 * would take minutes.
 */
static void test_many_of_one_address(void **state)
{
	enum { COUNT = 200000 };
	struct history *history = new_history();

	/* Removed late, of unknown registration: it stands before all others and answers nothing.
	 */
	add(history, AREAS, 0, 0, UINT64_MAX, "y");
	for (uint64_t i = 1; i <= COUNT; i++)
		add(history, AREAS, 0x10, i * 10, i * 10 + 5, "x");
	assert_true(history_bytes(history) > COUNT * sizeof(struct symbol));
	for (uint64_t i = 1; i <= COUNT; i++) {
		assert_was(history, AREAS + 0xf, i * 10 + 4, "x", i * 10 + 5);
		assert_was_nothing(history, AREAS, i * 10 + 5);
	}
	for (uint64_t i = 1; i <= COUNT; i++) {
		history_expire(history, i * 10 + 6);
		assert_int_equal(history_count(history), COUNT - i + 1);
	}
	assert_in_range(history_count(history), 1, 1);
	history_destroy(history);
}

/* Memory is bounded by what is remembered, however much has come and gone. */
static void test_steady_state(void **state)
{
	struct history *history = new_history();
	size_t most = 0;

	for (uint64_t i = 1; i <= 100000; i++) {
		add(history, AREAS + i % 3 * 0x40, 0x10, i * 10, i * 10 + 5, "x");
		history_expire(history, i > 10 ? (i - 10) * 10 : 0);
		if (i == 1000)
			most = history_bytes(history);
	}
	assert_in_range(history_bytes(history), 1, most + 100);
	history_destroy(history);
}

/* Many addresses in order, which would make a plain tree a list. */
static void test_many_addresses(void **state)
{
	enum { COUNT = 200000 };
	struct history *history = new_history();

	for (uint64_t i = 1; i <= COUNT; i++)
		add(history, AREAS + i * 0x10, 0x10, i, i + 5, "x");
	for (uint64_t i = 1; i <= COUNT; i++) {
		assert_was(history, AREAS + i * 0x10 + 0xf, i + 4, "x", i + 5);
		assert_was_nothing(history, AREAS + i * 0x10, i + 5);
	}
	history_expire(history, UINT64_MAX);
	assert_int_equal(history_bytes(history), 0);
	history_destroy(history);
}

/* The same history as a plain array, searched from end to end. */
#define MODEL_MAX 600

struct model {
	struct {
		struct symbol symbol;
		uint64_t removed;
	} entries[MODEL_MAX];
	size_t count;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % limit;
}

#define STEP 0x10

/* Few: long histories of each. Many: addresses that come and go. */
static uint32_t addresses;

static struct symbol random_symbol(uint64_t now)
{
	static const char *const names[] = {"a", "b", "a_longer_name"};
	struct symbol symbol = symbol_of(AREAS + random_below(addresses) * STEP,
					 1 + random_below(0x60), 1 + random_below(now), NULL);

	symbol.name = names[random_below(ARRAY_SIZE(names))];
	return symbol;
}

/*
 * Any of those that covered addr then is right, as long as none starts nearer to it: at one moment
 * the kernel's own ranges do not overlap.
 */
static void check_lookup(const struct history *history, const struct model *model, uint64_t addr,
			 uint64_t time)
{
	const struct symbol *found;
	uint64_t until, nearest = 0;
	int r = history_lookup(history, addr, time, &found, &until);
	bool same = false;

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *symbol = &model->entries[i].symbol;
		uint64_t removed = model->entries[i].removed;

		if (!symbol->added || symbol->added > time || removed <= time ||
		    addr < symbol->addr || addr >= symbol->addr + symbol->len)
			continue;
		nearest = MAX(nearest, symbol->addr);
		same |= r == 0 && found->addr == symbol->addr && found->len == symbol->len &&
			found->added == symbol->added && until == removed &&
			found->prog_id == symbol->prog_id && strcmp(found->name, symbol->name) == 0;
	}
	if (!nearest) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	assert_int_equal(r, 0);
	assert_true(same);
	assert_int_equal(found->addr, nearest);
}

static int model_complete(struct model *model, const struct symbol *symbol)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *other = &model->entries[i].symbol;

		if (other->added || other->addr != symbol->addr ||
		    strcmp(other->name, symbol->name) != 0 ||
		    model->entries[i].removed <= symbol->added)
			continue;
		if (best == SIZE_MAX || model->entries[i].removed < model->entries[best].removed)
			best = i;
	}
	if (best == SIZE_MAX)
		return -ENOENT;

	struct symbol *other = &model->entries[best].symbol;

	other->added = symbol->added;
	other->len = other->len ?: symbol->len;
	other->prog_id = symbol->prog_id;
	return 0;
}

static int model_close(struct model *model, uint64_t addr, const char *name, uint64_t removed,
		       uint64_t *ret_end)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < model->count; i++) {
		const struct symbol *other = &model->entries[i].symbol;

		if (!other->added || other->addr != addr || strcmp(other->name, name) != 0 ||
		    other->added >= removed || model->entries[i].removed <= removed)
			continue;
		if (best == SIZE_MAX || other->added >= model->entries[best].symbol.added)
			best = i;
	}
	if (best == SIZE_MAX)
		return -ENOENT;
	*ret_end = model->entries[best].removed;
	model->entries[best].removed = removed;
	return 0;
}

static void change_something(struct history *history, struct model *model, uint64_t now)
{
	struct symbol symbol = random_symbol(now);
	uint32_t what = random_below(20);

	if (what < 12 && model->count < MODEL_MAX) {
		uint64_t removed = now - random_below(MIN(now, 40u)) * (random_below(4) == 0);

		symbol.added = random_below(4) ? 1 + random_below(removed) : 0;
		if (!symbol.added && random_below(2))
			symbol.len = 0;
		model->entries[model->count].symbol = symbol;
		model->entries[model->count++].removed = removed;
		assert_int_equal(history_add(history, &symbol, removed), 0);
	} else if (what < 15) {
		assert_int_equal(history_complete(history, &symbol),
				 model_complete(model, &symbol));
	} else if (what < 18) {
		uint64_t time = 1 + random_below(now), end = 0, expected = 0;
		int r = model_close(model, symbol.addr, symbol.name, time, &expected);

		assert_int_equal(history_close(history, symbol.addr, symbol.name, time, &end), r);
		assert_int_equal(end, expected);
	} else {
		uint64_t time = now > 300 ? now - 300 + random_below(30) : 0;
		size_t kept = 0;

		history_expire(history, time);
		for (size_t i = 0; i < model->count; i++) {
			if (model->entries[i].removed >= time)
				model->entries[kept++] = model->entries[i];
		}
		model->count = kept;
	}
}

static void test_model(void **state)
{
	static struct model model;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct history *history = new_history();

		random_state = seed;
		addresses = seed % 2 ? 24 : 300;
		model.count = 0;
		for (uint64_t now = 1; now < 3000; now++) {
			uint64_t oldest = 0;

			change_something(history, &model, now);
			for (int i = 0; i < 10; i++)
				check_lookup(history, &model,
					     AREAS - 8 + random_below(addresses * STEP + 0x70),
					     random_below(now + 2));
			assert_int_equal(history_count(history), model.count);
			for (size_t i = 0; i < model.count; i++) {
				if (!oldest || model.entries[i].removed < oldest)
					oldest = model.entries[i].removed;
			}
			assert_int_equal(history_oldest(history), oldest);
		}
		history_expire(history, UINT64_MAX);
		assert_int_equal(history_bytes(history), 0);
		history_destroy(history);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),	     cmocka_unit_test(test_reused_address),
		cmocka_unit_test(test_complete),     cmocka_unit_test(test_close),
		cmocka_unit_test(test_expire),	     cmocka_unit_test(test_many_of_one_address),
		cmocka_unit_test(test_steady_state), cmocka_unit_test(test_many_addresses),
		cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
