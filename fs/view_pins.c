/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pins/: processes kept readable past their exit.
 *
 *	PID/				mkdir pins, rmdir lets go
 *	PID/info
 *	PID/maps, status, ...		as /proc has or had them
 *	PID/exe				the executable's bytes
 *	PID/root			symlink to the root, see pinroot.h
 *	PID/map_files/START-END		symlinks likewise
 *	PID/usdt/...			usdt_files.h
 *
 * The directory is root's alone, whoever the tree belongs to: behind it everything can be read.
 */
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/metric.h"
#include "core/pinset.h"
#include "core/pinusdt.h"
#include "core/tracker.h"
#include "fs/options.h"
#include "fs/pinroot.h"
#include "fs/usdt_files.h"
#include "fs/views.h"

struct pins_view {
	const struct options *options;
	struct tracker *tracker;
	const struct pidns *pidns;
	const dev_t *own_dev;
	struct root_policy policy;
	struct pinset *set;
	struct pinroot *roots;
	struct usdt *usdt;
};

enum place_kind {
	PLACE_TOP,
	PLACE_PIN,
	PLACE_INFO,
	PLACE_TEXT,
	PLACE_EXE,
	PLACE_ROOT,
	PLACE_MAP_FILES,
	PLACE_MAP_FILE,
	PLACE_USDT, /* the directory, or something in it */
};

struct place {
	enum place_kind kind;
	struct pin *pin; /* referenced */
	char key[PIN_NAME_SIZE];
	enum pin_text text;
	const char *name; /* of the pin */
	const char *const *rest;
	int rest_count;
};

static void place_deinit(struct place *place)
{
	pin_unref(place->pin);
}
#define _cleanup_place_ CLEANUP(place_deinit)

static bool find_text(const char *name, enum pin_text *ret)
{
	for (enum pin_text text = 0; text < PIN_TEXTS; text++) {
		if (strcmp(pin_text_name(text), name) == 0) {
			*ret = text;
			return true;
		}
	}
	return false;
}

/* What names below a pin's directory say. */
static int find_in_pin(const char *const *names, int count, struct place *place)
{
	static const struct {
		const char *name;
		enum place_kind kind;
	} singles[] = {{"info", PLACE_INFO},
		       {"exe", PLACE_EXE},
		       {"root", PLACE_ROOT},
		       {"map_files", PLACE_MAP_FILES}};

	place->rest = names + 1;
	place->rest_count = count - 1;
	if (strcmp(names[0], "usdt") == 0) {
		place->kind = PLACE_USDT;
		return 0;
	}
	if (count == 2 && strcmp(names[0], "map_files") == 0) {
		place->kind = PLACE_MAP_FILE;
		return 0;
	}
	if (count > 1)
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(singles); i++) {
		if (strcmp(names[0], singles[i].name) == 0) {
			place->kind = singles[i].kind;
			return 0;
		}
	}
	place->kind = PLACE_TEXT;
	return find_text(names[0], &place->text) ? 0 : -ENOENT;
}

static int find_place(const struct pins_view *view, const struct view_path *path, struct place *ret)
{
	*ret = (struct place){};
	pinset_sync(view->set);
	if (path->count == 0)
		return 0;
	int r = pinset_find(view->set, path->name[0], &ret->pin);

	if (r < 0)
		return r;
	ret->kind = PLACE_PIN;
	ret->name = path->name[0];
	pin_key(ret->pin, ret->key);
	return path->count == 1 ? 0 : find_in_pin(path->name + 1, path->count - 1, ret);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ns / NSEC_PER_SEC, ns % NSEC_PER_SEC};
}

/* What usdt_files.h needs to know about a pin. */
struct scan_arg {
	const struct pins_view *view;
	const struct place *place;
};

