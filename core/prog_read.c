/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures BPF programs: see prog.h.
 *
 * Most programs are short-lived, and an fd of ours keeps one alive past its loader's close. So the
 * fd is held for what must be asked for while the program is there (its info with all arrays in
 * one call, its BTF's fd, its maps), some microseconds, and the rest happens after: copies, BTF,
 * names. Room for the arrays is guessed; a program that needs more is asked for again.
 *
 * Source: bpf_prog_get_info_by_fd() in kernel/bpf/syscall.c, bpf_prog_ksym_set_name() in
 * kernel/bpf/core.c.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/btf.h"
#include "core/prog.h"

/* Room for arrays that is kept between captures, and what one program may need at the most. */
#define BUFFER_KEEP_BYTES ((size_t)2 << 20)
#define BUFFER_MAX_BYTES  ((size_t)256 << 20)

enum array_id {
	MAP_IDS,
	JITED_KSYMS,
	JITED_FUNC_LENS,
	PROG_TAGS,
	FUNC_INFO,
	LINE_INFO,
	JITED_LINE_INFO,
	JITED_INSNS,
	XLATED_INSNS,
	ARRAY_IDS,
};

/* Where info has the pointer, the number of elements and (or 0) their size, and our first guesses.
 */
static const struct {
	uint16_t pointer, count, rec_size;
	uint32_t elem;
	uint32_t guess;
} arrays[ARRAY_IDS] = {
#define INFO(field) offsetof(struct bpf_prog_info, field)
	[MAP_IDS] = {INFO(map_ids), INFO(nr_map_ids), 0, sizeof(uint32_t), 64},
	[JITED_KSYMS] = {INFO(jited_ksyms), INFO(nr_jited_ksyms), 0, sizeof(uint64_t), 64},
	[JITED_FUNC_LENS] = {INFO(jited_func_lens), INFO(nr_jited_func_lens), 0, sizeof(uint32_t),
			     64},
	[PROG_TAGS] = {INFO(prog_tags), INFO(nr_prog_tags), 0, BPF_TAG_SIZE, 64},
	[FUNC_INFO] = {INFO(func_info), INFO(nr_func_info), INFO(func_info_rec_size),
		       sizeof(struct bpf_func_info), 64},
	[LINE_INFO] = {INFO(line_info), INFO(nr_line_info), INFO(line_info_rec_size),
		       sizeof(struct bpf_line_info), 1024},
	[JITED_LINE_INFO] = {INFO(jited_line_info), INFO(nr_jited_line_info),
			     INFO(jited_line_info_rec_size), sizeof(uint64_t), 1024},
	[JITED_INSNS] = {INFO(jited_prog_insns), INFO(jited_prog_len), 0, 1, 64 << 10},
	[XLATED_INSNS] = {INFO(xlated_prog_insns), INFO(xlated_prog_len), 0, 1, 64 << 10},
#undef INFO
};

struct array {
	uint32_t elem;	/* bytes an element */
	uint32_t room;	/* elements that fit */
	size_t offset;	/* in the buffer */
	uint32_t count; /* elements that the program has */
	bool hidden;	/* the kernel keeps them from us */
};

struct prog_reader {
	struct blob_pool *pool;
	uint8_t *buf;
	size_t buf_size;
	struct array arrays[ARRAY_IDS];
	struct btf_objects btf;
};

static void reset_guesses(struct prog_reader *reader)
{
	for (int i = 0; i < ARRAY_IDS; i++)
		reader->arrays[i].room = arrays[i].guess;
}

int prog_reader_create(struct blob_pool *pool, struct prog_reader **ret)
{
	struct prog_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->pool = pool;
	reader->btf.pool = pool;
	for (int i = 0; i < ARRAY_IDS; i++)
		reader->arrays[i].elem = arrays[i].elem;
	reset_guesses(reader);
	*ret = reader;
	return 0;
}

void prog_reader_destroy(struct prog_reader *reader)
{
	if (!reader)
		return;
	btf_objects_deinit(&reader->btf);
	free(reader->buf);
	free(reader);
}

static uint32_t *info_u32(struct bpf_prog_info *info, size_t offset)
{
	return (uint32_t *)((uint8_t *)info + offset);
}

static uint64_t *info_u64(struct bpf_prog_info *info, size_t offset)
{
	return (uint64_t *)((uint8_t *)info + offset);
}

static int reserve(struct prog_reader *reader, size_t size)
{
	if (size > BUFFER_MAX_BYTES)
		return -EFBIG;
	if (size <= reader->buf_size)
		return 0;
	free(reader->buf);
	reader->buf = malloc(size);
	reader->buf_size = reader->buf ? size : 0;
	return reader->buf ? 0 : -ENOMEM;
}

/* Points info at the buffer, with the room that is reckoned for each array. */
static int prepare_info(struct prog_reader *reader, struct bpf_prog_info *info)
{
	size_t size = 0;

	*info = (struct bpf_prog_info){};
	for (int i = 0; i < ARRAY_IDS; i++) {
		struct array *array = &reader->arrays[i];

		array->offset = size;
		/* A count and an element size of 32 bits do not overflow here, nor does the sum. */
		size += ((uint64_t)array->room * array->elem + 7) & ~(uint64_t)7;
	}
	int r = reserve(reader, size);

	if (r < 0)
		return r;
	for (int i = 0; i < ARRAY_IDS; i++) {
		const struct array *array = &reader->arrays[i];

		*info_u64(info, arrays[i].pointer) = (uintptr_t)reader->buf + array->offset;
		*info_u32(info, arrays[i].count) = array->room;
		if (arrays[i].rec_size)
			*info_u32(info, arrays[i].rec_size) = array->elem;
	}
	return 0;
}

/* Learns the element sizes of a kernel whose records are longer than those that we know. */
static int learn_sizes(struct prog_reader *reader, int fd)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	for (int i = 0; i < ARRAY_IDS; i++) {
		uint32_t elem = arrays[i].rec_size ? *info_u32(&info, arrays[i].rec_size) : 0;

		if (elem >= arrays[i].elem && elem <= 4096)
			reader->arrays[i].elem = elem;
	}
	return 0;
}

