/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process held open: see pin.h.
 *
 * A process can end between any two system calls here. So pinning is a list of steps, each of which
 * fails with -ESRCH when it comes too late; at the end either everything is held, or nothing.
 */
#include "core/pin_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/clock.h"
#include "core/maps.h"
#include "core/pidstat.h"
#include "core/slurp.h"

/* A command line can be as long as the stack allows; of many pins that much is not kept. */
#define TEXT_MAX (1u << 20)

static const char *const text_names[PIN_TEXTS] = {
	[PIN_MAPS] = "maps",	  [PIN_STATUS] = "status",   [PIN_MOUNTINFO] = "mountinfo",
	[PIN_COMM_TEXT] = "comm", [PIN_CMDLINE] = "cmdline", [PIN_CGROUPS] = "cgroup",
};

const char *pin_text_name(enum pin_text text)
{
	return text_names[text];
}

static bool pidfd_says_alive(int pidfd)
{
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 0;
}

int pin_find_process(struct pin *pin)
{
	char name[3 * sizeof(pid_t)];
	pid_t number;
	int r = pidns_own_pid(pin->ns, pin->pid, &pin->own_pid);

	if (r < 0)
		return r;
	pin->pidfd = syscall(SYS_pidfd_open, pin->own_pid, 0);
	if (pin->pidfd < 0)
		/* Of a thread that leads no process, or that is being reaped. */
		return errno == ENOENT || errno == EINVAL ? -ESRCH : -errno;
	/* Before it was held it could have become another's. */
	r = pidns_number(pin->ns, pin->own_pid, &number);
	if (r < 0 || number != pin->pid)
		return r < 0 ? r : -ESRCH;
	snprintf(name, sizeof(name), "%d", pin->pid);
	pin->proc_fd = openat(pidns_proc_fd(pin->ns), name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (pin->proc_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	/* Still alive: then nobody else can have been behind that name. */
	return pidfd_says_alive(pin->pidfd) ? 0 : -ESRCH;
}

static int step_identity(struct pin *pin)
{
	struct pid_stat stat;
	int r = pid_stat_read(pin->proc_fd, &stat);

	if (r < 0)
		return r;
	uint64_t since_boot = pid_ticks_to_ns(stat.start_ticks);

	pin->start_ticks = stat.start_ticks;
	pin->started_unix = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) + since_boot;
	return 0;
}

/*
 * A main thread that has exited while others run has neither root nor maps: a directory on one of
 * the others is looked at in its place. Its /proc/TID has map_files, which task/TID lacks.
 */
static int open_other_thread(const struct pin *pin, int *ret_fd)
{
	_cleanup_fd_ int task_fd = openat(pin->proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *task = task_fd >= 0 ? fdopendir(task_fd) : NULL;

	if (!task)
		return -ESRCH;
	take_fd(&task_fd);
	for (struct dirent *entry; (entry = readdir(task));) {
		char byte;

		if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == pin->pid)
			continue;
		_cleanup_fd_ int fd = openat(pidns_proc_fd(pin->ns), entry->d_name,
					     O_PATH | O_DIRECTORY | O_CLOEXEC);
		_cleanup_fd_ int maps_fd = fd >= 0 ? openat(fd, "maps", O_RDONLY | O_CLOEXEC) : -1;

		/* Still a thread of this process: then that directory is that thread's. */
		if (maps_fd >= 0 && read(maps_fd, &byte, 1) == 1 &&
		    faccessat(dirfd(task), entry->d_name, F_OK, 0) == 0) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
	}
	return -ESRCH;
}

/* A directory on a thread that has a memory map; the caller's. */
static int open_look(const struct pin *pin, int *ret_fd)
{
	_cleanup_fd_ int maps_fd = openat(pin->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	char byte;

	if (maps_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = read(maps_fd, &byte, 1);

	if (n < 0)
		return -errno;
	if (n == 0)
		return open_other_thread(pin, ret_fd);
	int fd = openat(pin->proc_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret_fd = fd;
	return 0;
}

static const struct pin_mapping *find_mapping(const struct pin *pin, const char *name)
{
	uint64_t start = strtoull(name, NULL, 16);
	size_t low = 0, high = pin->mapping_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (pin->mappings[mid].start < start)
			low = mid + 1;
		else
			high = mid;
	}
	return low < pin->mapping_count && strcmp(pin->mappings[low].name, name) == 0
		       ? &pin->mappings[low]
		       : NULL;
}

void pin_free_mappings(struct pin_mapping *mappings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		held_file_unref(mappings[i].file);
	free(mappings);
}

/* Is what is mapped here a file that `held`, of the same process, is of? */
static bool same_mapped_file(const struct mapping *a, const struct pin_mapping *held)
{
	return a->dev == held->dev && a->inode == held->inode;
}

/*
 * The file of a mapping: its neighbour's, the one that was seen there last, or a new one. Without
 * the right, past the bound, or unmapped meanwhile: then its name is all there is.
 */
static struct held_file *hold_file(struct pin *pin, int map_files, const struct mapping *mapping,
				   const struct pin_mapping *held, const struct pin_mapping *before)
{
	struct held_file *file;

	if (before && before->file && same_mapped_file(mapping, before))
		return held_file_ref(before->file);
	const struct pin_mapping *last = find_mapping(pin, held->name);

	if (last && last->file && same_mapped_file(mapping, last))
		return held_file_ref(last->file);
	return held_file_get(pin->files, map_files, held->name, &file) < 0 ? NULL : file;
}

static int hold_files(struct pin *pin, int look_fd, const struct maps *maps,
		      struct pin_mapping **ret, size_t *ret_count)
{
	_cleanup_fd_ int map_files = openat(look_fd, "map_files", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct pin_mapping *mappings = calloc(MAX(maps->count, (size_t)1), sizeof(*mappings));
	size_t count = 0;

	if (!mappings)
		return -ENOMEM;
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->mappings[i];

		if (!mapping->inode)
			continue;
		struct pin_mapping *held = &mappings[count];

		mapping_name(mapping, held->name);
		held->start = mapping->start;
		held->end = mapping->end;
		held->dev = mapping->dev;
		held->inode = mapping->inode;
		held->file = hold_file(pin, map_files, mapping, held,
				       count ? &mappings[count - 1] : NULL);
		count++;
	}
	*ret = mappings;
	*ret_count = count;
	return 0;
}

/*
 * The text of maps is whole only if the process still has its memory after it was read: it comes
 * page by page, and ends where the process does.
 */
static int look_at_maps(struct pin *pin, int look_fd)
{
	_cleanup_text_ struct text text = {};
	_cleanup_maps_ struct maps maps = {};
	_cleanup_fd_ int still_fd = -1;
	struct snapshot *snapshot;
	struct pin_mapping *mappings;
	size_t count;
	char byte;
	int r = maps_read_text(look_fd, &text);

	if (r < 0)
		return r;
	r = maps_parse(text.data ? text.data : "", text.len, &maps);
	if (r < 0)
		return r;
	r = hold_files(pin, look_fd, &maps, &mappings, &count);
	if (r < 0)
		return r;
	still_fd = openat(look_fd, "maps", O_RDONLY | O_CLOEXEC);
	r = still_fd >= 0 && read(still_fd, &byte, 1) == 1 ? text_take_snapshot(&text, &snapshot)
							   : -ESRCH;
	if (r < 0) {
		pin_free_mappings(mappings, count);
		return r;
	}
	_cleanup_snapshot_ struct snapshot *last = pin->texts[PIN_MAPS];
	struct pin_mapping *last_mappings = pin->mappings;
	size_t last_count = pin->mapping_count;

	pin->texts[PIN_MAPS] = snapshot;
	pin->mappings = mappings;
	pin->mapping_count = count;
	pinkeep_text(pin, PIN_MAPS);
	pinkeep_mappings(pin);
	pin_free_mappings(last_mappings, last_count);
	return 0;
}

static int look_at_root(struct pin *pin, int look_fd)
{
	struct root *root;

	if (pin->root && root_is_of(pin->root, look_fd))
		return 0;
	int r = root_open(look_fd, pin->policy, &root);

	if (r < 0)
		return r;
	_cleanup_root_ struct root *last = pin->root;

	pin->root = root;
	pinkeep_root(pin);
	return 0;
}

static int look_at_exe(struct pin *pin, int look_fd)
{
	struct held_file *exe;
	int r = held_file_get(pin->files, look_fd, "exe", &exe);

	if (r < 0)
		return r;
	_cleanup_held_file_ struct held_file *last = pin->exe;

	pin->exe = exe;
	pinkeep_exe(pin);
	return 0;
}

static int store_text(struct pin *pin, enum pin_text which, struct text *text)
{
	struct snapshot *snapshot;
	int r = text_take_snapshot(text, &snapshot);

	if (r < 0)
		return r;
	_cleanup_snapshot_ struct snapshot *last = pin->texts[which];

	pin->texts[which] = snapshot;
	pinkeep_text(pin, which);
	return 0;
}

static int look_at_text(struct pin *pin, enum pin_text which)
{
	_cleanup_text_ struct text text = {};
	int r;

	/* mountinfo is told by the root, which goes on telling it when the process is gone. */
	if (which == PIN_MOUNTINFO)
		r = root_mountinfo(pin->root, &text);
	else
		r = slurp_at(pin->proc_fd, text_names[which], TEXT_MAX, &text);
	return r < 0 ? r : store_text(pin, which, &text);
}

static int look_at_texts(struct pin *pin)
{
	for (enum pin_text which = 0; which < PIN_TEXTS; which++) {
		int r = which == PIN_MAPS || which == PIN_CMDLINE ? 0 : look_at_text(pin, which);

		if (r < 0)
			return r;
	}
	return 0;
}

static int step_root(struct pin *pin)
{
	_cleanup_fd_ int look_fd = -1;
	int r = open_look(pin, &look_fd);

	return r < 0 ? r : look_at_root(pin, look_fd);
}

static int step_exe(struct pin *pin)
{
	_cleanup_fd_ int look_fd = -1;
	int r = open_look(pin, &look_fd);

	if (r < 0)
		return r;
	r = look_at_exe(pin, look_fd);
	/* A process can have memory and no executable, or one that is not to be held. */
	return r == -ENOENT || r == -EXDEV || r == -ENFILE ? 0 : r;
}

static int step_maps(struct pin *pin)
{
	_cleanup_fd_ int look_fd = -1;
	int r = open_look(pin, &look_fd);

	return r < 0 ? r : look_at_maps(pin, look_fd);
}

static int step_texts(struct pin *pin)
{
	struct text none = {};
	int r = look_at_texts(pin);

	return r < 0 ? r : store_text(pin, PIN_CMDLINE, &none);
}

/* The root first: it goes first, and most depends on it. */
static int (*const steps[])(struct pin *pin) = {
	pin_find_process, step_identity, step_root, step_maps, step_exe, step_texts,
};

int pin_create(const struct pidns *ns, pid_t pid, struct held_files *files,
	       const struct root_policy *policy, struct pin **ret)
{
	if (pid <= 0)
		return -EINVAL;
	struct pin *pin = calloc(1, sizeof(*pin));

	if (!pin)
		return -ENOMEM;
	atomic_init(&pin->refs, 1);
	pthread_mutex_init(&pin->lock, NULL);
	pin->ns = ns;
	pin->pid = pid;
	pin->files = files;
	pin->policy = policy;
	pin->pidfd = -1;
	pin->proc_fd = -1;
	pin->pinned_unix = clock_ns(CLOCK_REALTIME);
	*ret = pin;
	return 0;
}

int pin_open(const struct pidns *ns, pid_t pid, struct held_files *files,
	     const struct root_policy *policy, struct pin **ret)
{
	_cleanup_pin_ struct pin *pin = NULL;
	int r = pin_create(ns, pid, files, policy, &pin);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](pin);
	/* What is not there any more says so in more than one way. */
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret = take_ptr(pin);
	return 0;
}

struct pin *pin_ref(struct pin *pin)
{
	atomic_fetch_add_explicit(&pin->refs, 1, memory_order_relaxed);
	return pin;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Under the lock, or by the last owner. */
static void let_go(struct pin *pin)
{
	pinkeep_drop(pin);
	close_fd(&pin->pidfd);
	close_fd(&pin->proc_fd);
	root_unref(take_ptr(pin->root));
	held_file_unref(take_ptr(pin->exe));
	pin_free_mappings(take_ptr(pin->mappings), pin->mapping_count);
	pin->mapping_count = 0;
	for (enum pin_text which = 0; which < PIN_TEXTS; which++)
		snapshot_unref(take_ptr(pin->texts[which]));
}

void pin_unref(struct pin *pin)
{
	if (!pin || atomic_fetch_sub_explicit(&pin->refs, 1, memory_order_acq_rel) != 1)
		return;
	let_go(pin);
	pthread_mutex_destroy(&pin->lock);
	free(pin);
}

void pin_release(struct pin *pin)
{
	LOCKED(&pin->lock);
	pin->released = true;
	let_go(pin);
}

bool pin_is_released(struct pin *pin)
{
	LOCKED(&pin->lock);
	return pin->released;
}

pid_t pin_pid(const struct pin *pin)
{
	return pin->pid;
}

pid_t pin_own_pid(const struct pin *pin)
{
	return pin->own_pid;
}

uint64_t pin_start_ticks(const struct pin *pin)
{
	return pin->start_ticks;
}

uint64_t pin_started_unix(const struct pin *pin)
{
	return pin->started_unix;
}

uint64_t pin_pinned_unix(const struct pin *pin)
{
	return pin->pinned_unix;
}

void pin_set_pinned_unix(struct pin *pin, uint64_t unix_ns)
{
	pin->pinned_unix = unix_ns;
}

int pin_pidfd(struct pin *pin)
{
	LOCKED(&pin->lock);
	return pin->pidfd;
}

/* Under the lock. */
static bool still_alive(struct pin *pin)
{
	if (pin->exit.exited || pin->released)
		return false;
	if (pidfd_says_alive(pin->pidfd))
		return true;
	pin->exit.exited = true;
	pin->exit.unix_ns = clock_ns(CLOCK_REALTIME);
	pin->exit.has_status = pid_exit_status(pin->pidfd, pin->proc_fd, &pin->exit.status) == 0;
	/* The namespace is held, its mounts may have changed since they were looked at. */
	look_at_text(pin, PIN_MOUNTINFO);
	close_fd(&pin->proc_fd);
	pinkeep_exit(pin);
	return false;
}

bool pin_is_alive(struct pin *pin)
{
	LOCKED(&pin->lock);
	return still_alive(pin);
}

void pin_exit(struct pin *pin, struct pin_exit *ret)
{
	LOCKED(&pin->lock);
	still_alive(pin);
	*ret = pin->exit;
}

/* Under the lock. What cannot be seen any more stays as it was. */
static void look(struct pin *pin, unsigned int what)
{
	_cleanup_fd_ int look_fd = -1;

	if (!still_alive(pin) || open_look(pin, &look_fd) < 0)
		return;
	if (what & PIN_LOOK_ROOT)
		look_at_root(pin, look_fd);
	if (what & PIN_LOOK_MAPS)
		look_at_maps(pin, look_fd);
	if (what & PIN_LOOK_EXE)
		look_at_exe(pin, look_fd);
	if (what & PIN_LOOK_TEXTS)
		look_at_texts(pin);
}

void pin_look(struct pin *pin, unsigned int what)
{
	LOCKED(&pin->lock);
	look(pin, what);
}

void pin_look_cmdline(struct pin *pin)
{
	_cleanup_text_ struct text text = {};
	_cleanup_fd_ int look_fd = -1;

	pthread_mutex_lock(&pin->lock);
	bool can = still_alive(pin) && open_look(pin, &look_fd) == 0;
	pthread_mutex_unlock(&pin->lock);

	if (!can)
		return;
	int r = slurp_at(look_fd, text_names[PIN_CMDLINE], TEXT_MAX, &text);

	/* As much of a very long one as is kept. Empty is what it is without a memory map. */
	if ((r < 0 && r != -EFBIG) || !text.len)
		return;
	LOCKED(&pin->lock);
	if (!pin->released)
		store_text(pin, PIN_CMDLINE, &text);
}

int pin_text(struct pin *pin, enum pin_text which, struct snapshot **ret)
{
	_cleanup_fd_ int look_fd = -1;

	if (which == PIN_CMDLINE)
		pin_look_cmdline(pin);

	LOCKED(&pin->lock);
	/* One that has lost its memory is about to be gone: what it had before is what is kept. */
	if (which != PIN_CMDLINE && still_alive(pin) && open_look(pin, &look_fd) == 0) {
		if (which == PIN_MAPS)
			look_at_maps(pin, look_fd);
		else
			look_at_text(pin, which);
	}
	if (pin->released)
		return -ESTALE;
	*ret = snapshot_ref(pin->texts[which]);
	return 0;
}

int pin_last_text(struct pin *pin, enum pin_text which, struct snapshot **ret)
{
	LOCKED(&pin->lock);
	if (pin->released)
		return -ESTALE;
	*ret = snapshot_ref(pin->texts[which]);
	return 0;
}

int pin_root(struct pin *pin, struct root **ret)
{
	LOCKED(&pin->lock);
	if (pin->released)
		return -ESTALE;
	*ret = root_ref(pin->root);
	return 0;
}

int pin_exe(struct pin *pin, struct held_file **ret)
{
	LOCKED(&pin->lock);
	if (pin->released)
		return -ESTALE;
	if (!pin->exe)
		return -ENOENT;
	*ret = held_file_ref(pin->exe);
	return 0;
}

int pin_open_memory(struct pin *pin, int *ret_fd)
{
	LOCKED(&pin->lock);
	if (!still_alive(pin))
		return -ESRCH;
	int fd = openat(pin->proc_fd, "mem", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret_fd = fd;
	return 0;
}

int pin_mappings(struct pin *pin, struct pin_mappings *ret)
{
	LOCKED(&pin->lock);
	if (pin->released)
		return -ESTALE;
	ret->mappings = calloc(MAX(pin->mapping_count, (size_t)1), sizeof(*ret->mappings));
	if (!ret->mappings)
		return -ENOMEM;
	ret->count = pin->mapping_count;
	for (size_t i = 0; i < ret->count; i++) {
		ret->mappings[i] = pin->mappings[i];
		if (ret->mappings[i].file)
			held_file_ref(ret->mappings[i].file);
	}
	return 0;
}

void pin_mappings_deinit(struct pin_mappings *mappings)
{
	pin_free_mappings(mappings->mappings, mappings->count);
	*mappings = (struct pin_mappings){};
}

int pin_mapped_file(struct pin *pin, const char *name, struct held_file **ret)
{
	LOCKED(&pin->lock);
	if (pin->released)
		return -ESTALE;
	const struct pin_mapping *mapping = find_mapping(pin, name);

	if (!mapping || !mapping->file)
		return -ENOENT;
	*ret = held_file_ref(mapping->file);
	return 0;
}
