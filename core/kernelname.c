/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's %pS, asked through a BPF program: see kernelname.h.
 *
 * The program is ten instructions: it takes an address from a map that is also mapped here, and
 * has bpf_snprintf() write the answer next to it. The format must lie in a frozen map that programs
 * only read (the verifier's ARG_PTR_TO_CONST_STR). Everything goes by bpf(2) itself: libbpf's
 * loader first loads programs of its own to try the kernel out, and each would show in the tree.
 */
#include "core/kernelname.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PROGRAM_NAME "ksymfs_pS"

/* The one value of the map that is shared with the program. */
struct exchange {
	uint64_t addr;
	char text[1024 - sizeof(uint64_t)];
};

struct kernelname {
	int prog_fd;
	struct exchange *exchange;
};

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	int r = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

static int array_create(size_t value_size, uint32_t flags)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(uint32_t),
		.value_size = value_size,
		.max_entries = 1,
		.map_flags = flags,
	};

	strcpy(attr.map_name, PROGRAM_NAME);
	return bpf(BPF_MAP_CREATE, &attr);
}

/* A frozen map that holds "%pS". Returns its fd or -errno. */
static int format_create(void)
{
	static const char format[8] = "%pS";
	uint32_t key = 0;
	_cleanup_fd_ int fd = array_create(sizeof(format), BPF_F_RDONLY_PROG);

	if (fd < 0)
		return fd;
	union bpf_attr update = {
		.map_fd = fd,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)format,
	};
	int r = bpf(BPF_MAP_UPDATE_ELEM, &update);

	if (r < 0)
		return r;
	union bpf_attr freeze = {.map_fd = fd};

	r = bpf(BPF_MAP_FREEZE, &freeze);
	return r < 0 ? r : take_fd(&fd);
}

#define LOAD_MAP_VALUE(dst, fd)                                                                    \
	{.code = BPF_LD | BPF_DW | BPF_IMM,                                                        \
	 .dst_reg = (dst),                                                                         \
	 .src_reg = BPF_PSEUDO_MAP_VALUE,                                                          \
	 .imm = (fd)},                                                                             \
	{                                                                                          \
	}
#define MOVE_IMM(dst, value)                                                                       \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (dst), .imm = (value)              \
	}
#define MOVE_REG(dst, src)                                                                         \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (dst), .src_reg = (src)            \
	}
#define ADD_IMM(dst, value)                                                                        \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = (dst), .imm = (value)              \
	}

static int program_load(int format_fd, int exchange_fd)
{
	/* bpf_snprintf(exchange->text, sizeof(text), format, &addr, sizeof(addr)) */
	const struct bpf_insn insns[] = {
		LOAD_MAP_VALUE(BPF_REG_1, exchange_fd),
		{.code = BPF_LDX | BPF_DW | BPF_MEM,
		 .dst_reg = BPF_REG_2,
		 .src_reg = BPF_REG_1,
		 .off = offsetof(struct exchange, addr)},
		{.code = BPF_STX | BPF_DW | BPF_MEM,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_2,
		 .off = -8},
		ADD_IMM(BPF_REG_1, offsetof(struct exchange, text)),
		MOVE_IMM(BPF_REG_2, sizeof(((struct exchange *)NULL)->text)),
		LOAD_MAP_VALUE(BPF_REG_3, format_fd),
		MOVE_REG(BPF_REG_4, BPF_REG_10),
		ADD_IMM(BPF_REG_4, -8),
		MOVE_IMM(BPF_REG_5, sizeof(uint64_t)),
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_snprintf},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SYSCALL,
		.insns = (uintptr_t)insns,
		.insn_cnt = ARRAY_SIZE(insns),
		.license = (uintptr_t) "GPL",
		.prog_flags = BPF_F_SLEEPABLE,
	};

	strcpy(attr.prog_name, PROGRAM_NAME);
	return bpf(BPF_PROG_LOAD, &attr);
}

