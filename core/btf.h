/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As much of BTF as names take: the names of types by their ids, in a program's BTF (bytes in
 * memory), in the kernel's own (files under /sys/kernel/btf), and in either by the kernel's id of
 * the BTF object.
 *
 * libbpf would hold and index every type of what it opens, megabytes for the kernel's. Here a
 * program's BTF is walked once, and of the kernel's every 16th type's place is remembered. All
 * bounds are checked. Takes no lock.
 *
 * Source: Documentation/bpf/btf.rst, kernel/bpf/btf.c.
 */
#ifndef CORE_BTF_H
#define CORE_BTF_H

#include <linux/btf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/blob.h"
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
/* Bytes that a type takes with its members; 0 for a kind that is not known, which ends a walk. */
size_t btf_type_len(const struct btf_type *type);

/* BTF of the kernel or of a module, by the name that it has in /sys/kernel/btf. */
struct btf_file;

/*
 * base is vmlinux's, on which a module's builds: it stays the caller's and outlives the module's.
 * NULL for vmlinux itself. Errors of files, -EBADMSG, -ENOMEM.
 */
int btf_file_open(const char *name, struct btf_file *base, struct btf_file **ret);
void btf_file_close(struct btf_file *file); /* NULL is fine */
DEFINE_CLEANUP(btf_file, struct btf_file *, btf_file_close)
/* The name of a type, a string of the caller's. -ENOENT if it has none, -EBADMSG, -EIO, -ENOMEM. */
int btf_file_name(struct btf_file *file, uint32_t id, char **ret);

struct btf_module {
	uint32_t id;
	struct btf_file *file;
};

/* BTF objects by id. Starts as zeros and pool. */
struct btf_objects {
	struct blob_pool *pool;
	/* private */
	uint32_t last_id;
	struct blob *last;
	struct btf_file *vmlinux;
	struct btf_module modules[4];
	unsigned int next_module;
};

void btf_objects_deinit(struct btf_objects *objects);
/* Would btf_objects_read() find this object remembered, and need no fd? */
static inline bool btf_objects_has(const struct btf_objects *objects, uint32_t id)
{
	return objects->last && objects->last_id == id;
}
/* The bytes of a program's BTF, a reference of the caller's. -EPERM, -EFBIG, -ENOMEM. */
int btf_objects_read(struct btf_objects *objects, uint32_t id, int fd, struct blob **ret);
/*
 * The name of a type in the object with this id, the kernel's, a module's or a program's: a string
 * of the caller's. An id of 0 is the kernel's own, which has none before 5.11. -ENOENT when there
 * is no such object or it has no name, -EPERM, and the errors of btf_file_open() and
 * btf_file_name().
 */
int btf_objects_name(struct btf_objects *objects, uint32_t id, uint32_t type_id, char **ret);

#endif
