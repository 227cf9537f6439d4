/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "core/maps.h"

static struct maps parse(const char *text)
{
	struct maps maps;

	assert_int_equal(maps_parse(text, strlen(text), &maps), 0);
	return maps;
}

static void assert_path(const struct mapping *mapping, const char *path)
{
	assert_int_equal(mapping->path_len, strlen(path));
	assert_memory_equal(mapping->path, path, mapping->path_len);
}

static void test_fields(void **state)
{
	struct maps maps = parse(
		"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon\n"
		"7f0000000000-7f0000001000 rw-s ffffffff000 103:fffff 18446744073709551615 /x\n"
		"7f0000001000-7f0000002000 ---p 00000000 00:00 0 \n"
		"7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                          "
		"[stack]\n");
	const struct mapping *m = maps.mappings;

	assert_int_equal(maps.count, 4);
	assert_int_equal(m[0].start, 0x400000);
	assert_int_equal(m[0].end, 0x452000);
	assert_int_equal(m[0].offset, 0x1000);
	assert_int_equal(m[0].dev, makedev(8, 2));
	assert_int_equal(m[0].inode, 173521);
	assert_true(m[0].read && !m[0].write && m[0].exec && !m[0].shared);
	assert_path(&m[0], "/usr/bin/dbus-daemon");
	assert_int_equal(m[1].offset, 0xffffffff000);
	assert_int_equal(m[1].dev, makedev(0x103, 0xfffff));
	assert_true(m[1].inode == UINT64_MAX);
	assert_true(m[1].read && m[1].write && !m[1].exec && m[1].shared);
	assert_path(&m[1], "/x");
	assert_false(m[2].read || m[2].write || m[2].exec || m[2].shared);
	assert_path(&m[2], "");
	assert_path(&m[3], "[stack]");
	maps_deinit(&maps);
}

/* A path is the rest of the line, whatever is in it. */
static void test_paths(void **state)
{
	struct maps maps = parse("1000-2000 r--p 00000000 08:02 1    /a b  c (deleted)\n"
				 "2000-3000 r--p 00000000 08:02 2    /a\\012b\\040\xff \n"
				 "3000-4000 r--p 00000000 00:01 3    /memfd:x y (deleted)\n");

	assert_path(&maps.mappings[0], "/a b  c (deleted)");
	assert_path(&maps.mappings[1], "/a\\012b\\040\xff ");
	assert_path(&maps.mappings[2], "/memfd:x y (deleted)");
	maps_deinit(&maps);
}

static void test_long_path(void **state)
{
	_cleanup_text_ struct text text = {};
	struct maps maps;

	text_puts(&text, "1000-2000 r--p 00000000 08:02 1 /");
	for (int i = 0; i < 10000; i++)
		text_putc(&text, 'x');
	text_putc(&text, '\n');
	assert_int_equal(maps_parse(text.data, text.len, &maps), 0);
	assert_int_equal(maps.count, 1);
	assert_int_equal(maps.mappings[0].path_len, 10001);
	maps_deinit(&maps);
}

static void test_empty(void **state)
{
	struct maps maps = parse("");

	assert_int_equal(maps.count, 0);
	assert_null(maps_find(&maps, 0x1000));
	maps_deinit(&maps);
}

/* Each is one edit away from a good line; none may be taken for something else. */
static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"\n",
		"1000-2000 r--p 00000000 08:02 1 /x", /* no newline: cut short */
		"1000-2000\n",
		"2000-1000 r--p 00000000 08:02 1 /x\n",
		"1000-1000 r--p 00000000 08:02 1 /x\n",
		"-2000 r--p 00000000 08:02 1 /x\n",
		"1000-2000 r--q 00000000 08:02 1 /x\n",
		"1000-2000 rx-p 00000000 08:02 1 /x\n",
		"1000-2000 r--p\n",
		"1000-2000 r-\n",
		"1000-2000 r--p 0000000g 08:02 1 /x\n",
		"1000-2000 r--p 00000000 0802 1 /x\n",
		"1000-2000 r--p 00000000 08:02 1a /x\n",
		"1000-2000 r--p 00000000 08:02 18446744073709551616 /x\n",
		"1000-10000000000000000 r--p 00000000 08:02 1 /x\n",
		"1000-2000 r--p 00000000 100000000:02 1 /x\n",
		"1000-2000 r--p 00000000 08:02 1",
	};
	struct maps maps;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(maps_parse(bad[i], strlen(bad[i]), &maps), -EBADMSG);
}

