/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rings and the uevent socket against the running kernel: what a call has done is there when
 * it returns, in order, with the right task; what was lost is counted, once.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "core/ring.h"
#include "core/ring_priv.h"
#include "core/text.h"
#include "core/uevent.h"
#include "tests/live/support.h"

#define PAGES 64

static struct rings *open_rings(unsigned int wants, unsigned int pages)
{
	struct rings *rings;

	assert_int_equal(rings_open(wants, pages, &rings), 0);
	return rings;
}

static void pass_over(const struct record *record, void *arg)
{
}

/* ---- loads and unloads ---- */

/* What was seen of one program, among those of others. */
struct watched {
	uint32_t id; /* 0: take the first load of this process */
	char tag[17];
	uint64_t addr;
	uint64_t last_time;
	int step; /* 1: symbol added, 2: loaded, 3: symbol removed, 4: unloaded */
	bool wrong_order;
	bool lost;
};

static void advance(struct watched *watched, int to, uint64_t time)
{
	if (watched->step != to - 1 || time < watched->last_time)
		watched->wrong_order = true;
	watched->last_time = time;
	watched->step = to;
}

static void watch_symbol(struct watched *watched, const struct record *record)
{
	if (strncmp(record->ksymbol.name, "bpf_prog_", 9) ||
	    strncmp(record->ksymbol.name + 9, watched->tag, 16))
		return;
	if (!record->ksymbol.unregister && record->pid == (uint32_t)getpid()) {
		watched->addr = record->ksymbol.addr;
		advance(watched, 1, record->time);
	} else if (record->ksymbol.unregister && record->ksymbol.addr == watched->addr) {
		advance(watched, 3, record->time);
	}
}

static void watch(const struct record *record, void *arg)
{
	struct watched *watched = arg;

	if (record->kind == RECORD_LOST)
		watched->lost = true;
	if (record->kind == RECORD_KSYMBOL)
		watch_symbol(watched, record);
	if (record->kind != RECORD_BPF_EVENT)
		return;
	if (!watched->id && record->pid == (uint32_t)getpid() && watched->step == 1)
		watched->id = record->bpf.id;
	if (record->bpf.id == watched->id)
		advance(watched, record->bpf.type == PERF_BPF_EVENT_PROG_LOAD ? 2 : 4,
			record->time);
}

/* Facts: a drain right after the load has returned sees it, from every CPU; the unload likewise. */
static void test_seen_when_the_call_returns(void **state)
{
	CLEANUP(rings_cleanup) struct rings *rings = open_rings(RING_SYMBOLS, PAGES);
	struct oracle oracle;
	int probe = load_simple("ring_test", 4711);

	oracle_read(probe, &oracle);
	close(probe);
	for (int i = 0; i < 1000; i++) {
		struct watched watched = {};

		rings_drain(rings, pass_over, NULL);
		strcpy(watched.tag, oracle.tag);
		pin_to_cpu(i % 2);
		uint64_t before = monotonic_ns();
		int fd = load_simple("ring_test", 4711);
		uint64_t after = monotonic_ns();

		assert_true(rings_pending(rings));
		assert_true(rings_drain(rings, watch, &watched) >= 2);
		assert_int_equal(watched.step, 2);
		assert_int_equal(watched.id, prog_id(fd));
		assert_in_range(watched.last_time, before, after);
		pin_to_cpu(i / 2 % 2);
		unload(fd);
		rings_drain(rings, watch, &watched);
		assert_int_equal(watched.step, 4);
		assert_false(watched.wrong_order);
		assert_false(watched.lost);
	}
	unpin_cpu();
	oracle_deinit(&oracle);
}

/* ---- losses ---- */

struct counted {
	uint64_t records;
	uint64_t lost;
	size_t lost_records;
};

static void count(const struct record *record, void *arg)
{
	struct counted *counted = arg;

	if (record->kind == RECORD_LOST) {
		counted->lost += record->lost.count;
		counted->lost_records++;
	} else {
		counted->records++;
	}
}

/* A ring that overflows beside one that does not: what the first had no room for is the rest. */
static bool losses_add_up(void)
{
	CLEANUP(rings_cleanup) struct rings *large = open_rings(RING_SYMBOLS, 4 * PAGES);
	CLEANUP(rings_cleanup) struct rings *small = open_rings(RING_SYMBOLS, 1);
	struct counted all = {}, some = {};
	struct rings_stats stats;

	rings_drain(large, pass_over, NULL);
	rings_drain(small, pass_over, NULL);
	for (int i = 0; i < 300; i++)
		unload(load_simple("lost", i));
	rings_drain(small, count, &some);
	rings_drain(large, count, &all);
	assert_int_equal(all.lost, 0);
	assert_true(all.records >= 1200);
	assert_true(some.lost > 0);

	/* Now there is room for the kernel's own word of it, which is no news. */
	size_t told = some.lost_records;

	unload(load_simple("lost", 1));
	rings_drain(small, count, &some);
	rings_drain(large, count, &all);
	rings_stats(small, &stats);
	assert_int_equal(stats.lost, some.lost);
	return some.records + some.lost == all.records && some.lost_records == told;
}

