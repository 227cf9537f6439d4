/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An XDP program; run more than once by test_run, it goes through the kernel's XDP dispatcher. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int xdp_sort(struct xdp_md *ctx)
{
	return ctx->data_end - ctx->data > 64 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
