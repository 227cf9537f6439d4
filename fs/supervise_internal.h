/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the supervisor's files share: supervise.c (what it does when), supervise_daemon.c (what a
 * daemon is given, and what it says). */
#ifndef FS_SUPERVISE_INTERNAL_H
#define FS_SUPERVISE_INTERNAL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/handover.h"
#include "fs/mount.h"
#include "fs/options.h"

struct supervisor {
	const struct options *options;
	char **argv; /* with room for what is ours at [1] */
	struct mount mount;
	int program;	  /* what daemons are made of: O_PATH */
	int next_program; /* what is being tried; -1 */
	char program_path[PATH_MAX];
	sigset_t old_mask;
	int signals;
	int told; /* the write end of the pipe to who waits in the foreground; -1 */

	int region;
	struct hello hello; /* of the next daemon */
	struct kept_fd *kept;
	size_t kept_count;

	pid_t daemon; /* 0: none */
	/* Of its cgroup, when it was started: see oomkills.h. */
	bool knows_oom_kills;
	uint64_t oom_kills;
	int socket;
	bool was_ready; /* one of them */
	bool is_ready;
	uint64_t ready_at;
	bool reloading;
	bool reload_due;       /* asked for while no daemon was ready */
	unsigned int failures; /* in a row */
	uint64_t restart_at;   /* 0: not due */

	bool stopping;
	uint64_t kill_at;
	bool killed;
	bool done;
	int status;
};

/*
 * Dying is how a daemon hands over, whatever it is at: there is one way, and each crash tries it.
 * One at a time: what is on disk now may be newer than what the next daemon is made of already.
 */
void supervisor_reload(struct supervisor *supervisor);

/* What is carried over begins anew, with nothing. -errno. */
int supervisor_make_region(struct supervisor *supervisor);
/* -errno. */
int supervisor_start_daemon(struct supervisor *supervisor);
void supervisor_read_messages(struct supervisor *supervisor);
void supervisor_drop_all(struct supervisor *supervisor);

#endif
