/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_tracker.h"
#include "fs/sandbox.h"
#include "fs/session.h"

void fake_tracker_init(struct tracker *tracker, uint64_t events_bytes)
{
	*tracker = (struct tracker){
		.generation = {1, 1, 1},
		.changed_unix = {1000 * NSEC_PER_SEC, 2000 * NSEC_PER_SEC, 3000 * NSEC_PER_SEC},
		.healthy = true,
		.ksyms = "",
		.kallsyms = "",
	};
	assert_int_equal(blob_pool_create(&tracker->pool), 0);
	assert_int_equal(progset_create(tracker->pool, &tracker->progs), 0);
	assert_int_equal(eventlog_create(events_bytes, &tracker->log), 0);
}

void fake_tracker_deinit(struct tracker *tracker)
{
	progset_destroy(tracker->progs);
	eventlog_destroy(tracker->log);
	blob_pool_destroy(tracker->pool);
}

static void set_tag(uint8_t ret[BPF_TAG_SIZE], const char *tag)
{
	for (int i = 0; i < BPF_TAG_SIZE; i++) {
		unsigned int byte;

		assert_int_equal(sscanf(tag + 2 * i, "%2x", &byte), 1);
		ret[i] = byte;
	}
}

struct prog *fake_prog(struct tracker *tracker, uint32_t id, const char *tag, const char *name,
		       const char *jited)
{
	uint8_t bytes[BPF_TAG_SIZE];
	struct prog *prog;

	set_tag(bytes, tag);
	assert_int_equal(prog_from_records(id, bytes, NULL, 0, 0, &prog), 0);
	prog->captured = true;
	prog->name = name ? strdup(name) : NULL;
	prog->loaded_mono = (uint64_t)id * NSEC_PER_SEC;
	prog->loaded_unix = (100000 + (uint64_t)id) * NSEC_PER_SEC;
	prog->jited_state = jited ? PROG_PART_OK : PROG_PART_NONE;
	if (jited)
		assert_int_equal(blob_intern(tracker->pool, jited, strlen(jited), &prog->jited), 0);
	prog->xlated_state = PROG_PART_FORBIDDEN;
	prog->btf_state = PROG_PART_NONE;
	prog->lines_state = PROG_PART_NONE;
	prog->info.type = BPF_PROG_TYPE_SOCKET_FILTER;
	return prog;
}

void fake_func(struct prog *prog, uint64_t addr, uint32_t len, const char *tag, const char *symbol)
{
	struct prog_func *funcs =
		realloc(prog->funcs, (prog->func_count + 1) * sizeof(*prog->funcs));

	assert_non_null(funcs);
	prog->funcs = funcs;
	funcs[prog->func_count] = (struct prog_func){.addr = addr, .len = len};
	set_tag(funcs[prog->func_count].tag, tag);
	funcs[prog->func_count].symbol = strdup(symbol);
	prog->func_count++;
}

void fake_publish(struct tracker *tracker, struct prog *prog)
{
	assert_int_equal(progset_add(tracker->progs, prog), 0);
	prog_unref(prog);
	tracker->generation[TRACKER_PROGRAMS]++;
}

/* The tracker's interface. */

uint64_t tracker_generation(struct tracker *tracker, enum tracker_part part)
{
	return tracker->generation[part];
}

uint64_t tracker_changed_unix(struct tracker *tracker, enum tracker_part part)
{
	return tracker->changed_unix[part];
}

int tracker_ksyms(struct tracker *tracker, enum symtab_format format, struct snapshot **ret)
{
	const char *text = format == SYMTAB_KSYMS ? tracker->ksyms : tracker->kallsyms;

	return tracker->error ?: snapshot_copy(text, strlen(text), ret);
}

int tracker_core_address(struct tracker *tracker, const char *name, uint64_t *ret)
{
	if (!tracker->call_base || strcmp(name, "__bpf_call_base") != 0)
		return -ENOENT;
	*ret = tracker->call_base;
	return 0;
}

