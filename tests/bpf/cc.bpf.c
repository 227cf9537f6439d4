/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A TCP congestion control: attaching it makes struct_ops images, which the kernel generates
 * beside the programs (bpf__tcp_congestion_ops_ssthresh and so on).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct sock;

/* Only the members that this one sets; libbpf finds their places in the kernel by name. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
};

SEC("struct_ops/cc_init")
void BPF_PROG(cc_init, struct sock *sk)
{
}

SEC("struct_ops/cc_ssthresh")
__u32 BPF_PROG(cc_ssthresh, struct sock *sk)
{
	return 2;
}

SEC("struct_ops/cc_undo_cwnd")
__u32 BPF_PROG(cc_undo_cwnd, struct sock *sk)
{
	return 3;
}

SEC("struct_ops/cc_cong_avoid")
void BPF_PROG(cc_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

/* The loader writes a name of its own over these bytes: the kernel has one namespace for them. */
SEC(".struct_ops")
struct tcp_congestion_ops cc = {
	.ssthresh = (void *)cc_ssthresh,
	.cong_avoid = (void *)cc_cong_avoid,
	.undo_cwnd = (void *)cc_undo_cwnd,
	.init = (void *)cc_init,
	.name = "ksymfs@@@@@@@@",
};

char _license[] SEC("license") = "GPL";
