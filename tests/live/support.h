/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What live tests stand on: BPF programs of every kind that this kernel loads, what the kernel says
 * of them (the oracle), an instance of ksymfs on a directory of its own, and comparisons with
 * /proc/kallsyms that hold while strangers load programs at the same time.
 *
 *	static void test_load(void **state)
 *	{
 *		struct ksymfs *fs = *state;
 *		_cleanup_fd_ int prog = load_simple("hello", 7);
 *		struct oracle oracle;
 *
 *		oracle_read(prog, &oracle);
 *		_cleanup_free_ char *jited = ksymfs_read(fs, &len, "bpf/by-id/%u/jited",
 *oracle.info.id);
 *		...
 *		oracle_deinit(&oracle);
 *	}
 *
 *	int main(void)
 *	{
 *		static const struct CMUnitTest tests[] = {cmocka_unit_test(test_load)};
 *
 *		return live_run(tests);
 *	}
 *
 * Each test gets the group's instance as *state. A test that wants options of its own starts
 * another one. Whatever must work and does not fails the test from in here, saying what was tried,
 * so callers do not check; functions that return -errno say so.
 *
 * Environment, set by tests/live/meson.build: KSYMFS, the binary; KSYMFS_BPF, the directory of
 * *.bpf.o; by hand: KSYMFS_OPTIONS, options for every instance (blank-separated), such as -d;
 * KSYMFS_TEST, a pattern of test names to run only those; KSYMFS_LIMITS, see scarcity.h.
 */
#ifndef TESTS_LIVE_SUPPORT_H
#define TESTS_LIVE_SUPPORT_H

#include <linux/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "core/clock.h"

struct kernelname;

/* ---- the program's main() ---- */

/*
 * Runs tests with one instance for all, each test's *state. Not root: the whole program is one
 * skip. Leftover mounts and pinned CPUs of a failed test are cleaned up.
 */
