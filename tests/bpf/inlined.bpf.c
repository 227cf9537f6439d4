/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions from several files: headers that include headers, code inlined over two levels, a
 * subprogram, and one whose address is taken. So neighbouring instructions have lines of different
 * files.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "inlined.h"

__u64 total;

static __attribute__((noinline)) int account(struct __sk_buff *skb, __u64 value)
{
	if (value & 1)
		__sync_fetch_and_add(&total, mix(value, skb->len));
	return value % 7;
}

static int each(__u32 index, void *ctx)
{
	*(__u64 *)ctx = mix(*(__u64 *)ctx, index);
	return 0;
}

SEC("socket")
int inlined_main(struct __sk_buff *skb)
{
	__u64 value = mixed_length(skb);

	bpf_loop(3, each, &value, 0);
	return account(skb, value) + account(skb, mix(value, 5));
}

char _license[] SEC("license") = "GPL";
