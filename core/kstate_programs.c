/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How programs come and go: BPF_EVENT records, with the functions that KSYMBOL records registered
 * just before, and walks of the ids. See kstate.h.
 */
#include "core/kstate_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/kallsyms.h"
#include "core/progkeep.h"

/* What one LOAD record takes out of the pending functions. */
struct registered {
	struct pending_func *funcs;
	size_t count;
};

static void registered_deinit(struct registered *registered)
{
	for (size_t i = 0; i < registered->count; i++)
		free(registered->funcs[i].symbol);
	free(registered->funcs);
}

static bool has_tag(const struct pending_func *func, const uint8_t tag[BPF_TAG_SIZE])
{
	uint8_t own[BPF_TAG_SIZE];

	return func->symbol && bpf_symbol_tag(func->symbol, own) &&
	       memcmp(own, tag, BPF_TAG_SIZE) == 0;
}

/*
 * Takes the functions that were registered just before a LOAD record, by the same thread; the main
 * program's is the first. Older leftovers of that thread, whose own LOAD was lost, are dropped.
 */
static int take_registered(struct kstate *state, const struct record *load, struct registered *ret)
{
	size_t kept = 0, first = 0;

	*ret = (struct registered){.funcs =
					   calloc(state->pending_count + 1, sizeof(ret->funcs[0]))};
	if (!ret->funcs)
		return -ENOMEM;
	for (size_t i = 0; i < state->pending_count; i++) {
		struct pending_func *func = &state->pending[i];

		if (func->tid == load->tid && func->time <= load->time)
			ret->funcs[ret->count++] = *func;
		else
			state->pending[kept++] = *func;
	}
	state->pending_count = kept;
	for (size_t i = 0; i < ret->count; i++)
		if (has_tag(&ret->funcs[i], load->bpf.tag))
			first = i;
	for (size_t i = 0; i < first; i++)
		free(ret->funcs[i].symbol);
	ret->count -= first;
	memmove(ret->funcs, ret->funcs + first, ret->count * sizeof(ret->funcs[0]));
	return 0;
}

static const struct pending_func *find_registered(const struct registered *registered,
						  uint64_t addr)
{
	for (size_t i = 0; i < registered->count; i++)
		if (registered->funcs[i].addr == addr)
			return &registered->funcs[i];
	return NULL;
}

static void free_funcs(struct prog_func *funcs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(funcs[i].symbol);
	free(funcs);
}

/* The functions of a program of which only its records are known. What has no name is named after
 * the tag; what has no length has no machine code. */
static int functions_of_records(const struct record *load, const struct registered *registered,
				struct prog_func **ret, size_t *ret_count)
{
	struct prog_func *funcs = calloc(registered->count + 1, sizeof(*funcs));
	size_t count = 0;

	if (!funcs)
		return -ENOMEM;
	for (size_t i = 0; i < registered->count; i++) {
		const struct pending_func *pending = &registered->funcs[i];
		_cleanup_text_ struct text name = {};
		struct prog_func *func = &funcs[count];

		if (!pending->len)
			continue;
		if (pending->symbol) {
			text_puts(&name, pending->symbol);
		} else {
			text_puts(&name, "bpf_prog_");
			text_hexdump(&name, load->bpf.tag, BPF_TAG_SIZE);
		}
		*func = (struct prog_func){
			.addr = pending->addr,
			.len = pending->len,
			.insn_off = UINT32_MAX,
		};
		if (text_take_string(&name, &func->symbol) < 0) {
			free_funcs(funcs, count);
			return -ENOMEM;
		}
		if (!bpf_symbol_tag(func->symbol, func->tag))
			memcpy(func->tag, load->bpf.tag, sizeof(func->tag));
		count++;
	}
	*ret = funcs;
	*ret_count = count;
	return 0;
}