/* Takes from info what it says of the arrays. Returns whether all of them had room. */
static bool settle_arrays(struct prog_reader *reader, struct bpf_prog_info *info)
{
	/* Where instructions are hidden the kernel stops there and leaves what follows as it was.
	 */
	bool stopped = info->xlated_prog_insns == 0;
	bool fits = true;

	for (int i = 0; i < ARRAY_IDS; i++) {
		struct array *array = &reader->arrays[i];

		array->count = *info_u32(info, arrays[i].count);
		array->hidden = *info_u64(info, arrays[i].pointer) == 0;
		if (stopped && i != MAP_IDS) {
			array->hidden = true;
			array->count = 0;
		}
		/* Offloaded: the code is a device's, and no functions of the kernel's are told. */
		if (info->ifindex && i != MAP_IDS && i != JITED_INSNS && i != XLATED_INSNS)
			array->count = 0;
		if (!array->hidden && array->count > array->room) {
			array->room = array->count;
			fits = false;
		}
	}
	return fits;
}

/* Reads info and all arrays in one call, where the guesses are good. */
static int read_info(struct prog_reader *reader, int fd, struct bpf_prog_info *info)
{
	for (int attempt = 0; attempt < 4; attempt++) {
		uint32_t len = sizeof(*info);
		int r = prepare_info(reader, info);

		if (r < 0)
			return r;
		if (bpf_obj_get_info_by_fd(fd, info, &len) < 0) {
			if (errno != EINVAL)
				return -errno;
			r = learn_sizes(reader, fd);
			if (r < 0)
				return r;
			continue;
		}
		if (settle_arrays(reader, info))
			return 0;
	}
	return -EIO;
}

static const void *array_data(const struct prog_reader *reader, enum array_id id)
{
	return reader->buf + reader->arrays[id].offset;
}

static int read_maps(struct prog_reader *reader, struct prog *prog)
{
	const struct array *array = &reader->arrays[MAP_IDS];
	const uint32_t *ids = array_data(reader, MAP_IDS);

	if (array->hidden || !array->count)
		return 0;
	prog->maps = calloc(array->count, sizeof(prog->maps[0]));
	if (!prog->maps)
		return -ENOMEM;
	prog->map_count = array->count;
	for (uint32_t i = 0; i < array->count; i++) {
		struct prog_map *map = &prog->maps[i];
		struct bpf_map_info info = {};
		uint32_t len = sizeof(info);
		_cleanup_fd_ int fd = bpf_map_get_fd_by_id(ids[i]);

		map->id = ids[i];
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
			continue;
		map->type = info.type;
		map->key_size = info.key_size;
		map->value_size = info.value_size;
		map->max_entries = info.max_entries;
		memcpy(map->name, info.name, sizeof(map->name));
		map->name[sizeof(map->name) - 1] = '\0';
	}
	return 0;
}

/*
 * Interns the bytes of an array. A state of PROG_PART_OK, in ret_state, means that *ret is set.
 * -ENOMEM.
 */
static int keep_array(struct prog_reader *reader, enum array_id id, struct blob **ret,
		      enum prog_part_state *ret_state)
{
	const struct array *array = &reader->arrays[id];

	*ret_state = PROG_PART_NONE;
	if (array->hidden)
		*ret_state = PROG_PART_FORBIDDEN;
	if (array->hidden || !array->count)
		return 0;
	*ret_state = PROG_PART_OK;
	return blob_intern(reader->pool, array_data(reader, id), (size_t)array->count * array->elem,
			   ret);
}

