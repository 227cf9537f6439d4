/* SPDX-License-Identifier: GPL-2.0-or-later */
/* capset(2), without a library: see rights.h. */
#include "core/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

int rights_keep(uint64_t capabilities)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= capabilities >> (32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

bool rights_have_nice(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	return syscall(SYS_capget, &header, data) == 0 && data[0].effective >> CAP_SYS_NICE & 1;
}

void rights_drop_nice(void)
{
	rights_keep(~(UINT64_C(1) << CAP_SYS_NICE));
}

void rights_begin_thread(void)
{
	const struct sched_param none = {};

	if (sched_getscheduler(0) == SCHED_IDLE)
		sched_setscheduler(0, SCHED_OTHER, &none);
	if (rights_have_nice())
		rights_drop_nice();
}
