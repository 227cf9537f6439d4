/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules that say which processes to pin: see pinrule.h. */
#include "core/pinrule.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/cleanup.h"

int pin_rule_parse(const char *string, struct pin_rule *ret)
{
	static const struct {
		const char *prefix;
		enum pin_field field;
	} fields[] = {{"comm:", PIN_COMM}, {"exe:", PIN_EXE}, {"cgroup:", PIN_CGROUP}};
	struct pin_rule rule = {PIN_COMM, string};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		size_t len = strlen(fields[i].prefix);

		if (strncmp(string, fields[i].prefix, len) == 0)
			rule = (struct pin_rule){fields[i].field, string + len};
	}
	if (!*rule.glob)
		return -EINVAL;
	*ret = rule;
	return 0;
}

bool pin_rule_matches(const struct pin_rule *rule, const char *subject)
{
	const char *slash = strrchr(subject, '/');

	if (rule->field != PIN_COMM && slash && !strchr(rule->glob, '/'))
		subject = slash + 1;
	return fnmatch(rule->glob, subject, 0) == 0;
}

bool pin_rule_matches_cgroups(const struct pin_rule *rule, char *cgroups)
{
	for (char *line; (line = strsep(&cgroups, "\n"));) {
		char *path = strchr(line, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (path && pin_rule_matches(rule, path + 1))
			return true;
	}
	return false;
}
