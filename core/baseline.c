/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks at the whole: the tracker's first look, and the look after a loss.
 *
 * Each of them takes the time first and looks then. What it finds carries that time, so that every
 * record from then on is younger than what was found: see kstate.h. Records wait in the rings
 * meanwhile; the caller applies them afterwards.
 */
#include "core/tracker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define KALLSYMS "/proc/kallsyms"

/* What the kernel allocates an image in, and says in its record. The true length is asked for. */
#define IMAGE_PAGE 4096

int tracker_read_kallsyms(struct tracker *tracker, bool modules_only, struct kallsyms *ret)
{
	_cleanup_fd_ int fd = open(KALLSYMS, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	tracker->kallsyms_reads++;
	if (r == 0)
		r = kallsyms_read(fd, modules_only, ret, &tracker->kallsyms_bad_line);
	tracker->kallsyms_source.error = r;
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

	if (symtab_find(tracker->state.symbols, row->addr, row->name) || !tracker->kernelname ||
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
	uint64_t seen = monotonic_now();
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
		r = prog_capture(tracker->reader, id, &prog);
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

int tracker_baseline(struct tracker *tracker)
{
	struct kstate *state = &tracker->state;
	uint64_t seen = monotonic_now();
	struct differences found = {};
	struct kallsyms list = {};
	size_t kept = 0;
	int r = tracker_read_kallsyms(tracker, false, &list);

	if (r == -ENOMEM)
		return r;
	state->hidden = list.hidden;
	if (r < 0 || list.hidden)
		list.count = 0;

	/* Rows of programs stand aside until the programs themselves have been asked. */
	_cleanup_free_ struct symbol *programs = calloc(list.count + 1, sizeof(*programs));
	size_t program_count = 0;

	if (programs) {
		kallsyms_add_core_bounds(&list, state->symbols);
		for (size_t i = 0; i < list.count; i++) {
			struct symbol *symbol = &list.symbols[i];

			if (is_program_row(symbol)) {
				programs[program_count++] = *symbol;
				state->has_cfi |= strncmp(symbol->name, "__cfi_bpf_prog_", 15) == 0;
				continue;
			}
			if (symbol->kind != SYMBOL_CORE) {
				symbol->added = seen;
				symbol->observed = true;
			}
			/* Nothing would tell when an image goes. */
			bool live = symbol->kind == SYMBOL_BPF_IMAGE ||
				    symbol->kind == SYMBOL_OUT_OF_LINE;

			if (live && !tracker->rings)
				continue;
			if (live)
				tracker_complete_image(tracker, symbol);
			list.symbols[kept++] = *symbol;
		}
		r = symtab_add_all(state->symbols, list.symbols, kept);
	} else {
		r = -ENOMEM;
	}
	if (r >= 0) {
		tracker_read_module_bounds(tracker);
		tracker_walk_programs(tracker, false, &found);
		for (size_t i = 0; i < program_count; i++)
			found_unclaimed(tracker, &programs[i], seen);
		for (int part = 0; part < KSTATE_PARTS; part++)
			kstate_changed(state, part, seen);
	}
	kallsyms_deinit(&list);
	return r < 0 ? r : 0;
}

void tracker_resync(struct tracker *tracker)
{
	struct differences found = {};

	if (!tracker->state.hidden)
		tracker_compare(tracker, true, true, &found);
	tracker_read_module_bounds(tracker);
	tracker_walk_programs(tracker, true, &found);
	tracker->resyncs++;
	kstate_log(&tracker->state, monotonic_now(), "resync added=%zu removed=%zu changed=%zu",
		   found.added, found.removed, found.changed);
}
