/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The probes of one process as files: see usdt_files.h. */
#include "fs/usdt_files.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const struct usdt_text_file {
	const char *name;
	int (*render)(const struct usdt_scan *scan, struct text *text);
} text_files[] = {
	{"notes", usdt_scan_notes},
	{"probes", usdt_scan_probes},
	{"uprobe_events", usdt_scan_uprobe_events},
	{"objects", usdt_scan_objects},
};

static const struct usdt_text_file *find_text_file(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(text_files); i++)
		if (strcmp(text_files[i].name, name) == 0)
			return &text_files[i];
	return NULL;
}

static int scan_owner(const struct usdt_files_owner *owner, struct usdt_scan **ret)
{
	int r = owner->scan(owner->arg, ret);

	return r == -ESRCH ? -ENOENT : r;
}

/* A name of the tree as the provider or probe that it stands for. -ENOENT, -ENOMEM. */
static int real_name(const char *name, char **ret)
{
	_cleanup_free_ char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	int r = unescape_file_name(copy);

	if (r < 0)
		return r == -EINVAL ? -ENOENT : r;
	*ret = take_ptr(copy);
	return 0;
}

/* The real names of providers/PROVIDER[/NAME], and a scan that has them. */
struct probe_path {
	char *provider, *name;
	struct usdt_scan *scan;
};

static void probe_path_deinit(struct probe_path *path)
{
	free(path->provider);
	free(path->name);
	usdt_scan_destroy(path->scan);
}

#define _cleanup_probe_path_ CLEANUP(probe_path_deinit)

static int find_probe_path(const struct usdt_files_owner *owner, const char *const *names,
			   int count, struct probe_path *ret)
{
	if (count < 2 || count > 3 || strcmp(names[0], "providers") != 0)
		return -ENOENT;
	int r = real_name(names[1], &ret->provider);

	if (r == 0 && count == 3)
		r = real_name(names[2], &ret->name);
	if (r == 0)
		r = scan_owner(owner, &ret->scan);
	if (r < 0)
		return r;
	bool there = ret->name ? usdt_scan_has_probe(ret->scan, ret->provider, ret->name)
			       : usdt_scan_has_provider(ret->scan, ret->provider);

	return there ? 0 : -ENOENT;
}

int usdt_files_lookup(const struct usdt_files_owner *owner, const char *const *names, int count,
		      struct view_attr *ret)
{
	_cleanup_probe_path_ struct probe_path path = {};
	bool file = count == 3 || (count == 1 && find_text_file(names[0]));

	*ret = (struct view_attr){
		.kind = file ? VIEW_FILE : VIEW_DIR,
		.generation = file ? VIEW_VOLATILE : 0,
	};
	if (count == 0 || (count == 1 && (file || strcmp(names[0], "providers") == 0)))
		return 0;
	return find_probe_path(owner, names, count, &path);
}

static int list_self(struct view_list *list)
{
	static const struct view_attr file = {.kind = VIEW_FILE, .generation = VIEW_VOLATILE};
	static const struct view_attr dir = {.kind = VIEW_DIR};

	for (size_t i = 0; i < ARRAY_SIZE(text_files); i++) {
		int r = view_list_add(list, text_files[i].name, VIEW_FILE, &file);

		if (r < 0)
			return r;
	}
	return view_list_add(list, "providers", VIEW_DIR, &dir);
}

struct name_taker {
	struct view_list *list;
	struct view_attr attr;
};

static int take_name(void *arg, const char *name)
{
	_cleanup_text_ struct text text = {};
	struct name_taker *taker = arg;

	text_escape_file_name(&text, name, strlen(name));
	/* A longer one is no file name, and would cost the listing. It is in `notes`. */
	if (text.len > NAME_MAX)
		return 0;
	text_putc(&text, '\0');
	if (text.failed)
		return -ENOMEM;
	return view_list_add(taker->list, text.data, taker->attr.kind, &taker->attr);
}

int usdt_files_list(const struct usdt_files_owner *owner, const char *const *names, int count,
		    struct view_list *list)
{
	_cleanup_probe_path_ struct probe_path path = {};
	struct name_taker taker = {.list = list};

	if (count == 0)
		return list_self(list);
	if (count == 1 && strcmp(names[0], "providers") == 0) {
		int r = scan_owner(owner, &path.scan);

		taker.attr.kind = VIEW_DIR;
		return r < 0 ? r : usdt_scan_each_provider(path.scan, take_name, &taker);
	}
	if (count != 2)
		return -ENOTDIR;
	int r = find_probe_path(owner, names, count, &path);

	taker.attr = (struct view_attr){.kind = VIEW_FILE, .generation = VIEW_VOLATILE};
	return r < 0 ? r : usdt_scan_each_name(path.scan, path.provider, take_name, &taker);
}

int usdt_files_render(const struct usdt_files_owner *owner, const char *const *names, int count,
		      struct snapshot **ret)
{
	const struct usdt_text_file *file = count == 1 ? find_text_file(names[0]) : NULL;
	_cleanup_probe_path_ struct probe_path path = {};
	_cleanup_text_ struct text text = {};
	int r;

	if (file) {
		r = scan_owner(owner, &path.scan);
		if (r == 0)
			r = file->render(path.scan, &text);
	} else if (count == 3) {
		r = find_probe_path(owner, names, count, &path);
		if (r == 0)
			r = usdt_scan_probe(path.scan, path.provider, path.name, &text);
	} else {
		r = -EISDIR;
	}
	return r < 0 ? r : text_take_snapshot(&text, ret);
}
