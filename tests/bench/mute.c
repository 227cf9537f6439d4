/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process with a FUSE file system on DIR, in a mount namespace of its own, whose files never
 * answer a read: for scripts/bench. Prints a line once it is there, and lives until its stdin ends.
 *
 *	mute DIR
 */
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/deadfuse.h"

int main(int argc, char **argv)
{
	char byte;

	if (argc != 2)
		errx(2, "mute DIR");
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		err(1, "a mount namespace");
	mount_mute_fuse(argv[1]);
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
