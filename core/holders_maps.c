/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maps that hold a program: those whose values are programs, and those with programs attached.
 *
 * A syscall's lookup of such a value gives program ids where the loader had put file descriptors
 * (kernel/bpf/arraymap.c, devmap.c, cpumap.c, bpf_struct_ops.c); a sockmap is asked by
 * BPF_PROG_QUERY (5.18 and later).
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/holders_parts.h"

/* What one map may cost: of a larger one the rest is not looked at. */
#define MAP_ENTRIES_MAX 65536
#define MAP_VALUE_MAX	65536

DEFINE_CLEANUP(btf, struct btf *, btf__free)

/* Is the u32 at offset of any value the program's id? */
static bool any_value_holds(int fd, const struct bpf_map_info *info, size_t offset, uint32_t id)
{
	/* Keys of all these types are u32, devmap_hash's too; values are of 4 or 8 bytes. */
	uint32_t key, value[2], *previous = NULL;

	if (info->key_size != sizeof(key) || info->value_size > sizeof(value) ||
	    info->value_size < offset + sizeof(id))
		return false;
	for (size_t n = 0; n < MAP_ENTRIES_MAX; n++) {
		if (bpf_map_get_next_key(fd, previous, &key) < 0)
			return false;
		previous = &key;
		if (bpf_map_lookup_elem(fd, &key, value) == 0 && value[offset / sizeof(id)] == id)
			return true;
	}
	return false;
}

static bool sockmap_holds(int fd, uint32_t id)
{
	static const enum bpf_attach_type types[] = {
		BPF_SK_SKB_STREAM_PARSER,
		BPF_SK_SKB_STREAM_VERDICT,
		BPF_SK_SKB_VERDICT,
		BPF_SK_MSG_VERDICT,
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		uint32_t attached = 0, count = 1;

		if (bpf_prog_query(fd, types[i], 0, NULL, &attached, &count) == 0 && count &&
		    attached == id)
			return true;
	}
	return false;
}

static bool is_func_pointer(const struct btf *btf, uint32_t type_id)
{
	const struct btf_type *type = btf__type_by_id(btf, btf__resolve_type(btf, type_id));

	if (!type || !btf_is_ptr(type))
		return false;
	type = btf__type_by_id(btf, btf__resolve_type(btf, type->type));
	return type && btf_is_func_proto(type);
}

/*
 * Looks where the struct's function pointers were. It is the last part of the value: of
 * {common, data}, before 6.9 of {refcnt, state, data}.
 */
static bool value_holds(const struct btf *btf, uint32_t value_type, const uint8_t *value,
			size_t size, uint32_t id)
{
	const struct btf_type *type = btf__type_by_id(btf, value_type);

	if (!type || !btf_is_struct(type) || btf_vlen(type) < 2)
		return false;
	const struct btf_member *data = &btf_members(type)[btf_vlen(type) - 1];
	const struct btf_type *ops = btf__type_by_id(btf, data->type);

	if (!ops || !btf_is_struct(ops))
		return false;
	for (int i = 0; i < btf_vlen(ops); i++) {
		const struct btf_member *member = &btf_members(ops)[i];
		size_t offset = (data->offset + (size_t)btf_member_bit_offset(ops, i)) / 8;
		uint64_t held;

		if (!is_func_pointer(btf, member->type) || offset + sizeof(held) > size)
			continue;
		memcpy(&held, value + offset, sizeof(held));
		if (held == id)
			return true;
	}
	return false;
}

static bool has_word(const uint8_t *value, size_t size, uint64_t word)
{
	for (size_t i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		if (memcmp(value + i, &word, sizeof(word)) == 0)
			return true;
	}
	return false;
}

/*
 * A word that equals the id may be data. The kernel's BTF tells, which is large to load: *btf is
 * loaded when first needed. Types of modules are not looked into.
 */
static bool struct_ops_holds(int fd, const struct bpf_map_info *info, struct btf **btf, uint32_t id)
{
	_cleanup_free_ uint8_t *value = NULL;
	uint32_t key = 0;

	if (info->value_size > MAP_VALUE_MAX)
		return false;
	value = calloc(1, info->value_size);
	if (!value || bpf_map_lookup_elem(fd, &key, value) < 0 ||
	    !has_word(value, info->value_size, id))
		return false;
	if (!*btf)
		*btf = btf__load_vmlinux_btf();
	return *btf &&
	       value_holds(*btf, info->btf_vmlinux_value_type_id, value, info->value_size, id);
}

static bool map_holds(int fd, const struct bpf_map_info *info, struct btf **btf, uint32_t id)
{
	switch (info->type) {
	case BPF_MAP_TYPE_PROG_ARRAY:
		return any_value_holds(fd, info, 0, id);
	case BPF_MAP_TYPE_DEVMAP:
	case BPF_MAP_TYPE_DEVMAP_HASH:
	case BPF_MAP_TYPE_CPUMAP:
		/* {ifindex or queue size, program} */
		return any_value_holds(fd, info, sizeof(uint32_t), id);
	case BPF_MAP_TYPE_SOCKMAP:
	case BPF_MAP_TYPE_SOCKHASH:
		return sockmap_holds(fd, id);
	case BPF_MAP_TYPE_STRUCT_OPS:
		return struct_ops_holds(fd, info, btf, id);
	default:
		return false;
	}
}

void holders_write_maps(const struct prog *prog, struct text *text)
{
	CLEANUP(btf_cleanup) struct btf *btf = NULL;
	uint32_t id = 0;

	while (bpf_map_get_next_id(id, &id) == 0) {
		_cleanup_fd_ int fd = bpf_map_get_fd_by_id(id);
		struct bpf_map_info info = {};
		uint32_t len = sizeof(info);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
		    map_holds(fd, &info, &btf, prog->id))
			text_printf(text, "map %" PRIu32 "\n", id);
	}
}
