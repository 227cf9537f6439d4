#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Writes a BPF program of 1,020 statements, each on a line of its own, some 4,000 instructions long.
cat <<'END'
/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Written by many_lines.sh. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("socket")
int many_lines(struct __sk_buff *skb)
{
	__u64 sum = skb->len;

END
i=0
while [ $i -lt 340 ]; do
	echo "	sum = sum * $((i * 7919 + 1)) + (sum >> $((i % 31 + 1)));"
	echo "	if (sum & $((1 << i % 30)))"
	echo "		sum ^= bpf_get_prandom_u32() + $i;"
	i=$((i + 1))
done
cat <<'END'
	return sum;
}

char _license[] SEC("license") = "GPL";
END
