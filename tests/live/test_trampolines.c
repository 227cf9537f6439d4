/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trampolines: images that the kernel builds for each function which programs of the types tracing
 * and LSM are attached to. Here they are attached in every way to functions of the kernel, of a
 * module and of BPF programs, before and after an instance starts.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "core/kernelname.h"

/* The kernel frees an image that is not used any more when every task has been elsewhere. */
#define GONE_SECONDS 60
#define CHURN	     6
/* The kernel's own, of architectures that have no trampolines (yet). */
#define ENOTSUPP 524

/* ---- attaching ---- */

/* Where a program is to be attached. */
struct place {
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
	const char *function; /* as the target is called in `images` */
	uint32_t btf_id;
	int module_btf; /* fd; 0: the kernel's own */
	int prog_fd;	/* of the program that function is in; 0: not in one */
};

/* Loads a program that does nothing and attaches it. Returns its link's fd, or -errno. */
static int attach(const struct place *place)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, 0), INSN_EXIT};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = place->attach,
		    .attach_btf_id = place->btf_id, .attach_prog_fd = place->prog_fd);

	if (place->module_btf) {
		options.attach_prog_fd = 0;
		options.attach_btf_obj_fd = place->module_btf;
	}
	_cleanup_fd_ int prog = bpf_prog_load(place->type, "on_trampoline", "GPL", insns,
					      ARRAY_SIZE(insns), &options);

	if (prog < 0)
		return -errno;
	int link = bpf_raw_tracepoint_open(NULL, prog);

	return link < 0 ? -errno : link;
}

static int must_attach(const struct place *place)
{
	int link = attach(place);

	if (link < 0)
		fail_msg("attaching to %s: %s", place->function, strerror(-link));
	return link;
}

static struct place kernel_place(enum bpf_prog_type type, enum bpf_attach_type attach,
				 const char *function)
{
	/* libbpf looks for bpf_lsm_FUNCTION where it is to be LSM. */
	int id = libbpf_find_vmlinux_btf_id(
		type == BPF_PROG_TYPE_LSM ? function + strlen("bpf_lsm_") : function, attach);

	return (struct place){type, attach, function, id > 0 ? id : 0, 0, 0};
}

static struct place fentry(const char *function)
{
	return kernel_place(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, function);
}

/* Skips the test where this kernel, or these rights, refuse what all of them need. */
static void need_trampolines(void)
{
	static int error = 1;

	if (error == 1) {
		struct place place = fentry("vfs_truncate");
		_cleanup_fd_ int link = place.btf_id ? attach(&place) : -ENOENT;

		error = MIN(link, 0);
	}
	if (error)
		skip_because("fentry is refused here: %s",
			     error == -ENOTSUPP ? "ENOTSUPP" : strerror(-error));
}

/* ---- what ksymfs says of them ---- */

struct image {
	uint64_t addr, size;
	char name[128], target[128];
};

/* Images of bpf/images with this target, up to `size` of them; their number. */
static size_t images_of(const struct ksymfs *fs, const char *target, struct image *ret, size_t size)
{
	_cleanup_free_ char *text = ksymfs_read(fs, NULL, "bpf/images");
	char *cursor = text, *line;
	size_t count = 0;

	while ((line = next_line(&cursor))) {
		struct image image;

		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %127s target=%127s", &image.addr,
			   &image.size, image.name, image.target) != 4)
			fail_msg("no line of images: %s", line);
		if (strcmp(image.target, target) != 0)
			continue;
		assert_true(strncmp(image.name, "bpf_trampoline_", 15) == 0);
		if (count < size)
			ret[count] = image;
		count++;
	}
	return count;
}

