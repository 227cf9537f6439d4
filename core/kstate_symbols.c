/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How symbols come and go: KSYMBOL records in any order, and lists of the kernel's. See kstate.h.
 */
#include "core/kstate_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>

#include "core/kallsyms.h"

/* The length of the symbol that FineIBT puts ahead of a function: cfi_get_offset(), x86. */
#define CFI_LEN 16

/* ` pid=N comm=NAME`, with - for what is not known. */
void kstate_append_task(struct kstate *state, struct text *line, uint32_t pid, const char *comm)
{
	if (pid)
		text_printf(line, " pid=%" PRIu32 " comm=", pid);
	else
		text_puts(line, " pid=- comm=");
	if (comm[0])
		text_escape(line, comm, strnlen(comm, 16));
	else
		text_putc(line, '-');
}

void kstate_log_symbol(struct kstate *state, uint64_t time, const char *what,
		       const struct symbol *symbol, const uint32_t *pid)
{
	_cleanup_text_ struct text line = {};
	char comm[16] = "";

	kstate_begin_line(&line, time);
	text_puts(&line, what);
	text_putc(&line, ' ');
	text_hex16(&line, symbol->addr);
	text_putc(&line, ' ');
	text_hex16(&line, symbol->len);
	text_putc(&line, ' ');
	text_escape(&line, symbol->name, strlen(symbol->name));
	if (pid) {
		if (*pid)
			state->ops->comm(state->arg, *pid, comm);
		kstate_append_task(state, &line, *pid, comm);
	}
	kstate_end_line(state, &line, time);
}

static void symbols_changed(struct kstate *state, enum symbol_kind kind, uint64_t time)
{
	kstate_changed(state, KSTATE_SYMBOLS, time);
	if (kind == SYMBOL_BPF_IMAGE || kind == SYMBOL_OUT_OF_LINE)
		kstate_changed(state, KSTATE_IMAGES, time);
}

/*
 * Not always alone: a module's init function may still be listed there, or be freed and listed on
 * (SYMBOL_FREED); and the name that only kallsyms has of a first function comes before the
 * program's.
 */
const struct symbol *kstate_dynamic_symbol(const struct kstate *state, uint64_t addr)
{
	const struct symbol *symbol, *first = NULL;

	for (size_t n = 0; (symbol = symtab_at(state->symbols, addr, n)); n++) {
		if (symbol->kind == SYMBOL_CORE || symbol->kind == SYMBOL_MODULE ||
		    symbol->kind == SYMBOL_FREED)
			continue;
		if (!state->has_first || symbol->kind != SYMBOL_BPF_AUX)
			return symbol;
		first = first ? first : symbol;
	}
	return first;
}

/* Is this the name that only kallsyms has of the first function at an address? */
static bool is_first(const struct kstate *state, uint64_t addr, const char *name)
{
	const struct symbol *symbol =
		state->has_first ? symtab_find(state->symbols, addr, name, NULL) : NULL;

	return symbol && symbol->kind == SYMBOL_BPF_AUX;
}

void kstate_add_first(struct kstate *state, const struct symbol *main, const char *name)
{
	struct symbol first = *main;

	first.name = name;
	first.kind = SYMBOL_BPF_AUX;
	/* The kernel adds the functions first, then the program. */
	symtab_remove(state->symbols, main->addr, main->name, main->module);
	if (symtab_add(state->symbols, &first) == -ENOMEM)
		state->out_of_memory++;
	kstate_add_symbol(state, main, main->added);
}

void kstate_add_symbol(struct kstate *state, const struct symbol *symbol, uint64_t time)
{
	char cfi[512 + sizeof("__cfi_")];
	int r = symtab_add(state->symbols, symbol);

	if (r == -ENOMEM)
		state->out_of_memory++;
	if (r < 0)
		return;
	if (symbol->kind == SYMBOL_BPF_PROG && state->has_cfi) {
		struct symbol ahead = *symbol;

		snprintf(cfi, sizeof(cfi), "__cfi_%s", symbol->name);
		ahead.addr -= CFI_LEN;
		ahead.len = CFI_LEN;
		ahead.name = cfi;
		ahead.kind = SYMBOL_BPF_AUX;
		symtab_add(state->symbols, &ahead);
	}
	symbols_changed(state, symbol->kind, time);
}

