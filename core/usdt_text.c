/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of usdt/PID, made from a scan: see usdt.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/usdt_args.h"
#include "core/usdt_scan.h"

static int check_size(const struct text *text)
{
	if (text->failed)
		return -ENOMEM;
	return text->len > USDT_TEXT_MAX ? -EFBIG : 0;
}

/* The next file with notes from *index on, past which that is moved; NULL: none. */
static const struct usdt_file *next_file(const struct usdt_scan *scan, size_t *index)
{
	while (*index < scan->file_count) {
		const struct usdt_file *file = &scan->files[(*index)++];

		if (file->ready)
			return file;
	}
	return NULL;
}

/* PROVIDER:NAME. A colon in the provider is escaped too: the first one is the one between. */
static void put_probe_name(struct text *text, const char *provider, const char *name)
{
	for (const char *colon; (colon = strchr(provider, ':')); provider = colon + 1) {
		text_escape(text, provider, colon - provider);
		text_puts(text, "\\072");
	}
	text_escape(text, provider, strlen(provider));
	text_putc(text, ':');
	text_escape(text, name, strlen(name));
}

/* Arguments end the line, so that their blanks can stay as they are. */
static void put_args(struct text *text, const char *args)
{
	for (const char *blank; (blank = strchr(args, ' ')); args = blank + 1) {
		text_escape(text, args, blank - args);
		text_putc(text, ' ');
	}
	text_escape(text, args, strlen(args));
}

/* ` KEY=0xVALUE`. By hand: there can be a million of these lines. */
static void put_number(struct text *text, const char *key, bool known, uint64_t value)
{
	static const char digits[] = "0123456789abcdef";
	char number[18], *at = number + sizeof(number);

	text_putc(text, ' ');
	text_puts(text, key);
	text_putc(text, '=');
	if (!known) {
		text_putc(text, '-');
		return;
	}
	do
		*--at = digits[value & 0xf];
	while (value >>= 4);
	*--at = 'x';
	*--at = '0';
	text_append(text, at, number + sizeof(number) - at);
}

static const char *kind_name(enum usdt_kind kind)
{
	static const char *const names[] = {
		[USDT_FILE] = "file",
		[USDT_DELETED] = "deleted",
		[USDT_MEMFD] = "memfd",
	};

	return names[kind];
}

/* A line of `notes`. What is not known of a faulty one is a dash. */
static void put_site(struct text *text, const struct usdt_file *file, const struct note_site *site)
{
	const struct notes *notes = &file->object->notes;

	if (site->has_names)
		put_probe_name(text, notes_string(notes, site->provider),
			       notes_string(notes, site->name));
	else
		text_puts(text, "-:-");
	text_puts(text, " object=");
	text_puts(text, file->path);
	text_puts(text, " kind=");
	text_puts(text, kind_name(file->kind));
	put_number(text, "pc", site->has_pc, site->pc);
	put_number(text, "offset", site->has_offset, site->offset);
	put_number(text, "semaphore", site->has_pc, site->semaphore);
	put_number(text, "semaphore_offset", site->has_semaphore_offset, site->semaphore_offset);
	if (site->fault) {
		text_puts(text, " invalid=");
		text_puts(text, note_fault_name(site->fault));
	}
	text_puts(text, " args=");
	if (site->has_names)
		put_args(text, notes_string(notes, site->args));
	text_putc(text, '\n');
}

int usdt_scan_notes(const struct usdt_scan *scan, struct text *text)
{
	const struct usdt_file *file;

	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct notes *notes = &file->object->notes;

		for (size_t j = 0; j < notes->site_count; j++) {
			put_site(text, file, &notes->sites[j]);
			if (check_size(text) < 0)
				return check_size(text);
		}
	}
	return check_size(text);
}

