/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs by id (a tree), by tag and by name (trees of queues) and by age (a queue): progset.h. */
#include "core/progset.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/queue.h>

#include "core/heap.h"
#include "core/text.h"

struct slot;

/*
 * Who stands for a tag: own tag before a subprogram's, loaded before retained. A queue each, of
 * the newest first, so that the first of the first that is not empty does.
 */
enum standing {
	STANDING_OWN_LOADED,
	STANDING_OWN_RETAINED,
	STANDING_SUB_LOADED,
	STANDING_SUB_RETAINED,
	STANDINGS,
};

/* One program under one of its functions' tags. */
struct member {
	struct slot *slot;
	struct tag *tag;
	TAILQ_ENTRY(member) next;
};

TAILQ_HEAD(members, member);

struct tag {
	uint8_t tag[BPF_TAG_SIZE];
	struct members members[STANDINGS];
};

/* What one file name stands for. */
struct name {
	char *file_name;
	TAILQ_HEAD(, slot) slots;
};

struct slot {
	uint32_t id;
	struct prog *prog;
	struct name *name;
	TAILQ_ENTRY(slot) by_name;
	bool retained;
	size_t own_bytes; /* beside the blobs */
	TAILQ_ENTRY(slot) by_age;
	struct member *members;
	size_t member_count;
};

struct progset {
	struct blob_pool *pool;
	void *by_id;   /* tsearch() tree of struct slot */
	void *by_tag;  /* tsearch() tree of struct tag */
	void *by_name; /* tsearch() tree of struct name */
	TAILQ_HEAD(, slot) retained;
	size_t loaded_count, retained_count, tag_count, name_count;
	size_t own_bytes; /* of retained entries */
};

void prog_list_deinit(struct prog_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		prog_unref(list->progs[i]);
	free(list->progs);
	*list = (struct prog_list){};
}

