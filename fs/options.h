/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the command line asks for. Parsing touches nothing outside: names of groups are looked up,
 * pids and mount points are not.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/pinrule.h"
#include "core/text.h"
#include "fs/access.h"

enum options_command {
	COMMAND_MOUNT,
	COMMAND_CHECK,
	COMMAND_UMOUNT,
	COMMAND_ATTACH,
	COMMAND_DETACH,
	COMMAND_HELP,
	COMMAND_VERSION,
};

struct options {
	enum options_command command;
	const char *mountpoint; /* DEFAULT_MOUNTPOINT unless given; what to attach and detach */
	const char *from;	/* what --from said; NULL */
	const char *directory;	/* of attach and detach, in the container; NULL: as mountpoint */
	pid_t pid;		/* of attach and detach */
	bool lazy;		/* of umount */
	bool foreground;
	bool debug;
	bool read_only; /* not even mkdir and rmdir in pins/ */
	bool nonempty;	/* hide what the mount point has in it */
	int serve;	/* the supervisor's socket, for a daemon of its; -1: we supervise */

	uint64_t retain_ns;
	uint64_t retain_bytes;
	uint64_t events_bytes;
	bool capture_at_unload;

	struct pin_rule *pins; /* --pin: what to pin when it execs */
	size_t pin_count;
	unsigned int pin_max;
	uint64_t pin_ns;
	const char **pin_cross; /* file system types */
	size_t pin_cross_count;

	pid_t pidns; /* 0: the daemon's own */
	struct access_rules access;
	bool has_umask;

	/* What the pointers above point into. */
	char **strings;
	size_t string_count;
};

#define DEFAULT_MOUNTPOINT "/run/ksymfs"

/*
 * Parses argv. -EINVAL after it has written one line, without a newline, on what is wrong to
 * `error`; -ENOMEM.
 */
int options_parse(int argc, char *const *argv, struct options *ret, struct text *error);
void options_deinit(struct options *options);
#define _cleanup_options_ CLEANUP(options_deinit)

/*
 * 90s, 10m, 1h, 2d, 250ms as ns; a bare number is seconds. 4096, 64K, 8M, 1G, in bytes. -EINVAL for
 * anything else, blanks and signs too, and -ERANGE for what does not fit.
 */
int parse_duration(const char *string, uint64_t *ret_ns);
int parse_size(const char *string, uint64_t *ret_bytes);

/* What --help prints. */
extern const char options_help[];

#endif
