/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mount in containers: copies that `ksymfs attach` puts there, bind mounts, what propagates
 * into them, and that all of it goes away again.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/mountinfo.h"
#include "tests/live/container.h"
#include "tests/live/support.h"

/* Runs ksymfs with arguments; its exit status, and what it said. */
static int ksymfs_says(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int ksymfs_says(char **ret, const char *format, ...)
{
	_cleanup_free_ char *arguments = NULL, *command = NULL;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&arguments, format, args) > 0);
	va_end(args);
	assert_true(asprintf(&command, "exec %s %s 2>&1", getenv("KSYMFS"), arguments) > 0);
	FILE *pipe = popen(command, "re");
	assert_non_null(pipe);
	*ret = read_fd(fileno(pipe), NULL);
	int status = pclose(pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Before 6.12 a copy is what it is here, and attach says so. */
static bool is_not_mapped;

static void must(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void must(const char *format, ...)
{
	_cleanup_free_ char *arguments = NULL, *said = NULL;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&arguments, format, args) > 0);
	va_end(args);
	int status = ksymfs_says(&said, "%s", arguments);
	is_not_mapped |= strstr(said, "the copy is not id-mapped") != NULL;
	if (status != 0 || (*said && !is_not_mapped))
		fail_msg("ksymfs %s: %s", arguments, said);
}

/* It fails with one line that has this in it. */
static void must_say(const char *needle, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void must_say(const char *needle, const char *format, ...)
{
	_cleanup_free_ char *arguments = NULL, *said = NULL;
	va_list args;

	va_start(args, format);
	assert_true(vasprintf(&arguments, format, args) > 0);
	va_end(args);
	int status = ksymfs_says(&said, "%s", arguments);
	if (status != 1 || !strstr(said, needle) || strchr(said, '\n') != said + strlen(said) - 1)
		fail_msg("ksymfs %s: status %d, '%s', not '%s'", arguments, status, said, needle);
}

static size_t count_attached(const struct ksymfs *fs)
{
	_cleanup_free_ char *status = ksymfs_read(fs, NULL, "status");

	return count_lines_with_prefix(status, "attached: ");
}

static void a_copy_is_put_into_a_container(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_ALL | CONTAINER_USER | CONTAINER_PIVOT);
	char expected[160];

	must("attach --from=%s %d", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, fs->dir), 1);
	snprintf(expected, sizeof(expected), "attached: pid=%d dir=%s\n", container->pid, fs->dir);
	_cleanup_free_ char *status = ksymfs_read(fs, NULL, "status");
	if (!strstr(status, expected))
		fail_msg("no '%s' in %s", expected, status);

	/* The container's root owns it, reads it, and has nothing to write. */
	_cleanup_free_ char *owner = container_output(container, "stat -c %%u:%%a %s", fs->dir);
	assert_string_equal(owner, is_not_mapped ? "65534:555\n" : "0:555\n");
	assert_int_equal(container_run(container,
				       "cd %s && cat README status usdt/probes >/dev/null",
				       fs->dir),
			 0);
	assert_int_equal(container_run(container, "! mkdir %s/pins/1 2>/dev/null", fs->dir), 0);
	assert_int_equal(container_run(container, "! ls %s/pins 2>/dev/null", fs->dir), 0);

	must_say("already", "attach --from=%s %d", fs->dir, container->pid);
	must("detach --from=%s %d", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, NULL), 0);
	assert_int_equal(count_attached(fs), 0);
	must_say("no ksymfs is attached", "detach --from=%s %d", fs->dir, container->pid);
}

/* Whom -o uid= names is the owner in there, and is shown addresses as well. */
static void an_owner_of_the_containers_needs_no_id_mapping(void **state)
{
	need_copies();
	_cleanup_ksymfs_ struct ksymfs *fs =
		ksymfs_start((const char *[]){"-ouid=100000,gid=100000", NULL});
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_USER | CONTAINER_PIVOT);

	must("attach --from=%s %d /mnt", fs->dir, container->pid);
	_cleanup_free_ char *owner = container_output(container, "stat -c %%u:%%g:%%a /mnt");
	assert_string_equal(owner, "0:0:500\n");
	assert_int_equal(container_run(container, "cat /mnt/README /mnt/ksyms >/dev/null"), 0);
	assert_int_equal(container_run(container, "! ls /mnt/pins 2>/dev/null"), 0);
	assert_int_equal(run("! grep -q idmapped /proc/%d/mountinfo", container->pid), 0);
}

