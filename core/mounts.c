/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mount tables and classes of file systems: see mounts.h. */
#include "core/mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/*
 * What is not named here has storage. The magic numbers are those of include/uapi/linux/magic.h and
 * of the file systems themselves; 0 where nobody needs it.
 */
static const struct {
	const char *type;
	long magic;
	enum mount_class class;
} known_types[] = {
	{"autofs", 0x0187, MOUNT_NO_STORAGE},
	{"binder", 0x6c6f6f70, MOUNT_NO_STORAGE},
	{"binfmt_misc", 0x42494e4d, MOUNT_NO_STORAGE},
	{"bpf", 0xcafe4a11, MOUNT_NO_STORAGE},
	{"cgroup", 0x27e0eb, MOUNT_NO_STORAGE},
	{"cgroup2", 0x63677270, MOUNT_NO_STORAGE},
	{"configfs", 0x62656570, MOUNT_NO_STORAGE},
	{"debugfs", 0x64626720, MOUNT_NO_STORAGE},
	{"devpts", 0x1cd1, MOUNT_NO_STORAGE},
	{"dlmfs", 0, MOUNT_NO_STORAGE},
	{"efivarfs", 0xde5e81e4, MOUNT_NO_STORAGE},
	{"functionfs", 0xa647361, MOUNT_NO_STORAGE},
	{"fusectl", 0x65735543, MOUNT_NO_STORAGE},
	{"gadgetfs", 0, MOUNT_NO_STORAGE},
	{"mqueue", 0x19800202, MOUNT_NO_STORAGE},
	{"nfsd", 0x6e667364, MOUNT_NO_STORAGE},
	{"nsfs", 0x6e736673, MOUNT_NO_STORAGE},
	{"proc", 0x9fa0, MOUNT_NO_STORAGE},
	{"pstore", 0x6165676c, MOUNT_NO_STORAGE},
	{"resctrl", 0x7655821, MOUNT_NO_STORAGE},
	{"rpc_pipefs", 0x67596969, MOUNT_NO_STORAGE},
	{"securityfs", 0x73636673, MOUNT_NO_STORAGE},
	{"selinuxfs", 0xf97cff8c, MOUNT_NO_STORAGE},
	{"smackfs", 0x43415d53, MOUNT_NO_STORAGE},
	{"sysfs", 0x62656572, MOUNT_NO_STORAGE},
	{"tracefs", 0x74726163, MOUNT_NO_STORAGE},
	{"xenfs", 0xabba1974, MOUNT_NO_STORAGE},
	{"fuse", 0x65735546, MOUNT_USER},
	{"fuseblk", 0, MOUNT_USER},
	{"virtiofs", 0, MOUNT_USER},
	{"9p", 0x01021997, MOUNT_NETWORK},
	{"afs", 0x5346414f, MOUNT_NETWORK},
	{"beegfs", 0x19830326, MOUNT_NETWORK},
	{"ceph", 0x00c36400, MOUNT_NETWORK},
	{"cifs", 0xff534d42, MOUNT_NETWORK},
	{"coda", 0x73757245, MOUNT_NETWORK},
	{"gfs2", 0x01161970, MOUNT_NETWORK},
	{"gpfs", 0x47504653, MOUNT_NETWORK},
	{"lustre", 0x0bd00bd0, MOUNT_NETWORK},
	{"ncpfs", 0x564c, MOUNT_NETWORK},
	{"nfs", 0x6969, MOUNT_NETWORK},
	{"nfs4", 0, MOUNT_NETWORK},
	{"ocfs2", 0x7461636f, MOUNT_NETWORK},
	{"orangefs", 0x20030528, MOUNT_NETWORK},
	{"smb3", 0xfe534d42, MOUNT_NETWORK},
	{"vboxsf", 0x786f4256, MOUNT_NETWORK},
	{"vmhgfs", 0, MOUNT_NETWORK},
};

enum mount_class mount_class_of(const char *type)
{
	if (strcmp(type, "fuse.ksymfs") == 0)
		return MOUNT_KSYMFS;
	if (strncmp(type, "fuse.", 5) == 0 || strncmp(type, "fuseblk.", 8) == 0)
		return MOUNT_USER;
	for (size_t i = 0; i < ARRAY_SIZE(known_types); i++)
		if (strcmp(type, known_types[i].type) == 0)
			return known_types[i].class;
	return MOUNT_STORAGE;
}

