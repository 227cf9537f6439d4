/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ranges that nothing reaches out of: see bounds.h. */
#include "core/bounds.h"

#include <errno.h>
#include <string.h>

#include "core/cleanup.h"

void bounds_deinit(struct bounds *bounds)
{
	free(bounds->array);
	*bounds = (struct bounds){};
}

/* How many start at addr or below. */
static size_t count_up_to(const struct bounds *bounds, uint64_t addr)
{
	size_t low = 0, high = bounds->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (bounds->array[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

uint64_t bounds_end(const struct bounds *bounds, uint64_t addr)
{
	size_t i = count_up_to(bounds, addr);

	if (i == 0 || addr >= bounds->array[i - 1].end)
		return 0;
	if (i < bounds->count && bounds->array[i].start < bounds->array[i - 1].end)
		return bounds->array[i].start;
	return bounds->array[i - 1].end;
}

/* The end of a bound, or of the one before it where that one reaches further. */
static uint64_t reach_of(const struct bounds *bounds, size_t i)
{
	uint64_t end = bounds->array[i].end;

	return i > 0 ? MAX(end, bounds->array[i - 1].end) : end;
}

int bounds_with(const struct bounds *bounds, uint64_t start, uint64_t end, struct bounds *ret,
		uint64_t *ret_reach)
{
	size_t i = count_up_to(bounds, start);
	size_t after = bounds->count - i;

	if (start >= end)
		return -EINVAL;
	if (i > 0 && bounds->array[i - 1].start == start)
		return -EEXIST;

	struct bound *array = reallocarray(NULL, bounds->count + 1, sizeof(*array));

	if (!array)
		return -ENOMEM;
	if (i)
		memcpy(array, bounds->array, i * sizeof(*array));
	array[i] = (struct bound){start, end};
	if (after)
		memcpy(&array[i + 1], &bounds->array[i], after * sizeof(*array));
	*ret = (struct bounds){array, bounds->count + 1};
	*ret_reach = reach_of(ret, i);
	return 0;
}

int bounds_without(const struct bounds *bounds, uint64_t start, struct bounds *ret,
		   uint64_t *ret_reach)
{
	size_t after = count_up_to(bounds, start);

	if (after == 0 || bounds->array[after - 1].start != start)
		return -ENOENT;

	size_t i = after - 1;
	struct bound *array = reallocarray(NULL, bounds->count, sizeof(*array));

	if (!array)
		return -ENOMEM;
	memcpy(array, bounds->array, i * sizeof(*array));
	memcpy(&array[i], &bounds->array[after], (bounds->count - after) * sizeof(*array));
	*ret = (struct bounds){array, bounds->count - 1};
	*ret_reach = reach_of(bounds, i);
	return 0;
}
