/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records of programs, flat, and programs made of them again: see progkeep.h. */
#include "core/progkeep.h"

#include <errno.h>
#include <string.h>

#include "core/carry.h"
#include "core/text.h"

/* More than the kernel has of any: a record that says so is broken. */
#define COUNT_MAX (1u << 20)
#define NO_STRING UINT32_MAX

enum { BLOB_JITED, BLOB_XLATED, BLOB_BTF, BLOB_FUNC_INFO, BLOB_LINE_INFO, BLOB_JITED_LINE, BLOBS };

struct func_record {
	uint64_t addr;
	uint32_t len, insn_off;
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t symbol, name; /* offsets into the strings, or NO_STRING */
};

/* Behind it: functions, maps, strings, each with its NUL. */
struct prog_record {
	uint64_t unloaded_unix, unloaded_mono;
	uint64_t loaded_mono, loaded_unix;
	uint64_t blobs[BLOBS]; /* carry_ref() */
	struct bpf_prog_info info;
	uint32_t id;
	int32_t error;
	uint32_t loader_pid;
	char loader_comm[16];
	uint8_t tag[BPF_TAG_SIZE];
	uint8_t captured, at_unload;
	uint8_t jited_state, xlated_state, btf_state, lines_state;
	uint32_t name, first_symbol, attach_target; /* strings */
	uint32_t func_count, map_count, strings_len;
};

static struct func_record *funcs_of(const struct prog_record *record)
{
	return (struct func_record *)(record + 1);
}

static struct prog_map *maps_of(const struct prog_record *record)
{
	return (struct prog_map *)(funcs_of(record) + record->func_count);
}

static char *strings_of(const struct prog_record *record)
{
	return (char *)(maps_of(record) + record->map_count);
}

static size_t record_size(size_t funcs, size_t maps, size_t strings)
{
	return sizeof(struct prog_record) + funcs * sizeof(struct func_record) +
	       maps * sizeof(struct prog_map) + strings;
}

static uint32_t put_string(struct text *strings, const char *string)
{
	uint32_t offset = strings->len;

	if (!string)
		return NO_STRING;
	text_append(strings, string, strlen(string) + 1);
	return offset;
}

static void blobs_of(const struct prog *prog, struct blob *ret[BLOBS])
{
	ret[BLOB_JITED] = prog->jited;
	ret[BLOB_XLATED] = prog->xlated;
	ret[BLOB_BTF] = prog->btf;
	ret[BLOB_FUNC_INFO] = prog->func_info;
	ret[BLOB_LINE_INFO] = prog->line_info;
	ret[BLOB_JITED_LINE] = prog->jited_line;
}

static void fill(const struct prog *prog, struct prog_record *record)
{
	struct blob *blobs[BLOBS];

	blobs_of(prog, blobs);
	for (size_t i = 0; i < BLOBS; i++)
		record->blobs[i] = blobs[i] ? blob_keep(blobs[i]) : 0;
	record->loaded_mono = prog->loaded_mono;
	record->loaded_unix = prog->loaded_unix;
	record->info = prog->info;
	record->id = prog->id;
	record->error = prog->error;
	record->loader_pid = prog->loader_pid;
	memcpy(record->loader_comm, prog->loader_comm, sizeof(record->loader_comm));
	memcpy(record->tag, prog->tag, sizeof(record->tag));
	record->captured = prog->captured;
	record->at_unload = prog->at_unload;
	record->jited_state = prog->jited_state;
	record->xlated_state = prog->xlated_state;
	record->btf_state = prog->btf_state;
	record->lines_state = prog->lines_state;
	record->func_count = prog->func_count;
	record->map_count = prog->map_count;
	prog_keep_unload(record, prog);
}

struct prog_record *prog_keep(const struct prog *prog)
{
	_cleanup_text_ struct text strings = {};
	_cleanup_free_ struct func_record *funcs = NULL;

