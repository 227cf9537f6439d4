/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line: what is taken, what is refused, and what is said then. */
#include <errno.h>
#include <string.h>

#include "fs/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Words are parted by one blank. */
static int parse(const char *line, struct options *ret, char error[512])
{
	_cleanup_text_ struct text text = {};
	char *words = strdup(line);
	char program[] = "ksymfs";
	char *argv[32] = {program};
	int argc = 1;

	assert_non_null(words);
	for (char *save, *word = strtok_r(words, " ", &save); word;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	int r = options_parse(argc, argv, ret, &text);
	snprintf(error, 512, "%.*s", (int)text.len, text.data ?: "");
	/* Options point into argv: it leaks here, as it lives on in the program. */
	static char *kept[64];
	static size_t count;
	free(kept[count % 64]);
	kept[count++ % 64] = words;
	return r;
}

static struct options accept(const char *line)
{
	struct options options = {};
	char error[512];

	if (parse(line, &options, error) < 0)
		fail_msg("%s: refused: %s", line, error);
	assert_string_equal(error, "");
	return options;
}

static void refuse(const char *line, const char *expected)
{
	struct options options = {};
	char error[512];

	assert_int_equal(parse(line, &options, error), -EINVAL);
	assert_string_equal(error, expected);
	assert_null(options.strings);
}

static void durations(void **state)
{
	static const struct {
		const char *string;
		uint64_t ns;
	} good[] = {
		{"0", 0},
		{"7", 7 * NSEC_PER_SEC},
		{"90s", 90 * NSEC_PER_SEC},
		{"250ms", 250000000},
		{"10m", 600 * NSEC_PER_SEC},
		{"1h", 3600 * NSEC_PER_SEC},
		{"2d", 172800 * NSEC_PER_SEC},
		{"18446744073s", 18446744073 * NSEC_PER_SEC},
	};
	static const char *const bad[] = {"",	  "s",	"-1s", "+1s",  " 1s",  "1s ",  "1 s",
					  "1.5h", "1S", "1w",  "0x10", "10mm", "1m30s"};
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(parse_duration(good[i].string, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_duration(bad[i], &ns), -EINVAL);
	assert_int_equal(parse_duration("18446744074s", &ns), -ERANGE);
	assert_int_equal(parse_duration("18446744073709551616ms", &ns), -ERANGE);
	assert_int_equal(parse_duration("99999999999999999999999999", &ns), -ERANGE);
}

static void sizes(void **state)
{
	static const char *const bad[] = {"",	"M",	"64m", "64MB", "64MiB",
					  "-1", "1.5G", " 1",  "1 K"};
	uint64_t bytes;

	assert_int_equal(parse_size("4096", &bytes), 0);
	assert_int_equal(bytes, 4096);
	assert_int_equal(parse_size("64M", &bytes), 0);
	assert_int_equal(bytes, 67108864);
	assert_int_equal(parse_size("16777215T", &bytes), 0);
	assert_int_equal(bytes, UINT64_C(16777215) << 40);
	assert_int_equal(parse_size("16777216T", &bytes), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_size(bad[i], &bytes), -EINVAL);
}

static void defaults(void **state)
{
	_cleanup_options_ struct options options = accept("");

	assert_int_equal(options.command, COMMAND_MOUNT);
	assert_string_equal(options.mountpoint, "/run/ksymfs");
	assert_false(options.foreground || options.debug || options.read_only || options.nonempty);
	assert_int_equal(options.retain_ns, 600 * NSEC_PER_SEC);
	assert_int_equal(options.retain_bytes, 64 << 20);
	assert_int_equal(options.events_bytes, 8 << 20);
	assert_int_equal(options.pin_count, 0);
	assert_int_equal(options.pin_max, 64);
	assert_int_equal(options.pin_ns, 600 * NSEC_PER_SEC);
	assert_int_equal(options.pin_cross_count, 0);
	assert_false(options.access.has_group);
	assert_int_equal(options.pidns, 0);
	assert_true(options.capture_at_unload);
	assert_int_equal(options.access.uid, 0);
	assert_int_equal(options.access.gid, 0);
	assert_int_equal(options.access.umask, 077);
}

static void every_option(void **state)
{
	_cleanup_options_ struct options options =
		accept("-f --retain-time=1h --retain-bytes=1G --events-bytes 16M --pin=nginx "
		       "--pin=exe:/usr/bin/* --pin=cgroup:*.slice --pin=comm:a:b --pin-max=8 "
		       "--pin-time=5s --pin-cross=overlay,fuse.sshfs --group=0 --pidns=42 "
		       "--capture-at-unload=off -o uid=1000,gid=1001,umask=027 /mnt");

	assert_true(options.foreground);
	assert_int_equal(options.retain_ns, 3600 * NSEC_PER_SEC);
	assert_int_equal(options.retain_bytes, 1 << 30);
	assert_int_equal(options.events_bytes, 16 << 20);
	assert_int_equal(options.pin_count, 4);
	assert_int_equal(options.pins[0].field, PIN_COMM);
	assert_string_equal(options.pins[0].glob, "nginx");
	assert_int_equal(options.pins[1].field, PIN_EXE);
	assert_string_equal(options.pins[1].glob, "/usr/bin/*");
	assert_int_equal(options.pins[2].field, PIN_CGROUP);
	assert_string_equal(options.pins[2].glob, "*.slice");
	assert_int_equal(options.pins[3].field, PIN_COMM);
	assert_string_equal(options.pins[3].glob, "a:b");
	assert_int_equal(options.pin_max, 8);
	assert_int_equal(options.pin_ns, 5 * NSEC_PER_SEC);
	assert_int_equal(options.pin_cross_count, 2);
	assert_string_equal(options.pin_cross[0], "overlay");
	assert_string_equal(options.pin_cross[1], "fuse.sshfs");
	assert_true(options.access.has_group);
	assert_int_equal(options.access.group, 0);
	assert_int_equal(options.pidns, 42);
	assert_false(options.capture_at_unload);
	assert_int_equal(options.access.uid, 1000);
	assert_int_equal(options.access.gid, 1001);
	assert_int_equal(options.access.umask, 027);
	assert_string_equal(options.mountpoint, "/mnt");
}

static void attaching(void **state)
{
	_cleanup_options_ struct options options = accept("attach 42");

	assert_int_equal(options.command, COMMAND_ATTACH);
	assert_int_equal(options.pid, 42);
	assert_string_equal(options.mountpoint, DEFAULT_MOUNTPOINT);
	assert_null(options.directory);
	options_deinit(&options);
	options = accept("detach --from=/mnt 42 /x");
	assert_int_equal(options.command, COMMAND_DETACH);
	assert_string_equal(options.mountpoint, "/mnt");
	assert_string_equal(options.directory, "/x");
	refuse("attach", "attach: wants a pid; see ksymfs --help");
	refuse("attach /mnt", "attach: wants a pid; see ksymfs --help");
	refuse("detach 0", "detach: wants a pid; see ksymfs --help");
	refuse("attach 1 /x /y", "/y: one argument too many; see ksymfs --help");
	refuse("--from=/mnt /x", "--from: is for attach and detach; see ksymfs --help");
}

static void unmounting(void **state)
{
	_cleanup_options_ struct options options = accept("umount -l /mnt");

	assert_int_equal(options.command, COMMAND_UMOUNT);
	assert_true(options.lazy);
	assert_string_equal(options.mountpoint, "/mnt");
	refuse("-l /mnt", "-l: is for umount; see ksymfs --help");
}

/* A group opens the way to what it may see; an umask that was given stays. */
static void a_group_changes_the_umask(void **state)
{
	_cleanup_options_ struct options options = accept("--group=0");

	assert_int_equal(options.access.umask, 022);
	options_deinit(&options);
	options = accept("-o umask=077 --group=0");
	assert_int_equal(options.access.umask, 077);
}

static void group_by_name(void **state)
{
	_cleanup_options_ struct options options = accept("--group=root");

	assert_true(options.access.has_group);
	assert_int_equal(options.access.group, 0);
}

static void as_mount_and_fstab_call_it(void **state)
{
	_cleanup_options_ struct options options =
		accept("ksymfs /mnt -o rw,nosuid,nodev,noatime,_netdev,x-systemd.automount,"
		       "retain-time=20m,group,dev,suid");

	assert_int_equal(options.command, COMMAND_MOUNT);
	assert_string_equal(options.mountpoint, "/mnt");
	assert_int_equal(options.retain_ns, 1200 * NSEC_PER_SEC);
	assert_false(options.access.has_group);
	assert_false(options.read_only);
	options_deinit(&options);
	options = accept("-o ro,nonempty,,defaults none /mnt");
	assert_true(options.read_only);
	assert_true(options.nonempty);
}

static void commands(void **state)
{
	_cleanup_options_ struct options options = accept("check");

	assert_int_equal(options.command, COMMAND_CHECK);
	options = accept("umount");
	assert_int_equal(options.command, COMMAND_UMOUNT);
	assert_string_equal(options.mountpoint, "/run/ksymfs");
	options = accept("umount /mnt");
	assert_int_equal(options.command, COMMAND_UMOUNT);
	assert_string_equal(options.mountpoint, "/mnt");
	options = accept("--help");
	assert_int_equal(options.command, COMMAND_HELP);
	options = accept("--version --nonsense");
	assert_int_equal(options.command, COMMAND_VERSION);
	/* A directory may have a command's name. */
	options = accept("ksymfs check");
	assert_int_equal(options.command, COMMAND_MOUNT);
	assert_string_equal(options.mountpoint, "check");
}

static void refusals(void **state)
{
	refuse("a b c", "c: one argument too many; see ksymfs --help");
	refuse("check /mnt", "/mnt: one argument too many; see ksymfs --help");
	refuse("--nonsense", "--nonsense: no such option; see ksymfs --help");
	refuse("--help=x", "--help=x: takes no value; see ksymfs --help");
	refuse("-x", "-x: no such option; see ksymfs --help");
	refuse("--retain-time", "--retain-time: wants a value; see ksymfs --help");
	refuse("-o", "-o: wants a value; see ksymfs --help");
}

static void values_out_of_range(void **state)
{
	refuse("--retain-time=ten", "--retain-time=ten: wants a time such as 90s, 10m or 1h");
	refuse("--retain-bytes=-1", "--retain-bytes=-1: wants a size such as 512K, 64M or 1G");
	refuse("--events-bytes=1", "--events-bytes=1: wants a size of 4K or more, such as 8M");
	refuse("--pin=", "--pin=: wants comm:GLOB, exe:GLOB, cgroup:GLOB or GLOB");
	refuse("--pin=exe:", "--pin=exe:: wants comm:GLOB, exe:GLOB, cgroup:GLOB or GLOB");
	refuse("--pin-max=0", "--pin-max=0: wants a number from 1 to 1000000");
	refuse("--pin-max=1000001", "--pin-max=1000001: wants a number from 1 to 1000000");
	refuse("--pin-cross=a,,b", "--pin-cross=a,,b: wants names of file system types");
	refuse("--group=no-such-group", "--group=no-such-group: wants a group that exists");
	refuse("--pidns=0", "--pidns=0: wants a pid");
	refuse("--capture-at-unload=yes", "--capture-at-unload=yes: wants on or off");
	refuse("-o uid=root", "-o uid=root: wants a number");
	refuse("-o uid=4294967295", "-o uid=4294967295: wants a number");
	refuse("-o umask=0888", "-o umask=0888: wants an octal number up to 0777");
	refuse("-o umask=01777", "-o umask=01777: wants an octal number up to 0777");
	refuse("-o nonsense", "-o nonsense: no such option; see ksymfs --help");
	refuse("-o retain-time", "-o retain-time: no such option; see ksymfs --help");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(sizes),
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_option),
		cmocka_unit_test(attaching),
		cmocka_unit_test(unmounting),
		cmocka_unit_test(a_group_changes_the_umask),
		cmocka_unit_test(group_by_name),
		cmocka_unit_test(as_mount_and_fstab_call_it),
		cmocka_unit_test(commands),
		cmocka_unit_test(refusals),
		cmocka_unit_test(values_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
