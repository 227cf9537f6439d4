/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "core/mounts.h"
#include "core/text.h"

static const char table[] =
	"29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
	"30 29 0:5 / /dev rw,nosuid shared:2 master:7 - devtmpfs udev rw,size=1k\n"
	"31 29 0:21 / /proc rw,nosuid - proc proc rw\n"
	"32 31 0:40 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
	"40 29 0:50 / /mnt/a\\040b rw - tmpfs tmpfs rw\n"
	"41 29 0:51 /sub /mnt/a-b rw - fuse.sshfs host: rw\n"
	"42 29 0:52 / /run/ksymfs rw - fuse.ksymfs ksymfs rw\n"
	"43 42 0:53 / /run/ksymfs rw - tmpfs over rw\n"
	"44 43 0:54 / /run/ksymfs rw - tmpfs over\\043 rw\n"
	"50 29 0:60 / /srv rw - nfs4 server:/ rw\n";

static const struct mount *at(const struct mounts *mounts, uint64_t parent, const char *path)
{
	return mounts_at(mounts, parent, path, strlen(path));
}

static bool below(const struct mounts *mounts, uint64_t parent, const char *path)
{
	return mounts_below(mounts, parent, path, strlen(path));
}

static void test_parse(void **state)
{
	struct mounts mounts;

	assert_int_equal(mounts_parse(table, sizeof(table) - 1, &mounts), 0);
	assert_int_equal(mounts.count, 10);

	const struct mount *mount = mounts_by_id(&mounts, 29);

	assert_non_null(mount);
	assert_int_equal(mount->parent, 1);
	assert_true(mount->dev == makedev(254, 0));
	assert_string_equal(mount->path, "/");
	assert_string_equal(mount->type, "ext4");
	assert_string_equal(mounts_by_id(&mounts, 41)->type, "fuse.sshfs");
	assert_string_equal(mounts_by_id(&mounts, 40)->path, "/mnt/a b");
	assert_null(mounts_by_id(&mounts, 33));
	mounts_deinit(&mounts);
}

static void test_at(void **state)
{
	struct mounts mounts;

	assert_int_equal(mounts_parse(table, sizeof(table) - 1, &mounts), 0);
	assert_int_equal(at(&mounts, 29, "/dev")->id, 30);
	assert_int_equal(at(&mounts, 29, "/mnt/a b")->id, 40);
	assert_null(at(&mounts, 29, "/mnt"));
	assert_null(at(&mounts, 29, "/de"));
	/* In /proc there is another mount to come from. */
	assert_null(at(&mounts, 29, "/proc/sys/fs/binfmt_misc"));
	assert_int_equal(at(&mounts, 31, "/proc/sys/fs/binfmt_misc")->id, 32);
	/* Of a stack, the top. */
	assert_int_equal(at(&mounts, 29, "/run/ksymfs")->id, 44);
	assert_int_equal(at(&mounts, 42, "/run/ksymfs")->id, 44);
	assert_null(at(&mounts, 44, "/run/ksymfs"));
	mounts_deinit(&mounts);
}

static void test_below(void **state)
{
	struct mounts mounts;

	assert_int_equal(mounts_parse(table, sizeof(table) - 1, &mounts), 0);
	assert_true(below(&mounts, 29, "/"));
	assert_true(below(&mounts, 29, "/mnt"));
	assert_true(below(&mounts, 29, "/run"));
	assert_false(below(&mounts, 29, "/dev"));
	assert_false(below(&mounts, 29, "/mnt/a"));
	assert_false(below(&mounts, 29, "/home"));
	assert_true(below(&mounts, 31, "/proc"));
	assert_true(below(&mounts, 31, "/proc/sys/fs"));
	/* A mount on the root of a mount is none of an entry of it. */
	assert_false(below(&mounts, 42, "/run/ksymfs"));
	assert_false(below(&mounts, 99, "/"));
	mounts_deinit(&mounts);
}

/* Both questions, answered by looking at every line. */
static void test_many(void **state)
{
	struct text text = {};
	struct mounts mounts;

	for (int i = 0; i < 3000; i++)
		text_printf(&text, "%d %d 0:%d / /m%s%d/x%d rw - tmpfs t rw\n", 100 + i, i % 7, i,
			    i % 3 ? "-" : "/", i % 50, i);
	assert_int_equal(mounts_parse(text.data, text.len, &mounts), 0);
	for (int parent = 0; parent < 7; parent++) {
		for (int i = 0; i < 50; i++) {
			for (int dash = 0; dash < 2; dash++) {
				char path[64];
				bool found = false;

				snprintf(path, sizeof(path), "/m%s%d", dash ? "-" : "/", i);
				for (size_t m = 0; m < mounts.count; m++) {
					const struct mount *mount = &mounts.mounts[m];

					found |= mount->parent == (uint64_t)parent &&
						 strncmp(mount->path, path, strlen(path)) == 0 &&
						 mount->path[strlen(path)] == '/';
				}
				assert_int_equal(below(&mounts, parent, path), found);
			}
		}
	}
	for (size_t m = 0; m < mounts.count; m++)
		assert_ptr_equal(at(&mounts, mounts.mounts[m].parent, mounts.mounts[m].path),
				 &mounts.mounts[m]);
	mounts_deinit(&mounts);
	text_deinit(&text);
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"29 1 254:0 / / rw - ext4 /dev/root rw",
		"29 1 254:0 / / rw shared:1\n",
		"29 1 254 / / rw - ext4 x rw\n",
		"x 1 254:0 / / rw - ext4 x rw\n",
		"29 1 254:0 / relative rw - ext4 x rw\n",
		"\n",
		"29 1 254:0 / / rw -\n",
		"99999999999999999999 1 0:1 / / rw - x x\n",
	};
	struct mounts mounts;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(mounts_parse(bad[i], strlen(bad[i]), &mounts), -EBADMSG);
	assert_int_equal(mounts_parse("", 0, &mounts), 0);
	assert_null(at(&mounts, 1, "/"));
	assert_false(below(&mounts, 1, "/"));
	mounts_deinit(&mounts);
}

static void test_policy(void **state)
{
	static const char *const cross[] = {"proc", "fuse", "nfs4"};
	static const struct {
		const char *type;
		bool without, with;
	} cases[] = {
		{"ext4", true, true},	     {"tmpfs", true, true},
		{"overlay", true, true},     {"devtmpfs", true, true},
		{"proc", false, true},	     {"sysfs", false, false},
		{"cgroup2", false, false},   {"bpf", false, false},
		{"fuse", false, true},	     {"fuse.sshfs", false, true},
		{"fuseblk", false, false},   {"fuse.ksymfs", false, false},
		{"nfs", false, false},	     {"nfs4", false, true},
		{"some-new-fs", true, true}, {"virtiofs", false, false},
		{"fusectl", false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(mount_is_open(cases[i].type, NULL, 0), cases[i].without);
		assert_int_equal(mount_is_open(cases[i].type, cross, ARRAY_SIZE(cross)),
				 cases[i].with);
	}
	assert_string_equal(mount_type_of_magic(0x9fa0), "proc");
	/* statfs() can hand it out as a negative number. */
	assert_string_equal(mount_type_of_magic((int)0xff534d42), "cifs");
	assert_null(mount_type_of_magic(0xef53));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse), cmocka_unit_test(test_at),
		cmocka_unit_test(test_below), cmocka_unit_test(test_many),
		cmocka_unit_test(test_bad),   cmocka_unit_test(test_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
