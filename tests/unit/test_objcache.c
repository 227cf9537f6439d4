/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/objcache.h"
#include "elfmaker.h"

/* Makes a file old enough for what is read from it to be kept. */
static void age(int fd)
{
	struct timespec past = {1000000000, 0};
	struct timespec times[2] = {past, past};

	assert_int_equal(futimens(fd, times), 0);
	/* No call sets ctime. */
	usleep(200000);
}

static int make_object(int count, const char *name)
{
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text notes = {}, file = {};
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert_true(fd >= 0);
	for (int i = 0; i < count; i++)
		elf_note(&notes, &plan, 0x12000 + i, 0, 0, "p", "n", "4@%eax");
	elf_make(&file, &plan, &notes);
	assert_int_equal(write(fd, file.data, file.len), file.len);
	return fd;
}

static struct object *get(struct objcache *cache, int fd)
{
	struct mapped_file file;
	struct object *object;

	assert_int_equal(mapped_file_from_fd(dup(fd), 0, &file), 0);
	assert_int_equal(objcache_get(cache, &file, &object), 0);
	mapped_file_close(&file);
	return object;
}

static struct objcache_stats stats(struct objcache *cache)
{
	struct objcache_stats stats;

	objcache_stats(cache, &stats);
	return stats;
}

static void test_read_once(void **state)
{
	struct objcache *cache;
	_cleanup_fd_ int fd = make_object(3, "once");
	_cleanup_fd_ int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int text = memfd_create("text", MFD_CLOEXEC);

	assert_int_equal(write(text, "hello", 5), 5);
	age(fd);
	age(text);
	assert_int_equal(objcache_create(OBJCACHE_BYTES, &cache), 0);
	struct object *a = get(cache, fd), *b = get(cache, fd);

	assert_ptr_equal(a, b);
	assert_int_equal(a->notes.site_count, 3);
	/* What has no notes is remembered too. */
	object_unref(get(cache, other));
	object_unref(get(cache, other));
	struct object *none = get(cache, text);

	assert_int_equal(none->error, -ENOEXEC);
	assert_int_equal(none->notes.site_count, 0);
	object_unref(none);
	object_unref(get(cache, text));
	assert_int_equal(stats(cache).reads, 3);
	assert_int_equal(stats(cache).hits, 3);
	assert_int_equal(stats(cache).objects, 3);
	/* What somebody holds outlives the cache. */
	objcache_destroy(cache);
	assert_string_equal(notes_string(&a->notes, a->notes.sites[0].args), "4@%eax");
	object_unref(a);
	object_unref(b);
}

/* Each part of the state of a file counts, and what is of the past goes. */
static void test_changes(void **state)
{
	struct objcache *cache;
	_cleanup_fd_ int fd = make_object(3, "changes"), more = make_object(5, "more");
	char bytes[16384];

	age(fd);
	assert_int_equal(objcache_create(OBJCACHE_BYTES, &cache), 0);
	object_unref(get(cache, fd));
	ssize_t len = pread(more, bytes, sizeof(bytes), 0);

	assert_true(len > 0 && len < (ssize_t)sizeof(bytes));
	assert_int_equal(pwrite(fd, bytes, len, 0), len);
	age(fd);
	struct object *object = get(cache, fd);

	assert_int_equal(object->notes.site_count, 5);
	object_unref(object);
	assert_int_equal(stats(cache).reads, 2);
	assert_int_equal(stats(cache).objects, 1);
	/* ctime alone. */
	assert_int_equal(fchmod(fd, 0600), 0);
	usleep(200000);
	object_unref(get(cache, fd));
	assert_int_equal(stats(cache).reads, 3);
	assert_int_equal(stats(cache).objects, 1);
	objcache_destroy(cache);
}

