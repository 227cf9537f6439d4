/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of usdt/PID, made from a scan: see usdt.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/usdt_args.h"
#include "core/usdt_scan.h"

int usdt_settle_part(const struct usdt_scan *scan, struct text *text, size_t start)
{
	if (text->failed)
		return -ENOMEM;
	if (text->len > USDT_TEXT_MAX) {
		text->len = start;
		objcache_left_out(scan->cache);
	}
	return 0;
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

/* What an object has to say in a text. It may stop once that is too long. */
typedef void (*put_part_fn)(struct text *text, const struct usdt_file *file);

static int put_parts(const struct usdt_scan *scan, put_part_fn put, struct text *text)
{
	const struct usdt_file *file;
	int r = 0;

	for (size_t i = 0; r == 0 && (file = next_file(scan, &i));) {
		size_t start = text->len;

		put(text, file);
		r = usdt_settle_part(scan, text, start);
	}
	return r;
}

static void put_sites(struct text *text, const struct usdt_file *file)
{
	const struct notes *notes = &file->object->notes;

	for (size_t i = 0; i < notes->site_count && text->len <= USDT_TEXT_MAX; i++)
		put_site(text, file, &notes->sites[i]);
}

static void put_probes(struct text *text, const struct usdt_file *file)
{
	const struct notes *notes = &file->object->notes;

	for (size_t i = 0; i < notes->probe_count && text->len <= USDT_TEXT_MAX; i++) {
		const struct note_probe *probe = &notes->probes[i];

		if (!probe->valid)
			continue;
		text_printf(text, "usdt:%s:", file->path);
		put_probe_name(text, notes_string(notes, probe->provider),
			       notes_string(notes, probe->name));
		text_putc(text, '\n');
	}
}

static void put_object(struct text *text, const struct usdt_file *file)
{
	const struct notes *notes = &file->object->notes;
	const struct mapping *mapping = file->place.mapping;

	text_printf(text, "%s kind=%s build_id=", file->path, kind_name(file->kind));
	if (notes->build_id_len)
		text_hexdump(text, notes->build_id, notes->build_id_len);
	else
		text_putc(text, '-');
	text_printf(text, " sites=%zu dev=%u:%u inode=%" PRIu64 " mapped=", notes->site_count,
		    major(file->state.dev), minor(file->state.dev), (uint64_t)file->state.ino);
	text_escape(text, mapping->path, mapping->path_len);
	text_putc(text, '\n');
}

int usdt_scan_notes(const struct usdt_scan *scan, struct text *text)
{
	return put_parts(scan, put_sites, text);
}

int usdt_scan_probes(const struct usdt_scan *scan, struct text *text)
{
	return put_parts(scan, put_probes, text);
}

int usdt_scan_objects(const struct usdt_scan *scan, struct text *text)
{
	return put_parts(scan, put_object, text);
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
		size_t start = text->len;

		if (!notes)
			continue;
		text_puts(text, "build_id: ");
		text_hexdump(text, notes->build_id, notes->build_id_len);
		text_putc(text, ' ');
		text_escape(text, mapping->path, mapping->path_len);
		text_putc(text, '\n');
		int r = usdt_settle_part(scan, text, start);

		if (r < 0)
			return r;
	}
	return 0;
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

	for (int i = 1;
	     text->len <= USDT_TEXT_MAX && usdt_args_next(notes->machine, args, len, &pos, &arg);
	     i++) {
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

/* Words of one probe, and mappings that they are looked for in. */
#define WORDS_MAX    (1u << 20)
#define WRITABLE_MAX 1024

/* The words that the semaphores of a probe's sites are, in the order of the sites. */
struct words {
	const struct mapping *writable[WRITABLE_MAX];
	size_t writable_count;
	uint64_t *addrs;
	uint16_t *values;
	bool *known;
	size_t count, size;
};

static void words_deinit(struct words *words)
{
	free(words->addrs);
	free(words->values);
	free(words->known);
}
#define _cleanup_words_ CLEANUP(words_deinit)

static void find_writable(const struct usdt_scan *scan, const struct usdt_file *file,
			  struct words *words)
{
	const struct maps *maps = &scan->processes[file->place.process].maps;

	for (size_t i = 0; i < maps->count && words->writable_count < WRITABLE_MAX; i++) {
		const struct mapping *mapping = &maps->mappings[i];

		if (mapping->write && !mapping->shared &&
		    mapping->dev == file->place.mapping->dev &&
		    mapping->inode == file->place.mapping->inode)
			words->writable[words->writable_count++] = mapping;
	}
}

static size_t find_words(const struct words *words, const struct note_site *site,
			 uint64_t ret[static SEMAPHORES_MAX])
{
	size_t count = 0;

	if (!site->has_semaphore_offset || !site->semaphore)
		return 0;
	for (size_t i = 0; i < words->writable_count && count < SEMAPHORES_MAX; i++)
		if (mapping_address(words->writable[i], site->semaphore_offset, &ret[count]))
			count++;
	return count;
}

static int add_word(struct words *words, uint64_t addr)
{
	if (words->count == words->size) {
		size_t size = words->size ? words->size * 2 : SEMAPHORES_MAX;
		uint64_t *addrs = reallocarray(words->addrs, size, sizeof(*addrs));

		if (!addrs)
			return -ENOMEM;
		words->addrs = addrs;
		words->size = size;
	}
	words->addrs[words->count++] = addr;
	return 0;
}

/* All words of a probe are read at once, for a reading has its price. */
static int read_words(struct usdt_scan *scan, const struct usdt_file *file,
		      const struct note_probe *probe, struct words *words)
{
	const struct notes *notes = &file->object->notes;
	uint64_t addrs[SEMAPHORES_MAX];

	find_writable(scan, file, words);
	for (uint32_t i = 0; i < probe->count; i++) {
		size_t count =
			find_words(words, &notes->sites[notes->by_probe[probe->first + i]], addrs);

		for (size_t j = 0; j < count && words->count < WORDS_MAX; j++) {
			int r = add_word(words, addrs[j]);

			if (r < 0)
				return r;
		}
	}
	words->values = calloc(MAX(words->count, (size_t)1), sizeof(*words->values));
	words->known = calloc(MAX(words->count, (size_t)1), sizeof(*words->known));
	if (!words->values || !words->known)
		return -ENOMEM;
	if (!words->count)
		return 0;
	return usdt_read_memory(scan, file->place.process, words->addrs, words->count,
				words->values, words->known);
}

/* Those of a site, the next ones from *next on. */
static void put_semaphores(struct text *text, const struct words *words,
			   const struct note_site *site, size_t *next)
{
	uint64_t addrs[SEMAPHORES_MAX];
	size_t count = find_words(words, site, addrs);
	bool any = false;

	for (size_t i = 0; i < count && *next < words->count; i++, (*next)++) {
		if (!words->known[*next])
			continue;
		text_printf(text, "semaphore_value: %u\n", words->values[*next]);
		any = true;
	}
	if (!any && site->has_semaphore_offset && site->semaphore)
		text_puts(text, "semaphore_value: -\n");
}

static int put_probe(struct text *text, struct usdt_scan *scan, const struct usdt_file *file,
		     const struct note_probe *probe)
{
	const struct notes *notes = &file->object->notes;
	_cleanup_words_ struct words words = {};
	size_t next = 0;
	int r = read_words(scan, file, probe, &words);

	for (uint32_t i = 0; i < probe->count && r == 0 && text->len <= USDT_TEXT_MAX; i++) {
		const struct note_site *site = &notes->sites[notes->by_probe[probe->first + i]];

		put_site(text, file, site);
		put_site_args(text, notes, site);
		put_semaphores(text, &words, site, &next);
	}
	return r;
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
		size_t start = text->len;
		int r = put_probe(text, scan, file, probe);

		if (r == 0)
			r = usdt_settle_part(scan, text, start);
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
