/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Readers of /proc/kallsyms and /proc/modules: see kallsyms.h.
 *
 * Both are read in pieces, each line where it lies in the buffer. A line is a row or the whole list
 * is refused, with the line's number: half a list would name addresses wrongly. Nothing is mended,
 * so a list with CRs, blank lines or blanks in names is refused too; the kernel prints none.
 */
#include "core/kallsyms.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"

/* KSYM_NAME_LEN (512 since 6.1) and MODULE_NAME_LEN (64 - 8), without and with their NUL. */
#define NAME_MAX_BYTES	 511
#define MODULE_MAX_BYTES 63

#define READ_SIZE  (64 * 1024)
#define BLOCK_SIZE (64 * 1024)

/* Takes one line, without its newline; -EBADMSG for one that is not a row. */
typedef int line_fn(const char *line, size_t len, void *arg);

/*
 * Hands over the lines of data, the one after the last newline only at the end of all data. Returns
 * how many bytes were used. *number counts lines.
 */
static ssize_t take_lines(const char *data, size_t len, bool at_end, line_fn *take, void *arg,
			  size_t *number)
{
	size_t used = 0;

	while (used < len) {
		const char *line = data + used;
		const char *newline = memchr(line, '\n', len - used);

		if (!newline && !at_end)
			break;

		size_t line_len = newline ? (size_t)(newline - line) : len - used;

		++*number;

		int r = take(line, line_len, arg);

		if (r < 0)
			return r;
		used += line_len + !!newline;
	}
	return used;
}

static int read_lines(int fd, line_fn *take, void *arg, size_t *number)
{
	_cleanup_free_ char *buf = malloc(READ_SIZE);
	size_t len = 0;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = read(fd, buf + len, READ_SIZE - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		len += n;

		ssize_t used = take_lines(buf, len, n == 0, take, arg, number);

		if (used < 0)
			return used;
		if (n == 0)
			return 0;
		len -= used;
		memmove(buf, buf + used, len);
		if (len == READ_SIZE) {
			++*number;
			return -EBADMSG;
		}
	}
}

/* A part of a line that has not been looked at yet. */
struct cursor {
	const char *at, *end;
};

static bool skip_char(struct cursor *cursor, char c)
{
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* 1 to 16 hex digits. */
static bool take_hex(struct cursor *cursor, uint64_t *ret)
{
	uint64_t value = 0;
	int digits = 0;

	for (int v; cursor->at < cursor->end && (v = hex_value(*cursor->at)) >= 0; cursor->at++) {
		if (++digits > 16)
			return false;
		value = value << 4 | v;
	}
	*ret = value;
	return digits > 0;
}

static bool take_decimal(struct cursor *cursor, uint64_t *ret)
{
	const char *start = cursor->at;
	uint64_t value = 0;

	for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *cursor->at - '0', &value))
			return false;
	}
	*ret = value;
	return cursor->at > start;
}

/* A word of at most max bytes, up to the first blank or byte that does not print in ASCII. */
static bool take_word(struct cursor *cursor, size_t max, struct cursor *ret)
{
	ret->at = cursor->at;
	while (cursor->at < cursor->end) {
		unsigned char c = *cursor->at;

		if (c <= ' ' || c == 0x7f)
			break;
		cursor->at++;
	}
	ret->end = cursor->at;
	return ret->at < ret->end && (size_t)(ret->end - ret->at) <= max;
}

/* Strings of a list, all freed at once. */
struct arena {
	struct block *blocks;
	const char *last_module; /* rows of one module stand together */
};

struct block {
	struct block *next;
	size_t used;
	char data[BLOCK_SIZE];
};

static const char *arena_string(struct arena *arena, const struct cursor *string)
{
	size_t len = string->end - string->at;
	struct block *block = arena->blocks;

	if (!block || len + 1 > BLOCK_SIZE - block->used) {
		block = malloc(sizeof(*block));
		if (!block)
			return NULL;
		block->next = arena->blocks;
		block->used = 0;
		arena->blocks = block;
	}

	char *copy = block->data + block->used;

	memcpy(copy, string->at, len);
	copy[len] = '\0';
	block->used += len + 1;
	return copy;
}

static const char *arena_module(struct arena *arena, const struct cursor *string)
{
	size_t len = string->end - string->at;
	const char *last = arena->last_module;

	if (!last || strlen(last) != len || memcmp(last, string->at, len) != 0)
		arena->last_module = arena_string(arena, string);
	return arena->last_module;
}