/* What addr/ says first of an address; NULL: there is no such file. */
static char *named(const struct ksymfs *fs, uint64_t addr)
{
	struct stat st;

	if (ksymfs_stat(fs, &st, "addr/%" PRIx64, addr) < 0)
		return NULL;
	char *text = ksymfs_read(fs, NULL, "addr/%" PRIx64, addr);

	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void assert_named(const struct ksymfs *fs, const struct image *image, uint64_t offset)
{
	_cleanup_free_ char *line = named(fs, image->addr + offset);
	char expected[256];

	snprintf(expected, sizeof(expected), "%s+%#" PRIx64 "/%#" PRIx64 " [bpf]", image->name,
		 offset, image->size);
	if (!offset)
		snprintf(expected, sizeof(expected), "%s+0x0/%#" PRIx64 " [bpf]", image->name,
			 image->size);
	assert_non_null(line);
	assert_string_equal(line, expected);
}

/* An image's size is the kernel's own, where it can be asked: at its second byte, see facts of %pS.
 */
static void assert_size(const struct image *image)
{
	CLEANUP(kernelname_cleanup) struct kernelname *kernelname = NULL;
	struct kernelname_answer answer;

	if (kernelname_open(&kernelname) < 0) {
		assert_in_range(image->size, 1, 4096);
		return;
	}
	assert_int_equal(kernelname_ask(kernelname, image->addr + 1, &answer), 0);
	assert_string_equal(answer.name, image->name);
	assert_int_equal(answer.size, image->size);
}

/* All that is to be right of an image that is there. */
static void assert_image(const struct ksymfs *fs, const struct image *image)
{
	struct symbol_list list;

	assert_named(fs, image, 0);
	assert_named(fs, image, 1);
	assert_named(fs, image, image->size - 1);
	_cleanup_free_ char *after = named(fs, image->addr + image->size);
	assert_true(!after || strncmp(after, image->name, strlen(image->name)) != 0 ||
		    strstr(after, "+0x0/"));
	_cleanup_free_ char *target = ksymfs_value(fs, "target", "addr/%" PRIx64, image->addr + 1);
	assert_non_null(target);
	assert_string_equal(target, image->target);
	assert_size(image);

	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	/* What a module has freed there is listed too. */
	const struct symbol_row *row = symbol_find(&list, image->name, NULL);
	while (row && row->addr != image->addr)
		row = symbol_find(&list, image->name, row + 1);
	assert_non_null(row);
	assert_string_equal(row->module, "bpf");
	assert_int_equal(row->size, image->size);
	symbol_list_deinit(&list);
}

struct image_wait {
	const struct ksymfs *fs;
	const char *target;
	size_t count;
};

static bool has_images(void *arg)
{
	struct image_wait *wait = arg;
	struct image unused;

	return images_of(wait->fs, wait->target, &unused, 1) == wait->count;
}

static void wait_for_images(const struct ksymfs *fs, const char *target, size_t count)
{
	struct image_wait wait = {fs, target, count};

	if (!wait_until(has_images, &wait, GONE_SECONDS)) {
		run("grep -e %s %s/bpf/images %s/events", target, fs->dir, fs->dir);
		fail_msg("%s does not come to have %zu images", target, count);
	}
}

/* Attached before or after the instance starts, an image is there with its target, and goes. */
static void check_place(const struct ksymfs *fs, const struct place *place)
{
	struct image image;
	int link = must_attach(place);

	assert_int_equal(images_of(fs, place->function, &image, 1), 1);
	assert_image(fs, &image);
	{
		_cleanup_ksymfs_ struct ksymfs *late = ksymfs_start(NULL);
		struct image baseline;

		assert_int_equal(images_of(late, place->function, &baseline, 1), 1);
		assert_int_equal(baseline.addr, image.addr);
		assert_image(late, &baseline);
		close(link);
		wait_for_images(late, place->function, 0);
	}
	wait_for_images(fs, place->function, 0);
	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	char row[192];

	snprintf(row, sizeof(row), " ksym-add %016" PRIx64 " %016" PRIx64 " %s pid=%d ", image.addr,
		 image.size, image.name, getpid());
	assert_int_equal(count_lines_with(events, row), 1);
	snprintf(row, sizeof(row), " ksym-del %016" PRIx64 " %016" PRIx64 " %s", image.addr,
		 image.size, image.name);
	assert_int_equal(count_lines_with(events, row), 1);
}

/* ---- tests ---- */

static void test_kernel_functions(void **state)
{
	const struct {
		enum bpf_prog_type type;
		enum bpf_attach_type attach;
		const char *function;
	} kinds[] = {
		{BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, "vfs_link"},
		{BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, "vfs_symlink"},
		{BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, "security_file_mprotect"},
		{BPF_PROG_TYPE_LSM, BPF_LSM_MAC, "bpf_lsm_file_mprotect"},
	};

	need_trampolines();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct place place =
			kernel_place(kinds[i].type, kinds[i].attach, kinds[i].function);

		assert_int_not_equal(place.btf_id, 0);
		check_place(*state, &place);
	}
}

