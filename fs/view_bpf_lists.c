/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf/programs, bpf/functions and bpf/images: what there is of each, a line a piece. Rendered when
 * somebody reads them, from programs that are immutable.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs/view_bpf.h"

static void write_program(struct text *text, const struct prog *prog)
{
	char tag[BPF_TAG_NAME];

	bpf_tag_name(prog->tag, tag);
	text_printf(text, "%" PRIu32 " %s %s ", prog->id, tag, bpf_state(prog));
	bpf_write_type(text, prog);
	text_putc(text, ' ');
	bpf_write_name(text, prog->name);
	text_putc(text, ' ');
	bpf_write_jited_bytes(text, prog);
	text_putc(text, ' ');
	text_seconds(text, prog->loaded_unix);
	text_putc(text, ' ');
	bpf_write_path(text, prog);
	text_putc(text, ' ');
	bpf_write_loader_pid(text, prog);
	text_putc(text, ' ');
	bpf_write_name(text, prog->loader_comm);
	text_putc(text, '\n');
}

static int render_programs(struct tracker *tracker, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};
	struct prog_list list;
	int r = tracker_programs(tracker, &list);

	if (r < 0)
		return r;
	for (size_t i = 0; i < list.count; i++)
		write_program(&text, list.progs[i]);
	prog_list_deinit(&list);
	return text_take_snapshot(&text, ret);
}

struct function {
	const struct prog_func *func;
	const struct prog *prog;
};

/* By address; where one was used again, who is there now and then the newest first. */
static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	bool x_loaded = prog_is_loaded(x->prog), y_loaded = prog_is_loaded(y->prog);

	if (x->func->addr != y->func->addr)
		return x->func->addr < y->func->addr ? -1 : 1;
	if (x_loaded != y_loaded)
		return x_loaded ? -1 : 1;
	if (x->prog->loaded_mono != y->prog->loaded_mono)
		return x->prog->loaded_mono > y->prog->loaded_mono ? -1 : 1;
	return x->prog->id > y->prog->id ? -1 : x->prog->id < y->prog->id;
}

static int write_functions(struct text *text, const struct prog_list *list)
{
	size_t count = 0, n = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->progs[i]->func_count;
	_cleanup_free_ struct function *functions =
		calloc(MAX(count, (size_t)1), sizeof(*functions));

	if (!functions)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		const struct prog *prog = list->progs[i];

		for (size_t j = 0; j < prog->func_count; j++)
			functions[n++] = (struct function){&prog->funcs[j], prog};
	}
	qsort(functions, count, sizeof(*functions), compare_functions);
	for (size_t i = 0; i < count; i++) {
		const struct prog_func *func = functions[i].func;

		text_hex16(text, func->addr);
		text_putc(text, ' ');
		text_hex16(text, func->len);
		text_printf(text, " %s ", bpf_state(functions[i].prog));
		bpf_write_name(text, func->symbol);
		text_putc(text, ' ');
		bpf_write_path(text, functions[i].prog);
		text_putc(text, '\n');
	}
	return 0;
}

static int render_functions(struct tracker *tracker, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};
	struct prog_list list;
	int r = tracker_programs(tracker, &list);

	if (r < 0)
		return r;
	r = write_functions(&text, &list);
	prog_list_deinit(&list);
	return r < 0 ? r : text_take_snapshot(&text, ret);
}

static int render_images(struct tracker *tracker, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};
	struct tracker_image_list list;
	int r = tracker_images(tracker, &list);

	if (r < 0)
		return r;
	for (size_t i = 0; i < list.count; i++) {
		const struct tracker_image *image = &list.images[i];

		text_hex16(&text, image->addr);
		text_putc(&text, ' ');
		text_hex16(&text, image->size);
		text_putc(&text, ' ');
		bpf_write_name(&text, image->symbol);
		text_puts(&text, " target=");
		bpf_write_name(&text, image->target);
		text_putc(&text, '\n');
	}
	tracker_image_list_deinit(&list);
	return text_take_snapshot(&text, ret);
}

const struct bpf_list bpf_lists[] = {
	{"programs", TRACKER_PROGRAMS, render_programs},
	{"functions", TRACKER_PROGRAMS, render_functions},
	{"images", TRACKER_IMAGES, render_images},
};
const size_t bpf_list_count = ARRAY_SIZE(bpf_lists);
