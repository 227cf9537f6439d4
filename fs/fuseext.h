/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The little of the FUSE protocol that libfuse 3.14 does not know and the kernel does: passthrough
 * reads (6.9), shared mappings of files that are opened with direct I/O (6.6), and id-mapped copies
 * of the mount (6.12), with which requests no longer say whose they are.
 *
 * And what a process needs that takes over from one that died: which request is which.
 *
 * All are agreed to in INIT. Whoever carries libfuse's bytes (fuse_session_custom_io()) shows
 * every request and every reply to this; it looks at INIT and changes nothing else. Capability bits
 * decide, never versions; with a libfuse that knows them the bits are there already. Source:
 * include/uapi/linux/fuse.h, fs/fuse/inode.c process_init_reply(), fs/fuse/backing.c.
 */
#ifndef FS_FUSEEXT_H
#define FS_FUSEEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fuseext {
	uint64_t init_unique; /* of the INIT request seen, 0 before */
	uint64_t offered;     /* its flags */
	/* What the reply agreed to. Set before the first request of a file comes. */
	atomic_bool passthrough;
	atomic_bool mmap_direct_io;
	atomic_bool can_resend; /* the kernel sends again what was not answered */
};

/* Takes note of an INIT request; anything else is left alone. */
void fuseext_saw_request(struct fuseext *ext, const void *request, size_t len);
/*
 * Of the request that this thread has received last: its number, which is never given twice, and
 * whether it is sent again, because a process that is gone had it and did not answer.
 */
uint64_t fuseext_unique(bool *ret_resent);
/* Of a POLL: what to wake its callers by. */
uint64_t fuseext_poll_handle(void);
/* Is this request INIT? */
bool fuseext_is_init(const void *request, size_t len);
/* Has every request that was not answered sent again (6.9). -EINVAL where the kernel cannot. */
int fuseext_resend(int dev_fd);
/* Answers a request, whoever received it. -ENOENT: it was answered. */
int fuseext_reply_error(int dev_fd, uint64_t unique, int error);
/* What a request asks for, and whether it waits for an answer; the number that an answer is to. */
uint32_t fuseext_opcode(const void *request, size_t len, bool *ret_waits);
/* Whose request it is: a thread as our /proc has it, 0 for the kernel's own. */
pid_t fuseext_caller(const void *request, size_t len);
uint64_t fuseext_unique_of(const void *request, size_t len);
uint64_t fuseext_answered(const struct iovec *iov, int count);
/* Wakes who polls, also what another process was asked for. */
void fuseext_notify_poll(int dev_fd, uint64_t poll_handle);

/* Adds to libfuse's reply to that INIT; any other reply is left alone. The buffers are changed. */
void fuseext_patch_reply(struct fuseext *ext, const struct iovec *iov, int count);

/* The payload of a reply to OPEN with a backing file, for fuse_reply_buf(). */
struct fuseext_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};
struct fuseext_open_out fuseext_open_passthrough(uint64_t fh, int32_t backing);

/* Registers an open file with the connection of dev_fd: an id above 0, or -errno. */
int32_t fuseext_backing_open(int dev_fd, int fd);
void fuseext_backing_close(int dev_fd, int32_t backing);

#endif
