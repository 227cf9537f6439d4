/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of the tracker that follows modules. They raise no perf records, only uevents.
 *
 * A module's uevent comes when it is live, while its init part is still there; the kernel drops
 * that, and its symbols, before finit_module() returns. /sys/module/NAME/initsize says when: once
 * it is 0 the module's list is final. Until then each request asks again, and the list is re-read
 * when it has happened.
 *
 * A load that fails raises no uevent. Its symbols may have been in the list when somebody else's
 * load asked for a look: so after each look whoever is not live in /proc/modules, or not in it, is
 * looked at again until it is one or the other.
 *
 * Since 6.4 the parts of a module (text, data, what is read-only after init, ...) lie apart, and
 * /proc/modules has the place of the text and the size of all. Where a part ends the kernel itself
 * is asked, by %pS: of each symbol that is the last one in its page.
 *
 * If anything traces functions (a fentry program, say) while a module's init part is freed, the
 * kernel lists the functions that were there until the module goes: kernel/trace/ftrace.c
 * ftrace_free_mem(). These rows have the type T and come behind those of all modules (if there are
 * several of a module the first one comes twice, and the last one not at all). Other code lies
 * there soon: text of the next module, images. The kernel's own %pS names what is there now, and
 * where there is nothing, the function that was. So does the table, for which these rows are
 * SYMBOL_FREED.
 */
#include "core/tracker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define MODULES "/proc/modules"
/* Each part of a module has pages of its own. */
#define PART_ALIGN 4096

static bool same_bound(const struct module_bound *a, const struct module_bound *b)
{
	return a->start == b->start && a->size == b->size;
}

static bool has_bound(const struct module_list *list, const struct module_bound *module)
{
	for (size_t i = 0; i < list->count; i++)
		if (same_bound(&list->modules[i], module))
			return true;
	return false;
}

static int read_bounds(struct tracker *tracker)
{
	_cleanup_fd_ int fd = open(MODULES, O_RDONLY | O_CLOEXEC);
	struct module_list list = {};
	int r = fd < 0 ? -errno : module_list_read(fd, &list, NULL);

	/* A kernel without modules has no list, and needs none. */
	if (r == -ENOENT)
		r = 0;
	tracker->modules_source.error = r;
	if (r < 0)
		return r;
	for (size_t i = 0; i < tracker->modules.count; i++)
		if (!has_bound(&list, &tracker->modules.modules[i]))
			symtab_remove_bound(tracker->state.symbols,
					    tracker->modules.modules[i].start);
	for (size_t i = 0; i < list.count; i++) {
		const struct module_bound *module = &list.modules[i];

		if (module->start && module->size && !has_bound(&tracker->modules, module))
			symtab_add_bound(tracker->state.symbols, module->start,
					 module->start + module->size);
	}
	module_list_deinit(&tracker->modules);
	tracker->modules = list;
	return 0;
}

/* Symbols behind which, in their page, no other begins: a part of a module may end there. */
struct page_ends {
	struct symbol *symbols; /* names are ours up to count; the table's, of the rest */
	size_t count, size;
	size_t last; /* symbols of the last address, behind count */
};

static int keep_last(struct page_ends *ends)
{
	for (; ends->last; ends->last--) {
		char *name = strdup(ends->symbols[ends->count].name);

		if (!name)
			return -ENOMEM;
		ends->symbols[ends->count++].name = name;
	}
	return 0;
}

static int push(struct page_ends *ends, const struct symbol *symbol)
{
	if (ends->count + ends->last == ends->size) {
		size_t more = MAX(ends->size * 2, (size_t)64);
		struct symbol *grown = reallocarray(ends->symbols, more, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		ends->symbols = grown;
		ends->size = more;
	}
	ends->symbols[ends->count + ends->last++] = *symbol;
	return 0;
}

static int find_page_end(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct page_ends *ends = arg;

	if (symbol->kind == SYMBOL_FREED)
		return 0;
	if (ends->last) {
		uint64_t last = ends->symbols[ends->count].addr;

		if (last / PART_ALIGN != symbol->addr / PART_ALIGN && keep_last(ends) < 0)
			return -ENOMEM;
		if (last != symbol->addr)
			ends->last = 0;
	}
	return symbol->kind == SYMBOL_MODULE && !symbol->len ? push(ends, symbol) : 0;
}

static int keep_freed(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct page_ends *ends = arg;

	if (symbol->kind != SYMBOL_FREED)
		return 0;
	int r = push(ends, symbol);

	return r < 0 ? r : keep_last(ends);
}

/* What the kernel reckons a symbol to have; 0 if it names another one there. */
static uint64_t asked_len(struct tracker *tracker, const struct symbol *symbol)
{
	/* At the first byte it may name what ends there. It may name an alias of a module's. */
	bool freed = symbol->kind == SYMBOL_FREED;
	struct kernelname_answer answer;

	if (kernelname_ask(tracker->kernelname, symbol->addr + freed, &answer) < 0 ||
	    answer.offset != freed || (freed && strcmp(answer.name, symbol->name) != 0))
		return 0;
	/* Before 6.4 a size of data is below 0. */
	return symbol->addr + answer.size > symbol->addr ? answer.size : 0;
}

static void measure(struct tracker *tracker)
{
	struct page_ends ends = {};

	if (!tracker->kernelname)
		return;
	int r = symtab_visit(tracker->state.symbols, 0, find_page_end, &ends);

	if (r == 0)
		r = keep_last(&ends);
	if (r == 0 && symtab_count_kind(tracker->state.symbols, SYMBOL_FREED))
		r = symtab_visit(tracker->state.symbols, 0, keep_freed, &ends);
	for (size_t i = 0; i < ends.count; i++) {
		struct symbol *symbol = &ends.symbols[i];
		uint64_t len = asked_len(tracker, symbol);

		if (len) {
			symbol->len = len;
			symtab_update(tracker->state.symbols, symbol);
		}
		free((char *)symbol->name);
	}
	free(ends.symbols);
	if (r < 0)
		tracker->state.out_of_memory++;
}

/* A number in /sys/module; 0 if it is not there. */
static uint64_t module_number(const char *name, const char *file_name)
{
	char path[128], text[32] = "";

	snprintf(path, sizeof(path), "/sys/module/%s/%s", name, file_name);
	_cleanup_file_ FILE *file = fopen(path, "re");

	if (!file || !fgets(text, sizeof(text), file))
		return 0;
	return strtoull(text, NULL, 0);
}

/* Bytes of a module's init part; 0 once it is dropped, or if the module is gone. */
static uint64_t init_size(const char *name)
{
	return module_number(name, "initsize");
}

/* Remembers a module whose init part is there, to look again when it is not. */
static void settle(struct tracker *tracker, const char *name)
{
	if (!init_size(name))
		return;
	for (size_t i = 0; i < tracker->settling_count; i++)
		if (strcmp(tracker->settling[i], name) == 0)
			return;
	if (tracker->settling_count == ARRAY_SIZE(tracker->settling)) {
		/* More at once than are kept by name: the oldest has had its time. */
		free(tracker->settling[0]);
		memmove(tracker->settling, tracker->settling + 1,
			--tracker->settling_count * sizeof(tracker->settling[0]));
	}
	char *copy = strdup(name);

	if (copy)
		tracker->settling[tracker->settling_count++] = copy;
}

void tracker_module_added(struct tracker *tracker, const char *name)
{
	tracker->modules_due = true;
	settle(tracker, name);
}

static const struct module_bound *find_module(const struct module_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->modules[i].name, name) == 0)
			return &list->modules[i];
	return NULL;
}

