/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of one program, bpf/TAG/ID/: one table, a line a file. All but the two that ask the
 * kernel when they are read (holders, stats) come from what was captured at the load, so they are
 * the same before and after the unload.
 */
#include <errno.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "core/holders.h"
#include "fs/view_bpf.h"

void bpf_tag_name(const uint8_t tag[BPF_TAG_SIZE], char ret[BPF_TAG_NAME])
{
	for (int i = 0; i < BPF_TAG_SIZE; i++)
		snprintf(ret + 2 * i, 3, "%02x", tag[i]);
}

void bpf_write_path(struct text *text, const struct prog *prog)
{
	char tag[BPF_TAG_NAME];

	bpf_tag_name(prog->tag, tag);
	text_printf(text, "bpf/%s/%" PRIu32, tag, prog->id);
}

void bpf_write_name(struct text *text, const char *name)
{
	if (name && *name)
		text_escape(text, name, strlen(name));
	else
		text_putc(text, '-');
}

const char *bpf_state(const struct prog *prog)
{
	return prog_is_loaded(prog) ? "loaded" : "unloaded";
}

void bpf_write_type(struct text *text, const struct prog *prog)
{
	const char *name = prog->captured ? prog_type_name(prog->info.type) : NULL;

	if (prog->captured && !name)
		text_printf(text, "type_%" PRIu32, prog->info.type);
	else
		bpf_write_name(text, name);
}

void bpf_write_jited_bytes(struct text *text, const struct prog *prog)
{
	uint64_t bytes = 0;

	/* Where the image could not be read, records may have told of its functions. */
	if (prog->jited)
		bytes = prog->jited->len;
	else
		for (size_t i = 0; i < prog->func_count; i++)
			bytes += prog->funcs[i].len;
	if (bytes || prog->jited_state == PROG_PART_NONE)
		text_printf(text, "%" PRIu64, bytes);
	else
		text_putc(text, '-');
}

void bpf_write_loader_pid(struct text *text, const struct prog *prog)
{
	if (prog->loader_pid)
		text_printf(text, "%" PRIu32, prog->loader_pid);
	else
		text_putc(text, '-');
}

/* Reasons. */

const char *bpf_part_missing(enum prog_part_state state, const char *none)
{
	switch (state) {
	case PROG_PART_OK:
		return NULL;
	case PROG_PART_NONE:
		return none;
	case PROG_PART_FORBIDDEN:
		return "the kernel does not show it (capabilities, kptr_restrict, bpf_jit_harden)";
	case PROG_PART_GONE:
		return "the program was unloaded before it could be read";
	case PROG_PART_FAILED:
		return "reading it failed, see error";
	}
	return "reading it failed";
}

static const char *blob_missing(enum prog_part_state state, const struct blob *blob,
				const char *none)
{
	return state == PROG_PART_OK && (!blob || !blob->len) ? none
							      : bpf_part_missing(state, none);
}

const char *bpf_jited_missing(const struct prog *prog)
{
	return blob_missing(prog->jited_state, prog->jited, "the program is not JITed");
}

const char *bpf_xlated_missing(const struct prog *prog)
{
	return blob_missing(prog->xlated_state, prog->xlated, "the kernel keeps none");
}

const char *bpf_btf_missing(const struct prog *prog)
{
	return blob_missing(prog->btf_state, prog->btf, "the program was loaded without BTF");
}

/* Without an image there are no functions, which makes an empty list; hidden ones make none. */
static const char *ksyms_missing(const struct prog *prog)
{
	return prog->func_count || prog->jited_state == PROG_PART_NONE
		       ? NULL
		       : bpf_part_missing(prog->jited_state, NULL);
}

static const char *maps_missing(const struct prog *prog)
{
	return prog->captured ? NULL : bpf_part_missing(PROG_PART_GONE, NULL);
}

/* Renderers. */

static int render_blob(const struct blob *blob, struct snapshot **ret)
{
	return snapshot_copy(blob->data, blob->len, ret);
}

static int render_jited(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	return render_blob(prog->jited, ret);
}

