/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the supervisor and the daemon say to each other, over a socket of packets: see supervise.h.
 *
 * The supervisor begins: HELLO, an FD for each that it keeps, GO. From then on the daemon tells
 * what is to be kept for the one that may take its place. A message that was sent arrives, even if
 * its sender dies at once.
 */
#ifndef FS_HANDOVER_H
#define FS_HANDOVER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"
#include "core/keeper.h"

enum handover_op {
	/* to the daemon */
	HANDOVER_HELLO, /* with /dev/fuse and the carried region (core/carry.h); struct hello */
	HANDOVER_FD,	/* one that was kept, by its key */
	HANDOVER_GO,
	/* to the supervisor */
	HANDOVER_INIT,	/* the kernel's INIT request */
	HANDOVER_READY, /* the tree answers */
	HANDOVER_KEEP,	/* keep this fd, in place of one of the same key */
	HANDOVER_DROP,	/* close the fd of that key */
	HANDOVER_SYNC,	/* say the same, with the same key, once all before this is done */
};

/* Keys of fds that are kept. */
enum handover_key {
	HANDOVER_KEY_PIDNS = 1, /* what --pidns named, whoever has that pid by then */
	HANDOVER_KEY_PIDNS_PROC,
	HANDOVER_KEY_NUMBERS = 1 << 16, /* and above: those of core/keeper.h */
};

#define HANDOVER_CAUSE	  64
#define HANDOVER_INIT_MAX 256

/* Who the daemon is. */
struct hello {
	uint64_t dev; /* of the mount */
	int32_t supervisor;
	uint32_t number;	    /* how many daemons there were before */
	char cause[HANDOVER_CAUSE]; /* how the last of them ended */
	uint32_t init_len;	    /* 0: the kernel has not said INIT yet */
	uint8_t init[HANDOVER_INIT_MAX];
};

struct handover_message {
	uint32_t op;
	uint32_t len; /* of data */
	uint64_t key;
	union {
		struct hello hello;
		uint8_t data[HANDOVER_INIT_MAX];
	};
};

#define HANDOVER_FDS 2

/* Sends a message with its data and fds. -errno; -EPIPE: there is nobody any more. */
int handover_send(int socket, const struct handover_message *message, const int *fds, size_t count);
/*
 * Receives one; fds that did not come are -1, the others are the caller's. Returns 1; 0 when the
 * other side is gone; -EAGAIN with MSG_DONTWAIT in flags; -EBADMSG.
 */
int handover_receive(int socket, int flags, struct handover_message *ret,
		     int ret_fds[HANDOVER_FDS]);

struct kept_fd {
	uint64_t key;
	int fd;
};
/* Where the key is in a list sorted by keys, or would have to be. */
size_t kept_fds_find(const struct kept_fd *kept, size_t count, uint64_t key);

/* The daemon's side. */
struct handover {
	int socket;
	int device; /* /dev/fuse; -1: none has been received */
	int region; /* -1 */
	struct hello hello;
	struct kept_fd *kept; /* by key */
	size_t kept_count;
	pthread_mutex_t sync_lock; /* of who waits for an answer */
	uint64_t last_sync;
};

/* Takes what the supervisor hands over; the socket too, also on failure. -EPIPE, -EBADMSG, -ENOMEM.
 */
int handover_begin(int socket, struct handover *ret);
void handover_deinit(struct handover *handover);
#define _cleanup_handover_ CLEANUP(handover_deinit)

/* A kept fd, which is the caller's then; -1: there is none. */
int handover_take(struct handover *handover, uint64_t key);
/* Any thread. Without a supervisor they do nothing. */
void handover_init(const struct handover *handover, const void *init, size_t len);
void handover_ready(const struct handover *handover);
void handover_keep(const struct handover *handover, uint64_t key, int fd);
void handover_drop(const struct handover *handover, uint64_t key);

/* What the supervisor keeps, by number. */
void handover_keeper(struct handover *handover, struct keeper *ret);

#endif
