/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may see what: addresses by group, capability or not at all, probes as /proc would let one
 * look, pins for root alone. What must hold is asked from within children that have become somebody
 * else; what the kernel itself lets them do is the oracle where there is one.
 */
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live/support.h"

#define NOBODY 65534
#define GROUP  4242

/* How a child becomes somebody else. A failure of it is exit status 99. */

static void need(bool done)
{
	if (!done)
		_exit(99);
}

static void become(uid_t uid, gid_t gid, gid_t other_group)
{
	need(setgroups(other_group != gid, &other_group) == 0);
	need(setresgid(gid, gid, gid) == 0);
	need(setresuid(uid, uid, uid) == 0);
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void become_nobody(void)
{
	become(NOBODY, NOBODY, NOBODY);
}

static void become_member(void)
{
	become(NOBODY, GROUP, GROUP);
}

static void become_member_by_supplement(void)
{
	become(NOBODY, NOBODY, GROUP);
}

static void keep_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	need(syscall(SYS_capget, &header, data) == 0);
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	need(syscall(SYS_capset, &header, data) == 0);
}

/* With what container managers leave to root: no CAP_SYSLOG, CAP_SYS_PTRACE, CAP_PERFMON. */
static void become_root_without_rights(void)
{
	need(setgroups(0, NULL) == 0);
	keep_capabilities(0xa80425fb);
}

static void write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Root, with all capabilities, in a user namespace of his own. */
static void become_root_of_user_namespace(void)
{
	need(unshare(CLONE_NEWUSER) == 0);
	write_text("/proc/self/setgroups", "deny");
	write_text("/proc/self/uid_map", "0 0 1");
	write_text("/proc/self/gid_map", "0 0 1");
	need(setresuid(0, 0, 0) == 0);
}

/* Runs in a child that has become somebody: what it returns, 0 to 98. */
static int as_somebody(void (*turn)(void), int (*fn)(const struct ksymfs *fs),
		       const struct ksymfs *fs)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		turn();
		_exit(fn(fs));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 99)
		fail_msg("could not become who it takes: status %x", status);
	return WEXITSTATUS(status);
}

/* errno of reading a file or listing a directory, 0 if it can be done. */
static int try_path(const char *path)
{
	char byte[4096];
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	return read(fd, byte, sizeof(byte)) < 0 && errno != EISDIR ? errno : 0;
}

static char known_address[17];

/* Bits of what can be read. */
enum {
	SEES_README = 1 << 0,
	SEES_KSYMS = 1 << 1,
	SEES_KALLSYMS = 1 << 2,
	SEES_ADDR = 1 << 3,
	SEES_EVENTS = 1 << 4,
	SEES_BPF = 1 << 5,
	SEES_PINS = 1 << 6,

	SEES_ADDRESSES = SEES_KSYMS | SEES_KALLSYMS | SEES_ADDR | SEES_EVENTS | SEES_BPF,
	SEES_ROOTS_PART = SEES_README | SEES_ADDRESSES | SEES_PINS,
};

static int look_around(const struct ksymfs *fs)
{
	static const char *const names[] = {"README", "ksyms",	       "kallsyms", "addr/%s",
					    "events", "bpf/functions", "pins"};
	int seen = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[256], name[64] = {};

		strcpy(name, names[i]);
		if (strchr(name, '%'))
			snprintf(name, sizeof(name), "addr/%s", known_address);
		snprintf(path, sizeof(path), "%s/%s", fs->dir, name);
		int error = try_path(path);

		if (error == 0)
			seen |= 1 << i;
		/* Not ENOENT either, which would tell which addresses there are. */
		else if (error != EACCES)
			return 97;
	}
	return seen;
}

static regex_t address_regex;
static bool found_address;
static size_t bytes_read;

static int search_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* The example in README is nobody's address. */
	if (type != FTW_F || strcmp(path + ftw->base, "README") == 0)
		return 0;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = malloc(1 << 20);

	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, (1 << 20) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	bytes_read += n;
	found_address |= regexec(&address_regex, text, 0, NULL, 0) == 0;
	return 0;
}

/* 0: there is something to read, and no kernel address in it. 1: there is one. */
static int search_tree(const struct ksymfs *fs)
{
	if (regcomp(&address_regex, "(^|[^0-9a-f])(0x)?ffff[0-9a-f]{12}([^0-9a-f]|$)",
		    REG_EXTENDED | REG_NOSUB) != 0)
		return 98;
	bytes_read = 0;
	found_address = false;
	/* Other people's programs and processes go while it walks. */
	int r = -1;
	for (int i = 0; r < 0 && !found_address && i < 20; i++)
		r = nftw(fs->dir, search_file, 32, FTW_PHYS);
	if (r < 0 && !found_address)
		return 97;
	regfree(&address_regex);
	if (!bytes_read)
		return 96;
	return found_address;
}

static void find_known_address(const struct ksymfs *fs)
{
	_cleanup_free_ char *ksyms = ksymfs_read(fs, NULL, "ksyms");
	char *line = strstr(ksyms, " T vfs_read\n");

	assert_non_null(line);
	memcpy(known_address, line - 33, 16);
}

