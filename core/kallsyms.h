/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads symbol lists in the format of /proc/kallsyms, and module lists in that of /proc/modules.
 * Knows no BPF beyond the names by which kallsyms tells its rows apart. Takes no lock.
 *
 * Source: kernel/kallsyms.c s_show(), kernel/module/procfs.c m_show().
 */
#ifndef CORE_KALLSYMS_H
#define CORE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symtab.h"

struct kallsyms {
	struct symbol *symbols; /* in file order; strings owned by this */
	size_t count;
	bool hidden; /* every address was 0: this reader may not see them */
	/* private */
	size_t room;
	void *arena;
};

void kallsyms_deinit(struct kallsyms *list);
/* Appends a copy of a symbol to a list, which begins as zeros. -ENOMEM. */
int kallsyms_keep(struct kallsyms *list, const struct symbol *symbol);

/*
 * Takes rows in file order, as many at once as were read at once, while they are in the cache:
 * whoever takes them may change them, and their strings last until it returns. Below 0 ends the
 * reading. What a module that is being loaded takes from others (type U) is left out.
 */
typedef int kallsyms_take_fn(struct symbol *rows, size_t count, void *arg);

/*
 * Parses rows from fd up to its end, and hands them over. `kind` of each row follows from its
 * module and name; bpf rows of programs are SYMBOL_BPF_PROG with len 0 and prog_id 0. *ret_hidden:
 * as in struct kallsyms.
 *
 * -EBADMSG for a line that is not a row, with *ret_line its number (from 1): rows before it may
 * have been taken. -EIO and other read errors as read() has them; -ENOMEM; what take returned.
 * ret_line may be NULL.
 */
int kallsyms_visit(int fd, kallsyms_take_fn *take, void *arg, bool *ret_hidden, size_t *ret_line);
/*
 * The same as a list. With modules_only, rows without a module are checked for form and not kept.
 */
int kallsyms_read(int fd, bool modules_only, struct kallsyms *ret, size_t *ret_line);
/* The same from memory, for tests and fuzzing. */
int kallsyms_parse(const char *data, size_t len, bool modules_only, struct kallsyms *ret,
		   size_t *ret_line);

struct module_bound {
	char *name;
	uint64_t start; /* 0: the kernel does not show it to us */
	uint64_t size;	/* bytes; of a loading module, its init part included */
	bool live;
};

struct module_list {
	struct module_bound *modules;
	size_t count;
};

void module_list_deinit(struct module_list *list);
/* Parses a list in the format of /proc/modules. Errors as kallsyms_read(). */
int module_list_read(int fd, struct module_list *ret, size_t *ret_line);
int module_list_parse(const char *data, size_t len, struct module_list *ret, size_t *ret_line);

/* What a row of module [bpf] is, by its name: SYMBOL_BPF_PROG, _AUX or _IMAGE. */
enum symbol_kind bpf_symbol_kind(const char *name);
/* The tag in a program's symbol (bpf_prog_TAG...): false if it has none. */
bool bpf_symbol_tag(const char *name, uint8_t ret_tag[8]);
/* What follows the tag in one, within it: NULL if nothing does. */
const char *bpf_symbol_name(const char *name);

#endif
