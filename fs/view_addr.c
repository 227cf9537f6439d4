/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * addr/ADDR: which symbol covers an address, at present or, with @TIME, at a moment of the past.
 *
 * The directory lists as empty: its names are questions. One that is no question, or that nothing
 * answers, does not exist.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/addrquery.h"
#include "core/tracker.h"
#include "fs/view_bpf.h"
#include "fs/views.h"

static int resolve(struct tracker *tracker, const struct view_path *path, struct addrquery *query,
		   struct tracker_answer *ret)
{
	if (path->count != 1 || addrquery_parse(path->name[0], query) < 0)
		return -ENOENT;
	return tracker_resolve(tracker, query->addr, query->has_time ? query->time : TRACKER_NOW,
			       ret);
}

/*
 * An answer about the present names symbols, the program that they belong to and what an image is
 * attached to: it is the same for as long as none of the three has changed, and the sum of numbers
 * that only rise rises with each.
 */
static uint64_t present_generation(struct tracker *tracker)
{
	return tracker_generation(tracker, TRACKER_SYMBOLS) +
	       tracker_generation(tracker, TRACKER_PROGRAMS) +
	       tracker_generation(tracker, TRACKER_IMAGES);
}

static int lookup(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	struct tracker *tracker = view;
	struct tracker_answer answer = {};
	struct addrquery query;

	if (path->count == 0) {
		*ret = (struct view_attr){
			.kind = VIEW_DIR,
			.mtime = view_time(tracker_changed_unix(tracker, TRACKER_SYMBOLS)),
		};
		return 0;
	}
	/* Before the answer, which may then be newer than its number, but never older. */
	uint64_t generation = present_generation(tracker);
	int r = resolve(tracker, path, &query, &answer);

	if (r < 0)
		return r;
	tracker_answer_deinit(&answer);
	*ret = (struct view_attr){
		.kind = VIEW_FILE,
		.quick = true,
		/* History can learn of a symbol late, and forgets programs as it goes. */
		.generation = query.has_time ? VIEW_VOLATILE : generation,
	};
	if (!query.has_time)
		ret->mtime = view_time(tracker_changed_unix(tracker, TRACKER_SYMBOLS));
	return 0;
}

static int list(void *view, const struct view_path *path, const struct view_caller *caller,
		struct view_list *entries)
{
	return path->count == 0 ? 0 : -ENOTDIR;
}

static void write_field(struct text *text, const char *key, const char *value)
{
	text_printf(text, "%s: ", key);
	text_escape(text, value, strlen(value));
	text_putc(text, '\n');
}

static void write_answer(struct text *text, const struct tracker_answer *answer, uint64_t addr)
{
	text_escape(text, answer->symbol, strlen(answer->symbol));
	text_printf(text, "+0x%" PRIx64 "/0x%" PRIx64, addr - answer->addr, answer->size);
	if (answer->module) {
		text_puts(text, " [");
		text_escape(text, answer->module, strlen(answer->module));
		text_putc(text, ']');
	}
	text_putc(text, '\n');
	if (answer->freed)
		text_puts(text, "state: freed\n");
	if (answer->prog) {
		text_puts(text, "program: ");
		bpf_write_path(text, answer->prog);
		text_putc(text, '\n');
		bpf_write_source_line(text, answer->prog, addr);
	}
	if (answer->target)
		write_field(text, "target", answer->target);
	for (size_t i = 0; i < answer->alias_count; i++)
		write_field(text, "alias", answer->aliases[i]);
}

static int render(void *view, const struct view_path *path, const struct view_caller *caller,
		  struct snapshot **ret)
{
	struct tracker_answer answer = {};
	_cleanup_text_ struct text text = {};
	struct addrquery query;
	int r = resolve(view, path, &query, &answer);

	if (r < 0)
		return r;
	write_answer(&text, &answer, query.addr);
	tracker_answer_deinit(&answer);
	return text_take_snapshot(&text, ret);
}

int view_addr_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "addr",
		.access = ACCESS_ADDRESSES,
		.secret_names = true,
		.lookup = lookup,
		.list = list,
		.render = render,
	};

	*ret = (struct view){&ops, context->tracker};
	return 0;
}
