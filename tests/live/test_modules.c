/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Modules come, go and fail to come: their symbols are right the moment the system call has
 * returned. With modules of the running kernel's package, where they lie unpacked.
 */
#include "tests/live/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/kernelname.h"

#define ROUNDS 10

static const char *const places[][2] = {
	{"dummy", "numdummies=0"},
	{"ifb", "numifbs=0"},
};

static void must_load_module(const char *name, const char *parameters)
{
	int r = load_module(name, parameters);

	if (r < 0)
		fail_msg("finit_module %s: %s", name, strerror(-r));
}

/* Skips where modules are not there, not allowed, or in use. */
static void need_modules(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int r = load_module(places[i][0], places[i][1]);

		if (r < 0)
			skip_because("module %s cannot be loaded: %s", places[i][0], strerror(-r));
		unload_module(places[i][0]);
	}
}

/* Leaves the lines of one module in a list; returns it. */
static char *only_module(char *text, const char *module)
{
	char needle[80], *to = text;

	snprintf(needle, sizeof(needle), "\t[%s]", module);
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		if (!memmem(line, end - line, needle, strlen(needle)))
			continue;
		memmove(to, line, end + 1 - line);
		to += end + 1 - line;
	}
	*to = '\0';
	return text;
}

/* Right now, with no second try, the tree has the rows that the kernel has. */
static size_t assert_module_rows(const struct ksymfs *fs, const char *module)
{
	struct symbol_list ours, kernels;

	ksyms_parse(only_module(ksymfs_read(fs, NULL, "ksyms"), module), &ours);
	kallsyms_parse(only_module(read_path("/proc/kallsyms", NULL), module), &kernels);
	symbol_list_sort(&kernels);
	size_t count = kernels.count;

	assert_int_equal(ours.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(ours.rows[i].addr, kernels.rows[i].addr);
		assert_int_equal(ours.rows[i].type, kernels.rows[i].type);
		assert_string_equal(ours.rows[i].name, kernels.rows[i].name);
	}
	symbol_list_deinit(&ours);
	symbol_list_deinit(&kernels);
	return count;
}

static void test_load_and_unload(void **state)
{
	struct ksymfs *fs = *state;
	struct symbol_list list;
	char asked[64];

	need_modules();
	assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	must_load_module("dummy", "numdummies=0");
	assert_true(assert_module_rows(fs, "dummy") > 10);
	uint64_t there = monotonic_ns();

	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	const struct symbol_row *row = symbol_find(&list, "dummy_xmit", NULL);
	assert_non_null(row);
	assert_true(row->size > 0);
	/* Its init part is gone, or listed on as what it was: T, and not the t of a static
	 * function.
	 */
	const struct symbol_row *init = symbol_find(&list, "dummy_init_module", NULL);
	assert_true(!init || init->type == 'T');
	snprintf(asked, sizeof(asked), "addr/%" PRIx64, row->addr + row->size - 1);
	_cleanup_free_ char *now = ksymfs_read(fs, NULL, "%s", asked);
	assert_true(strncmp(now, "dummy_xmit+0x", 13) == 0);
	assert_non_null(strstr(now, " [dummy]\n"));

	unload_module("dummy");
	assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	assert_int_equal(ksymfs_open(fs, "%s", asked), -ENOENT);
	_cleanup_free_ char *then = ksymfs_read(fs, NULL, "%s@%" PRIu64 "ns", asked, there);
	assert_string_equal(then, now);
	symbol_list_deinit(&list);

	_cleanup_free_ char *events = ksymfs_read(fs, NULL, "events");
	assert_true(count_lines_with(events, " module-load name=dummy") > 0);
	assert_int_equal(count_lines_with(events, " module-load name=dummy"),
			 count_lines_with(events, " module-unload name=dummy"));
}

/* An instance that finds them there. */
static void test_baseline(void **state)
{
	need_modules();
	must_load_module("dummy", "numdummies=0");
	{
		_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start(NULL);

		assert_true(assert_module_rows(fs, "dummy") > 10);
		assert_ksyms_is_kallsyms(fs);
		unload_module("dummy");
		assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	}
	assert_int_equal(assert_module_rows(*state, "dummy"), 0);
}

static void test_failing_load(void **state)
{
	struct ksymfs *fs = *state;

	need_modules();
	for (int i = 0; i < 5; i++) {
		assert_int_equal(load_module("dummy", "numdummies=many"), -EINVAL);
		assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	}
	must_load_module("dummy", "numdummies=0");
	assert_int_equal(load_module("dummy", "numdummies=0"), -EEXIST);
	assert_true(assert_module_rows(fs, "dummy") > 10);
	unload_module("dummy");
}

