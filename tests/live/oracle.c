/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel itself says: prog_info of a held fd, and /proc/kallsyms; and the comparisons of
 * the tree with them.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>

/* Strangers load programs between our two readings of kallsyms: try again. */
#define REST_TRIES 40
/* The kernel was the same before and after, and yet: a program can come and go in between. */
#define SAME_TRIES  3
#define SHOWN_LINES 5

/* ---- prog_info ---- */

/* An array for the kernel to fill, one element at least, so that a pointer is never NULL. */
static void *array(size_t count, size_t size)
{
	void *data = calloc(count ? count : 1, size);

	assert_non_null(data);
	return data;
}

static void read_btf(uint32_t id, struct oracle *ret)
{
	struct bpf_btf_info info = {0};
	uint32_t len = sizeof(info);
	_cleanup_fd_ int fd = bpf_btf_get_fd_by_id(id);

	assert_return_code(fd, errno);
	assert_return_code(bpf_obj_get_info_by_fd(fd, &info, &len), errno);
	ret->btf_len = info.btf_size;
	ret->btf = array(info.btf_size, 1);
	info = (struct bpf_btf_info){.btf = (uintptr_t)ret->btf, .btf_size = ret->btf_len};
	assert_return_code(bpf_obj_get_info_by_fd(fd, &info, &len), errno);
}

void oracle_read(int prog_fd, struct oracle *ret)
{
	struct bpf_prog_info info = {0}, counts;
	uint32_t len = sizeof(info);

	assert_return_code(bpf_obj_get_info_by_fd(prog_fd, &info, &len), errno);
	counts = info;
	*ret = (struct oracle){
		.ksyms = array(info.nr_jited_ksyms, sizeof(*ret->ksyms)),
		.func_lens = array(info.nr_jited_func_lens, sizeof(*ret->func_lens)),
		.tags = array(info.nr_prog_tags, sizeof(*ret->tags)),
		.map_ids = array(info.nr_map_ids, sizeof(*ret->map_ids)),
		.jited = array(info.jited_prog_len, 1),
		.xlated = array(info.xlated_prog_len, 1),
		.func_info = array(info.nr_func_info, info.func_info_rec_size),
		.line_info = array(info.nr_line_info, info.line_info_rec_size),
		.jited_line_info = array(info.nr_jited_line_info, sizeof(*ret->jited_line_info)),
	};
	memset(&info, 0, sizeof(info));
	info.jited_ksyms = (uintptr_t)ret->ksyms;
	info.nr_jited_ksyms = counts.nr_jited_ksyms;
	info.jited_func_lens = (uintptr_t)ret->func_lens;
	info.nr_jited_func_lens = counts.nr_jited_func_lens;
	info.prog_tags = (uintptr_t)ret->tags;
	info.nr_prog_tags = counts.nr_prog_tags;
	info.map_ids = (uintptr_t)ret->map_ids;
	info.nr_map_ids = counts.nr_map_ids;
	info.jited_prog_insns = (uintptr_t)ret->jited;
	info.jited_prog_len = counts.jited_prog_len;
	info.xlated_prog_insns = (uintptr_t)ret->xlated;
	info.xlated_prog_len = counts.xlated_prog_len;
	info.func_info = (uintptr_t)ret->func_info;
	info.nr_func_info = counts.nr_func_info;
	info.func_info_rec_size = counts.func_info_rec_size;
	info.line_info = (uintptr_t)ret->line_info;
	info.nr_line_info = counts.nr_line_info;
	info.line_info_rec_size = counts.line_info_rec_size;
	info.jited_line_info = (uintptr_t)ret->jited_line_info;
	info.nr_jited_line_info = counts.nr_jited_line_info;
	info.jited_line_info_rec_size = counts.jited_line_info_rec_size;
	assert_return_code(bpf_obj_get_info_by_fd(prog_fd, &info, &len), errno);

	info.jited_ksyms = info.jited_func_lens = info.prog_tags = info.map_ids = 0;
	info.jited_prog_insns = info.xlated_prog_insns = 0;
	info.func_info = info.line_info = info.jited_line_info = 0;
	ret->info = info;
	tag_text(info.tag, ret->tag);
	if (info.btf_id)
		read_btf(info.btf_id, ret);
}

int oracle_read_id(uint32_t id, struct oracle *ret)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(id);

	if (fd < 0)
		return -errno;
	oracle_read(fd, ret);
	return 0;
}