int tracker_resolve(struct tracker *tracker, uint64_t addr, uint64_t time,
		    struct tracker_answer *ret)
{
	if (tracker->error)
		return tracker->error;
	if (addr < tracker->answer.addr || addr - tracker->answer.addr >= tracker->answer.size ||
	    (time != TRACKER_NOW && time != tracker->answer_time))
		return -ENOENT;
	*ret = tracker->answer;
	if (ret->prog)
		prog_ref(ret->prog);
	return 0;
}

void tracker_answer_deinit(struct tracker_answer *answer)
{
	prog_unref(answer->prog);
}

int tracker_programs(struct tracker *tracker, struct prog_list *ret)
{
	return progset_list(tracker->progs, ret);
}

int tracker_program(struct tracker *tracker, uint32_t id, struct prog **ret)
{
	struct prog *prog = progset_find(tracker->progs, id);

	if (!prog)
		return -ENOENT;
	*ret = prog_ref(prog);
	return 0;
}

int tracker_program_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			   struct prog **ret)
{
	struct prog *prog = progset_standing_for_tag(tracker->progs, tag);

	if (!prog)
		return -ENOENT;
	*ret = prog_ref(prog);
	return 0;
}

int tracker_programs_of_file_name(struct tracker *tracker, const char *file_name,
				  struct prog_list *ret)
{
	return progset_of_file_name(tracker->progs, file_name, ret);
}

int tracker_program_names(struct tracker *tracker, struct prog_list *ret)
{
	return progset_names(tracker->progs, ret);
}

int tracker_programs_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			    struct prog_list *ret)
{
	return progset_of_tag(tracker->progs, tag, ret);
}

int tracker_tags(struct tracker *tracker, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count)
{
	return progset_tags(tracker->progs, ret, ret_count);
}

int tracker_images(struct tracker *tracker, struct tracker_image_list *ret)
{
	*ret = (struct tracker_image_list){tracker->images, tracker->image_count};
	return 0;
}

void tracker_image_list_deinit(struct tracker_image_list *list)
{
}

void tracker_events_span(struct tracker *tracker, struct eventlog_span *ret)
{
	eventlog_span(tracker->log, ret);
}

ssize_t tracker_events_read(struct tracker *tracker, uint64_t offset, void *buf, size_t len)
{
	return eventlog_read(tracker->log, offset, buf, len);
}

void tracker_status(struct tracker *tracker, struct text *text)
{
	text_puts(text, "tracker: here\n");
}

void tracker_metrics(struct tracker *tracker, struct text *text)
{
	text_puts(text, "ksymfs_tracker 1\n");
}

bool tracker_is_healthy(struct tracker *tracker)
{
	return tracker->healthy;
}

/* The session's. */

void session_status(struct session *session, struct text *text)
{
	text_puts(text, "session: here\n");
}

void sandbox_status(struct text *text)
{
}

void session_get_resumed(const struct session *session, struct session_resumed *ret)
{
	*ret = (struct session_resumed){};
}

void session_metrics(struct session *session, struct text *text)
{
	text_puts(text, "ksymfs_session 1\n");
}

struct view_list {
	char **names;
	enum view_kind *kinds;
	struct view_attr *attrs; /* kind of -1: none was given */
	bool *has_attr;
	size_t count;
};

int view_list_add(struct view_list *list, const char *name, enum view_kind kind,
		  const struct view_attr *attr)
{
	size_t count = list->count + 1;

	list->names = realloc(list->names, count * sizeof(*list->names));
	list->kinds = realloc(list->kinds, count * sizeof(*list->kinds));
	list->attrs = realloc(list->attrs, count * sizeof(*list->attrs));
	list->has_attr = realloc(list->has_attr, count * sizeof(*list->has_attr));
	list->names[list->count] = strdup(name);
	list->kinds[list->count] = kind;
	list->has_attr[list->count] = attr;
	list->attrs[list->count] = attr ? *attr : (struct view_attr){};
	list->count = count;
	return 0;
}

