/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The supervisor: the process that mounts, and that stays. It has no threads, reads nothing of what
 * the daemon reads, and keeps what must not be lost when the daemon dies: /dev/fuse, the memory
 * that the daemon carries over (core/carry.h), and fds that it was handed (handover.h).
 *
 * A daemon that dies is replaced at once; the next one answers what the last one did not. One that
 * dies again and again is replaced later each time, at the third with nothing carried over, in case
 * that is what it dies of; then the supervisor gives up, and takes the mount away. Whom somebody
 * kills counts for nothing, however often; whom the kernel kills for want of memory has died by
 * itself, where a cgroup tells the two apart (core/oomkills.h). SIGHUP replaces the daemon by the
 * program that is on disk now, and goes on with the old one where the new one does not start.
 * SIGTERM, SIGINT and SIGQUIT end both.
 */
#ifndef FS_SUPERVISE_H
#define FS_SUPERVISE_H

#include "fs/options.h"

/* Exit statuses by which a daemon says why it does not start. */
#define EXIT_REGION_VERSION 75 /* what is carried over is another program's */
#define EXIT_REGION_BROKEN  76 /* it makes no sense */

/* Mounts, serves, and returns the exit status. In the background the caller is told once the tree
 * answers. argv: of main(), for the daemon. */
int supervise(const struct options *options, int argc, char **argv);

#endif
