/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line: see options.h. What is a long option may stand in -o too, for fstab's sake;
 * what mount(8) puts there for every file system is taken and means nothing here.
 */
#include "fs/options.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <string.h>

const char options_help[] =
	"usage: ksymfs [-f] [-d] [-o OPT,...] [OPTION...] [SOURCE] [MOUNTPOINT]\n"
	"       ksymfs check\n"
	"       ksymfs attach [--from=MOUNTPOINT] PID [DIRECTORY]\n"
	"       ksymfs detach [--from=MOUNTPOINT] PID [DIRECTORY]\n"
	"       ksymfs umount [-l] [MOUNTPOINT]\n"
	"\n"
	"Mounts the running kernel's symbols, BPF programs and USDT probes as files, at\n"
	"" DEFAULT_MOUNTPOINT " unless another directory is given, and goes to the background.\n"
	"`check` says what this kernel and these rights allow. `attach` puts the mount, "
	"read-only,\n"
	"into the mount namespace of a process, at its own path there unless DIRECTORY is given.\n"
	"\n"
	"  -f                     stay in the foreground\n"
	"  -d                     trace every request to stderr, and stay in the foreground\n"
	"  -o uid=N,gid=N,umask=N owner and mode of the tree (0, 0, 077)\n"
	"  -l                     umount at once, whatever is open\n"
	"  -o nonempty            hide what the mount point has in it\n"
	"  -o ro                  without mkdir and rmdir in pins/\n"
	"  --retain-time=DUR      how long to keep unloaded programs (10m)\n"
	"  --retain-bytes=SIZE    how much of them to keep (64M)\n"
	"  --events-bytes=SIZE    how much `events` keeps (8M)\n"
	"  --pin=comm:GLOB|exe:GLOB|cgroup:GLOB\n"
	"                         pin what execs and matches; may be repeated\n"
	"  --pin-max=N            how many pins there may be (64)\n"
	"  --pin-time=DUR         how long a pin outlives its process (10m)\n"
	"  --pin-cross=TYPE,...   file system types that a pinned root may lead into\n"
	"  --group=NAME           who else may read kernel addresses; then umask=022, so that\n"
	"                         all can get to usdt/ of their own processes\n"
	"  --pidns=PID            whose pid namespace usdt/ and pins/ use\n"
	"  --capture-at-unload=on|off\n"
	"                         copy programs that nobody read in time as they are freed (on,\n"
	"                         where the kernel takes fentry programs)\n"
	"  --help, --version\n"
	"\n"
	"DUR is a number of s, ms, m, h or d; SIZE one of bytes, K, M, G or T. Every --OPTION may\n"
	"stand in -o as well. SIGHUP replaces the daemon by the program that is on disk now, and\n"
	"readers go on; SIGTERM unmounts.\n";

struct unit {
	const char *name;
	uint64_t factor;
};

/* Digits and one of the units; nothing else. */
static int parse_with_unit(const char *string, const struct unit *units, size_t count,
			   uint64_t *ret)
{
	uint64_t value = 0;
	const char *at = string;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *at - '0', &value))
			return -ERANGE;
	}
	if (at == string)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(at, units[i].name) == 0)
			return __builtin_mul_overflow(value, units[i].factor, ret) ? -ERANGE : 0;
	}
	return -EINVAL;
}

int parse_duration(const char *string, uint64_t *ret_ns)
{
	static const struct unit units[] = {
		{"", NSEC_PER_SEC},	  {"s", NSEC_PER_SEC},	      {"ms", 1000000},
		{"m", 60 * NSEC_PER_SEC}, {"h", 3600 * NSEC_PER_SEC}, {"d", 86400 * NSEC_PER_SEC},
	};

	return parse_with_unit(string, units, ARRAY_SIZE(units), ret_ns);
}

int parse_size(const char *string, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"K", UINT64_C(1) << 10},
		{"M", UINT64_C(1) << 20},
		{"G", UINT64_C(1) << 30},
		{"T", UINT64_C(1) << 40},
	};

	return parse_with_unit(string, units, ARRAY_SIZE(units), ret_bytes);
}

