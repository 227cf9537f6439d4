/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * README, status and metrics: what this tree is, how it fares, and the same in figures.
 *
 * Each part of the daemon tells of itself; here it is put one below the other. status and metrics
 * are made anew for each open.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "core/carry.h"
#include "core/host.h"
#include "core/metric.h"
#include "core/mountns.h"
#include "core/tracker.h"
#include "fs/handover.h"
#include "fs/sandbox.h"
#include "fs/session.h"
#include "fs/views.h"

static const char readme[] =
	"The running kernel's symbols and BPF programs, as files. All of it is read-only\n"
	"and up to date; an open file does not change.\n"
	"\n"
	"  status             how this fares: sources, losses, how far back it remembers\n"
	"  metrics            the same figures for Prometheus\n"
	"  ksyms              every kernel symbol: ADDRESS SIZE TYPE NAME [MODULE]\n"
	"  kallsyms           the same in the format of /proc/kallsyms\n"
	"  addr/ADDR          the symbol that covers it: cat addr/ffffffff81000010\n"
	"  addr/ADDR-1        ... the byte before, for a return address\n"
	"  addr/ADDR@SECONDS  ... at a moment of CLOCK_MONOTONIC\n"
	"  events             what came and went, when, by whom: tail -f events\n"
	"\n"
	"  bpf/programs       a line a program, unloaded ones too\n"
	"  bpf/functions      a line a function; bpf/images: trampolines and the like\n"
	"  bpf/by-id/ID/      a program: info, holders, stats, maps, code, sources\n"
	"  bpf/by-name/NAME/  the programs of a name\n"
	"  bpf/TAG/           those of a tag, as symbols (bpf_prog_TAG_NAME) have it\n"
	"\n"
	"  usdt/PID/          the USDT probes of a process: notes, probes, uprobe_events,\n"
	"                     objects, providers/PROVIDER/NAME; usdt/self\n"
	"  usdt/probes        those of all processes\n"
	"  pins/PID/          mkdir keeps a process readable past its exit, rmdir lets go\n"
	"\n"
	"What a program lacks is absent: its info says why (missing: FILE: REASON). Its\n"
	"stats are - once it is unloaded. holders: fd PID COMM FD, of the program, a link\n"
	"to it or a perf event that runs it; pin PATH; link ID TYPE TARGET; map ID.\n"
	"In names, blanks, \\ and what does not print are \\ooo.\n"
	"\n"
	"Permission denied: addresses (ksyms, kallsyms, addr, events, bpf) are for\n"
	"CAP_SYSLOG and --group; pins for CAP_SYS_PTRACE; usdt/PID is as /proc/PID/maps.\n";

static int lookup_readme(void *view, const struct view_path *path, const struct view_caller *caller,
			 struct view_attr *ret)
{
	const struct timespec *created = view;

	if (path->count)
		return -ENOENT;
	*ret = (struct view_attr){
		.kind = VIEW_FILE,
		.generation = 1,
		.mtime = *created,
		.fixed = true,
	};
	return 0;
}

static int render_readme(void *view, const struct view_path *path, const struct view_caller *caller,
			 struct snapshot **ret)
{
	return snapshot_copy(readme, sizeof(readme) - 1, ret);
}

int view_readme_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "README",
		.lookup = lookup_readme,
		.render = render_readme,
		.destroy = free,
	};
	struct timespec *created = malloc(sizeof(*created));

	if (!created)
		return -ENOMEM;
	clock_gettime(CLOCK_REALTIME, created);
	*ret = (struct view){&ops, created};
	return 0;
}

/* status and metrics keep a copy of the context: what it points to outlives them. */

static int lookup_volatile(void *view, const struct view_path *path,
			   const struct view_caller *caller, struct view_attr *ret)
{
	if (path->count)
		return -ENOENT;
	/* status looks at every process there is. */
	*ret = (struct view_attr){.kind = VIEW_FILE, .generation = VIEW_VOLATILE, .slow = true};
	return 0;
}

static void write_clocks(struct text *text)
{
	char boot_id[HOST_BOOT_ID_SIZE];
	int64_t offset = host_monotonic_to_unix();

	text_puts(text, "monotonic_to_unix: ");
	if (offset < 0)
		text_putc(text, '-');
	text_seconds(text, offset < 0 ? -(uint64_t)offset : (uint64_t)offset);
	text_printf(text, "\nboot_id: %s\n", host_boot_id(boot_id) == 0 ? boot_id : "-");
}