/* The clock that mtime and ctime are from is coarse: what has just changed is read again. */
static void test_fresh_file(void **state)
{
	struct objcache *cache;
	_cleanup_fd_ int fd = make_object(3, "fresh");

	assert_int_equal(objcache_create(OBJCACHE_BYTES, &cache), 0);
	assert_int_equal(fchmod(fd, 0600), 0);
	object_unref(get(cache, fd));
	assert_int_equal(stats(cache).objects, 0);
	assert_int_equal(fchmod(fd, 0600), 0);
	object_unref(get(cache, fd));
	assert_int_equal(stats(cache).reads, 2);
	usleep(200000);
	object_unref(get(cache, fd));
	object_unref(get(cache, fd));
	assert_int_equal(stats(cache).reads, 3);
	assert_int_equal(stats(cache).hits, 1);
	objcache_destroy(cache);
}

static void test_bounds(void **state)
{
	struct objcache *cache;
	int fds[20];

	assert_int_equal(objcache_create(4096, &cache), 0);
	for (int i = 0; i < 20; i++)
		fds[i] = make_object(4, "bounds");
	age(fds[19]);
	struct object *first = get(cache, fds[0]);

	for (int i = 1; i < 20; i++)
		object_unref(get(cache, fds[i]));
	assert_true(stats(cache).bytes <= 4096);
	assert_true(stats(cache).objects > 2 && stats(cache).objects < 19);
	/* The last ones are there, the first one is not, but for who holds it. */
	object_unref(get(cache, fds[19]));
	object_unref(get(cache, fds[18]));
	assert_int_equal(stats(cache).reads, 20);
	assert_int_equal(first->notes.site_count, 4);
	object_unref(get(cache, fds[0]));
	assert_int_equal(stats(cache).reads, 21);
	object_unref(first);
	/* One that is used is not the next to go. */
	for (int i = 1; i < 17; i++) {
		object_unref(get(cache, fds[i]));
		object_unref(get(cache, fds[19]));
	}
	assert_int_equal(stats(cache).reads, 21 + 16);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	objcache_destroy(cache);
}

struct reader {
	struct objcache *cache;
	int fd;
	atomic_int wrong;
};

static void *read_all(void *arg)
{
	struct reader *reader = arg;

	for (int i = 0; i < 100; i++) {
		struct object *object = get(reader->cache, reader->fd);

		if (object->notes.site_count != 1000)
			atomic_fetch_add(&reader->wrong, 1);
		object_unref(object);
	}
	return NULL;
}

/* Those who ask at once wait for one reading. */
static void test_concurrent(void **state)
{
	struct objcache *cache;
	_cleanup_fd_ int fd = make_object(0, "concurrent");
	struct elf_plan plan = elf_plan_default();
	_cleanup_text_ struct text notes = {}, file = {};
	pthread_t threads[8];

	plan.text_size = 0x1000;
	plan.data_offset = 0x3000;
	for (int i = 0; i < 1000; i++)
		elf_note(&notes, &plan, 0x12000 + i, 0, 0, "p", "n", "4@%eax");
	elf_make(&file, &plan, &notes);
	assert_int_equal(pwrite(fd, file.data, file.len, 0), file.len);
	age(fd);
	assert_int_equal(objcache_create(OBJCACHE_BYTES, &cache), 0);
	struct reader reader = {cache, fd, 0};

	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_all, &reader), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&reader.wrong), 0);
	assert_int_equal(stats(cache).reads, 1);
	assert_int_equal(stats(cache).hits, 799);
	objcache_destroy(cache);
}

static void test_too_large(void **state)
{
	struct objcache *cache;
	_cleanup_fd_ int fd = make_object(1, "large");
	uint16_t none = 0;

	/* With e_shnum 0 the count is the size of section 0, which reads as notes here. */
	assert_int_equal(pwrite(fd, &none, 2, 60), 2);
	uint64_t at = 0x1000;

	assert_int_equal(pwrite(fd, &at, 8, 40), 8);
	age(fd);
	assert_int_equal(objcache_create(OBJCACHE_BYTES, &cache), 0);
	struct object *object = get(cache, fd);

	assert_int_equal(object->error, -EFBIG);
	assert_int_equal(stats(cache).too_large, 1);
	object_unref(object);
	objcache_destroy(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_once),  cmocka_unit_test(test_changes),
		cmocka_unit_test(test_fresh_file), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_concurrent), cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