void kallsyms_deinit(struct kallsyms *list)
{
	struct arena *arena = list->arena;

	if (arena) {
		for (struct block *next, *block = arena->blocks; block; block = next) {
			next = block->next;
			free(block);
		}
		free(arena);
	}
	free(list->symbols);
	*list = (struct kallsyms){};
}

static size_t tag_digits(const char *s)
{
	size_t n = 0;

	while ((s[n] >= '0' && s[n] <= '9') || (s[n] >= 'a' && s[n] <= 'f'))
		n++;
	return n;
}

static const char prog_prefix[] = "bpf_prog_";
#define PROG_PREFIX_LEN (sizeof(prog_prefix) - 1)
#define TAG_DIGITS	16

/* kernel/bpf/core.c bpf_get_prog_name(): bpf_prog_TAG, bpf_prog_TAG_NAME or bpf_prog_TAG_F */
static bool is_prog_name(const char *name)
{
	if (strncmp(name, prog_prefix, PROG_PREFIX_LEN) != 0)
		return false;
	name += PROG_PREFIX_LEN;
	/* A name that begins with hex digits comes behind an underscore, never at once. */
	return tag_digits(name) == TAG_DIGITS && (!name[TAG_DIGITS] || name[TAG_DIGITS] == '_');
}

enum symbol_kind bpf_symbol_kind(const char *name)
{
	if (is_prog_name(name))
		return SYMBOL_BPF_PROG;
	if (strncmp(name, "__cfi_", 6) == 0)
		return SYMBOL_BPF_AUX;
	return SYMBOL_BPF_IMAGE;
}

bool bpf_symbol_tag(const char *name, uint8_t ret_tag[8])
{
	if (!is_prog_name(name))
		return false;
	name += PROG_PREFIX_LEN;
	for (int i = 0; i < TAG_DIGITS / 2; i++)
		ret_tag[i] = hex_value(name[2 * i]) << 4 | hex_value(name[2 * i + 1]);
	return true;
}

static enum symbol_kind kind_of(const char *name, const char *module)
{
	if (!module)
		return SYMBOL_CORE;
	if (strcmp(module, "bpf") == 0)
		return bpf_symbol_kind(name);
	/* kernel/kallsyms.c get_ksymbol_ftrace_mod() and get_ksymbol_kprobe() */
	if (strncmp(module, "__builtin__", 11) == 0)
		return SYMBOL_OUT_OF_LINE;
	return SYMBOL_MODULE;
}

struct row {
	uint64_t addr;
	char type;
	struct cursor name, module; /* module.at is NULL for vmlinux */
};

/* ADDR TYPE NAME[<TAB>[module]] */
static bool parse_row(const char *line, size_t len, struct row *ret)
{
	struct cursor cursor = {line, line + len};

	ret->module = (struct cursor){};
	if (!take_hex(&cursor, &ret->addr) || !skip_char(&cursor, ' '))
		return false;
	if (cursor.at == cursor.end)
		return false;
	ret->type = *cursor.at++;
	/* nm's letters; ? is what the kernel's elf_type() knows no letter for. */
	if (!((ret->type | 0x20) >= 'a' && (ret->type | 0x20) <= 'z') && ret->type != '?' &&
	    ret->type != '-')
		return false;
	if (!skip_char(&cursor, ' ') || !take_word(&cursor, NAME_MAX_BYTES, &ret->name))
		return false;
	if (cursor.at == cursor.end)
		return true;
	if (!skip_char(&cursor, '\t') || !skip_char(&cursor, '[') ||
	    !take_word(&cursor, MODULE_MAX_BYTES + 1, &ret->module) || cursor.at != cursor.end)
		return false;
	ret->module.end--;
	return *ret->module.end == ']' && ret->module.at < ret->module.end;
}

struct kallsyms_reader {
	struct kallsyms *list;
	size_t room;
	bool modules_only;
	bool any, any_visible; /* of all rows, kept or not */
};

static int take_row(const char *line, size_t len, void *arg)
{
	struct kallsyms_reader *reader = arg;
	struct kallsyms *list = reader->list;
	struct row row;

	if (!parse_row(line, len, &row))
		return -EBADMSG;
	reader->any = true;
	reader->any_visible |= row.addr != 0;
	if (reader->modules_only && !row.module.at)
		return 0;

	if (list->count == reader->room) {
		size_t room = MAX(reader->room * 2, (size_t)1024);
		struct symbol *symbols = reallocarray(list->symbols, room, sizeof(*symbols));

		if (!symbols)
			return -ENOMEM;
		list->symbols = symbols;
		reader->room = room;
	}

	struct symbol symbol = {.addr = row.addr, .type = row.type};

	symbol.name = arena_string(list->arena, &row.name);
	if (!symbol.name)
		return -ENOMEM;
	if (row.module.at) {
		symbol.module = arena_module(list->arena, &row.module);
		if (!symbol.module)
			return -ENOMEM;
	}
	symbol.kind = kind_of(symbol.name, symbol.module);
	list->symbols[list->count++] = symbol;
	return 0;
}