static void what_is_loaded_shows_in_the_container_at_once(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_ALL | CONTAINER_USER | CONTAINER_PIVOT);

	must("attach --from=%s %d /mnt", fs->dir, container->pid);
	for (int i = 0; i < 5; i++) {
		char name[16];

		snprintf(name, sizeof(name), "kst_copy%d", i);
		assert_int_equal(container_run(container, "! grep -q %s /mnt/ksyms", name), 0);
		int prog = load_simple(name, 1000 + i);
		/* --group is the container's root's. */
		assert_int_equal(container_run(container, "grep -q %s /mnt/ksyms", name), 0);
		unload(prog);
		assert_int_equal(container_run(container, "! grep -q %s /mnt/ksyms", name), 0);
	}
}

/* The session in README.md, as far as busybox goes: what its commands say, one below the other.
 * How long the code is differs from kernel to kernel. */
static void the_readmes_session_runs_in_a_container(void **state)
{
	static const char loaded[] =
		"cd /mnt; program=$(awk '$1 == %u { print $8 }' bpf/programs);"
		"grep -c \" loaded .* calls_main .* $program \" bpf/programs;"
		"addr=$(awk '$4 ~ /_calls_global$/ { print $1 }' $program/ksyms);"
		"grep -c \"^$addr .*_calls_global\" ksyms;"
		"sed -n 's,.*_calls_global\\(+0x0\\)/0x[0-9a-f]* ,\\1 ,p' addr/$addr; grep -c "
		"'^source: .*calls.bpf.c' "
		"addr/$addr;"
		"grep -c '^fd ' $program/holders; grep state $program/info;"
		"grep -c \"^$addr .*_calls_global\" kallsyms;"
		"grep -c \"^$addr .*_calls_global\" bpf/functions;"
		"echo $program $addr >/tmp/names";
	static const char unloaded[] =
		"cd /mnt; read program addr </tmp/names; head -n 1 $program/info;"
		"grep id=${program##*/} events | sed 's/[0-9.]* //; s/ .*//';"
		"test $(wc -c <$program/jited) = $(sed -n 's/jited_bytes: //p' $program/info) && "
		"echo "
		"whole; cat addr/$addr 2>&1 | sed 's/.*: //';"
		"time=$(grep id=${program##*/} events | sed -n '1s/ .*//p');"
		"sed -n 's,.*_calls_global\\(+0x0\\)/0x[0-9a-f]* ,\\1 ,p' addr/$addr@$time;"
		"head -n 1 README; grep -c ^health: status; grep -c ksymfs_ metrics | grep -q .. "
		"&& "
		"echo many;"
		"cat usdt/self/probes usdt/probes >/dev/null && echo probes;"
		"cp -r bpf/${program#bpf/} /tmp/copy && cmp /tmp/copy/jited $program/jited && echo "
		"same";
	need_copies();
	_cleanup_ksymfs_ struct ksymfs *fs = ksymfs_start((const char *[]){"--group=100000", NULL});
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_ALL | CONTAINER_USER | CONTAINER_PIVOT);
	struct bpf_object *object = load_object("calls");
	must("attach --from=%s %d /mnt", fs->dir, container->pid);
	_cleanup_free_ char *first =
		container_output(container, loaded, prog_id(object_prog_fd(object, "calls_main")));
	close_object(object);
	_cleanup_free_ char *second = container_output(container, "%s", unloaded);
	assert_string_equal(first, "1\n1\n+0x0 [bpf]\n1\n1\nstate: loaded\n1\n1\n");
	assert_string_equal(second,
			    "state: unloaded\nprog-load\nprog-unload\nwhole\n"
			    "No such file or directory\n+0x0 [bpf]\n"
			    "The running kernel's symbols and BPF programs, as files. All of it is "
			    "read-only\n1\nmany\nprobes\nsame\n");
}

