/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the providers that tests load have in common. */
#ifndef TESTS_LIVE_USDT_PROVIDER_H
#define TESTS_LIVE_USDT_PROVIDER_H

/* Passes every probe once. */
long kstest_fire(int value) __attribute__((visibility("default")));
void kstest_fire_counted(int value);

#endif
