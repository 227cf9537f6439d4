/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs by id, by tag, by name and by address (hash tables) and by age (a queue): see progset.h.
 */
#include "core/progset.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/queue.h>

#include "core/carry.h"
#include "core/chains.h"
#include "core/heap.h"
#include "core/progkeep.h"
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
	struct chain_link link; /* first, as in what follows: a link is what it is part of */
	uint8_t tag[BPF_TAG_SIZE];
	struct members members[STANDINGS];
};

/* What one file name stands for. */
struct name {
	struct chain_link link;
	char *file_name;
	TAILQ_HEAD(, slot) slots;
};

/* One that was not captured, by the address of its main function. */
struct missed {
	struct chain_link link;
	struct slot *slot; /* NULL: it is none */
};

struct slot {
	struct chain_link link;
	struct missed missed;
	uint32_t id;
	struct prog *prog;
	struct prog_record *record; /* for a process that takes over; NULL */
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
	struct chains by_id;   /* of struct slot */
	struct chains by_tag;  /* of struct tag */
	struct chains by_name; /* of struct name */
	struct chains by_addr; /* of struct missed */
	TAILQ_HEAD(, slot) retained;
	size_t loaded_count, retained_count;
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
	if (chains_init(&set->by_id) < 0 || chains_init(&set->by_tag) < 0 ||
	    chains_init(&set->by_name) < 0 || chains_init(&set->by_addr) < 0) {
		progset_destroy(set);
		return -ENOMEM;
	}
	*ret = set;
	return 0;
}

static uint64_t hash_id(const struct progset *set, uint32_t id)
{
	return chains_hash(&set->by_id, &id, sizeof(id));
}

static struct slot *find_slot(const struct progset *set, uint32_t id)
{
	struct chain_link *link = chains_find(&set->by_id, hash_id(set, id));

	while (link && ((struct slot *)link)->id != id)
		link = chain_next(link);
	return (struct slot *)link;
}

static uint64_t hash_tag(const struct progset *set, const uint8_t bytes[BPF_TAG_SIZE])
{
	return chains_hash(&set->by_tag, bytes, BPF_TAG_SIZE);
}

static struct tag *find_tag(const struct progset *set, const uint8_t bytes[BPF_TAG_SIZE])
{
	struct chain_link *link = chains_find(&set->by_tag, hash_tag(set, bytes));

	while (link && memcmp(((struct tag *)link)->tag, bytes, BPF_TAG_SIZE) != 0)
		link = chain_next(link);
	return (struct tag *)link;
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
	chains_add(&set->by_tag, &tag->link, hash_tag(set, bytes));
	return tag;
}