/* Where the mount was attached to containers. */
static void write_attached(const struct view_context *context, struct text *text)
{
	_cleanup_mountns_places_ struct mountns_places places = {};

	if (!*context->own_dev)
		return;
	int r = mountns_find_marked(*context->own_dev, &places);
	if (r < 0)
		text_printf(text, "attached: missing: %s\n", strerror(-r));
	for (size_t i = 0; i < places.count; i++) {
		text_printf(text, "attached: pid=%d dir=", places.places[i].pid);
		text_escape(text, places.places[i].mountpoint, strlen(places.places[i].mountpoint));
		text_putc(text, '\n');
	}
}

/* Who keeps the mount, and what became of the daemons before this one. */
static void write_handover(const struct view_context *context, struct text *text)
{
	const struct hello *hello = context->handover ? &context->handover->hello : NULL;
	struct session_resumed resumed;

	if (!hello || !hello->supervisor)
		return;
	sandbox_status(text);
	text_printf(text, "supervisor: %d\nhandovers: %u\n", hello->supervisor, hello->number);
	if (!hello->number)
		return;
	session_get_resumed(context->session, &resumed);
	text_printf(text, "handover_cause: %s\nhandover: %s\n", hello->cause,
		    carry_is_inherited()
			    ? "carried over: open files, events, programs, history, pins and "
			      "what is open behind them; seen anew: modules, images"
			    : "begun anew");
	text_printf(text, "handover_open: nodes=%zu files=%zu directories=%zu streams=%zu\n",
		    resumed.nodes, resumed.files, resumed.directories, resumed.streams);
	text_printf(text, "handover_requests: %s\n",
		    resumed.resent ? "sent again" : "refused: this kernel cannot send them again");
}

static int render_status(void *view, const struct view_path *path, const struct view_caller *caller,
			 struct snapshot **ret)
{
	const struct view_context *context = view;
	_cleanup_text_ struct text text = {};
	struct utsname name;

	if (uname(&name) < 0)
		return -errno;
	text_printf(&text, "format: 1\nversion: %s\nkernel: %s\nhealth: %s\n", KSYMFS_VERSION,
		    name.release, tracker_is_healthy(context->tracker) ? "ok" : "degraded");
	write_clocks(&text);
	tracker_status(context->tracker, &text);
	session_status(context->session, &text);
	write_handover(context, &text);
	for (size_t i = 0; i < *context->view_count; i++) {
		if (context->views[i].ops->status)
			context->views[i].ops->status(context->views[i].data, &text);
	}
	write_attached(context, &text);
	return text_take_snapshot(&text, ret);
}

static int render_metrics(void *view, const struct view_path *path,
			  const struct view_caller *caller, struct snapshot **ret)
{
	const struct view_context *context = view;
	_cleanup_text_ struct text text = {};

	metric_begin(&text, "info", "The version of ksymfs.");
	text_puts(&text, "ksymfs_info{version=\"" KSYMFS_VERSION "\"} 1\n");
	metric_write(&text, "healthy", "Whether all sources work and no loss is unmended.",
		     tracker_is_healthy(context->tracker));
	metric_write(&text, "handovers_total", "Daemons that were replaced.",
		     context->handover ? context->handover->hello.number : 0);
	metric_write(&text, "carried_bytes", "Memory that outlives the daemon.", carry_bytes());
	tracker_metrics(context->tracker, &text);
	session_metrics(context->session, &text);
	for (size_t i = 0; i < *context->view_count; i++) {
		if (context->views[i].ops->metrics)
			context->views[i].ops->metrics(context->views[i].data, &text);
	}
	return text_take_snapshot(&text, ret);
}

static int create_with_context(const struct view_ops *ops, const struct view_context *context,
			       struct view *ret)
{
	struct view_context *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *context;
	*ret = (struct view){ops, copy};
	return 0;
}

int view_status_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "status",
		.lookup = lookup_volatile,
		.render = render_status,
		.destroy = free,
	};

	return create_with_context(&ops, context, ret);
}

int view_metrics_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "metrics",
		.lookup = lookup_volatile,
		.render = render_metrics,
		.destroy = free,
	};

	return create_with_context(&ops, context, ret);
}
