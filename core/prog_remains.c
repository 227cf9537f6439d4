/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs made of what a freed one left: see remains.h. */
#include <errno.h>
#include <string.h>

#include "core/kallsyms.h"
#include "core/remains.h"

/* What instructions have in the kernel alone: include/linux/filter.h. */
#define BPF_TAIL_CALL	0xf0
#define BPF_CALL_ARGS	0xe0
#define BPF_PROBE_MEM	0x20
#define BPF_PROBE_MEM32 0xa0

/* The map that an address is of, or lies in; ret_off: where in its value. */
static const struct unload_map *find_map(const struct remains *remains, uint64_t addr,
					 uint8_t *ret_type, uint32_t *ret_off)
{
	for (uint32_t i = 0; i < remains->head.maps; i++) {
		const struct unload_map *map = &remains->maps[i];
		uint64_t size = ((uint64_t)map->value_size + 7) & ~UINT64_C(7);

		*ret_off = 0;
		*ret_type = BPF_PSEUDO_MAP_FD;
		if (addr == map->addr)
			return map;
		*ret_off = addr - map->value;
		*ret_type = BPF_PSEUDO_MAP_VALUE;
		if (map->type == BPF_MAP_TYPE_ARRAY && map->max_entries == 1 &&
		    addr - map->value < size)
			return map;
	}
	return NULL;
}

static bool is_function_call(const struct bpf_insn *insn)
{
	return (insn->code == (BPF_JMP | BPF_CALL) || insn->code == (BPF_JMP | BPF_CALL_ARGS)) &&
	       insn->src_reg == BPF_PSEUDO_CALL;
}

/* Can the `number`th function begin `distance` behind instruction i? The one before it ends there.
 */
static bool is_function_at(const struct remains *remains, uint32_t i, int64_t distance,
			   int64_t number)
{
	int64_t at = i + 1 + distance;

	if (number < 0 || number >= remains->head.funcs || at < 0 || at >= remains->head.insns)
		return false;
	if (at == 0 || number == 0)
		return at == 0 && number == 0;
	uint8_t code = remains->insns[at - 1].code;

	return code == (BPF_JMP | BPF_EXIT) || code == (BPF_JMP | BPF_JA) ||
	       code == (BPF_JMP32 | BPF_JA);
}

/*
 * A call of a function shows the distance to it in off and its number in imm. That is how kernels
 * up to 6.12 keep it; 7.2 keeps the two the other way around, and nothing else tells which it is.
 */
static bool calls_are_swapped(const struct remains *remains)
{
	bool shown = true, swapped = true;

	for (uint32_t i = 0; i < remains->head.insns; i++) {
		const struct bpf_insn *insn = &remains->insns[i];

		if (!is_function_call(insn))
			continue;
		shown &= is_function_at(remains, i, insn->off, insn->imm);
		swapped &= is_function_at(remains, i, insn->imm, insn->off);
	}
	return swapped && !shown;
}

/* Those who may read the program see calls as they are: bpf_insn_prepare_dump() in
 * kernel/bpf/syscall.c, for whom bpf_dump_raw_ok(). */
static void sanitize(const struct remains *remains, struct bpf_insn *insns)
{
	bool swapped = calls_are_swapped(remains);

	for (uint32_t i = 0; i < remains->head.insns; i++) {
		struct bpf_insn *insn = &insns[i];
		uint8_t class = BPF_CLASS(insn->code), mode = BPF_MODE(insn->code);

		if (swapped && is_function_call(insn)) {
			int16_t number = insn->off;

			insn->off = insn->imm;
			insn->imm = number;
		}
		if (insn->code == (BPF_JMP | BPF_TAIL_CALL)) {
			insn->code = BPF_JMP | BPF_CALL;
			insn->imm = BPF_FUNC_tail_call;
		} else if (insn->code == (BPF_JMP | BPF_CALL_ARGS)) {
			insn->code = BPF_JMP | BPF_CALL;
		} else if ((class == BPF_LDX && mode == BPF_PROBE_MEM) ||
			   ((class == BPF_LDX || class == BPF_STX || class == BPF_ST) &&
			    mode == BPF_PROBE_MEM32)) {
			insn->code = class | BPF_SIZE(insn->code) | BPF_MEM;
		} else if (insn->code == (BPF_LD | BPF_IMM | BPF_DW) &&
			   i + 1 < remains->head.insns) {
			uint64_t addr = (uint64_t)(uint32_t)insn[1].imm << 32 | (uint32_t)insn->imm;
			uint32_t off;
			uint8_t type;
			const struct unload_map *map = find_map(remains, addr, &type, &off);

			if (!map)
				continue;
			insn->src_reg = type;
			insn->imm = map->id;
			insn[1].imm = off;
		}
	}
}

static int keep_code(struct blob_pool *pool, const struct remains *remains, struct prog *prog)
{
	size_t len = remains->head.insns * sizeof(remains->insns[0]);
	_cleanup_free_ struct bpf_insn *insns = malloc(len);

	if (!insns)
		return -ENOMEM;
	memcpy(insns, remains->insns, len);
	sanitize(remains, insns);
	int r = blob_intern(pool, insns, len, &prog->xlated);

	if (r == 0)
		r = blob_intern(pool, remains->jited, remains->jited_len, &prog->jited);
	prog->info.xlated_prog_len = len;
	prog->info.jited_prog_len = remains->jited_len;
	return r;
}

