/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which processes to pin when they exec: comm:GLOB, exe:GLOB, cgroup:GLOB, or GLOB alone for comm.
 *
 * A glob is one of the shell's and covers the whole of what it is held against; `*` covers slashes
 * too. Of exe and cgroup that is the path if the glob has a slash, else the path's last name.
 */
#ifndef CORE_PINRULE_H
#define CORE_PINRULE_H

#include <stdbool.h>

enum pin_field {
	PIN_COMM,   /* the name the kernel gives at exec: 15 bytes at most */
	PIN_EXE,    /* what /proc/PID/exe links to */
	PIN_CGROUP, /* any of the process's, as /proc/PID/cgroup has them */
};

struct pin_rule {
	enum pin_field field;
	const char *glob;
};

/* -EINVAL for an empty glob. The glob points into string. */
int pin_rule_parse(const char *string, struct pin_rule *ret);
bool pin_rule_matches(const struct pin_rule *rule, const char *subject);
/* The same for the text of /proc/PID/cgroup, `ID:CONTROLLERS:PATH` a line. Changes it. */
bool pin_rule_matches_cgroups(const struct pin_rule *rule, char *cgroups);

#endif
