/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks at the whole: the tracker's first look, and the look after a loss.
 *
 * Each of them takes the time first and looks then. What it finds carries that time, so that every
 * record from then on is younger than what was found: see kstate.h. Records wait in the rings
 * meanwhile; the caller applies them afterwards.
 */
#include "core/clock.h"
#include "core/tracker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "core/carry.h"

#include "core/layout.h"

#define KALLSYMS "/proc/kallsyms"

/* What the kernel allocates an image in, and says in its record. The true length is asked for. */
#define IMAGE_PAGE 4096

/* Is this setting there, and other than value? */
static bool is_set_otherwise(const char *path, char value)
{
	char text[4] = "";
	_cleanup_file_ FILE *file = fopen(path, "re");

	return file && fgets(text, sizeof(text), file) && text[0] != value;
}

/* bpf_jit_kallsyms_enabled(): only so kallsyms has BPF's symbols. */
int tracker_image_list_error(void)
{
	return is_set_otherwise("/proc/sys/net/core/bpf_jit_kallsyms", '1') ||
			       is_set_otherwise("/proc/sys/net/core/bpf_jit_harden", '0')
		       ? -ENODATA
		       : 0;
}

static int open_kallsyms(struct tracker *tracker)
{
	tracker->images_source.error = tracker_image_list_error();

	int fd = open(KALLSYMS, O_RDONLY | O_CLOEXEC);

	tracker->kallsyms_reads++;
	return fd < 0 ? -errno : fd;
}

int tracker_read_kallsyms(struct tracker *tracker, struct kallsyms *ret)
{
	_cleanup_fd_ int fd = open_kallsyms(tracker);
	int r = fd < 0 ? fd : kallsyms_read(fd, true, ret, &tracker->kallsyms_bad_line);

	tracker->kallsyms_source.error = r;
	if (r == 0)
		tracker_mark_freed(ret->symbols, ret->count);
	return r;
}

void tracker_complete_image(struct tracker *tracker, struct symbol *symbol)
{
	struct kernelname_answer answer;

	symbol->len = IMAGE_PAGE;
	if (tracker->kernelname &&
	    kernelname_ask(tracker->kernelname, symbol->addr + 1, &answer) == 0 &&
	    answer.offset == 1 && answer.size && strcmp(answer.name, symbol->name) == 0)
		symbol->len = answer.size;
}

static int claim(struct tracker *tracker, const struct symbol *symbol)
{
	size_t count = tracker->unclaimed_count;
	struct unclaimed *more =
		reallocarray(tracker->unclaimed, count + 1, sizeof(*tracker->unclaimed));

	if (!more)
		return -ENOMEM;
	tracker->unclaimed = more;
	more[count] = (struct unclaimed){symbol->addr, strdup(symbol->name)};
	if (!more[count].name)
		return -ENOMEM;
	tracker->unclaimed_count++;
	return 0;
}

/*
 * A row of a program's that no program told of: a hidden callback, or a program that this process
 * may not see. It is shown if the kernel can be asked for its length, and later whether it is still
 * there; without that it would turn into a lie.
 */
static void found_unclaimed(struct tracker *tracker, const struct symbol *row, uint64_t seen)
{
	struct kernelname_answer answer;
	struct symbol symbol = *row;

	if (symtab_find(tracker->state.symbols, row->addr, row->name, NULL) ||
	    !tracker->kernelname ||
	    kernelname_ask(tracker->kernelname, row->addr + 1, &answer) < 0 || answer.offset != 1 ||
	    strcmp(answer.name, row->name) != 0)
		return;
	symbol.len = answer.size;
	symbol.kind = SYMBOL_BPF_AUX;
	if (kstate_found_symbol(&tracker->state, &symbol, seen, false) > 0 &&
	    claim(tracker, &symbol) < 0)
		kstate_missed_removal(&tracker->state, symbol.addr, symbol.name, symbol.module,
				      seen, false);
}

void tracker_check_unclaimed(struct tracker *tracker)
{
	size_t kept = 0;

	for (size_t i = 0; i < tracker->unclaimed_count; i++) {
		struct unclaimed *row = &tracker->unclaimed[i];
		struct kernelname_answer answer;

		if (kernelname_ask(tracker->kernelname, row->addr + 1, &answer) == 0 &&
		    answer.offset == 1 && strcmp(answer.name, row->name) == 0) {
			tracker->unclaimed[kept++] = *row;
			continue;
		}
		kstate_missed_removal(&tracker->state, row->addr, row->name, "bpf",
				      tracker->whole_at, false);
		free(row->name);
	}
	tracker->unclaimed_count = kept;
}