static void links_of_the_container_lead_nowhere_else(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_USER | CONTAINER_PIVOT);
	char outside[] = "/tmp/ksymfs-outside-XXXXXX";

	assert_non_null(mkdtemp(outside));
	assert_int_equal(
		container_run(container,
			      "ln -s /etc /mnt/absolute && ln -s ../../../../../etc /mnt/up &&"
			      "mkdir /tmp/dir && ln -s /../../%s /mnt/out",
			      outside),
		0);
	must("attach --from=%s %d /mnt/absolute", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, "/etc"), 1);
	must("detach --from=%s %d /mnt/up", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, "/etc"), 0);
	must("attach --from=%s %d /mnt/../../../etc", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, "/etc"), 1);
	must_say("/mnt/out", "attach --from=%s %d /mnt/out", fs->dir, container->pid);
	/* Nor its magic ones, which lead to other namespaces. */
	must_say("/proc/1/root", "attach --from=%s %d /proc/1/root/tmp", fs->dir, container->pid);
	assert_int_equal(run("! grep -q ' %s ' /proc/self/mountinfo", outside), 0);
	rmdir(outside);
}

/* Nor for a process that has changed root, whose namespace has more than it sees. */
static void nothing_leads_out_of_a_changed_root(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container = container_start(CONTAINER_PIVOT);

	assert_int_equal(
		container_run(container,
			      "mkdir -p /tmp/root/etc /tmp/root/bin && "
			      "cp /bin/busybox /tmp/root/bin &&"
			      "ln -s /../../etc /tmp/root/link &&"
			      "(chroot /tmp/root /bin/busybox sleep 1000 & echo $! >/tmp/pid)"
			      "; until [ /proc/$(cat /tmp/pid)/root -ef /tmp/root ]; do :; done"),
		0);
	_cleanup_free_ char *inside = container_output(container, "cat /tmp/pid");
	_cleanup_free_ char *find = NULL;
	/* By its number out here. */
	assert_true(asprintf(&find,
			     "for p in $(cat /proc/%d/task/*/children); do "
			     "grep -q \"^NSpid:.*[[:space:]]%d$\" /proc/$p/status && "
			     "exec %s attach --from=%s $p /link; done; exit 9",
			     container->pid, atoi(inside), getenv("KSYMFS"), fs->dir) > 0);
	assert_int_equal(run("%s", find), 0);
	assert_int_equal(container_mounts(container, "/tmp/root/etc"), 1);
	assert_int_equal(container_mounts(container, "/etc"), 0);
}

static void refusals_say_what_is_wrong(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container =
		container_start(CONTAINER_USER | CONTAINER_PIVOT);

	must_say("it has no directory /no/such, which cannot be made there",
		 "attach --from=%s %d /no/such", fs->dir, container->pid);
	assert_int_equal(container_run(container, "mount -o remount,ro,bind /"), 0);
	must_say("Read-only file system", "attach --from=%s %d", fs->dir, container->pid);
	must_say("Not a directory", "attach --from=%s %d /bin/busybox", fs->dir, container->pid);
	must_say("no ksymfs is mounted at /proc", "attach --from=/proc %d", container->pid);
	must_say("there is none", "attach --from=%s 4194304", fs->dir);
	must_say("no ksymfs is attached at /mnt", "detach --from=%s %d /mnt", fs->dir,
		 container->pid);
	assert_int_equal(container_mounts(container, NULL), 0);
}

/* A copy that came with the namespace was not attached, and stays. */
static void what_was_there_before_is_not_detached(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container = container_start(0);

	assert_int_equal(container_mounts(container, fs->dir), 1);
	assert_int_equal(count_attached(fs), 0);
	must_say("already", "attach --from=%s %d", fs->dir, container->pid);
	must_say("no ksymfs is attached", "detach --from=%s %d", fs->dir, container->pid);
	assert_int_equal(container_mounts(container, fs->dir), 1);
}