static struct symbol function_symbol(const struct prog *prog, const struct prog_func *func)
{
	return (struct symbol){
		.addr = func->addr,
		.len = func->len,
		.name = func->symbol,
		.module = "bpf",
		.prog_id = prog->id,
		.type = 't',
		.kind = SYMBOL_BPF_PROG,
	};
}

/* Gives a symbol of the table the name, length and program that it really has. */
static void correct_symbol(struct kstate *state, const struct symbol *there,
			   const struct symbol *correct)
{
	struct symbol symbol = *correct;

	symbol.added = there->added;
	symbol.observed = there->observed;
	if (strcmp(there->name, symbol.name) == 0) {
		symtab_update(state->symbols, &symbol);
		return;
	}
	symtab_remove(state->symbols, there->addr, there->name, there->module);
	kstate_add_symbol(state, &symbol, there->added);
}

/* The main function's second name, on kernels that list it. */
static void settle_first(struct kstate *state, const struct prog *prog)
{
	if (!state->has_first || !prog->first_symbol || state->hidden)
		return;
	struct symbol symbol = function_symbol(prog, &prog->funcs[0]);
	const struct symbol *there = kstate_dynamic_symbol(state, symbol.addr);

	if (!there || there->prog_id != prog->id || strcmp(there->name, symbol.name) != 0 ||
	    symtab_find(state->symbols, symbol.addr, prog->first_symbol, NULL))
		return;
	symbol.added = there->added;
	symbol.observed = there->observed;
	kstate_add_first(state, &symbol, prog->first_symbol);
}

/*
 * A program has been loaded: the symbols that its records registered get what the program says of
 * them, and those that the records could not name are registered now.
 */
static void settle_loaded(struct kstate *state, const struct prog *prog,
			  const struct registered *registered, const struct record *load)
{
	for (size_t i = 0; i < prog->func_count && !state->hidden; i++) {
		struct symbol symbol = function_symbol(prog, &prog->funcs[i]);
		const struct pending_func *pending = find_registered(registered, symbol.addr);
		const struct symbol *there = kstate_dynamic_symbol(state, symbol.addr);

		if (!symbol.addr || !symbol.len)
			continue;
		/* Kernels that list the first function's own name have that in its record. */
		if (i == 0 && pending && pending->symbol && prog->first_symbol &&
		    strcmp(pending->symbol, prog->first_symbol) == 0)
			state->has_first = true;
		if (pending && pending->symbol && pending->len) {
			/* If it is not that one any more, its removal has been applied. */
			if (there && there->added == pending->time)
				correct_symbol(state, there, &symbol);
			continue;
		}
		symbol.added = pending ? pending->time : load->time;
		kstate_log_symbol(state, symbol.added, "ksym-add", &symbol, &load->pid);
		kstate_register_symbol(state, &symbol);
	}
	settle_first(state, prog);
}

/* A program was found loaded at or after `seen`. */
static void settle_found(struct kstate *state, const struct prog *prog, uint64_t seen,
			 bool announce)
{
	static const uint32_t nobody = 0;

	for (size_t i = 0; i < prog->func_count && !state->hidden; i++) {
		struct symbol symbol = function_symbol(prog, &prog->funcs[i]);
		const struct symbol *there = kstate_dynamic_symbol(state, symbol.addr);

		if (!symbol.addr || !symbol.len || (there && there->added > seen))
			continue; /* no code, or somebody younger lives there */
		if (there && strcmp(there->name, symbol.name) == 0) {
			correct_symbol(state, there, &symbol);
			continue;
		}
		symbol.observed = true;
		symbol.added = MIN(seen, prog->loaded_mono);
		if (there) {
			kstate_retire_symbol(state, there, seen);
			symbol.added = seen;
		}
		if (announce)
			kstate_log_symbol(state, seen, "ksym-add", &symbol, &nobody);
		kstate_add_symbol(state, &symbol, seen);
	}
	settle_first(state, prog);
}