static bool is_program_row(const struct symbol *symbol)
{
	return symbol->kind == SYMBOL_BPF_PROG || symbol->kind == SYMBOL_BPF_AUX;
}

int tracker_walk_programs(struct tracker *tracker, bool announce, struct differences *found)
{
	struct kstate *state = &tracker->state;
	uint64_t seen = monotonic_ns();
	_cleanup_free_ uint32_t *ids = NULL;
	size_t count = 0, size = 0;
	uint32_t id = 0;
	int error = 0, r;

	while ((r = prog_next_id(id, &id)) == 0) {
		struct prog *prog = progset_find(state->programs, id);

		if (count == size) {
			size = MAX(size * 2, (size_t)256);
			uint32_t *more = reallocarray(ids, size, sizeof(*ids));

			if (!more)
				return -ENOMEM;
			ids = more;
		}
		ids[count++] = id;
		if (prog && prog_is_loaded(prog))
			continue;
		r = tracker_capture(tracker, id, &prog);
		if (r < 0) {
			/* One that went meanwhile is no error; another's error is not the end. */
			if (r != -ENOENT)
				error = r;
			continue;
		}
		r = kstate_found_program(state, prog, seen, announce);
		if (r < 0)
			break;
		found->added += r;
	}
	tracker->programs_source.error = r == -ENOENT ? error : r;
	if (r != -ENOENT)
		return r;

	/* Ids come sorted, from the kernel and from the set. */
	struct prog_list list;

	r = progset_list(state->programs, &list);
	if (r < 0)
		return r;
	for (size_t i = 0, at = 0; i < list.count; i++) {
		const struct prog *prog = list.progs[i];

		while (at < count && ids[at] < prog->id)
			at++;
		if ((at == count || ids[at] != prog->id) && prog_is_loaded(prog)) {
			kstate_missed_unload(state, prog->id, tracker->whole_at);
			found->removed++;
		}
	}
	prog_list_deinit(&list);
	return 0;
}

/* A baseline while kallsyms is read. */
struct baseline {
	struct tracker *tracker;
	uint64_t seen;
	struct layout layout;
	struct kallsyms aside; /* what is not added as it comes */
};

/*
 * Rows of vmlinux, nearly all there are, go to the table while they are in the cache. What belongs
 * to modules comes in no order, what belongs to programs waits until the programs themselves have
 * been asked, and whether an address of 0 means anything is known at the end.
 */
static int take_baseline_rows(struct symbol *rows, size_t count, void *arg)
{
	struct baseline *baseline = arg;
	size_t kept = 0;

	layout_see(&baseline->layout, rows, count);
	for (size_t i = 0; i < count; i++) {
		if (rows[i].kind == SYMBOL_CORE && rows[i].addr) {
			rows[kept++] = rows[i];
			continue;
		}
		int r = kallsyms_keep(&baseline->aside, &rows[i]);

		if (r < 0)
			return r;
	}
	int r = symtab_add_all(baseline->tracker->state.symbols, rows, kept);

	return MIN(r, 0);
}

/* Adds the rows that stood aside, but for those of programs, which are left in the list. */
static int add_aside(struct baseline *baseline)
{
	struct tracker *tracker = baseline->tracker;
	struct kallsyms *aside = &baseline->aside;
	_cleanup_free_ struct symbol *others = calloc(aside->count + 1, sizeof(*others));
	size_t programs = 0, count = 0;

	if (!others)
		return -ENOMEM;
	tracker_mark_freed(aside->symbols, aside->count);
	for (size_t i = 0; i < aside->count; i++) {
		struct symbol *symbol = &aside->symbols[i];

		if (is_program_row(symbol)) {
			tracker->state.has_cfi |= strncmp(symbol->name, "__cfi_bpf_prog_", 15) == 0;
			aside->symbols[programs++] = *symbol;
			continue;
		}
		if (symbol->kind != SYMBOL_CORE) {
			symbol->added = baseline->seen;
			symbol->observed = true;
		}
		bool live = symbol->kind == SYMBOL_BPF_IMAGE || symbol->kind == SYMBOL_OUT_OF_LINE;

		/* Nothing would tell when an image goes. */
		if (live && !tracker->rings)
			continue;
		if (live)
			tracker_complete_image(tracker, symbol);
		others[count++] = *symbol;
	}
	aside->count = programs;
	int r = symtab_add_all(tracker->state.symbols, others, count);

	return MIN(r, 0);
}