/* A second program builds a new image of the same name; the first one goes when nobody is in it. */
static void test_second_program(void **state)
{
	struct ksymfs *fs = *state;
	struct place place = fentry("vfs_mknod");
	struct image first, second, last;

	need_trampolines();
	int one = must_attach(&place);
	assert_int_equal(images_of(fs, place.function, &first, 1), 1);
	int two = must_attach(&place);
	wait_for_images(fs, place.function, 1);
	assert_int_equal(images_of(fs, place.function, &second, 1), 1);
	assert_image(fs, &second);
	assert_int_not_equal(first.addr, second.addr);
	/* Where the kernel knows no more than the page, they are equal. */
	assert_true(second.size >= first.size);
	close(one);
	wait_for_images(fs, place.function, 1);
	assert_int_equal(images_of(fs, place.function, &last, 1), 1);
	assert_image(fs, &last);
	assert_true(last.size <= second.size);
	close(two);
	wait_for_images(fs, place.function, 0);
	assert_ksyms_is_kallsyms(fs);
}

/* The BTF id of function i of a program. */
static uint32_t function_type(const struct oracle *oracle, uint32_t i)
{
	const struct bpf_func_info *info = (const void *)((const char *)oracle->func_info +
							  i * oracle->info.func_info_rec_size);

	assert_true(i < oracle->info.nr_func_info);
	return info->type_id;
}

static void test_programs(void **state)
{
	_cleanup_object_ struct bpf_object *object = load_object("calls");
	int prog = object_prog_fd(object, "calls_main");
	struct oracle oracle;
	char target[128];

	need_trampolines();
	oracle_read(prog, &oracle);
	for (uint32_t i = 0; i < oracle.info.nr_func_info; i++) {
		struct btf *btf = btf__new(oracle.btf, oracle.btf_len);
		uint32_t id = function_type(&oracle, i);

		assert_non_null(btf);
		snprintf(target, sizeof(target), "%s",
			 btf__name_by_offset(btf, btf__type_by_id(btf, id)->name_off));
		btf__free(btf);
		struct place place = {.type = BPF_PROG_TYPE_TRACING,
				      .attach = i % 2 ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY,
				      .function = target,
				      .btf_id = id,
				      .prog_fd = prog};
		check_place(*state, &place);
	}
	oracle_deinit(&oracle);
}

static void test_replaced_function(void **state)
{
	_cleanup_object_ struct bpf_object *object = load_object("calls");
	struct ksymfs *fs = *state;
	_cleanup_free_ char *path = NULL;

	need_trampolines();
	assert_true(asprintf(&path, "%s/replace.bpf.o", getenv("KSYMFS_BPF")) > 0);
	struct bpf_object *replacing = bpf_object__open_file(path, NULL);
	assert_non_null(replacing);
	struct bpf_program *replacement =
		bpf_object__find_program_by_name(replacing, "replacement");
	assert_int_equal(bpf_program__set_attach_target(
				 replacement, object_prog_fd(object, "calls_main"), "calls_global"),
			 0);
	assert_int_equal(bpf_object__load(replacing), 0);
	struct bpf_link *link = bpf_program__attach(replacement);
	assert_non_null(link);

	/* It is jumped to: there is no trampoline. Its own function is there like any other. */
	struct image unused;
	assert_int_equal(images_of(fs, "calls_global", &unused, 1), 0);
	assert_ksyms_has_program(fs, bpf_program__fd(replacement));
	_cleanup_free_ char *type = ksymfs_value(fs, "type", "bpf/by-id/%" PRIu32 "/info",
						 prog_id(bpf_program__fd(replacement)));
	assert_string_equal(type, "ext");
	assert_int_equal(run_once(object_prog_fd(object, "calls_main")), 2);
	bpf_link__destroy(link);
	bpf_object__close(replacing);
	assert_ksyms_is_kallsyms(fs);
}