static void test_one_name_in_two(void **state)
{
	struct ksymfs *fs = *state;
	struct symbol_list list;
	size_t found = 0;

	need_modules();
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		must_load_module(places[i][0], places[i][1]);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		assert_module_rows(fs, places[i][0]);
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	for (const struct symbol_row *row = NULL;
	     (row = symbol_find(&list, "cleanup_module", row ? row + 1 : NULL));)
		found += strcmp(row->module, "dummy") == 0 || strcmp(row->module, "ifb") == 0;
	assert_int_equal(found, 2);
	symbol_list_deinit(&list);
	unload_module("dummy");
	assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	assert_true(assert_module_rows(fs, "ifb") > 0);
	unload_module("ifb");
}

/* Labels of the compiler are symbols in the kernel's list, and none to its %pS
 * (is_mapping_symbol()). */
static bool ends_at_label(const struct symbol_list *list, const struct symbol_row *row)
{
	const struct symbol_row *next = symbol_at(list, row->addr + row->size);

	return next && (strncmp(next->name, ".L", 2) == 0 || next->name[0] == '$' ||
			strncmp(next->name, "L0", 2) == 0);
}

/* Is it another one of the same address that has this name? */
static bool is_named_beside(const struct symbol_list *list, const struct symbol_row *row,
			    const char *name)
{
	const struct symbol_row *at = symbol_at(list, row->addr);

	for (; at < list->rows + list->count && at->addr == row->addr; at++)
		if (at != row && strcmp(at->name, name) == 0)
			return strcmp(row->name, name) != 0;
	return false;
}

/* A symbol ends where the next one of its module begins, or its part of the module ends. */
static void assert_sizes(const struct ksymfs *fs, struct kernelname *kernel)
{
	struct symbol_list list;
	size_t checked = 0;

	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_row *row = &list.rows[i];
		struct kernelname_answer answer;

		if (!row->module[0] || strcmp(row->module, "bpf") == 0 ||
		    strncmp(row->module, "__builtin_", 10) == 0)
			continue;
		/* What lies at the very end of a part is in none. Before 6.4 %pS has negative sizes
		 * of data. */
		if (kernelname_ask(kernel, row->addr, &answer) < 0 || answer.offset ||
		    row->addr + answer.size <= row->addr ||
		    is_named_beside(&list, row, answer.name))
			continue;
		if (row->size != answer.size && !ends_at_label(&list, row))
			fail_msg("%s [%s] has %#" PRIx64 " bytes, and %%pS says %#" PRIx64,
				 row->name, row->module, row->size, answer.size);
		checked++;
	}
	assert_true(checked > 20);
	symbol_list_deinit(&list);
}

static void test_sizes(void **state)
{
	CLEANUP(kernelname_cleanup) struct kernelname *kernel = open_kernelname();

	need_modules();
	must_load_module("dummy", "numdummies=0");
	assert_sizes(*state, kernel);
	unload_module("dummy");
}

/* ---- functions that are freed, and that the kernel lists on ---- */

/*
 * What the tree says of an address where such a function was is what %pS says: of what is there by
 * now, or else of the function, but that it does not reach past the next one that is there.
 */
static void assert_names_as_kernel(const struct ksymfs *fs, struct kernelname *kernel,
				   const struct symbol_row *freed, uint64_t addr)
{
	struct kernelname_answer answer;
	int r = kernelname_ask(kernel, addr, &answer);
	int fd = ksymfs_open(fs, "addr/%" PRIx64, addr);
	_cleanup_free_ char *said = fd < 0 ? NULL : read_fd(fd, NULL);
	char line[768];

	if (fd >= 0)
		close(fd);
	bool is_freed = r == 0 && strcmp(answer.name, freed->name) == 0;

	if (r < 0 || (is_freed && answer.offset >= freed->size)) {
		assert_int_equal(fd, -ENOENT);
		return;
	}
	if (is_freed)
		assert_true(freed->size <= answer.size);
	if (fd < 0)
		fail_msg("nothing at %" PRIx64 ", and %%pS says %s", addr, answer.name);
	snprintf(line, sizeof(line), "%s+0x%" PRIx64 "/0x%" PRIx64, answer.name, answer.offset,
		 is_freed ? freed->size : answer.size);
	if (strncmp(said, line, strlen(line)) != 0)
		fail_msg("at %" PRIx64 ": %s, and %%pS says %s", addr, said, line);
	assert_int_equal(is_freed, strstr(said, "\nstate: freed\n") != NULL);
}

