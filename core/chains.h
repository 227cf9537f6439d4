/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hash table of chains, whose links are part of what it holds: finding, adding and taking out
 * cost a cache miss or two, however many there are. It owns nothing but its buckets, compares
 * nothing, and takes no lock.
 */
#ifndef CORE_CHAINS_H
#define CORE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

struct chain_link {
	struct chain_link *next;
	uint64_t hash;
};

struct chains {
	struct chain_link **buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
	uint64_t seed;
};

/* -ENOMEM. */
int chains_init(struct chains *chains);
void chains_deinit(struct chains *chains); /* zeros are fine */

/* Whoever makes the keys cannot choose where they collide. */
uint64_t chains_hash(const struct chains *chains, const void *key, size_t len);
/* Without memory for more buckets chains just grow longer. */
void chains_add(struct chains *chains, struct chain_link *link, uint64_t hash);
void chains_remove(struct chains *chains, struct chain_link *link);

/* The first, and the next, of this hash; NULL past the last. Whether it is meant its key tells. */
struct chain_link *chains_find(const struct chains *chains, uint64_t hash);
struct chain_link *chain_next(const struct chain_link *link);

/* All of them, in no order. visit may take out the one that it is given, and change no other. */
typedef void chains_visit_fn(struct chain_link *link, void *arg);
void chains_visit(const struct chains *chains, chains_visit_fn *visit, void *arg);

#endif
