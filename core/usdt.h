/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The USDT probes of processes, as the files of usdt/PID show them.
 *
 * A scan joins what processes map (maps.h) with what the mapped files say (objcache.h), at one
 * moment; the texts are made from it. Where maps and files come from is the source's: a living
 * process, or what a pin has kept of one.
 *
 * Whatever could hang is done by threads that can be left behind: a scan takes as long as its files
 * answer, and past the patience of offload.h for each file system that does not, once. What does
 * not answer is absent. Any thread may scan; a scan and its texts are for one thread.
 */
#ifndef CORE_USDT_H
#define CORE_USDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"
#include "core/maps.h"
#include "core/procfile.h"
#include "core/text.h"

/* What all scans share: the objects read so far, and the threads. */
struct usdt;

int usdt_create(struct usdt **ret);
void usdt_destroy(struct usdt *usdt); /* NULL is fine */
DEFINE_CLEANUP(usdt, struct usdt *, usdt_destroy)
/* The `key: value` lines of status, and the lines of metrics. */
void usdt_status(struct usdt *usdt, struct text *text);
void usdt_metrics(struct usdt *usdt, struct text *text);

/* Where a scan gets one process from. The calls come on other threads, one at a time. */
struct usdt_source_ops {
	/* Appends the text of maps. */
	int (*maps)(void *data, struct text *text);
	/* Opens what one of these mappings maps, as mapped_file_open() does. */
	int (*open)(void *data, const struct mapping *mapping, dev_t own_dev,
		    struct mapped_file *ret);
	/* As mapped_file_stat() does, for files whose notes are known already. NULL: open() it is.
	 */
	int (*stat)(void *data, const struct mapping *mapping, dev_t own_dev,
		    struct mapped_file *ret);
	/* An fd that reads the process's memory. NULL: it has none any more. */
	int (*open_memory)(void *data);
	void (*release)(void *data);
};

struct usdt_source {
	const struct usdt_source_ops *ops;
	void *data;
	uint64_t key; /* of the process, for offload.h */
	/* What a path in the texts has before START-END: `/proc/42/map_files/`. */
	char map_files[48];
};

/*
 * A living process. keep: have its directory open from here on, and so that very process, whatever
 * gets its number later. Without it a source costs no fd, for those who scan very many whose
 * numbers they have just read in /proc: should another process have one by then, its files are not
 * taken for those of the first. proc_fd stays the caller's, and must stay open. -ESRCH, -EACCES,
 * -ENOMEM.
 */
int usdt_process_source(int proc_fd, pid_t pid, bool keep, struct usdt_source *ret);

struct usdt_scan;

/*
 * Scans processes. The sources are the scan's from here on, also on failure. own_dev: the device of
 * our own mount, whose files are never touched; 0 if there is none. -ESRCH when there is
 * one source and it has no maps; -EAGAIN when too much hangs already; -ENOMEM. Of several sources,
 * those that are gone or do not answer have nothing.
 */
int usdt_scan_create(struct usdt *usdt, dev_t own_dev, const struct usdt_source *sources,
		     size_t count, struct usdt_scan **ret);
void usdt_scan_destroy(struct usdt_scan *scan); /* NULL is fine */
DEFINE_CLEANUP(usdt_scan, struct usdt_scan *, usdt_scan_destroy)
#define _cleanup_usdt_scan_ CLEANUP(usdt_scan_cleanup)

/*
 * The files of usdt/PID. An object with which a text would be longer than USDT_TEXT_MAX is left out
 * of it, as a whole, and counted in `status`: a hostile one costs the others nothing. -ENOMEM.
 */
#define USDT_TEXT_MAX (256u << 20)
int usdt_scan_notes(const struct usdt_scan *scan, struct text *text);
int usdt_scan_probes(const struct usdt_scan *scan, struct text *text);
int usdt_scan_uprobe_events(const struct usdt_scan *scan, struct text *text);
int usdt_scan_objects(const struct usdt_scan *scan, struct text *text);
/* `build_id: HEX PATH_IN_MAPS` for each mapped ELF object that has one, notes or not. */
int usdt_scan_build_ids(const struct usdt_scan *scan, struct text *text);
/* providers/PROVIDER/NAME. Names are the real ones. -ENOENT. */
int usdt_scan_probe(struct usdt_scan *scan, const char *provider, const char *name,
		    struct text *text);
bool usdt_scan_has_probe(const struct usdt_scan *scan, const char *provider, const char *name);
bool usdt_scan_has_provider(const struct usdt_scan *scan, const char *provider);

/* Calls take for each distinct provider, or each name of a provider, sorted, until it is not 0. */
typedef int (*usdt_take_fn)(void *arg, const char *name);
int usdt_scan_each_provider(const struct usdt_scan *scan, usdt_take_fn take, void *arg);
int usdt_scan_each_name(const struct usdt_scan *scan, const char *provider, usdt_take_fn take,
			void *arg);

#endif