static void drop_tag_if_empty(struct progset *set, struct tag *tag)
{
	for (int i = 0; i < STANDINGS; i++)
		if (!TAILQ_EMPTY(&tag->members[i]))
			return;
	chains_remove(&set->by_tag, &tag->link);
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

	if (!other || !is_newer(member, other)) {
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

static uint64_t hash_name(const struct progset *set, const char *file_name)
{
	return chains_hash(&set->by_name, file_name, strlen(file_name));
}

static struct name *find_name(const struct progset *set, const char *file_name)
{
	struct chain_link *link = chains_find(&set->by_name, hash_name(set, file_name));

	while (link && strcmp(((struct name *)link)->file_name, file_name) != 0)
		link = chain_next(link);
	return (struct name *)link;
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
	if (!name) {
		free(file_name);
		return NULL;
	}
	name->file_name = file_name;
	TAILQ_INIT(&name->slots);
	chains_add(&set->by_name, &name->link, hash_name(set, file_name));
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
	chains_remove(&set->by_name, &name->link);
	free(name->file_name);
	free(name);
}

static uint64_t hash_addr(const struct progset *set, uint64_t addr)
{
	return chains_hash(&set->by_addr, &addr, sizeof(addr));
}

static void join_missed(struct progset *set, struct slot *slot)
{
	if (slot->prog->captured || !slot->prog->func_count)
		return;
	slot->missed.slot = slot;
	chains_add(&set->by_addr, &slot->missed.link, hash_addr(set, slot->prog->funcs[0].addr));
}

static void free_slot(struct progset *set, struct slot *slot)
{
	if (slot->missed.slot)
		chains_remove(&set->by_addr, &slot->missed.link);
	if (slot->name)
		leave_name(set, slot);
	for (size_t i = 0; i < slot->member_count; i++) {
		struct tag *tag = slot->members[i].tag;

		TAILQ_REMOVE(members_of(&slot->members[i]), &slot->members[i], next);
		drop_tag_if_empty(set, tag);
	}
	free(slot->members);
	carry_free(slot->record);
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
	const struct prog *prog = slot->prog;
	/* Buckets, of which there are up to two for each that is held. */
	const size_t bucket = 2 * sizeof(void *);
	size_t bytes = heap_bytes(sizeof(*slot)) + bucket + heap_bytes(sizeof(*prog)) +
		       string_bytes(prog->name) + string_bytes(prog->attach_target) +
		       string_bytes(prog->first_symbol) +
		       heap_bytes((prog->func_count + 1) * sizeof(slot->members[0])) +
		       slot->member_count * (heap_bytes(sizeof(struct tag)) + bucket) +
		       heap_bytes(sizeof(*slot->name)) + string_bytes(slot->name->file_name) +
		       bucket + carry_size(slot->record, 0);

	if (prog->func_count)
		bytes += heap_bytes(prog->func_count * sizeof(prog->funcs[0]));
	if (prog->map_count)
		bytes += heap_bytes(prog->map_count * sizeof(prog->maps[0]));
	for (size_t i = 0; i < prog->func_count; i++)
		bytes += string_bytes(prog->funcs[i].symbol) + string_bytes(prog->funcs[i].name);
	return bytes;
}

/* A slot that tags and names lead to, and the id does not yet. */
static int make_slot(struct progset *set, struct prog *prog, bool retained, struct slot **ret)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	slot->id = prog->id;
	slot->retained = retained;
	slot->prog = prog_ref(prog);
	slot->members = calloc(prog->func_count + 1, sizeof(slot->members[0]));
	int r = slot->members ? join_tag(set, slot, prog->tag) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < prog->func_count; i++)
		r = join_tag(set, slot, prog->funcs[i].tag);
	if (r == 0)
		r = join_name(set, slot);
	if (r < 0) {
		free_slot(set, slot);
		return r;
	}
	join_missed(set, slot);
	slot->record = prog_keep(prog);
	slot->own_bytes = bytes_beside_blobs(slot);
	*ret = slot;
	return 0;
}

