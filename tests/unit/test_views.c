/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The views that are not trees: README, status, metrics, ksyms, kallsyms, addr. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <cmocka.h>

#include "fake_tracker.h"

static struct tracker tracker;
static struct view views[3];
static size_t view_count;
static const dev_t not_mounted;
static const struct view_context context = {
	.own_dev = &not_mounted,
	.tracker = &tracker,
	.views = views,
	.view_count = &view_count,
};

static int setup(void **state)
{
	fake_tracker_init(&tracker, 4096);
	return 0;
}

static int teardown(void **state)
{
	fake_tracker_deinit(&tracker);
	return 0;
}

static void test_ksyms(void **state)
{
	struct view ksyms, kallsyms;
	struct view_attr attr;

	tracker.ksyms = "sorted\n";
	tracker.kallsyms = "plain\n";
	tracker.generation[TRACKER_SYMBOLS] = 17;
	assert_int_equal(view_ksyms_create(&context, &ksyms), 0);
	assert_int_equal(view_kallsyms_create(&context, &kallsyms), 0);
	assert_file(&ksyms, "", "sorted\n");
	assert_file(&kallsyms, "", "plain\n");
	assert_int_equal(view_lookup(&ksyms, "", &attr), 0);
	assert_int_equal(attr.generation, 17);
	assert_int_equal(attr.mtime.tv_sec, 1000);
	assert_false(attr.fixed);
	assert_int_equal(view_lookup(&ksyms, "x", &attr), -ENOENT);
}

static void test_hidden_addresses(void **state)
{
	struct view_path path = {};
	struct snapshot *snapshot;
	struct view ksyms, addr;
	struct view_attr attr;

	tracker.error = -EACCES;
	assert_int_equal(view_ksyms_create(&context, &ksyms), 0);
	assert_int_equal(view_addr_create(&context, &addr), 0);
	/* Listed like any other; who reads it is told. */
	assert_int_equal(view_lookup(&ksyms, "", &attr), 0);
	assert_int_equal(ksyms.ops->render(ksyms.data, &path, NULL, &snapshot), -EACCES);
	assert_int_equal(view_lookup(&addr, "ffffffff81000000", &attr), -EACCES);
}

static void test_addr(void **state)
{
	char symbol[] = "bpf_prog_00000000000000aa_x y", module[] = "bpf";
	char first[] = "other", second[] = "an\nother", target[] = "vfs_read";
	char *aliases[] = {first, second};
	struct prog *prog = fake_prog(&tracker, 7, "00000000000000aa", "x", "code");
	struct view_attr attr;
	struct view addr;

	tracker.answer = (struct tracker_answer){
		.symbol = symbol,
		.addr = 0xffffffffc0021a08,
		.size = 0xe,
	};
	tracker.answer_time = 5500000000;
	assert_int_equal(view_addr_create(&context, &addr), 0);
	assert_names(&addr, "", "");
	assert_file(&addr, "ffffffffc0021a08", "bpf_prog_00000000000000aa_x\\040y+0x0/0xe\n");
	assert_file(&addr, "0xFFFFFFFFC0021A16-1", "bpf_prog_00000000000000aa_x\\040y+0xd/0xe\n");
	assert_int_equal(view_lookup(&addr, "ffffffffc0021a16", &attr), -ENOENT);
	assert_int_equal(view_lookup(&addr, "ffffffffc0021a08-1", &attr), -ENOENT);
	assert_int_equal(view_lookup(&addr, "zz", &attr), -ENOENT);
	assert_int_equal(view_lookup(&addr, "ffffffffc0021a08/x", &attr), -ENOENT);

	tracker.answer.module = module;
	tracker.answer.prog = prog;
	tracker.answer.target = target;
	tracker.answer.aliases = aliases;
	tracker.answer.alias_count = 2;
	assert_file(&addr, "ffffffffc0021a10@5.5",
		    "bpf_prog_00000000000000aa_x\\040y+0x8/0xe [bpf]\n"
		    "program: bpf/00000000000000aa/7\n"
		    "target: vfs_read\n"
		    "alias: other\n"
		    "alias: an\\012other\n");
	assert_int_equal(view_lookup(&addr, "ffffffffc0021a10@5500000000ns", &attr), 0);
	assert_int_equal(attr.generation, VIEW_VOLATILE);
	assert_int_equal(view_lookup(&addr, "ffffffffc0021a10@5.500000001", &attr), -ENOENT);
	prog_unref(prog);
}

