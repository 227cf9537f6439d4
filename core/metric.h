/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Figures in the Prometheus text format: a HELP and a TYPE line for each name, then its samples.
 * Every name begins with ksymfs_, which callers leave out; one that ends in _total is a counter,
 * any other a gauge.
 */
#ifndef CORE_METRIC_H
#define CORE_METRIC_H

#include <stdint.h>

#include "core/text.h"

/* The lines ahead of a name's samples, for one whose samples have labels. */
void metric_begin(struct text *text, const char *name, const char *help);
/* A name with one sample, which has no label. */
void metric_write(struct text *text, const char *name, const char *help, uint64_t value);

#endif
