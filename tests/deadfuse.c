/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FUSE servers that do not answer, by the raw protocol: see deadfuse.h. */
#include "tests/deadfuse.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(bool ok)
{
	if (!ok)
		err(99, "a FUSE server for tests");
}

int mount_dead_fuse(const char *path, const char *subtype)
{
	char options[128], type[64];
	int fd = open("/dev/fuse", O_RDWR);

	must(fd >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	snprintf(type, sizeof(type), "fuse%s%s", *subtype ? "." : "", subtype);
	must(mount("dead", path, type, 0, options) == 0);
	return fd;
}

static void answer(int fd, const struct fuse_in_header *request, int error, const void *data,
		   size_t len)
{
	struct {
		struct fuse_out_header header;
		char data[256];
	} reply = {{sizeof(reply.header) + len, error, request->unique}, {0}};

	if (len)
		memcpy(reply.data, data, len);
	must(write(fd, &reply, reply.header.len) == (ssize_t)reply.header.len || errno == ENOENT);
}

static struct fuse_attr mute_attr(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == FUSE_ROOT_ID ? 0 : 4096,
		.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
	};
}

/* A name's node: the number that it is, and two more. */
static void serve_mute(int fd, const struct fuse_in_header *request)
{
	const char *payload = (const char *)(request + 1);
	uint64_t node = request->nodeid;
	struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
	struct fuse_entry_out entry = {.nodeid = strtoul(payload, NULL, 10) + 2, .generation = 1};
	struct fuse_attr_out attr = {.attr = mute_attr(node)};
	struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};

	switch (request->opcode) {
	case FUSE_INIT:
		answer(fd, request, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		entry.attr = mute_attr(entry.nodeid);
		answer(fd, request, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		answer(fd, request, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(fd, request, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(fd, request, -ENOSYS, NULL, 0);
	}
}

void mount_mute_fuse(const char *path)
{
	static char buf[1 << 17];
	int fd = mount_dead_fuse(path, "mute");
	pid_t parent = getpid();

	if (fork() == 0) {
		must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent);
		while (read(fd, buf, sizeof(buf)) > 0)
			serve_mute(fd, (const struct fuse_in_header *)buf);
		_exit(0);
	}
	close(fd);
}
