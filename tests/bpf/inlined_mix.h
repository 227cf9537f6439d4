/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_BPF_INLINED_MIX_H
#define TESTS_BPF_INLINED_MIX_H

static __attribute__((always_inline)) inline __u64 mix(__u64 x, __u64 y)
{
	x ^= y;
	return x * 0x9e3779b97f4a7c15ULL;
}

#endif
