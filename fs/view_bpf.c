/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf/: the tree of BPF programs.
 *
 *	programs functions images	lists
 *	by-id/ID			symlink to ../TAG/ID
 *	by-name/NAME/ID			symlink to ../../TAG/ID
 *	TAG/ID/FILE			a program under its own tag
 *	TAG/ID				symlink to ../OWNTAG/ID, under a subprogram's tag
 *	TAG/FILE			symlink to ID/FILE of the one that stands for the tag
 *
 * Every request finds its place from the path, by one function; what a place is like, what it
 * lists, where it leads and what it holds are told from the place alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs/view_bpf.h"
#include "fs/views.h"

enum place_kind {
	PLACE_TOP,
	PLACE_LIST,
	PLACE_BY_ID,
	PLACE_BY_NAME,
	PLACE_NAME,	 /* by-name/NAME */
	PLACE_TAG,	 /* TAG */
	PLACE_PROG,	 /* TAG/ID, of its own tag */
	PLACE_PROG_FILE, /* TAG/ID/FILE */
	/* The symlinks, and how far up they start. */
	PLACE_ID_LINK,	 /* by-id/ID */
	PLACE_NAME_LINK, /* by-name/NAME/ID */
	PLACE_TAG_LINK,	 /* TAG/ID, of a subprogram's tag */
	PLACE_FILE_LINK, /* TAG/FILE */
};

struct place {
	enum place_kind kind;
	const struct bpf_list *list;
	const struct bpf_file *file;
	struct prog *prog;	/* referenced: what it belongs to or leads to */
	struct prog_list progs; /* what is in PLACE_NAME */
};

static void place_deinit(struct place *place)
{
	prog_unref(place->prog);
	prog_list_deinit(&place->progs);
}

#define _cleanup_place_ CLEANUP(place_deinit)

/* An id as it is listed: decimal, without leading zeros. */
static int parse_id(const char *name, uint32_t *ret)
{
	uint32_t id = 0;

	if (*name == '0')
		return -EINVAL;
	for (const char *s = name; *s; s++) {
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(id, 10, &id) ||
		    __builtin_add_overflow(id, (uint32_t)(*s - '0'), &id))
			return -EINVAL;
	}
	*ret = id;
	return id ? 0 : -EINVAL;
}

static int parse_tag(const char *name, uint8_t ret[BPF_TAG_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(name) != 2 * BPF_TAG_SIZE)
		return -EINVAL;
	memset(ret, 0, BPF_TAG_SIZE);
	for (int i = 0; i < 2 * BPF_TAG_SIZE; i++) {
		const char *digit = strchr(digits, name[i]);

		if (!digit)
			return -EINVAL;
		ret[i / 2] = ret[i / 2] << 4 | (digit - digits);
	}
	return 0;
}

static bool has_tag(const struct prog *prog, const uint8_t tag[BPF_TAG_SIZE])
{
	if (memcmp(prog->tag, tag, BPF_TAG_SIZE) == 0)
		return true;
	for (size_t i = 0; i < prog->func_count; i++) {
		if (memcmp(prog->funcs[i].tag, tag, BPF_TAG_SIZE) == 0)
			return true;
	}
	return false;
}

/* 0: it is the name of that program; -ENOENT: it is not. */
static int check_file_name(const struct prog *prog, const char *file_name)
{
	_cleanup_free_ char *name = NULL;
	int r = prog_file_name(prog, &name);

	if (r < 0)
		return r;
	return strcmp(name, file_name) == 0 ? 0 : -ENOENT;
}

static int find_in_by_id(struct tracker *tracker, const struct view_path *path, struct place *ret)
{
	uint32_t id;

	ret->kind = PLACE_BY_ID;
	if (path->count == 1)
		return 0;
	ret->kind = PLACE_ID_LINK;
	if (path->count > 2 || parse_id(path->name[1], &id) < 0)
		return -ENOENT;
	return tracker_program(tracker, id, &ret->prog);
}

