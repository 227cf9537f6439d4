/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines of /proc/self/mountinfo, good and bad. */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/mountinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static int parse(const char *text, struct mountinfo_list *ret)
{
	_cleanup_file_ FILE *file = fmemopen((char *)text, strlen(text), "r");

	assert_non_null(file);
	return mountinfo_parse(file, ret);
}

static void fields(void **state)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};

	assert_int_equal(
		parse("22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
		      "36 22 0:41 / /run/ksymfs rw,nosuid - fuse.ksymfs ksymfs rw,user_id=0\n"
		      "37 22 0:42 /a\\040b /mnt/x\\040y\\134\\012z rw shared:2 master:3 - tmpfs - "
		      "rw\n",
		      &list),
		0);
	assert_int_equal(list.count, 3);
	assert_int_equal(list.mounts[0].dev, makedev(254, 1));
	assert_string_equal(list.mounts[0].mountpoint, "/");
	assert_string_equal(list.mounts[0].type, "ext4");
	assert_int_equal(list.mounts[1].dev, makedev(0, 41));
	assert_string_equal(list.mounts[1].type, "fuse.ksymfs");
	assert_int_equal(list.mounts[1].id, 36);
	assert_string_equal(list.mounts[1].options, "rw,nosuid");
	assert_true(mountinfo_has_option(&list.mounts[1], "rw"));
	assert_true(mountinfo_has_option(&list.mounts[1], "nosuid"));
	assert_false(mountinfo_has_option(&list.mounts[1], "suid"));
	assert_false(mountinfo_has_option(&list.mounts[1], "nosui"));
	/* That is the file system's. */
	assert_false(mountinfo_has_option(&list.mounts[1], "user_id=0"));
	assert_string_equal(list.mounts[2].mountpoint, "/mnt/x y\\\nz");
}

static void the_later_one_hides_the_earlier(void **state)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};

	assert_int_equal(parse("1 0 0:1 / /mnt rw - tmpfs a rw\n"
			       "2 1 0:2 / /mnt rw - fuse.ksymfs b rw\n"
			       "3 1 0:3 / /mnt2 rw - tmpfs c rw\n",
			       &list),
			 0);
	assert_int_equal(mountinfo_at(&list, "/mnt")->dev, makedev(0, 2));
	assert_int_equal(mountinfo_at(&list, "/mnt2")->dev, makedev(0, 3));
	assert_null(mountinfo_at(&list, "/mn"));
	assert_null(mountinfo_at(&list, "/mnt/"));
}

static void garbage(void **state)
{
	static const char *const bad[] = {
		"\n",
		"1 0 0:1 / /mnt rw tmpfs a rw\n",
		"1 0 0:1 / - tmpfs a rw\n",
		"1 0 x / /mnt rw - tmpfs a rw\n",
		"1 0 0:1 / /mnt rw - \n",
		" - \n",
	};
	struct mountinfo_list list = {};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(parse(bad[i], &list), -EINVAL);
		assert_null(list.mounts);
	}
}

static void our_own(void **state)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};

	assert_int_equal(mountinfo_read(&list), 0);
	assert_non_null(mountinfo_at(&list, "/"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields),
		cmocka_unit_test(the_later_one_hides_the_earlier),
		cmocka_unit_test(garbage),
		cmocka_unit_test(our_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