/* A plain number from min to max. */
static int parse_number(const char *string, int base, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;

	if (*string < '0' || *string > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtoull(string, &end, base);
	if (*end)
		return -EINVAL;
	return errno || *ret < min || *ret > max ? -ERANGE : 0;
}

static int set_duration(const char *value, uint64_t *ret)
{
	return parse_duration(value, ret);
}

/* Less than a page of events would not hold what it is about. */
static int set_events_bytes(struct options *options, const char *value)
{
	int r = parse_size(value, &options->events_bytes);

	return r == 0 && options->events_bytes < 4096 ? -ERANGE : r;
}

static int set_retain_time(struct options *options, const char *value)
{
	return set_duration(value, &options->retain_ns);
}

static int set_retain_bytes(struct options *options, const char *value)
{
	return parse_size(value, &options->retain_bytes);
}

static int set_pin_time(struct options *options, const char *value)
{
	return set_duration(value, &options->pin_ns);
}

static int set_pin_max(struct options *options, const char *value)
{
	uint64_t number;
	int r = parse_number(value, 10, 1, 1000000, &number);

	if (r == 0)
		options->pin_max = number;
	return r;
}

static int set_pidns(struct options *options, const char *value)
{
	uint64_t number;
	int r = parse_number(value, 10, 1, INT32_MAX, &number);

	if (r == 0)
		options->pidns = number;
	return r;
}

static int set_id(const char *value, uint32_t *ret)
{
	uint64_t number;
	/* The last one means "none". */
	int r = parse_number(value, 10, 0, UINT32_MAX - 1, &number);

	if (r == 0)
		*ret = number;
	return r;
}

static int set_uid(struct options *options, const char *value)
{
	return set_id(value, &options->access.uid);
}

static int set_gid(struct options *options, const char *value)
{
	return set_id(value, &options->access.gid);
}

static int set_umask(struct options *options, const char *value)
{
	uint64_t number;
	int r = parse_number(value, 8, 0, 0777, &number);

	if (r == 0)
		options->access.umask = number;
	options->has_umask = r == 0;
	return r;
}

static int set_group(struct options *options, const char *value)
{
	const struct group *group = getgrnam(value);

	if (!group && set_id(value, &options->access.group) < 0)
		return -ENOENT;
	if (group)
		options->access.group = group->gr_gid;
	options->access.has_group = true;
	return 0;
}

static int set_pin(struct options *options, const char *value)
{
	struct pin_rule rule;
	int r = pin_rule_parse(value, &rule);

	if (r < 0)
		return r;
	struct pin_rule *pins = reallocarray(options->pins, options->pin_count + 1, sizeof(*pins));
	if (!pins)
		return -ENOMEM;
	options->pins = pins;
	pins[options->pin_count++] = rule;
	return 0;
}

/* A copy that lives as long as the options. */
static char *keep(struct options *options, const char *string, size_t len)
{
	char **strings =
		reallocarray(options->strings, options->string_count + 1, sizeof(*strings));

	if (!strings)
		return NULL;
	options->strings = strings;
	char *copy = strndup(string, len);
	if (copy)
		strings[options->string_count++] = copy;
	return copy;
}

static int set_pin_cross(struct options *options, const char *value)
{
	for (const char *at = value;; at++) {
		size_t len = strcspn(at, ",");
		const char **types = reallocarray(options->pin_cross, options->pin_cross_count + 1,
						  sizeof(*types));

		if (!types)
			return -ENOMEM;
		options->pin_cross = types;
		if (!len)
			return -EINVAL;
		char *type = keep(options, at, len);
		if (!type)
			return -ENOMEM;
		types[options->pin_cross_count++] = type;
		at += len;
		if (!*at)
			return 0;
	}
}

static int set_capture_at_unload(struct options *options, const char *value)
{
	options->capture_at_unload = strcmp(value, "on") == 0;
	return options->capture_at_unload || strcmp(value, "off") == 0 ? 0 : -EINVAL;
}

struct setting {
	const char *name;
	int (*set)(struct options *options, const char *value);
	const char *wants;
	bool only_in_o; /* not a long option */
};

static const struct setting settings[] = {
	{"retain-time", set_retain_time, "a time such as 90s, 10m or 1h"},
	{"retain-bytes", set_retain_bytes, "a size such as 512K, 64M or 1G"},
	{"events-bytes", set_events_bytes, "a size of 4K or more, such as 8M"},
	{"pin", set_pin, "comm:GLOB, exe:GLOB, cgroup:GLOB or GLOB"},
	{"pin-max", set_pin_max, "a number from 1 to 1000000"},
	{"pin-time", set_pin_time, "a time such as 90s, 10m or 1h"},
	{"pin-cross", set_pin_cross, "names of file system types"},
	{"group", set_group, "a group that exists"},
	{"pidns", set_pidns, "a pid"},
	{"capture-at-unload", set_capture_at_unload, "on or off"},
	{"uid", set_uid, "a number", true},
	{"gid", set_gid, "a number", true},
	{"umask", set_umask, "an octal number up to 0777", true},
};

/* What mount(8), fstab and mount.fuse say to every file system; the mount's own flags are fixed. */
static const char *const ignored[] = {
	"rw",	       "suid",	     "nosuid",	      "dev",	     "nodev",
	"exec",	       "noexec",     "auto",	      "noauto",	     "user",
	"nouser",      "users",	     "group",	      "owner",	     "async",
	"sync",	       "atime",	     "noatime",	      "relatime",    "norelatime",
	"strictatime", "defaults",   "nofail",	      "_netdev",     "dirsync",
	"diratime",    "nodiratime", "lazytime",      "allow_other", "default_permissions",
	"mand",	       "nomand",     "nostrictatime", "nolazytime",  "silent",
	"loud",	       "iversion",   "noiversion",
};

static int apply(struct options *options, const struct setting *setting, const char *value,
		 const char *prefix, struct text *error)
{
	int r = setting->set(options, value);

	if (r == -EINVAL || r == -ERANGE || r == -ENOENT) {
		text_printf(error, "%s%s=%s: wants %s", prefix, setting->name, value,
			    setting->wants);
		return -EINVAL;
	}
	return r;
}

static const struct setting *find_setting(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (strlen(settings[i].name) == len && memcmp(settings[i].name, name, len) == 0)
			return &settings[i];
	}
	return NULL;
}

