/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs in the kernel each time that a program is freed, and writes into a ring what nobody can ask
 * for any more: see unload.h.
 *
 * The structures below have just the members that are used; libbpf finds where this kernel has
 * them (CO-RE). They are read as plain memory, for a pointer that was reckoned from another one has
 * no type for the verifier.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "core/unload_piece.h"

#define KERNEL __attribute__((preserve_access_index))

struct callback_head {
	struct callback_head *next;
} KERNEL;

typedef struct {
	unsigned int val;
} kuid_t;

struct user_struct {
	kuid_t uid;
} KERNEL;

struct bpf_prog_aux;

struct bpf_prog {
	__u16 gpl_compatible : 1;
	enum bpf_prog_type type;
	__u32 len;
	__u32 jited_len;
	__u8 tag[8];
	void *bpf_func;
	struct bpf_prog_aux *aux;
	struct bpf_insn insnsi[0];
} KERNEL;

struct bpf_map;

struct bpf_prog_aux {
	__u32 used_map_cnt;
	__u32 func_cnt;
	struct bpf_prog **func;
	struct bpf_map **used_maps;
	__u64 load_time;
	struct user_struct *user;
	__u32 verified_insns;
	char name[16];
	struct bpf_prog *prog;
	struct callback_head rcu;
} KERNEL;

struct bpf_map {
	enum bpf_map_type map_type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 id;
	char name[16];
} KERNEL;

struct bpf_array {
	struct bpf_map map;
	char value[0];
} KERNEL;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, UNLOAD_RING_BYTES);
} unload_ring SEC(".maps");

/* A piece in the making: too large for the stack, and one a CPU is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unload_piece);
} unload_scratch SEC(".maps");

/* Shared with the reader, who has them mapped. */
struct unload_known known[1 << UNLOAD_KNOWN_BITS];
struct unload_counts counts;

enum outcome { SENT, FULL, FAILED };

static struct unload_piece *scratch(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&unload_scratch, &key);
}

static __always_inline int send_piece(struct unload_piece *piece, __u64 from, __u32 offset,
				      __u64 len, __u64 flags)
{
	if (bpf_probe_read_kernel(piece->data, len, (void *)(from + offset)))
		return FAILED;
	piece->offset = offset;
	piece->len = len;
	return bpf_ringbuf_output(&unload_ring, piece,
				  __builtin_offsetof(struct unload_piece, data) + len, flags)
		       ? FULL
		       : SENT;
}

/*
 * Sends `total` bytes from an address, as pieces of what the scratch says; the flags are the last
 * piece's. A function of its own to the verifier, which so goes through the loop once, and not once
 * for each function of a program.
 */
__attribute__((noinline)) int send_part(__u64 from, __u32 total, __u64 flags)
{
	struct unload_piece *piece = scratch();
	__u32 offset = 0;

	if (!piece)
		return FAILED;
	piece->total = total;
	for (__u32 i = 0; i < UNLOAD_PIECES && total - offset > UNLOAD_PIECE_BYTES; i++) {
		int r = send_piece(piece, from, offset, UNLOAD_PIECE_BYTES, BPF_RB_NO_WAKEUP);

		if (r)
			return r;
		offset += UNLOAD_PIECE_BYTES;
	}
	__u64 len = total - offset;

	/* What is compared is to be what is passed on, not a copy of it: the verifier forgets. */
	barrier_var(len);
	if (len > UNLOAD_PIECE_BYTES)
		return FAILED;
	return send_piece(piece, from, offset, len, flags);
}

/* Sends what lies in the scratch already. */
static int send_scratch(struct unload_piece *piece, __u32 kind, __u32 len)
{
	piece->kind = kind;
	piece->total = piece->len = len;
	piece->offset = 0;
	return bpf_ringbuf_output(&unload_ring, piece,
				  __builtin_offsetof(struct unload_piece, data) + len,
				  BPF_RB_NO_WAKEUP)
		       ? FULL
		       : SENT;
}

static int send_head(struct unload_piece *piece, struct bpf_prog_aux *aux, struct bpf_prog *prog)
{
	struct unload_head *head = (struct unload_head *)piece->data;

	head->freed = bpf_ktime_get_ns();
	head->load_time = BPF_CORE_READ(aux, load_time);
	BPF_CORE_READ_INTO(&head->tag, prog, tag);
	BPF_CORE_READ_INTO(&head->name, aux, name);
	head->type = BPF_CORE_READ(prog, type);
	head->uid = BPF_CORE_READ(aux, user, uid.val);
	head->funcs = BPF_CORE_READ(aux, func_cnt) ?: 1;
	head->maps = BPF_CORE_READ(aux, used_map_cnt);
	head->insns = BPF_CORE_READ(prog, len);
	head->gpl_compatible = BPF_CORE_READ_BITFIELD_PROBED(prog, gpl_compatible);
	head->verified_insns = 0;
	if (bpf_core_field_exists(struct bpf_prog_aux, verified_insns))
		head->verified_insns = BPF_CORE_READ(aux, verified_insns);
	return send_scratch(piece, UNLOAD_HEAD, sizeof(*head));
}

