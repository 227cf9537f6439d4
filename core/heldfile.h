/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mapped files held open (O_PATH), each once however many processes and mappings have it: a libc
 * that a hundred pins share is one fd.
 *
 * O_PATH neither opens nor asks the file system: holding a file of a dead FUSE server costs
 * nothing. The table has a lock of its own, the innermost; a file may outlive it.
 */
#ifndef CORE_HELDFILE_H
#define CORE_HELDFILE_H

#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"
#include "core/keeper.h"

struct held_files;
struct held_file;

/*
 * At most `max` files at a time, and none of the device that *own_dev says (0: none yet), which
 * outlives the table: held files of our own mount would keep it from being unmounted.
 */
int held_files_create(unsigned int max, const dev_t *own_dev, struct held_files **ret);
/* The table goes when its owner and its last file are gone. */
void held_files_destroy(struct held_files *files); /* NULL is fine */
unsigned int held_files_count(struct held_files *files);
/* Where files are to be kept that outlive this process. Before any is held; it outlives them. */
void held_files_set_keeper(struct held_files *files, const struct keeper *keeper);

/*
 * The file that dir_fd/name leads to, a magic link of /proc. The caller owns a reference. -ENFILE
 * past the bound, -EXDEV for our own device, errors of openat(2).
 *
 * It is known by what statx(2) says, not by the device and inode of maps, which on btrfs are the
 * same for files of different subvolumes.
 */
int held_file_get(struct held_files *files, int dir_fd, const char *name, struct held_file **ret);
struct held_file *held_file_ref(struct held_file *file);
void held_file_unref(struct held_file *file); /* NULL is fine */
DEFINE_CLEANUP(held_file, struct held_file *, held_file_unref)
#define _cleanup_held_file_ CLEANUP(held_file_cleanup)

/* Has the file outlive this process, from now on and for as long as it is held: its number. */
uint64_t held_file_keep(struct held_file *file);
/* A reference to a file that was kept. -ENOENT: it is not there; otherwise as held_file_get(). */
int held_file_restore(struct held_files *files, uint64_t number, struct held_file **ret);

/* An O_PATH fd that belongs to the file. */
int held_file_fd(const struct held_file *file);

#endif
