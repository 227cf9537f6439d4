/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/live/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

struct command {
	child_fn fn;
	char arg[PATH_MAX];
};

static void serve(int socket)
{
	static struct command command;

	while (read(socket, &command, sizeof(command)) == sizeof(command)) {
		long answer = command.fn(command.arg);

		if (write(socket, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

struct child *child_start(void)
{
	struct child *child = calloc(1, sizeof(*child));
	int ends[2];

	assert_non_null(child);
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), errno);
	fflush(NULL);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		serve(ends[1]);
	}
	close(ends[1]);
	child->socket = ends[0];
	return child;
}

long child_call(struct child *child, child_fn fn, const char *arg)
{
	struct command command = {.fn = fn};
	long answer;

	assert_true(strlen(arg) < sizeof(command.arg));
	strcpy(command.arg, arg);
	assert_int_equal(write(child->socket, &command, sizeof(command)), sizeof(command));
	if (read(child->socket, &answer, sizeof(answer)) != sizeof(answer))
		fail_msg("the child died");
	return answer;
}

void child_stop(struct child *child)
{
	if (!child)
		return;
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->socket);
	free(child);
}

static void *handle;

long child_dlopen(const char *path)
{
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return handle ? 0 : -1;
}

long child_dlclose(const char *unused)
{
	return dlclose(handle);
}

long child_fire(const char *number)
{
	long (*fire)(int) = (long (*)(int))(uintptr_t)dlsym(handle, "kstest_fire");

	if (!fire)
		return -1;
	fire(atoi(number));
	return 0;
}

long child_dlopen_memfd_kept(const char *path)
{
	int memfd = memfd_create("libstapsdt:kstest", MFD_CLOEXEC);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char name[64];
	struct stat st;

	if (memfd < 0 || fd < 0 || fstat(fd, &st) < 0 ||
	    sendfile(memfd, fd, NULL, st.st_size) != st.st_size)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", memfd);
	return child_dlopen(name) == 0 ? memfd : -1;
}

long child_dlopen_memfd(const char *path)
{
	long memfd = child_dlopen_memfd_kept(path);

	return memfd < 0 ? -1 : close(memfd);
}

long child_map(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	return mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}
