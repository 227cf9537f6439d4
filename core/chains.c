/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A hash table of chains: see chains.h. */
#include "core/chains.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

#define FIRST_BUCKETS 256

int chains_init(struct chains *chains)
{
	*chains = (struct chains){.bucket_count = FIRST_BUCKETS};
	/* A kernel that has no randomness yet leaves it at 0. */
	if (getrandom(&chains->seed, sizeof(chains->seed), GRND_NONBLOCK) < 0)
		chains->seed = 0;
	chains->buckets = calloc(FIRST_BUCKETS, sizeof(chains->buckets[0]));
	return chains->buckets ? 0 : -ENOMEM;
}

void chains_deinit(struct chains *chains)
{
	free(chains->buckets);
	*chains = (struct chains){};
}

uint64_t chains_hash(const struct chains *chains, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, chains->seed);
}

static struct chain_link **bucket(const struct chains *chains, uint64_t hash)
{
	return &chains->buckets[hash & (chains->bucket_count - 1)];
}

static void put(struct chains *chains, struct chain_link *link)
{
	struct chain_link **at = bucket(chains, link->hash);

	link->next = *at;
	*at = link;
}

static void grow(struct chains *chains)
{
	size_t old_count = chains->bucket_count;
	struct chain_link **old = chains->buckets;
	struct chain_link **grown = calloc(old_count * 2, sizeof(grown[0]));

	if (!grown)
		return;
	chains->buckets = grown;
	chains->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		for (struct chain_link *next, *link = old[i]; link; link = next) {
			next = link->next;
			put(chains, link);
		}
	}
	free(old);
}

void chains_add(struct chains *chains, struct chain_link *link, uint64_t hash)
{
	if (chains->count >= chains->bucket_count)
		grow(chains);
	link->hash = hash;
	put(chains, link);
	chains->count++;
}

void chains_remove(struct chains *chains, struct chain_link *link)
{
	struct chain_link **at = bucket(chains, link->hash);

	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	chains->count--;
}

static struct chain_link *first_of(struct chain_link *link, uint64_t hash)
{
	while (link && link->hash != hash)
		link = link->next;
	return link;
}

struct chain_link *chains_find(const struct chains *chains, uint64_t hash)
{
	return first_of(*bucket(chains, hash), hash);
}

struct chain_link *chain_next(const struct chain_link *link)
{
	return first_of(link->next, link->hash);
}

void chains_visit(const struct chains *chains, chains_visit_fn *visit, void *arg)
{
	for (size_t i = 0; i < chains->bucket_count; i++) {
		for (struct chain_link *next, *link = chains->buckets[i]; link; link = next) {
			next = link->next;
			visit(link, arg);
		}
	}
}
