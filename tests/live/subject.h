/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A loaded program with what prog_info says of its lines, read through libbpf, and the tools that
 * read its ELF object: what the tests of the way back to source share.
 */
#ifndef TESTS_LIVE_SUBJECT_H
#define TESTS_LIVE_SUBJECT_H

#include "tests/live/support.h"

struct btf;

struct entry {
	uint64_t addr;
	const char *file, *text;
	uint32_t number, column;
	size_t func;
};

/* Entries are by address. */
struct subject {
	struct oracle oracle;
	struct btf *btf;
	char **symbols; /* of each function, as /proc/kallsyms has them */
	struct entry *entries;
	size_t count;
};

void subject_init(int prog_fd, struct subject *ret);
void subject_deinit(struct subject *subject);
/* The function that has this address; fails the test if none does. */
size_t subject_func(const struct oracle *oracle, uint64_t addr);
/* The nearest entry at or below in the same function; the last of those that share an address. */
const struct entry *entry_at(const struct subject *subject, uint64_t addr, size_t func);
/* One of its files. Caller frees. */
char *subject_file(const struct ksymfs *fs, const struct subject *subject, const char *name);
/* Calls check for every program of the objects, loaded one object after the other. */
void for_each_subject(const struct ksymfs *fs,
		      void (*check)(const struct ksymfs *fs, const struct subject *subject));

/* Where tools run: made and removed by main(). */
extern char work_dir[];
int make_work_dir(void);
void remove_work_dir(void);
bool has_tool(const char *name);
/* Runs a tool that must succeed and have nothing to complain of; what it wrote. Caller frees. */
char *tool(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Copies the program's elf to where tools run. */
void write_elf(const struct ksymfs *fs, const struct subject *subject);
/* Every byte of every function has its line and its function, by each symbolizer there is. */
void check_every_byte(const struct ksymfs *fs, const struct subject *subject);

#endif