static int render_xlated(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	return render_blob(prog->xlated, ret);
}

static int render_btf(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	return render_blob(prog->btf, ret);
}

static int compare_funcs(const void *a, const void *b)
{
	const struct prog_func *const *x = a, *const *y = b;

	return (*x)->addr < (*y)->addr ? -1 : (*x)->addr > (*y)->addr;
}

static int render_ksyms(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_free_ const struct prog_func **funcs =
		calloc(MAX(prog->func_count, (size_t)1), sizeof(*funcs));
	_cleanup_text_ struct text text = {};

	if (!funcs)
		return -ENOMEM;
	for (size_t i = 0; i < prog->func_count; i++)
		funcs[i] = &prog->funcs[i];
	qsort(funcs, prog->func_count, sizeof(*funcs), compare_funcs);
	for (size_t i = 0; i < prog->func_count; i++) {
		text_hex16(&text, funcs[i]->addr);
		text_putc(&text, ' ');
		text_hex16(&text, funcs[i]->len);
		text_puts(&text, " t ");
		bpf_write_name(&text, funcs[i]->symbol);
		text_puts(&text, "\t[bpf]\n");
	}
	return text_take_snapshot(&text, ret);
}

static int render_maps(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};

	for (size_t i = 0; i < prog->map_count; i++) {
		const struct prog_map *map = &prog->maps[i];
		const char *type = map_type_name(map->type);

		text_printf(&text, "%" PRIu32 " ", map->id);
		if (type)
			text_puts(&text, type);
		else
			text_printf(&text, "type_%" PRIu32, map->type);
		text_putc(&text, ' ');
		bpf_write_name(&text, map->name);
		text_printf(&text, " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", map->key_size,
			    map->value_size, map->max_entries);
	}
	return text_take_snapshot(&text, ret);
}

static int render_holders(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};

	if (prog_is_loaded(prog)) {
		int r = holders_write(prog, &text);

		if (r < 0)
			return r;
	}
	return text_take_snapshot(&text, ret);
}

/* The kernel keeps these while the program is loaded: after, they are not known. */
static int render_stats(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};
	struct prog_stats stats;
	int r = prog_is_loaded(prog) ? prog_read_stats(prog->id, &stats) : -ENOENT;

	if (r == -ENOENT)
		text_puts(&text, "run_cnt: -\nrun_time_ns: -\nrecursion_misses: -\n");
	else if (r == -EPERM)
		return -EACCES;
	else if (r < 0)
		return r;
	else
		text_printf(&text,
			    "run_cnt: %" PRIu64 "\nrun_time_ns: %" PRIu64
			    "\nrecursion_misses: %" PRIu64 "\n",
			    stats.run_cnt, stats.run_time_ns, stats.recursion_misses);
	return text_take_snapshot(&text, ret);
}

/* What only a captured program tells; `-` for others. */
static void write_captured(struct text *text, const struct prog *prog, const char *key,
			   uint64_t value)
{
	if (prog->captured)
		text_printf(text, "%s: %" PRIu64 "\n", key, value);
	else
		text_printf(text, "%s: -\n", key);
}

static void write_identity(struct text *text, const struct prog *prog)
{
	char tag[BPF_TAG_NAME];

	/* Asked once, so that the two lines agree. */
	if (prog_is_loaded(prog)) {
		text_puts(text, "state: loaded\nunloaded_at: -");
	} else {
		text_puts(text, "state: unloaded\nunloaded_at: ");
		text_seconds(text, atomic_load(&prog->unloaded_unix));
	}
	bpf_tag_name(prog->tag, tag);
	text_printf(text, "\nid: %" PRIu32 "\ntag: %s\ntype: ", prog->id, tag);
	bpf_write_type(text, prog);
	text_puts(text, "\nname: ");
	bpf_write_name(text, prog->name);
	text_puts(text, "\nloaded_at: ");
	text_seconds(text, prog->loaded_unix);
	text_puts(text, "\nloader_pid: ");
	bpf_write_loader_pid(text, prog);
	text_puts(text, "\nloader_comm: ");
	bpf_write_name(text, prog->loader_comm);
	text_putc(text, '\n');
}

