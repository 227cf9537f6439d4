/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tracker's files share: tracker.c (order, threads), baseline.c and compare.c (looks
 * at the whole), modules.c, query.c (answers), report.c (status, metrics, check). */
#ifndef CORE_TRACKER_INTERNAL_H
#define CORE_TRACKER_INTERNAL_H

#include <pthread.h>

#include "core/kallsyms.h"
#include "core/kernelname.h"
#include "core/kstate.h"
#include "core/tracker.h"
#include "core/unload.h"

/* Programs: what a loader of no mean pace loads in 10 ms. */
#define HELD_MAX 128

/* Where things come from, and what went wrong there; 0: it works. */
struct source {
	int error; /* -errno */
};

/* Records of one drain, copied out of the rings, with the programs that they tell of. */
struct batch {
	struct record *records;
	size_t count, size;
	struct text names; /* NUL-terminated, by offset until the drain is over */
	struct capture {
		uint32_t id;
		int error;
		struct prog *prog;
	} * captures;
	size_t capture_count, capture_size;
	uint32_t comm_pid; /* whose comm is below, empty if it has ended; 0: nobody's */
	char comm[16];
	bool failed; /* no memory: records are missing */
};

struct tracker {
	/*
	 * Guards all below. Inherits priority: readers are real-time, and requests of the tree take
	 * this lock too. The only locks taken inside, the event log's, the blob pool's and the
	 * carried region's, do so too.
	 */
	pthread_mutex_t lock;
	struct tracker_options options;
	struct kstate state;
	struct blob_pool *pool;
	struct prog_reader *reader;
	struct batch batch;
	struct {
		uint32_t pid; /* 0: none */
		int fd;
	} comm_file; /* of who loaded last */

	struct rings *rings;
	int uevents;
	struct kernelname *kernelname;
	struct unload *unload; /* NULL: it is off */
	uint64_t unload_since; /* CLOCK_MONOTONIC ns: what is freed from then on is copied */
	uint32_t own_progs[2]; /* ids; 0: none */
	struct source rings_source, uevents_source, kernelname_source, unload_source,
		kallsyms_source, programs_source, modules_source, images_source;

	/* CLOCK_MONOTONIC ns of the last moment at which nothing was missing. */
	uint64_t whole_at;
	uint64_t inherited_at; /* the same of the process before this one; when we started */
	bool resync_due;
	bool modules_due, modules_unsettled;
	struct module_list modules; /* whose bounds are in the table */
	char *settling[32];	    /* modules whose init part was there when last looked */
	size_t settling_count;
	/* Rows of kallsyms that belong to a program which does not tell of them. */
	struct unclaimed {
		uint64_t addr;
		char *name;
	} * unclaimed;
	size_t unclaimed_count;

	uint64_t started; /* CLOCK_MONOTONIC ns */
	uint64_t kallsyms_reads, resyncs;
	size_t kallsyms_bad_line;
	uint64_t next_expiry;

	/* A reader for the ring of each CPU, on that CPU, and one for uevents and expiry. */
	struct reader {
		struct tracker *tracker;
		unsigned int cpu;
		pthread_t thread;
		int ring_fd; /* the ring's: see rings_cpu_fd() */
		/* Programs that it keeps from going away while it waits for the lock. */
		int held[HELD_MAX]; /* their fds */
		size_t held_count, held_max;
		uint64_t held_to; /* of its ring: what was looked at */
	} * *readers;
	size_t reader_count;
	unsigned int realtime; /* readers that are */
	int timer, stop;       /* fds */
};

/* prog_capture(), for all parts of the tracker. */
int tracker_capture(struct tracker *tracker, uint32_t id, struct prog **ret);

uint64_t mono_to_unix_now(void);

/* Takes the first look at everything. The rings and the uevent socket are open already. */
int tracker_baseline(struct tracker *tracker);
/* Looks again at what records may have been lost of, and says in events what it changed. */
void tracker_resync(struct tracker *tracker);
/* Symbols and programs that a look found to be other than was known. */
struct differences {
	size_t added, removed;
	size_t changed; /* addresses that have another name now */
};
/* Walks program ids: what is new is captured, what is gone is unloaded. Adds to found. */
int tracker_walk_programs(struct tracker *tracker, bool announce, struct differences *found);
/* Compares module symbols, and with images those too, with kallsyms. Adds to found. */
int tracker_compare(struct tracker *tracker, bool images, bool announce, struct differences *found);
/* -ENODATA if settings keep BPF's symbols out of kallsyms. */
int tracker_image_list_error(void);
/* The rows of kallsyms that have a module. */
int tracker_read_kallsyms(struct tracker *tracker, struct kallsyms *ret);
/* Gives a row of kallsyms the length that the kernel reckons it to have, or a page. */
void tracker_complete_image(struct tracker *tracker, struct symbol *symbol);

/*
 * Reads after kallsyms was read which modules there are: bounds their symbols, and remembers those
 * that are only coming or going.
 */
void tracker_look_at_modules(struct tracker *tracker);
/*
 * Tells which of the rows that kallsyms has of modules are of functions that were freed: they
 * become SYMBOL_FREED. Rows of one module that stand together share the string of its name.
 */
void tracker_mark_freed(struct symbol *symbols, size_t count);
/* A uevent said that a module is there; settles when its init part is dropped. */
void tracker_module_added(struct tracker *tracker, const char *name);
/* Re-reads module symbols if a uevent, or a module that has settled, asks for it. */
void tracker_update_modules(struct tracker *tracker);
/* Drops unclaimed rows that the kernel does not have any more. */
void tracker_check_unclaimed(struct tracker *tracker);

/* What an image of this name is attached to: a string of the caller's, NULL if it is not known. */
char *tracker_image_target(struct tracker *tracker, const char *name);

#endif
