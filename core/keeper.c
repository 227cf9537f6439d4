/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of fds that outlive the process: see keeper.h. */
#include "core/keeper.h"

#include "core/carry.h"

uint64_t keeper_keep(const struct keeper *keeper, int fd)
{
	if (!keeper)
		return 0;
	uint64_t number = __atomic_add_fetch(&carry_root()->last_kept, 1, __ATOMIC_RELAXED);

	keeper->keep(keeper->arg, number, fd);
	return number;
}

void keeper_drop(const struct keeper *keeper, uint64_t number)
{
	if (keeper && number)
		keeper->drop(keeper->arg, number);
}

void keeper_settle(const struct keeper *keeper)
{
	if (keeper)
		keeper->settle(keeper->arg);
}

int keeper_take(const struct keeper *keeper, uint64_t number)
{
	return keeper && number ? keeper->take(keeper->arg, number) : -1;
}

void keeper_drop_rest(const struct keeper *keeper)
{
	if (keeper)
		keeper->drop_rest(keeper->arg);
}
