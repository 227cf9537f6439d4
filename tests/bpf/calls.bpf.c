/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of several functions: static ones that stay calls, a global one, and two maps. Every
 * function has a tag, a symbol and source lines of its own.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u64);
	__type(value, __u32);
} lengths SEC(".maps");

static __attribute__((noinline)) __u64 add_length(struct __sk_buff *skb, __u32 slot)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &slot);

	if (!counter)
		return 0;
	*counter += skb->len;
	return *counter;
}

static __attribute__((noinline)) int remember_length(struct __sk_buff *skb)
{
	__u64 key = skb->len;
	__u32 value = skb->protocol;

	return bpf_map_update_elem(&lengths, &key, &value, BPF_ANY);
}

__attribute__((noinline)) int calls_global(struct __sk_buff *skb)
{
	return add_length(skb, 1) > 100;
}

SEC("socket")
int calls_main(struct __sk_buff *skb)
{
	__u64 sum = add_length(skb, 0);

	if (remember_length(skb))
		return 0;
	return calls_global(skb) ? sum & 1 : 2;
}

char _license[] SEC("license") = "GPL";