/* The functions' addresses, lengths and tags; no names yet. */
static int keep_funcs(struct prog_reader *reader, struct prog *prog)
{
	const uint64_t *addrs = array_data(reader, JITED_KSYMS);
	const uint32_t *lens = array_data(reader, JITED_FUNC_LENS);
	const uint8_t(*tags)[BPF_TAG_SIZE] = array_data(reader, PROG_TAGS);
	size_t count =
		MIN(reader->arrays[JITED_KSYMS].count, reader->arrays[JITED_FUNC_LENS].count);

	if (prog->jited_state != PROG_PART_OK || !count)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (!addrs[i])
			prog->jited_state = PROG_PART_FORBIDDEN;
	if (reader->arrays[JITED_KSYMS].hidden || reader->arrays[JITED_FUNC_LENS].hidden)
		prog->jited_state = PROG_PART_FORBIDDEN;
	if (prog->jited_state != PROG_PART_OK)
		return 0;
	prog->funcs = calloc(count, sizeof(prog->funcs[0]));
	if (!prog->funcs)
		return -ENOMEM;
	prog->func_count = count;
	for (size_t i = 0; i < count; i++) {
		struct prog_func *func = &prog->funcs[i];

		func->addr = addrs[i];
		func->len = lens[i];
		func->insn_off = i == 0 ? 0 : UINT32_MAX;
		/* prog_tags[0] is of the main function alone: see first_symbol. */
		bool own = i == 0 || i >= reader->arrays[PROG_TAGS].count;

		memcpy(func->tag, own ? prog->tag : tags[i], sizeof(func->tag));
	}
	return 0;
}

/* Everything of the arrays that is not the maps. -ENOMEM. */
static int keep_arrays(struct prog_reader *reader, struct prog *prog)
{
	enum prog_part_state func_state, jited_line_state;
	int r = keep_array(reader, XLATED_INSNS, &prog->xlated, &prog->xlated_state);

	if (r == 0)
		r = keep_array(reader, JITED_INSNS, &prog->jited, &prog->jited_state);
	if (r == 0)
		r = keep_array(reader, FUNC_INFO, &prog->func_info, &func_state);
	if (r == 0)
		r = keep_array(reader, LINE_INFO, &prog->line_info, &prog->lines_state);
	if (r == 0)
		r = keep_array(reader, JITED_LINE_INFO, &prog->jited_line, &jited_line_state);
	if (r < 0)
		return r;
	/* Every program has instructions: none of anything is how a kernel says "not for you". */
	if (prog->xlated_state == PROG_PART_NONE) {
		prog->xlated_state = PROG_PART_FORBIDDEN;
		prog->jited_state = PROG_PART_FORBIDDEN;
		prog->lines_state = PROG_PART_FORBIDDEN;
	}
	return keep_funcs(reader, prog);
}

/* fd: of the program's BTF, or why there is none. */
static int keep_btf(struct prog_reader *reader, struct prog *prog, int fd)
{
	prog->btf_state = PROG_PART_NONE;
	if (!prog->info.btf_id)
		return 0;
	int r = fd;

	if (fd >= 0 || btf_objects_has(&reader->btf, prog->info.btf_id))
		r = btf_objects_read(&reader->btf, prog->info.btf_id, fd, &prog->btf);
	if (r == -ENOMEM)
		return r;
	prog->btf_state = PROG_PART_OK;
	if (r < 0) {
		prog->btf_state = r == -EPERM ? PROG_PART_FORBIDDEN : PROG_PART_FAILED;
		prog->error = r;
	}
	return 0;
}

/* The names that BTF has for the functions, and where each begins. */
static int name_funcs_by_btf(struct prog_reader *reader, struct prog *prog)
{
	size_t elem = reader->arrays[FUNC_INFO].elem;
	struct btf_view btf;

	if (!prog->btf || !prog->func_info ||
	    btf_view_init(&btf, prog->btf->data, prog->btf->len) < 0)
		return 0;
	size_t count = MIN(prog->func_count, prog->func_info->len / elem);
	_cleanup_free_ uint32_t *ids = calloc(MAX(count, (size_t)1), sizeof(*ids));
	_cleanup_free_ const char **names = calloc(MAX(count, (size_t)1), sizeof(*names));

	if (!ids || !names)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct bpf_func_info *info =
			(const void *)((const uint8_t *)prog->func_info->data + i * elem);

		ids[i] = info->type_id;
		prog->funcs[i].insn_off = info->insn_off;
	}
	if (btf_view_names(&btf, ids, count, names) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!names[i] || !names[i][0])
			continue;
		prog->funcs[i].name = strdup(names[i]);
		if (!prog->funcs[i].name)
			return -ENOMEM;
	}
	return 0;
}

