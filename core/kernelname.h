/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asks the kernel itself what an address is: its own %pS, run by a BPF program of type syscall by
 * test_run (5.14 and later). It is how the true length of an image is known, and an oracle for
 * every address.
 *
 * The program is loaded once, by kernelname_open(), and nothing is loaded after. Its symbol shows
 * up like any other. Source: lib/vsprintf.c symbol_string(), kernel/bpf/syscall.c.
 *
 * One call at a time; the owner locks.
 */
#ifndef CORE_KERNELNAME_H
#define CORE_KERNELNAME_H

#include <stdint.h>

#include "core/cleanup.h"

struct kernelname;

struct kernelname_answer {
	char name[512];
	char module[64]; /* empty for vmlinux, and for BPF: %pS prints no [bpf] */
	uint64_t offset; /* of the address asked for within the symbol */
	uint64_t size;	 /* as the kernel reckons it */
};

/* -EPERM, -EINVAL (the kernel has no such program type or helper), -ENOMEM. */
int kernelname_open(struct kernelname **ret);
void kernelname_close(struct kernelname *kernelname); /* NULL is fine */
DEFINE_CLEANUP(kernelname, struct kernelname *, kernelname_close)

/* The id of the program that asks; 0: not known. */
uint32_t kernelname_prog_id(const struct kernelname *kernelname);

/*
 * Names addr as %pS does. At the first byte of an image the kernel may name the neighbour that ends
 * there: ask for start + 1. -ENOENT where the kernel prints a bare number.
 */
int kernelname_ask(struct kernelname *kernelname, uint64_t addr, struct kernelname_answer *ret);
/* Parses what %pS printed: NAME+0xOFF/0xSIZE[ [MODULE]]. -ENOENT for anything else. */
int kernelname_parse(const char *text, struct kernelname_answer *ret);

#endif
