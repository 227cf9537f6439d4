/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes the place of a function of calls.bpf.c: its prototype is that one's. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("freplace/calls_global")
int replacement(struct __sk_buff *skb)
{
	return skb->len ? 0 : 1;
}

char _license[] SEC("license") = "GPL";