static int find_in_by_name(struct tracker *tracker, const struct view_path *path, struct place *ret)
{
	uint32_t id;
	int r;

	ret->kind = PLACE_BY_NAME;
	if (path->count == 1)
		return 0;
	if (path->count == 2) {
		ret->kind = PLACE_NAME;
		return tracker_programs_of_file_name(tracker, path->name[1], &ret->progs);
	}
	ret->kind = PLACE_NAME_LINK;
	if (path->count > 3 || parse_id(path->name[2], &id) < 0)
		return -ENOENT;
	r = tracker_program(tracker, id, &ret->prog);
	if (r < 0)
		return r;
	return check_file_name(ret->prog, path->name[1]);
}

static int find_in_tag(struct tracker *tracker, const struct view_path *path, struct place *ret)
{
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t id;
	int r;

	if (parse_tag(path->name[0], tag) < 0)
		return -ENOENT;
	if (path->count == 1) {
		ret->kind = PLACE_TAG;
		return tracker_program_of_tag(tracker, tag, &ret->prog);
	}
	if (parse_id(path->name[1], &id) < 0) {
		r = path->count == 2 ? tracker_program_of_tag(tracker, tag, &ret->prog) : -ENOENT;
		if (r < 0)
			return r;
		ret->kind = PLACE_FILE_LINK;
		ret->file = bpf_find_file(ret->prog, path->name[1]);
		return ret->file ? 0 : -ENOENT;
	}
	r = tracker_program(tracker, id, &ret->prog);
	if (r < 0)
		return r;
	bool own = memcmp(ret->prog->tag, tag, BPF_TAG_SIZE) == 0;

	if (path->count == 2) {
		ret->kind = own ? PLACE_PROG : PLACE_TAG_LINK;
		return has_tag(ret->prog, tag) ? 0 : -ENOENT;
	}
	ret->kind = PLACE_PROG_FILE;
	ret->file = bpf_find_file(ret->prog, path->name[2]);
	return own && path->count == 3 && ret->file ? 0 : -ENOENT;
}

/* Fills ret, which the caller gives back with place_deinit() even then. -ENOENT, -ENOMEM. */
static int find_place(struct tracker *tracker, const struct view_path *path, struct place *ret)
{
	*ret = (struct place){.kind = PLACE_TOP};
	if (path->count == 0)
		return 0;
	for (size_t i = 0; i < bpf_list_count && path->count == 1; i++) {
		if (strcmp(path->name[0], bpf_lists[i].name) == 0) {
			ret->kind = PLACE_LIST;
			ret->list = &bpf_lists[i];
			return 0;
		}
	}
	if (strcmp(path->name[0], "by-id") == 0)
		return find_in_by_id(tracker, path, ret);
	if (strcmp(path->name[0], "by-name") == 0)
		return find_in_by_name(tracker, path, ret);
	return find_in_tag(tracker, path, ret);
}

static uint64_t last_change(const struct prog *prog)
{
	return MAX(prog->loaded_unix, atomic_load(&prog->unloaded_unix));
}

static struct view_attr list_attr(struct tracker *tracker, const struct bpf_list *list)
{
	return (struct view_attr){
		.kind = VIEW_FILE,
		.generation = tracker_generation(tracker, list->part),
		.mtime = view_time(tracker_changed_unix(tracker, list->part)),
	};
}

/*
 * The directories that programs are entries of. When one of them last changed is not kept: the last
 * change of any is as late.
 */
static struct view_attr dir_attr(struct tracker *tracker)
{
	return (struct view_attr){
		.kind = VIEW_DIR,
		.mtime = view_time(tracker_changed_unix(tracker, TRACKER_PROGRAMS)),
	};
}

static struct view_attr prog_attr(enum view_kind kind, const struct prog *prog)
{
	return (struct view_attr){.kind = kind, .mtime = view_time(prog->loaded_unix)};
}

