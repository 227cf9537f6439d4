/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "core/linkpath.h"

/*
 * A small tree:
 *   /a/b/c/  /etc/  /usr/lib/  /deep/er/est/
 *   /a/s    -> /usr/lib
 *   /a/top  -> /
 *   /a/file is a file, /a/loop a loop
 */
static const struct {
	const char *path, *resolved;
} dirs[] = {
	{"/a", "/a"},
	{"/a/b", "/a/b"},
	{"/a/b/c", "/a/b/c"},
	{"/etc", "/etc"},
	{"/usr", "/usr"},
	{"/usr/lib", "/usr/lib"},
	{"/a/s", "/usr/lib"},
	{"/a/top", "/"},
	{"/a/top/a/s", "/usr/lib"},
	{"/deep/er/est", "/deep/er/est"},
};

static int resolve(void *arg, const char *path, char **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (strcmp(dirs[i].path, path) == 0) {
			*ret = strdup(dirs[i].resolved);
			assert_non_null(*ret);
			return 0;
		}
	}
	if (strcmp(path, "/a/loop") == 0)
		return -ELOOP;
	if (strcmp(path, "/a/bad") == 0)
		return -EIO;
	return strncmp(path, "/a/file", 7) == 0 ? -ENOTDIR : -ENOENT;
}

static void test_rewrite(void **state)
{
	static const struct {
		const char *dir, *target, *shown;
	} cases[] = {
		/* Plain ones stay as they are. */
		{"/", "a", "a"},
		{"/a/b", "c", "c"},
		{"/a/b", "c/d/e", "c/d/e"},
		{"/a/b", "../x", "../x"},
		/* Absolute: as short as it can be. */
		{"/", "/", "."},
		{"/", "/etc/passwd", "etc/passwd"},
		{"/a", "/", ".."},
		{"/a/b/c", "/", "../../.."},
		{"/a/b/c", "/etc/passwd", "../../../etc/passwd"},
		{"/a/b/c", "/a/b/x", "../x"},
		{"/a/b/c", "/a/b/c", "."},
		{"/a/b/c", "/a/b/c/d", "d"},
		{"/a/b/c", "/a/bb", "../../bb"},
		{"/a/bb", "/a/b", "../b"},
		/* Never above the root. */
		{"/", "..", "."},
		{"/", "../../..", "."},
		{"/a", "../../../../etc/shadow", "../etc/shadow"},
		{"/a/b", "/../../etc/shadow", "../../etc/shadow"},
		{"/a/b", "../../../..", "../.."},
		/* What comes before a `..` can be a symlink. */
		{"/a", "s/../x", "../usr/x"},
		{"/a", "top/../x", "../x"},
		{"/a", "top/../../../x", "../x"},
		{"/etc", "/a/s/../../b", "../b"},
		{"/a", "b/c/../../x", "x"},
		{"/a", "b/../s/..", "../usr"},
		{"/deep/er/est", "../../../a/s/../lib", "../../../usr/lib"},
		/* What does not lead anywhere ends where the walk does. */
		{"/a", "none/../../../../etc/shadow", "none/"},
		{"/a", "file/../../x", "file/"},
		{"/a", "loop/../x", "loop/"},
		{"/a", "b/none/../c", "b/none/"},
		/* Slashes, dots, and what they ask of the last name. */
		{"/a", "b//c", "b/c"},
		{"/a", "./b/./c", "b/c"},
		{"/a", "b/", "b/"},
		{"/a", "b/.", "b/"},
		{"/a", "/a/b/", "b/"},
		{"/a", ".", "."},
		{"/a", "...", "..."},
		{"/a", "..b/c", "..b/c"},
		{"/a", "//etc", "../etc"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *shown = NULL;

		assert_int_equal(
			linkpath_rewrite(cases[i].dir, cases[i].target, resolve, NULL, &shown), 0);
		assert_string_equal(shown, cases[i].shown);
		free(shown);
	}
}

static void test_errors(void **state)
{
	char *shown = NULL;

	assert_int_equal(linkpath_rewrite("/a", "", resolve, NULL, &shown), -EINVAL);
	/* Not knowing where a walk leads is not the same as knowing that it leads nowhere. */
	assert_int_equal(linkpath_rewrite("/a", "bad/../x", resolve, NULL, &shown), -EIO);
	assert_null(shown);
}

/* Climbs is `../`s first and then no more, whatever the target: so no race can lead out. */
static void test_never_climbs_out(void **state)
{
	static const char *const names[] = {"..", "a", "s", "top", "none", ".", "", "b"};
	uint32_t seed = 1;

	for (int i = 0; i < 200000; i++) {
		char target[64] = "";
		char *shown = NULL;
		int depth = 2, climbs = 0;

		if (seed & 0x10000)
			strcat(target, "/");
		for (int n = 0; n < 6; n++) {
			seed = seed * 1664525 + 1013904223;
			strcat(target, names[seed >> 29]);
			strcat(target, "/");
		}
		assert_int_equal(linkpath_rewrite("/a/b", target, resolve, NULL, &shown), 0);
		const char *at = shown;

		while (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0')) {
			climbs++;
			at += 2 + (at[2] == '/');
		}
		assert_true(climbs <= depth);
		assert_null(strstr(at, "/../"));
		assert_true(strlen(at) < 3 || strcmp(at + strlen(at) - 3, "/..") != 0);
		assert_int_not_equal(*shown, '/');
		free(shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rewrite),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_never_climbs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
