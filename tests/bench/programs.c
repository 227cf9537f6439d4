/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/bench/programs.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cleanup.h"

#define ADDITIONS 38

int program_load(const char *name, uint32_t variant)
{
	struct bpf_insn insns[ADDITIONS + 2] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = (int)variant},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)insns,
		.insn_cnt = ARRAY_SIZE(insns),
		.license = (uintptr_t) "GPL",
	};

	for (int i = 1; i <= ADDITIONS; i++)
		insns[i] = (struct bpf_insn){
			.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_0, .imm = i};
	insns[ADDITIONS + 1] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", name);
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	return fd < 0 ? -errno : fd;
}
