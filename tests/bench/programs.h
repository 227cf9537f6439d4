/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BPF programs for the benchmarks, loaded with bare bpf(2): libbpf's probes would load others.
 */
#ifndef TESTS_BENCH_PROGRAMS_H
#define TESTS_BENCH_PROGRAMS_H

#include <stdint.h>

/*
 * Loads a socket filter of some 40 instructions named NAME, whose code and tag VARIANT makes unlike
 * others'. The fd, or -errno.
 */
int program_load(const char *name, uint32_t variant);

#endif
