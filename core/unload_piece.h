/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What unload.bpf.c writes and unload.c reads: see unload.h. Included by both, so it needs nothing
 * but the kernel's own integer types.
 *
 * A program comes as pieces, in this order: its HEAD, a MAP for each map that it uses, the CODE of
 * each function, its INSNS. What is longer than a piece comes as several. The last piece of INSNS
 * ends the program. The pieces of programs that are freed on several CPUs at a time interleave;
 * those of one CPU do not, for the kernel lets no program run on top of itself.
 */
#ifndef CORE_UNLOAD_PIECE_H
#define CORE_UNLOAD_PIECE_H

#include <linux/types.h>

enum unload_kind {
	UNLOAD_HEAD,
	UNLOAD_MAP,
	UNLOAD_CODE,
	UNLOAD_INSNS,
};

#define UNLOAD_PIECE_BYTES (31u << 10) /* a value of a per-CPU map is at most 32 KiB */
#define UNLOAD_RING_BYTES  (8u << 20)
/* Of one part: a program of a million instructions, the most that there are, has 259. */
#define UNLOAD_PIECES	 272u
#define UNLOAD_FUNCS_MAX 1024u /* the kernel has BPF_MAX_SUBPROGS, 256 */
#define UNLOAD_MAPS_MAX	 64u   /* the kernel's MAX_USED_MAPS */

struct unload_piece {
	__u32 cpu;
	__u32 kind;   /* enum unload_kind */
	__u64 addr;   /* CODE: where the function was */
	__u8 tag[8];  /* CODE: the function's */
	__u32 total;  /* bytes of the part that this is a piece of */
	__u32 offset; /* where in it this piece begins */
	__u32 len;    /* bytes of data */
	__u32 reserved;
	__u8 data[UNLOAD_PIECE_BYTES];
};

struct unload_head {
	__u64 freed;	 /* CLOCK_MONOTONIC ns */
	__u64 load_time; /* CLOCK_BOOTTIME ns, as in bpf_prog_info */
	__u8 tag[8];
	char name[16];
	__u32 type;
	__u32 uid;
	__u32 funcs; /* as many CODE parts */
	__u32 maps;
	__u32 insns;
	__u32 verified_insns; /* 0: this kernel does not count them */
	__u32 gpl_compatible;
};

struct unload_map {
	__u64 addr;  /* of the struct bpf_map: instructions have it */
	__u64 value; /* where the first value would be, if it is an array */
	__u32 id;
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	char name[16];
};

/*
 * Programs that were read in time and need no copy, by what is left of them when they are freed.
 * Each has one slot, which the next one that has it takes: what finds itself displaced is copied,
 * which is no harm.
 */
#define UNLOAD_KNOWN_BITS 14
struct unload_known {
	__u64 load_time; /* 0: nobody's */
	__u64 tag;
};

static inline __u32 unload_known_slot(__u64 load_time, __u64 tag)
{
	return ((load_time ^ tag) * 0x9e3779b97f4a7c15ull) >> (64 - UNLOAD_KNOWN_BITS);
}

/* What the BPF program counts: programs. */
struct unload_counts {
	__u64 copied;
	__u64 known;   /* not copied, for they had been read */
	__u64 dropped; /* the ring was full */
	__u64 failed;  /* it could not be read, or is larger than the bounds above */
};

#endif