#define live_run(tests) live_run_options(tests, NULL)
/* The same with extra options for the instance, as ksymfs_start() takes them. */
#define live_run_options(tests, options)                                                           \
	live_run_group((options), #tests, (tests), ARRAY_SIZE(tests))
/* For tests that start their instances themselves: *state is NULL. */
#define live_run_bare(tests) live_run_bare_group(#tests, (tests), ARRAY_SIZE(tests))

int live_run_group(const char *const *options, const char *name, const struct CMUnitTest *tests,
		   size_t count);
int live_run_bare_group(const char *name, const struct CMUnitTest *tests, size_t count);

/* Skips the running test, saying why where people look. Does not return. */
void skip_because(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * What a test builds on and a kernel may lack. Where it does, the output says so, in a line
 * `# lacks: WHAT`, which scripts/vm gathers; the test goes on without, or skips.
 *
 * A function in the kernel's BTF, such as a kfunc; symbols of struct_ops' images.
 */
bool kernel_has_function(const char *name);
/* What an object of tests/bpf/ calls. */
bool kernel_has_calls_of(const char *object);
bool kernel_has_struct_ops_symbols(void);
/* What `status` says of health where nothing was taken away: ok, or degraded, where the kernel's
 * %pS cannot be asked. */
const char *kernel_health(void);
struct ksymfs;
/* Reads by the kernel from a file that it was given (passthrough, 6.9). */
bool kernel_has_passthrough(void);
/* Files that are read past the page cache can be mapped shared (6.6); if not, pages of a pinned
 * process's open file are kept. */
bool kernel_maps_direct_io(const struct ksymfs *fs);
/*
 * Whoever waits for an answer when the daemon dies gets it from the next one. Crashes it once, and
 * skips the running test where he is told to try again instead.
 */
void need_resend(const struct ksymfs *fs);
/* The kernel's %pS; skips the running test where it cannot be asked. */
struct kernelname *open_kernelname(void);

/* Attaches a program to a function of the kernel's; skips the running test where that is refused.
 */
int attach_fentry(const char *function);

/*
 * Loads a network driver of the running kernel's, where its package lies unpacked. -ENOENT: it does
 * not; -EPERM, and what the module says.
 */
int load_module(const char *name, const char *parameters);
void unload_module(const char *name);

/* ---- an instance ---- */

struct ksymfs {
	char dir[64]; /* where it is mounted: a directory of its own under /tmp */
	char log[80]; /* what it says on stderr; shown when a test fails */
	pid_t pid;    /* the supervisor; it runs with -f, as our child */
	pid_t daemon; /* who serves, as status says at the start */
};

/* Mounts with options (NULL-terminated, or NULL for none); returns once the tree answers. */
struct ksymfs *ksymfs_start(const char *const *options);
/*
 * SIGTERM, wait, and see that it left with exit status 0 (a sanitizer's report is not 0) and that
 * nothing is mounted any more. NULL is fine.
 */
void ksymfs_stop(struct ksymfs *fs);
/* Stops it the hard way and unmounts, with nothing checked: for tests that are failing anyway. */
void ksymfs_kill(struct ksymfs *fs);
DEFINE_CLEANUP(ksymfs, struct ksymfs *, ksymfs_stop)
#define _cleanup_ksymfs_ CLEANUP(ksymfs_cleanup)

/* Who serves now, as status says. */
pid_t ksymfs_daemon(const struct ksymfs *fs);
/* Returns when another one than `before` serves. */
void ksymfs_await_successor(const struct ksymfs *fs, pid_t before);
/* Sends the signal to one of the two processes, and returns when another daemon serves. */
void ksymfs_replace(const struct ksymfs *fs, pid_t victim, int signal);
/* Kills who serves, and returns when another one does. */
void ksymfs_crash(const struct ksymfs *fs);

/*
 * How many threads of the daemon's does `is` say yes to? It is given each one's /proc status.
 */
size_t ksymfs_count_threads(const struct ksymfs *fs,
			    bool (*is)(pid_t tid, const char *status, void *arg), void *arg);

/* A path in the tree; the caller frees. */
char *ksymfs_path(const struct ksymfs *fs, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Reads a file of the tree whole, through one open, and sees that fstat says before the first read
 * how many bytes come. ret_len may be NULL; a NUL follows the bytes. The caller frees.
 */
char *ksymfs_read(const struct ksymfs *fs, size_t *ret_len, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* open(O_RDONLY) of a path in the tree: the fd, or -errno. */
int ksymfs_open(const struct ksymfs *fs, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* lstat() is 0? Else -errno. */
int ksymfs_stat(const struct ksymfs *fs, struct stat *ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The value of `KEY: VALUE` in a file of the tree; NULL if that key is not in it. Caller frees. */
char *ksymfs_value(const struct ksymfs *fs, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- files and text ---- */

/* Reads an fd to its end from its offset, or a file; a NUL follows the bytes. Caller frees. */
char *read_fd(int fd, size_t *ret_len);
char *read_path(const char *path, size_t *ret_len);
/* Walks lines: cuts *cursor at the next newline and returns the line, NULL at the end. */
char *next_line(char **cursor);
/* How many lines of text begin with prefix? Contain needle? */
size_t count_lines_with_prefix(const char *text, const char *prefix);
size_t count_lines_with(const char *text, const char *needle);
/* Runs a shell command, output to stderr; its exit status. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often a long loop goes round: a tenth in a guest, which may be emulated. */
int rounds_of(int count);
/* fork() with a pid that was used before; -1 where it cannot be had. */
pid_t fork_again(pid_t pid);
/* The same, of a process that does nothing. */
pid_t fork_as(pid_t pid);
/* Calls done(arg) every millisecond until it is true; false after `seconds`. */
bool wait_until(bool (*done)(void *arg), void *arg, unsigned int seconds);

/* ---- CPUs ---- */

/* Moves this thread to the nth CPU that it may run on. false: there are fewer. */
bool pin_to_cpu(unsigned int nth);
void unpin_cpu(void);

/* ---- programs from raw instructions ---- */

#define INSN(code_, dst_, src_, off_, imm_)                                                        \
	((struct bpf_insn){.code = (code_),                                                        \
			   .dst_reg = (dst_),                                                      \
			   .src_reg = (src_),                                                      \
			   .off = (off_),                                                          \
			   .imm = (imm_)})
#define INSN_MOV_IMM(dst, imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define INSN_MOV_REG(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define INSN_ADD_IMM(dst, imm) INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, imm)
#define INSN_HELPER(func)      INSN(BPF_JMP | BPF_CALL, 0, 0, 0, func)
/* Calls the subprogram that begins `skip` instructions after the next one. */
#define INSN_CALL(skip) INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, skip)
/* Two instructions: the address of a map. */
#define INSN_LD_MAP_FD(dst, fd)                                                                    \
	INSN(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)
#define INSN_EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* A program's fd, or -errno. name may be NULL; the license is GPL. */
int load_insns(enum bpf_prog_type type, const char *name, const struct bpf_insn *insns,
	       size_t count);
/* A socket filter that returns `variant`: each variant is a tag of its own. Two instructions. */
int load_simple(const char *name, int variant);
/* The same of about `count` instructions: each adds to the image. */
int load_long(const char *name, int variant, size_t count);
/*
 * A main program and one subprogram that returns `variant`, without BTF: the subprogram has the
 * very tag that load_simple(variant) has, and its symbol is named bpf_prog_TAG_F.
 */
int load_with_subprogram(const char *name, int main_variant, int variant);
/*
 * A program that differs from its twins in nothing but its map, so it has their tag and another
 * image. Needs a map fd, from make_map().
 */
int load_twin(const char *name, int map_fd);
/*
 * As an unprivileged user would: no CAP_BPF, no CAP_SYS_ADMIN, so no name reaches the records and
 * no symbol /proc/kallsyms. Lifts unprivileged_bpf_disabled for the moment of the load. Skips the
 * test where that is set for good (1).
 */
int load_unprivileged(int variant);
/*
 * Closes a program's fd and returns when its id is gone. That is at once, unless a stranger
 * (another instance that reads every program) holds it for a moment; then the unload is the
 * stranger's.
 */
void unload(int prog_fd);
/* An array map of one element of `value_size` bytes. */
int make_map(const char *name, unsigned int value_size);

/* ---- programs from tests/bpf/ ---- */

struct bpf_object;
struct bpf_program;

/* Loads NAME.bpf.o. bpf_object__close() unloads, or the cleanup guard. */
struct bpf_object *load_object(const char *name);
/* The fd of one program of an object: the object's, not the caller's. */
int object_prog_fd(struct bpf_object *object, const char *prog_name);
void close_object(struct bpf_object *object);
DEFINE_CLEANUP(object, struct bpf_object *, close_object)
#define _cleanup_object_ CLEANUP(object_cleanup)

/*
 * struct_ops: cc.bpf.o, registered as a TCP congestion control with a name of its own, so its
 * images (bpf__tcp_congestion_ops_ssthresh, ...) exist until detach.
 */
struct congestion_ops;
struct congestion_ops *congestion_ops_attach(void);
void congestion_ops_detach(struct congestion_ops *ops);
DEFINE_CLEANUP(congestion_ops, struct congestion_ops *, congestion_ops_detach)
#define _cleanup_congestion_ops_ CLEANUP(congestion_ops_cleanup)
/* The name that it is registered by: valid for IPPROTO_TCP's TCP_CONGESTION. */
const char *congestion_ops_name(const struct congestion_ops *ops);
/* The object that it came from, for its programs' fds. */
struct bpf_object *congestion_ops_object(const struct congestion_ops *ops);

/* Runs an XDP program several times, which builds the kernel's XDP dispatcher image. */
void run_through_xdp_dispatcher(int prog_fd);
/* Runs a program once by test_run with 64 bytes of packet; its return value. */
uint32_t run_once(int prog_fd);

/* A sample that sample.bpf.o took of itself. */
#define SAMPLE_DEPTH 16
struct sample {
	uint64_t time; /* bpf_ktime_get_ns() */
	int64_t len;   /* bytes of stack */
	uint64_t stack[SAMPLE_DEPTH];
};
/* Runs the program of an object loaded from sample.bpf.o and fetches what it saw. */
void take_sample(struct bpf_object *object, struct sample *ret);

/* ---- the kernel as the oracle ---- */

/* All that BPF_OBJ_GET_INFO_BY_FD says of a program, every array read whole. */
struct oracle {
	struct bpf_prog_info info;     /* pointers zeroed */
	uint64_t *ksyms;	       /* info.nr_jited_ksyms */
	uint32_t *func_lens;	       /* info.nr_jited_func_lens */
	uint8_t (*tags)[BPF_TAG_SIZE]; /* info.nr_prog_tags */
	uint32_t *map_ids;	       /* info.nr_map_ids */
	uint8_t *jited;		       /* info.jited_prog_len */
	struct bpf_insn *xlated;       /* info.xlated_prog_len bytes */
	void *func_info;	       /* info.nr_func_info of info.func_info_rec_size */
	void *line_info;	       /* info.nr_line_info of info.line_info_rec_size */
	uint64_t *jited_line_info;     /* info.nr_jited_line_info */
	void *btf;		       /* the raw BTF, NULL without btf_id */
	uint32_t btf_len;
	char tag[2 * BPF_TAG_SIZE + 1]; /* info.tag as text */
};
void oracle_read(int prog_fd, struct oracle *ret);
/* The same by id: -ENOENT when that program is gone meanwhile. */
int oracle_read_id(uint32_t id, struct oracle *ret);
void oracle_deinit(struct oracle *oracle);
/* A program's id. */
uint32_t prog_id(int prog_fd);
/* Ids of all that is loaded now, ascending; the caller frees. */
uint32_t *all_prog_ids(size_t *ret_count);
/* A tag as it is in names. */
void tag_text(const uint8_t tag[BPF_TAG_SIZE], char ret[2 * BPF_TAG_SIZE + 1]);

/* ---- symbols ---- */

/* A row of ksyms, or of kallsyms (size 0 there). Strings point into the list's text. */
struct symbol_row {
	uint64_t addr;
	uint64_t size;
	char type;
	char *name;
	const char *module; /* without brackets; "" for the core kernel */
};
struct symbol_list {
	struct symbol_row *rows;
	size_t count;
	char *text;
};
/* Parses text of ksyms, or of kallsyms, taking it. A line that does not parse fails the test. */
void ksyms_parse(char *text, struct symbol_list *ret);
void kallsyms_parse(char *text, struct symbol_list *ret);
void symbol_list_deinit(struct symbol_list *list);
/* By address, equal ones in the order that they had: the kernel's. */
void symbol_list_sort(struct symbol_list *list);
/* The first row of this name at or after `from`; NULL at the end. */
const struct symbol_row *symbol_find(const struct symbol_list *list, const char *name,
				     const struct symbol_row *from);
/* The first row of this address, in a sorted list; NULL if there is none. */
const struct symbol_row *symbol_at(const struct symbol_list *list, uint64_t addr);

/*
 * The heart of it: ksyms without its sizes is sorted /proc/kallsyms, line for line. The kernel is
 * read before and after, and the comparison counts only if both were equal; strangers may load
 * programs meanwhile, so it is done again, a bounded number of times. Programs of unprivileged
 * users, which kallsyms leaves out, are owed by prog_info.
 */
void assert_ksyms_is_kallsyms(const struct ksymfs *fs);
/* Every function of a loaded program is in ksyms at its address and with its size. */
void assert_ksyms_has_program(const struct ksymfs *fs, int prog_fd);

#endif
