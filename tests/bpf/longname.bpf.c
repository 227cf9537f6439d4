/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names at and past the kernel's 15 bytes: only BTF has the whole of the longer ones, and symbols
 * are made of those.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("socket")
int fifteen_bytes_x(struct __sk_buff *skb)
{
	return 15;
}

SEC("socket")
int sixteen_bytes_xy(struct __sk_buff *skb)
{
	return 16;
}

SEC("socket")
int a_name_that_is_very_much_longer_than_the_fifteen_bytes_that_prog_info_keeps(
	struct __sk_buff *skb)
{
	return 17;
}

char _license[] SEC("license") = "GPL";