void oracle_deinit(struct oracle *oracle)
{
	free(oracle->ksyms);
	free(oracle->func_lens);
	free(oracle->tags);
	free(oracle->map_ids);
	free(oracle->jited);
	free(oracle->xlated);
	free(oracle->func_info);
	free(oracle->line_info);
	free(oracle->jited_line_info);
	free(oracle->btf);
}

uint32_t prog_id(int prog_fd)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	assert_return_code(bpf_obj_get_info_by_fd(prog_fd, &info, &len), errno);
	return info.id;
}

uint32_t *all_prog_ids(size_t *ret_count)
{
	size_t count = 0, capacity = 256;
	uint32_t *ids = array(capacity, sizeof(*ids)), id = 0;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		if (count == capacity) {
			capacity *= 2;
			ids = realloc(ids, capacity * sizeof(*ids));
			assert_non_null(ids);
		}
		ids[count++] = id;
	}
	assert_int_equal(errno, ENOENT);
	*ret_count = count;
	return ids;
}

void tag_text(const uint8_t tag[BPF_TAG_SIZE], char ret[2 * BPF_TAG_SIZE + 1])
{
	for (int i = 0; i < BPF_TAG_SIZE; i++)
		sprintf(ret + 2 * i, "%02x", tag[i]);
}

/* ---- symbols ---- */

/* Cuts `HEX` off *cursor up to and with the byte `end`. */
static bool take_hex(char **cursor, char end, uint64_t *ret)
{
	char *stop;

	if (!isxdigit((unsigned char)**cursor))
		return false;
	*ret = strtoull(*cursor, &stop, 16);
	if (*stop != end)
		return false;
	*cursor = stop + 1;
	return true;
}

static bool parse_row(char *line, bool has_size, struct symbol_row *ret)
{
	char *cursor = line;

	if (strspn(line, "0123456789abcdef") != 16 || !take_hex(&cursor, ' ', &ret->addr))
		return false;
	if (has_size &&
	    (strspn(cursor, "0123456789abcdef") != 16 || !take_hex(&cursor, ' ', &ret->size)))
		return false;
	if (cursor[0] == '\0' || cursor[1] != ' ' || cursor[2] == '\0')
		return false;
	ret->type = cursor[0];
	ret->name = cursor + 2;
	ret->module = "";
	char *tab = strchr(cursor + 2, '\t');
	if (!tab)
		return true;
	size_t len = strlen(tab);
	if (len < 4 || tab[1] != '[' || tab[len - 1] != ']')
		return false;
	*tab = tab[len - 1] = '\0';
	ret->module = tab + 2;
	return true;
}