int progset_create(struct blob_pool *pool, struct progset **ret)
{
	struct progset *set = calloc(1, sizeof(*set));

	if (!set)
		return -ENOMEM;
	set->pool = pool;
	TAILQ_INIT(&set->retained);
	*ret = set;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct slot *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

static int compare_tags(const void *a, const void *b)
{
	const struct tag *left = a, *right = b;

	return memcmp(left->tag, right->tag, sizeof(left->tag));
}

static struct slot *find_slot(const struct progset *set, uint32_t id)
{
	struct slot key = {.id = id};
	struct slot **found = tfind(&key, &set->by_id, compare_ids);

	return found ? *found : NULL;
}

static struct tag *find_tag(const struct progset *set, const uint8_t bytes[BPF_TAG_SIZE])
{
	struct tag key;

	memcpy(key.tag, bytes, sizeof(key.tag));
	struct tag **found = tfind(&key, &set->by_tag, compare_tags);

	return found ? *found : NULL;
}

static struct tag *get_tag(struct progset *set, const uint8_t bytes[BPF_TAG_SIZE])
{
	struct tag *tag = find_tag(set, bytes);

	if (tag)
		return tag;
	tag = calloc(1, sizeof(*tag));
	if (!tag)
		return NULL;
	memcpy(tag->tag, bytes, sizeof(tag->tag));
	for (int i = 0; i < STANDINGS; i++)
		TAILQ_INIT(&tag->members[i]);
	if (!tsearch(tag, &set->by_tag, compare_tags)) {
		free(tag);
		return NULL;
	}
	set->tag_count++;
	return tag;
}

static void drop_tag_if_empty(struct progset *set, struct tag *tag)
{
	for (int i = 0; i < STANDINGS; i++)
		if (!TAILQ_EMPTY(&tag->members[i]))
			return;
	tdelete(tag, &set->by_tag, compare_tags);
	set->tag_count--;
	free(tag);
}

static struct members *members_of(const struct member *member)
{
	const struct slot *slot = member->slot;
	bool own = memcmp(slot->prog->tag, member->tag->tag, BPF_TAG_SIZE) == 0;
	enum standing standing = own ? slot->retained ? STANDING_OWN_RETAINED : STANDING_OWN_LOADED
				 : slot->retained ? STANDING_SUB_RETAINED
						  : STANDING_SUB_LOADED;

	return &member->tag->members[standing];
}

static bool is_newer(const struct member *a, const struct member *b)
{
	const struct prog *left = a->slot->prog, *right = b->slot->prog;

	if (left->loaded_mono != right->loaded_mono)
		return left->loaded_mono > right->loaded_mono;
	return left->id > right->id;
}

/* Programs mostly come, and go, in the order of their age or against it: both ends are tried. */
static void insert_member(struct member *member)
{
	struct members *members = members_of(member);
	struct member *other = TAILQ_LAST(members, members);

	if (!other || is_newer(other, member)) {
		TAILQ_INSERT_TAIL(members, member, next);
		return;
	}
	TAILQ_FOREACH(other, members, next)
		if (is_newer(member, other))
			break;
	TAILQ_INSERT_BEFORE(other, member, next);
}

static int join_tag(struct progset *set, struct slot *slot, const uint8_t bytes[BPF_TAG_SIZE])
{
	for (size_t i = 0; i < slot->member_count; i++)
		if (memcmp(slot->members[i].tag->tag, bytes, BPF_TAG_SIZE) == 0)
			return 0;

	struct tag *tag = get_tag(set, bytes);

	if (!tag)
		return -ENOMEM;
	struct member *member = &slot->members[slot->member_count++];

	*member = (struct member){.slot = slot, .tag = tag};
	insert_member(member);
	return 0;
}

int prog_file_name(const struct prog *prog, char **ret)
{
	const char *name = prog->name ?: "";

	for (size_t len = strnlen(name, NAME_MAX);; len--) {
		_cleanup_text_ struct text text = {};

		text_escape_file_name(&text, name, len);
		if (text.failed || text.len <= NAME_MAX)
			return text_take_string(&text, ret);
	}
}

static int compare_names(const void *a, const void *b)
{
	const struct name *left = a, *right = b;

	return strcmp(left->file_name, right->file_name);
}

static struct name *find_name(const struct progset *set, const char *file_name)
{
	struct name key = {.file_name = (char *)file_name};
	struct name **found = tfind(&key, &set->by_name, compare_names);

	return found ? *found : NULL;
}

/* Takes file_name, also on failure. */
static struct name *get_name(struct progset *set, char *file_name)
{
	struct name *name = find_name(set, file_name);

	if (name) {
		free(file_name);
		return name;
	}
	name = calloc(1, sizeof(*name));
	if (name) {
		name->file_name = file_name;
		TAILQ_INIT(&name->slots);
	}
	if (!name || !tsearch(name, &set->by_name, compare_names)) {
		free(file_name);
		free(name);
		return NULL;
	}
	set->name_count++;
	return name;
}

static int join_name(struct progset *set, struct slot *slot)
{
	char *file_name;
	int r = prog_file_name(slot->prog, &file_name);

	if (r < 0)
		return r;
	slot->name = get_name(set, file_name);
	if (!slot->name)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&slot->name->slots, slot, by_name);
	return 0;
}

static void leave_name(struct progset *set, struct slot *slot)
{
	struct name *name = slot->name;

	TAILQ_REMOVE(&name->slots, slot, by_name);
	if (!TAILQ_EMPTY(&name->slots))
		return;
	tdelete(name, &set->by_name, compare_names);
	set->name_count--;
	free(name->file_name);
	free(name);
}

static void free_slot(struct progset *set, struct slot *slot)
{
	if (slot->name)
		leave_name(set, slot);
	for (size_t i = 0; i < slot->member_count; i++) {
		struct tag *tag = slot->members[i].tag;

		TAILQ_REMOVE(members_of(&slot->members[i]), &slot->members[i], next);
		drop_tag_if_empty(set, tag);
	}
	free(slot->members);
	prog_unref(slot->prog);
	free(slot);
}

static size_t string_bytes(const char *string)
{
	return string ? heap_bytes(strlen(string) + 1) : 0;
}

/*
 * All that goes when the program does: small programs are mostly this. Tags and names count in
 * full, though several programs may share them.
 */