static void write_sha256(struct text *text, const struct prog *prog)
{
	char hex[SHA256_DIGEST_STRING_LENGTH];

	if (bpf_jited_missing(prog))
		strcpy(hex, "-");
	else
		SHA256Data(prog->jited->data, prog->jited->len, hex);
	text_printf(text, "sha256: %s\n", hex);
}

static int render_info(struct tracker *tracker, struct prog *prog, struct snapshot **ret)
{
	_cleanup_text_ struct text text = {};

	write_identity(&text, prog);
	write_captured(&text, prog, "uid", prog->info.created_by_uid);
	write_captured(&text, prog, "gpl_compatible", prog->info.gpl_compatible);
	write_captured(&text, prog, "xlated_bytes", prog->info.xlated_prog_len);
	text_puts(&text, "jited_bytes: ");
	bpf_write_jited_bytes(&text, prog);
	text_putc(&text, '\n');
	write_captured(&text, prog, "verified_insns", prog->info.verified_insns);
	text_printf(&text, "functions: %zu\n", prog->func_count);
	for (size_t i = 0; i < prog->map_count; i++)
		text_printf(&text, "map_id: %" PRIu32 "\n", prog->maps[i].id);
	if (prog->info.btf_id)
		text_printf(&text, "btf_id: %" PRIu32 "\n", prog->info.btf_id);
	else
		text_puts(&text, "btf_id: -\n");
	text_puts(&text, "attach_target: ");
	bpf_write_name(&text, prog->attach_target);
	text_putc(&text, '\n');
	write_sha256(&text, prog);
	bpf_write_line_counts(&text, prog);
	if (prog->error)
		text_printf(&text, "error: %s\n", strerrordesc_np(-prog->error) ?: "unknown");
	for (size_t i = 0; i < bpf_file_count; i++) {
		const char *reason = bpf_files[i].missing ? bpf_files[i].missing(prog) : NULL;

		if (reason)
			text_printf(&text, "missing: %s: %s\n", bpf_files[i].name, reason);
	}
	return text_take_snapshot(&text, ret);
}

const struct bpf_file bpf_files[] = {
	{"info", BPF_FILE_AT_UNLOAD, false, NULL, render_info},
	{"holders", BPF_FILE_ALWAYS, true, NULL, render_holders},
	{"stats", BPF_FILE_ALWAYS, false, NULL, render_stats},
	{"jited", BPF_FILE_NEVER, false, bpf_jited_missing, render_jited},
	{"xlated", BPF_FILE_NEVER, false, bpf_xlated_missing, render_xlated},
	{"xlated.txt", BPF_FILE_NEVER, false, bpf_xlated_missing, bpf_render_xlated_txt},
	{"ksyms", BPF_FILE_NEVER, false, ksyms_missing, render_ksyms},
	{"lines", BPF_FILE_NEVER, false, bpf_lines_missing, bpf_render_lines},
	{"source", BPF_FILE_NEVER, false, bpf_source_missing, bpf_render_source},
	{"asm", BPF_FILE_NEVER, false, bpf_asm_missing, bpf_render_asm},
	{"elf", BPF_FILE_NEVER, false, bpf_elf_missing, bpf_render_elf},
	{"btf", BPF_FILE_NEVER, false, bpf_btf_missing, render_btf},
	{"maps", BPF_FILE_NEVER, false, maps_missing, render_maps},
};
const size_t bpf_file_count = ARRAY_SIZE(bpf_files);

bool bpf_has_file(const struct prog *prog, const struct bpf_file *file)
{
	return !file->missing || !file->missing(prog);
}

const struct bpf_file *bpf_find_file(const struct prog *prog, const char *name)
{
	for (size_t i = 0; i < bpf_file_count; i++) {
		if (strcmp(bpf_files[i].name, name) == 0)
			return bpf_has_file(prog, &bpf_files[i]) ? &bpf_files[i] : NULL;
	}
	return NULL;
}