/* Others may load between one drain and the other: then it is tried again. */
static void test_losses_are_told_once(void **state)
{
	for (int attempt = 0; attempt < 10; attempt++)
		if (losses_add_up())
			return;
	fail_msg("records and losses never added up");
}

/* ---- waking ---- */

static void test_poll_wakes(void **state)
{
	CLEANUP(rings_cleanup) struct rings *rings = open_rings(RING_SYMBOLS, PAGES);

	for (int i = 0; i < 50; i++) {
		struct pollfd poll_fd = {.fd = rings_fd(rings), .events = POLLIN};

		/* Left from before, or a stranger's. */
		while (poll(&poll_fd, 1, 0) > 0)
			rings_drain(rings, pass_over, NULL);
		int fd = load_simple("poll", i);

		assert_int_equal(poll(&poll_fd, 1, 1000), 1);
		assert_true(poll_fd.revents & POLLIN);
		close(fd);
		rings_drain(rings, pass_over, NULL);
	}
}

/* An event that died with its CPU is replaced; what lay in its ring is still there. */
static void test_revived_ring(void **state)
{
	CLEANUP(rings_cleanup) struct rings *rings = open_rings(RING_SYMBOLS, PAGES);
	struct counted counted = {};

	assert_true(pin_to_cpu(0));
	unsigned int cpu = sched_getcpu(), slot = 0;

	while (rings->slots[slot].cpu != cpu)
		assert_true(++slot < rings->count);
	/* Alive: nothing to be done. */
	int fd = rings->slots[slot].fd;

	assert_int_equal(rings_cpu_online(rings, cpu), 0);
	assert_int_equal(rings->slots[slot].fd, fd);

	rings_drain(rings, pass_over, NULL);
	int first = load_simple("revive", 1);

	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0), 0);
	unload(load_simple("revive", 2));
	assert_int_equal(rings_cpu_online(rings, cpu), 1);
	unload(load_simple("revive", 3));
	rings_drain(rings, count, &counted);
	/* Two of the first, none of the second, four of the third; strangers may add to it. */
	assert_in_range(counted.records, 6, 1000);

	struct watched watched = {};
	struct oracle oracle;

	oracle_read(first, &oracle);
	strcpy(watched.tag, oracle.tag);
	watched.id = oracle.info.id;
	watched.addr = oracle.ksyms[0];
	watched.step = 2;
	unload(first);
	assert_true(rings_drain(rings, watch, &watched) >= 2);
	/* Each record once: the event before it is silent. */
	assert_int_equal(watched.step, 4);
	assert_false(watched.wrong_order);
	unpin_cpu();
	oracle_deinit(&oracle);
}

/* ---- tasks and mappings ---- */

struct child {
	uint32_t pid;
	struct stat exe;
	bool forked, execed, mapped, exited;
};

static void watch_child(const struct record *record, void *arg)
{
	struct child *child = arg;

	if (record->pid != child->pid)
		return;
	switch (record->kind) {
	case RECORD_FORK:
		child->forked = record->task.ppid == (uint32_t)getpid();
		break;
	case RECORD_COMM:
		if (record->comm.exec)
			child->execed = child->forked && strcmp(record->comm.comm, "true") == 0;
		break;
	case RECORD_MMAP2:
		if (record->mmap.inode == child->exe.st_ino &&
		    record->mmap.major == major(child->exe.st_dev) &&
		    record->mmap.minor == minor(child->exe.st_dev))
			child->mapped = child->execed && strstr(record->mmap.path, "/true");
		break;
	case RECORD_EXIT:
		child->exited = child->execed;
		break;
	default:
		break;
	}
}