/*
 * The address of a function that the kernel hides from all but kallsyms: the exception callback of
 * a program that calls bpf_throw(). Its line record stands where the program's first one would
 * (bpf_prog_fill_jited_linfo() goes over hidden functions too). 0: there is none.
 */
static uint64_t hidden_address(const struct prog *prog)
{
	uint64_t addr;

	if (!prog->jited_line || prog->jited_line->len < sizeof(addr))
		return 0;
	memcpy(&addr, prog->jited_line->data, sizeof(addr));
	for (size_t i = 0; i < prog->func_count; i++)
		if (addr >= prog->funcs[i].addr && addr - prog->funcs[i].addr < prog->funcs[i].len)
			return 0;
	return addr;
}

static void settle_hidden(struct kstate *state, const struct prog *prog, uint64_t time,
			  bool observed, const uint32_t *pid)
{
	uint64_t addr = state->hidden ? 0 : hidden_address(prog);
	char name[512];
	struct symbol symbol = {
		.added = time,
		.observed = observed,
		.name = name,
		.module = "bpf",
		.prog_id = prog->id,
		.type = 't',
		.kind = SYMBOL_BPF_AUX,
	};

	if (!addr || state->ops->ask(state->arg, addr, &symbol.addr, &symbol.len, name) < 0 ||
	    bpf_symbol_kind(name) != SYMBOL_BPF_PROG || kstate_dynamic_symbol(state, symbol.addr))
		return;
	if (pid)
		kstate_log_symbol(state, time, "ksym-add", &symbol, pid);
	kstate_add_symbol(state, &symbol, time);
}

/* It raises no record of its own. */
static void retire_hidden(struct kstate *state, const struct prog *prog, uint64_t time)
{
	uint64_t addr = hidden_address(prog);
	struct symtab_hit hit;

	if (!addr || symtab_lookup(state->symbols, addr, &hit) < 0 ||
	    hit.symbol->kind != SYMBOL_BPF_AUX || hit.symbol->prog_id != prog->id)
		return;
	kstate_log_symbol(state, time, "ksym-del", hit.symbol, NULL);
	kstate_retire_symbol(state, hit.symbol, time);
}

static void log_program(struct kstate *state, uint64_t time, const char *what,
			const struct prog *prog, bool with_loader)
{
	const char *type = prog->captured ? prog_type_name(prog->info.type) : NULL;
	_cleanup_text_ struct text line = {};

	kstate_begin_line(&line, time);
	text_printf(&line, "%s id=%" PRIu32 " tag=", what, prog->id);
	text_hexdump(&line, prog->tag, BPF_TAG_SIZE);
	if (with_loader) {
		text_printf(&line, " type=%s name=", type ? type : "-");
		if (prog->name)
			text_escape(&line, prog->name, strlen(prog->name));
		else
			text_putc(&line, '-');
		kstate_append_task(state, &line, prog->loader_pid, prog->loader_comm);
	}
	kstate_end_line(state, &line, time);
}

/* An unload that was applied before its load; its time, 0 if there was none. */
static uint64_t take_orphan(struct kstate *state, uint32_t id, uint64_t loaded)
{
	for (size_t i = 0; i < KSTATE_ORPHANS; i++) {
		struct orphan *orphan = &state->orphans[i];
		uint64_t time = orphan->time;

		if (orphan->id == id && time >= loaded && time) {
			*orphan = (struct orphan){};
			return time;
		}
	}
	return 0;
}

void kstate_evict(struct kstate *state, uint32_t id, uint64_t now)
{
	const struct prog *prog = progset_find(state->programs, id);
	uint64_t unloaded = atomic_load(&prog->unloaded_mono);

	/* History and programs go by one horizon: what was removed before this unload goes too. */
	history_expire(state->history, unloaded + 1);
	state->history_since = MAX(state->history_since, unloaded + 1);
	progset_remove(state->programs, id);
	kstate_changed(state, KSTATE_PROGRAMS, now);
}

