/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BPF programs for live tests: from raw instructions, and from the objects of tests/bpf/.
 */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#define UNPRIVILEGED_SYSCTL "/proc/sys/kernel/unprivileged_bpf_disabled"
/* What cc.bpf.c has where its name goes. */
#define CC_PLACEHOLDER "ksymfs@@@@@@@@"

int load_insns(enum bpf_prog_type type, const char *name, const struct bpf_insn *insns,
	       size_t count)
{
	int fd = bpf_prog_load(type, name, "GPL", insns, count, NULL);

	return fd < 0 ? -errno : fd;
}

/* What a helper below was asked for must load. */
static int must_load(enum bpf_prog_type type, const char *name, const struct bpf_insn *insns,
		     size_t count)
{
	int fd = load_insns(type, name, insns, count);

	if (fd < 0)
		fail_msg("loading %s (%zu instructions): %s", name ? name : "(unnamed)", count,
			 strerror(-fd));
	return fd;
}

static bool is_unloaded(void *arg)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(*(uint32_t *)arg);

	return fd < 0;
}

void unload(int prog_fd)
{
	uint32_t id = prog_id(prog_fd);

	close(prog_fd);
	if (!wait_until(is_unloaded, &id, 10))
		fail_msg("program %u is still loaded 10 s after its last close", id);
}

int load_simple(const char *name, int variant)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, variant), INSN_EXIT};

	return must_load(BPF_PROG_TYPE_SOCKET_FILTER, name, insns, ARRAY_SIZE(insns));
}

int load_long(const char *name, int variant, size_t count)
{
	_cleanup_free_ struct bpf_insn *insns = calloc(count + 2, sizeof(*insns));

	assert_non_null(insns);
	insns[0] = INSN_MOV_IMM(BPF_REG_0, variant);
	for (size_t i = 1; i <= count; i++)
		insns[i] = INSN_ADD_IMM(BPF_REG_0, (int)i);
	insns[count + 1] = INSN_EXIT;
	return must_load(BPF_PROG_TYPE_SOCKET_FILTER, name, insns, count + 2);
}

int load_with_subprogram(const char *name, int main_variant, int variant)
{
	const struct bpf_insn insns[] = {
		INSN_CALL(2), INSN_ADD_IMM(BPF_REG_0, main_variant),
		INSN_EXIT,    INSN_MOV_IMM(BPF_REG_0, variant),
		INSN_EXIT,
	};

	return must_load(BPF_PROG_TYPE_SOCKET_FILTER, name, insns, ARRAY_SIZE(insns));
}

int load_twin(const char *name, int map_fd)
{
	const struct bpf_insn insns[] = {
		INSN_LD_MAP_FD(BPF_REG_1, map_fd),
		INSN_MOV_REG(BPF_REG_2, BPF_REG_10),
		INSN_ADD_IMM(BPF_REG_2, -4),
		INSN(BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0),
		INSN_HELPER(BPF_FUNC_map_lookup_elem),
		INSN_MOV_IMM(BPF_REG_0, 0),
		INSN_EXIT,
	};

	return must_load(BPF_PROG_TYPE_SOCKET_FILTER, name, insns, ARRAY_SIZE(insns));
}

static int read_unprivileged_sysctl(void)
{
	_cleanup_free_ char *text = read_path(UNPRIVILEGED_SYSCTL, NULL);

	return atoi(text);
}

static void write_unprivileged_sysctl(int value)
{
	_cleanup_fd_ int fd = open(UNPRIVILEGED_SYSCTL, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dprintf(fd, "%d\n", value) < 0)
		fail_msg("writing %s: %s", UNPRIVILEGED_SYSCTL, strerror(errno));
}

int load_unprivileged(int variant)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, variant), INSN_EXIT};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct had[2], left[2];
	int disabled = read_unprivileged_sysctl();

	if (disabled == 1)
		skip_because("unprivileged_bpf_disabled is 1, for good");
	if (disabled)
		write_unprivileged_sysctl(0);

	/* Capabilities are a thread's: those that another thread has stay. */
	assert_return_code(syscall(SYS_capget, &header, had), errno);
	memcpy(left, had, sizeof(left));
	left[0].effective &= ~(1U << CAP_SYS_ADMIN);
	left[CAP_BPF / 32].effective &= ~(1U << CAP_BPF % 32);
	assert_return_code(syscall(SYS_capset, &header, left), errno);
	/* Not by libbpf: its probes of what the kernel can do would run without rights. */
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)insns,
		.insn_cnt = ARRAY_SIZE(insns),
		.license = (uintptr_t) "GPL",
	};
	int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	int error = errno;
	assert_return_code(syscall(SYS_capset, &header, had), errno);

	if (disabled)
		write_unprivileged_sysctl(disabled);
	if (fd < 0)
		fail_msg("loading without CAP_BPF and CAP_SYS_ADMIN: %s", strerror(error));
	return fd;
}

