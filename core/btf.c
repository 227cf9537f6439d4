/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of BTF types: see btf.h.
 *
 * BTF is a header, a section of types and one of strings. A type has no length of its own: its
 * kind and the number of its members give it, so the n-th type is found by walking over those
 * before it. Ids count from 1; those of a module go on where vmlinux's end, and so do its string
 * offsets.
 */
#include "core/btf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Linux 6.0, commit 6089fb325cf7. */
#define KIND_ENUM64 19
#define ENUM64_SIZE 12

#define INDEX_STEP     64
#define FILE_MAX_BYTES (256 << 20)
#define NAME_MAX_BYTES 512

int btf_view_init(struct btf_view *ret, const void *data, size_t len)
{
	struct btf_header header;

	if (len < sizeof(header))
		return -EBADMSG;
	memcpy(&header, data, sizeof(header));
	if (header.magic != BTF_MAGIC || header.hdr_len < sizeof(header) || header.hdr_len > len)
		return -EBADMSG;
	const uint8_t *sections = (const uint8_t *)data + header.hdr_len;
	size_t room = len - header.hdr_len;

	if (header.type_off > room || header.type_len > room - header.type_off ||
	    header.str_off > room || header.str_len > room - header.str_off)
		return -EBADMSG;
	*ret = (struct btf_view){
		.types = sections + header.type_off,
		.types_len = header.type_len,
		.strings = (const char *)sections + header.str_off,
		.strings_len = header.str_len,
	};
	if (!ret->strings_len || ret->strings[ret->strings_len - 1])
		return -EBADMSG;
	return 0;
}

const char *btf_view_string(const struct btf_view *btf, uint32_t offset)
{
	return offset < btf->strings_len ? btf->strings + offset : NULL;
}

/* Reads the type at offset and returns its length with all that belongs to it. -EBADMSG. */
static ssize_t read_type(const struct btf_view *btf, size_t offset, struct btf_type *ret)
{
	size_t left = btf->types_len - offset;

	if (left < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, btf->types + offset, sizeof(*ret));
	size_t len = sizeof(*ret), members = BTF_INFO_VLEN(ret->info);

	switch (BTF_INFO_KIND(ret->info)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		break;
	case BTF_KIND_INT:
		len += sizeof(uint32_t);
		break;
	case BTF_KIND_ARRAY:
		len += sizeof(struct btf_array);
		break;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		len += members * sizeof(struct btf_member);
		break;
	case BTF_KIND_ENUM:
		len += members * sizeof(struct btf_enum);
		break;
	case BTF_KIND_FUNC_PROTO:
		len += members * sizeof(struct btf_param);
		break;
	case BTF_KIND_VAR:
		len += sizeof(struct btf_var);
		break;
	case BTF_KIND_DATASEC:
		len += members * sizeof(struct btf_var_secinfo);
		break;
	case BTF_KIND_DECL_TAG:
		len += sizeof(struct btf_decl_tag);
		break;
	case KIND_ENUM64:
		len += members * ENUM64_SIZE;
		break;
	default:
		return -EBADMSG;
	}
	return len <= left ? (ssize_t)len : -EBADMSG;
}

/* Which slot of a list asks for which type, to be sorted by type. */
struct wanted {
	uint32_t id;
	uint32_t slot;
};

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

int btf_view_names(const struct btf_view *btf, const uint32_t *ids, size_t count, const char **ret)
{
	_cleanup_free_ struct wanted *wanted = calloc(MAX(count, (size_t)1), sizeof(*wanted));
	size_t next = 0, offset = 0;

	if (!wanted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		wanted[i] = (struct wanted){.id = ids[i], .slot = i};
		ret[i] = NULL;
	}
	qsort(wanted, count, sizeof(*wanted), compare_wanted);
	while (next < count && wanted[next].id == 0)
		next++;
	for (uint32_t id = 1; next < count && offset < btf->types_len; id++) {
		struct btf_type type;
		ssize_t len = read_type(btf, offset, &type);

		if (len < 0)
			return len;
		for (; next < count && wanted[next].id == id; next++)
			ret[wanted[next].slot] = btf_view_string(btf, type.name_off);
		offset += len;
	}
	return 0;
}