static void publish(struct kstate *state, struct prog *prog, uint64_t time)
{
	int r = progset_add(state->programs, prog);

	if (r == -EEXIST && !prog_is_loaded(progset_find(state->programs, prog->id))) {
		/* Ids wrap around: an old program of this one's id is retained. */
		kstate_evict(state, prog->id, time);
		r = progset_add(state->programs, prog);
	}
	if (r == -ENOMEM)
		state->out_of_memory++;
	kstate_changed(state, KSTATE_PROGRAMS, time);
	kstate_changed(state, KSTATE_SYMBOLS, time);
}

static void unload_program(struct kstate *state, struct prog *prog, uint64_t time)
{
	for (size_t i = 0; i < prog->func_count; i++) {
		const struct symbol *there = kstate_dynamic_symbol(state, prog->funcs[i].addr);

		if (there && there->prog_id == prog->id && there->added <= time)
			kstate_retire_symbol(state, there, time);
	}
	retire_hidden(state, prog, time);
	progset_unload(state->programs, prog->id, time, time + state->mono_to_unix);
	kstate_changed(state, KSTATE_PROGRAMS, time);
	kstate_changed(state, KSTATE_SYMBOLS, time);
}

void kstate_apply_load(struct kstate *state, const struct record *record)
{
	CLEANUP(registered_deinit) struct registered registered = {};
	CLEANUP(prog_cleanup) struct prog *prog = NULL;
	struct prog *known = progset_find(state->programs, record->bpf.id);

	if (take_registered(state, record, &registered) < 0) {
		state->out_of_memory++;
		return;
	}
	if (known && prog_is_loaded(known)) {
		/* The baseline or a resync was quicker. */
		settle_loaded(state, known, &registered, record);
		log_program(state, record->time, "prog-load", known, true);
		return;
	}
	int r = state->ops->capture(state->arg, record->bpf.id, &prog);

	if (r == 0) {
		state->captured++;
	} else {
		struct prog_func *funcs;
		size_t count;

		if (functions_of_records(record, &registered, &funcs, &count) < 0 ||
		    prog_from_records(record->bpf.id, record->bpf.tag, funcs, count, r, &prog) <
			    0) {
			state->out_of_memory++;
			return;
		}
		state->gone++;
	}
	prog->loaded_mono = record->time;
	prog->loaded_unix = record->time + state->mono_to_unix;
	prog->loader_pid = record->pid;
	if (record->pid)
		state->ops->comm(state->arg, record->pid, prog->loader_comm);
	settle_loaded(state, prog, &registered, record);
	settle_hidden(state, prog, record->time, false, &record->pid);
	publish(state, prog, record->time);
	log_program(state, record->time, "prog-load", prog, true);

	uint64_t unloaded = take_orphan(state, prog->id, record->time);

	if (unloaded)
		unload_program(state, prog, unloaded);
}

void kstate_apply_unload(struct kstate *state, const struct record *record)
{
	struct prog *prog = progset_find(state->programs, record->bpf.id);

	if (!prog || !prog_is_loaded(prog) || record->time < prog->loaded_mono) {
		state->orphans[state->orphan_next++ % KSTATE_ORPHANS] =
			(struct orphan){record->bpf.id, record->time};
		return;
	}
	log_program(state, record->time, "prog-unload", prog, false);
	unload_program(state, prog, record->time);
}

void kstate_apply_remains(struct kstate *state, const struct remains *remains)
{
	CLEANUP(prog_cleanup) struct prog *prog = NULL;
	uint64_t freed = remains->head.freed;
	const struct prog *known =
		progset_find_missed(state->programs, remains->funcs[0].addr, freed);

	/*
	 * A load begins before its record is written, and an unload's record is written before the
	 * program is freed; if that is not so, these are the remains of another one at the same
	 * place, which was captured.
	 */
	if (!known || memcmp(known->tag, remains->head.tag, sizeof(known->tag)) != 0 ||
	    known->loaded_mono < remains->loaded_mono || atomic_load(&known->unloaded_mono) > freed)
		return;
	int r = prog_from_remains(state->pool, known, remains, &prog);

	if (r == 0)
		r = progset_replace(state->programs, prog);
	/* A look at what is loaded would not find it: there is nothing to be made good. */
	if (r < 0)
		return;
	state->recovered++;
	kstate_changed(state, KSTATE_PROGRAMS, freed);
}

