/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parser of /proc/PID/maps: see maps.h. */
#include "core/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

int maps_read_text(int proc_dir_fd, struct text *text)
{
	_cleanup_fd_ int fd = openat(proc_dir_fd, "maps", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : maps_read_fd(fd, text);
}

int maps_read_fd(int fd, struct text *text)
{
	size_t before = text->len;

	for (;;) {
		/* The kernel hands out whole lines, about a page at a time: more room is no use. */
		char *at = text_reserve(text, 8192);

		if (!at)
			return -ENOMEM;
		ssize_t n = read(fd, at, 8192);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		text->len += n;
		if (text->len - before > MAPS_TEXT_MAX)
			return -EFBIG;
	}
}

/* What is left of a line while it is taken apart. */
struct cursor {
	const char *at, *end;
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return 16;
}

/* A number that `end` follows, past which the cursor is moved. */
static bool take_number(struct cursor *cursor, unsigned int base, char end, uint64_t *ret)
{
	const char *start = cursor->at;
	uint64_t value = 0;

	for (; cursor->at < cursor->end; cursor->at++) {
		unsigned int d = digit(*cursor->at);

		if (d >= base)
			break;
		if (value > (UINT64_MAX - d) / base)
			return false;
		value = value * base + d;
	}
	if (cursor->at == start || cursor->at == cursor->end || *cursor->at != end)
		return false;
	cursor->at++;
	*ret = value;
	return true;
}

/* `rwxp `, each letter a dash where it is not so. */
static bool take_permissions(struct cursor *cursor, struct mapping *mapping)
{
	static const char set[] = "rwx";
	bool *const flags[] = {&mapping->read, &mapping->write, &mapping->exec};

	if (cursor->end - cursor->at < 5)
		return false;
	for (int i = 0; i < 3; i++) {
		char c = *cursor->at++;

		if (c != set[i] && c != '-')
			return false;
		*flags[i] = c == set[i];
	}
	char sharing = *cursor->at++;

	mapping->shared = sharing == 's';
	return (sharing == 's' || sharing == 'p') && *cursor->at++ == ' ';
}

static bool parse_line(struct cursor line, struct mapping *ret)
{
	uint64_t major, minor;

	*ret = (struct mapping){};
	if (!take_number(&line, 16, '-', &ret->start) || !take_number(&line, 16, ' ', &ret->end) ||
	    ret->start >= ret->end || !take_permissions(&line, ret) ||
	    !take_number(&line, 16, ' ', &ret->offset) || !take_number(&line, 16, ':', &major) ||
	    !take_number(&line, 16, ' ', &minor) || major > UINT32_MAX || minor > UINT32_MAX ||
	    !take_number(&line, 10, ' ', &ret->inode))
		return false;
	ret->dev = makedev(major, minor);
	while (line.at < line.end && *line.at == ' ')
		line.at++;
	ret->path = line.at;
	ret->path_len = line.end - line.at;
	return true;
}

int maps_parse(const char *text, size_t len, struct maps *ret)
{
	_cleanup_maps_ struct maps maps = {};
	size_t size = 0;

	for (const char *at = text, *end = text + len; at < end;) {
		const char *newline = memchr(at, '\n', end - at);

		if (!newline)
			return -EBADMSG;
		if (maps.count == size) {
			size = size ? size * 2 : 64;
			void *more = reallocarray(maps.mappings, size, sizeof(*maps.mappings));

			if (!more)
				return -ENOMEM;
			maps.mappings = more;
		}
		if (!parse_line((struct cursor){at, newline}, &maps.mappings[maps.count]))
			return -EBADMSG;
		maps.count++;
		at = newline + 1;
	}
	*ret = maps;
	maps = (struct maps){};
	return 0;
}

void maps_deinit(struct maps *maps)
{
	free(maps->mappings);
	*maps = (struct maps){};
}

void mapping_name(const struct mapping *mapping, char ret[static MAP_FILES_NAME_SIZE])
{
	snprintf(ret, MAP_FILES_NAME_SIZE, "%" PRIx64 "-%" PRIx64, mapping->start, mapping->end);
}

bool mapping_address(const struct mapping *mapping, uint64_t offset, uint64_t *ret)
{
	if (offset < mapping->offset || offset - mapping->offset >= mapping->end - mapping->start)
		return false;
	*ret = mapping->start + (offset - mapping->offset);
	return true;
}

const struct mapping *maps_find(const struct maps *maps, uint64_t addr)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (maps->mappings[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < maps->count && maps->mappings[low].start <= addr)
		return &maps->mappings[low];
	return NULL;
}