static struct view_attr file_attr(const struct prog *prog, const struct bpf_file *file)
{
	struct view_attr attr = prog_attr(VIEW_FILE, prog);

	switch (file->change) {
	case BPF_FILE_NEVER:
		/* What was not read in time may still come. */
		attr.generation = prog->at_unload ? 2 : 1;
		attr.fixed = prog->captured;
		break;
	case BPF_FILE_AT_UNLOAD:
		attr.generation = 1 + !prog_is_loaded(prog) + prog->at_unload;
		attr.mtime = view_time(last_change(prog));
		break;
	case BPF_FILE_ALWAYS:
		attr.generation = VIEW_VOLATILE;
		attr.mtime = (struct timespec){};
		break;
	}
	attr.slow = file->slow;
	return attr;
}

static struct view_attr place_attr(struct tracker *tracker, const struct place *place)
{
	switch (place->kind) {
	case PLACE_LIST:
		return list_attr(tracker, place->list);
	case PLACE_TOP:
	case PLACE_BY_ID:
	case PLACE_BY_NAME:
	case PLACE_NAME:
	case PLACE_TAG:
		return dir_attr(tracker);
	case PLACE_PROG:
		return prog_attr(VIEW_DIR, place->prog);
	case PLACE_PROG_FILE:
		return file_attr(place->prog, place->file);
	case PLACE_ID_LINK:
	case PLACE_NAME_LINK:
	case PLACE_TAG_LINK:
	case PLACE_FILE_LINK:
		break;
	}
	return prog_attr(VIEW_LINK, place->prog);
}

static int lookup(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	_cleanup_place_ struct place place = {};
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	*ret = place_attr(view, &place);
	return 0;
}

static int bpf_readlink(void *view, const struct view_path *path, const struct view_caller *caller,
			char **ret)
{
	_cleanup_place_ struct place place = {};
	_cleanup_text_ struct text text = {};
	char tag[BPF_TAG_NAME];
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	if (place.kind == PLACE_FILE_LINK) {
		text_printf(&text, "%" PRIu32 "/%s", place.prog->id, place.file->name);
		return text_take_string(&text, ret);
	}
	if (place.kind != PLACE_ID_LINK && place.kind != PLACE_NAME_LINK &&
	    place.kind != PLACE_TAG_LINK)
		return -EINVAL;
	bpf_tag_name(place.prog->tag, tag);
	text_printf(&text, "%s%s/%" PRIu32, place.kind == PLACE_NAME_LINK ? "../../" : "../", tag,
		    place.prog->id);
	return text_take_string(&text, ret);
}

static int render(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct snapshot **ret)
{
	_cleanup_place_ struct place place = {};
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	if (place.kind == PLACE_LIST)
		return place.list->render(view, ret);
	if (place.kind == PLACE_PROG_FILE)
		return place.file->render(view, place.prog, ret);
	return -EISDIR;
}

static int list_top(struct tracker *tracker, struct view_list *list)
{
	struct view_attr dir = dir_attr(tracker);
	_cleanup_free_ uint8_t(*tags)[BPF_TAG_SIZE] = NULL;
	size_t count;
	int r = tracker_tags(tracker, &tags, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < bpf_list_count; i++) {
		struct view_attr attr = list_attr(tracker, &bpf_lists[i]);

		r = view_list_add(list, bpf_lists[i].name, VIEW_FILE, &attr);
		if (r < 0)
			return r;
	}
	r = view_list_add(list, "by-id", VIEW_DIR, &dir);
	if (r < 0)
		return r;
	r = view_list_add(list, "by-name", VIEW_DIR, &dir);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		char name[BPF_TAG_NAME];

		bpf_tag_name(tags[i], name);
		r = view_list_add(list, name, VIEW_DIR, &dir);
		if (r < 0)
			return r;
	}
	return 0;
}