static bool is_ignored(const char *item)
{
	static const char *const prefixes[] = {"x-", "X-", "comment=", "fsname=", "subtype="};

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++) {
		if (strcmp(item, ignored[i]) == 0)
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (strncmp(item, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return false;
}

static int parse_mount_option(struct options *options, const char *item, struct text *error)
{
	size_t len = strcspn(item, "=");
	const struct setting *setting = item[len] ? find_setting(item, len) : NULL;

	if (setting)
		return apply(options, setting, item + len + 1, "-o ", error);
	if (strcmp(item, "ro") == 0)
		options->read_only = true;
	else if (strcmp(item, "nonempty") == 0)
		options->nonempty = true;
	else if (*item && !is_ignored(item)) {
		text_printf(error, "-o %s: no such option; see ksymfs --help", item);
		return -EINVAL;
	}
	return 0;
}

static int parse_mount_options(struct options *options, const char *list, struct text *error)
{
	for (const char *at = list;; at++) {
		size_t len = strcspn(at, ",");
		char *item = keep(options, at, len);
		int r = item ? parse_mount_option(options, item, error) : -ENOMEM;

		if (r < 0)
			return r;
		at += len;
		if (!*at)
			return 0;
	}
}

static const struct command_word {
	const char *name;
	enum options_command command;
	int max_operands; /* itself included */
} command_words[] = {
	{"check", COMMAND_CHECK, 1},
	{"umount", COMMAND_UMOUNT, 2},
	{"attach", COMMAND_ATTACH, 3},
	{"detach", COMMAND_DETACH, 3},
};

static int parse_process(int count, char *const *operands, struct options *options,
			 struct text *error)
{
	uint64_t pid;

	if (count < 2 || parse_number(operands[1], 10, 1, INT32_MAX, &pid) < 0) {
		text_printf(error, "%s: wants a pid; see ksymfs --help", operands[0]);
		return -EINVAL;
	}
	options->pid = pid;
	if (count > 2)
		options->directory = operands[2];
	options->mountpoint = options->from ?: DEFAULT_MOUNTPOINT;
	return 0;
}

/* What stands without a dash: a command, or where to mount. */
static int parse_operands(int count, char *const *operands, struct options *options,
			  struct text *error)
{
	int max = 2;

	options->mountpoint = DEFAULT_MOUNTPOINT;
	for (size_t i = 0; count && i < ARRAY_SIZE(command_words); i++) {
		if (strcmp(operands[0], command_words[i].name) == 0) {
			options->command = command_words[i].command;
			max = command_words[i].max_operands;
		}
	}
	if (count > max) {
		text_printf(error, "%s: one argument too many; see ksymfs --help", operands[max]);
		return -EINVAL;
	}
	if (options->command == COMMAND_ATTACH || options->command == COMMAND_DETACH)
		return parse_process(count, operands, options, error);
	if (options->from) {
		text_puts(error, "--from: is for attach and detach; see ksymfs --help");
		return -EINVAL;
	}
	if (options->lazy && options->command != COMMAND_UMOUNT) {
		text_puts(error, "-l: is for umount; see ksymfs --help");
		return -EINVAL;
	}
	if (count == 2 || (count == 1 && options->command == COMMAND_MOUNT))
		options->mountpoint = operands[count - 1];
	return 0;
}

enum {
	OPTION_HELP = 1000,
	OPTION_VERSION,
	OPTION_FROM,
	OPTION_SERVE,
	OPTION_SETTING, /* and on: an index into settings */
};

/* What the supervisor says to its daemon, and nobody else. */
static int set_serve(struct options *options, const char *value)
{
	uint64_t number;
	int r = parse_number(value, 10, 3, INT32_MAX, &number);

	if (r == 0)
		options->serve = number;
	return r;
}

static int handle(int c, int argc, char *const *argv, struct options *options, struct text *error)
{
	switch (c) {
	case 'f':
		options->foreground = true;
		return 0;
	case 'd':
		options->foreground = true;
		options->debug = true;
		return 0;
	case 'l':
		options->lazy = true;
		return 0;
	case OPTION_FROM:
		options->from = optarg;
		return 0;
	case 'o':
		return parse_mount_options(options, optarg, error);
	case 'h':
	case OPTION_HELP:
		options->command = COMMAND_HELP;
		return 0;
	case 'V':
	case OPTION_VERSION:
		options->command = COMMAND_VERSION;
		return 0;
	case OPTION_SERVE:
		return set_serve(options, optarg);
	case ':':
		text_printf(error, "%s: wants a value; see ksymfs --help", argv[optind - 1]);
		return -EINVAL;
	case '?':
		if (!optopt)
			text_printf(error, "%s: no such option; see ksymfs --help",
				    argv[optind - 1]);
		else if (optopt < OPTION_HELP)
			text_printf(error, "-%c: no such option; see ksymfs --help", optopt);
		else
			text_printf(error, "%s: takes no value; see ksymfs --help",
				    argv[optind - 1]);
		return -EINVAL;
	default:
		return apply(options, &settings[c - OPTION_SETTING], optarg, "--", error);
	}
}

int options_parse(int argc, char *const *argv, struct options *ret, struct text *error)
{
	_cleanup_options_ struct options options = {
		.retain_ns = 600 * NSEC_PER_SEC,
		.retain_bytes = UINT64_C(64) << 20,
		.events_bytes = UINT64_C(8) << 20,
		.pin_max = 64,
		.pin_ns = 600 * NSEC_PER_SEC,
		.capture_at_unload = true,
		.access.umask = 077,
		.serve = -1,
	};
	struct option longs[ARRAY_SIZE(settings) + 5] = {
		{"help", no_argument, NULL, OPTION_HELP},
		{"version", no_argument, NULL, OPTION_VERSION},
		{"from", required_argument, NULL, OPTION_FROM},
		{"serve", required_argument, NULL, OPTION_SERVE},
	};
	size_t count = 4;
	int c, r;

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (!settings[i].only_in_o)
			longs[count++] = (struct option){settings[i].name, required_argument, NULL,
							 OPTION_SETTING + i};
	}
	optind = 0;
	while ((c = getopt_long(argc, argv, ":fdlo:hV", longs, NULL)) != -1) {
		r = handle(c, argc, argv, &options, error);
		if (r < 0)
			return r;
		/* Whatever else is there. */
		if (options.command != COMMAND_MOUNT)
			break;
	}
	if (options.command == COMMAND_MOUNT) {
		r = parse_operands(argc - optind, argv + optind, &options, error);
		if (r < 0)
			return r;
	}
	/* Those in the group can get there, and who owns a process can see it. */
	if (options.access.has_group && !options.has_umask)
		options.access.umask = 022;
	*ret = options;
	options = (struct options){};
	return 0;
}

void options_deinit(struct options *options)
{
	for (size_t i = 0; i < options->string_count; i++)
		free(options->strings[i]);
	free(options->strings);
	free(options->pins);
	free(options->pin_cross);
	*options = (struct options){};
}