static size_t count_entries(const char *path)
{
	_cleanup_dir_ DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	return count;
}

struct resources {
	const struct ksymfs *fs;
	size_t fds, threads;
};

static void count_resources(const struct ksymfs *fs, struct resources *ret)
{
	char path[64];

	*ret = (struct resources){.fs = fs};
	snprintf(path, sizeof(path), "/proc/%d/fd", fs->daemon);
	ret->fds = count_entries(path);
	snprintf(path, sizeof(path), "/proc/%d/task", fs->daemon);
	ret->threads = count_entries(path);
}

/* Workers go when there is nothing to do for them. */
static bool resources_are_back(void *arg)
{
	const struct resources *before = arg;
	struct resources now;

	count_resources(before->fs, &now);
	return now.fds <= before->fds && now.threads <= before->threads;
}

static void fifty_namespaces_leave_nothing(void **state)
{
	need_copies();
	struct ksymfs *fs = *state;
	struct container *containers[50];
	struct resources before;

	assert_int_equal(count_attached(fs), 0);
	count_resources(fs, &before);
	for (size_t i = 0; i < ARRAY_SIZE(containers); i++) {
		containers[i] = container_start(CONTAINER_PIVOT | (i % 2 ? CONTAINER_USER : 0));
		must("attach --from=%s %d /mnt", fs->dir, containers[i]->pid);
	}
	assert_int_equal(count_attached(fs), 50);
	/* Half of them are detached, the others end as they are. */
	for (size_t i = 0; i < ARRAY_SIZE(containers); i++) {
		assert_int_equal(container_mounts(containers[i], "/mnt"), 1);
		if (i < 25)
			continue;
		must("detach --from=%s %d /mnt", fs->dir, containers[i]->pid);
		assert_int_equal(container_mounts(containers[i], NULL), 0);
	}
	assert_int_equal(count_attached(fs), 25);
	for (size_t i = 0; i < ARRAY_SIZE(containers); i++)
		container_stop(containers[i]);
	assert_int_equal(count_attached(fs), 0);
	assert_true(wait_until(resources_are_back, &before, 20));
	_cleanup_free_ char *own = read_path("/proc/self/mountinfo", NULL);
	assert_int_equal(count_lines_with(own, fs->dir), 1);
}