static void test_tasks_and_mappings(void **state)
{
	CLEANUP(rings_cleanup)
	struct rings *rings = open_rings(RING_TASKS | RING_MMAPS, 4 * PAGES);
	struct child child = {};
	int status;

	assert_int_equal(stat("/bin/true", &child.exe), 0);
	child.pid = fork();
	assert_true(child.pid != UINT32_MAX);
	if (child.pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	assert_int_equal(status, 0);
	rings_drain(rings, watch_child, &child);
	assert_true(child.forked);
	assert_true(child.execed);
	assert_true(child.mapped);
	assert_true(child.exited);
}

/* ---- rights ---- */

/* Sets this thread's effective capabilities: all that are permitted, but for some. */
static void set_effective(uint64_t without)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted & ~(uint32_t)(without >> (32 * i));
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void test_not_permitted(void **state)
{
	struct rings *rings = NULL;

	set_effective(UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_PERFMON);
	int r = rings_open(RING_SYMBOLS, PAGES, &rings);

	set_effective(0);
	if (r == 0) {
		rings_close(rings);
		skip_because("perf_event_paranoid lets everybody have rings");
	}
	assert_int_equal(r, -EACCES);
	assert_int_equal(rings_open(RING_SYMBOLS, 3, &rings), -EINVAL);
	assert_int_equal(rings_open(RING_SYMBOLS, 0, &rings), -EINVAL);
}

/* ---- uevents ---- */

static void write_file(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		skip_because("%s: %s", path, strerror(errno));
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* Is an event of this kind there, for this module or CPU? */
static bool find_uevent(int fd, enum uevent_kind kind, const char *module, unsigned int cpu)
{
	char buf[4096];
	struct uevent event;
	int r;

	while ((r = uevent_next(fd, buf, sizeof(buf), &event)) > 0)
		if (event.kind == kind && event.cpu == cpu &&
		    (!module || strcmp(event.module, module) == 0))
			return true;
	assert_int_equal(r, 0);
	return false;
}

#define CPU_UEVENT    "/sys/devices/system/cpu/cpu0/uevent"
#define MODULE_UEVENT "/sys/module/fuse/uevent"

/* The kernel says again what it once said to whoever writes the word to a uevent file. */
static void test_cpu_uevents(void **state)
{
	_cleanup_fd_ int fd = uevent_open();

	assert_true(fd >= 0);
	assert_false(find_uevent(fd, UEVENT_CPU_ONLINE, NULL, 0));
	write_file(CPU_UEVENT, "online");
	assert_true(find_uevent(fd, UEVENT_CPU_ONLINE, NULL, 0));
	write_file(CPU_UEVENT, "change");
	assert_false(find_uevent(fd, UEVENT_CPU_ONLINE, NULL, 0));
}

static void test_module_uevents(void **state)
{
	_cleanup_fd_ int fd = uevent_open();

	assert_true(fd >= 0);
	write_file(MODULE_UEVENT, "add");
	assert_true(find_uevent(fd, UEVENT_MODULE_ADD, "fuse", 0));
	write_file(MODULE_UEVENT, "remove");
	assert_true(find_uevent(fd, UEVENT_MODULE_REMOVE, "fuse", 0));
}

/* What is not the kernel's is not believed. */
static void test_forged_uevent(void **state)
{
	static const char message[] = "add@/module/forged\0ACTION=add";
	struct sockaddr_nl group = {.nl_family = AF_NETLINK, .nl_groups = 1};
	_cleanup_fd_ int fd = uevent_open();
	_cleanup_fd_ int forger =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	assert_true(fd >= 0 && forger >= 0);
	assert_int_equal(sendto(forger, message, sizeof(message), 0, (struct sockaddr *)&group,
				sizeof(group)),
			 sizeof(message));
	assert_false(find_uevent(fd, UEVENT_MODULE_ADD, "forged", 0));
}

static void test_uevents_overflow(void **state)
{
	_cleanup_fd_ int fd = uevent_open();
	int bytes = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	for (int i = 0; i < 20; i++)
		write_file(CPU_UEVENT, "online");
	assert_true(find_uevent(fd, UEVENT_LOST, NULL, 0));
}

/* ---- several listeners ---- */

static void hear(const struct record *record, void *arg)
{
	struct text *heard = arg;

	if (record->pid != (uint32_t)getpid())
		return;
	/* Each listener's clock is read anew. */
	uint64_t now = monotonic_ns();

	assert_in_range(record->time, now - MIN(now, NSEC_PER_SEC * 60), now);
	text_printf(heard, "%d %u %u ", record->kind, record->tid, record->cpu);
	if (record->kind == RECORD_KSYMBOL)
		text_printf(heard, "%" PRIx64 " %u %s\n", record->ksymbol.addr, record->ksymbol.len,
			    record->ksymbol.name);
	else
		text_printf(heard, "%u %u\n", record->bpf.id, record->bpf.type);
}

/*
 * The kernel makes the records of all listeners on a CPU but the first longer than what it writes
 * into them: each one must read the same all the same, in a ring that is full of old bytes too.
 */
static void test_several_listeners(void **state)
{
	struct rings *rings[4];
	struct text heard[ARRAY_SIZE(rings)] = {};

	for (size_t i = 0; i < ARRAY_SIZE(rings); i++)
		rings[i] = open_rings(RING_SYMBOLS, 1);
	for (int round = 0; round < 200; round++) {
		int fd = load_simple(round % 2 ? "a" : "several_listen", round);

		unload(fd);
		for (size_t i = 0; i < ARRAY_SIZE(rings); i++)
			rings_drain(rings[i], hear, &heard[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rings); i++) {
		assert_true(heard[i].len > 200 * 50);
		assert_int_equal(heard[i].len, heard[0].len);
		assert_memory_equal(heard[i].data, heard[0].data, heard[0].len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rings); i++) {
		text_deinit(&heard[i]);
		rings_close(rings[i]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seen_when_the_call_returns),
		cmocka_unit_test(test_several_listeners),
		cmocka_unit_test(test_losses_are_told_once),
		cmocka_unit_test(test_poll_wakes),
		cmocka_unit_test(test_revived_ring),
		cmocka_unit_test(test_tasks_and_mappings),
		cmocka_unit_test(test_not_permitted),
		cmocka_unit_test(test_cpu_uevents),
		cmocka_unit_test(test_module_uevents),
		cmocka_unit_test(test_forged_uevent),
		cmocka_unit_test(test_uevents_overflow),
	};

	return live_run_bare(tests);
}
