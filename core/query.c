/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tracker's answers: snapshots, referenced programs and copies, made under the lock. */
#include "core/clock.h"
#include "core/tracker_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/btf.h"

static const enum kstate_part parts[] = {
	[TRACKER_SYMBOLS] = KSTATE_SYMBOLS,
	[TRACKER_PROGRAMS] = KSTATE_PROGRAMS,
	[TRACKER_IMAGES] = KSTATE_IMAGES,
};

uint64_t tracker_generation(struct tracker *tracker, enum tracker_part part)
{
	LOCKED(&tracker->lock);
	return tracker->state.parts[parts[part]].generation;
}

uint64_t tracker_changed_unix(struct tracker *tracker, enum tracker_part part)
{
	LOCKED(&tracker->lock);
	return tracker->state.parts[parts[part]].changed_unix;
}

int tracker_ksyms(struct tracker *tracker, enum symtab_format format, struct snapshot **ret)
{
	LOCKED(&tracker->lock);
	if (tracker->state.hidden)
		return -EACCES;
	return symtab_render(tracker->state.symbols, format, ret);
}

struct named {
	const char *name;
	uint64_t addr;
};

static int match_core_name(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct named *wanted = arg;

	if (symbol->kind != SYMBOL_CORE || strcmp(symbol->name, wanted->name) != 0)
		return 0;
	wanted->addr = symbol->addr;
	return 1;
}

int tracker_core_address(struct tracker *tracker, const char *name, uint64_t *ret)
{
	struct named wanted = {.name = name};

	LOCKED(&tracker->lock);
	if (tracker->state.hidden)
		return -EACCES;
	if (!symtab_visit(tracker->state.symbols, 0, match_core_name, &wanted))
		return -ENOENT;
	*ret = wanted.addr;
	return 0;
}

static int copy_string(const char *string, char **ret)
{
	*ret = string ? strdup(string) : NULL;
	return string && !*ret ? -ENOMEM : 0;
}

void tracker_answer_deinit(struct tracker_answer *answer)
{
	free(answer->symbol);
	free(answer->module);
	for (size_t i = 0; i < answer->alias_count; i++)
		free(answer->aliases[i]);
	free(answer->aliases);
	prog_unref(answer->prog);
	free(answer->target);
	*answer = (struct tracker_answer){};
}

static int answer_symbol(struct tracker *tracker, const struct symbol *symbol, uint64_t size,
			 struct tracker_answer *ret)
{
	struct prog *prog =
		symbol->prog_id ? progset_find(tracker->state.programs, symbol->prog_id) : NULL;

	ret->addr = symbol->addr;
	ret->size = size;
	ret->freed = symbol->kind == SYMBOL_FREED;
	ret->prog = prog ? prog_ref(prog) : NULL;
	if (symbol->kind == SYMBOL_BPF_IMAGE)
		ret->target = tracker_image_target(tracker, symbol->name);
	int r = copy_string(symbol->name, &ret->symbol);

	return r < 0 ? r : copy_string(symbol->module, &ret->module);
}

static int answer_aliases(struct tracker *tracker, const struct symtab_hit *hit,
			  struct tracker_answer *ret)
{
	ret->aliases = calloc(hit->aliases + 1, sizeof(ret->aliases[0]));
	if (!ret->aliases)
		return -ENOMEM;
	for (size_t i = 0; i < hit->aliases; i++) {
		const struct symbol *alias = symtab_alias(tracker->state.symbols, hit, i);

		ret->aliases[i] = strdup(alias->name);
		if (!ret->aliases[i])
			return -ENOMEM;
		ret->alias_count++;
	}
	return 0;
}

static int resolve(struct tracker *tracker, uint64_t addr, uint64_t time,
		   struct tracker_answer *ret)
{
	struct symtab_hit hit;

	if (tracker->state.hidden)
		return -EACCES;
	int r = kstate_resolve(&tracker->state, addr, time, &hit);

	/* Of the future nobody knows, but of what never goes. */
	if (r == 0 && time != TRACKER_NOW && time > monotonic_ns() &&
	    hit.symbol->kind != SYMBOL_CORE)
		return -ENOENT;
	if (r == 0)
		r = answer_symbol(tracker, hit.symbol, hit.size, ret);
	return r < 0 ? r : answer_aliases(tracker, &hit, ret);
}

int tracker_resolve(struct tracker *tracker, uint64_t addr, uint64_t time,
		    struct tracker_answer *ret)
{
	LOCKED(&tracker->lock);
	*ret = (struct tracker_answer){};
	int r = resolve(tracker, addr, time, ret);

	if (r < 0)
		tracker_answer_deinit(ret);
	return r;
}

int tracker_programs(struct tracker *tracker, struct prog_list *ret)
{
	LOCKED(&tracker->lock);
	return progset_list(tracker->state.programs, ret);
}

int tracker_program(struct tracker *tracker, uint32_t id, struct prog **ret)
{
	LOCKED(&tracker->lock);
	struct prog *prog = progset_find(tracker->state.programs, id);

	if (!prog)
		return -ENOENT;
	*ret = prog_ref(prog);
	return 0;
}