static const struct prog_func *find_func(const struct prog *prog, uint64_t addr)
{
	for (size_t i = 0; i < prog->func_count; i++)
		if (prog->funcs[i].addr == addr)
			return &prog->funcs[i];
	return NULL;
}

/* Names are those that the records had, so that what is known of a function stays. */
static int name_func(const struct prog *known, const struct prog *prog, struct prog_func *func)
{
	const struct prog_func *recorded = find_func(known, func->addr);
	const char *main_name = prog->info.name[0] ? prog->info.name : NULL;

	func->symbol = recorded
			       ? strdup(recorded->symbol)
			       : prog_symbol_name(func->tag, func == prog->funcs ? main_name : "F");
	if (!func->symbol)
		return -ENOMEM;
	const char *name = bpf_symbol_name(func->symbol);

	/* What has no name at all is called F, but for the main function. */
	if (!name || (func != prog->funcs && strcmp(name, "F") == 0))
		return 0;
	func->name = strdup(name);
	return func->name ? 0 : -ENOMEM;
}

static int keep_funcs(const struct prog *known, const struct remains *remains, struct prog *prog)
{
	uint32_t count = remains->head.funcs;

	prog->funcs = calloc(count, sizeof(prog->funcs[0]));
	if (!prog->funcs)
		return -ENOMEM;
	for (; prog->func_count < count; prog->func_count++) {
		const struct remains_func *from = &remains->funcs[prog->func_count];
		struct prog_func *func = &prog->funcs[prog->func_count];
		bool is_main = prog->func_count == 0;

		func->addr = from->addr;
		func->len = from->len;
		func->insn_off = is_main ? 0 : UINT32_MAX;
		/* A main function that has others is a program of its own, with a tag of its own;
		 * its symbol has the whole program's. */
		memcpy(func->tag, is_main ? prog->tag : from->tag, sizeof(func->tag));
		int r = name_func(known, prog, func);

		if (r < 0) {
			/* Not counted yet. */
			free(func->symbol);
			return r;
		}
	}
	const char *name = prog->funcs[0].name ?: prog->info.name[0] ? prog->info.name : NULL;

	prog->name = name ? strdup(name) : NULL;
	return name && !prog->name ? -ENOMEM : 0;
}

static int keep_maps(const struct remains *remains, struct prog *prog)
{
	prog->maps = calloc(MAX(remains->head.maps, 1u), sizeof(prog->maps[0]));
	if (!prog->maps)
		return -ENOMEM;
	prog->map_count = prog->info.nr_map_ids = remains->head.maps;
	for (size_t i = 0; i < prog->map_count; i++) {
		const struct unload_map *from = &remains->maps[i];
		struct prog_map *map = &prog->maps[i];

		map->id = from->id;
		map->type = from->type;
		map->key_size = from->key_size;
		map->value_size = from->value_size;
		map->max_entries = from->max_entries;
		memcpy(map->name, from->name, sizeof(map->name));
		map->name[sizeof(map->name) - 1] = '\0';
	}
	return 0;
}

static void fill_info(const struct remains *remains, struct prog *prog)
{
	const struct unload_head *head = &remains->head;
	struct bpf_prog_info *info = &prog->info;

	info->id = prog->id;
	info->type = head->type;
	info->load_time = head->load_time;
	info->created_by_uid = head->uid;
	info->gpl_compatible = head->gpl_compatible;
	info->verified_insns = head->verified_insns;
	info->nr_jited_ksyms = info->nr_jited_func_lens = info->nr_prog_tags = head->funcs;
	memcpy(info->tag, head->tag, sizeof(info->tag));
	memcpy(info->name, head->name, sizeof(info->name));
	info->name[sizeof(info->name) - 1] = '\0';
}

int prog_from_remains(struct blob_pool *pool, const struct prog *known,
		      const struct remains *remains, struct prog **ret)
{
	CLEANUP(prog_cleanup) struct prog *prog = calloc(1, sizeof(*prog));

	if (!prog)
		return -ENOMEM;
	atomic_init(&prog->refs, 1);
	prog->id = known->id;
	memcpy(prog->tag, known->tag, sizeof(prog->tag));
	prog->captured = prog->at_unload = true;
	prog->loaded_mono = known->loaded_mono;
	prog->loaded_unix = known->loaded_unix;
	prog->loader_pid = known->loader_pid;
	memcpy(prog->loader_comm, known->loader_comm, sizeof(prog->loader_comm));
	atomic_init(&prog->unloaded_unix, atomic_load(&known->unloaded_unix));
	atomic_init(&prog->unloaded_mono, atomic_load(&known->unloaded_mono));
	prog->btf_state = prog->lines_state = PROG_PART_GONE;
	fill_info(remains, prog);
	int r = keep_code(pool, remains, prog);

	if (r == 0)
		r = keep_funcs(known, remains, prog);
	if (r == 0)
		r = keep_maps(remains, prog);
	if (r < 0)
		return r;
	*ret = take_ptr(prog);
	return 0;
}