/* Takes a symbol out of the table and into history. symbol points into the table. */
void kstate_retire_symbol(struct kstate *state, const struct symbol *symbol, uint64_t time)
{
	char name[512], module[64], cfi[512 + sizeof("__cfi_")];
	struct symbol gone = *symbol;
	struct symtab_hit hit;

	/* The strings go with the row. */
	snprintf(name, sizeof(name), "%s", symbol->name);
	snprintf(module, sizeof(module), "%s", symbol->module ? symbol->module : "");
	gone.name = name;
	gone.module = symbol->module ? module : NULL;
	gone.len = 0;
	if (symtab_lookup(state->symbols, gone.addr, &hit) == 0 && hit.symbol->addr == gone.addr)
		gone.len = hit.size;
	if (gone.len && gone.added <= time && history_add(state->history, &gone, time) == -ENOMEM)
		state->out_of_memory++;
	symtab_remove(state->symbols, gone.addr, name, gone.module);
	if (gone.kind == SYMBOL_BPF_PROG && state->has_cfi) {
		snprintf(cfi, sizeof(cfi), "__cfi_%s", name);
		symtab_remove(state->symbols, gone.addr - CFI_LEN, cfi, gone.module);
	}
	const struct symbol *left =
		state->has_first ? kstate_dynamic_symbol(state, gone.addr) : NULL;

	if (gone.kind == SYMBOL_BPF_PROG && left && left->kind == SYMBOL_BPF_AUX) {
		snprintf(name, sizeof(name), "%s", left->name);
		symtab_remove(state->symbols, gone.addr, name, gone.module);
	}
	symbols_changed(state, gone.kind, time);
}

/* A registration of something that is gone already: [added, removed) in history. */
static void add_to_history(struct kstate *state, const struct symbol *symbol, uint64_t removed)
{
	if (history_complete(state->history, symbol) == 0 || !symbol->len)
		return;
	if (history_add(state->history, symbol, removed) == -ENOMEM)
		state->out_of_memory++;
}

void kstate_register_symbol(struct kstate *state, const struct symbol *symbol)
{
	const struct symbol *there = kstate_dynamic_symbol(state, symbol->addr);

	if (there && (strcmp(there->name, symbol->name) == 0 ||
		      is_first(state, symbol->addr, symbol->name))) {
		if (there->observed) {
			/* What was seen is this registration. */
			struct symbol update = *there;

			update.added = symbol->added;
			update.observed = false;
			if (!update.len)
				update.len = symbol->len;
			symtab_update(state->symbols, &update);
			return;
		}
		if (symbol->added == there->added)
			return;
	}
	if (there && symbol->added < there->added) {
		add_to_history(state, symbol, there->added);
		return;
	}
	/* Its removal has not come yet, or was lost: it was gone by now. */
	if (there)
		kstate_retire_symbol(state, there, symbol->added);
	if (history_complete(state->history, symbol) == -ENOENT)
		kstate_add_symbol(state, symbol, symbol->added);
}

/*
 * A removal of what is in history, or of what nobody has told of yet. An entry that it ends earlier
 * than was known was ended before by a removal of somebody else's: that one is matched anew.
 */
static void remember_removal(struct kstate *state, const struct symbol *symbol, uint64_t time)
{
	struct symbol tombstone = *symbol;
	const struct symbol *there;

	while (history_close(state->history, symbol->addr, symbol->name, time, &time) == 0)
		;
	there = kstate_dynamic_symbol(state, symbol->addr);
	if (there && time > there->added && strcmp(symbol->name, there->name) == 0) {
		kstate_retire_symbol(state, there, time);
		return;
	}
	tombstone.added = 0;
	if (history_add(state->history, &tombstone, time) == -ENOMEM)
		state->out_of_memory++;
}

static void unregister_symbol(struct kstate *state, const struct symbol *symbol, uint64_t time)
{
	const struct symbol *there = kstate_dynamic_symbol(state, symbol->addr);

	/* A name that some kernels get wrong is mended by the UNLOAD that follows. */
	if (there && time >= there->added &&
	    (!symbol->name[0] || strcmp(symbol->name, there->name) == 0 ||
	     is_first(state, symbol->addr, symbol->name))) {
		kstate_log_symbol(state, time, "ksym-del", there, NULL);
		kstate_retire_symbol(state, there, time);
		return;
	}
	kstate_log_symbol(state, time, "ksym-del", symbol, NULL);
	remember_removal(state, symbol, time);
}

