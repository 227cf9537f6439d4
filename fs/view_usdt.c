/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usdt/: the USDT probes of every process.
 *
 *	self		symlink to the caller's PID
 *	probes		the probes of all processes, each object once
 *	PID/...		usdt_files.h; nothing for what has no memory (a kernel thread, a zombie)
 *
 * Listing it is listing /proc: nothing is asked of a process, unless the caller is one who may not
 * look at all of them; what it maps is opened when somebody asks for it. All pids are those of one
 * /proc, that of the pid namespace that is shown, which is looked into by an fd. Whoever could not
 * look at a process there finds none here (core/creds.h): modes cannot say that, so nothing here
 * has a mode of its own.
 *
 * Directories have the number of their process (pidns_identify()) as their generation: one that was
 * left open shows nothing of whoever has the pid by now.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <string.h>

#include "core/creds.h"
#include "core/pidns.h"
#include "core/procfile.h"
#include "core/usdt.h"
#include "fs/usdt_files.h"
#include "fs/views.h"

struct usdt_view {
	struct usdt *usdt;
	const struct pidns *pidns; /* whose pids these are */
	int proc_fd;		   /* its /proc */
	int own_proc_fd;	   /* where callers are looked up */
	const dev_t *own_dev;
};

enum place_kind {
	PLACE_TOP,
	PLACE_SELF,
	PLACE_PROBES,
	PLACE_PROCESS, /* a process's directory, or something in it */
};

struct place {
	enum place_kind kind;
	pid_t pid;
};

/* A pid as it is listed: decimal, without leading zeros. */
static int parse_pid(const char *name, pid_t *ret)
{
	pid_t pid = 0;

	if (*name == '0')
		return -EINVAL;
	for (const char *s = name; *s; s++)
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(pid, 10, &pid) ||
		    __builtin_add_overflow(pid, *s - '0', &pid))
			return -EINVAL;
	*ret = pid;
	return pid ? 0 : -EINVAL;
}

static int find_place(const struct view_path *path, struct place *ret)
{
	*ret = (struct place){};
	if (path->count == 0)
		return 0;
	if (parse_pid(path->name[0], &ret->pid) == 0)
		ret->kind = PLACE_PROCESS;
	else if (path->count == 1 && strcmp(path->name[0], "self") == 0)
		ret->kind = PLACE_SELF;
	else if (path->count == 1 && strcmp(path->name[0], "probes") == 0)
		ret->kind = PLACE_PROBES;
	else
		return -ENOENT;
	return 0;
}

/* The process that asks, by the number that it has here. -ENOENT: it has none. */
static int find_caller(const struct usdt_view *view, const struct view_caller *caller, pid_t *ret)
{
	pid_t own_pid;

	if (!caller->pid)
		return -ENOENT;
	int r = task_process(view->own_proc_fd, caller->pid, &own_pid);

	if (r == 0)
		r = pidns_number(view->pidns, own_pid, ret);

	return r == -ESRCH ? -ENOENT : r;
}

/* Who asks, as far as it matters to what he may see. */
struct asker {
	const struct usdt_view *view;
	bool may_all;
	pid_t self; /* 0: not here */
	bool is_known;
	struct creds creds;
};

static void asker_init(struct asker *asker, const struct usdt_view *view,
		       const struct view_caller *caller)
{
	*asker = (struct asker){.view = view};
	if (!caller->pid)
		return;
	asker->may_all = task_has_capability(view->own_proc_fd, caller->pid, CAP_SYS_PTRACE);
	if (asker->may_all)
		return;
	asker->is_known = creds_read(view->own_proc_fd, caller->pid, &asker->creds) == 0;
	if (find_caller(view, caller, &asker->self) < 0)
		asker->self = 0;
}

static void asker_deinit(struct asker *asker)
{
	creds_deinit(&asker->creds);
}
#define _cleanup_asker_ CLEANUP(asker_deinit)

/* May the caller look at a process as /proc would let him? */
static bool may_look(const struct asker *asker, pid_t pid)
{
	if (asker->may_all || pid == asker->self)
		return true;
	return asker->is_known && creds_may_look(&asker->creds, asker->view->proc_fd, pid);
}

/* What usdt_files.h needs to know about usdt/PID. */
struct process_owner {
	const struct asker *asker;
	pid_t pid;
};