/* Undoes ksyms' \ooo, in place. */
static void unescape(char *name)
{
	char *to = name;
	unsigned int byte;

	for (const char *from = name; *from; to++) {
		int len = 0;

		if (*from == '\\' && sscanf(from, "\\%3o%n", &byte, &len) == 1 && len == 4) {
			*to = byte;
			from += len;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

static void parse(char *text, bool has_size, struct symbol_list *ret)
{
	size_t capacity = count_lines_with(text, "");
	char *cursor = text, *line;

	*ret = (struct symbol_list){
		.text = text,
		.rows = array(capacity, sizeof(*ret->rows)),
	};
	while ((line = next_line(&cursor))) {
		if (!parse_row(line, has_size, &ret->rows[ret->count]))
			fail_msg("line %zu is no symbol: %s", ret->count + 1, line);
		if (has_size)
			unescape(ret->rows[ret->count].name);
		ret->count++;
	}
}

void ksyms_parse(char *text, struct symbol_list *ret)
{
	parse(text, true, ret);
}

void kallsyms_parse(char *text, struct symbol_list *ret)
{
	parse(text, false, ret);
}

void symbol_list_deinit(struct symbol_list *list)
{
	free(list->rows);
	free(list->text);
}

static int compare_addr(const void *a, const void *b)
{
	const struct symbol_row *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* qsort() is not stable; names still lie in the order of their lines. */
	return x->name < y->name ? -1 : 1;
}

void symbol_list_sort(struct symbol_list *list)
{
	qsort(list->rows, list->count, sizeof(*list->rows), compare_addr);
}

const struct symbol_row *symbol_find(const struct symbol_list *list, const char *name,
				     const struct symbol_row *from)
{
	for (const struct symbol_row *row = from ? from : list->rows;
	     row < list->rows + list->count; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

const struct symbol_row *symbol_at(const struct symbol_list *list, uint64_t addr)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->rows[middle].addr < addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->count && list->rows[low].addr == addr ? &list->rows[low] : NULL;
}

/* ---- ksyms against kallsyms ---- */

/* Does prog_info list a function of exactly this range? kallsyms leaves out unprivileged ones. */
static bool is_function_of_a_program(const struct symbol_row *row)
{
	size_t count;
	_cleanup_free_ uint32_t *ids = all_prog_ids(&count);
	bool found = false;

	for (size_t i = 0; i < count && !found; i++) {
		struct oracle oracle;

		if (oracle_read_id(ids[i], &oracle))
			continue;
		for (uint32_t f = 0; f < oracle.info.nr_jited_ksyms && !found; f++)
			found = oracle.ksyms[f] == row->addr && oracle.func_lens[f] == row->size;
		oracle_deinit(&oracle);
	}
	return found;
}

static bool rows_equal(const struct symbol_row *a, const struct symbol_row *b)
{
	return a->addr == b->addr && a->type == b->type && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->module, b->module) == 0;
}

static void describe(const char *who, const struct symbol_row *row)
{
	fprintf(stderr, "# only in %s: %016" PRIx64 " %c %s [%s]\n", who, row->addr, row->type,
		row->name, row->module);
}

/* How many rows differ; with `show` the first ones are said. */
static size_t count_differences(const struct symbol_list *ours, const struct symbol_list *kernels,
				bool show)
{
	size_t i = 0, k = 0, count = 0;

	while (i < ours->count || k < kernels->count) {
		const struct symbol_row *a = i < ours->count ? &ours->rows[i] : NULL;
		const struct symbol_row *b = k < kernels->count ? &kernels->rows[k] : NULL;

		if (a && b && rows_equal(a, b)) {
			i++;
			k++;
			continue;
		}
		bool is_ours = a && (!b || a->addr <= b->addr);
		if (is_ours) {
			i++;
			if (strcmp(a->module, "bpf") == 0 && is_function_of_a_program(a))
				continue;
		}
		if (!is_ours || (b && a->addr == b->addr))
			k++;
		if (show && count < SHOWN_LINES) {
			if (is_ours)
				describe("ksyms", a);
			if (!is_ours || (b && a->addr == b->addr))
				describe("kallsyms", b);
		}
		count++;
	}
	return count;
}

void assert_ksyms_is_kallsyms(const struct ksymfs *fs)
{
	size_t differences = 0;

	for (int tries = 0, same = 0; tries < REST_TRIES && same < SAME_TRIES; tries++) {
		size_t before_len, after_len;
		_cleanup_free_ char *before = read_path("/proc/kallsyms", &before_len);
		char *ours = ksymfs_read(fs, NULL, "ksyms");
		_cleanup_free_ char *after = read_path("/proc/kallsyms", &after_len);

		if (before_len != after_len || memcmp(before, after, before_len)) {
			free(ours);
			continue;
		}
		struct symbol_list kernels, mine;

		same++;
		ksyms_parse(ours, &mine);
		kallsyms_parse(take_ptr(before), &kernels);
		symbol_list_sort(&kernels);
		differences = count_differences(&mine, &kernels, same == SAME_TRIES);
		symbol_list_deinit(&mine);
		symbol_list_deinit(&kernels);
		if (differences == 0)
			return;
	}
	if (differences)
		fail_msg("ksyms and /proc/kallsyms differ in %zu rows", differences);
	fail_msg("/proc/kallsyms never stood still in %d readings", REST_TRIES);
}

void assert_ksyms_has_program(const struct ksymfs *fs, int prog_fd)
{
	struct symbol_list list;
	struct oracle oracle;

	oracle_read(prog_fd, &oracle);
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	for (uint32_t i = 0; i < oracle.info.nr_jited_ksyms; i++) {
		const struct symbol_row *row = symbol_at(&list, oracle.ksyms[i]);

		if (!row)
			fail_msg("program %u: no symbol at %#" PRIx64, oracle.info.id,
				 (uint64_t)oracle.ksyms[i]);
		assert_string_equal(row->module, "bpf");
		assert_int_equal(row->size, oracle.func_lens[i]);
	}
	symbol_list_deinit(&list);
	oracle_deinit(&oracle);
}