bool mount_is_open(const char *type, const char *const *cross, size_t cross_count)
{
	enum mount_class class = mount_class_of(type);

	if (class == MOUNT_STORAGE || class == MOUNT_KSYMFS)
		return class == MOUNT_STORAGE;
	for (size_t i = 0; i < cross_count; i++) {
		if (strcmp(type, cross[i]) == 0)
			return true;
		if (strcmp(cross[i], "fuse") == 0 && strncmp(type, "fuse.", 5) == 0)
			return true;
	}
	return false;
}

const char *mount_type_of_magic(long magic)
{
	/* f_type is signed, and some magic numbers have the highest of 32 bits set. */
	uint32_t wanted = magic;

	for (size_t i = 0; i < ARRAY_SIZE(known_types); i++)
		if (known_types[i].magic && (uint32_t)known_types[i].magic == wanted)
			return known_types[i].type;
	return NULL;
}

/* Undoes \ooo from [at, end) to *out, and ends that with a NUL. */
static const char *unescape(const char *at, const char *end, char **out, size_t *ret_len)
{
	char *start = *out, *to = start;

	while (at < end) {
		if (*at == '\\' && end - at >= 4 && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
		    at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
			*to++ = (at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0');
			at += 4;
		} else {
			*to++ = *at++;
		}
	}
	*to = '\0';
	*ret_len = to - start;
	*out = to + 1;
	return start;
}

struct field {
	const char *at, *end;
};

static bool next_field(const char **at, const char *end, struct field *ret)
{
	const char *start = *at;

	while (*at < end && **at != ' ')
		(*at)++;
	*ret = (struct field){start, *at};
	if (*at < end)
		(*at)++;
	return ret->end > ret->at;
}

static bool parse_number(const char **at, const char *end, uint64_t *ret)
{
	const char *start = *at;
	uint64_t value = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		if (value > UINT32_MAX)
			return false;
		value = value * 10 + (**at - '0');
	}
	*ret = value;
	return *at > start;
}

static bool number_field(struct field field, uint64_t *ret)
{
	return parse_number(&field.at, field.end, ret) && field.at == field.end;
}

static bool dev_field(struct field field, dev_t *ret)
{
	uint64_t major, minor;

	if (!parse_number(&field.at, field.end, &major) || field.at == field.end ||
	    *field.at++ != ':' || !parse_number(&field.at, field.end, &minor) ||
	    field.at != field.end)
		return false;
	*ret = makedev(major, minor);
	return true;
}

/* ID PARENT MAJ:MIN ROOT PATH OPTIONS [TAG...] - TYPE SOURCE OPTIONS */
static bool parse_line(const char *at, const char *end, struct mount *mount, char **strings)
{
	struct field id, parent, dev, root, path, options, field;
	size_t len;

	if (!next_field(&at, end, &id) || !next_field(&at, end, &parent) ||
	    !next_field(&at, end, &dev) || !next_field(&at, end, &root) ||
	    !next_field(&at, end, &path) || !next_field(&at, end, &options) ||
	    !number_field(id, &mount->id) || !number_field(parent, &mount->parent) ||
	    !dev_field(dev, &mount->dev) || *path.at != '/')
		return false;
	do {
		if (!next_field(&at, end, &field))
			return false;
	} while (field.end - field.at != 1 || *field.at != '-');
	if (!next_field(&at, end, &field))
		return false;
	mount->path = unescape(path.at, path.end, strings, &mount->path_len);
	mount->type = unescape(field.at, field.end, strings, &len);
	return true;
}

static int compare_place(uint64_t a_parent, const char *a, size_t a_len, uint64_t b_parent,
			 const char *b, size_t b_len)
{
	if (a_parent != b_parent)
		return a_parent < b_parent ? -1 : 1;

	int order = memcmp(a, b, MIN(a_len, b_len));

	if (order)
		return order;
	return a_len < b_len ? -1 : a_len > b_len;
}

/* Of mounts at one place the later line is the later mount: the sort must be stable. */
static int compare_mounts(const void *a, const void *b)
{
	const struct mount *x = a, *y = b;
	int order = compare_place(x->parent, x->path, x->path_len, y->parent, y->path, y->path_len);

	return order ? order : x->path < y->path ? -1 : x->path > y->path;
}

