/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The support itself, against the kernel alone: each kind of program that live tests count on
 * loads here, and the oracle sees it. When this fails, the machine and not ksymfs is the cause.
 */
#include "tests/live/support.h"

static void read_kallsyms(struct symbol_list *ret)
{
	kallsyms_parse(read_path("/proc/kallsyms", NULL), ret);
	symbol_list_sort(ret);
}

static void test_subprogram_shares_a_tag(void **state)
{
	_cleanup_fd_ int main_fd = load_with_subprogram("support_main", 5, 77);
	_cleanup_fd_ int own_fd = load_simple("support_own", 77);
	struct oracle with, own;

	oracle_read(main_fd, &with);
	oracle_read(own_fd, &own);
	assert_int_equal(with.info.nr_jited_ksyms, 2);
	assert_int_equal(with.info.nr_prog_tags, 2);
	assert_memory_equal(with.tags[1], own.info.tag, BPF_TAG_SIZE);
	assert_int_equal(run_once(main_fd), 82);
	oracle_deinit(&with);
	oracle_deinit(&own);
}

static void test_twins_share_a_tag(void **state)
{
	_cleanup_fd_ int map1 = make_map("support_1", 8), map2 = make_map("support_2", 8);
	_cleanup_fd_ int prog1 = load_twin("support_t", map1), prog2 = load_twin("support_t", map2);
	struct oracle first, second;

	oracle_read(prog1, &first);
	oracle_read(prog2, &second);
	assert_string_equal(first.tag, second.tag);
	assert_int_equal(first.info.jited_prog_len, second.info.jited_prog_len);
	assert_memory_not_equal(first.jited, second.jited, first.info.jited_prog_len);
	oracle_deinit(&first);
	oracle_deinit(&second);
}

static void test_unprivileged_is_not_in_kallsyms(void **state)
{
	_cleanup_fd_ int hidden = load_unprivileged(4711), shown = load_simple("support_s", 4712);
	struct oracle oracle;
	struct symbol_list list;

	read_kallsyms(&list);
	oracle_read(hidden, &oracle);
	assert_null(symbol_at(&list, oracle.ksyms[0]));
	assert_string_equal(oracle.info.name, "");
	oracle_deinit(&oracle);
	oracle_read(shown, &oracle);
	assert_non_null(symbol_at(&list, oracle.ksyms[0]));
	oracle_deinit(&oracle);
	symbol_list_deinit(&list);
}

static void test_objects(void **state)
{
	static const struct {
		const char *object, *prog;
		unsigned int functions;
	} cases[] = {
		{"calls", "calls_main", 4},
		{"longname", "sixteen_bytes_xy", 1},
		{"iter", "iter_maps", 1},
		{"throw", "throw_if_long", 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!kernel_has_calls_of(cases[i].object))
			continue;
		_cleanup_object_ struct bpf_object *object = load_object(cases[i].object);
		struct oracle oracle;

		oracle_read(object_prog_fd(object, cases[i].prog), &oracle);
		assert_int_equal(oracle.info.nr_jited_func_lens, cases[i].functions);
		assert_true(oracle.info.nr_line_info > 0);
		assert_int_equal(oracle.info.nr_line_info, oracle.info.nr_jited_line_info);
		assert_true(oracle.btf_len > 0);
		oracle_deinit(&oracle);
	}
}

static void test_images(void **state)
{
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	_cleanup_object_ struct bpf_object *object = load_object("xdp");
	struct symbol_list list;

	run_through_xdp_dispatcher(object_prog_fd(object, "xdp_sort"));
	read_kallsyms(&list);
	if (kernel_has_struct_ops_symbols())
		assert_non_null(symbol_find(&list, "bpf__tcp_congestion_ops_ssthresh", NULL));
	assert_non_null(symbol_find(&list, "bpf_dispatcher_xdp", NULL));
	symbol_list_deinit(&list);
	congestion_ops_detach(take_ptr(ops));
	/* The name is free again at once. */
	ops = congestion_ops_attach();
}

static void test_sample_holds_the_program(void **state)
{
	_cleanup_object_ struct bpf_object *object = load_object("sample");
	uint64_t before = monotonic_ns();
	struct sample sample;
	struct oracle oracle;
	bool found = false;

	take_sample(object, &sample);
	assert_in_range(sample.time, before, monotonic_ns());
	oracle_read(object_prog_fd(object, "sample_self"), &oracle);
	for (int i = 0; i < sample.len / 8; i++)
		found |= sample.stack[i] - oracle.ksyms[0] < oracle.func_lens[0];
	assert_true(found);
	oracle_deinit(&oracle);
}

static void test_ids_hold_the_program(void **state)
{
	_cleanup_fd_ int prog = load_long("support_long", 1, 3000);
	size_t count;
	_cleanup_free_ uint32_t *ids = all_prog_ids(&count);
	struct oracle oracle;
	bool found = false;

	for (size_t i = 0; i < count; i++)
		found |= ids[i] == prog_id(prog);
	assert_true(found);
	assert_int_equal(oracle_read_id(prog_id(prog), &oracle), 0);
	assert_true(oracle.info.jited_prog_len > 3000);
	oracle_deinit(&oracle);
	assert_int_equal(oracle_read_id(UINT32_MAX - 1, &oracle), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_subprogram_shares_a_tag),
		cmocka_unit_test(test_twins_share_a_tag),
		cmocka_unit_test(test_unprivileged_is_not_in_kallsyms),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_sample_holds_the_program),
		cmocka_unit_test(test_ids_hold_the_program),
	};

	return live_run_bare(tests);
}
