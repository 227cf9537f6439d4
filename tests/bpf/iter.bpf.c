/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An iterator: a tracing program that is attached to a BTF function of the kernel's. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct bpf_iter_meta;
struct bpf_map;

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
} __attribute__((preserve_access_index));

SEC("iter/bpf_map")
int iter_maps(struct bpf_iter__bpf_map *ctx)
{
	return ctx->map ? 0 : 1;
}

char _license[] SEC("license") = "GPL";