static int compare_ids(const void *a, const void *b)
{
	const struct mount *const *x = a, *const *y = b;

	return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

int mounts_parse(const char *text, size_t len, struct mounts *ret)
{
	_cleanup_mounts_ struct mounts mounts = {};
	size_t lines = 0;

	/* There may be no text at all: not even an address. */
	for (const char *at = text; len && (at = memchr(at, '\n', text + len - at)); at++)
		lines++;
	if (len && text[len - 1] != '\n')
		return -EBADMSG;
	mounts.mounts = calloc(MAX(lines, (size_t)1), sizeof(*mounts.mounts));
	mounts.by_id = calloc(MAX(lines, (size_t)1), sizeof(*mounts.by_id));
	/* Unescaped is never longer, and each string had a blank behind it for its NUL. */
	mounts.strings = malloc(len + 1);
	if (!mounts.mounts || !mounts.by_id || !mounts.strings)
		return -ENOMEM;

	char *strings = mounts.strings;

	for (const char *at = text, *end; at < text + len; at = end + 1) {
		end = memchr(at, '\n', text + len - at);
		if (!parse_line(at, end, &mounts.mounts[mounts.count], &strings))
			return -EBADMSG;
		mounts.count++;
	}
	qsort(mounts.mounts, mounts.count, sizeof(*mounts.mounts), compare_mounts);
	for (size_t i = 0; i < mounts.count; i++)
		mounts.by_id[i] = &mounts.mounts[i];
	qsort(mounts.by_id, mounts.count, sizeof(*mounts.by_id), compare_ids);
	*ret = mounts;
	mounts = (struct mounts){};
	return 0;
}

void mounts_deinit(struct mounts *mounts)
{
	free(mounts->mounts);
	free(mounts->by_id);
	free(mounts->strings);
	*mounts = (struct mounts){};
}

/* Of a place, or with `inside` of what begins with its path and a slash. */
static int compare_to_place(const struct mount *mount, uint64_t parent, const char *path,
			    size_t path_len, bool inside)
{
	if (inside && mount->parent == parent && mount->path_len > path_len &&
	    memcmp(mount->path, path, path_len) == 0)
		return (unsigned char)mount->path[path_len] - '/';
	int order =
		compare_place(mount->parent, mount->path, mount->path_len, parent, path, path_len);

	/* The path itself comes before what is inside. */
	return order || !inside ? order : -1;
}

/* The first mount that does not come before the place. */
static size_t lower_bound(const struct mounts *mounts, uint64_t parent, const char *path,
			  size_t path_len, bool inside)
{
	size_t low = 0, high = mounts->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_to_place(&mounts->mounts[mid], parent, path, path_len, inside) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const struct mount *mount_on(const struct mounts *mounts, uint64_t parent, const char *path,
				    size_t path_len)
{
	const struct mount *found = NULL;

	for (size_t i = lower_bound(mounts, parent, path, path_len, false); i < mounts->count;
	     i++) {
		const struct mount *mount = &mounts->mounts[i];

		if (compare_place(mount->parent, mount->path, mount->path_len, parent, path,
				  path_len) != 0)
			break;
		found = mount;
	}
	return found;
}

const struct mount *mounts_at(const struct mounts *mounts, uint64_t parent, const char *path,
			      size_t path_len)
{
	const struct mount *top = NULL, *next = mount_on(mounts, parent, path, path_len);

	/* One mount on the root of another. A text can tell of a circle, so count. */
	for (size_t i = 0; next && i < mounts->count; i++) {
		top = next;
		next = mount_on(mounts, top->id, path, path_len);
	}
	return top;
}

bool mounts_below(const struct mounts *mounts, uint64_t parent, const char *path, size_t path_len)
{
	/* The root's path ends in the slash that all others need. */
	size_t len = path_len == 1 ? 0 : path_len;
	size_t i = lower_bound(mounts, parent, path, len, true);

	/* A mount on the root itself is none of an entry. */
	while (i < mounts->count && mounts->mounts[i].parent == parent &&
	       mounts->mounts[i].path_len == 1)
		i++;
	return i < mounts->count &&
	       compare_to_place(&mounts->mounts[i], parent, path, len, true) == 0;
}

const struct mount *mounts_by_id(const struct mounts *mounts, uint64_t id)
{
	size_t low = 0, high = mounts->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (mounts->by_id[mid]->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < mounts->count && mounts->by_id[low]->id == id ? mounts->by_id[low] : NULL;
}