static struct ksymfs *start(const char *option)
{
	const char *const options[] = {option, NULL};
	struct ksymfs *fs = ksymfs_start(options);
	_cleanup_free_ char *pin = ksymfs_path(fs, "pins/%d", getpid());

	find_known_address(fs);
	/* Something to be seen. */
	assert_int_equal(mkdir(pin, 0700), 0);
	return fs;
}

static void assert_mode(const struct ksymfs *fs, const char *name, mode_t mode, gid_t gid)
{
	struct stat st;

	assert_int_equal(ksymfs_stat(fs, &st, "%s", name), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, gid);
}

static void open_to_all_shows_no_address(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("-oumask=0");
	_cleanup_fd_ int prog = load_simple("access", 1);

	assert_mode(fs, "README", 0444, 0);
	assert_mode(fs, "usdt", 0555, 0);
	assert_mode(fs, "ksyms", 0400, 0);
	assert_mode(fs, "events", 0400, 0);
	assert_mode(fs, "bpf", 0500, 0);
	assert_mode(fs, "bpf/programs", 0400, 0);
	assert_mode(fs, "pins", 0700, 0);

	assert_int_equal(as_somebody(become_nobody, look_around, fs), SEES_README);
	assert_int_equal(as_somebody(become_member, look_around, fs), SEES_README);
	assert_int_equal(as_somebody(become_nobody, search_tree, fs), 0);
}

static void stay_root(void)
{
}

static void the_search_finds_addresses(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("-oumask=077");

	assert_int_equal(as_somebody(stay_root, search_tree, fs), 1);
	assert_int_equal(as_somebody(stay_root, look_around, fs), SEES_ROOTS_PART);
	assert_int_equal(as_somebody(become_nobody, look_around, fs), 0);
}

static void a_group_sees_addresses_and_no_pins(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("--group=4242");

	assert_mode(fs, "ksyms", 0440, GROUP);
	assert_mode(fs, "addr", 0550, GROUP);
	assert_mode(fs, "pins", 0700, 0);
	assert_int_equal(as_somebody(become_member, look_around, fs), SEES_README | SEES_ADDRESSES);
	assert_int_equal(as_somebody(become_member_by_supplement, look_around, fs),
			 SEES_README | SEES_ADDRESSES);
	assert_int_equal(as_somebody(become_nobody, look_around, fs), SEES_README);
	assert_int_equal(as_somebody(become_nobody, search_tree, fs), 0);
	assert_int_equal(as_somebody(stay_root, look_around, fs), SEES_ROOTS_PART);
}

static void an_owner_who_is_named_sees_addresses_and_no_pins(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("-ouid=65534");

	assert_int_equal(as_somebody(become_nobody, look_around, fs), SEES_README | SEES_ADDRESSES);
	ksymfs_stop(take_ptr(fs));
	fs = start("-ogid=4242,umask=027");
	assert_int_equal(as_somebody(become_member, look_around, fs), SEES_README | SEES_ADDRESSES);
	assert_int_equal(as_somebody(become_nobody, look_around, fs), 0);
	ksymfs_stop(take_ptr(fs));
	/* He who has the right mode by accident has not been named. */
	fs = start("-ogid=4242,umask=077");
	assert_int_equal(as_somebody(become_member, look_around, fs), 0);
}

static void root_without_rights_sees_no_address(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("-oumask=022");

	assert_int_equal(as_somebody(become_root_without_rights, look_around, fs), SEES_README);
	assert_int_equal(as_somebody(become_root_without_rights, search_tree, fs), 0);
	assert_int_equal(as_somebody(become_root_of_user_namespace, look_around, fs), SEES_README);
	assert_int_equal(as_somebody(become_root_of_user_namespace, search_tree, fs), 0);
	ksymfs_stop(take_ptr(fs));
	fs = start("--group=root");
	assert_int_equal(as_somebody(become_root_without_rights, look_around, fs),
			 SEES_README | SEES_ADDRESSES);
	assert_int_equal(as_somebody(become_root_of_user_namespace, look_around, fs),
			 SEES_README | SEES_ADDRESSES);
}

/* A pin's root is hidden, not just its name. */
static int walk_to_hidden_roots(const struct ksymfs *fs)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/.roots", fs->dir);
	return try_path(path);
}

static void hidden_roots_are_for_root(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("-oumask=0");

	assert_int_equal(as_somebody(stay_root, walk_to_hidden_roots, fs), 0);
	assert_int_equal(as_somebody(become_nobody, walk_to_hidden_roots, fs), EACCES);
	assert_int_equal(as_somebody(become_root_without_rights, walk_to_hidden_roots, fs), EACCES);
	assert_int_equal(as_somebody(become_root_of_user_namespace, walk_to_hidden_roots, fs),
			 EACCES);
}

/* Processes to be looked at. */

