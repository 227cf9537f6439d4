/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names stored once: see module_names.h. */
#include "core/module_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct module_name {
	size_t refs;
	char name[];
};

void module_names_deinit(struct module_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->array[i]);
	free(names->array);
	*names = (struct module_names){};
}

/* Where a name is, or would go. */
static size_t find_name(const struct module_names *names, const char *name)
{
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(names->array[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert_name(struct module_names *names, size_t i, const char *name)
{
	size_t size = strlen(name) + 1;
	struct module_name **array =
		reallocarray(names->array, names->count + 1, sizeof(names->array[0]));

	if (!array)
		return -ENOMEM;
	names->array = array;

	struct module_name *new = malloc(sizeof(*new) + size);

	if (!new)
		return -ENOMEM;
	new->refs = 0;
	memcpy(new->name, name, size);
	memmove(&array[i + 1], &array[i], (names->count - i) * sizeof(array[0]));
	array[i] = new;
	names->count++;
	return 0;
}

int module_names_get(struct module_names *names, const char *name, const char **ret)
{
	if (!name) {
		*ret = NULL;
		return 0;
	}

	size_t i = find_name(names, name);

	if (i == names->count || strcmp(names->array[i]->name, name) != 0) {
		if (insert_name(names, i, name) < 0)
			return -ENOMEM;
	}
	names->array[i]->refs++;
	*ret = names->array[i]->name;
	return 0;
}

void module_names_put(struct module_names *names, const char *name)
{
	if (!name)
		return;

	size_t i = find_name(names, name);

	if (--names->array[i]->refs)
		return;
	free(names->array[i]);
	names->count--;
	memmove(&names->array[i], &names->array[i + 1],
		(names->count - i) * sizeof(names->array[0]));
}