/* Every byte behind a [bpf] symbol is the next one's, or nobody's. */
static void test_ends(void **state)
{
	struct ksymfs *fs = *state;
	struct place place = fentry("vfs_rename");
	struct symbol_list list;
	int progs[8];

	need_trampolines();
	for (size_t i = 0; i < ARRAY_SIZE(progs); i++)
		progs[i] = load_simple("before", 1000 + i);
	_cleanup_fd_ int link = must_attach(&place);
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];
		uint64_t end = row->addr + row->size;

		if (strcmp(row->module, "bpf") != 0)
			continue;
		/* A program of several functions has two names at its first on 5.10. */
		if (i + 1 < list.count && row[1].addr < end &&
		    (row[1].addr != row->addr || row[1].size != row->size))
			fail_msg("%s of %" PRIu64 " bytes at %" PRIx64
				 " reaches over %s at %" PRIx64,
				 row->name, row->size, row->addr, row[1].name, row[1].addr);
		_cleanup_free_ char *line = named(fs, end);
		const struct symbol_row *next = symbol_at(&list, end);

		if (next)
			assert_true(line && strncmp(line, next->name, strlen(next->name)) == 0);
		else
			assert_null(line);
	}
	symbol_list_deinit(&list);
	for (size_t i = 0; i < ARRAY_SIZE(progs); i++)
		close(progs[i]);
}

/* ---- a function of a module ---- */

/* The fd of a loaded module's BTF object; -ENOENT. */
static int module_btf(const char *module)
{
	uint32_t id = 0;

	while (bpf_btf_get_next_id(id, &id) == 0) {
		char name[64] = "";
		struct bpf_btf_info info = {.name = (uintptr_t)name, .name_len = sizeof(name)};
		uint32_t len = sizeof(info);
		_cleanup_fd_ int fd = bpf_btf_get_fd_by_id(id);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && info.kernel_btf &&
		    strcmp(name, module) == 0)
			return take_fd(&fd);
	}
	return -ENOENT;
}

static void test_module_function(void **state)
{
	need_trampolines();
	int r = load_module("dummy", "numdummies=0");

	if (r < 0)
		skip_because("module dummy cannot be loaded: %s", strerror(-r));
	_cleanup_fd_ int fd = module_btf("dummy");

	if (fd < 0) {
		unload_module("dummy");
		skip_because("modules have no BTF");
	}
	struct btf *base = btf__load_vmlinux_btf();
	struct btf *btf = btf__load_module_btf("dummy", base);
	assert_non_null(btf);
	int id = btf__find_by_name_kind(btf, "dummy_xmit", BTF_KIND_FUNC);
	btf__free(btf);
	btf__free(base);
	assert_true(id > 0);
	struct place place = {.type = BPF_PROG_TYPE_TRACING,
			      .attach = BPF_TRACE_FENTRY,
			      .function = "dummy_xmit",
			      .btf_id = id,
			      .module_btf = fd};
	check_place(*state, &place);
	unload_module("dummy");
}

/* ---- churn ---- */

static void test_churn(void **state)
{
	static const char *const functions[] = {"vfs_rmdir", "vfs_mkdir", "vfs_unlink"};
	struct ksymfs *fs = *state;
	struct place places[ARRAY_SIZE(functions)];
	int links[ARRAY_SIZE(functions)][2] = {};
	const char *more = getenv("KSYMFS_CHURN");
	int rounds = more ? atoi(more) : CHURN;

	need_trampolines();
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		places[i] = fentry(functions[i]);
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
			int *link = &links[i][round % 2];

			if (*link)
				close(*link);
			*link = must_attach(&places[i]);
			struct image images[16];
			size_t count = images_of(fs, functions[i], images, ARRAY_SIZE(images));

			assert_in_range(count, 1, ARRAY_SIZE(images));
		}
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		wait_for_images(fs, functions[i], 1);
		close(links[i][0]);
		close(links[i][1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		wait_for_images(fs, functions[i], 0);
	assert_ksyms_is_kallsyms(fs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_functions),
		cmocka_unit_test(test_second_program),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_replaced_function),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_module_function),
		cmocka_unit_test(test_churn),
	};

	return live_run(tests);
}