/* A process of the container's that has its working directory there, and a file open. */
static pid_t live_in(const struct container *container, const char *dir)
{
	char path[64];
	int ready[2];
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", container->pid);
		int ns = open(path, O_RDONLY | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setns(ns, CLONE_NEWNS) < 0 || chdir(dir) < 0 || open("README", O_RDONLY) < 0 ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		fail_msg("nobody can live in %s", dir);
	close(ready[0]);
	return pid;
}

static void check_end(bool by_umount)
{
	need_copies();
	struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_container_ struct container *plain = container_start(CONTAINER_PIVOT);
	_cleanup_container_ struct container *user =
		container_start(CONTAINER_PIVOT | CONTAINER_USER);
	_cleanup_container_ struct container *inherited = container_start(0);
	char dir[64];

	strcpy(dir, fs->dir);
	must("attach --from=%s %d /mnt", fs->dir, plain->pid);
	must("attach --from=%s %d /mnt", fs->dir, user->pid);
	must("attach --from=%s %d /etc", fs->dir, user->pid);
	pid_t inhabitant = by_umount ? 0 : live_in(plain, "/mnt");
	if (by_umount) {
		must("umount %s", fs->dir);
		assert_int_equal(waitpid(fs->pid, NULL, 0), fs->pid);
		ksymfs_kill(fs);
	} else {
		ksymfs_stop(fs);
	}
	assert_int_equal(container_mounts(plain, NULL), 0);
	assert_int_equal(container_mounts(user, NULL), 0);
	assert_int_equal(container_mounts(inherited, dir), 0);
	if (inhabitant) {
		kill(inhabitant, SIGKILL);
		waitpid(inhabitant, NULL, 0);
	}
}

static void the_daemons_end_takes_the_copies_away(void **state)
{
	check_end(false);
}

static void unmounting_takes_the_copies_away(void **state)
{
	check_end(true);
}

/* Mounts of a file system in a namespace that no process is in. */
static size_t count_mounts_in(int ns, dev_t dev)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct mountinfo_list list = {};
		size_t count = 0;

		if (setns(ns, CLONE_NEWNS) < 0 || mountinfo_read(&list) < 0)
			_exit(99);
		for (size_t i = 0; i < list.count; i++)
			count += list.mounts[i].dev == dev;
		_exit(count);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Who asks for the next of its own namespace is told, or that there is none. */
static bool kernel_names_namespaces(void)
{
	uint64_t info[2] = {sizeof(info)};
	_cleanup_fd_ int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int next = ioctl(ns, _IOR(0xb7, 11, info), info);

	return next >= 0 || errno == ENOENT;
}

/* An fd keeps the namespace of a container that has ended, and the copy in it. */
static void the_end_reaches_namespaces_without_a_process(void **state)
{
	need_copies();
	struct ksymfs *fs = ksymfs_start(NULL);
	struct container *container = container_start(CONTAINER_USER);
	struct stat st;
	char path[64];

	assert_return_code(stat(fs->dir, &st), errno);
	must("attach --from=%s %d /mnt", fs->dir, container->pid);
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", container->pid);
	_cleanup_fd_ int ns = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(ns >= 0);
	container_stop(container);
	/* The one that it was made with, and the one that was attached. */
	assert_int_equal(count_mounts_in(ns, st.st_dev), 2);
	ksymfs_stop(fs);
	if (!kernel_names_namespaces())
		skip_because("this kernel does not name mount namespaces (6.12)");
	assert_int_equal(count_mounts_in(ns, st.st_dev), 0);
}

/* What has been killed leaves dead mounts; they can be detached all the same. */
static void a_dead_copy_can_be_detached(void **state)
{
	need_copies();
	struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_container_ struct container *container = container_start(CONTAINER_PIVOT);
	char dir[64];

	strcpy(dir, fs->dir);
	must("attach --from=%s %d /mnt", dir, container->pid);
	ksymfs_kill(fs);
	assert_int_equal(container_mounts(container, NULL), 1);
	must("detach --from=%s %d /mnt", dir, container->pid);
	assert_int_equal(container_mounts(container, NULL), 0);
}

/* Volumes: bind mounts, and what propagates. */

/* A program that comes and goes is in a file of the container's at once, and gone. */
static void assert_fresh(const struct container *container, const char *path, const char *before,
			 int variant)
{
	char name[16];

	snprintf(name, sizeof(name), "kst_volume%d", variant);
	for (int i = 0; i < 2; i++) {
		int prog = load_simple(name, variant);
		assert_int_equal(container_run(container, "grep -q '%s%s' %s", before, name, path),
				 0);
		unload(prog);
		assert_int_equal(
			container_run(container, "! grep -q '%s%s' %s", before, name, path), 0);
	}
}

static void bind_mounts_stay_fresh(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_container_ struct container *container = container_start(CONTAINER_ALL);

	/* As a container's volumes are made: out of what it came with. */
	assert_int_equal(container_run(container,
				       "mount -t tmpfs none /mnt && mkdir /mnt/all /mnt/dir &&"
				       "touch /mnt/ksyms && mount -o bind %s /mnt/all &&"
				       "mount -o bind %s/bpf /mnt/dir &&"
				       "mount -o bind %s/ksyms /mnt/ksyms && umount -l %s",
				       fs->dir, fs->dir, fs->dir, fs->dir),
			 0);
	assert_fresh(container, "/mnt/all/ksyms", "_", 1);
	assert_fresh(container, "/mnt/dir/programs", " loaded .* ", 2);
	assert_fresh(container, "/mnt/ksyms", "_", 3);
}

/* Each open of a single file that is bind-mounted sees the present. */
static void a_file_that_is_bind_mounted_shows_each_change(void **state)
{
	struct ksymfs *fs = *state;
	_cleanup_free_ char *source = ksymfs_path(fs, "ksyms");
	char target[] = "/tmp/ksymfs-file-XXXXXX";
	char name[16];

	assert_true(mkstemp(target) >= 0);
	assert_int_equal(mount(source, target, NULL, MS_BIND, NULL), 0);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "kst_single%d", i);
		_cleanup_fd_ int prog = load_simple(name, 5000 + i);
		_cleanup_free_ char *text = read_path(target, NULL);

		if (!strstr(text, name))
			fail_msg("%s is not in the bind mount", name);
	}
	assert_int_equal(umount2(target, 0), 0);
	unlink(target);
}

