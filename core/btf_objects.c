/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BTF by the kernel's ids of it: see btf.h.
 *
 * Programs of one object file share one BTF and are loaded in a row, so the last one read is
 * remembered. The kernel's own is opened when a name of it is first asked for.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "core/btf.h"

/* BTF_MAX_SIZE, the kernel's own limit for a program's, is 16 MiB. */
#define OBJECT_MAX_BYTES (64 << 20)
#define FIRST_BYTES	 (16 << 10)
/* MODULE_NAME_LEN */
#define OBJECT_NAME_SIZE 64

void btf_objects_deinit(struct btf_objects *objects)
{
	for (size_t i = 0; i < ARRAY_SIZE(objects->modules); i++)
		btf_file_close(objects->modules[i].file);
	btf_file_close(objects->vmlinux);
	blob_unref(objects->last);
}

/* Reads a program's BTF whole, at the second call if it is a large one. */
static int read_object(struct blob_pool *pool, int fd, struct blob **ret)
{
	uint32_t room = FIRST_BYTES;

	for (int attempt = 0; attempt < 2; attempt++) {
		_cleanup_free_ uint8_t *data = malloc(room);
		struct bpf_btf_info info = {.btf = (uintptr_t)data, .btf_size = room};
		uint32_t len = sizeof(info);

		if (!data)
			return -ENOMEM;
		if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
			return -errno;
		if (info.btf_size <= room)
			return blob_intern(pool, data, info.btf_size, ret);
		if (info.btf_size > OBJECT_MAX_BYTES)
			return -EFBIG;
		room = info.btf_size;
	}
	return -EIO;
}

int btf_objects_read(struct btf_objects *objects, uint32_t id, int fd, struct blob **ret)
{
	if (!objects->last || objects->last_id != id) {
		struct blob *blob;
		int r = read_object(objects->pool, fd, &blob);

		if (r < 0)
			return r;
		blob_unref(objects->last);
		objects->last = blob;
		objects->last_id = id;
	}
	*ret = blob_ref(objects->last);
	return 0;
}

/* BTF of the kernel or of a module, opened when it is first asked for. */
static int kernel_file(struct btf_objects *objects, uint32_t id, const char *name,
		       struct btf_file **ret)
{
	if (!objects->vmlinux) {
		int r = btf_file_open("vmlinux", NULL, &objects->vmlinux);

		if (r < 0)
			return r;
	}
	*ret = objects->vmlinux;
	if (strcmp(name, "vmlinux") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(objects->modules); i++) {
		*ret = objects->modules[i].file;
		if (*ret && objects->modules[i].id == id)
			return 0;
	}
	struct btf_module *module =
		&objects->modules[objects->next_module++ % ARRAY_SIZE(objects->modules)];

	btf_file_close(module->file);
	*module = (struct btf_module){.id = id};
	int r = btf_file_open(name, objects->vmlinux, &module->file);

	*ret = module->file;
	return r;
}

static int program_name(struct btf_objects *objects, uint32_t id, int fd, uint32_t type_id,
			char **ret)
{
	CLEANUP(blob_cleanup) struct blob *blob = NULL;
	struct btf_view btf;
	const char *name;
	int r = btf_objects_read(objects, id, fd, &blob);

	if (r == 0)
		r = btf_view_init(&btf, blob->data, blob->len);
	if (r == 0)
		r = btf_view_names(&btf, &type_id, 1, &name);
	if (r < 0)
		return r;
	if (!name || !name[0])
		return -ENOENT;
	*ret = strdup(name);
	return *ret ? 0 : -ENOMEM;
}

int btf_objects_name(struct btf_objects *objects, uint32_t id, uint32_t type_id, char **ret)
{
	_cleanup_fd_ int fd = id ? bpf_btf_get_fd_by_id(id) : -1;
	char name[OBJECT_NAME_SIZE] = "";
	struct bpf_btf_info info = {.name = (uintptr_t)name, .name_len = sizeof(name)};
	uint32_t len = sizeof(info);
	struct btf_file *file;

	if (!id)
		strcpy(name, "vmlinux");
	else if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	else if (!info.kernel_btf)
		return program_name(objects, id, fd, type_id, ret);
	name[sizeof(name) - 1] = '\0';
	int r = kernel_file(objects, id, name, &file);

	return r < 0 ? r : btf_file_name(file, type_id, ret);
}
