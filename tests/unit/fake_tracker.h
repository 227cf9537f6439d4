/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tracker without a kernel: what it answers is what a test has put into it, through the real set
 * of programs and the real event log. And what views need of a session.
 */
#ifndef TESTS_FAKE_TRACKER_H
#define TESTS_FAKE_TRACKER_H

#include "core/tracker.h"
#include "fs/view.h"
#include "fs/views.h"

struct tracker {
	uint64_t generation[3];
	uint64_t changed_unix[3];
	bool healthy;
	int error; /* of ksyms and resolving; 0 */
	const char *ksyms, *kallsyms;
	struct tracker_image images[2];
	size_t image_count;
	/* What resolving this address gives, at present and at this moment. */
	struct tracker_answer answer;
	uint64_t answer_time;
	uint64_t call_base; /* where __bpf_call_base is; 0: nobody knows */

	struct blob_pool *pool;
	struct progset *progs;
	struct eventlog *log;
};

void fake_tracker_init(struct tracker *tracker, uint64_t events_bytes);
void fake_tracker_deinit(struct tracker *tracker);

/* A loaded, captured program with an image of `jited`; tag is 16 hex digits. */
struct prog *fake_prog(struct tracker *tracker, uint32_t id, const char *tag, const char *name,
		       const char *jited);
/* Gives it a function; the first is its main one. */
void fake_func(struct prog *prog, uint64_t addr, uint32_t len, const char *tag, const char *symbol);
/* Publishes a program and gives up the caller's reference. */
void fake_publish(struct tracker *tracker, struct prog *prog);

/* How a test walks a view: by path, as the session would. */
int view_lookup(const struct view *view, const char *path, struct view_attr *ret);
/* Compares a file's bytes, a symlink's target, a directory's names (joined by blanks). */
void assert_file(const struct view *view, const char *path, const char *expected);
void assert_link(const struct view *view, const char *path, const char *expected);
void assert_names(const struct view *view, const char *path, const char *expected);
/* What the directory said of an entry equals what a lookup of it says. */
void assert_listed_as_found(const struct view *view, const char *path);
/* The text of a file; the caller frees. */
char *view_text(const struct view *view, const char *path);

#endif
