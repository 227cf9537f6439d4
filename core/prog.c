/* SPDX-License-Identifier: GPL-2.0-or-later */
/* BPF programs as things that are held, listed and named; prog_read.c captures them. See prog.h. */
#include "core/prog.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* KSYM_NAME_LEN of 6.1 and later; before, it was 128 and no name came near it. */
#define SYMBOL_SIZE 512

static void funcs_free(struct prog_func *funcs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(funcs[i].symbol);
		free(funcs[i].name);
	}
	free(funcs);
}

struct prog *prog_ref(struct prog *prog)
{
	atomic_fetch_add_explicit(&prog->refs, 1, memory_order_relaxed);
	return prog;
}

void prog_unref(struct prog *prog)
{
	if (!prog || atomic_fetch_sub_explicit(&prog->refs, 1, memory_order_acq_rel) != 1)
		return;
	funcs_free(prog->funcs, prog->func_count);
	blob_unref(prog->jited);
	blob_unref(prog->xlated);
	blob_unref(prog->btf);
	blob_unref(prog->func_info);
	blob_unref(prog->line_info);
	blob_unref(prog->jited_line);
	free(prog->name);
	free(prog->maps);
	free(prog->first_symbol);
	free(prog->attach_target);
	free(prog);
}

int prog_from_records(uint32_t id, const uint8_t tag[BPF_TAG_SIZE], struct prog_func *funcs,
		      size_t func_count, int error, struct prog **ret)
{
	CLEANUP(prog_cleanup) struct prog *prog = calloc(1, sizeof(*prog));

	if (!prog) {
		funcs_free(funcs, func_count);
		return -ENOMEM;
	}
	atomic_init(&prog->refs, 1);
	prog->id = id;
	memcpy(prog->tag, tag, sizeof(prog->tag));
	prog->error = error;
	prog->funcs = funcs;
	prog->func_count = func_count;
	prog->jited_state = PROG_PART_GONE;
	prog->xlated_state = PROG_PART_GONE;
	prog->btf_state = PROG_PART_GONE;
	prog->lines_state = PROG_PART_GONE;
	/* The main program's function comes first and has the program's name. */
	if (func_count && funcs[0].name) {
		prog->name = strdup(funcs[0].name);
		if (!prog->name)
			return -ENOMEM;
	}
	*ret = take_ptr(prog);
	return 0;
}

char *prog_symbol_name(const uint8_t tag[BPF_TAG_SIZE], const char *name)
{
	static const char digits[] = "0123456789abcdef";
	char symbol[SYMBOL_SIZE] = "bpf_prog_";
	size_t len = strlen(symbol);

	for (int i = 0; i < BPF_TAG_SIZE; i++) {
		symbol[len++] = digits[tag[i] >> 4];
		symbol[len++] = digits[tag[i] & 0xf];
	}
	if (name)
		snprintf(symbol + len, sizeof(symbol) - len, "_%s", name);
	return strdup(symbol);
}

int prog_next_id(uint32_t id, uint32_t *ret)
{
	return bpf_prog_get_next_id(id, ret) < 0 ? -errno : 0;
}

const char *prog_type_name(uint32_t type)
{
	return libbpf_bpf_prog_type_str(type);
}

const char *map_type_name(uint32_t type)
{
	return libbpf_bpf_map_type_str(type);
}

int prog_read_stats(uint32_t id, struct prog_stats *ret)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	*ret = (struct prog_stats){
		.run_cnt = info.run_cnt,
		.run_time_ns = info.run_time_ns,
		.recursion_misses = info.recursion_misses,
	};
	return 0;
}