static void list_deinit(struct view_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	free(list->kinds);
	free(list->attrs);
	free(list->has_attr);
}

/* Walking a view. */

static const struct view_caller caller;

/* Splits a path in place. */
static struct view_path split(char *path)
{
	struct view_path ret = {};
	char *save;

	for (char *name = strtok_r(path, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		assert_true(ret.count < VIEW_DEPTH);
		ret.name[ret.count++] = name;
	}
	return ret;
}

int view_lookup(const struct view *view, const char *path, struct view_attr *ret)
{
	_cleanup_free_ char *copy = strdup(path);
	struct view_path names = split(copy);

	return view->ops->lookup(view->data, &names, &caller, ret);
}

char *view_text(const struct view *view, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	struct view_path names = split(copy);
	struct snapshot *snapshot;

	assert_int_equal(view->ops->render(view->data, &names, &caller, &snapshot), 0);
	size_t size = snapshot_size(snapshot);
	char *text = malloc(size + 1);

	assert_int_equal(snapshot_read(snapshot, 0, text, size), size);
	text[size] = '\0';
	snapshot_unref(snapshot);
	return text;
}

void assert_file(const struct view *view, const char *path, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	struct view_attr attr;

	assert_int_equal(view_lookup(view, path, &attr), 0);
	assert_int_equal(attr.kind, VIEW_FILE);
	text = view_text(view, path);
	assert_string_equal(text, expected);
}

void assert_link(const struct view *view, const char *path, const char *expected)
{
	_cleanup_free_ char *copy = strdup(path), *target = NULL;
	struct view_path names = split(copy);
	struct view_attr attr;

	assert_int_equal(view_lookup(view, path, &attr), 0);
	assert_int_equal(attr.kind, VIEW_LINK);
	assert_int_equal(view->ops->readlink(view->data, &names, &caller, &target), 0);
	assert_string_equal(target, expected);
}

static void list_dir(const struct view *view, const char *path, struct view_list *list)
{
	_cleanup_free_ char *copy = strdup(path);
	struct view_path names = split(copy);
	struct view_attr attr;

	assert_int_equal(view_lookup(view, path, &attr), 0);
	assert_int_equal(attr.kind, VIEW_DIR);
	assert_int_equal(view->ops->list(view->data, &names, &caller, list), 0);
}

void assert_names(const struct view *view, const char *path, const char *expected)
{
	_cleanup_free_ char *names = NULL;
	struct view_list list = {};
	struct text text = {};

	list_dir(view, path, &list);
	for (size_t i = 0; i < list.count; i++)
		text_printf(&text, "%s%s", i ? " " : "", list.names[i]);
	assert_int_equal(text_take_string(&text, &names), 0);
	assert_string_equal(names, expected);
	list_deinit(&list);
}

void assert_listed_as_found(const struct view *view, const char *path)
{
	struct view_list list = {};

	list_dir(view, path, &list);
	assert_true(list.count > 0);
	for (size_t i = 0; i < list.count; i++) {
		_cleanup_free_ char *entry = NULL;
		struct view_attr found;

		assert_true(asprintf(&entry, "%s/%s", path, list.names[i]) > 0);
		assert_int_equal(view_lookup(view, entry, &found), 0);
		assert_int_equal(found.kind, list.kinds[i]);
		if (!list.has_attr[i])
			continue;
		assert_int_equal(found.generation, list.attrs[i].generation);
		assert_int_equal(found.mtime.tv_sec, list.attrs[i].mtime.tv_sec);
		assert_int_equal(found.fixed, list.attrs[i].fixed);
		assert_int_equal(found.slow, list.attrs[i].slow);
	}
	list_deinit(&list);
}
