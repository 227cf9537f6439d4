/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /proc/PID/maps as typed records. Pure but for maps_read_text(): the text can as well be one that
 * was kept from a process that is gone.
 *
 * A line is `START-END PERM OFFSET MAJ:MIN INODE PATH`. The path is the rest of the line, blanks
 * and a ` (deleted)` included, and may be longer than PATH_MAX; the kernel writes a newline in it
 * as \012 and nothing else escaped, not even a backslash. See fs/proc/task_mmu.c, show_map_vma().
 */
#ifndef CORE_MAPS_H
#define CORE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"
#include "core/text.h"

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* in the file, in bytes */
	uint64_t inode;	 /* 0: not a file */
	/*
	 * As maps has it. With btrfs and overlayfs it is not always what stat() says of the same
	 * file.
	 */
	dev_t dev;
	bool read, write, exec;
	bool shared;
	/* The rest of the line, raw, in the text that was parsed; not NUL-terminated. */
	const char *path;
	size_t path_len;
};

/* In the order of the text: by address. */
struct maps {
	struct mapping *mappings;
	size_t count;
};

/* A hostile process can have long paths in very many mappings; past this much text: -EFBIG. */
#define MAPS_TEXT_MAX (64u << 20)

/*
 * Appends the `maps` of a directory fd on /proc/PID, /proc/TID or /proc/PID/task/TID. Empty is what
 * kernel threads, zombies and exited main threads have: no error. -ESRCH when the process went
 * while it was read.
 */
int maps_read_text(int proc_dir_fd, struct text *text);
/* The same by an fd on `maps` itself. */
int maps_read_fd(int fd, struct text *text);

/*
 * Parses a whole text, whose bytes ret goes on pointing to. -EBADMSG for a line that is not what
 * the kernel writes, -ENOMEM.
 */
int maps_parse(const char *text, size_t len, struct maps *ret);
void maps_deinit(struct maps *maps);
#define _cleanup_maps_ CLEANUP(maps_deinit)

/* The name of a mapping in /proc/PID/map_files: START-END, in hex that is not padded. */
#define MAP_FILES_NAME_SIZE 36
void mapping_name(const struct mapping *mapping, char ret[static MAP_FILES_NAME_SIZE]);

/*
 * Where in memory the byte at `offset` of the mapped file is: true if this mapping has it. The
 * address is the run time one.
 */
bool mapping_address(const struct mapping *mapping, uint64_t offset, uint64_t *ret);

/* The mapping that covers addr, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t addr);

#endif
