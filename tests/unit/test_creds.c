/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc/PID/status says of credentials. Who may look at whom is tests/live/test_access.c's. */
#include "core/creds.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define HEAD "Name:\tUid: 0\nUmask:\t0022\nTgid:\t77\nNgid:\t0\nPid:\t78\n"
#define IDS  "Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n"
#define CAPS "CapInh:\t0\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000200000\n"

static int parse(const char *string, struct creds *ret)
{
	struct text text = {};

	text_puts(&text, string);
	int r = creds_parse(&text, ret);

	assert_null(text.data);
	return r;
}

static void fields(void **state)
{
	_cleanup_creds_ struct creds creds = {};

	assert_int_equal(parse(HEAD IDS "Groups:\t9 4294967294 11 \n" CAPS, &creds), 0);
	assert_int_equal(creds.tgid, 77);
	assert_int_equal(creds.uid, 1);
	assert_int_equal(creds.euid, 2);
	assert_int_equal(creds.suid, 3);
	assert_int_equal(creds.fsuid, 4);
	assert_int_equal(creds.gid, 5);
	assert_int_equal(creds.egid, 6);
	assert_int_equal(creds.sgid, 7);
	assert_int_equal(creds.fsgid, 8);
	assert_int_equal(creds.permitted, UINT64_C(0x1ffffffffff));
	assert_int_equal(creds.effective, 0x200000);
}

static void groups(void **state)
{
	_cleanup_creds_ struct creds creds = {}, none = {};

	assert_int_equal(parse(HEAD IDS "Groups:\t9 4294967294 11 \n" CAPS, &creds), 0);
	assert_true(creds_in_group(&creds, 9));
	assert_true(creds_in_group(&creds, 4294967294));
	assert_true(creds_in_group(&creds, 11));
	/* As which files are opened, and not as which it runs otherwise. */
	assert_true(creds_in_group(&creds, 8));
	assert_false(creds_in_group(&creds, 5));
	assert_false(creds_in_group(&creds, 1));
	assert_false(creds_in_group(&creds, 0));
	/* Not what stands in the lines below. */
	assert_int_equal(parse(HEAD IDS "Groups:\t \nNStgid:\t12\n" CAPS, &none), 0);
	assert_false(creds_in_group(&none, 12));
}

static void garbage(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		HEAD IDS CAPS,
		HEAD IDS "Groups:\t\n",
		HEAD "Uid:\t1\t2\t3\nGid:\t5\t6\t7\t8\nGroups:\t\n" CAPS,
		"Uid:\t1\t2\t3\t4\n",
		IDS "Groups:\t\n" CAPS,
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		_cleanup_creds_ struct creds creds = {};

		assert_int_equal(parse(bad[i], &creds), -EBADMSG);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields),
		cmocka_unit_test(groups),
		cmocka_unit_test(garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
