/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Buffers that are kept for the next read: see readbuf.h. */
#include "fs/readbuf.h"

#include <errno.h>
#include <pthread.h>

/* Readers that wait for no file system and keep a CPU busy. */
#define KEPT_MAX 4

struct readbuf {
	struct readbufs *bufs;
	struct readbuf *next; /* among those that are kept */
	size_t size;
	char data[];
};

struct readbufs {
	pthread_mutex_t lock;
	struct readbuf *kept; /* the last one used first: it is still in the CPU's cache */
	unsigned int count;
};

int readbufs_create(struct readbufs **ret)
{
	struct readbufs *bufs = calloc(1, sizeof(*bufs));

	if (!bufs)
		return -ENOMEM;
	pthread_mutex_init(&bufs->lock, NULL);
	*ret = bufs;
	return 0;
}

void readbufs_destroy(struct readbufs *bufs)
{
	if (!bufs)
		return;
	while (bufs->kept) {
		struct readbuf *buf = bufs->kept;

		bufs->kept = buf->next;
		free(buf);
	}
	pthread_mutex_destroy(&bufs->lock);
	free(bufs);
}

static struct readbuf *take_kept(struct readbufs *bufs)
{
	LOCKED(&bufs->lock);
	struct readbuf *buf = bufs->kept;

	if (buf) {
		bufs->kept = buf->next;
		bufs->count--;
	}
	return buf;
}

struct readbuf *readbuf_get(struct readbufs *bufs, size_t size)
{
	struct readbuf *buf = take_kept(bufs);

	if (buf && buf->size >= size)
		return buf;
	free(buf);
	buf = malloc(sizeof(*buf) + size);
	if (buf) {
		buf->bufs = bufs;
		buf->size = size;
	}
	return buf;
}

void *readbuf_data(struct readbuf *buf)
{
	return buf->data;
}

void readbuf_put(struct readbuf *buf)
{
	if (!buf)
		return;
	{
		LOCKED(&buf->bufs->lock);
		if (buf->bufs->count < KEPT_MAX) {
			buf->next = buf->bufs->kept;
			buf->bufs->kept = buf;
			buf->bufs->count++;
			return;
		}
	}
	free(buf);
}
