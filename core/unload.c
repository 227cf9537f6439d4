/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loads unload.bpf.c and reads its ring: see unload.h. */
#include "core/unload.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/clock.h"
#include "core/unload.skel.h"

/* How much is taken from the ring in one go: the owner has a lock that others wait for. */
#define DRAIN_BYTES ((size_t)1 << 20)

struct unload {
	struct unload_bpf *bpf;
	struct ring_buffer *ring;
	struct remains_joiner *joiner;
	uint32_t prog_id;
	uint64_t lost;
	/* While it is drained. */
	struct remains **end; /* of the list */
	size_t drained;
	uint64_t suspended; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC, ns, or a little more */
};

/*
 * Whether this kernel takes any such program from us. libbpf reads all of the kernel's BTF before
 * it asks, and that takes as long as all else that the start does. What this one would be attached
 * to is no function: whoever allows it otherwise says so.
 */
static int try_kernel(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_TRACING,
		.expected_attach_type = BPF_TRACE_FENTRY,
		.attach_btf_id = 1,
		.insns = (uintptr_t)insns,
		.insn_cnt = ARRAY_SIZE(insns),
		.license = (uintptr_t) "GPL",
	};
	_cleanup_fd_ int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	return fd < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS) ? -errno : 0;
}

static int say_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

static int take_piece(void *arg, void *piece, size_t len)
{
	struct unload *unload = arg;
	struct remains *remains;
	int r = remains_join(unload->joiner, piece, len, &remains);

	if (r < 0)
		unload->lost++;
	if (r == 1) {
		remains->loaded_mono = remains->head.load_time - unload->suspended;
		*unload->end = remains;
		unload->end = &remains->next;
	}
	unload->drained += len;
	/* This piece counts as taken either way. */
	return unload->drained < DRAIN_BYTES ? 0 : -EAGAIN;
}

static int load(struct unload *unload)
{
	/* Which errors mean what is ours to say; libbpf would write to the terminal. */
	libbpf_print_fn_t print = libbpf_set_print(say_nothing);
	int r;

	unload->bpf = unload_bpf__open();
	r = unload->bpf ? unload_bpf__load(unload->bpf) : -errno;
	if (r == 0)
		r = unload_bpf__attach(unload->bpf);
	libbpf_set_print(print);
	return r;
}

static int find_prog_id(struct unload *unload)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);
	int fd = bpf_program__fd(unload->bpf->progs.ksymfs_unload);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	unload->prog_id = info.id;
	return 0;
}

/* The number of the first one is fixed (PROC_PID_INIT_INO in include/linux/proc_ns.h). */
static bool is_in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xEFFFFFFC;
}

int unload_open(struct unload **ret)
{
	CLEANUP(unload_cleanup) struct unload *unload = calloc(1, sizeof(*unload));
	int cpus = libbpf_num_possible_cpus();
	int r = is_in_first_pid_namespace() ? try_kernel() : -EDEADLK;

	if (!unload)
		return -ENOMEM;
	if (r < 0)
		return r;
	r = cpus < 0 ? cpus : remains_joiner_create(cpus, &unload->joiner);
	if (r == 0)
		r = load(unload);
	if (r == 0)
		r = find_prog_id(unload);
	if (r < 0)
		return r;
	unload->ring = ring_buffer__new(unload_fd(unload), take_piece, unload, NULL);
	if (!unload->ring)
		return -errno;
	*ret = take_ptr(unload);
	return 0;
}

void unload_close(struct unload *unload)
{
	if (!unload)
		return;
	/* Detached first: it is not to copy itself. */
	if (unload->bpf)
		unload_bpf__detach(unload->bpf);
	ring_buffer__free(unload->ring);
	unload_bpf__destroy(unload->bpf);
	remains_joiner_destroy(unload->joiner);
	free(unload);
}

int unload_fd(const struct unload *unload)
{
	return bpf_map__fd(unload->bpf->maps.unload_ring);
}

uint32_t unload_prog_id(const struct unload *unload)
{
	return unload->prog_id;
}

struct remains *unload_drain(struct unload *unload)
{
	struct remains *first = NULL;

	unload->end = &first;
	unload->drained = 0;
	/* In this order, whatever comes in between makes loads seem earlier, and never too late for
	 * their records. */
	uint64_t mono = clock_ns(CLOCK_MONOTONIC);

	unload->suspended = clock_ns(CLOCK_BOOTTIME) - mono;
	ring_buffer__consume(unload->ring);
	return first;
}

void unload_know(struct unload *unload, uint64_t load_time, const uint8_t tag[BPF_TAG_SIZE])
{
	struct unload_known known = {.load_time = load_time};

	memcpy(&known.tag, tag, sizeof(known.tag));
	struct unload_known *slot =
		&unload->bpf->bss->known[unload_known_slot(known.load_time, known.tag)];

	__atomic_store_n(&slot->tag, known.tag, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->load_time, known.load_time, __ATOMIC_RELEASE);
}

void unload_get_stats(const struct unload *unload, struct unload_stats *ret)
{
	const struct unload_counts *counts = &unload->bpf->bss->counts;
	struct prog_stats stats = {};

	prog_read_stats(unload->prog_id, &stats);
	*ret = (struct unload_stats){
		.copied = __atomic_load_n(&counts->copied, __ATOMIC_RELAXED),
		.known = __atomic_load_n(&counts->known, __ATOMIC_RELAXED),
		.dropped = __atomic_load_n(&counts->dropped, __ATOMIC_RELAXED),
		.failed = __atomic_load_n(&counts->failed, __ATOMIC_RELAXED) + unload->lost,
		.missed = stats.recursion_misses,
	};
}
