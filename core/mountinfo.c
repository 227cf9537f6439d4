/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads mountinfo: see mountinfo.h. */
#include "core/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The kernel writes blank, tab, newline and backslash as \ooo. */
static char *unescape(const char *field)
{
	char *out = malloc(strlen(field) + 1), *at = out;

	if (!out)
		return NULL;
	while (*field) {
		unsigned int byte;
		int len = 0;

		if (field[0] == '\\' && sscanf(field + 1, "%3o%n", &byte, &len) == 1 && len == 3) {
			*at++ = byte;
			field += 4;
		} else {
			*at++ = *field++;
		}
	}
	*at = '\0';
	return out;
}

/* 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue */
static int parse_line(char *line, struct mountinfo *ret)
{
	unsigned int major, minor;
	char *fields[6], *save = NULL;
	char *separator = strstr(line, " - ");
	char *type = NULL;

	if (!separator)
		return -EINVAL;
	*separator = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		fields[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!fields[i])
			return -EINVAL;
	}
	type = strtok_r(separator + 3, " \n", &save);
	if (!type || sscanf(fields[0], "%d", &ret->id) != 1 ||
	    sscanf(fields[2], "%u:%u", &major, &minor) != 2)
		return -EINVAL;
	ret->dev = makedev(major, minor);
	ret->mountpoint = unescape(fields[4]);
	ret->options = strdup(fields[5]);
	ret->type = unescape(type);
	return ret->mountpoint && ret->options && ret->type ? 0 : -ENOMEM;
}

static void mountinfo_deinit(struct mountinfo *mountinfo)
{
	free(mountinfo->mountpoint);
	free(mountinfo->options);
	free(mountinfo->type);
}

static int each_line(FILE *file, int (*take)(void *arg, char *line), void *arg)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, file) >= 0) {
		int r = take(arg, line);

		if (r != 0)
			return r;
	}
	return ferror(file) ? -EIO : 0;
}

static int add_line(void *arg, char *line)
{
	struct mountinfo_list *list = arg;
	struct mountinfo *mounts =
		reallocarray(list->mounts, list->count + 1, sizeof(list->mounts[0]));

	if (!mounts)
		return -ENOMEM;
	list->mounts = mounts;
	/* Counted before it is whole, so that its parts are freed. */
	mounts[list->count] = (struct mountinfo){};
	return parse_line(line, &mounts[list->count++]);
}

int mountinfo_parse(FILE *file, struct mountinfo_list *ret)
{
	_cleanup_mountinfo_ struct mountinfo_list list = {};
	int r = each_line(file, add_line, &list);

	if (r < 0)
		return r;
	*ret = list;
	list = (struct mountinfo_list){};
	return 0;
}

int mountinfo_read(struct mountinfo_list *ret)
{
	_cleanup_file_ FILE *file = fopen("/proc/self/mountinfo", "re");

	return file ? mountinfo_parse(file, ret) : -errno;
}

struct taker {
	mountinfo_take_fn take;
	void *arg;
};

static int hand_on_line(void *arg, char *line)
{
	const struct taker *taker = arg;
	struct mountinfo mountinfo = {};
	int r = parse_line(line, &mountinfo);

	if (r == 0)
		r = taker->take(taker->arg, &mountinfo);
	mountinfo_deinit(&mountinfo);
	return r == -EINVAL ? 0 : r;
}

int mountinfo_each_at(int dir_fd, const char *path, mountinfo_take_fn take, void *arg)
{
	struct taker taker = {take, arg};
	_cleanup_fd_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	_cleanup_file_ FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (!file)
		return -errno;
	take_fd(&fd);
	return each_line(file, hand_on_line, &taker);
}

void mountinfo_list_deinit(struct mountinfo_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		mountinfo_deinit(&list->mounts[i]);
	free(list->mounts);
	*list = (struct mountinfo_list){};
}

bool mountinfo_has_option(const struct mountinfo *mountinfo, const char *option)
{
	size_t len = strlen(option);

	for (const char *at = mountinfo->options; *at; at += *at == ',') {
		size_t word = strcspn(at, ",");

		if (word == len && memcmp(at, option, len) == 0)
			return true;
		at += word;
	}
	return false;
}

const struct mountinfo *mountinfo_at(const struct mountinfo_list *list, const char *path)
{
	for (size_t i = list->count; i-- > 0;) {
		if (strcmp(list->mounts[i].mountpoint, path) == 0)
			return &list->mounts[i];
	}
	return NULL;
}
