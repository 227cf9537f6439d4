/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whatever bytes a program's BTF is made of: names lie within them, or there are none. */
#include <stdlib.h>
#include <string.h>

#include "core/btf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t ids[] = {7, 1, 2, 3, 4, 5, 6, 8, 100, 0, UINT32_MAX, 1};
	const char *names[ARRAY_SIZE(ids)];
	uint8_t *copy = malloc(size ? size : 1);
	struct btf_view btf;

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	if (btf_view_init(&btf, copy, size) == 0) {
		btf_view_names(&btf, ids, ARRAY_SIZE(ids), names);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
			const char *end = names[i] ? names[i] + strlen(names[i]) : NULL;

			if (end && end >= btf.strings + btf.strings_len)
				abort();
		}
	}
	free(copy);
	return 0;
}