struct btf_file {
	int fd;
	const struct btf_file *base;
	off_t types_at, strings_at; /* in the file */
	size_t types_len, strings_len;
	uint32_t first_id;
	uint32_t type_count;
	uint32_t first_string; /* offset of the first string: where base's end */
	uint32_t *index;       /* offsets in types of each INDEX_STEP-th type */
};

static int read_at(int fd, void *buf, size_t len, off_t offset)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		done += n;
	}
	return 0;
}

/* Walks over all types once, noting where each INDEX_STEP-th begins. */
static int build_index(struct btf_file *file, const struct btf_view *btf)
{
	/* The smallest type has no members. */
	size_t most = btf->types_len / sizeof(struct btf_type) / INDEX_STEP + 1;
	size_t offset = 0;
	uint32_t count = 0;

	file->index = malloc(most * sizeof(file->index[0]));
	if (!file->index)
		return -ENOMEM;
	while (offset < btf->types_len) {
		struct btf_type type;
		ssize_t len = read_type(btf, offset, &type);

		if (len < 0)
			return len;
		if (count % INDEX_STEP == 0)
			file->index[count / INDEX_STEP] = offset;
		count++;
		offset += len;
	}
	file->type_count = count;
	uint32_t *fits = realloc(file->index, (count / INDEX_STEP + 1) * sizeof(file->index[0]));

	if (fits)
		file->index = fits;
	return 0;
}

static int load_file(struct btf_file *file, size_t size)
{
	_cleanup_free_ uint8_t *data = malloc(size);
	struct btf_view btf;

	if (!data)
		return -ENOMEM;
	int r = read_at(file->fd, data, size, 0);

	if (r == 0)
		r = btf_view_init(&btf, data, size);
	if (r < 0)
		return r;
	file->types_at = btf.types - data;
	file->types_len = btf.types_len;
	file->strings_at = (const uint8_t *)btf.strings - data;
	file->strings_len = btf.strings_len;
	return build_index(file, &btf);
}

int btf_file_open(const char *name, const struct btf_file *base, struct btf_file **ret)
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
	if (st.st_size <= 0 || st.st_size > FILE_MAX_BYTES)
		return -EBADMSG;
	file->base = base;
	file->first_id = base ? base->type_count + 1 : 1;
	file->first_string = base ? base->strings_len : 0;
	int r = load_file(file, st.st_size);

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

static int file_string(const struct btf_file *file, uint32_t offset, char **ret)
{
	char name[NAME_MAX_BYTES];

	if (offset < file->first_string)
		return file_string(file->base, offset, ret);
	offset -= file->first_string;
	if (offset >= file->strings_len)
		return -EBADMSG;
	size_t len = MIN(sizeof(name), file->strings_len - offset);
	int r = read_at(file->fd, name, len, file->strings_at + offset);

	if (r < 0)
		return r;
	if (!memchr(name, '\0', len))
		return -EBADMSG;
	if (!name[0])
		return -ENOENT;
	*ret = strdup(name);
	return *ret ? 0 : -ENOMEM;
}

int btf_file_name(const struct btf_file *file, uint32_t id, char **ret)
{
	if (id == 0)
		return -ENOENT;
	if (id < file->first_id)
		return btf_file_name(file->base, id, ret);
	uint32_t n = id - file->first_id, block = n / INDEX_STEP;

	if (n >= file->type_count)
		return -ENOENT;
	size_t start = file->index[block];
	size_t end = block < (file->type_count - 1) / INDEX_STEP ? file->index[block + 1]
								 : file->types_len;
	_cleanup_free_ uint8_t *types = malloc(end - start);

	if (!types)
		return -ENOMEM;
	int r = read_at(file->fd, types, end - start, file->types_at + start);

	if (r < 0)
		return r;
	struct btf_view window = {.types = types, .types_len = end - start};
	struct btf_type type;
	size_t offset = 0;

	for (uint32_t i = block * INDEX_STEP; i <= n; i++) {
		ssize_t len = read_type(&window, offset, &type);

		if (len < 0)
			return len;
		offset += len;
	}
	return file_string(file, type.name_off, ret);
}
