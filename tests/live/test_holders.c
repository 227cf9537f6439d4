/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who keeps a program loaded: each kind of holder, made here and let go again. */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/holders.h"

/* What holders_write() says of a held program. The caller frees. */
static char *holders_of(int prog_fd)
{
	CLEANUP(prog_reader_cleanup) struct prog_reader *reader = NULL;
	CLEANUP(prog_cleanup) struct prog *prog = NULL;
	struct blob_pool *pool;
	struct text text = {};
	char *ret;

	assert_int_equal(blob_pool_create(&pool), 0);
	assert_int_equal(prog_reader_create(pool, &reader), 0);
	assert_int_equal(prog_capture(reader, prog_id(prog_fd), &prog), 0);
	assert_int_equal(holders_write(prog, &text), 0);
	assert_int_equal(text_take_string(&text, &ret), 0);
	blob_pool_destroy(pool);
	return ret;
}

static bool has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; (at = strstr(at, line)); at++) {
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return true;
	}
	return false;
}

static void assert_line(int prog_fd, bool expected, const char *format, ...)
{
	_cleanup_free_ char *line = NULL, *text = holders_of(prog_fd);
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&line, format, args) > 0);
	va_end(args);
	if (has_line(text, line) != expected)
		fail_msg("%s: %s, in:\n%s", expected ? "missing" : "still there", line, text);
}

static int load(enum bpf_prog_type type, enum bpf_attach_type attach_type, int result)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, result), INSN_EXIT};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = attach_type);
	int fd = bpf_prog_load(type, "holders", "GPL", insns, ARRAY_SIZE(insns), &options);

	assert_return_code(fd, errno);
	return fd;
}

static uint32_t link_id(int fd)
{
	struct bpf_link_info info = {};
	uint32_t len = sizeof(info);

	assert_return_code(bpf_obj_get_info_by_fd(fd, &info, &len), errno);
	return info.id;
}

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	assert_return_code(bpf_obj_get_info_by_fd(fd, &info, &len), errno);
	return info.id;
}

static void test_fds(void **state)
{
	_cleanup_fd_ int prog = load_simple("holders", 31), stranger = load_simple("stranger", 32);
	char comm[16];
	int pipes[2];

	prctl(PR_GET_NAME, comm);
	assert_line(prog, true, "fd %d %s %d", getpid(), comm, prog);
	assert_line(prog, false, "fd %d %s %d", getpid(), comm, stranger);

	/* A child has them by inheritance, until it ends. */
	assert_return_code(pipe2(pipes, O_CLOEXEC), errno);
	pid_t child = fork();

	assert_return_code(child, errno);
	if (child == 0) {
		char c;

		prctl(PR_SET_NAME, "my child");
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) == 1);
	}
	close(pipes[0]);
	/* It names itself when it runs. */
	for (int i = 0; i < 1000; i++) {
		_cleanup_free_ char *path = NULL, *now = NULL;

		assert_true(asprintf(&path, "/proc/%d/comm", child) > 0);
		now = read_path(path, NULL);
		if (strcmp(now, "my child\n") == 0)
			break;
		usleep(1000);
	}
	assert_line(prog, true, "fd %d my\\040child %d", child, prog);
	close(pipes[1]);
	waitpid(child, NULL, 0);
	assert_line(prog, false, "fd %d my\\040child %d", child, prog);
}

/* A bpffs of this test's own. */
static void mount_bpffs(char dir[])
{
	assert_non_null(mkdtemp(dir));
	assert_return_code(mount("bpf", dir, "bpf", 0, NULL), errno);
}

static void unmount_bpffs(const char *dir)
{
	assert_return_code(umount2(dir, MNT_DETACH), errno);
	assert_return_code(rmdir(dir), errno);
}

static void test_pins(void **state)
{
	char dir[] = "/tmp/holders XXXXXX", path[128], deep[128], alias[128], written[128];
	_cleanup_fd_ int prog = load_simple("holders", 33);

	mount_bpffs(dir);
	snprintf(path, sizeof(path), "%s/pin", dir);
	snprintf(alias, sizeof(alias), "%s/alias", dir);
	snprintf(deep, sizeof(deep), "%s/sub", dir);
	assert_return_code(mkdir(deep, 0700), errno);
	snprintf(deep, sizeof(deep), "%s/sub/second", dir);
	assert_return_code(bpf_obj_pin(prog, path), errno);
	assert_return_code(bpf_obj_pin(prog, deep), errno);
	assert_return_code(symlink("pin", alias), errno);
	/* The directory's name has a blank. */
	snprintf(written, sizeof(written), "/tmp/holders\\040%s", strchr(dir, ' ') + 1);
	assert_line(prog, true, "pin %s/pin", written);
	assert_line(prog, true, "pin %s/sub/second", written);
	assert_line(prog, false, "pin %s/alias", written);
	assert_return_code(unlink(path), errno);
	assert_line(prog, false, "pin %s/pin", written);
	unmount_bpffs(dir);
	assert_line(prog, false, "pin %s/sub/second", written);
}

