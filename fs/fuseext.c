/* SPDX-License-Identifier: GPL-2.0-or-later */
/* INIT flags and passthrough ioctls that libfuse 3.14 does not have: see fuseext.h. */
#include "fs/fuseext.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of include/uapi/linux/fuse.h, which Debian 12's headers have without the newest parts. */
#define FUSE_OP_INIT		   26
#define FUSE_OP_FORGET		   2
#define FUSE_OP_INTERRUPT	   36
#define FUSE_OP_BATCH_FORGET	   42
#define FUSE_FLAG_HAS_RESEND	   (UINT64_C(1) << 39)
#define FUSE_OP_POLL		   40
#define FUSE_UNIQUE_RESEND	   (UINT64_C(1) << 63)
#define FUSE_NOTIFY_CODE_POLL	   1
#define FUSE_NOTIFY_CODE_RESEND	   7
#define FUSE_FLAG_INIT_EXT	   (UINT64_C(1) << 30)
#define FUSE_FLAG_DIRECT_IO_MMAP   (UINT64_C(1) << 36)
#define FUSE_FLAG_PASSTHROUGH	   (UINT64_C(1) << 37)
#define FUSE_FLAG_ALLOW_IDMAP	   (UINT64_C(1) << 40)
#define FUSE_OPEN_FLAG_NOFLUSH	   (1u << 5)
#define FUSE_OPEN_FLAG_PASSTHROUGH (1u << 7)

struct in_header {
	uint32_t len;
	uint32_t opcode;
	uint64_t unique;
	uint64_t nodeid;
	uint32_t uid, gid, pid;
	uint32_t padding;
};

struct out_header {
	uint32_t len;
	int32_t error;
	uint64_t unique;
};

struct init_in {
	uint32_t major, minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint32_t flags2;
};

struct init_out {
	uint32_t major, minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write;
	uint32_t time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2;
	uint32_t max_stack_depth;
};

struct poll_in {
	uint64_t fh;
	uint64_t poll_handle;
};

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

#define FUSE_DEV_BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define FUSE_DEV_BACKING_CLOSE _IOW(229, 2, uint32_t)

/* libfuse hands a request on by the thread that received it, and keeps these to itself. */
static _Thread_local uint64_t last_unique, last_poll_handle;

uint64_t fuseext_unique(bool *ret_resent)
{
	*ret_resent = last_unique & FUSE_UNIQUE_RESEND;
	return last_unique & ~FUSE_UNIQUE_RESEND;
}

uint64_t fuseext_poll_handle(void)
{
	return last_poll_handle;
}

bool fuseext_is_init(const void *request, size_t len)
{
	struct in_header header;

	if (len < sizeof(header))
		return false;
	memcpy(&header, request, sizeof(header));
	return header.opcode == FUSE_OP_INIT;
}

int fuseext_resend(int dev_fd)
{
	const struct out_header header = {
		.len = sizeof(header),
		.error = FUSE_NOTIFY_CODE_RESEND,
	};

	return write(dev_fd, &header, sizeof(header)) < 0 ? -errno : 0;
}

int fuseext_reply_error(int dev_fd, uint64_t unique, int error)
{
	const struct out_header header = {
		.len = sizeof(header),
		.error = -error,
		.unique = unique,
	};

	return write(dev_fd, &header, sizeof(header)) < 0 ? -errno : 0;
}

uint32_t fuseext_opcode(const void *request, size_t len, bool *ret_waits)
{
	struct in_header header = {};

	if (len >= sizeof(header))
		memcpy(&header, request, sizeof(header));
	*ret_waits = header.opcode && header.opcode != FUSE_OP_FORGET &&
		     header.opcode != FUSE_OP_BATCH_FORGET && header.opcode != FUSE_OP_INTERRUPT;
	return header.opcode;
}

uint64_t fuseext_unique_of(const void *request, size_t len)
{
	struct in_header header = {};

	if (len >= sizeof(header))
		memcpy(&header, request, sizeof(header));
	return header.unique;
}

pid_t fuseext_caller(const void *request, size_t len)
{
	struct in_header header = {};

	if (len >= sizeof(header))
		memcpy(&header, request, sizeof(header));
	return header.pid;
}

