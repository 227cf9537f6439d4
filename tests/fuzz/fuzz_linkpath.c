/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a directory's path, a link's target and what a walk finds: where the link is shown
 * to lead is never above the root, however often it climbs.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/linkpath.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

/* Directories by the sum of their bytes: some are links to elsewhere, some are not there. */
static int resolve(void *arg, const char *path, char **ret)
{
	static const int errors[] = {-ENOENT, -ELOOP, -ENOTDIR, -EIO};
	static const char *const elsewhere[] = {"/", "/a", "/a/b", "/c/d/e"};
	unsigned int sum = 0;

	for (const char *at = path; *at; at++)
		sum += (unsigned char)*at;
	check(*path == '/');
	if (sum % 8 == 0)
		return errors[sum / 8 % 4];
	*ret = strdup(sum % 8 < 4 ? elsewhere[sum / 8 % 4] : path);
	check(*ret != NULL);
	return 0;
}

/* A path as the tree has it: from the root, without empty names or dots. */
static bool is_directory_path(const char *path)
{
	if (strcmp(path, "/") == 0)
		return true;
	for (const char *at = path; *at;) {
		if (*at++ != '/')
			return false;
		size_t len = strcspn(at, "/");

		if (!len || (len == 1 && *at == '.') || (len == 2 && memcmp(at, "..", 2) == 0))
			return false;
		at += len;
	}
	return *path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 2);
	_cleanup_free_ char *shown = NULL;
	int depth = 0, climbs = 0;

	check(text != NULL);
	if (size)
		memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	const char *dir = text, *target = text + strlen(text) + 1;

	if (target > text + size || !is_directory_path(dir) ||
	    linkpath_rewrite(dir, target, resolve, NULL, &shown) < 0)
		return 0;
	for (const char *at = dir; *at; at++)
		depth += *at == '/' && at[1];
	const char *at = shown;

	for (; strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]); at += 2 + (at[2] == '/'))
		climbs++;
	check(climbs <= depth);
	check(*at != '/' && !strstr(at, "/../"));
	size_t len = strlen(at);

	check(len < 3 || strcmp(at + len - 3, "/..") != 0);
	return 0;
}
