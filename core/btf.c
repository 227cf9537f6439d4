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
#include <linux/btf.h>
#include <string.h>

/* BTF_KIND_ENUM64 of Linux 6.0, and its struct btf_enum64. */
#define KIND_ENUM64 19
#define ENUM64_SIZE 12

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

size_t btf_type_len(const struct btf_type *type)
{
	size_t len = sizeof(*type), members = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
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
		return 0;
	}
	return len;
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
		size_t left = btf->types_len - offset;

		if (left < sizeof(type))
			return -EBADMSG;
		memcpy(&type, btf->types + offset, sizeof(type));
		size_t len = btf_type_len(&type);

		if (!len || len > left)
			return -EBADMSG;
		for (; next < count && wanted[next].id == id; next++)
			ret[wanted[next].slot] = btf_view_string(btf, type.name_off);
		offset += len;
	}
	return 0;
}