static size_t bytes_beside_blobs(const struct slot *slot)
{
	/* A key and two links, as tsearch() has them. */
	const size_t tree_node = heap_bytes(3 * sizeof(void *));
	const struct prog *prog = slot->prog;
	size_t bytes = heap_bytes(sizeof(*slot)) + tree_node + heap_bytes(sizeof(*prog)) +
		       string_bytes(prog->name) + string_bytes(prog->attach_target) +
		       heap_bytes((prog->func_count + 1) * sizeof(slot->members[0])) +
		       slot->member_count * (heap_bytes(sizeof(struct tag)) + tree_node) +
		       heap_bytes(sizeof(*slot->name)) + string_bytes(slot->name->file_name) +
		       tree_node;

	if (prog->func_count)
		bytes += heap_bytes(prog->func_count * sizeof(prog->funcs[0]));
	if (prog->map_count)
		bytes += heap_bytes(prog->map_count * sizeof(prog->maps[0]));
	for (size_t i = 0; i < prog->func_count; i++)
		bytes += string_bytes(prog->funcs[i].symbol) + string_bytes(prog->funcs[i].name);
	return bytes;
}

int progset_add(struct progset *set, struct prog *prog)
{
	if (find_slot(set, prog->id))
		return -EEXIST;
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	slot->id = prog->id;
	slot->prog = prog_ref(prog);
	slot->members = calloc(prog->func_count + 1, sizeof(slot->members[0]));
	int r = slot->members ? join_tag(set, slot, prog->tag) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < prog->func_count; i++)
		r = join_tag(set, slot, prog->funcs[i].tag);
	if (r == 0)
		r = join_name(set, slot);
	if (r == 0 && !tsearch(slot, &set->by_id, compare_ids))
		r = -ENOMEM;
	if (r < 0) {
		free_slot(set, slot);
		return r;
	}
	slot->own_bytes = bytes_beside_blobs(slot);
	set->loaded_count++;
	return 0;
}

struct prog *progset_find(const struct progset *set, uint32_t id)
{
	const struct slot *slot = find_slot(set, id);

	return slot ? slot->prog : NULL;
}

static void count_blobs(const struct prog *prog, void (*count)(struct blob *))
{
	struct blob *const blobs[] = {prog->jited,     prog->xlated,	prog->btf,
				      prog->func_info, prog->line_info, prog->jited_line};

	for (size_t i = 0; i < ARRAY_SIZE(blobs); i++)
		if (blobs[i])
			count(blobs[i]);
}

int progset_unload(struct progset *set, uint32_t id, uint64_t mono, uint64_t unix_ns)
{
	struct slot *slot = find_slot(set, id);

	if (!slot || slot->retained)
		return -ENOENT;
	atomic_store_explicit(&slot->prog->unloaded_unix, unix_ns, memory_order_relaxed);
	atomic_store_explicit(&slot->prog->unloaded_mono, MAX(mono, (uint64_t)1),
			      memory_order_release);
	for (size_t i = 0; i < slot->member_count; i++)
		TAILQ_REMOVE(members_of(&slot->members[i]), &slot->members[i], next);
	slot->retained = true;
	for (size_t i = 0; i < slot->member_count; i++)
		insert_member(&slot->members[i]);
	TAILQ_INSERT_TAIL(&set->retained, slot, by_age);
	count_blobs(slot->prog, blob_retain);
	set->own_bytes += slot->own_bytes;
	set->loaded_count--;
	set->retained_count++;
	return 0;
}

int progset_remove(struct progset *set, uint32_t id)
{
	struct slot *slot = find_slot(set, id);

	if (!slot)
		return -ENOENT;
	tdelete(slot, &set->by_id, compare_ids);
	if (slot->retained) {
		TAILQ_REMOVE(&set->retained, slot, by_age);
		count_blobs(slot->prog, blob_release);
		set->own_bytes -= slot->own_bytes;
		set->retained_count--;
	} else {
		set->loaded_count--;
	}
	free_slot(set, slot);
	return 0;
}

void progset_destroy(struct progset *set)
{
	if (!set)
		return;
	while (set->by_id)
		progset_remove(set, (*(struct slot **)set->by_id)->id);
	free(set);
}

struct prog *progset_oldest_retained(const struct progset *set)
{
	const struct slot *slot = TAILQ_FIRST(&set->retained);

	return slot ? slot->prog : NULL;
}