static void forget_pending(struct kstate *state, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		free(state->pending[i].symbol);
	memmove(state->pending + first, state->pending + first + count,
		(state->pending_count - first - count) * sizeof(state->pending[0]));
	state->pending_count -= count;
}

static void remember_pending(struct kstate *state, const struct record *record)
{
	if (state->pending_count == KSTATE_PENDING)
		forget_pending(state, 0, KSTATE_PENDING / 4);
	struct pending_func *func = &state->pending[state->pending_count];

	*func = (struct pending_func){
		.tid = record->tid,
		.time = record->time,
		.addr = record->ksymbol.addr,
		.len = record->ksymbol.len,
	};
	if (record->ksymbol.name[0]) {
		func->symbol = strdup(record->ksymbol.name);
		if (!func->symbol) {
			state->out_of_memory++;
			return;
		}
	}
	state->pending_count++;
}

void kstate_apply_ksymbol(struct kstate *state, const struct record *record)
{
	struct symbol symbol = {
		.addr = record->ksymbol.addr,
		.len = record->ksymbol.len,
		.added = record->time,
		.name = record->ksymbol.name,
		.module = "bpf",
		.type = 't',
	};

	if (record->ksymbol.type == PERF_RECORD_KSYMBOL_TYPE_BPF) {
		symbol.kind = bpf_symbol_kind(symbol.name);
	} else if (record->ksymbol.type == PERF_RECORD_KSYMBOL_TYPE_OOL) {
		symbol.kind = SYMBOL_OUT_OF_LINE;
		symbol.module = strncmp(symbol.name, "kprobe", strlen("kprobe")) == 0
					? "__builtin__kprobes"
					: "__builtin__ftrace";
	} else {
		return;
	}
	if (state->hidden)
		return;
	bool program = symbol.kind == SYMBOL_BPF_PROG || !symbol.name[0];

	if (record->ksymbol.unregister) {
		/* Not JITed: what it names is the interpreter. */
		if (!program || symbol.len || symbol.name[0])
			unregister_symbol(state, &symbol, record->time);
		return;
	}
	if (program)
		remember_pending(state, record);
	/* Without a name or a length, the LOAD record that follows brings them. */
	if (program && (!symbol.name[0] || !symbol.len))
		return;
	if (symbol.kind == SYMBOL_BPF_IMAGE) {
		uint64_t len = state->ops->image_len(state->arg, symbol.addr, symbol.name);

		symbol.len = len ? len : symbol.len;
	}
	kstate_log_symbol(state, record->time, "ksym-add", &symbol, &record->pid);
	kstate_register_symbol(state, &symbol);
}

int kstate_found_symbol(struct kstate *state, const struct symbol *symbol, uint64_t seen,
			bool announce)
{
	static const uint32_t nobody = 0;
	struct symbol found = *symbol;

	found.added = seen;
	found.observed = true;
	int r = symtab_add(state->symbols, &found);

	if (r == -EEXIST)
		return 0;
	if (r < 0) {
		state->out_of_memory++;
		return r;
	}
	if (announce)
		kstate_log_symbol(state, seen, "ksym-add", &found, &nobody);
	symbols_changed(state, found.kind, seen);
	return 1;
}

int kstate_missed_removal(struct kstate *state, uint64_t addr, const char *name, const char *module,
			  uint64_t last, bool announce)
{
	const struct symbol *there = symtab_find(state->symbols, addr, name, module);

	if (!there)
		return 0;
	if (announce)
		kstate_log_symbol(state, last, "ksym-del", there, NULL);
	kstate_retire_symbol(state, there, MAX(last, there->added));
	return 1;
}

int kstate_resolve(const struct kstate *state, uint64_t addr, uint64_t time, struct symtab_hit *ret)
{
	uint64_t removed;
	bool is_there = symtab_lookup(state->symbols, addr, ret) == 0 && ret->symbol->added <= time;

	/* Where code was freed, other code may have been meanwhile. */
	if (is_there && (ret->symbol->kind != SYMBOL_FREED || time == UINT64_MAX))
		return 0;
	struct symtab_hit then = {};

	if (history_lookup(state->history, addr, time, &then.symbol, &removed) < 0)
		return is_there ? 0 : -ENOENT;
	then.size = then.symbol->len;
	*ret = then;
	return 0;
}
