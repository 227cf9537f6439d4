/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usdt/PID/uprobe_events: lines that tracefs takes as they are.
 *
 * What it takes is in kernel/trace/trace_uprobe.c and trace_probe.c. A group and an event are C
 * identifiers of at most 63 bytes; a line ends before 4,094 bytes and has up to 128 arguments; an
 * event that is there already cannot be added again; and two events at one offset of a file cannot
 * have different semaphores.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/intern.h"
#include "core/usdt_args.h"
#include "core/usdt_scan.h"

#define EVENT_NAME_MAX 63
#define LINE_MAX_LEN   4093
#define EVENT_ARGS_MAX 128
/* Room for `_N` behind the name. */
#define NUMBER_MAX 11

/* Up to `max` bytes of a name as an identifier. Different names can become one. */
static void put_identifier(struct text *text, const char *name, size_t max)
{
	size_t start = text->len;

	if (!*name || (*name >= '0' && *name <= '9'))
		text_putc(text, '_');
	for (; *name && text->len - start < max && !text->failed; name++) {
		char c = *name;
		bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '_';

		text_putc(text, fits ? c : '_');
	}
}

/*
 * GROUP/NAME_N. N counts the sites whose GROUP/NAME is the same as identifiers, and no identifier
 * before the last `_` holds it, so that no event has the name of another.
 */
static int put_event(struct text *text, struct intern *names, const char *provider,
		     const char *name)
{
	size_t start = text->len;
	uint32_t string, *count;

	put_identifier(text, provider, EVENT_NAME_MAX);
	text_putc(text, '/');
	put_identifier(text, name, EVENT_NAME_MAX - NUMBER_MAX);
	if (text->failed)
		return -ENOMEM;
	int r = intern_add(names, text->data + start, text->len - start, &string, &count);

	if (r < 0)
		return r;
	text_printf(text, "_%u", ++*count);
	return 0;
}

/* What tracefs cannot express is left out; the others keep their numbers. */
static void put_fetch_args(struct text *text, const struct notes *notes,
			   const struct note_site *site, size_t line_start)
{
	const char *args = notes_string(notes, site->args);
	size_t len = strlen(args), pos = 0;
	struct usdt_arg arg;

	if (!usdt_machine_native(notes->machine))
		return;
	for (int i = 1; i <= EVENT_ARGS_MAX; i++) {
		size_t before = text->len;

		if (!usdt_args_next(notes->machine, args, len, &pos, &arg))
			return;
		text_printf(text, " arg%d=", i);
		if (!usdt_arg_fetch(&arg, text) || text->len - line_start > LINE_MAX_LEN)
			text->len = before;
	}
}

static int put_event_line(struct text *text, struct intern *names, const struct usdt_file *file,
			  const struct note_site *site)
{
	const struct notes *notes = &file->object->notes;
	size_t start = text->len;

	text_puts(text, "p:");
	int r = put_event(text, names, notes_string(notes, site->provider),
			  notes_string(notes, site->name));

	if (r < 0)
		return r;
	text_printf(text, " %s:0x%" PRIx64, file->path, site->offset);
	if (site->semaphore)
		text_printf(text, "(0x%" PRIx64 ")", site->semaphore_offset);
	put_fetch_args(text, notes, site, start);
	/* A path can be that long. */
	if (text->len - start > LINE_MAX_LEN)
		text->len = start;
	else
		text_putc(text, '\n');
	return 0;
}

static int compare_offsets(const void *a, const void *b, void *sites_arg)
{
	const struct note_site *sites = sites_arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (sites[x].offset != sites[y].offset)
		return sites[x].offset < sites[y].offset ? -1 : 1;
	return (x > y) - (x < y);
}

/*
 * Which sites get a line: valid ones, but for those whose offset an earlier one has with another
 * semaphore. wanted has a flag a site.
 */
static int choose_sites(const struct notes *notes, bool *wanted)
{
	_cleanup_free_ uint32_t *order = calloc(notes->site_count, sizeof(*order));
	size_t count = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < notes->site_count; i++)
		if (!notes->sites[i].fault)
			order[count++] = i;
	qsort_r(order, count, sizeof(*order), compare_offsets, notes->sites);
	const struct note_site *first = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct note_site *site = &notes->sites[order[i]];

		if (!first || first->offset != site->offset)
			first = site;
		wanted[order[i]] = first->semaphore_offset == site->semaphore_offset;
	}
	return 0;
}

static int put_events(struct text *text, struct intern *names, const struct usdt_file *file)
{
	const struct notes *notes = &file->object->notes;
	_cleanup_free_ bool *wanted = calloc(notes->site_count, sizeof(*wanted));

	if (!wanted)
		return -ENOMEM;
	int r = choose_sites(notes, wanted);

	for (size_t i = 0; i < notes->site_count && r == 0 && text->len <= USDT_TEXT_MAX; i++)
		if (wanted[i])
			r = put_event_line(text, names, file, &notes->sites[i]);
	return r;
}

int usdt_scan_uprobe_events(const struct usdt_scan *scan, struct text *text)
{
	_cleanup_intern_ struct intern names = {};

	for (size_t i = 0; i < scan->file_count; i++) {
		const struct usdt_file *file = &scan->files[i];

		if (!file->ready)
			continue;
		size_t start = text->len;
		int r = put_events(text, &names, file);

		if (r == 0)
			r = usdt_settle_part(scan, text, start);
		if (r < 0)
			return r;
	}
	return 0;
}
