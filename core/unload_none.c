/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of unload.c where there was no clang and no bpftool to build unload.bpf.c with. */
#include "core/unload.h"

#include <errno.h>

int unload_open(struct unload **ret)
{
	return -EOPNOTSUPP;
}

/* There is never one to call these with. */

void unload_close(struct unload *unload)
{
}

int unload_fd(const struct unload *unload)
{
	return -1;
}

uint32_t unload_prog_id(const struct unload *unload)
{
	return 0;
}

struct remains *unload_drain(struct unload *unload)
{
	return NULL;
}

void unload_know(struct unload *unload, uint64_t load_time, const uint8_t tag[BPF_TAG_SIZE])
{
}

void unload_get_stats(const struct unload *unload, struct unload_stats *ret)
{
	*ret = (struct unload_stats){};
}