/* Where the lines come from: an fd, or memory. */
struct source {
	int fd;
	const char *data; /* NULL: fd */
	size_t len;
};

static int source_lines(const struct source *source, line_fn *take, void *arg, size_t *ret_line)
{
	size_t number = 0;
	ssize_t r = source->data ? take_lines(source->data, source->len, true, take, arg, &number)
				 : read_lines(source->fd, take, arg, &number);

	if (r < 0 && ret_line)
		*ret_line = number;
	return r < 0 ? r : 0;
}

static int kallsyms_from(const struct source *source, bool modules_only, struct kallsyms *ret,
			 size_t *ret_line)
{
	struct kallsyms list = {.arena = calloc(1, sizeof(struct arena))};
	struct kallsyms_reader reader = {.list = &list, .modules_only = modules_only};
	int r = list.arena ? source_lines(source, take_row, &reader, ret_line) : -ENOMEM;

	if (r < 0) {
		kallsyms_deinit(&list);
		return r;
	}
	list.hidden = reader.any && !reader.any_visible;
	*ret = list;
	return 0;
}

int kallsyms_read(int fd, bool modules_only, struct kallsyms *ret, size_t *ret_line)
{
	return kallsyms_from(&(struct source){.fd = fd}, modules_only, ret, ret_line);
}

int kallsyms_parse(const char *data, size_t len, bool modules_only, struct kallsyms *ret,
		   size_t *ret_line)
{
	return kallsyms_from(&(struct source){-1, data ?: "", len}, modules_only, ret, ret_line);
}

void module_list_deinit(struct module_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->modules[i].name);
	free(list->modules);
	*list = (struct module_list){};
}

/* NAME SIZE REFS USERS STATE 0xADDR[ (TAINTS)] */
static bool parse_module(const char *line, size_t len, struct cursor *ret_name,
			 struct module_bound *ret)
{
	struct cursor cursor = {line, line + len}, refs, users, state, taints;

	if (!take_word(&cursor, MODULE_MAX_BYTES, ret_name) || !skip_char(&cursor, ' ') ||
	    !take_decimal(&cursor, &ret->size) || !skip_char(&cursor, ' ') ||
	    !take_word(&cursor, SIZE_MAX, &refs) || !skip_char(&cursor, ' ') ||
	    !take_word(&cursor, SIZE_MAX, &users) || !skip_char(&cursor, ' ') ||
	    !take_word(&cursor, SIZE_MAX, &state) || !skip_char(&cursor, ' ') ||
	    !skip_char(&cursor, '0') || !skip_char(&cursor, 'x') || !take_hex(&cursor, &ret->start))
		return false;
	ret->live = state.end - state.at == 4 && memcmp(state.at, "Live", 4) == 0;
	if (cursor.at == cursor.end)
		return true;
	return skip_char(&cursor, ' ') && take_word(&cursor, SIZE_MAX, &taints) &&
	       cursor.at == cursor.end;
}

struct module_reader {
	struct module_list *list;
	size_t room;
};

static int take_module(const char *line, size_t len, void *arg)
{
	struct module_reader *reader = arg;
	struct module_list *list = reader->list;
	struct module_bound module;
	struct cursor name;

	if (!parse_module(line, len, &name, &module))
		return -EBADMSG;
	if (list->count == reader->room) {
		size_t room = MAX(reader->room * 2, (size_t)64);
		struct module_bound *modules = reallocarray(list->modules, room, sizeof(*modules));

		if (!modules)
			return -ENOMEM;
		list->modules = modules;
		reader->room = room;
	}
	module.name = strndup(name.at, name.end - name.at);
	if (!module.name)
		return -ENOMEM;
	list->modules[list->count++] = module;
	return 0;
}

static int module_list_from(const struct source *source, struct module_list *ret, size_t *ret_line)
{
	struct module_list list = {};
	struct module_reader reader = {.list = &list};
	int r = source_lines(source, take_module, &reader, ret_line);

	if (r < 0) {
		module_list_deinit(&list);
		return r;
	}
	*ret = list;
	return 0;
}

int module_list_read(int fd, struct module_list *ret, size_t *ret_line)
{
	return module_list_from(&(struct source){.fd = fd}, ret, ret_line);
}

