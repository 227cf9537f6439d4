/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In the place of counted.c, for an object without semaphores and so without .probes. */
#include "provider.h"

void kstest_fire_counted(int value)
{
}