/* Where a module's init part was, below or above the rest: [*ret_start, *ret_end). */
static void find_freed(const struct module_list *modules, const char *name, uint64_t *ret_start,
		       uint64_t *ret_end)
{
	const struct module_bound *module = find_module(modules, name);
	uint64_t start = 0;

	if (module && module->live && module->start && !init_size(name))
		start = module_number(name, "sections/.init.text");
	*ret_start = start;
	*ret_end = !start ? 0 : start < module->start ? module->start : UINT64_MAX;
}

void tracker_mark_freed(struct symbol *symbols, size_t count)
{
	_cleanup_fd_ int fd = open(MODULES, O_RDONLY | O_CLOEXEC);
	struct module_list modules = {};
	const char *last = NULL;
	uint64_t start, end;

	if (fd < 0 || module_list_read(fd, &modules, NULL) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct symbol *symbol = &symbols[i];

		if (symbol->kind != SYMBOL_MODULE || symbol->type != 'T')
			continue;
		if (symbol->module != last)
			find_freed(&modules, symbol->module, &start, &end);
		last = symbol->module;
		if (symbol->addr >= start && symbol->addr < end)
			symbol->kind = SYMBOL_FREED;
	}
	module_list_deinit(&modules);
}

struct module_walk {
	struct tracker *tracker;
	const char *last;
};

static int check_module(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct module_walk *walk = arg;
	struct tracker *tracker = walk->tracker;

	if (symbol->kind != SYMBOL_MODULE || symbol->module == walk->last)
		return 0;
	walk->last = symbol->module;
	const struct module_bound *module = find_module(&tracker->modules, symbol->module);

	if (!module)
		tracker->modules_due = true;
	else if (!module->live)
		tracker->modules_unsettled = true;
	else
		settle(tracker, symbol->module);
	return 0;
}

void tracker_look_at_modules(struct tracker *tracker)
{
	struct module_walk walk = {.tracker = tracker};

	tracker->modules_unsettled = false;
	if (read_bounds(tracker) == 0)
		symtab_visit(tracker->state.symbols, 0, check_module, &walk);
	measure(tracker);
}

/* Are there others than when last looked at, or in another state? */
static bool modules_changed(const struct tracker *tracker)
{
	_cleanup_fd_ int fd = open(MODULES, O_RDONLY | O_CLOEXEC);
	const struct module_list *known = &tracker->modules;
	struct module_list list = {};
	bool changed = true;

	if (fd < 0 || module_list_read(fd, &list, NULL) < 0)
		return true;
	if (list.count == known->count) {
		changed = false;
		for (size_t i = 0; i < list.count; i++)
			changed |= list.modules[i].live != known->modules[i].live ||
				   strcmp(list.modules[i].name, known->modules[i].name) != 0;
	}
	module_list_deinit(&list);
	return changed;
}

void tracker_update_modules(struct tracker *tracker)
{
	struct differences found = {};
	size_t kept = 0;

	/* Asked before the list is read: what is dropped by now is not in it. */
	for (size_t i = 0; i < tracker->settling_count; i++) {
		if (init_size(tracker->settling[i])) {
			tracker->settling[kept++] = tracker->settling[i];
			continue;
		}
		free(tracker->settling[i]);
		tracker->modules_due = true;
	}
	tracker->settling_count = kept;
	if (tracker->modules_unsettled && !tracker->modules_due)
		tracker->modules_due = modules_changed(tracker);
	if (!tracker->modules_due || tracker->state.hidden)
		return;
	tracker->modules_due = false;
	/* What cannot be seen now is owed. */
	if (tracker_compare(tracker, false, false, &found) < 0)
		tracker->modules_due = true;
	tracker_look_at_modules(tracker);
}