int tracker_programs_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			    struct prog_list *ret)
{
	LOCKED(&tracker->lock);
	return progset_of_tag(tracker->state.programs, tag, ret);
}

int tracker_program_of_tag(struct tracker *tracker, const uint8_t tag[BPF_TAG_SIZE],
			   struct prog **ret)
{
	LOCKED(&tracker->lock);
	struct prog *prog = progset_standing_for_tag(tracker->state.programs, tag);

	if (!prog)
		return -ENOENT;
	*ret = prog_ref(prog);
	return 0;
}

int tracker_programs_of_file_name(struct tracker *tracker, const char *file_name,
				  struct prog_list *ret)
{
	LOCKED(&tracker->lock);
	return progset_of_file_name(tracker->state.programs, file_name, ret);
}

int tracker_program_names(struct tracker *tracker, struct prog_list *ret)
{
	LOCKED(&tracker->lock);
	return progset_names(tracker->state.programs, ret);
}

int tracker_tags(struct tracker *tracker, uint8_t (**ret)[BPF_TAG_SIZE], size_t *ret_count)
{
	LOCKED(&tracker->lock);
	return progset_tags(tracker->state.programs, ret, ret_count);
}

void tracker_image_list_deinit(struct tracker_image_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->images[i].symbol);
		free(list->images[i].target);
	}
	free(list->images);
	*list = (struct tracker_image_list){};
}

struct image_walk {
	struct tracker *tracker;
	struct tracker_image_list *list;
	size_t size;
};

static int list_image(const struct symbol *symbol, uint64_t size, void *arg)
{
	struct image_walk *walk = arg;
	struct tracker_image_list *list = walk->list;

	if (symbol->kind != SYMBOL_BPF_IMAGE)
		return 0;
	if (list->count == walk->size) {
		size_t more = MAX(walk->size * 2, (size_t)16);
		struct tracker_image *images =
			reallocarray(list->images, more, sizeof(list->images[0]));

		if (!images)
			return -ENOMEM;
		list->images = images;
		walk->size = more;
	}
	list->images[list->count++] = (struct tracker_image){
		.addr = symbol->addr,
		.size = size,
		.symbol = strdup(symbol->name),
		.target = tracker_image_target(walk->tracker, symbol->name),
	};
	return list->images[list->count - 1].symbol ? 0 : -ENOMEM;
}

int tracker_images(struct tracker *tracker, struct tracker_image_list *ret)
{
	LOCKED(&tracker->lock);
	struct image_walk walk = {.tracker = tracker, .list = ret};

	*ret = (struct tracker_image_list){};
	if (tracker->state.hidden)
		return -EACCES;
	int r = symtab_visit(tracker->state.symbols, 0, list_image, &walk);

	if (r < 0)
		tracker_image_list_deinit(ret);
	return r;
}

void tracker_events_span(struct tracker *tracker, struct eventlog_span *ret)
{
	eventlog_span(tracker->state.events, ret);
}

ssize_t tracker_events_read(struct tracker *tracker, uint64_t offset, void *buf, size_t len)
{
	return eventlog_read(tracker->state.events, offset, buf, len);
}

void tracker_events_add(struct tracker *tracker, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	{
		LOCKED(&tracker->lock);
		kstate_vlog(&tracker->state, monotonic_ns(), format, args);
	}
	va_end(args);
	if (tracker->options.events_grew)
		tracker->options.events_grew(tracker->options.arg);
}

/* The name of a function in a program's own BTF. */
static int program_type_name(const struct prog *prog, uint32_t type_id, char **ret)
{
	struct btf_view btf;
	const char *name = NULL;

	if (!prog->btf)
		return -ENOENT;
	int r = btf_view_init(&btf, prog->btf->data, prog->btf->len);

	if (r == 0)
		r = btf_view_names(&btf, &type_id, 1, &name);
	if (r < 0)
		return r;
	return name && name[0] ? copy_string(name, ret) : -ENOENT;
}

/*
 * bpf_trampoline_KEY[_N]: the key is btf_obj_id << 32 | 0x80000000 | btf_id for a function of the
 * kernel, prog_id << 32 | btf_id for a BPF program; on 5.10 a kernel function's is the bare btf_id
 * (bpf_trampoline_compute_key()).
 */
char *tracker_image_target(struct tracker *tracker, const char *name)
{
	static const char prefix[] = "bpf_trampoline_";
	char *end, *target = NULL;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return NULL;
	errno = 0;
	uint64_t key = strtoull(name + sizeof(prefix) - 1, &end, 10);
	uint32_t high = key >> 32, low = key;

	if (errno || end == name + sizeof(prefix) - 1 || (*end && *end != '_'))
		return NULL;
	if (high && !(low & 0x80000000)) {
		const struct prog *prog = progset_find(tracker->state.programs, high);

		if (prog)
			program_type_name(prog, low, &target);
		return target;
	}
	prog_btf_name(tracker->reader, high, low & 0x7fffffff, &target);
	return target;
}