int progset_add(struct progset *set, struct prog *prog)
{
	struct slot *slot;

	if (find_slot(set, prog->id))
		return -EEXIST;
	int r = make_slot(set, prog, false, &slot);

	if (r < 0)
		return r;
	chains_add(&set->by_id, &slot->link, hash_id(set, slot->id));
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

struct prog *progset_find_missed(const struct progset *set, uint64_t addr, uint64_t freed)
{
	struct chain_link *link = chains_find(&set->by_addr, hash_addr(set, addr));
	struct prog *found = NULL;

	/* Each in its turn was there: the last to come before it was freed is the one. */
	for (; link; link = chain_next(link)) {
		struct prog *prog = ((struct missed *)link)->slot->prog;

		if (prog->funcs[0].addr == addr && prog->loaded_mono <= freed &&
		    (!found || prog->loaded_mono > found->loaded_mono))
			found = prog;
	}
	return found;
}

int progset_unload(struct progset *set, uint32_t id, uint64_t mono, uint64_t unix_ns)
{
	struct slot *slot = find_slot(set, id);

	if (!slot || slot->retained)
		return -ENOENT;
	atomic_store_explicit(&slot->prog->unloaded_unix, unix_ns, memory_order_relaxed);
	atomic_store_explicit(&slot->prog->unloaded_mono, MAX(mono, (uint64_t)1),
			      memory_order_release);
	prog_keep_unload(slot->record, slot->prog);
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

static void remove_slot(struct chain_link *link, void *arg)
{
	struct progset *set = arg;
	struct slot *slot = (struct slot *)link;

	chains_remove(&set->by_id, &slot->link);
	if (slot->retained) {
		TAILQ_REMOVE(&set->retained, slot, by_age);
		count_blobs(slot->prog, blob_release);
		set->own_bytes -= slot->own_bytes;
		set->retained_count--;
	} else {
		set->loaded_count--;
	}
	free_slot(set, slot);
}

int progset_replace(struct progset *set, struct prog *prog)
{
	struct slot *old = find_slot(set, prog->id), *slot;
	int r = old ? make_slot(set, prog, old->retained, &slot) : -ENOENT;

	if (r < 0)
		return r;
	if (slot->retained) {
		TAILQ_INSERT_BEFORE(old, slot, by_age);
		count_blobs(slot->prog, blob_retain);
		set->own_bytes += slot->own_bytes;
		set->retained_count++;
	} else {
		set->loaded_count++;
	}
	remove_slot(&old->link, set);
	chains_add(&set->by_id, &slot->link, hash_id(set, slot->id));
	return 0;
}

int progset_remove(struct progset *set, uint32_t id)
{
	struct slot *slot = find_slot(set, id);

	if (!slot)
		return -ENOENT;
	remove_slot(&slot->link, set);
	return 0;
}

void progset_destroy(struct progset *set)
{
	if (!set)
		return;
	if (set->by_id.buckets)
		chains_visit(&set->by_id, remove_slot, set);
	chains_deinit(&set->by_id);
	chains_deinit(&set->by_tag);
	chains_deinit(&set->by_name);
	chains_deinit(&set->by_addr);
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

static void list_slot(struct chain_link *link, void *arg)
{
	struct prog_list *list = arg;

	list->progs[list->count++] = prog_ref(((struct slot *)link)->prog);
}

static int by_id(const void *a, const void *b)
{
	const struct prog *left = *(struct prog *const *)a, *right = *(struct prog *const *)b;

	return (left->id > right->id) - (left->id < right->id);
}

int progset_list(const struct progset *set, struct prog_list *ret)
{
	*ret = (struct prog_list){
		.progs = calloc(MAX(set->by_id.count, (size_t)1), sizeof(ret->progs[0])),
	};
	if (!ret->progs)
		return -ENOMEM;
	chains_visit(&set->by_id, list_slot, ret);
	qsort(ret->progs, ret->count, sizeof(ret->progs[0]), by_id);
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

struct name_list {
	const struct name **names;
	size_t count;
};

static void list_name(struct chain_link *link, void *arg)
{
	struct name_list *list = arg;

	list->names[list->count++] = (const struct name *)link;
}

static int by_file_name(const void *a, const void *b)
{
	const struct name *left = *(const struct name *const *)a;
	const struct name *right = *(const struct name *const *)b;

	return strcmp(left->file_name, right->file_name);
}

int progset_names(const struct progset *set, struct prog_list *ret)
{
	size_t count = MAX(set->by_name.count, (size_t)1);
	_cleanup_free_ const struct name **names = calloc(count, sizeof(names[0]));
	struct name_list list = {.names = names};

	*ret = (struct prog_list){.progs = calloc(count, sizeof(ret->progs[0]))};
	if (!ret->progs || !names) {
		prog_list_deinit(ret);
		return -ENOMEM;
	}
	chains_visit(&set->by_name, list_name, &list);
	qsort(names, list.count, sizeof(names[0]), by_file_name);
	for (size_t i = 0; i < list.count; i++)
		ret->progs[ret->count++] = prog_ref(TAILQ_FIRST(&names[i]->slots)->prog);
	return 0;
}

struct tag_list {
	uint8_t (*tags)[BPF_TAG_SIZE];
	size_t count;
};

static void list_tag(struct chain_link *link, void *arg)
{
	struct tag_list *list = arg;

	memcpy(list->tags[list->count++], ((const struct tag *)link)->tag, BPF_TAG_SIZE);
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, BPF_TAG_SIZE);
}

int progset_tags(const struct progset *set, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count)
{
	struct tag_list list = {.tags = calloc(MAX(set->by_tag.count, (size_t)1), BPF_TAG_SIZE)};

	if (!list.tags)
		return -ENOMEM;
	chains_visit(&set->by_tag, list_tag, &list);
	qsort(list.tags, list.count, BPF_TAG_SIZE, by_bytes);
	*ret = list.tags;
	*ret_count = list.count;
	return 0;
}
