/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program: reads the command line and does what it says. Mounting and staying is supervise.c's,
 * serving daemon.c's.
 */
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "core/tracker.h"
#include "fs/attach.h"
#include "fs/complain.h"
#include "fs/daemon.h"
#include "fs/mount.h"
#include "fs/options.h"
#include "fs/supervise.h"

#define EXIT_USAGE 2

/* Of standard output: has all of it been taken? */
static bool has_been_said(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	fprintf(stderr, "ksymfs: cannot write to standard output: %s\n", strerror(errno));
	return false;
}

static int check(void)
{
	_cleanup_text_ struct text text = {};
	bool tracker_ok = tracker_check(&text);
	bool mount_ok = mount_check(&text);

	if (text.failed) {
		complain(&text, -ENOMEM);
		return EXIT_FAILURE;
	}
	fwrite(text.data, 1, text.len, stdout);
	return has_been_said() && tracker_ok && mount_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int unmount(const struct options *options)
{
	_cleanup_text_ struct text error = {};
	int r = mount_umount(options->mountpoint, options->lazy, &error);

	if (r < 0)
		complain(&error, r);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int in_container(const struct options *options,
			int (*command)(const struct options *options, struct text *message))
{
	_cleanup_text_ struct text message = {};
	int r = command(options, &message);

	if (r < 0 || message.len)
		complain(&message, r);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	_cleanup_text_ struct text error = {};
	_cleanup_options_ struct options options = {};

	/* Workers come and go, and arenas of their own would each keep what was once needed. */
	mallopt(M_ARENA_MAX, 1);
	int r = options_parse(argc, argv, &options, &error);

	if (r < 0) {
		complain(&error, r);
		return EXIT_USAGE;
	}
	switch (options.command) {
	case COMMAND_HELP:
		fputs(options_help, stdout);
		return has_been_said() ? EXIT_SUCCESS : EXIT_FAILURE;
	case COMMAND_VERSION:
		puts("ksymfs " KSYMFS_VERSION);
		return has_been_said() ? EXIT_SUCCESS : EXIT_FAILURE;
	case COMMAND_CHECK:
		return check();
	case COMMAND_UMOUNT:
		return unmount(&options);
	case COMMAND_ATTACH:
		return in_container(&options, attach);
	case COMMAND_DETACH:
		return in_container(&options, detach);
	case COMMAND_MOUNT:
		break;
	}
	return options.serve >= 0 ? daemon_serve(&options) : supervise(&options, argc, argv);
}
