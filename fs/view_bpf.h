/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of bpf/ share: view_bpf.c is the tree of it, view_bpf_files.c the files of one
 * program, view_bpf_source.c those of them that lead to its source, view_bpf_lists.c those that
 * tell of all programs.
 */
#ifndef FS_VIEW_BPF_H
#define FS_VIEW_BPF_H

#include "core/prog.h"
#include "core/tracker.h"
#include "fs/view.h"

/* "0123456789abcdef" and a NUL. */
#define BPF_TAG_NAME (2 * BPF_TAG_SIZE + 1)
void bpf_tag_name(const uint8_t tag[BPF_TAG_SIZE], char ret[BPF_TAG_NAME]);
/* bpf/TAG/ID, as every file that names a program writes it. */
void bpf_write_path(struct text *text, const struct prog *prog);
/* A field of a line: the escaped string, or `-` for NULL and "". */
void bpf_write_name(struct text *text, const char *name);
/* The fields that lists and `info` share. */
const char *bpf_state(const struct prog *prog);
void bpf_write_type(struct text *text, const struct prog *prog);
void bpf_write_jited_bytes(struct text *text, const struct prog *prog);
void bpf_write_loader_pid(struct text *text, const struct prog *prog);

/* When a file's content is another one. */
enum bpf_file_change {
	BPF_FILE_NEVER,
	BPF_FILE_AT_UNLOAD,
	BPF_FILE_ALWAYS, /* rendered for each open */
};

/* One file of a program's directory. */
struct bpf_file {
	const char *name;
	enum bpf_file_change change;
	bool slow; /* see struct view_attr */
	/*
	 * Why the program has no such file, for its `info`: a reason for people, and one that
	 * stays true as long as the program does. NULL: it has one. No function: each has one.
	 */
	const char *(*missing)(const struct prog *prog);
	int (*render)(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
};

extern const struct bpf_file bpf_files[];
extern const size_t bpf_file_count;

/* The file of this name; NULL if there is none, or if this program has none. */
const struct bpf_file *bpf_find_file(const struct prog *prog, const char *name);
bool bpf_has_file(const struct prog *prog, const struct bpf_file *file);

/* Why a part was not captured; none is the reason for PROG_PART_NONE, NULL for PROG_PART_OK. */
const char *bpf_part_missing(enum prog_part_state state, const char *none);
const char *bpf_jited_missing(const struct prog *prog);
const char *bpf_xlated_missing(const struct prog *prog);
const char *bpf_btf_missing(const struct prog *prog);

/* view_bpf_source.c: entries of the table. */
const char *bpf_lines_missing(const struct prog *prog);
const char *bpf_source_missing(const struct prog *prog);
const char *bpf_elf_missing(const struct prog *prog);
const char *bpf_asm_missing(const struct prog *prog);
int bpf_render_lines(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
int bpf_render_source(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
int bpf_render_xlated_txt(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
int bpf_render_asm(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
int bpf_render_elf(struct tracker *tracker, struct prog *prog, struct snapshot **ret);
/* What info says of line records, and of those left out; nothing if there are none. */
void bpf_write_line_counts(struct text *text, const struct prog *prog);
/* `source: FILE:LINE:COL: TEXT` of an address in this program; nothing if it has no line. */
void bpf_write_source_line(struct text *text, const struct prog *prog, uint64_t addr);

/* A list about all programs, directly in bpf/. */
struct bpf_list {
	const char *name;
	enum tracker_part part; /* whose change makes it another */
	int (*render)(struct tracker *tracker, struct snapshot **ret);
};

extern const struct bpf_list bpf_lists[];
extern const size_t bpf_list_count;

#endif