/* Reads kallsyms into the table. A list that is refused leaves nothing there. */
static int read_baseline(struct baseline *baseline)
{
	struct tracker *tracker = baseline->tracker;
	struct symtab *symbols = tracker->state.symbols;
	struct kallsyms *aside = &baseline->aside;
	_cleanup_fd_ int fd = open_kallsyms(tracker);
	int r = fd < 0 ? fd
		       : kallsyms_visit(fd, take_baseline_rows, baseline, &aside->hidden,
					&tracker->kallsyms_bad_line);

	tracker->kallsyms_source.error = r;
	tracker->state.hidden = r == 0 && aside->hidden;
	if (r < 0 || aside->hidden) {
		symtab_clear(symbols);
		aside->count = 0;
		return r == -ENOMEM ? r : 0;
	}
	r = layout_add_bounds(&baseline->layout, symbols);
	return r < 0 ? r : add_aside(baseline);
}

int tracker_baseline(struct tracker *tracker)
{
	struct baseline baseline = {.tracker = tracker, .seen = monotonic_ns()};
	struct differences found = {};
	int r = read_baseline(&baseline);

	if (r == 0) {
		bool inherited = carry_is_inherited();

		tracker_look_at_modules(tracker);
		if (inherited)
			kstate_restore_symbols(&tracker->state);
		/* What another process did not know any more of is news. */
		tracker_walk_programs(tracker, inherited, &found);
		if (inherited)
			kstate_log(&tracker->state, monotonic_ns(),
				   "resync added=%zu removed=%zu changed=%zu", found.added,
				   found.removed, found.changed);
		for (size_t i = 0; i < baseline.aside.count; i++)
			kstate_found_row(&tracker->state, &baseline.aside.symbols[i]);
		for (size_t i = 0; i < baseline.aside.count; i++)
			found_unclaimed(tracker, &baseline.aside.symbols[i], baseline.seen);
		for (int part = 0; part < KSTATE_PARTS; part++)
			kstate_changed(&tracker->state, part, baseline.seen);
	}
	kallsyms_deinit(&baseline.aside);
	return r;
}

struct ownerless {
	uint64_t seen;
	struct unclaimed *rows;
	size_t count;
};

static int collect_ownerless(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct ownerless *ownerless = arg;

	if (symbol->kind != SYMBOL_BPF_PROG || symbol->prog_id || symbol->added > ownerless->seen)
		return 0;
	struct unclaimed *more =
		reallocarray(ownerless->rows, ownerless->count + 1, sizeof(*ownerless->rows));

	if (!more)
		return -ENOMEM;
	ownerless->rows = more;
	more[ownerless->count] = (struct unclaimed){symbol->addr, strdup(symbol->name)};
	return more[ownerless->count++].name ? 0 : -ENOMEM;
}

/*
 * Functions of a program whose LOAD record was lost. If it were still there, the walk of all
 * programs that began at `seen` would have found whose they are: its id is older than its
 * functions.
 */
static void drop_ownerless(struct tracker *tracker, uint64_t seen, struct differences *found)
{
	struct ownerless ownerless = {.seen = seen};

	if (symtab_visit(tracker->state.symbols, 0, collect_ownerless, &ownerless) < 0)
		tracker->resync_due = true;
	for (size_t i = 0; i < ownerless.count; i++) {
		const struct unclaimed *row = &ownerless.rows[i];

		if (row->name)
			found->removed +=
				kstate_missed_removal(&tracker->state, row->addr, row->name, "bpf",
						      tracker->whole_at, true);
		free(row->name);
	}
	free(ownerless.rows);
}

void tracker_resync(struct tracker *tracker)
{
	struct differences found = {};
	uint64_t seen = monotonic_ns();

	if (!tracker->state.hidden)
		tracker_compare(tracker, true, true, &found);
	tracker_look_at_modules(tracker);
	if (tracker_walk_programs(tracker, true, &found) == 0 && !tracker->programs_source.error)
		drop_ownerless(tracker, seen, &found);
	tracker->resyncs++;
	kstate_log(&tracker->state, monotonic_ns(), "resync added=%zu removed=%zu changed=%zu",
		   found.added, found.removed, found.changed);
}