static int send_maps(struct unload_piece *piece, struct bpf_prog_aux *aux)
{
	struct unload_map *to = (struct unload_map *)piece->data;
	struct bpf_map **maps = BPF_CORE_READ(aux, used_maps);
	__u32 count = BPF_CORE_READ(aux, used_map_cnt);

	for (__u32 i = 0; i < UNLOAD_MAPS_MAX; i++) {
		struct bpf_map *map = NULL;

		if (i >= count)
			return SENT;
		if (bpf_probe_read_kernel(&map, sizeof(map), maps + i))
			return FAILED;
		to->addr = (unsigned long)map;
		to->value = to->addr + bpf_core_field_offset(struct bpf_array, value);
		to->id = BPF_CORE_READ(map, id);
		to->type = BPF_CORE_READ(map, map_type);
		to->key_size = BPF_CORE_READ(map, key_size);
		to->value_size = BPF_CORE_READ(map, value_size);
		to->max_entries = BPF_CORE_READ(map, max_entries);
		BPF_CORE_READ_INTO(&to->name, map, name);
		if (send_scratch(piece, UNLOAD_MAP, sizeof(*to)))
			return FULL;
	}
	return FAILED;
}

static int send_function(struct unload_piece *piece, struct bpf_prog *prog)
{
	piece->kind = UNLOAD_CODE;
	piece->addr = (unsigned long)BPF_CORE_READ(prog, bpf_func);
	BPF_CORE_READ_INTO(&piece->tag, prog, tag);
	return send_part(piece->addr, BPF_CORE_READ(prog, jited_len), BPF_RB_NO_WAKEUP);
}

static int send_functions(struct unload_piece *piece, struct bpf_prog_aux *aux,
			  struct bpf_prog *prog)
{
	struct bpf_prog **funcs = BPF_CORE_READ(aux, func);
	__u32 count = BPF_CORE_READ(aux, func_cnt);

	if (!count)
		return send_function(piece, prog);
	for (__u32 i = 0; i < UNLOAD_FUNCS_MAX; i++) {
		struct bpf_prog *func = NULL;

		if (i >= count)
			return SENT;
		if (bpf_probe_read_kernel(&func, sizeof(func), funcs + i))
			return FAILED;
		int r = send_function(piece, func);

		if (r)
			return r;
	}
	return FAILED;
}

static int send_program(struct unload_piece *piece, struct bpf_prog_aux *aux, struct bpf_prog *prog)
{
	int r = send_head(piece, aux, prog);

	if (!r)
		r = send_maps(piece, aux);
	if (!r)
		r = send_functions(piece, aux, prog);
	if (r)
		return r;
	piece->kind = UNLOAD_INSNS;
	return send_part((unsigned long)prog + bpf_core_field_offset(struct bpf_prog, insnsi),
			 BPF_CORE_READ(prog, len) * sizeof(struct bpf_insn), BPF_RB_FORCE_WAKEUP);
}

static int was_read(struct bpf_prog_aux *aux, struct bpf_prog *prog)
{
	__u64 load_time = BPF_CORE_READ(aux, load_time), tag;

	BPF_CORE_READ_INTO(&tag, prog, tag);
	const struct unload_known *slot =
		&known[unload_known_slot(load_time, tag) & ((1 << UNLOAD_KNOWN_BITS) - 1)];

	return slot->load_time == load_time && slot->tag == tag;
}

SEC("fentry/__bpf_prog_put_rcu")
int BPF_PROG(ksymfs_unload, struct callback_head *rcu)
{
	struct bpf_prog_aux *aux = (void *)rcu - bpf_core_field_offset(struct bpf_prog_aux, rcu);
	struct bpf_prog *prog = BPF_CORE_READ(aux, prog);
	struct unload_piece *piece = scratch();

	/*
	 * Not JITed, or not even loaded: a failed load comes by here too, in the loader's context,
	 * where a callback may interrupt it and be missed. So it is let go of at once.
	 */
	if (!piece || (!BPF_CORE_READ(aux, func_cnt) && !BPF_CORE_READ(prog, jited_len)))
		return 0;
	if (was_read(aux, prog)) {
		__sync_fetch_and_add(&counts.known, 1);
		return 0;
	}
	piece->cpu = bpf_get_smp_processor_id();
	switch (send_program(piece, aux, prog)) {
	case SENT:
		__sync_fetch_and_add(&counts.copied, 1);
		break;
	case FULL:
		__sync_fetch_and_add(&counts.dropped, 1);
		break;
	case FAILED:
		__sync_fetch_and_add(&counts.failed, 1);
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