static int scan_process(void *arg, struct usdt_scan **ret)
{
	const struct process_owner *owner = arg;
	const struct usdt_view *view = owner->asker->view;
	_cleanup_usdt_scan_ struct usdt_scan *scan = NULL;
	struct usdt_source source;
	int r = usdt_process_source(view->proc_fd, owner->pid, true, &source);

	if (r == 0)
		r = usdt_scan_create(view->usdt, *view->own_dev, &source, 1, &scan);
	if (r < 0)
		return r;
	/* It may have exec'd a setuid program since its name was looked up. */
	if (!may_look(owner->asker, owner->pid))
		return -ENOENT;
	*ret = take_ptr(scan);
	return 0;
}

static int lookup_process(const struct asker *asker, const struct view_path *path, pid_t pid,
			  struct view_attr *ret)
{
	struct process_owner process = {asker, pid};
	const struct usdt_files_owner owner = {scan_process, &process};
	uint64_t identity;
	pid_t tid;
	int r = pidns_identify(asker->view->pidns, pid, &identity);

	if (r == 0 && !may_look(asker, pid))
		r = -ENOENT;
	if (r == 0 && path->count > 1)
		r = process_find(asker->view->proc_fd, pid, &tid);
	if (r < 0)
		return r == -ESRCH ? -ENOENT : r;
	r = usdt_files_lookup(&owner, path->name + 1, path->count - 1, ret);
	if (r == 0 && ret->kind == VIEW_DIR) {
		ret->generation = identity;
		ret->quick = true;
	}
	return r;
}

/* Has it something to show? What the kernel would not let us see is not there either. */
static bool has_files(const struct usdt_view *view, pid_t pid)
{
	pid_t tid;

	return process_find(view->proc_fd, pid, &tid) == 0;
}

/* Below providers/ it takes a scan; before, a look at /proc. */
static bool prompt(const struct view_path *path)
{
	return path->count <= 2;
}

static int lookup(void *data, const struct view_path *path, const struct view_caller *caller,
		  struct view_attr *ret)
{
	const struct usdt_view *view = data;
	_cleanup_asker_ struct asker asker = {};
	struct place place;
	pid_t self;
	int r = find_place(path, &place);

	if (r < 0)
		return r;
	switch (place.kind) {
	case PLACE_TOP:
		*ret = (struct view_attr){.kind = VIEW_DIR, .fixed = true};
		return 0;
	case PLACE_SELF:
		*ret = (struct view_attr){.kind = VIEW_LINK};
		return find_caller(view, caller, &self);
	case PLACE_PROBES:
		*ret = (struct view_attr){.kind = VIEW_FILE, .generation = VIEW_VOLATILE};
		return 0;
	default:
		asker_init(&asker, view, caller);
		return lookup_process(&asker, path, place.pid, ret);
	}
}

/* Calls take for each process, in the order of /proc, until it is not 0. */
static int each_process(const struct usdt_view *view, int (*take)(void *arg, pid_t pid), void *arg)
{
	_cleanup_fd_ int fd = openat(view->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	_cleanup_dir_ DIR *dir = fdopendir(fd);

	if (!dir)
		return -errno;
	take_fd(&fd);
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t pid;

		if (parse_pid(entry->d_name, &pid) < 0)
			continue;
		int r = take(arg, pid);

		if (r != 0)
			return r;
	}
	return 0;
}

struct pid_lister {
	const struct asker *asker;
	struct view_list *list;
};

static int list_pid(void *arg, pid_t pid)
{
	static const struct view_attr attr = {.kind = VIEW_DIR};
	struct pid_lister *lister = arg;
	char name[16];

	if (!may_look(lister->asker, pid))
		return 0;
	snprintf(name, sizeof(name), "%d", pid);
	return view_list_add(lister->list, name, VIEW_DIR, &attr);
}

static int list_top(const struct usdt_view *view, const struct view_caller *caller,
		    struct view_list *list)
{
	static const struct view_attr file = {.kind = VIEW_FILE, .generation = VIEW_VOLATILE};
	static const struct view_attr link = {.kind = VIEW_LINK};
	_cleanup_asker_ struct asker asker = {};
	struct pid_lister lister = {&asker, list};
	pid_t self;
	int r = view_list_add(list, "probes", VIEW_FILE, &file);

	if (r == 0 && find_caller(view, caller, &self) == 0)
		r = view_list_add(list, "self", VIEW_LINK, &link);
	if (r < 0)
		return r;
	asker_init(&asker, view, caller);
	return each_process(view, list_pid, &lister);
}

static int list(void *data, const struct view_path *path, const struct view_caller *caller,
		struct view_list *list)
{
	const struct usdt_view *view = data;
	struct place place;
	int r = find_place(path, &place);