static void test_raw_tracepoint_link(void **state)
{
	char dir[] = "/tmp/holdersXXXXXX", path[128], comm[16];
	_cleanup_fd_ int prog = load(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0);
	int link = bpf_raw_tracepoint_open("sys_enter", prog);

	assert_return_code(link, errno);
	uint32_t id = link_id(link);

	assert_line(prog, true, "link %" PRIu32 " raw_tracepoint sys_enter", id);
	/* What keeps the link keeps the program: its file, and its pin. */
	prctl(PR_GET_NAME, comm);
	assert_line(prog, true, "fd %d %s %d", getpid(), comm, link);
	mount_bpffs(dir);
	snprintf(path, sizeof(path), "%s/link", dir);
	assert_return_code(bpf_obj_pin(link, path), errno);
	close(link);
	assert_line(prog, true, "pin %s", path);
	assert_line(prog, true, "link %" PRIu32 " raw_tracepoint sys_enter", id);
	unmount_bpffs(dir);
}

static void test_netns_link(void **state)
{
	_cleanup_fd_ int prog = load(BPF_PROG_TYPE_SK_LOOKUP, BPF_SK_LOOKUP, 1);
	_cleanup_fd_ int netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int link = bpf_link_create(prog, netns, BPF_SK_LOOKUP, NULL);
	struct stat st;

	assert_return_code(link, errno);
	assert_return_code(fstat(netns, &st), errno);
	assert_line(prog, true, "link %" PRIu32 " netns netns=%lu", link_id(link), st.st_ino);
}

static void test_iter_link(void **state)
{
	_cleanup_object_ struct bpf_object *object = load_object("iter");
	struct bpf_program *program = bpf_object__next_program(object, NULL);
	struct bpf_link *link = bpf_program__attach(program);

	assert_non_null(link);
	_cleanup_free_ char *text = holders_of(bpf_program__fd(program)), *line = NULL;

	assert_true(asprintf(&line, "link %" PRIu32 " iter ", link_id(bpf_link__fd(link))) > 0);
	assert_int_equal(count_lines_with_prefix(text, line), 1);
	/* It has a name, which is no other than the section's. */
	const char *target = strstr(text, line) + strlen(line);
	const char *section = strchr(bpf_program__section_name(program), '/');

	assert_non_null(section);
	assert_memory_equal(target, section + 1, strlen(section + 1));
	assert_int_equal(target[strlen(section + 1)], '\n');
	bpf_link__destroy(link);
}

static int open_perf_event(uint32_t type, uint64_t config, uint64_t config1, uint64_t config2)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = config,
		.config1 = config1,
		.config2 = config2,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	assert_return_code(fd, errno);
	return fd;
}

/* Behind its type and the numbers: of a kind that is not 0. */
static bool link_has_details(int fd)
{
	uint32_t info[32] = {}, len = sizeof(info);

	assert_return_code(bpf_obj_get_info_by_fd(fd, info, &len), errno);
	return info[4];
}

static void test_perf_event_links(void **state)
{
	_cleanup_free_ char *type = read_path("/sys/bus/event_source/devices/uprobe/type", NULL);
	_cleanup_fd_ int probe = load(BPF_PROG_TYPE_KPROBE, 0, 0);
	_cleanup_fd_ int counter = load(BPF_PROG_TYPE_PERF_EVENT, 0, 0);
	_cleanup_fd_ int uprobe = open_perf_event(atoi(type), 0, (uintptr_t) "/bin/true", 0x100);
	_cleanup_fd_ int faults =
		open_perf_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0);
	_cleanup_fd_ int probe_link = bpf_link_create(probe, uprobe, BPF_PERF_EVENT, NULL);
	_cleanup_fd_ int fault_link = bpf_link_create(counter, faults, BPF_PERF_EVENT, NULL);
	char path[128];

	if (probe_link < 0 && errno == EINVAL)
		skip_because("this kernel has no perf_event links (5.15)");
	assert_return_code(probe_link, errno);
	assert_return_code(fault_link, errno);
	if (!link_has_details(probe_link)) {
		assert_line(probe, true, "link %" PRIu32 " perf_event -", link_id(probe_link));
		skip_because("this kernel does not tell what a perf_event link is on (6.6)");
	}
	/* The kernel keeps the path as it was given. */
	snprintf(path, sizeof(path), "/bin/true+0x100");
	assert_line(probe, true, "link %" PRIu32 " perf_event %s", link_id(probe_link), path);
	assert_line(counter, true, "link %" PRIu32 " perf_event type=%d,config=0x%x",
		    link_id(fault_link), PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
}