/* An entry by its id: a symlink, or with own_tag (may be NULL) the directory. */
static int list_prog(struct view_list *list, const struct prog *prog, const uint8_t *own_tag)
{
	bool own = own_tag && memcmp(prog->tag, own_tag, BPF_TAG_SIZE) == 0;
	struct view_attr attr = prog_attr(own ? VIEW_DIR : VIEW_LINK, prog);
	char name[16];

	snprintf(name, sizeof(name), "%" PRIu32, prog->id);
	return view_list_add(list, name, attr.kind, &attr);
}

static int list_progs(struct view_list *list, const struct prog_list *progs, const uint8_t *own_tag)
{
	for (size_t i = 0; i < progs->count; i++) {
		int r = list_prog(list, progs->progs[i], own_tag);

		if (r < 0)
			return r;
	}
	return 0;
}

static int list_by_id(struct tracker *tracker, struct view_list *list)
{
	struct prog_list progs;
	int r = tracker_programs(tracker, &progs);

	if (r < 0)
		return r;
	r = list_progs(list, &progs, NULL);
	prog_list_deinit(&progs);
	return r;
}

static int list_names(struct tracker *tracker, struct view_list *list,
		      const struct prog_list *progs)
{
	struct view_attr dir = dir_attr(tracker);

	for (size_t i = 0; i < progs->count; i++) {
		_cleanup_free_ char *name = NULL;
		int r = prog_file_name(progs->progs[i], &name);

		if (r == 0)
			r = view_list_add(list, name, VIEW_DIR, &dir);
		if (r < 0)
			return r;
	}
	return 0;
}

static int list_by_name(struct tracker *tracker, struct view_list *list)
{
	struct prog_list progs;
	int r = tracker_program_names(tracker, &progs);

	if (r < 0)
		return r;
	r = list_names(tracker, list, &progs);
	prog_list_deinit(&progs);
	return r;
}

/* TAG/: its programs, then the files of the one that stands for it. */
static int list_tag(struct tracker *tracker, struct view_list *list, const struct place *place,
		    const char *tag_name)
{
	struct view_attr link = prog_attr(VIEW_LINK, place->prog);
	uint8_t tag[BPF_TAG_SIZE];
	struct prog_list progs;
	int r = parse_tag(tag_name, tag);

	if (r == 0)
		r = tracker_programs_of_tag(tracker, tag, &progs);
	if (r < 0)
		return r;
	r = list_progs(list, &progs, tag);
	prog_list_deinit(&progs);
	for (size_t i = 0; i < bpf_file_count && r == 0; i++) {
		if (bpf_has_file(place->prog, &bpf_files[i]))
			r = view_list_add(list, bpf_files[i].name, VIEW_LINK, &link);
	}
	return r;
}

static int list_files(struct view_list *list, const struct prog *prog)
{
	for (size_t i = 0; i < bpf_file_count; i++) {
		struct view_attr attr = file_attr(prog, &bpf_files[i]);

		if (!bpf_has_file(prog, &bpf_files[i]))
			continue;
		int r = view_list_add(list, bpf_files[i].name, VIEW_FILE, &attr);

		if (r < 0)
			return r;
	}
	return 0;
}

static int list(void *view, const struct view_path *path, const struct view_caller *caller,
		struct view_list *entries)
{
	_cleanup_place_ struct place place = {};
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	switch (place.kind) {
	case PLACE_TOP:
		return list_top(view, entries);
	case PLACE_BY_ID:
		return list_by_id(view, entries);
	case PLACE_BY_NAME:
		return list_by_name(view, entries);
	case PLACE_NAME:
		return list_progs(entries, &place.progs, NULL);
	case PLACE_TAG:
		return list_tag(view, entries, &place, path->name[0]);
	case PLACE_PROG:
		return list_files(entries, place.prog);
	default:
		return -ENOTDIR;
	}
}

int view_bpf_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "bpf",
		.access = ACCESS_ADDRESSES,
		.lookup = lookup,
		.list = list,
		.render = render,
		.readlink = bpf_readlink,
	};

	*ret = (struct view){&ops, context->tracker};
	return 0;
}