	if (r < 0)
		return r;
	if (place.kind == PLACE_TOP)
		return list_top(view, caller, list);
	if (place.kind != PLACE_PROCESS)
		return -ENOTDIR;
	if (path->count == 1 && !has_files(view, place.pid))
		return 0;
	_cleanup_asker_ struct asker asker = {};
	struct process_owner process = {&asker, place.pid};
	const struct usdt_files_owner owner = {scan_process, &process};

	asker_init(&asker, view, caller);
	return usdt_files_list(&owner, path->name + 1, path->count - 1, list);
}

struct sources {
	const struct asker *asker;
	struct usdt_source *sources;
	size_t count, size;
};

static int add_source(void *arg, pid_t pid)
{
	struct sources *sources = arg;

	if (sources->count == sources->size) {
		size_t size = sources->size ? sources->size * 2 : 256;
		void *more = reallocarray(sources->sources, size, sizeof(*sources->sources));

		if (!more)
			return -ENOMEM;
		sources->sources = more;
		sources->size = size;
	}
	if (!may_look(sources->asker, pid))
		return 0;
	int r = usdt_process_source(sources->asker->view->proc_fd, pid, false,
				    &sources->sources[sources->count]);

	if (r == 0)
		sources->count++;
	/* One without memory, or gone by now, is none of the others' business. */
	return r == -ENOMEM ? r : 0;
}

/* The probes of all processes. */
static int render_probes(const struct usdt_view *view, const struct view_caller *caller,
			 struct snapshot **ret)
{
	_cleanup_usdt_scan_ struct usdt_scan *scan = NULL;
	_cleanup_text_ struct text text = {};
	_cleanup_asker_ struct asker asker = {};
	struct sources sources = {&asker};

	asker_init(&asker, view, caller);
	int r = each_process(view, add_source, &sources);

	if (r < 0)
		for (size_t i = 0; i < sources.count; i++)
			sources.sources[i].ops->release(sources.sources[i].data);
	else
		r = usdt_scan_create(view->usdt, *view->own_dev, sources.sources, sources.count,
				     &scan);
	free(sources.sources);
	if (r == 0)
		r = usdt_scan_probes(scan, &text);
	return r < 0 ? r : text_take_snapshot(&text, ret);
}

static int render(void *data, const struct view_path *path, const struct view_caller *caller,
		  struct snapshot **ret)
{
	const struct usdt_view *view = data;
	struct place place;
	int r = find_place(path, &place);

	if (r < 0)
		return r;
	if (place.kind == PLACE_PROBES)
		return render_probes(view, caller, ret);
	if (place.kind != PLACE_PROCESS)
		return -EISDIR;
	_cleanup_asker_ struct asker asker = {};
	struct process_owner process = {&asker, place.pid};
	const struct usdt_files_owner owner = {scan_process, &process};

	asker_init(&asker, view, caller);
	return usdt_files_render(&owner, path->name + 1, path->count - 1, ret);
}

static int read_link(void *data, const struct view_path *path, const struct view_caller *caller,
		     char **ret)
{
	struct place place;
	pid_t self;
	int r = find_place(path, &place);

	if (r == 0 && place.kind != PLACE_SELF)
		r = -EINVAL;
	if (r == 0)
		r = find_caller(data, caller, &self);
	if (r < 0)
		return r;
	return asprintf(ret, "%d", self) < 0 ? -ENOMEM : 0;
}

static void status(void *data, struct text *text)
{
	const struct usdt_view *view = data;

	usdt_status(view->usdt, text);
}

static void metrics(void *data, struct text *text)
{
	const struct usdt_view *view = data;

	usdt_metrics(view->usdt, text);
}

static void destroy(void *data)
{
	struct usdt_view *view = data;

	usdt_destroy(view->usdt);
	free(view);
}

int view_usdt_create(const struct view_context *context, struct view *ret)
{
	static const struct view_ops ops = {
		.name = "usdt",
		.may_block = true,
		.prompt = prompt,
		.lookup = lookup,
		.list = list,
		.render = render,
		.readlink = read_link,
		.status = status,
		.metrics = metrics,
		.destroy = destroy,
	};
	_cleanup_free_ struct usdt_view *view = malloc(sizeof(*view));

	if (!view)
		return -ENOMEM;
	*view = (struct usdt_view){
		.pidns = context->pidns,
		.proc_fd = pidns_proc_fd(context->pidns),
		.own_proc_fd = pidns_own_proc_fd(context->pidns),
		.own_dev = context->own_dev,
	};
	int r = usdt_create(&view->usdt);

	if (r < 0)
		return r;
	*ret = (struct view){&ops, take_ptr(view)};
	return 0;
}
