/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As much of BTF as names take: the names of types by their ids, in a program's BTF (bytes in
 * memory) and in the kernel's own (files under /sys/kernel/btf).
 *
 * libbpf would index every type of what it opens, megabytes for the kernel's. Here a program's BTF
 * is walked once, and of the kernel's every 64th type's place is remembered. All bounds are
 * checked. Takes no lock.
 *
 * Source: Documentation/bpf/btf.rst.
 */
#ifndef CORE_BTF_H
#define CORE_BTF_H

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

/* BTF in memory that belongs to somebody else. */
struct btf_view {
	const uint8_t *types;
	size_t types_len;
	const char *strings; /* ends in a NUL */
	size_t strings_len;
};

/* Checks the header. -EBADMSG. */
int btf_view_init(struct btf_view *ret, const void *data, size_t len);
/* The string at this offset; NULL if there is none. */
const char *btf_view_string(const struct btf_view *btf, uint32_t offset);
/*
 * Looks up the names of many types in one walk: ret[i] becomes the name of type ids[i], which may
 * be empty, or NULL where there is no such type. -EBADMSG when a type on the way does not parse
 * (what was found before it stays), -ENOMEM.
 */
int btf_view_names(const struct btf_view *btf, const uint32_t *ids, size_t count, const char **ret);

/* BTF of the kernel or of a module, by the name it has in /sys/kernel/btf. */
struct btf_file;

/* base: vmlinux's, on which a module's builds; it stays the caller's and outlives the module's.
 * NULL for vmlinux itself. -ENOENT and other errors of files, -EBADMSG, -ENOMEM. */
int btf_file_open(const char *name, const struct btf_file *base, struct btf_file **ret);
void btf_file_close(struct btf_file *file); /* NULL is fine */
DEFINE_CLEANUP(btf_file, struct btf_file *, btf_file_close)
/* The name of a type, a string of the caller's. -ENOENT if it has none, -EBADMSG, -EIO, -ENOMEM. */
int btf_file_name(const struct btf_file *file, uint32_t id, char **ret);

#endif
