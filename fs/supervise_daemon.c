/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a daemon is given by its supervisor, and says to it: see supervise.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "core/carry.h"
#include "core/clock.h"
#include "core/oomkills.h"
#include "fs/inflight.h"
#include "fs/notify.h"
#include "fs/supervise_internal.h"

/* What a daemon has to take what it is handed. */
#define HELLO_SECONDS 5

/* ---- the daemon's fds ---- */

/* Most numbers come in the order in which they were given: at the end. */
static void keep(struct supervisor *supervisor, uint64_t key, int fd)
{
	size_t count = supervisor->kept_count, i = kept_fds_find(supervisor->kept, count, key);
	struct kept_fd *kept = supervisor->kept;

	if (i < count && kept[i].key == key) {
		close(kept[i].fd);
		kept[i].fd = fd;
		return;
	}
	kept = reallocarray(kept, count + 1, sizeof(*kept));
	if (!kept) {
		close(fd);
		return;
	}
	memmove(&kept[i + 1], &kept[i], (count - i) * sizeof(*kept));
	kept[i] = (struct kept_fd){key, fd};
	supervisor->kept = kept;
	supervisor->kept_count++;
}

static void drop(struct supervisor *supervisor, uint64_t key)
{
	size_t count = supervisor->kept_count, i = kept_fds_find(supervisor->kept, count, key);
	struct kept_fd *kept = supervisor->kept;

	if (i == count || kept[i].key != key)
		return;
	close(kept[i].fd);
	memmove(&kept[i], &kept[i + 1], (count - i - 1) * sizeof(*kept));
	supervisor->kept_count--;
}

void supervisor_drop_all(struct supervisor *supervisor)
{
	while (supervisor->kept_count)
		close(supervisor->kept[--supervisor->kept_count].fd);
}

/* ---- a daemon's start ---- */

static void forget_request(void *arg, uint64_t unique)
{
}

/*
 * Answers what the last daemon has not, where the kernel does not send it again: no other one will
 * see the region that knows of it. What is in there may be what killed them, so this is a child's.
 */
static void answer_the_unanswered(const struct supervisor *supervisor, pid_t parent)
{
	struct inflight *list;

	alarm(HELLO_SECONDS);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    carry_open(supervisor->region, 0) == 0 && inflight_create(&list) == 0)
		inflight_answer(list, supervisor->mount.fd, forget_request, NULL);
	_exit(EXIT_SUCCESS);
}

int supervisor_make_region(struct supervisor *supervisor)
{
	int region = memfd_create("ksymfs", MFD_CLOEXEC);
	pid_t parent = getpid();

	if (region < 0)
		return -errno;
	if (supervisor->region >= 0 && fork() == 0)
		answer_the_unanswered(supervisor, parent);
	fd_cleanup(&supervisor->region);
	supervisor->region = region;
	supervisor_drop_all(supervisor);
	return 0;
}

