/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as mountinfo: refused, or a table whose answers agree with a look at every line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

static bool is_at(const struct mount *mount, const struct mount *other)
{
	return mount->parent == other->parent && mount->path_len == other->path_len &&
	       memcmp(mount->path, other->path, mount->path_len) == 0;
}

static void check_mount(const struct mounts *mounts, const struct mount *mount)
{
	const struct mount *found = mounts_at(mounts, mount->parent, mount->path, mount->path_len);

	check(found != NULL);
	check(found->path_len == mount->path_len);
	check(mounts_by_id(mounts, mount->id)->id == mount->id);
	/* Somewhere above it there is a directory that it is below of. */
	const char *slash = memrchr(mount->path, '/', mount->path_len);
	size_t len = MAX((size_t)(slash - mount->path), (size_t)1);

	if (mount->path_len > 1)
		check(mounts_below(mounts, mount->parent, mount->path, len));
	for (size_t i = 0; i < mounts->count; i++)
		if (is_at(mount, &mounts->mounts[i]))
			return;
	check(false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mounts mounts;

	if (mounts_parse((const char *)data, size, &mounts) < 0)
		return 0;
	for (size_t i = 0; i < mounts.count; i++)
		check_mount(&mounts, &mounts.mounts[i]);
	mounts_deinit(&mounts);
	return 0;
}
