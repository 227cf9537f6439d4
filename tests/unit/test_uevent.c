/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of the kernel's uevents matter, and what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "core/uevent.h"

/* Parses a copy of exactly len bytes, so that a sanitizer sees each byte too many. */
static int parse(const char *data, size_t len, struct uevent *ret, char *ret_module)
{
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	int r = uevent_parse(copy, len, ret);

	if (r > 0 && ret_module)
		strcpy(ret_module, ret->module);
	free(copy);
	return r;
}

#define MESSAGE(head)                                                                              \
	head "\0ACTION=x\0DEVPATH=/y\0SUBSYSTEM=z\0SEQNUM=1",                                      \
		sizeof(head "\0ACTION=x\0DEVPATH=/y\0SUBSYSTEM=z\0SEQNUM=1")

static void test_modules(void **state)
{
	struct uevent event;
	char module[64];

	assert_int_equal(parse(MESSAGE("add@/module/dummy"), &event, module), 1);
	assert_int_equal(event.kind, UEVENT_MODULE_ADD);
	assert_string_equal(module, "dummy");
	assert_int_equal(parse(MESSAGE("remove@/module/nf_tables"), &event, module), 1);
	assert_int_equal(event.kind, UEVENT_MODULE_REMOVE);
	assert_string_equal(module, "nf_tables");
}

static void test_cpus(void **state)
{
	struct uevent event;

	assert_int_equal(parse(MESSAGE("online@/devices/system/cpu/cpu1"), &event, NULL), 1);
	assert_int_equal(event.kind, UEVENT_CPU_ONLINE);
	assert_int_equal(event.cpu, 1);
	assert_int_equal(parse(MESSAGE("offline@/devices/system/cpu/cpu255"), &event, NULL), 1);
	assert_int_equal(event.kind, UEVENT_CPU_OFFLINE);
	assert_int_equal(event.cpu, 255);
}

static void test_what_does_not_matter(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} messages[] = {
		{MESSAGE("change@/module/dummy")},
		{MESSAGE("add@/module/")},
		{MESSAGE("add@/module/a/holders")},
		{MESSAGE("add@/modules/dummy")},
		{MESSAGE("add@/bus/pci/drivers/dummy")},
		{MESSAGE("add@/devices/system/cpu/cpu1")},
		{MESSAGE("online@/devices/system/cpu/cpu")},
		{MESSAGE("online@/devices/system/cpu/cpu1x")},
		{MESSAGE("online@/devices/system/cpu/cpu-1")},
		{MESSAGE("online@/devices/system/cpu/cpu99999999999999999999999")},
		{MESSAGE("online@/devices/system/memory/memory1")},
		{MESSAGE("xadd@/module/dummy")},
		{MESSAGE("libudev")},
		{MESSAGE("")},
		{"add@/module/dummy", strlen("add@/module/dummy")},
		{"", 0},
	};
	struct uevent event;
	char module[64];

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		assert_int_equal(parse(messages[i].data, messages[i].len, &event, module), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_what_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