static int scan(void *arg, struct usdt_scan **ret)
{
	const struct scan_arg *what = arg;
	struct usdt_source source;
	int r = pin_usdt_source(what->place->pin, what->place->name, &source);

	return r < 0 ? r
		     : usdt_scan_create(what->view->usdt, *what->view->own_dev, &source, 1, ret);
}

/*
 * Is the caller in the middle of mkdir(2)? The kernel looks a name up before it asks for it to be
 * made, and does not say what for; /proc knows what a task that waits for us was doing.
 */
static bool is_mkdir(const struct view_caller *caller)
{
	char path[sizeof("/proc//syscall") + 3 * sizeof(pid_t)];
	long number = -1;

	snprintf(path, sizeof(path), "/proc/%d/syscall", caller->pid);
	_cleanup_file_ FILE *file = fopen(path, "re");

	if (!file || fscanf(file, "%ld", &number) != 1)
		return false;
#ifdef SYS_mkdir
	if (number == SYS_mkdir)
		return true;
#endif
	return number == SYS_mkdirat;
}

/*
 * To him who is about to pin the process that has this pid now, the pin of the one that had it is
 * not in the way: it is renamed when the other is made.
 */
static bool makes_way(const struct pins_view *view, const struct place *place,
		      const struct view_caller *caller)
{
	return place->kind == PLACE_PIN && !strchr(place->name, '@') && caller->pid &&
	       !pin_is_alive(place->pin) &&
	       faccessat(pidns_proc_fd(view->pidns), place->name, F_OK, 0) == 0 && is_mkdir(caller);
}

static int lookup_usdt(const struct pins_view *view, const struct place *place,
		       struct view_attr *ret)
{
	struct scan_arg arg = {view, place};
	const struct usdt_files_owner owner = {scan, &arg};

	return usdt_files_lookup(&owner, place->rest, place->rest_count, ret);
}

static int lookup(void *data, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	const struct pins_view *view = data;
	_cleanup_place_ struct place place;
	_cleanup_held_file_ struct held_file *file = NULL;
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	if (makes_way(view, &place, caller))
		return -ENOENT;
	switch (place.kind) {
	case PLACE_TOP:
		*ret = (struct view_attr){.kind = VIEW_DIR, .fixed = true, .mode = 0700};
		return 0;
	case PLACE_PIN:
		*ret = (struct view_attr){.kind = VIEW_DIR};
		break;
	case PLACE_MAP_FILES:
		*ret = (struct view_attr){.kind = VIEW_DIR};
		break;
	case PLACE_ROOT:
		*ret = (struct view_attr){.kind = VIEW_LINK};
		break;
	case PLACE_MAP_FILE:
		*ret = (struct view_attr){.kind = VIEW_LINK};
		r = pin_mapped_file(place.pin, place.rest[0], &file);
		if (r == -ENOENT && pin_is_alive(place.pin)) {
			pin_look(place.pin, PIN_LOOK_MAPS);
			r = pin_mapped_file(place.pin, place.rest[0], &file);
		}
		break;
	case PLACE_EXE:
		*ret = (struct view_attr){.kind = VIEW_FOREIGN};
		r = pinroot_exe(view->roots, place.pin, &ret->generation);
		break;
	case PLACE_USDT:
		return lookup_usdt(view, &place, ret);
	default:
		*ret = (struct view_attr){.kind = VIEW_FILE, .generation = VIEW_VOLATILE};
		break;
	}
	ret->mtime = to_timespec(pin_pinned_unix(place.pin));
	return r;
}

static int list_pins(const struct pins_view *view, struct view_list *list)
{
	_cleanup_pinset_list_ struct pinset_list pins = {};
	int r = pinset_list(view->set, &pins);

	for (size_t i = 0; r == 0 && i < pins.count; i++) {
		const struct view_attr attr = {
			.kind = VIEW_DIR,
			.mtime = to_timespec(pin_pinned_unix(pins.entries[i].pin)),
		};

		r = view_list_add(list, pins.entries[i].name, VIEW_DIR, &attr);
	}
	return r;
}

