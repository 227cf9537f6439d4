/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tracker says of itself: status, metrics, and the check of what this kernel and these
 * rights allow. One table tells of each source what was tried, what is missing without it, and what
 * to do.
 */
#include "core/tracker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "core/metric.h"
#include "core/uevent.h"

enum source_id {
	SOURCE_KALLSYMS,
	SOURCE_PROGRAMS,
	SOURCE_RINGS,
	SOURCE_UEVENTS,
	SOURCE_NAMES,
	SOURCE_UNLOAD,
	SOURCE_MODULES,
	SOURCE_IMAGES,
	SOURCE_COUNT,
};

static const struct {
	const char *key;
	const char *tried;
	const char *without;
	const char *remedy;
	bool optional; /* without it all is well, as far as it goes */
} sources[SOURCE_COUNT] = {
	[SOURCE_KALLSYMS] =
		{"kallsyms", "reading /proc/kallsyms",
		 "ksyms, kallsyms and addr/ have no symbols of the kernel and of modules",
		 "needs CONFIG_KALLSYMS, CAP_SYSLOG and kernel.kptr_restrict below 2"},
	[SOURCE_PROGRAMS] = {"program-ids", "walking BPF program ids",
			     "bpf/ shows only what is loaded from now on, without its contents",
			     "needs CONFIG_BPF_SYSCALL and CAP_SYS_ADMIN"},
	[SOURCE_RINGS] = {"perf-rings", "opening perf rings for ksymbol and bpf_event records",
			  "polling: program ids are walked again at each access, short-lived "
			  "programs are missed, and trampolines and other images are not shown",
			  "needs CONFIG_PERF_EVENTS and CAP_PERFMON"},
	[SOURCE_UEVENTS] = {"uevents", "opening a NETLINK_KOBJECT_UEVENT socket",
			    "modules and CPUs that come and go are not noticed",
			    "needs the initial network namespace"},
	[SOURCE_NAMES] = {"image-lengths", "loading a BPF program that asks the kernel's own %pS",
			  "trampolines and other images have the length of a page, cut at the next "
			  "symbol",
			  "needs Linux 5.14 and CAP_BPF with CAP_PERFMON, or CAP_SYS_ADMIN"},
	[SOURCE_UNLOAD] =
		{"capture-at-unload",
		 "loading a BPF program that copies programs as they are freed",
		 "programs that are closed faster than they are read have no contents",
		 "needs CAP_BPF with CAP_PERFMON, fentry programs (CONFIG_DEBUG_INFO_BTF, "
		 "CONFIG_FUNCTION_TRACER), no lockdown, and a build with clang and bpftool",
		 true},
	[SOURCE_MODULES] = {"modules", "reading /proc/modules",
			    "the last symbol of a module has no size", "needs CAP_SYSLOG"},
	[SOURCE_IMAGES] = {"image-list", "reading BPF symbols from /proc/kallsyms",
			   "trampolines and other images that were there before are not shown",
			   "needs net.core.bpf_jit_kallsyms 1 and net.core.bpf_jit_harden 0"},
};

static int source_error(const struct tracker *tracker, enum source_id id)
{
	switch (id) {
	case SOURCE_KALLSYMS:
		return tracker->state.hidden ? -EACCES : tracker->kallsyms_source.error;
	case SOURCE_PROGRAMS:
		return tracker->programs_source.error;
	case SOURCE_RINGS:
		return tracker->rings_source.error;
	case SOURCE_UEVENTS:
		return tracker->uevents_source.error;
	case SOURCE_NAMES:
		return tracker->kernelname_source.error;
	case SOURCE_UNLOAD:
		return tracker->unload_source.error;
	case SOURCE_MODULES:
		return tracker->modules_source.error;
	case SOURCE_IMAGES:
		return tracker->images_source.error;
	case SOURCE_COUNT:
		break;
	}
	return 0;
}

static void append_source(struct text *text, enum source_id id, int error, size_t line)
{
	text_printf(text, "%s: ", sources[id].key);
	if (error == 0) {
		text_puts(text, "ok");
		return;
	}
	if (id == SOURCE_UNLOAD && error == -ECANCELED) {
		text_puts(text, "off: by --capture-at-unload=off");
		return;
	}
	if (id == SOURCE_UNLOAD && error == -EDEADLK) {
		text_puts(text,
			  "off: in this pid namespace the end of its first process could wait "
			  "for the end of this one, and this one for that; run it in the "
			  "host's pid namespace");
		return;
	}
	text_printf(text, "%s: %s failed: ", sources[id].optional ? "off" : "missing",
		    sources[id].tried);
	if (id == SOURCE_KALLSYMS && error == -EACCES)
		text_puts(text, "every address is 0 for this process");
	else if (id == SOURCE_IMAGES && error == -ENODATA)
		text_puts(text, "they are not listed");
	else if (id == SOURCE_KALLSYMS && error == -EBADMSG)
		text_printf(text, "line %zu is not a symbol", line);
	else
		text_puts(text, strerror(-error));
	text_printf(text, "; without it %s; %s", sources[id].without, sources[id].remedy);
}