static void test_find(void **state)
{
	struct maps maps = parse("1000-2000 r--p 00000000 08:02 1 /x\n"
				 "2000-3000 r--p 00001000 08:02 1 /x\n"
				 "5000-6000 r--p 00000000 08:02 1 /x\n");

	assert_null(maps_find(&maps, 0xfff));
	assert_ptr_equal(maps_find(&maps, 0x1000), &maps.mappings[0]);
	assert_ptr_equal(maps_find(&maps, 0x1fff), &maps.mappings[0]);
	assert_ptr_equal(maps_find(&maps, 0x2000), &maps.mappings[1]);
	assert_null(maps_find(&maps, 0x3000));
	assert_null(maps_find(&maps, 0x4fff));
	assert_ptr_equal(maps_find(&maps, 0x5fff), &maps.mappings[2]);
	assert_null(maps_find(&maps, UINT64_MAX));
	maps_deinit(&maps);
}

static void test_addresses(void **state)
{
	struct mapping mapping = {.start = 0x10000, .end = 0x12000, .offset = 0x3000};
	char name[MAP_FILES_NAME_SIZE];
	uint64_t addr;

	assert_false(mapping_address(&mapping, 0x2fff, &addr));
	assert_true(mapping_address(&mapping, 0x3000, &addr));
	assert_int_equal(addr, 0x10000);
	assert_true(mapping_address(&mapping, 0x4fff, &addr));
	assert_int_equal(addr, 0x11fff);
	assert_false(mapping_address(&mapping, 0x5000, &addr));
	assert_false(mapping_address(&mapping, UINT64_MAX, &addr));

	mapping_name(&mapping, name);
	assert_string_equal(name, "10000-12000");
	mapping = (struct mapping){.start = UINT64_MAX - 1, .end = UINT64_MAX};
	mapping_name(&mapping, name);
	assert_string_equal(name, "fffffffffffffffe-ffffffffffffffff");
}

/* The real thing: a file that is mapped here is found with what stat says of it. */
static void test_this_process(void **state)
{
	char path[] = "/dev/shm/test maps XXXXXX";
	_cleanup_fd_ int fd = mkstemp(path);
	_cleanup_text_ struct text text = {};
	char deleted[64];
	struct maps maps;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0x4000), 0);
	assert_int_equal(fstat(fd, &st), 0);
	void *map = mmap(NULL, 0x2000, PROT_READ, MAP_SHARED, fd, 0x1000);

	assert_true(map != MAP_FAILED);
	assert_int_equal(unlink(path), 0);
	_cleanup_fd_ int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(maps_read_text(dir, &text), 0);
	assert_int_equal(maps_parse(text.data, text.len, &maps), 0);
	const struct mapping *found = maps_find(&maps, (uintptr_t)map);

	assert_non_null(found);
	assert_int_equal(found->start, (uintptr_t)map);
	assert_int_equal(found->end, (uintptr_t)map + 0x2000);
	assert_int_equal(found->offset, 0x1000);
	assert_int_equal(found->inode, st.st_ino);
	assert_int_equal(found->dev, st.st_dev);
	assert_true(found->read && !found->write && !found->exec && found->shared);
	snprintf(deleted, sizeof(deleted), "%s (deleted)", path);
	assert_path(found, deleted);
	found = maps_find(&maps, (uintptr_t)test_this_process);
	assert_non_null(found);
	assert_true(found->exec);
	maps_deinit(&maps);
	munmap(map, 0x2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),	  cmocka_unit_test(test_paths),
		cmocka_unit_test(test_long_path), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_find),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