static void turn_setuid(void)
{
	need(setgroups(0, NULL) == 0);
	need(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	need(setresuid(NOBODY, 0, NOBODY) == 0);
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void turn_other_group(void)
{
	become(NOBODY, GROUP, GROUP);
}

static void turn_not_dumpable(void)
{
	become_nobody();
	need(prctl(PR_SET_DUMPABLE, 0) == 0);
}

static void turn_capable(void)
{
	need(prctl(PR_SET_KEEPCAPS, 1) == 0);
	become_nobody();
	keep_capabilities(1 << CAP_NET_RAW);
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void turn_root_of_user_namespace(void)
{
	become_root_of_user_namespace();
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
}

/* A user namespace of nobody's own, in which he has all capabilities. */
static void turn_into_users_namespace(void)
{
	become_nobody();
	need(unshare(CLONE_NEWUSER) == 0);
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static pid_t start_target(void (*turn)(void))
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		turn();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		need(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		fail_msg("a process to be looked at did not become what it is to be");
	close(ready[0]);
	return pid;
}

static pid_t target;

/* 0: neither the kernel nor we; 1: we do, the kernel not; 2: only the kernel; 3: both. */
static int compare_with_kernel(const struct ksymfs *fs)
{
	char path[256];

	snprintf(path, sizeof(path), "/proc/%d/maps", target);
	int kernel = try_path(path) == 0;
	snprintf(path, sizeof(path), "%s/usdt/%d/notes", fs->dir, target);
	int ours = try_path(path);

	if (ours && ours != ENOENT)
		return 97;
	snprintf(path, sizeof(path), "%s/usdt/%d", fs->dir, target);
	if (ours != try_path(path))
		return 96;
	return (kernel ? 2 : 0) | (ours == 0);
}

static void probes_are_seen_as_proc_would_have_it(void **state)
{
	static const struct {
		const char *name;
		void (*target)(void);
		void (*asker)(void);
		int expected;
	} cases[] = {
		{"one's own", become_nobody, become_nobody, 3},
		{"with more groups", become_nobody, become_member_by_supplement, 3},
		{"of another group", turn_other_group, become_nobody, 0},
		{"setuid", turn_setuid, become_nobody, 0},
		{"not dumpable", turn_not_dumpable, become_nobody, 0},
		{"with a capability", turn_capable, become_nobody, 0},
		{"the same capability", turn_capable, turn_capable, 3},
		{"root's", stay_root, become_nobody, 0},
		{"root's, by root", stay_root, stay_root, 3},
		{"nobody's, by root", turn_not_dumpable, stay_root, 3},
		{"root's, by root without rights", stay_root, become_root_without_rights, 0},
		{"root's, by a container's root", stay_root, become_root_of_user_namespace, 0},
		{"a container's root's, by root", turn_root_of_user_namespace, stay_root, 3},
		{"a container's root's, by nobody", turn_root_of_user_namespace, become_nobody, 0},
		{"in a namespace of one's own", turn_into_users_namespace, become_nobody, 3},
		{"out of a namespace of one's own", become_nobody, turn_into_users_namespace, 0},
	};
	_cleanup_ksymfs_ struct ksymfs *fs = start("--group=4242");
	int status;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		target = start_target(cases[i].target);
		int result = as_somebody(cases[i].asker, compare_with_kernel, fs);

		kill(target, SIGKILL);
		assert_int_equal(waitpid(target, &status, 0), target);
		if (result != cases[i].expected)
			fail_msg("%s: %d, not %d", cases[i].name, result, cases[i].expected);
	}
}

static int list_and_compare(const struct ksymfs *fs)
{
	char path[256], link[32];
	int own = 0;

	snprintf(path, sizeof(path), "%s/usdt", fs->dir);
	_cleanup_dir_ DIR *dir = opendir(path);
	if (!dir)
		return 97;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/maps", entry->d_name);
		if (try_path(path) == EACCES)
			return 1;
		own += atoi(entry->d_name) == getpid() || atoi(entry->d_name) == target;
	}
	snprintf(path, sizeof(path), "%s/usdt/self", fs->dir);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return 95;
	link[n] = '\0';
	return own != 2 || atoi(link) != getpid() ? 94 : 0;
}

static void a_user_lists_his_own_processes(void **state)
{
	_cleanup_ksymfs_ struct ksymfs *fs = start("--group=4242");
	int status;

	target = start_target(become_nobody);
	int result = as_somebody(become_nobody, list_and_compare, fs);

	kill(target, SIGKILL);
	waitpid(target, &status, 0);
	assert_int_equal(result, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_search_finds_addresses),
		cmocka_unit_test(open_to_all_shows_no_address),
		cmocka_unit_test(a_group_sees_addresses_and_no_pins),
		cmocka_unit_test(an_owner_who_is_named_sees_addresses_and_no_pins),
		cmocka_unit_test(root_without_rights_sees_no_address),
		cmocka_unit_test(hidden_roots_are_for_root),
		cmocka_unit_test(probes_are_seen_as_proc_would_have_it),
		cmocka_unit_test(a_user_lists_his_own_processes),
	};

	return live_run_bare(tests);
}