static bool is_healthy(const struct tracker *tracker)
{
	for (int id = 0; id < SOURCE_COUNT; id++)
		if (source_error(tracker, id) != 0 && !sources[id].optional)
			return false;
	return !tracker->resync_due;
}

bool tracker_is_healthy(struct tracker *tracker)
{
	LOCKED(&tracker->lock);
	return is_healthy(tracker);
}

static void write_unload(const struct tracker *tracker, struct text *text)
{
	struct unload_stats stats;

	if (!tracker->unload)
		return;
	unload_get_stats(tracker->unload, &stats);
	text_puts(text, "unloads: since=");
	text_seconds(text, tracker->unload_since);
	text_printf(text,
		    " copied=%" PRIu64 " known=%" PRIu64 " dropped=%" PRIu64 " failed=%" PRIu64
		    " recursion_misses=%" PRIu64 "\n",
		    stats.copied, stats.known, stats.dropped, stats.failed, stats.missed);
}

static void write_unload_metrics(const struct tracker *tracker, struct text *text)
{
	struct unload_stats stats = {};

	if (tracker->unload)
		unload_get_stats(tracker->unload, &stats);
	metric_write(text, "unload_copied_total", "Programs copied as they were freed.",
		     stats.copied);
	metric_write(text, "unload_known_total", "Freed programs that had been read in time.",
		     stats.known);
	metric_write(text, "unload_dropped_total", "Freed programs that found the ring full.",
		     stats.dropped);
	metric_write(text, "unload_failed_total", "Freed programs that could not be copied.",
		     stats.failed);
	metric_write(text, "unload_recursion_misses_total",
		     "Freed programs that the kernel did not run the copying program for.",
		     stats.missed);
}

void tracker_status(struct tracker *tracker, struct text *text)
{
	LOCKED(&tracker->lock);
	const struct kstate *state = &tracker->state;
	struct rings_stats rings = {};
	struct eventlog_span events;

	for (int id = 0; id < SOURCE_COUNT; id++) {
		append_source(text, id, source_error(tracker, id), tracker->kallsyms_bad_line);
		text_putc(text, '\n');
	}
	if (tracker->rings)
		rings_stats(tracker->rings, &rings);
	eventlog_span(state->events, &events);
	text_printf(text, "rings: cpus=%u bytes=%zu records=%" PRIu64 " malformed=%" PRIu64 "\n",
		    rings.cpus, rings.bytes, rings.records, rings.malformed);
	text_printf(text, "readers: %zu, real-time: %u%s\n", tracker->reader_count - 1,
		    tracker->realtime,
		    tracker->realtime + 1 < tracker->reader_count ? "; needs CAP_SYS_NICE" : "");
	text_printf(text, "symbols: %zu\n", symtab_count(state->symbols));
	text_printf(text, "programs_loaded: %zu\n", progset_loaded(state->programs));
	text_printf(text, "programs_retained: %zu\n", progset_retained(state->programs));
	text_printf(text, "retained_bytes: %zu\n",
		    progset_retained_bytes(state->programs) + history_bytes(state->history));
	text_printf(text, "captured: %" PRIu64 "\n", state->captured);
	text_printf(text, "gone_before_read: %" PRIu64 "\n", state->gone);
	text_printf(text, "recovered_at_unload: %" PRIu64 "\n", state->recovered);
	write_unload(tracker, text);
	text_printf(text, "lost_records: %" PRIu64 "\n", state->lost_records);
	text_printf(text, "resyncs: %" PRIu64 "\n", tracker->resyncs);
	text_printf(text, "kallsyms_reads: %" PRIu64 "\n", tracker->kallsyms_reads);
	text_puts(text, "started: ");
	text_seconds(text, tracker->started);
	text_puts(text, "\nhistory_since: ");
	text_seconds(text, state->history_since);
	text_printf(text, "\nevents_bytes: %" PRIu64 "\nevents_dropped_bytes: %" PRIu64 "\n",
		    events.end - events.start, events.start);
}

