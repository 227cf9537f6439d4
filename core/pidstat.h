/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc/PID/stat, as much of it as says who a process is, and how it ended. */
#ifndef CORE_PIDSTAT_H
#define CORE_PIDSTAT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pid_stat {
	uint64_t start_ticks; /* since boot, of sysconf(_SC_CLK_TCK) */
	int exit_status;      /* as wait(2) has it; of a zombie */
	unsigned int cpu;     /* ran on last */
	char state;
};

/* Of the directory fd proc_fd on /proc/PID. -ESRCH: gone. -EBADMSG. */
int pid_stat_read(int proc_fd, struct pid_stat *ret);
/* Parses the line. The comm in it may have anything in it, blanks and parentheses too. */
int pid_stat_parse(const char *line, size_t len, struct pid_stat *ret);
/* The CPU that a thread runs on or ran on last. Of /proc, and a thread's id. As pid_stat_read(). */
int pid_cpu(int proc_fd, pid_t tid, unsigned int *ret);
uint64_t pid_ticks_to_ns(uint64_t ticks);

/*
 * How a process that has exited ended: of a zombie as its stat says, of one that is reaped as its
 * pidfd says (6.15 and later). -ENODATA where nothing says.
 */
int pid_exit_status(int pidfd, int proc_fd, int *ret);

#endif
