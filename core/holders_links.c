/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The links that a program runs by, and what each is attached to.
 *
 * The kernel tells of a link in bpf_link_info, whose union grows with each kernel and is larger
 * than the installed header knows: what is read past that is laid out here, from include/uapi/
 * linux/bpf.h of 6.18. A kernel that is older leaves those bytes 0.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/holders_parts.h"

/* enum bpf_link_type by number, with libbpf's names. */
enum {
	LINK_RAW_TRACEPOINT = 1,
	LINK_TRACING = 2,
	LINK_CGROUP = 3,
	LINK_ITER = 4,
	LINK_NETNS = 5,
	LINK_XDP = 6,
	LINK_PERF_EVENT = 7,
	LINK_TCX = 11,
	LINK_UPROBE_MULTI = 12,
	LINK_NETKIT = 13,
	LINK_SOCKMAP = 14,
};

static const char *const link_types[] = {
	"unspec",	"raw_tracepoint", "tracing",	  "cgroup",	"iter",	     "netns",
	"xdp",		"perf_event",	  "kprobe_multi", "struct_ops", "netfilter", "tcx",
	"uprobe_multi", "netkit",	  "sockmap",
};

/* struct bpf_link_info of 6.18, as far as a target can be told from it. */
struct link_info {
	uint32_t type, id, prog_id;
	union {
		struct {
			uint64_t name;
			uint32_t name_len;
		} raw_tracepoint;
		struct {
			uint64_t cgroup_id;
		} cgroup;
		struct {
			uint64_t name;
			uint32_t name_len;
		} iter;
		struct {
			uint32_t inode;
		} netns;
		struct {
			uint32_t ifindex;
		} device; /* xdp, tcx, netkit */
		struct {
			uint32_t map_id;
		} sockmap;
		struct {
			uint64_t path, offsets, ref_ctr_offsets, cookies;
			uint32_t path_size;
		} uprobe_multi;
		struct {
			uint32_t type, pad;
			union {
				struct {
					uint64_t name;
					uint32_t name_len, offset;
				} probe; /* a uprobe's file or a kprobe's function */
				struct {
					uint64_t name;
					uint32_t name_len;
				} tracepoint;
				struct {
					uint64_t config;
					uint32_t type;
				} event;
			};
		} perf_event;
		uint64_t room[16];
	};
} __attribute__((aligned(8)));

/* enum bpf_perf_event_type. */
enum {
	PERF_EVENT_UPROBE = 1,
	PERF_EVENT_URETPROBE,
	PERF_EVENT_KPROBE,
	PERF_EVENT_KRETPROBE,
	PERF_EVENT_TRACEPOINT,
	PERF_EVENT_EVENT,
};

#define LINK_NAME_MAX 4096

static int read_info(int fd, struct link_info *info)
{
	uint32_t len = sizeof(*info);

	return bpf_obj_get_info_by_fd(fd, info, &len) < 0 ? -errno : 0;
}

/* Points the field that takes the target's name, if a link of this type has one, to name. */
static void ask_for_name(struct link_info *info, char *name)
{
	uint64_t pointer = (uintptr_t)name;

	switch (info->type) {
	case LINK_RAW_TRACEPOINT:
	case LINK_ITER:
		info->raw_tracepoint.name = pointer;
		info->raw_tracepoint.name_len = LINK_NAME_MAX;
		break;
	case LINK_UPROBE_MULTI:
		memset(&info->uprobe_multi, 0, sizeof(info->uprobe_multi));
		info->uprobe_multi.path = pointer;
		info->uprobe_multi.path_size = LINK_NAME_MAX;
		break;
	case LINK_PERF_EVENT:
		if (info->perf_event.type < PERF_EVENT_UPROBE ||
		    info->perf_event.type > PERF_EVENT_TRACEPOINT)
			break;
		info->perf_event.probe.name = pointer;
		info->perf_event.probe.name_len = LINK_NAME_MAX;
		break;
	}
}

static void write_name(struct text *text, const char *name)
{
	if (*name)
		text_escape(text, name, strlen(name));
	else
		text_putc(text, '-');
}

static void write_perf_event(struct text *text, const struct link_info *info, const char *name)
{
	switch (info->perf_event.type) {
	case PERF_EVENT_UPROBE:
	case PERF_EVENT_URETPROBE:
	case PERF_EVENT_KPROBE:
	case PERF_EVENT_KRETPROBE:
		write_name(text, name);
		if (info->perf_event.probe.offset)
			text_printf(text, "+0x%" PRIx32, info->perf_event.probe.offset);
		break;
	case PERF_EVENT_EVENT:
		text_printf(text, "type=%" PRIu32 ",config=0x%" PRIx64, info->perf_event.event.type,
			    info->perf_event.event.config);
		break;
	default:
		write_name(text, name);
	}
}

static void write_target(struct text *text, const struct prog *prog, const struct link_info *info,
			 const char *name)
{
	switch (info->type) {
	case LINK_TRACING:
		write_name(text, prog->attach_target ?: "");
		break;
	case LINK_CGROUP:
		text_printf(text, "cgroup=%" PRIu64, info->cgroup.cgroup_id);
		break;
	case LINK_NETNS:
		text_printf(text, "netns=%" PRIu32, info->netns.inode);
		break;
	case LINK_XDP:
	case LINK_TCX:
	case LINK_NETKIT:
		/* Of a network namespace that the kernel does not tell, so a name could be wrong.
		 */
		text_printf(text, "ifindex=%" PRIu32, info->device.ifindex);
		break;
	case LINK_SOCKMAP:
		text_printf(text, "map=%" PRIu32, info->sockmap.map_id);
		break;
	case LINK_PERF_EVENT:
		write_perf_event(text, info, name);
		break;
	default:
		write_name(text, name);
	}
}

static void write_link(struct text *text, const struct prog *prog, int fd, struct link_info *info)
{
	_cleanup_free_ char *name = calloc(1, LINK_NAME_MAX + 1);

	if (!name) {
		text->failed = true;
		return;
	}
	ask_for_name(info, name);
	/* Without the names, which an older kernel cannot give here, there is still the link. */
	if (read_info(fd, info) < 0)
		*name = '\0';
	text_printf(text, "link %" PRIu32 " ", info->id);
	if (info->type < ARRAY_SIZE(link_types))
		text_puts(text, link_types[info->type]);
	else
		text_printf(text, "type_%" PRIu32, info->type);
	text_putc(text, ' ');
	write_target(text, prog, info, name);
	text_putc(text, '\n');
}

void holders_write_links(const struct prog *prog, struct text *text)
{
	uint32_t id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		_cleanup_fd_ int fd = bpf_link_get_fd_by_id(id);
		struct link_info info = {};

		if (fd >= 0 && read_info(fd, &info) == 0 && info.prog_id == prog->id)
			write_link(text, prog, fd, &info);
	}
}