/* An answer is another one when any of the things that it names has changed. */
static void test_addr_generation(void **state)
{
	char symbol[] = "symbol";
	struct view_attr before, after;
	struct view addr;

	tracker.answer = (struct tracker_answer){.symbol = symbol, .addr = 16, .size = 16};
	assert_int_equal(view_addr_create(&context, &addr), 0);
	for (int part = TRACKER_SYMBOLS; part <= TRACKER_IMAGES; part++) {
		assert_int_equal(view_lookup(&addr, "10", &before), 0);
		tracker.generation[part]++;
		assert_int_equal(view_lookup(&addr, "10", &after), 0);
		assert_true(after.generation > before.generation);
	}
}

static void say_status(void *view, struct text *text)
{
	text_puts(text, "other: here\n");
}

static void say_metrics(void *view, struct text *text)
{
	text_puts(text, "ksymfs_other 1\n");
}

/* What ties this boot's clocks to those of others, against the clocks themselves. */
static void assert_clocks(const char *status)
{
	const char *offset = strstr(status, "\nmonotonic_to_unix: "),
		   *id = strstr(status, "\nboot_id: ");
	_cleanup_file_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct timespec monotonic, unix_time;
	char boot_id[64];

	assert_true(offset && id && file && fgets(boot_id, sizeof(boot_id), file));
	assert_memory_equal(id + strlen("\nboot_id: "), boot_id, strlen(boot_id));
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	clock_gettime(CLOCK_REALTIME, &unix_time);
	double expected = (unix_time.tv_sec - monotonic.tv_sec) +
			  (unix_time.tv_nsec - monotonic.tv_nsec) / 1e9;
	double said = strtod(offset + strlen("\nmonotonic_to_unix: "), NULL);

	assert_true(said > expected - 0.1 && said < expected + 0.1);
}

static void test_status(void **state)
{
	static const struct view_ops ops = {.status = say_status, .metrics = say_metrics};
	_cleanup_free_ char *status = NULL, *degraded = NULL, *metrics = NULL, *head = NULL;
	struct view_attr attr;
	struct utsname name;

	assert_int_equal(uname(&name), 0);
	assert_int_equal(view_status_create(&context, &views[0]), 0);
	assert_int_equal(view_metrics_create(&context, &views[1]), 0);
	views[2] = (struct view){&ops, NULL};
	view_count = 3;

	assert_int_equal(view_lookup(&views[0], "", &attr), 0);
	assert_int_equal(attr.generation, VIEW_VOLATILE);
	status = view_text(&views[0], "");
	assert_true(asprintf(&head, "format: 1\nversion: %s\nkernel: %s\nhealth: ok\n",
			     KSYMFS_VERSION, name.release) > 0);
	assert_memory_equal(status, head, strlen(head));
	assert_clocks(status);
	assert_non_null(strstr(status, "\ntracker: here\nsession: here\nother: here\n"));

	tracker.healthy = false;
	degraded = view_text(&views[0], "");
	assert_non_null(strstr(degraded, "\nhealth: degraded\n"));

	metrics = view_text(&views[1], "");
	assert_non_null(strstr(metrics, "\nksymfs_healthy 0\n"));
	assert_non_null(strstr(metrics, "\nksymfs_tracker 1\nksymfs_session 1\nksymfs_other 1\n"));
	views[0].ops->destroy(views[0].data);
	views[1].ops->destroy(views[1].data);
	view_count = 0;
}

static void test_readme(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct view_attr attr, again;
	struct view readme;

	assert_int_equal(view_readme_create(&context, &readme), 0);
	assert_int_equal(view_lookup(&readme, "", &attr), 0);
	assert_int_equal(view_lookup(&readme, "", &again), 0);
	assert_true(attr.mtime.tv_sec > 0);
	assert_memory_equal(&attr, &again, sizeof(attr));
	text = view_text(&readme, "");
	/* A screenful, of a terminal that nobody has made larger. */
	int lines = 0;

	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save), lines++)
		assert_true(strlen(line) <= 80);
	assert_in_range(lines, 10, 30);
	readme.ops->destroy(readme.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ksyms, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hidden_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_addr, setup, teardown),
		cmocka_unit_test_setup_teardown(test_addr_generation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_status, setup, teardown),
		cmocka_unit_test_setup_teardown(test_readme, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