	if (!carry_is_open())
		return NULL;
	funcs = calloc(prog->func_count + 1, sizeof(*funcs));
	if (!funcs)
		return NULL;
	uint32_t name = put_string(&strings, prog->name);
	uint32_t first_symbol = put_string(&strings, prog->first_symbol);
	uint32_t attach_target = put_string(&strings, prog->attach_target);
	for (size_t i = 0; i < prog->func_count; i++) {
		const struct prog_func *func = &prog->funcs[i];

		funcs[i] = (struct func_record){
			.addr = func->addr,
			.len = func->len,
			.insn_off = func->insn_off,
			.symbol = put_string(&strings, func->symbol),
			.name = put_string(&strings, func->name),
		};
		memcpy(funcs[i].tag, func->tag, sizeof(funcs[i].tag));
	}
	struct prog_record *record =
		strings.failed
			? NULL
			: carry_alloc(record_size(prog->func_count, prog->map_count, strings.len));
	if (!record)
		return NULL;
	fill(prog, record);
	record->name = name;
	record->first_symbol = first_symbol;
	record->attach_target = attach_target;
	record->strings_len = strings.len;
	memcpy(funcs_of(record), funcs, prog->func_count * sizeof(*funcs));
	if (prog->map_count)
		memcpy(maps_of(record), prog->maps, prog->map_count * sizeof(prog->maps[0]));
	if (strings.len)
		memcpy(strings_of(record), strings.data, strings.len);
	carry_publish(record, CARRY_PROGRAM);
	return record;
}

void prog_keep_unload(struct prog_record *record, const struct prog *prog)
{
	if (!record)
		return;
	record->unloaded_unix = atomic_load(&prog->unloaded_unix);
	atomic_signal_fence(memory_order_seq_cst);
	record->unloaded_mono = atomic_load(&prog->unloaded_mono);
}

static bool makes_sense(const void *block, size_t room)
{
	const struct prog_record *record = block;

	return room >= sizeof(*record) && record->func_count <= COUNT_MAX &&
	       record->map_count <= COUNT_MAX && record->strings_len <= room &&
	       record_size(record->func_count, record->map_count, record->strings_len) <= room &&
	       (!record->strings_len || !strings_of(record)[record->strings_len - 1]) &&
	       record->jited_state <= PROG_PART_FAILED &&
	       record->xlated_state <= PROG_PART_FAILED && record->btf_state <= PROG_PART_FAILED &&
	       record->lines_state <= PROG_PART_FAILED;
}

/* *ok becomes false where there is no memory, or no such string. */
static char *get_string(const struct prog_record *record, uint32_t offset, bool *ok)
{
	char *copy = NULL;

	if (offset == NO_STRING)
		return NULL;
	if (offset < record->strings_len)
		copy = strdup(strings_of(record) + offset);
	*ok &= copy != NULL;
	return copy;
}

static bool restore_blobs(const struct prog_record *record, struct blob_pool *pool,
			  struct prog *prog)
{
	struct blob **const blobs[BLOBS] = {
		[BLOB_JITED] = &prog->jited,
		[BLOB_XLATED] = &prog->xlated,
		[BLOB_BTF] = &prog->btf,
		[BLOB_FUNC_INFO] = &prog->func_info,
		[BLOB_LINE_INFO] = &prog->line_info,
		[BLOB_JITED_LINE] = &prog->jited_line,
	};

	for (size_t i = 0; i < BLOBS; i++)
		if (record->blobs[i] && blob_restore(pool, record->blobs[i], blobs[i]) < 0)
			return false;
	return true;
}

