/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See metric.h. */
#include "core/metric.h"

#include <inttypes.h>
#include <string.h>

static bool is_counter(const char *name)
{
	const char *last = strrchr(name, '_');

	return last && strcmp(last, "_total") == 0;
}

void metric_begin(struct text *text, const char *name, const char *help)
{
	text_printf(text, "# HELP ksymfs_%s %s\n# TYPE ksymfs_%s %s\n", name, help, name,
		    is_counter(name) ? "counter" : "gauge");
}

void metric_write(struct text *text, const char *name, const char *help, uint64_t value)
{
	metric_begin(text, name, help);
	text_printf(text, "ksymfs_%s %" PRIu64 "\n", name, value);
}
