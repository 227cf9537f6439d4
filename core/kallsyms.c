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

/* Where the lines come from: an fd, or memory. */
struct source {
	int fd;
	const char *data; /* NULL: fd */
	size_t len;
};

/* Takes one line, with a NUL for its newline; -EBADMSG for one that is not a row. */
typedef int line_fn(char *line, size_t len, void *arg);
/* Lines are about to be overwritten. */
typedef int flush_fn(void *arg);

static ssize_t source_read(struct source *source, char *buf, size_t size)
{
	if (source->data) {
		size_t len = MIN(size, source->len);

		memcpy(buf, source->data, len);
		source->data += len;
		source->len -= len;
		return len;
	}
	for (;;) {
		ssize_t n = read(source->fd, buf, size);

		if (n >= 0 || errno != EINTR)
			return n < 0 ? -errno : n;
	}
}

/*
 * Hands over the lines of data, the one after the last newline only at the end of all data, when
 * there is room for a NUL behind it. Returns how many bytes were used. *number counts lines.
 */
static ssize_t take_lines(char *data, size_t len, bool at_end, line_fn *take, void *arg,
			  size_t *number)
{
	size_t used = 0;

	while (used < len) {
		char *line = data + used;
		const char *newline = memchr(line, '\n', len - used);

		if (!newline && !at_end)
			break;

		size_t line_len = newline ? (size_t)(newline - line) : len - used;

		++*number;
		line[line_len] = '\0';

		int r = take(line, line_len, arg);

		if (r < 0)
			return r;
		used += line_len + !!newline;
	}
	return used;
}

static int read_lines(struct source *source, line_fn *take, flush_fn *flush, void *arg,
		      size_t *number)
{
	_cleanup_free_ char *buf = malloc(READ_SIZE + 1);
	size_t len = 0;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = source_read(source, buf + len, READ_SIZE - len);

		if (n < 0)
			return n;
		len += n;

		ssize_t used = take_lines(buf, len, n == 0, take, arg, number);

		if (used < 0)
			return used;

		int r = flush ? flush(arg) : 0;

		if (r < 0 || n == 0)
			return r;
		len -= used;
		memmove(buf, buf + used, len);
		if (len == READ_SIZE) {
			++*number;
			return -EBADMSG;
		}
	}
}

static int source_lines(struct source source, line_fn *take, flush_fn *flush, void *arg,
			size_t *ret_line)
{
	size_t number = 0;
	int r = read_lines(&source, take, flush, arg, &number);

	if (r < 0 && ret_line)
		*ret_line = number;
	return r;
}

