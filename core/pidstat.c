/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc/PID/stat and what a pidfd tells: see pidstat.h. */
#include "core/pidstat.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/slurp.h"

#define STAT_MAX 4096

/* include/uapi/linux/pidfd.h, 6.13; PIDFD_INFO_EXIT is 6.15. */
struct pidfd_info_v0 {
	uint64_t mask;
	uint64_t cgroupid;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};
#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_EXIT_WANTED (1u << 3)

static bool next_number(const char **at, const char *end, uint64_t *ret)
{
	uint64_t value = 0;

	while (*at < end && **at == ' ')
		(*at)++;
	/* Some fields are negative; none of those that are asked for. */
	if (*at < end && **at == '-')
		(*at)++;
	const char *start = *at;

	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
		value = value * 10 + (**at - '0');
	*ret = value;
	return *at > start;
}

int pid_stat_parse(const char *line, size_t len, struct pid_stat *ret)
{
	const char *end = line + len, *at = memrchr(line, ')', len);
	uint64_t value;

	if (!at || end - at < 4 || at[1] != ' ')
		return -EBADMSG;
	*ret = (struct pid_stat){.state = at[2]};
	at += 3;
	/* The fields as proc_pid_stat(5) counts them. */
	for (int field = 4; field <= 52; field++) {
		if (!next_number(&at, end, &value))
			return -EBADMSG;
		if (field == 22)
			ret->start_ticks = value;
		else if (field == 39)
			ret->cpu = value;
	}
	ret->exit_status = value;
	return 0;
}

static int read_stat(int dir_fd, const char *path, struct pid_stat *ret)
{
	_cleanup_text_ struct text text = {};
	int r = slurp_at(dir_fd, path, STAT_MAX, &text);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return pid_stat_parse(text.data ? text.data : "", text.len, ret);
}

int pid_stat_read(int proc_fd, struct pid_stat *ret)
{
	return read_stat(proc_fd, "stat", ret);
}

int pid_cpu(int proc_fd, pid_t tid, unsigned int *ret)
{
	struct pid_stat stat;
	char path[32];

	snprintf(path, sizeof(path), "%d/stat", tid);
	int r = read_stat(proc_fd, path, &stat);
	if (r == 0)
		*ret = stat.cpu;
	return r;
}

uint64_t pid_ticks_to_ns(uint64_t ticks)
{
	return ticks * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

int pid_exit_status(int pidfd, int proc_fd, int *ret)
{
	struct pidfd_info_v0 info = {.mask = PIDFD_EXIT_WANTED};
	struct pid_stat stat;

	if (pid_stat_read(proc_fd, &stat) == 0 && (stat.state == 'Z' || stat.state == 'X')) {
		*ret = stat.exit_status;
		return 0;
	}
	if (ioctl(pidfd, PIDFD_GET_INFO_V0, &info) < 0 || !(info.mask & PIDFD_EXIT_WANTED))
		return -ENODATA;
	*ret = info.exit_code;
	return 0;
}
