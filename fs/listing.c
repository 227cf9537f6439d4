/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open directories. A directory is listed when it is opened, and when it is read from its begin
 * once more, and read from that list, so that entries that come and go meanwhile neither repeat nor
 * hide others; an offset is a place in it. The list is one block that outlives the process
 * (core/carry.h).
 *
 * READDIRPLUS counts a lookup for each entry whose attributes it carries. That pays only where the
 * kernel may keep the answer: names that can change are looked up again whatever was said, so for
 * them the entry is a plain one.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "fs/request.h"

struct list_entry {
	enum view_kind kind;
	bool is_fixed;
	size_t name; /* offset into names */
	struct view_attr attr;
};

/* A list as it fills. */
struct view_list {
	struct list_entry *entries;
	size_t count, size;
	struct text names; /* each with its NUL */
};

/* An open directory. The names lie behind the entries. */
struct listing {
	struct handle handle; /* first */
	atomic_bool was_read;
	size_t count;
	size_t names_len;
	struct list_entry entries[];
};

static char *names_of(const struct listing *listing)
{
	return (char *)&listing->entries[listing->count];
}

int view_list_add(struct view_list *list, const char *name, enum view_kind kind,
		  const struct view_attr *attr)
{
	if (list->count == list->size) {
		size_t size = MAX(list->size * 2, (size_t)32);
		struct list_entry *entries = reallocarray(list->entries, size, sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		list->entries = entries;
		list->size = size;
	}
	struct list_entry *entry = &list->entries[list->count];
	*entry = (struct list_entry){.kind = kind, .name = list->names.len};
	if (attr && attr->fixed && kind != VIEW_FOREIGN) {
		entry->is_fixed = true;
		entry->attr = *attr;
	}
	text_append(&list->names, name, strlen(name) + 1);
	if (list->names.failed)
		return -ENOMEM;
	list->count++;
	return 0;
}

static void list_deinit(struct view_list *list)
{
	free(list->entries);
	text_deinit(&list->names);
}

void listing_destroy_handle(struct handle *handle)
{
	carry_free(handle);
}

static struct listing *make_listing(const struct view_list *list)
{
	size_t entries_len = list->count * sizeof(list->entries[0]);
	struct listing *listing = carry_alloc(sizeof(*listing) + entries_len + list->names.len);

	if (!listing)
		return NULL;
	listing->count = list->count;
	listing->names_len = list->names.len;
	if (list->count) {
		memcpy(listing->entries, list->entries, entries_len);
		memcpy(names_of(listing), list->names.data, list->names.len);
	}
	return listing;
}

static bool makes_sense(const struct listing *listing, size_t room)
{
	if (room < sizeof(*listing) ||
	    listing->count > (room - sizeof(*listing)) / sizeof(listing->entries[0]))
		return false;
	room -= sizeof(*listing) + listing->count * sizeof(listing->entries[0]);
	if (listing->names_len > room ||
	    (listing->names_len && names_of(listing)[listing->names_len - 1]))
		return false;
	for (size_t i = 0; i < listing->count; i++)
		if (listing->entries[i].name >= listing->names_len)
			return false;
	return true;
}

bool listing_resume(void *block, size_t room, void *arg)
{
	struct session *session = arg;
	struct listing *listing = block;

	if (!makes_sense(listing, room))
		return false;
	handles_resume(&session->directories, &listing->handle);
	return true;
}

static int list_root(const struct session *session, struct view_list *list)
{
	for (size_t i = 0; i < session->view_count; i++) {
		int r = view_list_add(list, session->views[i].ops->name, session->view_kinds[i],
				      NULL);

		if (r < 0)
			return r;
	}
	return 0;
}

static int list_directory(struct request *request, struct view_list *list)
{
	struct view_attr now;
	int r = request_check_access(request);

	if (r == 0)
		r = request_lookup_node(request, &now);
	if (r < 0)
		return r;
	if (!request->view)
		return list_root(request->session, list);
	if (now.kind != VIEW_DIR)
		return -ENOTDIR;
	return request->view->ops->list(request->view->data, &request->names, &request->caller,
					list);
}

static int new_listing(struct request *request, struct listing **ret)
{
	CLEANUP(list_deinit) struct view_list list = {};
	int r = list_directory(request, &list);

	if (r < 0)
		return r;
	*ret = make_listing(&list);
	return *ret ? 0 : -ENOMEM;
}

void serve_opendir(struct request *request)
{
	struct session *session = request->session;
	struct listing *listing;

	request_undo_open(request);
	int r = new_listing(request, &listing);
	if (r < 0) {
		request_reply_err(request, -r);
		return;
	}
	request->fi.fh = handles_add(&session->directories, &listing->handle, request->unique);
	if (request_reply_open(request) != 0)
		handles_close(&session->directories, request->fi.fh);
}

void serve_releasedir(struct request *request)
{
	handles_close(&request->session->directories, request->fi.fh);
	request_reply_err(request, 0);
}

/* One READDIR's answer as it fills. */
struct answer {
	struct request *request;
	char *data;
	size_t len;
	bool plus;
	/* What was looked up, to be forgotten if the answer does not arrive. */
	uint64_t *looked_up;
	size_t lookup_count;
};

/* False: no room. */
static bool add_plain(struct answer *answer, const char *name, uint64_t ino, mode_t type,
		      uint64_t next_offset)
{
	struct request *request = answer->request;
	size_t room = request->size - answer->len, len;
	char *at = answer->data + answer->len;
	/* Without a node id: only the name, its type and number. */
	struct fuse_entry_param entry = {.attr = {.st_ino = ino, .st_mode = type}};

	if (answer->plus)
		len = fuse_add_direntry_plus(request->fuse, at, room, name, &entry, next_offset);
	else
		len = fuse_add_direntry(request->fuse, at, room, name, &entry.attr, next_offset);
	if (len > room)
		return false;
	answer->len += len;
	return true;
}

/* An entry that the kernel may keep, with its attributes. 0: no room. */
static int add_looked_up(struct answer *answer, const char *name, const char *path,
			 const struct list_entry *list_entry, uint64_t next_offset)
{
	struct request *request = answer->request;
	struct session *session = request->session;
	size_t room = request->size - answer->len;
	struct fuse_entry_param entry;
	struct view_attr attr = list_entry->attr;
	struct node *node;
	uint64_t size;

	/* Asked for its length alone, libfuse writes nothing: no lookup is counted in vain. */
	size_t len = fuse_add_direntry_plus(request->fuse, NULL, 0, name, NULL, 0);
	if (len > room)
		return 0;
	session_complete(session, request->view, &attr);
	int r = node_lookup(session->nodes, path, &attr, request->caller.pid, &node, &size);
	if (r < 0)
		return r;
	request_fill_entry(session, node, &attr, size, &entry);
	fuse_add_direntry_plus(request->fuse, answer->data + answer->len, room, name, &entry,
			       next_offset);
	answer->len += len;
	answer->looked_up[answer->lookup_count++] = node->id;
	node_put(session->nodes, node);
	return 1;
}

static uint64_t parent_ino(const char *path)
{
	const char *slash = strrchr(path, '/');

	return node_ino(path, slash ? slash - path : 0);
}

/* The entry at a place in the listing. 0: no room. */
static int add_at(struct answer *answer, const struct listing *list, uint64_t place)
{
	struct request *request = answer->request;
	char path[PATH_MAX];

	if (place == 0)
		return add_plain(answer, ".", request->node->ino, S_IFDIR, 1);
	if (place == 1)
		return add_plain(answer, "..", parent_ino(request->path), S_IFDIR, 2);
	const struct list_entry *entry = &list->entries[place - 2];
	const char *name = names_of(list) + entry->name;
	int len = snprintf(path, sizeof(path), "%s%s%s", request->path, request->path[0] ? "/" : "",
			   name);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	/* Of a file nobody is told that its size is 0 who has not asked (node.h). */
	if (answer->plus && entry->is_fixed && entry->kind != VIEW_FILE)
		return add_looked_up(answer, name, path, entry, place + 1);
	return add_plain(answer, name, node_ino(path, len), view_kind_type(entry->kind), place + 1);
}

static void read_list(struct request *request, const struct listing *list, bool plus)
{
	struct session *session = request->session;
	_cleanup_free_ char *data = malloc(request->size);
	/* An entry with attributes has a fixed part of more than 128 bytes. */
	_cleanup_free_ uint64_t *looked_up = calloc(request->size / 128 + 1, sizeof(*looked_up));
	struct answer answer = {
		.request = request,
		.plus = plus,
		.data = data,
		.looked_up = looked_up,
	};
	int r = 1;

	if (!data || !looked_up) {
		request_reply_err(request, ENOMEM);
		return;
	}
	for (uint64_t place = request->offset; place < list->count + 2 && r > 0; place++)
		r = add_at(&answer, list, place);
	if (r < 0 && !answer.len)
		r = request_reply_err(request, -r);
	else
		r = request_reply_buf(request, data, answer.len);
	for (size_t i = 0; r != 0 && i < answer.lookup_count; i++)
		node_forget(session->nodes, looked_up[i], 1);
}

/* rewinddir(3): what is there now, or, where that cannot be had, what was. */
static void rewind_list(struct request *request)
{
	struct listing *listing;

	if (new_listing(request, &listing) < 0)
		return;
	listing->was_read = true;
	if (!handles_replace(&request->session->directories, request->fi.fh, &listing->handle))
		listing_destroy_handle(&listing->handle);
}

static void serve_list(struct request *request, bool plus)
{
	struct handles *directories = &request->session->directories;
	struct handle *handle = handles_get(directories, request->fi.fh);

	if (handle && request->offset == 0 &&
	    atomic_exchange(&((struct listing *)handle)->was_read, true)) {
		handles_put(directories, handle);
		rewind_list(request);
		handle = handles_get(directories, request->fi.fh);
	}
	if (!handle) {
		request_reply_err(request, ESTALE);
		return;
	}
	read_list(request, (struct listing *)handle, plus);
	handles_put(directories, handle);
}

void serve_readdir(struct request *request)
{
	serve_list(request, false);
}

void serve_readdirplus(struct request *request)
{
	serve_list(request, true);
}