uint64_t fuseext_answered(const struct iovec *iov, int count)
{
	struct out_header header = {};

	if (count && iov[0].iov_len >= sizeof(header))
		memcpy(&header, iov[0].iov_base, sizeof(header));
	return header.unique;
}

void fuseext_notify_poll(int dev_fd, uint64_t poll_handle)
{
	struct {
		struct out_header header;
		uint64_t poll_handle;
	} notice = {
		.header = {.len = sizeof(notice), .error = FUSE_NOTIFY_CODE_POLL},
		.poll_handle = poll_handle,
	};

	/* Nobody polls any more: nobody is to be woken. */
	if (write(dev_fd, &notice, sizeof(notice)) < 0)
		return;
}

void fuseext_saw_request(struct fuseext *ext, const void *request, size_t len)
{
	struct in_header header;
	struct init_in init;
	struct poll_in poll;

	if (len < sizeof(header))
		return;
	memcpy(&header, request, sizeof(header));
	last_unique = header.unique;
	if (header.opcode == FUSE_OP_POLL && len >= sizeof(header) + sizeof(poll)) {
		memcpy(&poll, (const char *)request + sizeof(header), sizeof(poll));
		last_poll_handle = poll.poll_handle;
	}
	if (header.opcode != FUSE_OP_INIT)
		return;
	ext->init_unique = header.unique;
	ext->offered = 0;
	ext->can_resend = false;
	/* An INIT that ends before flags2 is of a kernel that has nothing to offer here. */
	if (len < sizeof(header) + sizeof(init))
		return;
	memcpy(&init, (const char *)request + sizeof(header), sizeof(init));
	if (init.flags & FUSE_FLAG_INIT_EXT)
		ext->offered = init.flags | (uint64_t)init.flags2 << 32;
	ext->can_resend = ext->offered & FUSE_FLAG_HAS_RESEND;
}

void fuseext_patch_reply(struct fuseext *ext, const struct iovec *iov, int count)
{
	struct out_header header;
	struct init_out init;

	if (count != 2 || iov[0].iov_len != sizeof(header) || iov[1].iov_len < sizeof(init))
		return;
	memcpy(&header, iov[0].iov_base, sizeof(header));
	if (!ext->init_unique || header.unique != ext->init_unique || header.error)
		return;
	ext->init_unique = 0;
	memcpy(&init, iov[1].iov_base, sizeof(init));

	uint64_t want = ext->offered &
			(FUSE_FLAG_DIRECT_IO_MMAP | FUSE_FLAG_PASSTHROUGH | FUSE_FLAG_ALLOW_IDMAP);

	if (!want)
		return;
	init.flags |= FUSE_FLAG_INIT_EXT;
	init.flags2 |= want >> 32;
	/*
	 * 2 is the most that the kernel takes, and what it takes to read from an overlayfs, which
	 * most containers' roots are.
	 */
	if (want & FUSE_FLAG_PASSTHROUGH)
		init.max_stack_depth = 2;
	memcpy(iov[1].iov_base, &init, sizeof(init));
	ext->passthrough = want & FUSE_FLAG_PASSTHROUGH;
	ext->mmap_direct_io = want & FUSE_FLAG_DIRECT_IO_MMAP;
}

struct fuseext_open_out fuseext_open_passthrough(uint64_t fh, int32_t backing)
{
	return (struct fuseext_open_out){
		.fh = fh,
		.open_flags = FUSE_OPEN_FLAG_PASSTHROUGH | FUSE_OPEN_FLAG_NOFLUSH,
		.backing_id = backing,
	};
}

int32_t fuseext_backing_open(int dev_fd, int fd)
{
	struct backing_map map = {.fd = fd};
	int id = ioctl(dev_fd, FUSE_DEV_BACKING_OPEN, &map);

	return id < 0 ? -errno : id;
}

void fuseext_backing_close(int dev_fd, int32_t backing)
{
	uint32_t id = backing;

	ioctl(dev_fd, FUSE_DEV_BACKING_CLOSE, &id);
}
