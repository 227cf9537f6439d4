/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is in a scan: between usdt.c, which fills it, and usdt_text.c, which reads it. */
#ifndef CORE_USDT_SCAN_H
#define CORE_USDT_SCAN_H

#include <stdatomic.h>

#include "core/objcache.h"
#include "core/usdt.h"

struct usdt_process {
	struct usdt_source source;
	struct text text; /* of maps */
	struct maps maps;
	bool ready; /* maps are there */
};

enum usdt_kind {
	USDT_FILE,
	USDT_DELETED,
	USDT_MEMFD,
};

/* A process and its first mapping of a file. */
struct usdt_place {
	size_t process;
	const struct mapping *mapping;
};

/* Other processes that map a file, for when the first one has just gone. */
#define USDT_PLACES 4

struct usdt_file {
	/* Filled before the file is opened. */
	struct usdt_place places[USDT_PLACES];
	unsigned int place_count;

	/* Filled by the thread that opens it, and good if ready. */
	struct object *object; /* NULL: it could not be opened or read */
	struct file_state state;
	enum usdt_kind kind;
	struct usdt_place place; /* which one it was */
	char *path;		 /* as the texts have it; NULL without notes */

	bool opened; /* as far as it could be: nobody is at it any more */
	bool ready;  /* it has notes, and no file before it is the same one */
};

/* What a scan holds in memory; what is past it is left out, and counted in `status`. */
#define SCAN_BYTES_MAX (256u << 20)

/* Referenced by who asked and by each job that works on it. */
struct usdt_scan {
	atomic_uint refs;
	atomic_size_t bytes; /* of maps and notes */
	struct objcache *cache;
	struct offload *offload; /* the asker's, who outlives his use of it */
	dev_t own_dev, shmem_dev;
	struct usdt_process *processes;
	size_t process_count;
	struct usdt_file *files;
	size_t file_count, file_size;
	bool files_found; /* file_count is final, and error too */
	int error;	  /* of finding them */
};

/*
 * Reads the 16-bit words at these addresses of a process's memory. known[i] tells which could be
 * read. Waits no longer than the offload's patience.
 */
int usdt_read_memory(struct usdt_scan *scan, size_t process, const uint64_t *addrs, size_t count,
		     uint16_t *values, bool *known);

/*
 * An object has written its part of a text, from start on. Takes it back if that was too much.
 * -ENOMEM.
 */
int usdt_settle_part(const struct usdt_scan *scan, struct text *text, size_t start);

#endif
