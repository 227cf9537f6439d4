/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of types in the kernel's own BTF: see btf.h.
 *
 * Megabytes, of which a name takes a hundred bytes: the files are read through a window of a page
 * and never held. sysfs gives no more than a page to a read() anyway, and touching so much fresh
 * memory takes ten times as long as reading it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/btf.h"

#define INDEX_STEP     16
#define NAME_MAX_BYTES 512
#define WINDOW_BYTES   4096

struct btf_file {
	int fd;
	struct btf_file *base;
	uint64_t types_at, strings_at; /* in the file */
	uint32_t types_len, strings_len;
	uint32_t first_id;
	uint32_t type_count;
	uint32_t first_string; /* offset of the first string: where base's end */
	uint32_t *index;       /* offsets in types of each INDEX_STEP-th type */
	/* The file's bytes [window_at, window_at + window_len). */
	uint64_t window_at;
	size_t window_len;
	uint8_t window[WINDOW_BYTES];
};

/* len (a window's at most) bytes of the file, valid to the next call. -EBADMSG past its end. */
static int read_window(struct btf_file *file, uint64_t offset, size_t len, const uint8_t **ret)
{
	if (offset < file->window_at || offset + len > file->window_at + file->window_len) {
		ssize_t n;

		file->window_len = 0;
		do
			n = pread(file->fd, file->window, sizeof(file->window), offset);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return -errno;
		if ((size_t)n < len)
			return -EBADMSG;
		file->window_at = offset;
		file->window_len = n;
	}
	*ret = file->window + (offset - file->window_at);
	return 0;
}

/* Reads the type at *offset of the types and moves on to the next. */
static int next_type(struct btf_file *file, uint32_t *offset, struct btf_type *ret)
{
	uint32_t left = file->types_len - *offset;
	const uint8_t *bytes;

	if (left < sizeof(*ret))
		return -EBADMSG;
	int r = read_window(file, file->types_at + *offset, sizeof(*ret), &bytes);

	if (r < 0)
		return r;
	memcpy(ret, bytes, sizeof(*ret));
	size_t len = btf_type_len(ret);

	if (!len || len > left)
		return -EBADMSG;
	*offset += len;
	return 0;
}

/* Walks over all types once, noting where each INDEX_STEP-th begins. */
static int build_index(struct btf_file *file)
{
	/* The smallest type has no members. */
	size_t most = file->types_len / sizeof(struct btf_type) / INDEX_STEP + 1;
	uint32_t count = 0;

	file->index = malloc(most * sizeof(file->index[0]));
	if (!file->index)
		return -ENOMEM;
	for (uint32_t offset = 0; offset < file->types_len; count++) {
		struct btf_type type;

		if (count % INDEX_STEP == 0)
			file->index[count / INDEX_STEP] = offset;
		int r = next_type(file, &offset, &type);

		if (r < 0)
			return r;
	}
	file->type_count = count;
	uint32_t *fits = realloc(file->index, (count / INDEX_STEP + 1) * sizeof(file->index[0]));

	if (fits)
		file->index = fits;
	return 0;
}

static int read_header(struct btf_file *file, uint64_t size)
{
	const uint8_t *bytes;
	struct btf_header header;
	int r = read_window(file, 0, sizeof(header), &bytes);

	if (r < 0)
		return r;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != BTF_MAGIC || header.hdr_len < sizeof(header))
		return -EBADMSG;
	/* Sums of 32-bit numbers in 64 bits. */
	file->types_at = (uint64_t)header.hdr_len + header.type_off;
	file->types_len = header.type_len;
	file->strings_at = (uint64_t)header.hdr_len + header.str_off;
	file->strings_len = header.str_len;
	if (file->types_at + file->types_len > size || file->strings_at + file->strings_len > size)
		return -EBADMSG;
	return 0;
}

int btf_file_open(const char *name, struct btf_file *base, struct btf_file **ret)
{
	char path[PATH_MAX];
	struct stat st;

	if (strchr(name, '/') ||
	    snprintf(path, sizeof(path), "/sys/kernel/btf/%s", name) >= (int)sizeof(path))
		return -ENOENT;
	CLEANUP(btf_file_cleanup) struct btf_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return -errno;
	file->base = base;
	file->first_id = base ? base->type_count + 1 : 1;
	file->first_string = base ? base->strings_len : 0;
	int r = read_header(file, st.st_size);

	if (r == 0)
		r = build_index(file);
	if (r < 0)
		return r;
	*ret = take_ptr(file);
	return 0;
}

void btf_file_close(struct btf_file *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->index);
	free(file);
}

static int file_string(struct btf_file *file, uint32_t offset, char **ret)
{
	const uint8_t *name;

	if (offset < file->first_string)
		return file_string(file->base, offset, ret);
	offset -= file->first_string;
	if (offset >= file->strings_len)
		return -EBADMSG;
	size_t len = MIN(NAME_MAX_BYTES, file->strings_len - offset);
	int r = read_window(file, file->strings_at + offset, len, &name);

	if (r < 0)
		return r;
	if (!memchr(name, '\0', len))
		return -EBADMSG;
	if (!name[0])
		return -ENOENT;
	*ret = strdup((const char *)name);
	return *ret ? 0 : -ENOMEM;
}

int btf_file_name(struct btf_file *file, uint32_t id, char **ret)
{
	if (id == 0)
		return -ENOENT;
	if (id < file->first_id)
		return btf_file_name(file->base, id, ret);
	uint32_t n = id - file->first_id;

	if (n >= file->type_count)
		return -ENOENT;
	uint32_t offset = file->index[n / INDEX_STEP];
	struct btf_type type;

	for (uint32_t i = n - n % INDEX_STEP; i <= n; i++) {
		int r = next_type(file, &offset, &type);

		if (r < 0)
			return r;
	}
	return file_string(file, type.name_off, ret);
}