static int list_pin(struct view_list *list)
{
	static const struct {
		const char *name;
		enum view_kind kind;
	} names[] = {{"info", VIEW_FILE},
		     {"exe", VIEW_FOREIGN},
		     {"root", VIEW_LINK},
		     {"map_files", VIEW_DIR},
		     {"usdt", VIEW_DIR}};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = view_list_add(list, names[i].name, names[i].kind, NULL);
	for (enum pin_text text = 0; r == 0 && text < PIN_TEXTS; text++)
		r = view_list_add(list, pin_text_name(text), VIEW_FILE, NULL);
	return r;
}

static int list_map_files(const struct place *place, struct view_list *list)
{
	_cleanup_pin_mappings_ struct pin_mappings mappings = {};

	pin_look(place->pin, PIN_LOOK_MAPS);
	int r = pin_mappings(place->pin, &mappings);

	for (size_t i = 0; r == 0 && i < mappings.count; i++)
		if (mappings.mappings[i].file)
			r = view_list_add(list, mappings.mappings[i].name, VIEW_LINK, NULL);
	return r;
}

static int list(void *data, const struct view_path *path, const struct view_caller *caller,
		struct view_list *list)
{
	const struct pins_view *view = data;
	_cleanup_place_ struct place place;
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	struct scan_arg arg = {view, &place};
	const struct usdt_files_owner owner = {scan, &arg};

	switch (place.kind) {
	case PLACE_TOP:
		return list_pins(view, list);
	case PLACE_PIN:
		return list_pin(list);
	case PLACE_MAP_FILES:
		return list_map_files(&place, list);
	case PLACE_USDT:
		return usdt_files_list(&owner, place.rest, place.rest_count, list);
	default:
		return -ENOTDIR;
	}
}

static void put_exit(struct text *text, const struct pin_exit *exit)
{
	text_printf(text, "state: %s\n", exit->exited ? "exited" : "alive");
	if (!exit->exited)
		return;
	text_puts(text, "exited_at: ");
	text_seconds(text, exit->unix_ns);
	text_putc(text, '\n');
	if (!exit->has_status)
		return;
	if (WIFSIGNALED(exit->status))
		text_printf(text, "exit_signal: %d\n", WTERMSIG(exit->status));
	else
		text_printf(text, "exit_code: %d\n", WEXITSTATUS(exit->status));
}

/* What of the mapped files there is to read, and why not all. */
static int put_files(const struct place *place, struct text *text)
{
	_cleanup_pin_mappings_ struct pin_mappings mappings = {};
	size_t missing = 0;
	int r = pin_mappings(place->pin, &mappings);

	if (r < 0)
		return r;
	for (size_t i = 0; i < mappings.count; i++)
		missing += !mappings.mappings[i].file;
	text_printf(text, "mapped_files: %zu\n", mappings.count - missing);
	if (missing)
		text_printf(text,
			    "missing: map_files: %zu could not be opened or are more than "
			    "RLIMIT_NOFILE allows\n",
			    missing);
	return 0;
}

static int put_root(const struct place *place, struct text *text)
{
	_cleanup_root_ struct root *root = NULL;
	_cleanup_held_file_ struct held_file *exe = NULL;
	int r = pin_root(place->pin, &root);

	if (r < 0)
		return r;
	text_printf(text, "mount_namespace: %" PRIu64 "\n", root_mount_ns(root));
	const char *type = root_closed_type(root);

	if (type)
		text_printf(text, "missing: root: it is of type %s, see --pin-cross\n", type);
	if (pin_exe(place->pin, &exe) == -ENOENT)
		text_puts(text, "missing: exe: there is none, or it could not be opened\n");
	return 0;
}

