/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Throws: the kernel adds a hidden exception callback, a function that /proc/kallsyms has and
 * neither prog_info nor any record tells of.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern void bpf_throw(__u64 cookie) __ksym;

SEC("tc")
int throw_if_long(struct __sk_buff *skb)
{
	if (skb->len > 1000)
		bpf_throw(7);
	return 0;
}

char _license[] SEC("license") = "GPL";