int kstate_found_program(struct kstate *state, struct prog *prog, uint64_t seen, bool announce)
{
	CLEANUP(prog_cleanup) struct prog *owned = prog;
	struct prog *known = progset_find(state->programs, prog->id);

	if (known && prog_is_loaded(known))
		return 0;
	static const uint32_t nobody = 0;

	settle_found(state, prog, seen, announce);
	settle_hidden(state, prog, seen, true, announce ? &nobody : NULL);
	publish(state, prog, seen);
	if (!progset_find(state->programs, prog->id))
		return -ENOMEM;
	if (announce)
		log_program(state, seen, "prog-load", prog, true);
	return 1;
}

void kstate_found_row(struct kstate *state, const struct symbol *row)
{
	const struct symbol *there = kstate_dynamic_symbol(state, row->addr);
	struct prog *prog = there ? progset_find(state->programs, there->prog_id) : NULL;
	struct prog_list list;

	if (state->has_first || !prog || !prog->first_symbol ||
	    strcmp(prog->first_symbol, row->name) != 0)
		return;
	state->has_first = true;
	if (progset_list(state->programs, &list) < 0) {
		state->out_of_memory++;
		return;
	}
	for (size_t i = 0; i < list.count; i++)
		settle_first(state, list.progs[i]);
	prog_list_deinit(&list);
}

void kstate_missed_unload(struct kstate *state, uint32_t id, uint64_t last)
{
	struct prog *prog = progset_find(state->programs, id);

	if (!prog || !prog_is_loaded(prog))
		return;
	/* From the last look on nobody knows whose its addresses were. */
	uint64_t time = MAX(last, prog->loaded_mono);

	/* A look that found something else gone from there dates from after the last one's begin.
	 */
	for (size_t i = 0; i < prog->func_count; i++) {
		const struct symbol *there = kstate_dynamic_symbol(state, prog->funcs[i].addr);

		if (there && there->prog_id == id)
			time = MAX(time, there->added);
	}
	for (size_t i = 0; i < prog->func_count; i++) {
		const struct symbol *there = kstate_dynamic_symbol(state, prog->funcs[i].addr);

		if (there && there->prog_id == id)
			kstate_log_symbol(state, time, "ksym-del", there, NULL);
	}
	log_program(state, time, "prog-unload", prog, false);
	unload_program(state, prog, time);
}

int kstate_restore_programs(struct kstate *state)
{
	struct prog **progs;
	size_t count;
	int r = progs_restore(state->pool, &progs, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t unloaded_mono = atomic_load(&progs[i]->unloaded_mono);

		/* One of the two of an id that it was just about to replace may be left. */
		if (r == 0)
			r = progset_add(state->programs, progs[i]);
		if (r == 0 && unloaded_mono)
			progset_unload(state->programs, progs[i]->id, unloaded_mono,
				       atomic_load(&progs[i]->unloaded_unix));
		if (r == -EEXIST)
			r = 0;
		prog_unref(progs[i]);
	}
	free(progs);
	return r;
}

void kstate_restore_symbols(struct kstate *state)
{
	struct prog_list list;

	if (progset_list(state->programs, &list) < 0) {
		state->out_of_memory++;
		return;
	}
	for (size_t i = 0; i < list.count; i++) {
		const struct prog *prog = list.progs[i];

		if (!prog_is_loaded(prog))
			continue;
		settle_found(state, prog, prog->loaded_mono, false);
		settle_hidden(state, prog, prog->loaded_mono, true, NULL);
	}
	prog_list_deinit(&list);
}