static void exec_daemon(const struct supervisor *supervisor, int socket, pid_t parent)
{
	int program =
		supervisor->next_program >= 0 ? supervisor->next_program : supervisor->program;
	int inherited = fcntl(socket, F_DUPFD, 3);
	char serve[32];

	/* Whatever happens to us, no daemon is left that nobody supervises. */
	if (inherited < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	snprintf(serve, sizeof(serve), "--serve=%d", inherited);
	supervisor->argv[1] = serve;
	sigprocmask(SIG_SETMASK, &supervisor->old_mask, NULL);
	execveat(program, "", supervisor->argv, environ, AT_EMPTY_PATH);
	fprintf(stderr, "ksymfs: cannot execute %s: %s\n", supervisor->program_path,
		strerror(errno));
	_exit(EXIT_FAILURE);
}

/* If that fails, it ends, and so we hear of it. */
static void greet(struct supervisor *supervisor)
{
	const int fds[] = {supervisor->mount.fd, supervisor->region};
	struct handover_message message = {
		.op = HANDOVER_HELLO,
		.len = sizeof(message.hello),
		.hello = supervisor->hello,
	};
	int r = handover_send(supervisor->socket, &message, fds, ARRAY_SIZE(fds));

	for (size_t i = 0; r == 0 && i < supervisor->kept_count; i++) {
		message = (struct handover_message){.op = HANDOVER_FD,
						    .key = supervisor->kept[i].key};
		r = handover_send(supervisor->socket, &message, &supervisor->kept[i].fd, 1);
	}
	message = (struct handover_message){.op = HANDOVER_GO};
	if (r == 0)
		handover_send(supervisor->socket, &message, NULL, 0);
}

int supervisor_start_daemon(struct supervisor *supervisor)
{
	const struct timeval patience = {.tv_sec = HELLO_SECONDS};
	pid_t parent = getpid();
	int pair[2];

	supervisor->restart_at = 0;
	supervisor->knows_oom_kills = oom_kills_count(&supervisor->oom_kills);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	fflush(NULL);
	supervisor->daemon = fork();
	if (supervisor->daemon == 0)
		exec_daemon(supervisor, pair[1], parent);
	close(pair[1]);
	if (supervisor->daemon < 0) {
		int r = -errno;

		supervisor->daemon = 0;
		close(pair[0]);
		return r;
	}
	supervisor->socket = pair[0];
	supervisor->is_ready = false;
	greet(supervisor);
	return 0;
}

/* ---- what it says ---- */

/* Lets go of the terminal and of the one who waits there. */
static void tell_ready(struct supervisor *supervisor)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char byte = 0;

	if (supervisor->told < 0)
		return;
	/* He may have been killed meanwhile, and need not know. */
	if (chdir("/") < 0 || write(supervisor->told, &byte, 1) < 0)
		byte = 1;
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	close(take_fd(&supervisor->told));
}

static void became_ready(struct supervisor *supervisor)
{
	supervisor->is_ready = true;
	supervisor->ready_at = monotonic_ns();
	supervisor->reloading = false;
	if (supervisor->next_program >= 0) {
		fd_cleanup(&supervisor->program);
		supervisor->program = take_fd(&supervisor->next_program);
	}
	if (!supervisor->was_ready) {
		mount_set_readahead(&supervisor->mount);
		tell_ready(supervisor);
	}
	supervisor->was_ready = true;
	if (supervisor->reload_due)
		supervisor_reload(supervisor);
	else
		notify_manager("READY=1");
}

/* All that it was told before is done. */
static void answer(struct supervisor *supervisor, uint64_t key)
{
	const struct handover_message message = {.op = HANDOVER_SYNC, .key = key};

	handover_send(supervisor->socket, &message, NULL, 0);
}

static void handle_message(struct supervisor *supervisor, const struct handover_message *message,
			   int fd)
{
	switch (message->op) {
	case HANDOVER_INIT:
		if (message->len <= sizeof(supervisor->hello.init)) {
			memcpy(supervisor->hello.init, message->data, message->len);
			supervisor->hello.init_len = message->len;
		}
		break;
	case HANDOVER_READY:
		became_ready(supervisor);
		break;
	case HANDOVER_KEEP:
		if (fd >= 0)
			keep(supervisor, message->key, fd);
		return;
	case HANDOVER_DROP:
		drop(supervisor, message->key);
		break;
	case HANDOVER_SYNC:
		answer(supervisor, message->key);
		break;
	default:
		break;
	}
	fd_cleanup(&fd);
}

void supervisor_read_messages(struct supervisor *supervisor)
{
	struct handover_message message;
	int fds[HANDOVER_FDS], r;

	while ((r = handover_receive(supervisor->socket, MSG_DONTWAIT, &message, fds)) > 0) {
		handle_message(supervisor, &message, fds[0]);
		fd_cleanup(&fds[1]);
	}
	/* Its end is closed: it is about to be reaped. */
	if (r != -EAGAIN)
		close(take_fd(&supervisor->socket));
}