/* What is mounted after a container was made comes in by propagation, and so does its end. */
static void a_slave_volume_gets_what_is_mounted_later(void **state)
{
	char parent[] = "/tmp/ksymfs-parent-XXXXXX", dir[64];

	assert_non_null(mkdtemp(parent));
	snprintf(dir, sizeof(dir), "%s/m", parent);
	assert_int_equal(mount(parent, parent, NULL, MS_BIND, NULL), 0);
	/* With nobody but the container: not with what it was copied from. */
	assert_int_equal(mount(NULL, parent, NULL, MS_PRIVATE, NULL), 0);
	assert_int_equal(mount(NULL, parent, NULL, MS_SHARED, NULL), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	_cleanup_container_ struct container *container = container_start(CONTAINER_SLAVE);
	must("%s", dir);
	assert_int_equal(container_mounts(container, dir), 1);
	_cleanup_free_ char *path = NULL;
	assert_true(asprintf(&path, "%s/ksyms", dir) > 0);
	assert_fresh(container, path, "_", 4);
	must("umount %s", dir);
	assert_int_equal(container_mounts(container, dir), 0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	must("%s", dir);
	assert_fresh(container, path, "_", 5);
	must("umount %s", dir);
	assert_int_equal(umount2(parent, MNT_DETACH), 0);
	rmdir(dir);
	rmdir(parent);
}

static void a_busy_mount_says_so_and_goes_with_l(void **state)
{
	struct ksymfs *fs = ksymfs_start(NULL);
	_cleanup_free_ char *path = ksymfs_path(fs, "README");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;

	must_say("files in it are open", "umount %s", fs->dir);
	must("umount -l %s", fs->dir);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	close(fd);
	assert_int_equal(waitpid(fs->pid, NULL, 0), fs->pid);
	ksymfs_kill(fs);
}

int main(void)
{
	static const char *const options[] = {"--group=100000", NULL};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_put_into_a_container),
		cmocka_unit_test(an_owner_of_the_containers_needs_no_id_mapping),
		cmocka_unit_test(what_is_loaded_shows_in_the_container_at_once),
		cmocka_unit_test(the_readmes_session_runs_in_a_container),
		cmocka_unit_test(links_of_the_container_lead_nowhere_else),
		cmocka_unit_test(nothing_leads_out_of_a_changed_root),
		cmocka_unit_test(refusals_say_what_is_wrong),
		cmocka_unit_test(what_was_there_before_is_not_detached),
		cmocka_unit_test(fifty_namespaces_leave_nothing),
		cmocka_unit_test(bind_mounts_stay_fresh),
		cmocka_unit_test(a_file_that_is_bind_mounted_shows_each_change),
		cmocka_unit_test(the_daemons_end_takes_the_copies_away),
		cmocka_unit_test(the_end_reaches_namespaces_without_a_process),
		cmocka_unit_test(unmounting_takes_the_copies_away),
		cmocka_unit_test(a_dead_copy_can_be_detached),
		cmocka_unit_test(a_slave_volume_gets_what_is_mounted_later),
		cmocka_unit_test(a_busy_mount_says_so_and_goes_with_l),
	};

	/* Daemons in the background end as our children. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return live_run_options(tests, options);
}
