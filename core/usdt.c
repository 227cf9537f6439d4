/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scans: from processes to files with notes.
 *
 * In steps of an offload's job, for whatever is read of another process can hang. First the maps of
 * each process, a step each. Then, in one step, their mappings are put together by device, inode
 * and path, over all processes, so that a library that all of them map is one file. Then each file,
 * a step each: open, ask the cache for its notes, and find out how to name it.
 *
 * The path is part of what tells files apart because device and inode in maps are not always
 * enough: subvolumes of btrfs share a device there and have inode numbers of their own. What stat()
 * says then is the last word, and puts together again what is the same file under two paths.
 */
#include "core/usdt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <xxhash.h>

#include "core/metric.h"
#include "core/offload.h"
#include "core/usdt_scan.h"

struct usdt {
	struct objcache *cache;
	struct offload *offload;
	dev_t shmem_dev; /* where memfds are */
};

int usdt_create(struct usdt **ret)
{
	CLEANUP(usdt_cleanup) struct usdt *usdt = calloc(1, sizeof(*usdt));
	struct stat st;

	if (!usdt)
		return -ENOMEM;
	_cleanup_fd_ int memfd = memfd_create("ksymfs", MFD_CLOEXEC);

	if (memfd < 0 || fstat(memfd, &st) < 0)
		return -errno;
	usdt->shmem_dev = st.st_dev;
	int r = objcache_create(OBJCACHE_BYTES, &usdt->cache);

	if (r < 0)
		return r;
	r = offload_create(OFFLOAD_PATIENCE_NS, &usdt->offload);
	if (r < 0)
		return r;
	*ret = take_ptr(usdt);
	return 0;
}

void usdt_destroy(struct usdt *usdt)
{
	if (!usdt)
		return;
	offload_destroy(usdt->offload);
	objcache_destroy(usdt->cache);
	free(usdt);
}

struct usdt_figures {
	struct objcache_stats cache;
	unsigned int hung;
	uint64_t given_up;
};

static void get_figures(struct usdt *usdt, struct usdt_figures *ret)
{
	objcache_stats(usdt->cache, &ret->cache);
	offload_counts(usdt->offload, &ret->hung, &ret->given_up);
}

void usdt_status(struct usdt *usdt, struct text *text)
{
	struct usdt_figures figures;

	get_figures(usdt, &figures);
	text_printf(text, "usdt_objects: %zu\n", figures.cache.objects);
	text_printf(text, "usdt_object_bytes: %zu\n", figures.cache.bytes);
	text_printf(text, "usdt_object_reads: %" PRIu64 "\n", figures.cache.reads);
	text_printf(text, "usdt_objects_too_large: %" PRIu64 "\n", figures.cache.too_large);
	text_printf(text, "usdt_not_answering: %u\n", figures.hung);
	text_printf(text, "usdt_given_up: %" PRIu64 "\n", figures.given_up);
}

void usdt_metrics(struct usdt *usdt, struct text *text)
{
	struct usdt_figures figures;

	get_figures(usdt, &figures);
	metric_write(text, "usdt_objects", "ELF objects that are remembered.",
		     figures.cache.objects);
	metric_write(text, "usdt_object_bytes", "Bytes of what is remembered of them.",
		     figures.cache.bytes);
	metric_write(text, "usdt_object_reads_total", "ELF objects read.", figures.cache.reads);
	metric_write(text, "usdt_objects_too_large_total", "ELF objects past a bound.",
		     figures.cache.too_large);
	metric_write(text, "usdt_not_answering", "Reads that a file system does not answer.",
		     figures.hung);
	metric_write(text, "usdt_given_up_total", "Reads that nobody waits for any more.",
		     figures.given_up);
}

/* A living process as a source. */
struct living {
	int proc_fd;
	pid_t tid;
	int dir; /* on /proc/TID; -1 unless it is kept */
};