/* Returns how many of the functions of these modules that are freed have been covered. */
static size_t assert_freed(const struct ksymfs *fs, struct kernelname *kernel, size_t wanted)
{
	static const char *const names[] = {"dummy_init_module", "ifb_init_module"};
	struct symbol_list list;
	size_t found = 0, covered = 0;

	assert_ksyms_is_kallsyms(fs);
	ksyms_parse(ksymfs_read(fs, NULL, "ksyms"), &list);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct symbol_row *freed = symbol_find(&list, names[i], NULL);

		if (!freed)
			continue;
		assert_int_equal(freed->type, 'T');
		found++;
		covered += !freed->size;
		for (uint64_t addr = freed->addr + 1; addr < freed->addr + 0x100; addr += 8)
			assert_names_as_kernel(fs, kernel, freed, addr);
	}
	symbol_list_deinit(&list);
	assert_int_equal(found, wanted);
	assert_sizes(fs, kernel);
	return covered;
}

/* With a program of somebody else's attached, whatever the instance does. */
static void test_freed_init(void **state)
{
	static const char *const options[] = {"--capture-at-unload=off", NULL};
	CLEANUP(kernelname_cleanup) struct kernelname *kernel = open_kernelname();
	struct ksymfs *fs = *state;

	need_modules();
	_cleanup_fd_ int link = attach_fentry("vfs_truncate");

	must_load_module("dummy", "numdummies=0");
	assert_freed(fs, kernel, 1);
	/* What is loaded next may lie there: pages of images, text of modules. */
	_cleanup_fd_ int image = attach_fentry("vfs_link");
	_cleanup_object_ struct bpf_object *calls = load_object("calls");

	assert_freed(fs, kernel, 1);
	must_load_module("ifb", "numifbs=0");
	printf("# %zu of 2 are covered\n", assert_freed(fs, kernel, 2));
	{
		_cleanup_ksymfs_ struct ksymfs *other = ksymfs_start(options);

		assert_freed(other, kernel, 2);
	}
	close(take_fd(&image));
	unload_module("ifb");
	assert_freed(fs, kernel, 1);
	unload_module("dummy");
	assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	assert_ksyms_is_kallsyms(fs);
}

/* ---- churn ---- */

static int rounds(void)
{
	const char *asked = getenv("KSYMFS_CHURN");

	return asked ? atoi(asked) : ROUNDS;
}

/* Reads again and again, and sees that each state is sorted; exits with 0 when stop is there. */
static pid_t start_reader(const struct ksymfs *fs, const char *stop)
{
	_cleanup_free_ char *command = NULL;

	assert_true(asprintf(&command,
			     "until [ -e %s ]; do cut -c 1-16 %s/ksyms | sort -c || exit 1; done",
			     stop, fs->dir) > 0);
	pid_t pid = fork();

	assert_return_code(pid, errno);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	return pid;
}

static void test_churn(void **state)
{
	int status;
	struct ksymfs *fs = *state;
	char stop[sizeof(fs->dir) + 8];

	need_modules();
	snprintf(stop, sizeof(stop), "%s.stop", fs->dir);
	pid_t reader = start_reader(fs, stop);

	for (int i = 0; i < rounds(); i++) {
		const char *const *module = places[i % ARRAY_SIZE(places)];

		must_load_module(module[0], module[1]);
		assert_true(assert_module_rows(fs, module[0]) > 0);
		unload_module(module[0]);
		assert_int_equal(assert_module_rows(fs, module[0]), 0);
	}
	close(open(stop, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(waitpid(reader, &status, 0), reader);
	unlink(stop);
	assert_int_equal(status, 0);
	assert_ksyms_is_kallsyms(fs);
}

struct failing {
	pthread_t thread;
	atomic_bool stop;
	unsigned int failed;
};

static void *fail_to_load(void *arg)
{
	struct failing *failing = arg;

	while (!failing->stop)
		failing->failed += load_module("dummy", "numdummies=many") == -EINVAL;
	return NULL;
}

/* A load that fails raises no uevent, and may be seen half-way when another one asks for a look. */
static void test_failing_beside_others(void **state)
{
	struct failing failing = {};
	struct ksymfs *fs = *state;

	need_modules();
	assert_int_equal(pthread_create(&failing.thread, NULL, fail_to_load, &failing), 0);
	for (int i = 0; i < rounds(); i++) {
		must_load_module("ifb", "numifbs=0");
		close(ksymfs_open(fs, "ksyms"));
		unload_module("ifb");
		close(ksymfs_open(fs, "ksyms"));
	}
	failing.stop = true;
	pthread_join(failing.thread, NULL);
	assert_true(failing.failed > 0);
	assert_int_equal(assert_module_rows(fs, "dummy"), 0);
	assert_int_equal(assert_module_rows(fs, "ifb"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load_and_unload),
		cmocka_unit_test(test_baseline),
		cmocka_unit_test(test_failing_load),
		cmocka_unit_test(test_one_name_in_two),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_freed_init),
		cmocka_unit_test(test_churn),
		cmocka_unit_test(test_failing_beside_others),
	};

	return live_run(tests);
}