/* Attached the old way there is no link: the event's file holds the program. */
static void test_perf_event_fd(void **state)
{
	_cleanup_free_ char *type = read_path("/sys/bus/event_source/devices/uprobe/type", NULL);
	_cleanup_fd_ int prog = load(BPF_PROG_TYPE_KPROBE, 0, 0);
	int event = open_perf_event(atoi(type), 0, (uintptr_t) "/bin/true", 0x100);
	char comm[16];

	prctl(PR_GET_NAME, comm);
	assert_line(prog, false, "fd %d %s %d", getpid(), comm, event);
	assert_return_code(ioctl(event, PERF_EVENT_IOC_SET_BPF, prog), errno);
	assert_line(prog, true, "fd %d %s %d", getpid(), comm, event);
	close(event);
}

static void test_prog_array(void **state)
{
	_cleanup_fd_ int prog = load_simple("holders", 34), stranger = load_simple("stranger", 35);
	_cleanup_fd_ int map = bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "holders", 4, 4, 100, NULL);
	uint32_t key = 99;

	assert_return_code(map, errno);
	assert_line(prog, false, "map %" PRIu32, map_id(map));
	assert_return_code(bpf_map_update_elem(map, &key, &prog, 0), errno);
	assert_line(prog, true, "map %" PRIu32, map_id(map));
	assert_line(stranger, false, "map %" PRIu32, map_id(map));
	assert_return_code(bpf_map_delete_elem(map, &key), errno);
	assert_line(prog, false, "map %" PRIu32, map_id(map));
}

static void test_redirect_maps(void **state)
{
	static const struct {
		enum bpf_map_type type;
		enum bpf_attach_type attach_type;
	} cases[] = {
		{BPF_MAP_TYPE_DEVMAP, BPF_XDP_DEVMAP},
		{BPF_MAP_TYPE_DEVMAP_HASH, BPF_XDP_DEVMAP},
		{BPF_MAP_TYPE_CPUMAP, BPF_XDP_CPUMAP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int prog = load(BPF_PROG_TYPE_XDP, cases[i].attach_type, 2);
		_cleanup_fd_ int map = bpf_map_create(cases[i].type, "holders", 4, 8, 2, NULL);
		/* The loopback device, or a queue's size; then the program. */
		uint32_t value[2] = {1, prog}, key = 0;

		assert_return_code(map, errno);
		assert_return_code(bpf_map_update_elem(map, &key, value, 0), errno);
		assert_line(prog, true, "map %" PRIu32, map_id(map));
	}
}

static void test_sockmap(void **state)
{
	_cleanup_fd_ int prog = load(BPF_PROG_TYPE_SK_MSG, BPF_SK_MSG_VERDICT, 1);
	_cleanup_fd_ int map = bpf_map_create(BPF_MAP_TYPE_SOCKMAP, "holders", 4, 4, 1, NULL);

	assert_return_code(map, errno);
	assert_return_code(bpf_prog_attach(prog, map, BPF_SK_MSG_VERDICT, 0), errno);
	if (bpf_prog_query(map, BPF_SK_MSG_VERDICT, 0, NULL, &(uint32_t){0}, &(uint32_t){1}) < 0 &&
	    errno == EINVAL)
		skip_because("this kernel does not tell what a sockmap has attached (5.17)");
	assert_line(prog, true, "map %" PRIu32, map_id(map));
	assert_return_code(bpf_prog_detach2(prog, map, BPF_SK_MSG_VERDICT), errno);
	assert_line(prog, false, "map %" PRIu32, map_id(map));
}

static void test_struct_ops(void **state)
{
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	struct bpf_object *object = congestion_ops_object(ops);
	struct bpf_program *program;
	struct bpf_map *map;
	int map_fd = -1;

	bpf_object__for_each_map(map, object)
	{
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			map_fd = bpf_map__fd(map);
	}
	assert_true(map_fd >= 0);
	bpf_object__for_each_program(program, object)
		assert_line(bpf_program__fd(program), true, "map %" PRIu32, map_id(map_fd));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fds),
		cmocka_unit_test(test_pins),
		cmocka_unit_test(test_raw_tracepoint_link),
		cmocka_unit_test(test_netns_link),
		cmocka_unit_test(test_iter_link),
		cmocka_unit_test(test_perf_event_links),
		cmocka_unit_test(test_perf_event_fd),
		cmocka_unit_test(test_prog_array),
		cmocka_unit_test(test_redirect_maps),
		cmocka_unit_test(test_sockmap),
		cmocka_unit_test(test_struct_ops),
	};

	return live_run_bare(tests);
}
