/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What programs leave when the kernel frees them, copied by a BPF program on the way.
 *
 * A program that is closed at once may be gone before anybody has asked for it by its id. But its
 * last user gone, the kernel waits for a grace period and then frees it, in __bpf_prog_put_rcu():
 * its id, BTF and line info have gone by then, its image, its instructions and its maps have not.
 * unload.bpf.c runs there and writes them into a ring. Other places do not do: a tracing program is
 * not run on top of itself, and where programs are put many at a time on one CPU, interrupts
 * included, a share of them (up to 23 %) is passed over; an RCU callback runs undisturbed. Of
 * 10,000 programs that 16 threads closed at once on 2 busy CPUs, with preempt=full (Linux 6.12), 0
 * were missed and none found the ring full; of 4,000 likewise on 5.10 and 7.2, and of 2,000 on 6.1.
 *
 * What has been read in time is not copied: whoever reads says so by unload_know().
 *
 * The program is loaded and attached once, by unload_open(), ahead of the first look at what is
 * loaded: what was there then and is not read, or comes later, is seen when it is freed. Closing,
 * and the end of the process, however it comes, detach it. Needs a kernel that takes fentry
 * programs (BTF, ftrace, no lockdown=confidentiality).
 *
 * What it costs: 8 MiB of ring, which is mapped twice, as rings are (Linux 6.12 counts both as
 * resident, 6.1 neither); a program that is larger than that, of more than some 600,000
 * instructions, is dropped, and counted, if nobody has read it before. And at the start the time in
 * which libbpf reads the kernel's BTF. The kernel traces functions while this is attached, and so
 * goes on listing the init functions of modules that are loaded meanwhile: see modules.c.
 *
 * Owner locks. Nothing here allocates by what the kernel wrote without a bound: see remains.h.
 */
#ifndef CORE_UNLOAD_H
#define CORE_UNLOAD_H

#include "core/remains.h"

struct unload;

/*
 * -EDEADLK: in a pid namespace below the first. When that ends with its first process, this one is
 * ended too, and detaches; the kernel then waits for all tasks that are ending, of which the first
 * process is one, and that waits for this (seen on Linux 6.1: for ever, and whoever detaches after
 * that, too).
 * -EPERM, -EACCES: refused; -ESRCH, -ENOENT: this kernel has no such function, or no BTF;
 * -EOPNOTSUPP: this build has no such program; other errors of bpf(2); -ENOMEM.
 */
int unload_open(struct unload **ret);
void unload_close(struct unload *unload); /* NULL is fine */
DEFINE_CLEANUP(unload, struct unload *, unload_close)

/* For poll(): readable while there is something to be drained. */
int unload_fd(const struct unload *unload);
/* The id of the program itself. */
uint32_t unload_prog_id(const struct unload *unload);

/*
 * Takes what is in the ring: a list, for the caller to destroy, of the first to be freed first.
 * Some hundred programs, then the rest waits for the next call, which the fd asks for.
 */
struct remains *unload_drain(struct unload *unload);

/* This one has been read; by what is in its bpf_prog_info. */
void unload_know(struct unload *unload, uint64_t load_time, const uint8_t tag[BPF_TAG_SIZE]);

/* Freed programs. */
struct unload_stats {
	uint64_t copied;
	uint64_t known;	  /* had been read */
	uint64_t dropped; /* found the ring full */
	uint64_t failed;  /* could not be copied, or put together again */
	uint64_t missed;  /* the kernel passed ours over; told from Linux 5.12 on */
};
void unload_get_stats(const struct unload *unload, struct unload_stats *ret);

#endif