/* Opens a file of the process, or its directory for the name ".". */
static int living_openat(const struct living *living, const char *name, int flags)
{
	char path[64];
	int fd;

	if (living->dir >= 0) {
		fd = openat(living->dir, name, flags | O_CLOEXEC);
	} else {
		snprintf(path, sizeof(path), "%d/%s", living->tid, name);
		fd = openat(living->proc_fd, path, flags | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

static int living_maps(void *data, struct text *text)
{
	_cleanup_fd_ int fd = living_openat(data, "maps", O_RDONLY);

	return fd < 0 ? fd : maps_read_fd(fd, text);
}

static int living_open(void *data, const struct mapping *mapping, dev_t own_dev,
		       struct mapped_file *ret)
{
	const struct living *living = data;

	if (living->dir >= 0)
		return mapped_file_open(living->dir, mapping, own_dev, ret);
	_cleanup_fd_ int dir = living_openat(living, ".", O_PATH | O_DIRECTORY);

	return dir < 0 ? dir : mapped_file_open(dir, mapping, own_dev, ret);
}

static int living_stat(void *data, const struct mapping *mapping, dev_t own_dev,
		       struct mapped_file *ret)
{
	const struct living *living = data;

	if (living->dir >= 0)
		return mapped_file_stat(living->dir, mapping, own_dev, ret);
	_cleanup_fd_ int dir = living_openat(living, ".", O_PATH | O_DIRECTORY);

	return dir < 0 ? dir : mapped_file_stat(dir, mapping, own_dev, ret);
}

static int living_open_memory(void *data)
{
	return living_openat(data, "mem", O_RDONLY);
}

static void living_release(void *data)
{
	struct living *living = data;

	if (living->dir >= 0)
		close(living->dir);
	free(living);
}

int usdt_process_source(int proc_fd, pid_t pid, bool keep, struct usdt_source *ret)
{
	static const struct usdt_source_ops ops = {
		.maps = living_maps,
		.open = living_open,
		.stat = living_stat,
		.open_memory = living_open_memory,
		.release = living_release,
	};
	_cleanup_process_ struct process process = PROCESS_NONE;
	int r = keep ? process_open(proc_fd, pid, &process)
		     : process_find(proc_fd, pid, &process.tid);

	if (r < 0)
		return r;
	struct living *living = malloc(sizeof(*living));

	if (!living)
		return -ENOMEM;
	*living = (struct living){proc_fd, process.tid, take_fd(&process.dir)};
	*ret = (struct usdt_source){.ops = &ops, .data = living, .key = pid};
	snprintf(ret->map_files, sizeof(ret->map_files), "/proc/%d/map_files/", living->tid);
	return 0;
}

static void unref_scan(void *arg)
{
	struct usdt_scan *scan = arg;

	if (atomic_fetch_sub(&scan->refs, 1) != 1)
		return;
	for (size_t i = 0; i < scan->file_count; i++) {
		object_unref(scan->files[i].object);
		free(scan->files[i].path);
	}
	for (size_t i = 0; i < scan->process_count; i++) {
		struct usdt_process *process = &scan->processes[i];

		process->source.ops->release(process->source.data);
		maps_deinit(&process->maps);
		text_deinit(&process->text);
	}
	free(scan->files);
	free(scan->processes);
	objcache_destroy(scan->cache);
	free(scan);
}

void usdt_scan_destroy(struct usdt_scan *scan)
{
	if (scan)
		unref_scan(scan);
}

/* False: it is too much, and is to be let go of. */
static bool take_memory(struct usdt_scan *scan, size_t bytes)
{
	if (atomic_fetch_add(&scan->bytes, bytes) + bytes <= SCAN_BYTES_MAX)
		return true;
	atomic_fetch_sub(&scan->bytes, bytes);
	objcache_left_out(scan->cache);
	return false;
}

static void read_maps(struct usdt_scan *scan, struct usdt_process *process)
{
	if (process->source.ops->maps(process->source.data, &process->text) < 0 ||
	    process->text.failed ||
	    maps_parse(process->text.data, process->text.len, &process->maps) < 0)
		return;
	if (!take_memory(scan, process->text.len +
				       process->maps.count * sizeof(*process->maps.mappings))) {
		maps_deinit(&process->maps);
		text_deinit(&process->text);
	}
}

static bool ends_deleted(const struct mapping *mapping)
{
	static const char suffix[] = " (deleted)";
	size_t len = sizeof(suffix) - 1;

	return mapping->path_len >= len &&
	       memcmp(mapping->path + mapping->path_len - len, suffix, len) == 0;
}

/*
 * A file may have other names than the one that was deleted, and the name of one that was not can
 * end in ` (deleted)`.
 */
static enum usdt_kind find_kind(const struct usdt_scan *scan, const struct mapping *mapping,
				const struct mapped_file *file)
{
	static const char memfd[] = "/memfd:";

	if (file->state.dev == scan->shmem_dev && mapping->path_len > sizeof(memfd) - 1 &&
	    memcmp(mapping->path, memfd, sizeof(memfd) - 1) == 0)
		return USDT_MEMFD;
	if (file->nlink == 0)
		return USDT_DELETED;
	if (ends_deleted(mapping) && !path_is_file(mapping->path, mapping->path_len, &file->state))
		return USDT_DELETED;
	return USDT_FILE;
}

/* A path that every tracer and shell takes as it is. */
static bool is_plain(const struct mapping *mapping)
{
	for (size_t i = 0; i < mapping->path_len; i++) {
		char c = mapping->path[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !strchr("._/+,=@-", c))
			return false;
	}
	return mapping->path_len > 0 && mapping->path[0] == '/';
}

static char *make_path(const struct usdt_scan *scan, const struct usdt_file *file)
{
	const struct mapping *mapping = file->place.mapping;
	char name[MAP_FILES_NAME_SIZE];
	char *path;

	if (file->kind == USDT_FILE && is_plain(mapping) &&
	    path_is_file(mapping->path, mapping->path_len, &file->state))
		return strndup(mapping->path, mapping->path_len);
	mapping_name(mapping, name);
	if (asprintf(&path, "%s%s", scan->processes[file->place.process].source.map_files, name) <
	    0)
		return NULL;
	return path;
}

static int open_place(struct usdt_scan *scan, struct usdt_file *file,
		      const struct usdt_place *place)
{
	const struct usdt_source *source = &scan->processes[place->process].source;
	_cleanup_mapped_file_ struct mapped_file mapped = MAPPED_FILE_NONE;

	if (source->ops->stat &&
	    source->ops->stat(source->data, place->mapping, scan->own_dev, &mapped) == 0)
		file->object = objcache_find(scan->cache, &mapped.state);
	if (!file->object) {
		int r = source->ops->open(source->data, place->mapping, scan->own_dev, &mapped);

		if (r < 0)
			return r;
		r = objcache_get(scan->cache, &mapped, &file->object);
		if (r < 0)
			return r;
	}
	if (!file->object->notes.site_count)
		return 0;
	if (!take_memory(scan, notes_bytes(&file->object->notes))) {
		object_unref(take_ptr(file->object));
		return 0;
	}
	file->state = mapped.state;
	file->place = *place;
	file->kind = find_kind(scan, place->mapping, &mapped);
	file->path = make_path(scan, file);
	return file->path ? 0 : -ENOMEM;
}

static void open_file(struct usdt_scan *scan, struct usdt_file *file)
{
	for (unsigned int i = 0; i < file->place_count; i++)
		if (open_place(scan, file, &file->places[i]) == 0)
			return;
}

static bool same_mapped(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev == b->dev && a->path_len == b->path_len &&
	       memcmp(a->path, b->path, a->path_len) == 0;
}

static int add_file(struct usdt_scan *scan, size_t process, const struct mapping *mapping)
{
	if (scan->file_count == scan->file_size) {
		size_t size = scan->file_size ? scan->file_size * 2 : 64;
		void *files = reallocarray(scan->files, size, sizeof(*scan->files));

		if (!files)
			return -ENOMEM;
		scan->files = files;
		scan->file_size = size;
	}
	scan->files[scan->file_count++] =
		(struct usdt_file){.places = {{process, mapping}}, .place_count = 1};
	return 0;
}

/* Files found so far, by what maps says of them. */
struct file_table {
	uint32_t *slots; /* index into files, plus one; 0: free */
	size_t count;
};

static uint32_t *file_slot(const struct usdt_scan *scan, const struct file_table *table,
			   const struct mapping *mapping)
{
	size_t at = XXH3_64bits_withSeed(mapping->path, mapping->path_len,
					 mapping->inode ^ mapping->dev << 32);

	for (;; at++) {
		uint32_t *slot = &table->slots[at & (table->count - 1)];

		if (!*slot || same_mapped(scan->files[*slot - 1].places[0].mapping, mapping))
			return slot;
	}
}

static int grow_file_table(const struct usdt_scan *scan, struct file_table *table)
{
	size_t count = table->count ? table->count * 2 : 256;
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(table->slots);
	*table = (struct file_table){slots, count};
	for (size_t i = 0; i < scan->file_count; i++)
		*file_slot(scan, table, scan->files[i].places[0].mapping) = i + 1;
	return 0;
}

static int find_files_of(struct usdt_scan *scan, size_t process, struct file_table *table)
{
	const struct maps *maps = &scan->processes[process].maps;

	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->mappings[i];

		/* The segments of an object follow each other. */
		if (!mapping->inode || (i && same_mapped(mapping, mapping - 1)))
			continue;
		if (scan->file_count * 2 >= table->count) {
			int r = grow_file_table(scan, table);

			if (r < 0)
				return r;
		}
		uint32_t *slot = file_slot(scan, table, mapping);

		if (!*slot) {
			int r = add_file(scan, process, mapping);

			if (r < 0)
				return r;
			*slot = scan->file_count;
			continue;
		}
		struct usdt_file *file = &scan->files[*slot - 1];

		if (file->place_count < USDT_PLACES &&
		    file->places[file->place_count - 1].process != process)
			file->places[file->place_count++] = (struct usdt_place){process, mapping};
	}
	return 0;
}

static void find_files(struct usdt_scan *scan)
{
	struct file_table table = {};

	for (size_t i = 0; i < scan->process_count && scan->error >= 0; i++)
		if (scan->processes[i].ready)
			scan->error = find_files_of(scan, i, &table);
	free(table.slots);
}

/* The steps: a process each, then find_files(), then a file each. */
static size_t count_steps(void *arg)
{
	struct usdt_scan *scan = arg;

	return scan->process_count + 1 + (scan->files_found ? scan->file_count : 0);
}

static void step(void *arg, size_t index)
{
	struct usdt_scan *scan = arg;
	size_t count = scan->process_count;

	if (index < count)
		read_maps(scan, &scan->processes[index]);
	else if (index == count)
		find_files(scan);
	else
		open_file(scan, &scan->files[index - count - 1]);
}

static void step_done(void *arg, size_t index)
{
	struct usdt_scan *scan = arg;
	size_t count = scan->process_count;

	if (index < count) {
		scan->processes[index].ready = scan->processes[index].maps.count > 0;
	} else if (index == count) {
		scan->files_found = true;
	} else {
		struct usdt_file *file = &scan->files[index - count - 1];

		file->opened = true;
		file->ready = file->path != NULL;
	}
}

/* Processes, devices and what cannot hang are not to be taken for each other. */
static uint64_t process_key(const struct usdt_scan *scan, size_t index)
{
	return scan->processes[index].source.key | UINT64_C(1) << 63;
}

static uint64_t step_key(void *arg, size_t index)
{
	struct usdt_scan *scan = arg;
	size_t count = scan->process_count;

	if (index < count)
		return process_key(scan, index);
	if (index == count)
		return UINT64_MAX;
	return scan->files[index - count - 1].places[0].mapping->dev & ~(UINT64_C(1) << 63);
}

static int compare_files(const void *a, const void *b)
{
	const struct usdt_file *x = *(struct usdt_file *const *)a;
	const struct usdt_file *y = *(struct usdt_file *const *)b;

	if (x->state.dev != y->state.dev)
		return x->state.dev < y->state.dev ? -1 : 1;
	if (x->state.ino != y->state.ino)
		return x->state.ino < y->state.ino ? -1 : 1;
	return (x > y) - (x < y);
}

/* Of files that turned out to be one, the first stays. */
static int drop_doubles(struct usdt_scan *scan)
{
	_cleanup_free_ struct usdt_file **ready =
		calloc(MAX(scan->file_count, (size_t)1), sizeof(*ready));
	size_t count = 0;

	if (!ready)
		return -ENOMEM;
	for (size_t i = 0; i < scan->file_count; i++)
		if (scan->files[i].ready)
			ready[count++] = &scan->files[i];
	qsort(ready, count, sizeof(*ready), compare_files);
	for (size_t i = 1; i < count; i++)
		if (ready[i]->state.dev == ready[i - 1]->state.dev &&
		    ready[i]->state.ino == ready[i - 1]->state.ino)
			ready[i]->ready = false;
	return 0;
}

/* Takes the sources over. */
static int create_scan(struct usdt *usdt, dev_t own_dev, const struct usdt_source *sources,
		       size_t count, struct usdt_scan **ret)
{
	struct usdt_scan *scan = calloc(1, sizeof(*scan));
	struct usdt_process *processes = calloc(MAX(count, (size_t)1), sizeof(*processes));

	if (!scan || !processes) {
		for (size_t i = 0; i < count; i++)
			sources[i].ops->release(sources[i].data);
		free(scan);
		free(processes);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		processes[i].source = sources[i];
	atomic_init(&scan->refs, 1);
	scan->cache = objcache_ref(usdt->cache);
	scan->offload = usdt->offload;
	scan->own_dev = own_dev;
	scan->shmem_dev = usdt->shmem_dev;
	scan->processes = processes;
	scan->process_count = count;
	*ret = scan;
	return 0;
}

int usdt_scan_create(struct usdt *usdt, dev_t own_dev, const struct usdt_source *sources,
		     size_t count, struct usdt_scan **ret)
{
	static const struct offload_work work = {
		.count = count_steps,
		.step = step,
		.done = step_done,
		.key = step_key,
		.release = unref_scan,
	};
	CLEANUP(offload_job_cleanup) struct offload_job *job = NULL;
	_cleanup_usdt_scan_ struct usdt_scan *scan = NULL;
	int r = create_scan(usdt, own_dev, sources, count, &scan);

	if (r < 0)
		return r;
	atomic_fetch_add(&scan->refs, 1);
	r = offload_run(scan->offload, &work, scan, &job);
	if (r < 0)
		return r;
	if (count == 1 && !scan->processes[0].ready)
		return -ESRCH;
	/* A step that took too long for no reason that it could have: the machine is beyond use. */
	if (!scan->files_found)
		return -EAGAIN;
	r = scan->error < 0 ? scan->error : drop_doubles(scan);
	if (r < 0)
		return r;
	*ret = take_ptr(scan);
	return 0;
}

/* Words of memory that a thread reads for who asked. */
struct memory_read {
	struct usdt_scan *scan;
	size_t process, count;
	uint64_t *addrs;
	uint16_t *values;
	bool *known;
	bool done;
};

static void memory_done(void *arg, size_t index)
{
	struct memory_read *read = arg;

	read->done = true;
}

static void memory_step(void *arg, size_t index)
{
	struct memory_read *read = arg;
	const struct usdt_source *source = &read->scan->processes[read->process].source;

	if (!source->ops->open_memory)
		return;
	_cleanup_fd_ int fd = source->ops->open_memory(source->data);

	for (size_t i = 0; i < read->count && fd >= 0; i++) {
		/* Sites of a probe share their semaphore. */
		if (i && read->addrs[i] == read->addrs[i - 1]) {
			read->values[i] = read->values[i - 1];
			read->known[i] = read->known[i - 1];
			continue;
		}
		read->known[i] = read->addrs[i] <= INT64_MAX &&
				 pread(fd, &read->values[i], sizeof(read->values[i]),
				       read->addrs[i]) == sizeof(read->values[i]);
	}
}

static uint64_t memory_key(void *arg, size_t index)
{
	struct memory_read *read = arg;

	return process_key(read->scan, read->process);
}

static void memory_release(void *arg)
{
	struct memory_read *read = arg;

	unref_scan(read->scan);
	free(read->addrs);
	free(read->values);
	free(read->known);
	free(read);
}

int usdt_read_memory(struct usdt_scan *scan, size_t process, const uint64_t *addrs, size_t count,
		     uint16_t *values, bool *known)
{
	static const struct offload_work work = {
		.step = memory_step,
		.done = memory_done,
		.key = memory_key,
		.release = memory_release,
	};
	CLEANUP(offload_job_cleanup) struct offload_job *job = NULL;
	struct memory_read *read = calloc(1, sizeof(*read));

	if (!read)
		return -ENOMEM;
	atomic_fetch_add(&scan->refs, 1);
	*read = (struct memory_read){.scan = scan,
				     .process = process,
				     .count = count,
				     .addrs = calloc(count, sizeof(*addrs)),
				     .values = calloc(count, sizeof(*values)),
				     .known = calloc(count, sizeof(*known))};
	if (!read->addrs || !read->values || !read->known) {
		memory_release(read);
		return -ENOMEM;
	}
	memcpy(read->addrs, addrs, count * sizeof(*addrs));
	memset(known, 0, count * sizeof(*known));
	int r = offload_run(scan->offload, &work, read, &job);

	if (r < 0)
		return r;
	if (read->done) {
		memcpy(values, read->values, count * sizeof(*values));
		memcpy(known, read->known, count * sizeof(*known));
	}
	return 0;
}