int usdt_scan_probes(const struct usdt_scan *scan, struct text *text)
{
	const struct usdt_file *file;

	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct notes *notes = &file->object->notes;

		for (size_t j = 0; j < notes->probe_count; j++) {
			const struct note_probe *probe = &notes->probes[j];

			if (!probe->valid)
				continue;
			text_printf(text, "usdt:%s:", file->path);
			put_probe_name(text, notes_string(notes, probe->provider),
				       notes_string(notes, probe->name));
			text_putc(text, '\n');
			if (check_size(text) < 0)
				return check_size(text);
		}
	}
	return check_size(text);
}

int usdt_scan_objects(const struct usdt_scan *scan, struct text *text)
{
	const struct usdt_file *file;

	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct notes *notes = &file->object->notes;
		const struct mapping *mapping = file->place.mapping;

		text_printf(text, "%s kind=%s build_id=", file->path, kind_name(file->kind));
		if (notes->build_id_len)
			text_hexdump(text, notes->build_id, notes->build_id_len);
		else
			text_putc(text, '-');
		text_printf(
			text, " sites=%zu dev=%u:%u inode=%" PRIu64 " mapped=", notes->site_count,
			major(file->state.dev), minor(file->state.dev), (uint64_t)file->state.ino);
		text_escape(text, mapping->path, mapping->path_len);
		text_putc(text, '\n');
	}
	return check_size(text);
}

/* One that has a build id, and is none of those before it: they are mapped one after the other. */
static const struct notes *notes_with_build_id(const struct usdt_scan *scan, size_t index)
{
	const struct usdt_file *file = &scan->files[index];

	if (!file->opened || !file->object || !file->object->notes.build_id_len)
		return NULL;
	for (size_t i = 0; i < index; i++)
		if (scan->files[i].opened && scan->files[i].object == file->object)
			return NULL;
	return &file->object->notes;
}

int usdt_scan_build_ids(const struct usdt_scan *scan, struct text *text)
{
	for (size_t i = 0; i < scan->file_count; i++) {
		const struct notes *notes = notes_with_build_id(scan, i);
		const struct mapping *mapping = scan->files[i].places[0].mapping;

		if (!notes)
			continue;
		text_puts(text, "build_id: ");
		text_hexdump(text, notes->build_id, notes->build_id_len);
		text_putc(text, ' ');
		text_escape(text, mapping->path, mapping->path_len);
		text_putc(text, '\n');
		if (check_size(text) < 0)
			return check_size(text);
	}
	return check_size(text);
}

bool usdt_scan_has_provider(const struct usdt_scan *scan, const char *provider)
{
	const struct usdt_file *file;

	for (size_t i = 0; (file = next_file(scan, &i));)
		if (notes_find_provider(&file->object->notes, provider) <
		    file->object->notes.probe_count)
			return true;
	return false;
}

bool usdt_scan_has_probe(const struct usdt_scan *scan, const char *provider, const char *name)
{
	const struct usdt_file *file;

	for (size_t i = 0; (file = next_file(scan, &i));)
		if (notes_find(&file->object->notes, provider, name))
			return true;
	return false;
}

static void put_site_args(struct text *text, const struct notes *notes,
			  const struct note_site *site)
{
	const char *args = notes_string(notes, site->args);
	size_t len = strlen(args), pos = 0;
	struct usdt_arg arg;

	for (int i = 1; usdt_args_next(notes->machine, args, len, &pos, &arg); i++) {
		text_printf(text, "arg%d ", i);
		usdt_arg_describe(&arg, text);
		text_putc(text, '\n');
	}
}

/*
 * The kernel raises a semaphore in each private writable mapping of the object that has its word
 * (kernel/events/uprobes.c, valid_ref_ctr_vma()); so there are as many values as such mappings.
 */
#define SEMAPHORES_MAX 16