int kernelname_open(struct kernelname **ret)
{
	_cleanup_fd_ int format_fd = format_create();

	if (format_fd < 0)
		return format_fd;
	_cleanup_fd_ int exchange_fd = array_create(sizeof(struct exchange), BPF_F_MMAPABLE);

	if (exchange_fd < 0)
		return exchange_fd;
	/* The program holds both maps; the mapping holds the second one too. */
	_cleanup_fd_ int prog_fd = program_load(format_fd, exchange_fd);

	if (prog_fd < 0)
		return prog_fd;
	void *map = mmap(NULL, sizeof(struct exchange), PROT_READ | PROT_WRITE, MAP_SHARED,
			 exchange_fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	struct kernelname *kernelname = malloc(sizeof(*kernelname));

	if (!kernelname) {
		munmap(map, sizeof(struct exchange));
		return -ENOMEM;
	}
	kernelname->prog_fd = take_fd(&prog_fd);
	kernelname->exchange = map;
	*ret = kernelname;
	return 0;
}

void kernelname_close(struct kernelname *kernelname)
{
	if (!kernelname)
		return;
	munmap(kernelname->exchange, sizeof(struct exchange));
	close(kernelname->prog_fd);
	free(kernelname);
}

uint32_t kernelname_prog_id(const struct kernelname *kernelname)
{
	struct bpf_prog_info info = {};
	union bpf_attr attr = {
		.info.bpf_fd = kernelname->prog_fd,
		.info.info_len = sizeof(info),
		.info.info = (uintptr_t)&info,
	};

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) < 0 ? 0 : info.id;
}

int kernelname_ask(struct kernelname *kernelname, uint64_t addr, struct kernelname_answer *ret)
{
	struct exchange *exchange = kernelname->exchange;
	union bpf_attr attr = {.test.prog_fd = kernelname->prog_fd};

	exchange->addr = addr;
	exchange->text[0] = '\0';
	int r = bpf(BPF_PROG_TEST_RUN, &attr);

	if (r < 0)
		return r;
	exchange->text[sizeof(exchange->text) - 1] = '\0';
	return kernelname_parse(exchange->text, ret);
}

/* "0xHEX" that ends exactly at end. */
static int parse_hex(const char *text, const char *end, uint64_t *ret)
{
	uint64_t value = 0;

	if (end - text < 3 || end - text > 18 || text[0] != '0' || text[1] != 'x')
		return -ENOENT;
	for (text += 2; text < end; text++) {
		if (*text >= '0' && *text <= '9')
			value = value << 4 | (*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			value = value << 4 | (*text - 'a' + 10);
		else
			return -ENOENT;
	}
	*ret = value;
	return 0;
}

/* Copies [text, end) if it is not empty and fits. */
static int copy_name(char *to, size_t size, const char *text, const char *end)
{
	size_t len = end - text;

	if (!len || len >= size)
		return -ENOENT;
	memcpy(to, text, len);
	to[len] = '\0';
	return 0;
}

/* The last `c` in [text, end), or NULL. */
static const char *last_char(const char *text, const char *end, char c)
{
	return memrchr(text, c, end - text);
}

/* From the end backwards: a name may hold anything, what follows it may not. */
int kernelname_parse(const char *text, struct kernelname_answer *ret)
{
	const char *end = text + strlen(text);

	ret->module[0] = '\0';
	if (end > text && end[-1] == ']') {
		const char *open = last_char(text, end, '[');

		if (!open || open == text || open[-1] != ' ' ||
		    copy_name(ret->module, sizeof(ret->module), open + 1, end - 1) < 0)
			return -ENOENT;
		end = open - 1;
	}
	const char *slash = last_char(text, end, '/');

	if (!slash || parse_hex(slash + 1, end, &ret->size) < 0)
		return -ENOENT;
	const char *plus = last_char(text, slash, '+');

	if (!plus || parse_hex(plus + 1, slash, &ret->offset) < 0)
		return -ENOENT;
	return copy_name(ret->name, sizeof(ret->name), text, plus);
}