static int render_info(const struct pins_view *view, const struct place *place, struct text *text)
{
	_cleanup_usdt_scan_ struct usdt_scan *objects = NULL;
	struct scan_arg arg = {view, place};
	struct pin_exit exit;

	pin_look(place->pin, PIN_LOOK_MAPS | PIN_LOOK_ROOT | PIN_LOOK_EXE);
	pin_exit(place->pin, &exit);
	put_exit(text, &exit);
	text_printf(text, "pid: %d\nstart_ticks: %" PRIu64 "\n", pin_pid(place->pin),
		    pin_start_ticks(place->pin));
	text_puts(text, "started_at: ");
	text_seconds(text, pin_started_unix(place->pin));
	text_puts(text, "\npinned_at: ");
	text_seconds(text, pin_pinned_unix(place->pin));
	text_putc(text, '\n');
	int r = put_root(place, text);

	if (r == 0)
		r = put_files(place, text);
	if (r < 0)
		return r;
	/* What cannot be read, or hangs, has none. */
	if (scan(&arg, &objects) == 0)
		usdt_scan_build_ids(objects, text);
	return 0;
}

static int render(void *data, const struct view_path *path, const struct view_caller *caller,
		  struct snapshot **ret)
{
	const struct pins_view *view = data;
	_cleanup_place_ struct place place;
	_cleanup_text_ struct text text = {};
	int r = find_place(view, path, &place);

	if (r < 0)
		return r;
	struct scan_arg arg = {view, &place};
	const struct usdt_files_owner owner = {scan, &arg};

	switch (place.kind) {
	case PLACE_TEXT:
		return pin_text(place.pin, place.text, ret);
	case PLACE_USDT:
		return usdt_files_render(&owner, place.rest, place.rest_count, ret);
	case PLACE_INFO:
		r = render_info(view, &place, &text);
		return r < 0 ? r : text_take_snapshot(&text, ret);
	default:
		return -EISDIR;
	}
}

static int read_link(void *data, const struct view_path *path, const struct view_caller *caller,
		     char **ret)
{
	_cleanup_place_ struct place place;
	int r = find_place(data, path, &place);

	if (r < 0)
		return r;
	if (place.kind == PLACE_ROOT)
		r = asprintf(ret, "../../" PINROOT_NAME "/%s", place.key);
	else if (place.kind == PLACE_MAP_FILE)
		r = asprintf(ret, "../../../" PINROOT_NAME "/%s.files/%s", place.key,
			     place.rest[0]);
	else
		return -EINVAL;
	return r < 0 ? -ENOMEM : 0;
}

static int make(void *data, const struct view_path *path, const struct view_caller *caller)
{
	const struct pins_view *view = data;

	return path->count == 1 ? pinset_add(view->set, path->name[0]) : -EROFS;
}

static int remove_pin(void *data, const struct view_path *path, const struct view_caller *caller)
{
	const struct pins_view *view = data;

	return path->count == 1 ? pinset_remove(view->set, path->name[0]) : -EROFS;
}

static void changed(void *arg, struct pin *pin, bool added)
{
	const struct pins_view *view = arg;

	if (!added)
		pinroot_drop(view->roots, pin);
	tracker_events_add(view->tracker, "%s pid=%d", added ? "pin-add" : "pin-del", pin_pid(pin));
}

static void lost(void *arg, pid_t pid)
{
	const struct pins_view *view = arg;

	tracker_events_add(view->tracker, "pin-del pid=%d", pid);
}

