/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who keeps a program loaded, open files and pins: see holders.h. */
#include "core/holders.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/holders_parts.h"

/* A bpffs is a flat thing in practice; these keep a hostile one from holding a reader for good. */
#define PIN_DEPTH_MAX	16
#define PIN_ENTRIES_MAX 65536
#define PIN_PATH_MAX	4096

/* Reads a small file whole, as a string. Returns its length, or -errno. */
static ssize_t read_small(int dir_fd, const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t len = read(fd, buf, size - 1);

	if (len < 0)
		return -errno;
	buf[len] = '\0';
	return len;
}

/* The program of a program's or link's file, from its fdinfo; 0: it is neither. */
static uint32_t fdinfo_prog_id(int dir_fd, const char *path)
{
	char buf[1024];
	uint32_t id;

	if (read_small(dir_fd, path, buf, sizeof(buf)) < 0)
		return 0;
	const char *line = strstr(buf, "\nprog_id:");

	return line && sscanf(line, "\nprog_id: %" SCNu32, &id) == 1 ? id : 0;
}

/* The program that another process's perf event runs; 0: none. */
static uint32_t perf_event_prog_id(int pid, int fd)
{
	uint32_t prog_id = 0, fd_type, len = 0;
	__u64 offset, addr;

	if (bpf_task_fd_query(pid, fd, 0, NULL, &len, &prog_id, &fd_type, &offset, &addr) < 0)
		return 0;
	return prog_id;
}

static bool holds(int proc_fd, int fd_dir, int pid, const char *fd_name, uint32_t prog_id)
{
	char target[64], path[64];
	ssize_t len = readlinkat(fd_dir, fd_name, target, sizeof(target) - 1);

	if (len < 0)
		return false;
	target[len] = '\0';
	if (strcmp(target, "anon_inode:[perf_event]") == 0)
		return perf_event_prog_id(pid, atoi(fd_name)) == prog_id;
	/* bpf-prog, bpf_link and kin. The rest is not worth opening. */
	if (strncmp(target, "anon_inode:bpf", 14) != 0)
		return false;
	snprintf(path, sizeof(path), "%d/fdinfo/%.20s", pid, fd_name);
	return fdinfo_prog_id(proc_fd, path) == prog_id;
}

static void write_fd(struct text *text, int proc_fd, int pid, const char *fd_name)
{
	char path[32], comm[64];

	snprintf(path, sizeof(path), "%d/comm", pid);
	ssize_t len = read_small(proc_fd, path, comm, sizeof(comm));

	text_printf(text, "fd %d ", pid);
	if (len > 1)
		text_escape(text, comm, comm[len - 1] == '\n' ? len - 1 : len);
	else
		text_putc(text, '-');
	text_printf(text, " %s\n", fd_name);
}

static DIR *open_dir_at(int dir_fd, const char *path, int flags)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

static void write_fds_of(struct text *text, int proc_fd, int pid, uint32_t prog_id)
{
	char path[32];

	snprintf(path, sizeof(path), "%d/fd", pid);
	_cleanup_dir_ DIR *fds = open_dir_at(proc_fd, path, 0);

	if (!fds)
		return;
	for (const struct dirent *entry; (entry = readdir(fds));) {
		if (entry->d_name[0] != '.' &&
		    holds(proc_fd, dirfd(fds), pid, entry->d_name, prog_id))
			write_fd(text, proc_fd, pid, entry->d_name);
	}
}

static void write_fds(struct text *text, uint32_t prog_id)
{
	_cleanup_dir_ DIR *proc = open_dir_at(AT_FDCWD, "/proc", 0);

	if (!proc)
		return;
	for (const struct dirent *entry; (entry = readdir(proc));) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			write_fds_of(text, dirfd(proc), atoi(entry->d_name), prog_id);
	}
}

struct pin_walk {
	struct text *text;
	uint32_t prog_id;
	dev_t dev;
	size_t entries; /* seen so far, of all bpffs */
	/* Where the walk is: no NUL, no end but len. */
	char path[PIN_PATH_MAX];
	size_t len;
};

/* Takes the pin's object for a moment, which is how the kernel tells what it is. */
static uint32_t pin_prog_id(int path_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	_cleanup_fd_ int fd = bpf_obj_get(path);

	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	return fdinfo_prog_id(AT_FDCWD, path);
}

static void walk_pins(struct pin_walk *walk, int dir_fd, const char *name, int depth);

/* An O_PATH descriptor, so that what is looked at is what is then opened, and never a symlink. */
static void walk_entry(struct pin_walk *walk, int dir_fd, const char *name, int depth)
{
	_cleanup_fd_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	size_t len = walk->len, name_len = strlen(name);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != walk->dev)
		return;
	if (len + 1 + name_len > sizeof(walk->path))
		return;
	walk->path[len] = '/';
	memcpy(walk->path + len + 1, name, name_len);
	walk->len = len + 1 + name_len;
	if (S_ISDIR(st.st_mode)) {
		walk_pins(walk, dir_fd, name, depth + 1);
	} else if (S_ISREG(st.st_mode) && pin_prog_id(fd) == walk->prog_id) {
		text_puts(walk->text, "pin ");
		text_escape(walk->text, walk->path, walk->len);
		text_putc(walk->text, '\n');
	}
	walk->len = len;
}

static void walk_pins(struct pin_walk *walk, int dir_fd, const char *name, int depth)
{
	struct stat st;

	if (depth > PIN_DEPTH_MAX)
		return;
	_cleanup_dir_ DIR *dir = open_dir_at(dir_fd, name, O_NOFOLLOW);

	if (!dir || fstat(dirfd(dir), &st) < 0 || st.st_dev != walk->dev)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (walk->entries++ >= PIN_ENTRIES_MAX)
			return;
		walk_entry(walk, dirfd(dir), entry->d_name, depth);
	}
}

/* mountinfo writes blanks and backslashes of a path as \\ooo: back in place. */
static void unescape_mount_point(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		unsigned int c;

		if (sscanf(from, "\\%3o", &c) == 1 && c && c <= 0377) {
			*to++ = c;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

/* A mount of a bpffs, unless something else lies over it. */
static void walk_mount(struct pin_walk *walk, const char *mount_point, dev_t dev)
{
	_cleanup_fd_ int fd = open(mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	walk->len = strlen(mount_point);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != dev || walk->len > sizeof(walk->path))
		return;
	memcpy(walk->path, mount_point, walk->len);
	walk->dev = dev;
	walk_pins(walk, fd, ".", 0);
}

/* The same bpffs may be mounted in many places, and each path leads to the pin. */
static int write_pins(struct text *text, uint32_t prog_id)
{
	_cleanup_free_ struct pin_walk *walk = calloc(1, sizeof(*walk));
	_cleanup_file_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	if (!walk)
		return -ENOMEM;
	walk->text = text;
	walk->prog_id = prog_id;
	while (mounts && getline(&line, &size, mounts) > 0) {
		_cleanup_free_ char *mount_point = NULL;
		unsigned int major, minor;

		if (!strstr(line, " - bpf ") ||
		    sscanf(line, "%*d %*d %u:%u %*s %ms", &major, &minor, &mount_point) != 3)
			continue;
		unescape_mount_point(mount_point);
		walk_mount(walk, mount_point, makedev(major, minor));
	}
	return 0;
}

int holders_write(const struct prog *prog, struct text *text)
{
	write_fds(text, prog->id);
	int r = write_pins(text, prog->id);

	if (r < 0)
		return r;
	holders_write_links(prog, text);
	holders_write_maps(prog, text);
	return 0;
}