/* A part of a line that has not been looked at yet. */
struct cursor {
	char *at, *end;
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

/*
 * A word of at most max bytes, up to the first blank. Names may have any other byte: as calls its
 * local labels `.L14\0022` and `.L14\0011`, and modules for arm64 are shipped with them.
 */
static bool take_word(struct cursor *cursor, size_t max, struct cursor *ret)
{
	ret->at = cursor->at;
	while (cursor->at < cursor->end) {
		unsigned char c = *cursor->at;

		if (c == ' ' || (c >= '\t' && c <= '\r') || c == '\0')
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

static const char *arena_string(struct arena *arena, const char *string)
{
	size_t len = strlen(string);
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

	memcpy(copy, string, len + 1);
	block->used += len + 1;
	return copy;
}

static const char *arena_module(struct arena *arena, const char *string)
{
	if (!arena->last_module || strcmp(arena->last_module, string) != 0)
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

const char *bpf_symbol_name(const char *name)
{
	bool has_name = is_prog_name(name) && name[PROG_PREFIX_LEN + TAG_DIGITS] == '_';

	return has_name ? name + PROG_PREFIX_LEN + TAG_DIGITS + 1 : NULL;
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

/* ADDR TYPE NAME[<TAB>[module]], into which NULs are put: behind the name and the module. */
static bool parse_row(char *line, size_t len, struct symbol *ret)
{
	struct cursor cursor = {line, line + len}, name, module;

	*ret = (struct symbol){};
	if (!take_hex(&cursor, &ret->addr) || !skip_char(&cursor, ' '))
		return false;
	if (cursor.at == cursor.end)
		return false;
	ret->type = *cursor.at++;
	/* nm's letters; ? is what the kernel's elf_type() knows no letter for. */
	if (!((ret->type | 0x20) >= 'a' && (ret->type | 0x20) <= 'z') && ret->type != '?' &&
	    ret->type != '-')
		return false;
	if (!skip_char(&cursor, ' ') || !take_word(&cursor, NAME_MAX_BYTES, &name))
		return false;
	ret->name = name.at;
	if (cursor.at < cursor.end) {
		if (!skip_char(&cursor, '\t') || !skip_char(&cursor, '[') ||
		    !take_word(&cursor, MODULE_MAX_BYTES + 1, &module) || cursor.at != cursor.end)
			return false;
		module.end--;
		if (*module.end != ']' || module.at == module.end)
			return false;
		*name.end = *module.end = '\0';
		ret->module = module.at;
	}
	ret->kind = kind_of(ret->name, ret->module);
	return true;
}

/* Rows that lie in one buffer, and who takes them. */
struct row_reader {
	struct symbol *rows;
	size_t count, room;
	kallsyms_take_fn *take;
	void *arg;
	bool any, any_visible; /* of all rows */
};

static int take_row(char *line, size_t len, void *arg)
{
	struct row_reader *reader = arg;

	if (reader->count == reader->room) {
		size_t room = MAX(reader->room * 2, (size_t)256);
		struct symbol *rows = reallocarray(reader->rows, room, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		reader->rows = rows;
		reader->room = room;
	}
	struct symbol *row = &reader->rows[reader->count];

	if (!parse_row(line, len, row))
		return -EBADMSG;
	reader->any = true;
	reader->any_visible |= row->addr != 0;
	/*
	 * What a module takes from others is not its own: the kernel lists that while it is loaded,
	 * where it is defined (kernel/module/main.c simplify_symbols()).
	 */
	if (row->kind != SYMBOL_MODULE || row->type != 'U')
		reader->count++;
	return 0;
}

static int flush_rows(void *arg)
{
	struct row_reader *reader = arg;
	size_t count = reader->count;

	reader->count = 0;
	return count ? reader->take(reader->rows, count, reader->arg) : 0;
}

static int visit_source(struct source source, kallsyms_take_fn *take, void *arg, bool *ret_hidden,
			size_t *ret_line)
{
	struct row_reader reader = {.take = take, .arg = arg};
	int r = source_lines(source, take_row, flush_rows, &reader, ret_line);

	free(reader.rows);
	*ret_hidden = reader.any && !reader.any_visible;
	return r;
}

int kallsyms_visit(int fd, kallsyms_take_fn *take, void *arg, bool *ret_hidden, size_t *ret_line)
{
	return visit_source((struct source){.fd = fd}, take, arg, ret_hidden, ret_line);
}

int kallsyms_keep(struct kallsyms *list, const struct symbol *symbol)
{
	struct symbol copy = *symbol;

	if (!list->arena)
		list->arena = calloc(1, sizeof(struct arena));
	if (!list->arena)
		return -ENOMEM;
	if (list->count == list->room) {
		size_t room = MAX(list->room * 2, (size_t)256);
		struct symbol *symbols = reallocarray(list->symbols, room, sizeof(*symbols));

		if (!symbols)
			return -ENOMEM;
		list->symbols = symbols;
		list->room = room;
	}
	copy.name = arena_string(list->arena, symbol->name);
	if (!copy.name)
		return -ENOMEM;
	if (symbol->module) {
		copy.module = arena_module(list->arena, symbol->module);
		if (!copy.module)
			return -ENOMEM;
	}
	list->symbols[list->count++] = copy;
	return 0;
}

/* A list that is read whole, or that of its modules' rows. */
struct whole {
	struct kallsyms list;
	bool modules_only;
};

static int keep_rows(struct symbol *rows, size_t count, void *arg)
{
	struct whole *whole = arg;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		if (!whole->modules_only || rows[i].module)
			r = kallsyms_keep(&whole->list, &rows[i]);
	return r;
}

static int kallsyms_from(struct source source, bool modules_only, struct kallsyms *ret,
			 size_t *ret_line)
{
	struct whole whole = {.modules_only = modules_only};
	int r = visit_source(source, keep_rows, &whole, &whole.list.hidden, ret_line);

	if (r < 0) {
		kallsyms_deinit(&whole.list);
		return r;
	}
	*ret = whole.list;
	return 0;
}

int kallsyms_read(int fd, bool modules_only, struct kallsyms *ret, size_t *ret_line)
{
	return kallsyms_from((struct source){.fd = fd}, modules_only, ret, ret_line);
}

int kallsyms_parse(const char *data, size_t len, bool modules_only, struct kallsyms *ret,
		   size_t *ret_line)
{
	return kallsyms_from((struct source){-1, data ?: "", len}, modules_only, ret, ret_line);
}

void module_list_deinit(struct module_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->modules[i].name);
	free(list->modules);
	*list = (struct module_list){};
}

/* NAME SIZE REFS USERS STATE 0xADDR[ (TAINTS)] */
static bool parse_module(char *line, size_t len, struct cursor *ret_name, struct module_bound *ret)
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

static int take_module(char *line, size_t len, void *arg)
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

static int module_list_from(struct source source, struct module_list *ret, size_t *ret_line)
{
	struct module_list list = {};
	struct module_reader reader = {.list = &list};
	int r = source_lines(source, take_module, NULL, &reader, ret_line);

	if (r < 0) {
		module_list_deinit(&list);
		return r;
	}
	*ret = list;
	return 0;
}

int module_list_read(int fd, struct module_list *ret, size_t *ret_line)
{
	return module_list_from((struct source){.fd = fd}, ret, ret_line);
}

int module_list_parse(const char *data, size_t len, struct module_list *ret, size_t *ret_line)
{
	return module_list_from((struct source){-1, data ?: "", len}, ret, ret_line);
}