static int put_semaphores(struct text *text, struct usdt_scan *scan, const struct usdt_file *file,
			  const struct note_site *site)
{
	const struct maps *maps = &scan->processes[file->place.process].maps;
	uint64_t addrs[SEMAPHORES_MAX];
	uint16_t values[SEMAPHORES_MAX];
	bool known[SEMAPHORES_MAX];
	size_t count = 0;

	if (!site->has_semaphore_offset || !site->semaphore)
		return 0;
	for (size_t i = 0; i < maps->count && count < SEMAPHORES_MAX; i++) {
		const struct mapping *mapping = &maps->mappings[i];

		if (mapping->write && !mapping->shared &&
		    mapping->dev == file->place.mapping->dev &&
		    mapping->inode == file->place.mapping->inode &&
		    mapping_address(mapping, site->semaphore_offset, &addrs[count]))
			count++;
	}
	if (count) {
		int r = usdt_read_memory(scan, file->place.process, addrs, count, values, known);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < count; i++)
		if (known[i])
			text_printf(text, "semaphore_value: %u\n", values[i]);
	if (!count || !memchr(known, true, count))
		text_puts(text, "semaphore_value: -\n");
	return 0;
}

static int put_probe(struct text *text, struct usdt_scan *scan, const struct usdt_file *file,
		     const struct note_probe *probe)
{
	const struct notes *notes = &file->object->notes;

	for (uint32_t i = 0; i < probe->count; i++) {
		const struct note_site *site = &notes->sites[notes->by_probe[probe->first + i]];

		put_site(text, file, site);
		put_site_args(text, notes, site);
		int r = put_semaphores(text, scan, file, site);

		if (r == 0)
			r = check_size(text);
		if (r < 0)
			return r;
	}
	return 0;
}

int usdt_scan_probe(struct usdt_scan *scan, const char *provider, const char *name,
		    struct text *text)
{
	const struct usdt_file *file;
	bool found = false;

	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct note_probe *probe = notes_find(&file->object->notes, provider, name);

		if (!probe)
			continue;
		found = true;
		int r = put_probe(text, scan, file, probe);

		if (r < 0)
			return r;
	}
	return found ? 0 : -ENOENT;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted strings, each once. */
static int take_distinct(const char **names, size_t count, usdt_take_fn take, void *arg)
{
	if (count)
		qsort(names, count, sizeof(*names), compare_strings);
	for (size_t i = 0; i < count; i++) {
		if (i && strcmp(names[i], names[i - 1]) == 0)
			continue;
		int r = take(arg, names[i]);

		if (r != 0)
			return r;
	}
	return 0;
}

/* Room for as many names as there are probes. */
static const char **alloc_names(const struct usdt_scan *scan)
{
	const struct usdt_file *file;
	size_t count = 1;

	for (size_t i = 0; (file = next_file(scan, &i));)
		count += file->object->notes.probe_count;
	return calloc(count, sizeof(const char *));
}

int usdt_scan_each_provider(const struct usdt_scan *scan, usdt_take_fn take, void *arg)
{
	_cleanup_free_ const char **names = alloc_names(scan);
	const struct usdt_file *file;
	size_t count = 0;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct notes *notes = &file->object->notes;

		for (size_t j = 0; j < notes->probe_count; j++)
			if (!j || notes->probes[j].provider != notes->probes[j - 1].provider)
				names[count++] = notes_string(notes, notes->probes[j].provider);
	}
	return take_distinct(names, count, take, arg);
}

int usdt_scan_each_name(const struct usdt_scan *scan, const char *provider, usdt_take_fn take,
			void *arg)
{
	_cleanup_free_ const char **names = alloc_names(scan);
	const struct usdt_file *file;
	size_t count = 0;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; (file = next_file(scan, &i));) {
		const struct notes *notes = &file->object->notes;
		size_t first = notes_find_provider(notes, provider);

		for (size_t j = first; j < notes->probe_count; j++) {
			if (notes->probes[j].provider != notes->probes[first].provider)
				break;
			names[count++] = notes_string(notes, notes->probes[j].name);
		}
	}
	return take_distinct(names, count, take, arg);
}