int module_list_parse(const char *data, size_t len, struct module_list *ret, size_t *ret_line)
{
	return module_list_from(&(struct source){-1, data ?: "", len}, ret, ret_line);
}

/* The linker's marks that core bounds are made of: include/asm-generic/sections.h. */
enum marker {
	MARKER_TEXT,
	MARKER_STEXT,
	MARKER_ETEXT,
	MARKER_SINITTEXT,
	MARKER_EINITTEXT,
	MARKER_END,
	MARKER_PER_CPU_START,
	MARKER_PER_CPU_END,
	MARKER_COUNT,
};

static const char *const marker_names[MARKER_COUNT] = {
	[MARKER_TEXT] = "_text",
	[MARKER_STEXT] = "_stext",
	[MARKER_ETEXT] = "_etext",
	[MARKER_SINITTEXT] = "_sinittext",
	[MARKER_EINITTEXT] = "_einittext",
	[MARKER_END] = "_end",
	[MARKER_PER_CPU_START] = "__per_cpu_start",
	[MARKER_PER_CPU_END] = "__per_cpu_end",
};

/* What the core rows of a list tell of the kernel's layout. */
struct layout {
	uint64_t marker[MARKER_COUNT];
	bool found[MARKER_COUNT];
	bool has_data;	      /* CONFIG_KALLSYMS_ALL: not of text alone */
	uint64_t first, last; /* addresses in the kernel's half; first 0: none */
};

static void read_layout(const struct kallsyms *list, struct layout *ret)
{
	*ret = (struct layout){};
	for (size_t i = 0; i < list->count; i++) {
		const struct symbol *symbol = &list->symbols[i];

		if (symbol->kind != SYMBOL_CORE)
			continue;
		/* A static variable is never in a list of text alone; marks of sections are. */
		if (symbol->type == 'b')
			ret->has_data = true;
		if (symbol->addr >> 63) {
			ret->first = ret->first ? MIN(ret->first, symbol->addr) : symbol->addr;
			ret->last = MAX(ret->last, symbol->addr);
		}
		if (symbol->name[0] != '_')
			continue;
		for (int k = 0; k < MARKER_COUNT; k++) {
			if (ret->found[k] || symbol->name[1] != marker_names[k][1] ||
			    strcmp(symbol->name, marker_names[k]) != 0)
				continue;
			ret->marker[k] = symbol->addr;
			ret->found[k] = true;
		}
	}
}

static int add_bound(struct symtab *table, uint64_t start, uint64_t end)
{
	int r = start < end ? symtab_add_bound(table, start, end) : 0;

	/* Again, after the list was read again. */
	return r == -EEXIST ? 0 : r;
}

static int add_between(struct symtab *table, const struct layout *layout, enum marker start,
		       enum marker end)
{
	if (!layout->found[start] || !layout->found[end])
		return 0;
	return add_bound(table, layout->marker[start], layout->marker[end]);
}

/*
 * Where kernel/kallsyms.c is_ksym_addr() is true, cut where its get_symbol_pos() ends a symbol:
 * text and init text; with CONFIG_KALLSYMS_ALL all from _stext to _end. Sections of data need no
 * cuts of their own: their marks are symbols of such a list.
 */
int kallsyms_add_core_bounds(const struct kallsyms *list, struct symtab *table)
{
	struct layout layout;
	int r;

	if (list->hidden)
		return 0;
	read_layout(list, &layout);

	/* On arm64 the image's header lies between _text and _stext. */
	enum marker start = layout.found[MARKER_STEXT] ? MARKER_STEXT : MARKER_TEXT;

	if (!layout.found[start] || !layout.found[MARKER_ETEXT])
		return add_bound(table, layout.first, layout.last);
	r = add_between(table, &layout, start, MARKER_ETEXT);
	if (r < 0)
		return r;
	r = add_between(table, &layout, MARKER_SINITTEXT, MARKER_EINITTEXT);
	if (r < 0)
		return r;
	if (layout.has_data) {
		r = add_between(table, &layout, MARKER_ETEXT, MARKER_SINITTEXT);
		if (r < 0)
			return r;
		r = add_between(table, &layout, MARKER_EINITTEXT, MARKER_END);
		if (r < 0)
			return r;
	}
	/* Offsets, where they are not part of the image (x86 up to 6.14). */
	if (layout.found[MARKER_PER_CPU_START] && !(layout.marker[MARKER_PER_CPU_START] >> 63))
		return add_between(table, &layout, MARKER_PER_CPU_START, MARKER_PER_CPU_END);
	return 0;
}
