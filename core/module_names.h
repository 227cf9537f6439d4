/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The modules that symbols belong to: each name stored once and counted, so that two are equal if
 * their pointers are. Part of the symbol table, whose owner locks.
 */
#ifndef CORE_MODULE_NAMES_H
#define CORE_MODULE_NAMES_H

#include <stddef.h>

struct module_name;

struct module_names {
	struct module_name **array; /* by name */
	size_t count;
};

void module_names_deinit(struct module_names *names);
/* The stored copy of a name, with one reference more; NULL, for vmlinux, is its own. -ENOMEM. */
int module_names_get(struct module_names *names, const char *name, const char **ret);
/* Gives back what module_names_get() gave. */
void module_names_put(struct module_names *names, const char *name);

#endif