size_t progset_retained_bytes(const struct progset *set)
{
	return set->own_bytes + blob_pool_retained_bytes(set->pool);
}

size_t progset_loaded(const struct progset *set)
{
	return set->loaded_count;
}

size_t progset_retained(const struct progset *set)
{
	return set->retained_count;
}

static void list_slot(const void *node, VISIT which, void *arg)
{
	struct prog_list *list = arg;
	const struct slot *slot = *(struct slot *const *)node;

	if (which == postorder || which == leaf)
		list->progs[list->count++] = prog_ref(slot->prog);
}

int progset_list(const struct progset *set, struct prog_list *ret)
{
	size_t count = set->loaded_count + set->retained_count;

	*ret = (struct prog_list){.progs = calloc(MAX(count, (size_t)1), sizeof(ret->progs[0]))};
	if (!ret->progs)
		return -ENOMEM;
	twalk_r(set->by_id, list_slot, ret);
	return 0;
}

int progset_of_tag(const struct progset *set, const uint8_t bytes[BPF_TAG_SIZE],
		   struct prog_list *ret)
{
	const struct tag *tag = find_tag(set, bytes);
	const struct member *member;
	size_t count = 0;

	if (!tag)
		return -ENOENT;
	for (int i = 0; i < STANDINGS; i++)
		TAILQ_FOREACH(member, &tag->members[i], next)
			count++;
	*ret = (struct prog_list){.progs = calloc(count, sizeof(ret->progs[0]))};
	if (!ret->progs)
		return -ENOMEM;
	for (int i = 0; i < STANDINGS; i++)
		TAILQ_FOREACH(member, &tag->members[i], next)
			ret->progs[ret->count++] = prog_ref(member->slot->prog);
	return 0;
}

struct prog *progset_standing_for_tag(const struct progset *set, const uint8_t bytes[BPF_TAG_SIZE])
{
	const struct tag *tag = find_tag(set, bytes);

	for (int i = 0; tag && i < STANDINGS; i++)
		if (!TAILQ_EMPTY(&tag->members[i]))
			return TAILQ_FIRST(&tag->members[i])->slot->prog;
	return NULL;
}

int progset_of_file_name(const struct progset *set, const char *file_name, struct prog_list *ret)
{
	const struct name *name = find_name(set, file_name);
	const struct slot *slot;
	size_t count = 0;

	if (!name)
		return -ENOENT;
	TAILQ_FOREACH(slot, &name->slots, by_name) {
		count++;
	}
	*ret = (struct prog_list){.progs = calloc(count, sizeof(ret->progs[0]))};
	if (!ret->progs)
		return -ENOMEM;
	TAILQ_FOREACH(slot, &name->slots, by_name) {
		ret->progs[ret->count++] = prog_ref(slot->prog);
	}
	return 0;
}

static void list_name(const void *node, VISIT which, void *arg)
{
	struct prog_list *list = arg;
	const struct name *name = *(struct name *const *)node;

	if (which == postorder || which == leaf)
		list->progs[list->count++] = prog_ref(TAILQ_FIRST(&name->slots)->prog);
}

int progset_names(const struct progset *set, struct prog_list *ret)
{
	*ret = (struct prog_list){
		.progs = calloc(MAX(set->name_count, (size_t)1), sizeof(ret->progs[0])),
	};
	if (!ret->progs)
		return -ENOMEM;
	twalk_r(set->by_name, list_name, ret);
	return 0;
}

struct tag_list {
	uint8_t (*tags)[BPF_TAG_SIZE];
	size_t count;
};

static void list_tag(const void *node, VISIT which, void *arg)
{
	struct tag_list *list = arg;
	const struct tag *tag = *(struct tag *const *)node;

	if (which == postorder || which == leaf)
		memcpy(list->tags[list->count++], tag->tag, BPF_TAG_SIZE);
}

int progset_tags(const struct progset *set, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count)
{
	struct tag_list list = {.tags = calloc(MAX(set->tag_count, (size_t)1), BPF_TAG_SIZE)};

	if (!list.tags)
		return -ENOMEM;
	twalk_r(set->by_tag, list_tag, &list);
	*ret = list.tags;
	*ret_count = list.count;
	return 0;
}
