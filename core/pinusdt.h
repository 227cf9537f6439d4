/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pinned process as a source of USDT probes: its maps as they were seen last, its held files. */
#ifndef CORE_PINUSDT_H
#define CORE_PINUSDT_H

#include "core/pin.h"
#include "core/usdt.h"

/*
 * name: the pin's directory, by which a path in the texts leads to what a process that has exited
 * had mapped. Looks at the maps before. -ESTALE, -ENOMEM.
 */
int pin_usdt_source(struct pin *pin, const char *name, struct usdt_source *ret);

#endif
