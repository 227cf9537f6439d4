/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples itself as a profiler would: its own kernel stack, and the time at which it was taken.
 * Run by test_run; the newest sample is in the map `samples`.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SAMPLE_DEPTH 16

struct sample {
	__u64 time; /* CLOCK_MONOTONIC ns */
	__s64 len;  /* bytes of stack, or -errno */
	__u64 stack[SAMPLE_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

SEC("raw_tp")
int sample_self(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0;
	struct sample *sample = bpf_map_lookup_elem(&samples, &zero);

	if (!sample)
		return 1;
	sample->time = bpf_ktime_get_ns();
	sample->len = bpf_get_stack(ctx, sample->stack, sizeof(sample->stack), 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