void tracker_metrics(struct tracker *tracker, struct text *text)
{
	LOCKED(&tracker->lock);
	const struct kstate *state = &tracker->state;
	struct rings_stats rings = {};
	struct eventlog_span events;

	if (tracker->rings)
		rings_stats(tracker->rings, &rings);
	eventlog_span(state->events, &events);
	metric_begin(text, "source_up", "Whether a source works.");
	for (int id = 0; id < SOURCE_COUNT; id++)
		text_printf(text, "ksymfs_source_up{source=\"%s\"} %d\n", sources[id].key,
			    source_error(tracker, id) == 0);
	metric_write(text, "symbols", "Kernel symbols.", symtab_count(state->symbols));
	metric_write(text, "programs_loaded", "BPF programs that are loaded.",
		     progset_loaded(state->programs));
	metric_write(text, "programs_retained", "BPF programs kept after their unload.",
		     progset_retained(state->programs));
	metric_write(text, "retained_bytes", "Bytes of what is kept after its unload.",
		     progset_retained_bytes(state->programs) + history_bytes(state->history));
	metric_write(text, "programs_captured_total", "Programs read in time.", state->captured);
	metric_write(text, "programs_gone_total", "Programs gone before they were read.",
		     state->gone);
	metric_write(text, "programs_recovered_total",
		     "Of programs that were gone, those copied as they were freed.",
		     state->recovered);
	write_unload_metrics(tracker, text);
	metric_write(text, "records_total", "Records taken from the perf rings.", rings.records);
	metric_write(text, "records_lost_total", "Records that the kernel had no room for.",
		     state->lost_records);
	metric_write(text, "resyncs_total", "Looks at the whole after a loss.", tracker->resyncs);
	metric_write(text, "kallsyms_reads_total", "Reads of /proc/kallsyms.",
		     tracker->kallsyms_reads);
	metric_write(text, "events_bytes_total", "Bytes ever written to events.", events.end);
}

static int pass_over(struct symbol *rows, size_t count, void *arg)
{
	return 0;
}

static int check_kallsyms(size_t *ret_line)
{
	_cleanup_fd_ int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	bool hidden = false;
	int r = fd < 0 ? -errno : kallsyms_visit(fd, pass_over, NULL, &hidden, ret_line);

	return r == 0 && hidden ? -EACCES : r;
}

static int check_programs(void)
{
	uint32_t id;
	int r = prog_next_id(0, &id);

	return r == -ENOENT ? 0 : r;
}

static int check_rings(void)
{
	CLEANUP(rings_cleanup) struct rings *rings = NULL;

	return rings_open(RING_SYMBOLS, 1, &rings);
}

static int check_uevents(void)
{
	_cleanup_fd_ int fd = uevent_open();

	return MIN(fd, 0);
}

static int check_names(void)
{
	CLEANUP(kernelname_cleanup) struct kernelname *kernelname = NULL;

	return kernelname_open(&kernelname);
}

static int check_unload(void)
{
	CLEANUP(unload_cleanup) struct unload *unload = NULL;

	return unload_open(&unload);
}

static int check_modules(void)
{
	_cleanup_fd_ int fd = open("/proc/modules", O_RDONLY | O_CLOEXEC);

	return fd < 0 && errno != ENOENT ? -errno : 0;
}

/* Settings that take something away and are no error of a source. */
static bool check_setting(struct text *text, const char *path, char bad, const char *key,
			  const char *without)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char value = '\0';

	if (fd < 0 || read(fd, &value, 1) != 1 || value != bad)
		return true;
	text_printf(text, "%s: missing: %s is %c; %s\n", key, path, bad, without);
	return false;
}

bool tracker_check(struct text *text)
{
	size_t line = 0;
	const int errors[SOURCE_COUNT] = {
		[SOURCE_KALLSYMS] = check_kallsyms(&line),
		[SOURCE_PROGRAMS] = check_programs(),
		[SOURCE_RINGS] = check_rings(),
		[SOURCE_UEVENTS] = check_uevents(),
		[SOURCE_NAMES] = check_names(),
		[SOURCE_UNLOAD] = check_unload(),
		[SOURCE_MODULES] = check_modules(),
		[SOURCE_IMAGES] = tracker_image_list_error(),
	};
	bool all = true;

	for (int id = 0; id < SOURCE_COUNT; id++) {
		append_source(text, id, errors[id], line);
		text_putc(text, '\n');
		all &= errors[id] == 0 || sources[id].optional;
	}
	all &= check_setting(text, "/proc/sys/net/core/bpf_jit_enable", '0', "jit",
			     "programs have no machine code and no symbols until it is 1");
	return all;
}
