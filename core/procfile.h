/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes under a /proc, and what they map, opened with care: never a FIFO or a device (opening
 * one hangs or acts), never a file of our own mount (it would wait for ourselves), never another
 * file than the one that is mapped.
 *
 * Calls that say so can wait without end for a file system that does not answer: offload.h.
 */
#ifndef CORE_PROCFILE_H
#define CORE_PROCFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "core/cleanup.h"
#include "core/maps.h"

/* A process that has memory, by way of its directory in a /proc. */
struct process {
	pid_t pid;
	/*
	 * Whose directory it is: pid, or a thread that has outlived the main one, whose own
	 * directory is empty then. /proc/TID is not listed, but it is there, map_files and all.
	 */
	pid_t tid;
	int dir; /* O_PATH */
};

/*
 * Has pid, a number that the listing of /proc has, memory, and by way of which thread? The cheapest
 * way to know: two system calls at the most, for all but the strangest. Errors as below.
 */
int process_find(int proc_fd, pid_t pid, pid_t *ret_tid);

/*
 * proc_fd is a directory fd on a /proc. Asks for nothing that could hang. -ESRCH: no such process,
 * or it has no memory (a kernel thread, a zombie); -EACCES: it may not be looked at.
 */
int process_open(int proc_fd, pid_t pid, struct process *ret);
void process_close(struct process *process);
#define _cleanup_process_ CLEANUP(process_close)
#define PROCESS_NONE                                                                               \
	(struct process)                                                                           \
	{                                                                                          \
		.dir = -1                                                                          \
	}

/* The process that a thread is of. -ESRCH. */
int task_process(int proc_fd, pid_t tid, pid_t *ret);
/* The same by a directory fd on /proc/TID. */
int process_of_task(int dir_fd, pid_t *ret);

/* Which file, and which state of it. */
struct file_state {
	dev_t dev;
	ino_t ino;
	uint64_t size;
	struct timespec mtime, ctime;
};

bool file_state_equal(const struct file_state *a, const struct file_state *b);

struct mapped_file {
	int fd; /* O_PATH, or one that can be read */
	struct file_state state;
	uint32_t nlink;
};

#define MAPPED_FILE_NONE                                                                           \
	(struct mapped_file)                                                                       \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Opens what a mapping of a process (a directory fd on /proc/PID) maps: by its entry in map_files,
 * or, where the kernel refuses that, by its path, taken only if it is the same file. own_dev: the
 * device of our own mount, 0 if there is none. Can hang. -EINVAL: not a regular file; -EXDEV: on
 * our own mount; -ESTALE: something else by now; what the kernel says.
 */
int mapped_file_open(int proc_dir_fd, const struct mapping *mapping, dev_t own_dev,
		     struct mapped_file *ret);
/*
 * The same without an fd, which stays -1: enough to know what is known of the file already. Only by
 * map_files.
 */
int mapped_file_stat(int proc_dir_fd, const struct mapping *mapping, dev_t own_dev,
		     struct mapped_file *ret);
/*
 * Takes over an fd, O_PATH or not, on a mapped file, and closes it on failure. Can hang. Errors as
 * above.
 */
int mapped_file_from_fd(int fd, dev_t own_dev, struct mapped_file *ret);
void mapped_file_close(struct mapped_file *file);
#define _cleanup_mapped_file_ CLEANUP(mapped_file_close)

/* An fd to read the file by, which stays the same whatever its name now leads to. Can hang. */
int mapped_file_reopen(const struct mapped_file *file);
/* What the file is like now. Can hang. */
int file_state_of(int fd, struct file_state *ret);

/* Is `path`, len bytes, in our own root, this very file? Can hang. */
bool path_is_file(const char *path, size_t len, const struct file_state *state);

#endif
