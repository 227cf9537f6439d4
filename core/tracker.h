/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tracker: what the kernel has in it now, and what it had, kept true record by record.
 *
 * It joins sources that do not know each other (perf rings, uevents, program ids, kallsyms) into
 * the symbol table, the set of BPF programs, their history and the log of events. tracker.c states
 * the order in which that must happen, and why.
 *
 * Every function may be called by any thread. Whoever wants an answer that holds what the kernel
 * had finished before the question calls tracker_sync() first; the session does so once for each
 * request. Answers are snapshots or referenced programs: no lock is held when a call returns.
 */
#ifndef CORE_TRACKER_H
#define CORE_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/eventlog.h"
#include "core/progset.h"
#include "core/ring.h"
#include "core/snapshot.h"
#include "core/symtab.h"
#include "core/text.h"

struct tracker;

struct tracker_options {
	uint64_t retain_ns;	 /* how long an unloaded program stays */
	uint64_t retain_bytes;	 /* how much all unloaded ones may hold */
	uint64_t events_bytes;	 /* how much text the event log keeps */
	bool capture_at_unload;	 /* where it can be: see unload.h */
	unsigned int ring_pages; /* data pages of each CPU's ring, a power of two; 0: default */
	/*
	 * Called after the event log has grown, with no lock held, on whatever thread made it grow.
	 * May be NULL.
	 */
	void (*events_grew)(void *arg);
	/*
	 * Called when the sources are open and there are no threads yet: rights that only opening
	 * takes may go, but for CAP_SYS_NICE, which each reader drops by itself. May be NULL.
	 */
	void (*opened)(void *arg);
	void *arg;
};

/*
 * Opens the sources, takes the baseline and starts the thread that reads the rings as they fill. A
 * source that cannot be had is said in tracker_status() and does not fail this. -ENOMEM.
 */
int tracker_create(const struct tracker_options *options, struct tracker **ret);
void tracker_destroy(struct tracker *tracker); /* NULL is fine */
DEFINE_CLEANUP(tracker, struct tracker *, tracker_destroy)

/* Applies all that the kernel has written and nobody has read yet. Cheap when there is nothing. */
void tracker_sync(struct tracker *tracker);

/* Which things a number stands for, in tracker_generation(). */
enum tracker_part {
	TRACKER_SYMBOLS,  /* ksyms, kallsyms, addr/ of the present */
	TRACKER_PROGRAMS, /* the set of programs, loaded and retained, and their states */
	TRACKER_IMAGES,	  /* bpf/images */
};
/* Rises with each change of that part. Starts at 1. */
uint64_t tracker_generation(struct tracker *tracker, enum tracker_part part);
/* CLOCK_REALTIME ns of a part's last change. */
uint64_t tracker_changed_unix(struct tracker *tracker, enum tracker_part part);

/* The text of ksyms or kallsyms. -EACCES if the kernel hides addresses from us, -ENOMEM. */
int tracker_ksyms(struct tracker *tracker, enum symtab_format format, struct snapshot **ret);

#define TRACKER_NOW UINT64_MAX

struct tracker_answer {
	char *symbol; /* the kernel's first of its address */
	char *module; /* NULL for vmlinux */
	uint64_t addr, size;
	char **aliases; /* alias_count others of the same address */
	size_t alias_count;
	struct prog *prog; /* referenced; NULL if it is no program's */
	char *target;	   /* what a trampoline is attached to; NULL if it is none, or not known */
	bool freed;	   /* a function that was there, and that the kernel lists on */
};

/*
 * Which symbol covered addr at `time` (CLOCK_MONOTONIC ns, or TRACKER_NOW)? -ENOENT: none, or
 * nobody knows any more. -EACCES: the kernel hides addresses. -ENOMEM.
 */
int tracker_resolve(struct tracker *tracker, uint64_t addr, uint64_t time,
		    struct tracker_answer *ret);
/* Where a symbol of vmlinux is, by its name. O(n): for the few that one asks for once.
 * -ENOENT. -EACCES: the kernel hides addresses. */
int tracker_core_address(struct tracker *tracker, const char *name, uint64_t *ret);
void tracker_answer_deinit(struct tracker_answer *answer);

/* All programs, loaded and retained, by id. -ENOMEM. */
int tracker_programs(struct tracker *tracker, struct prog_list *ret);
/* One program, loaded or retained. -ENOENT. */
int tracker_program(struct tracker *tracker, uint32_t id, struct prog **ret);
/*
 * Those with a function of this tag, the one that stands for the tag first: own tag before a
 * subprogram's, loaded before retained, newest first. -ENOENT if there is none.
 */
int tracker_programs_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			    struct prog_list *ret);
/* The first of those alone. -ENOENT. */
int tracker_program_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			   struct prog **ret);
/* Those of a file name: see prog_file_name(). -ENOENT. */
int tracker_programs_of_file_name(struct tracker *tracker, const char *file_name,
				  struct prog_list *ret);
/* One program of each file name, sorted by it. -ENOMEM. */
int tracker_program_names(struct tracker *tracker, struct prog_list *ret);
/* Every tag that a function of a program has, sorted, each once. Caller frees. -ENOMEM. */
int tracker_tags(struct tracker *tracker, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count);

struct tracker_image {
	uint64_t addr, size;
	char *symbol;
	char *target; /* NULL: it has none, or it is not known */
};
struct tracker_image_list {
	struct tracker_image *images;
	size_t count;
};
void tracker_image_list_deinit(struct tracker_image_list *list);
int tracker_images(struct tracker *tracker, struct tracker_image_list *ret);

/* The event log: see eventlog.h. */
void tracker_events_span(struct tracker *tracker, struct eventlog_span *ret);
ssize_t tracker_events_read(struct tracker *tracker, uint64_t offset, void *buf, size_t len);
/* For the parts that have events of their own (pins): one line, without time and newline. */
void tracker_events_add(struct tracker *tracker, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The `key: value` lines of status, and the lines of metrics, that are about the tracker. */
void tracker_status(struct tracker *tracker, struct text *text);
void tracker_metrics(struct tracker *tracker, struct text *text);
/* All sources there and nothing lost that was not made good? */
bool tracker_is_healthy(struct tracker *tracker);
/* What `ksymfs check` says: opens each source alone and says of each, a line, whether it works and
 * what that takes away. Returns whether all do. */
bool tracker_check(struct text *text);

#endif