static void status(void *data, struct text *text)
{
	const struct pins_view *view = data;
	struct pinset_stats stats;

	pinset_stats(view->set, &stats);
	text_printf(text, "pins: alive=%u exited=%u max=%u\n", stats.alive, stats.exited,
		    view->options->pin_max);
	if (stats.resumed || stats.resume_lost)
		text_printf(text, "handover_pins: carried over=%" PRIu64 " lost=%" PRIu64 "\n",
			    stats.resumed, stats.resume_lost);
	text_printf(text, "pin_rules: %zu\n", view->options->pin_count);
	if (stats.ring_error)
		text_printf(text, "pin_records: missing: %s\n", strerror(-stats.ring_error));
	else
		text_printf(text, "pin_records: %s\n",
			    !stats.rings_open ? "off"
			    : stats.realtime  ? "perf rings, real-time"
					      : "perf rings");
	text_printf(text, "pin_files_held: %u\n", stats.files);
	text_printf(text,
		    "pins_made: %" PRIu64 "\npins_matched: %" PRIu64 "\npins_missed: %" PRIu64
		    "\npins_refused: %" PRIu64 "\npins_evicted: %" PRIu64
		    "\npin_records_lost: %" PRIu64 "\n",
		    stats.added, stats.matched, stats.missed, stats.refused, stats.evicted,
		    stats.records_lost);
	pinroot_status(view->roots, text);
}

static void metrics(void *data, struct text *text)
{
	const struct pins_view *view = data;
	struct pinset_stats stats;

	pinset_stats(view->set, &stats);
	metric_begin(text, "pins", "Pins, by whether the process is alive.");
	text_printf(text, "ksymfs_pins{state=\"alive\"} %u\nksymfs_pins{state=\"exited\"} %u\n",
		    stats.alive, stats.exited);
	metric_write(text, "pins_max", "How many pins there may be.", view->options->pin_max);
	metric_write(text, "pin_files_held", "Mapped files that pins hold open.", stats.files);
	metric_write(text, "pins_made_total", "Pins made.", stats.added);
	metric_write(text, "pins_matched_total", "Pins made for a process that --pin matched.",
		     stats.matched);
	metric_write(text, "pins_missed_total", "Processes that --pin matched too late.",
		     stats.missed);
	metric_write(text, "pins_refused_total", "Pins for which there was no room.",
		     stats.refused);
	metric_write(text, "pins_evicted_total", "Pins let go of to make room.", stats.evicted);
	metric_write(text, "pin_records_lost_total", "Records about processes that were lost.",
		     stats.records_lost);
	pinroot_metrics(view->roots, text);
}

static void destroy(void *data)
{
	struct pins_view *view = data;

	pinset_destroy(view->set);
	pinroot_destroy(view->roots);
	usdt_destroy(view->usdt);
	free(view);
}
DEFINE_CLEANUP(pins_view, struct pins_view *, destroy)

int view_pins_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "pins",
		.access = ACCESS_ROOT,
		.secret_names = true,
		.may_block = true,
		.lookup = lookup,
		.list = list,
		.render = render,
		.readlink = read_link,
		.mkdir = make,
		.rmdir = remove_pin,
		.status = status,
		.metrics = metrics,
		.destroy = destroy,
	};
	const struct options *options = context->options;
	CLEANUP(pins_view_cleanup) struct pins_view *view = calloc(1, sizeof(*view));

	if (!view)
		return -ENOMEM;
	view->options = options;
	view->tracker = context->tracker;
	view->pidns = context->pidns;
	view->own_dev = context->own_dev;
	view->policy = (struct root_policy){options->pin_cross, options->pin_cross_count};
	int r = usdt_create(&view->usdt);

	if (r == 0)
		r = pinroot_create(context->session, &view->roots);
	if (r < 0)
		return r;
	const struct pinset_options set_options = {
		.ns = context->pidns,
		.rules = options->pins,
		.rule_count = options->pin_count,
		.max = options->pin_max,
		.keep_ns = options->pin_ns,
		.policy = &view->policy,
		.own_dev = context->own_dev,
		.keeper = context->keeper,
		.changed = changed,
		.arg = view,
	};

	r = pinset_create(&set_options, &view->set);
	if (r < 0)
		return r;
	pinset_resume(view->set, lost, view);
	pinroot_set_pins(view->roots, view->set);
	session_set_foreign(context->session, &pinroot_ops, view->roots);
	*ret = (struct view){&ops, take_ptr(view)};
	return 0;
}