int make_map(const char *name, unsigned int value_size)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), value_size, 1, NULL);

	if (fd < 0)
		fail_msg("creating map %s: %s", name, strerror(errno));
	return fd;
}

static char *object_path(const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s.bpf.o", getenv("KSYMFS_BPF"), name) >= 0);
	return path;
}

struct bpf_object *load_object(const char *name)
{
	_cleanup_free_ char *path = object_path(name);
	struct bpf_object *object = bpf_object__open_file(path, NULL);

	if (!object)
		fail_msg("opening %s: %s", path, strerror(errno));
	int err = bpf_object__load(object);
	if (err) {
		bpf_object__close(object);
		fail_msg("loading %s: %s", path, strerror(-err));
	}
	return object;
}

void close_object(struct bpf_object *object)
{
	bpf_object__close(object);
}

int object_prog_fd(struct bpf_object *object, const char *prog_name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(object, prog_name);

	if (!prog)
		fail_msg("the object has no program %s", prog_name);
	return bpf_program__fd(prog);
}

struct congestion_ops {
	struct bpf_object *object;
	struct bpf_link *link;
	char name[sizeof(CC_PLACEHOLDER)];
};

struct congestion_ops *congestion_ops_attach(void)
{
	static unsigned int number;
	struct congestion_ops *ops = calloc(1, sizeof(*ops));
	_cleanup_free_ char *path = object_path("cc");
	size_t len;
	_cleanup_free_ char *bytes = read_path(path, &len);

	assert_non_null(ops);
	snprintf(ops->name, sizeof(ops->name), "ksymfs%06x%02x", getpid() & 0xffffff,
		 number++ & 0xff);
	char *place = memmem(bytes, len, CC_PLACEHOLDER, strlen(CC_PLACEHOLDER));
	assert_non_null(place);
	memcpy(place, ops->name, strlen(CC_PLACEHOLDER));

	ops->object = bpf_object__open_mem(bytes, len, NULL);
	if (!ops->object)
		fail_msg("opening %s: %s", path, strerror(errno));
	int err = bpf_object__load(ops->object);
	if (err)
		fail_msg("loading %s: %s", path, strerror(-err));
	struct bpf_map *map = bpf_object__find_map_by_name(ops->object, "cc");
	assert_non_null(map);
	ops->link = bpf_map__attach_struct_ops(map);
	if (!ops->link)
		fail_msg("registering congestion control %s: %s", ops->name, strerror(errno));
	return ops;
}

void congestion_ops_detach(struct congestion_ops *ops)
{
	if (!ops)
		return;
	bpf_link__destroy(ops->link);
	bpf_object__close(ops->object);
	free(ops);
}

const char *congestion_ops_name(const struct congestion_ops *ops)
{
	return ops->name;
}

struct bpf_object *congestion_ops_object(const struct congestion_ops *ops)
{
	return ops->object;
}

static uint32_t test_run(int prog_fd, uint32_t repeat)
{
	char packet[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = repeat);

	if (bpf_prog_test_run_opts(prog_fd, &options))
		fail_msg("test_run: %s", strerror(errno));
	return options.retval;
}

void run_through_xdp_dispatcher(int prog_fd)
{
	/* Source: net/bpf/test_run.c bpf_prog_test_run_xdp(): a repeat above 1 changes it. */
	test_run(prog_fd, 3);
}

uint32_t run_once(int prog_fd)
{
	return test_run(prog_fd, 1);
}

void take_sample(struct bpf_object *object, struct sample *ret)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	const uint32_t zero = 0;

	if (bpf_prog_test_run_opts(object_prog_fd(object, "sample_self"), &options))
		fail_msg("test_run of sample_self: %s", strerror(errno));
	assert_int_equal(options.retval, 0);
	struct bpf_map *map = bpf_object__find_map_by_name(object, "samples");
	assert_non_null(map);
	assert_return_code(bpf_map_lookup_elem(bpf_map__fd(map), &zero, ret), errno);
}
