/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a test builds on and a kernel may lack, and its modules: see support.h. */
#include "tests/live/support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "core/kernelname.h"

bool kernel_has_function(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has = btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;

	btf__free(btf);
	if (!has)
		printf("# lacks: %s\n", name);
	return has;
}

bool kernel_has_calls_of(const char *object)
{
	return strcmp(object, "throw") != 0 || kernel_has_function("bpf_throw");
}

bool kernel_has_struct_ops_symbols(void)
{
	_cleanup_congestion_ops_ struct congestion_ops *ops = congestion_ops_attach();
	_cleanup_free_ char *kallsyms = read_path("/proc/kallsyms", NULL);
	bool has = strstr(kallsyms, " bpf__tcp_congestion_ops_ssthresh\t[bpf]");

	if (!has)
		printf("# lacks: symbols of struct_ops images\n");
	return has;
}

const char *kernel_health(void)
{
	struct kernelname *kernelname;

	if (kernelname_open(&kernelname) < 0) {
		printf("# lacks: lengths of images\n");
		return "degraded";
	}
	kernelname_close(kernelname);
	return "ok";
}

bool kernel_has_passthrough(void)
{
	const struct {
		int32_t fd;
		uint32_t flags;
		uint64_t padding;
	} nothing = {.fd = -1};
	_cleanup_fd_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	assert_return_code(fd, errno);
	/* FUSE_DEV_IOC_BACKING_OPEN: nothing is mounted by this fd, so it fails in any case. */
	assert_int_equal(ioctl(fd, _IOW(229, 1, nothing), &nothing), -1);
	bool has = errno != ENOTTY;

	if (!has)
		printf("# lacks: passthrough of FUSE\n");
	return has;
}

static bool kernel_is_before(int major, int minor)
{
	struct utsname name;
	int has_major, has_minor;

	assert_return_code(uname(&name), errno);
	assert_int_equal(sscanf(name.release, "%d.%d", &has_major, &has_minor), 2);
	return has_major < major || (has_major == major && has_minor < minor);
}

bool kernel_maps_direct_io(const struct ksymfs *fs)
{
	_cleanup_fd_ int fd = ksymfs_open(fs, "events");

	assert_return_code(fd, errno);
	void *map = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED) {
		assert_int_equal(errno, ENODEV);
		/* That it was asked for is ours to see to. */
		assert_true(kernel_is_before(6, 6));
		printf("# lacks: shared mappings of what is read past the page cache\n");
		return false;
	}
	munmap(map, 1);
	return true;
}

void need_resend(const struct ksymfs *fs)
{
	ksymfs_crash(fs);
	_cleanup_free_ char *requests = ksymfs_value(fs, "handover_requests", "status");

	assert_non_null(requests);
	if (strcmp(requests, "sent again") != 0)
		skip_because("this kernel sends no request again (6.9)");
}

struct kernelname *open_kernelname(void)
{
	struct kernelname *kernelname;
	int r = kernelname_open(&kernelname);

	if (r < 0)
		skip_because("the kernel's %%pS cannot be asked: %s", strerror(-r));
	return kernelname;
}

int attach_fentry(const char *function)
{
	const struct bpf_insn insns[] = {INSN_MOV_IMM(BPF_REG_0, 0), INSN_EXIT};
	int id = libbpf_find_vmlinux_btf_id(function, BPF_TRACE_FENTRY);
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = MAX(id, 0));
	_cleanup_fd_ int prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "fentry", "GPL", insns,
					      ARRAY_SIZE(insns), &options);
	int link = prog < 0 ? -1 : bpf_raw_tracepoint_open(NULL, prog);

	if (link < 0)
		skip_because("fentry is refused here: %s", strerror(errno));
	return link;
}

int load_module(const char *name, const char *parameters)
{
	struct utsname kernel;
	char path[512];

	uname(&kernel);
	snprintf(path, sizeof(path), "/lib/modules/%s/kernel/drivers/net/%s.ko", kernel.release,
		 name);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
}

void unload_module(const char *name)
{
	if (syscall(SYS_delete_module, name, O_NONBLOCK) < 0)
		fail_msg("delete_module %s: %s", name, strerror(errno));
}