/* Names functions as bpf_prog_ksym_set_name() does: BTF, else info.name for the main program. */
static int name_funcs(struct prog_reader *reader, struct prog *prog)
{
	const char *main_name = prog->info.name[0] ? prog->info.name : NULL;
	int r = name_funcs_by_btf(reader, prog);

	if (r < 0)
		return r;
	for (size_t i = 0; i < prog->func_count; i++) {
		struct prog_func *func = &prog->funcs[i];
		const char *name = func->name ? func->name : i == 0 ? main_name : "F";

		func->symbol = prog_symbol_name(func->tag, name);
		if (!func->symbol)
			return -ENOMEM;
	}
	if (prog->func_count > 1 && reader->arrays[PROG_TAGS].count) {
		const uint8_t(*tags)[BPF_TAG_SIZE] = array_data(reader, PROG_TAGS);
		const char *name = prog->funcs[0].name;

		prog->first_symbol = prog_symbol_name(tags[0], name ? name : "F");
		if (!prog->first_symbol)
			return -ENOMEM;
	}
	if (prog->func_count && prog->funcs[0].name)
		main_name = prog->funcs[0].name;
	if (main_name) {
		prog->name = strdup(main_name);
		if (!prog->name)
			return -ENOMEM;
	}
	return 0;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* load_time is of CLOCK_BOOTTIME, which counts suspends. */
static void set_load_time(struct prog *prog)
{
	int64_t boot = clock_ns(CLOCK_BOOTTIME);
	int64_t age = boot - (int64_t)prog->info.load_time;

	prog->loaded_mono = MAX(clock_ns(CLOCK_MONOTONIC) - age, 1);
	prog->loaded_unix = MAX(clock_ns(CLOCK_REALTIME) - age, 1);
}

int prog_btf_name(struct prog_reader *reader, uint32_t obj_id, uint32_t type_id, char **ret)
{
	return btf_objects_name(&reader->btf, obj_id, type_id, ret);
}

/* What it is attached to. Not knowing is no error. */
static int set_attach_target(struct prog_reader *reader, struct prog *prog)
{
	if (!prog->info.attach_btf_id || !prog->info.attach_btf_obj_id)
		return 0;
	int r = prog_btf_name(reader, prog->info.attach_btf_obj_id, prog->info.attach_btf_id,
			      &prog->attach_target);

	return r == -ENOMEM ? r : 0;
}

static void clean_info(struct prog_reader *reader, struct prog *prog)
{
	for (int i = 0; i < ARRAY_IDS; i++) {
		*info_u64(&prog->info, arrays[i].pointer) = 0;
		*info_u32(&prog->info, arrays[i].count) = reader->arrays[i].count;
	}
	memcpy(prog->tag, prog->info.tag, sizeof(prog->tag));
	prog->info.name[sizeof(prog->info.name) - 1] = '\0';
}

/* What needs the program to be there. *ret_btf_fd: of its BTF, if that is needed, or -errno. */
static int read_program(struct prog_reader *reader, struct prog *prog, int *ret_btf_fd)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog->id);

	if (fd < 0)
		return -errno;
	int r = read_info(reader, fd, &prog->info);

	if (r < 0)
		return r;
	if (prog->info.btf_id && !btf_objects_has(&reader->btf, prog->info.btf_id)) {
		*ret_btf_fd = bpf_btf_get_fd_by_id(prog->info.btf_id);
		if (*ret_btf_fd < 0)
			*ret_btf_fd = -errno;
	}
	return read_maps(reader, prog);
}

static int capture(struct prog_reader *reader, uint32_t id, struct prog **ret)
{
	CLEANUP(prog_cleanup) struct prog *prog = calloc(1, sizeof(*prog));
	_cleanup_fd_ int btf_fd = -1;

	if (!prog)
		return -ENOMEM;
	atomic_init(&prog->refs, 1);
	prog->id = id;
	int r = read_program(reader, prog, &btf_fd);

	if (r < 0)
		return r;
	clean_info(reader, prog);
	set_load_time(prog);
	prog->captured = true;
	r = keep_arrays(reader, prog);
	if (r == 0)
		r = keep_btf(reader, prog, btf_fd);
	if (r == 0)
		r = name_funcs(reader, prog);
	if (r == 0)
		r = set_attach_target(reader, prog);
	if (r < 0)
		return r;
	*ret = take_ptr(prog);
	return 0;
}

int prog_capture(struct prog_reader *reader, uint32_t id, struct prog **ret)
{
	int r = capture(reader, id, ret);

	/* One huge program is no reason to keep its room. */
	if (reader->buf_size > BUFFER_KEEP_BYTES) {
		free(reader->buf);
		reader->buf = NULL;
		reader->buf_size = 0;
		reset_guesses(reader);
	}
	return r;
}