static bool restore_funcs(const struct prog_record *record, struct prog *prog)
{
	bool ok = true;

	prog->funcs = calloc(MAX(record->func_count, 1u), sizeof(prog->funcs[0]));
	if (!prog->funcs)
		return false;
	for (; ok && prog->func_count < record->func_count; prog->func_count++) {
		const struct func_record *kept = &funcs_of(record)[prog->func_count];
		struct prog_func *func = &prog->funcs[prog->func_count];

		*func = (struct prog_func){
			.addr = kept->addr,
			.len = kept->len,
			.insn_off = kept->insn_off,
			.symbol = get_string(record, kept->symbol, &ok),
			.name = get_string(record, kept->name, &ok),
		};
		memcpy(func->tag, kept->tag, sizeof(func->tag));
		ok &= func->symbol != NULL;
	}
	return ok;
}

static bool restore_maps(const struct prog_record *record, struct prog *prog)
{
	prog->maps = calloc(MAX(record->map_count, 1u), sizeof(prog->maps[0]));
	if (!prog->maps)
		return false;
	memcpy(prog->maps, maps_of(record), record->map_count * sizeof(prog->maps[0]));
	prog->map_count = record->map_count;
	for (size_t i = 0; i < prog->map_count; i++)
		prog->maps[i].name[sizeof(prog->maps[i].name) - 1] = '\0';
	return true;
}

static struct prog *restore(const struct prog_record *record, struct blob_pool *pool)
{
	CLEANUP(prog_cleanup) struct prog *prog = calloc(1, sizeof(*prog));
	bool ok = true;

	if (!prog)
		return NULL;
	atomic_init(&prog->refs, 1);
	prog->id = record->id;
	memcpy(prog->tag, record->tag, sizeof(prog->tag));
	prog->captured = record->captured;
	prog->at_unload = record->at_unload;
	prog->error = record->error;
	prog->info = record->info;
	prog->loaded_mono = record->loaded_mono;
	prog->loaded_unix = record->loaded_unix;
	prog->loader_pid = record->loader_pid;
	memcpy(prog->loader_comm, record->loader_comm, sizeof(prog->loader_comm));
	prog->loader_comm[sizeof(prog->loader_comm) - 1] = '\0';
	atomic_init(&prog->unloaded_unix, record->unloaded_unix);
	atomic_init(&prog->unloaded_mono, record->unloaded_mono);
	prog->jited_state = record->jited_state;
	prog->xlated_state = record->xlated_state;
	prog->btf_state = record->btf_state;
	prog->lines_state = record->lines_state;
	prog->name = get_string(record, record->name, &ok);
	prog->first_symbol = get_string(record, record->first_symbol, &ok);
	prog->attach_target = get_string(record, record->attach_target, &ok);
	ok = ok && restore_funcs(record, prog) && restore_maps(record, prog) &&
	     restore_blobs(record, pool, prog);
	return ok ? take_ptr(prog) : NULL;
}

struct restoring {
	struct blob_pool *pool;
	struct prog **progs;
	size_t count;
};

/* The record goes: whoever holds the program again makes one of his own. */
static bool take_record(void *block, size_t room, void *arg)
{
	struct restoring *restoring = arg;
	struct prog *prog = restore(block, restoring->pool);

	if (prog)
		restoring->progs[restoring->count++] = prog;
	return false;
}

static int compare_unloads(const void *a, const void *b)
{
	const struct prog_record *left = a, *right = b;
	/* 0, of a loaded one, is the last. */
	uint64_t first = left->unloaded_mono - 1, second = right->unloaded_mono - 1;

	return (first > second) - (first < second);
}

int progs_restore(struct blob_pool *pool, struct prog ***ret, size_t *ret_count)
{
	struct restoring restoring = {.pool = pool};
	size_t count = carry_sort(CARRY_PROGRAM, makes_sense, compare_unloads);

	*ret = NULL;
	*ret_count = 0;
	restoring.progs = calloc(MAX(count, (size_t)1), sizeof(restoring.progs[0]));
	if (!restoring.progs)
		return -ENOMEM;
	carry_take(CARRY_PROGRAM, take_record, &restoring);
	carry_sweep(CARRY_BLOB);
	*ret = restoring.progs;
	*ret_count = restoring.count;
	return 0;
}
