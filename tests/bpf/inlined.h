/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code of inlined.bpf.c that comes from another file: inlined, so its lines are in its callers. */
#ifndef TESTS_BPF_INLINED_H
#define TESTS_BPF_INLINED_H

#include "inlined_mix.h"

static __attribute__((always_inline)) inline __u64 mixed_length(struct __sk_buff *skb)
{
	__u64 sum = skb->len;

	for (int i = 0; i < 3; i++)
		sum = mix(sum, skb->cb[i]);
	return sum;
}

#endif
