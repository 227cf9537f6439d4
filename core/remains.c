/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pieces of freed programs, put together: see remains.h. prog_remains.c makes programs of them. */
#include "core/remains.h"

#include <errno.h>
#include <string.h>

/* BPF_COMPLEXITY_LIMIT_INSNS: the kernel takes no more. */
#define INSNS_MAX 1000000u
/* Of all functions together: such a program has 4 to 5 MiB. */
#define JITED_MAX ((size_t)64 << 20)

/* A program in the making. */
struct joining {
	struct remains *remains; /* NULL: none */
	uint32_t maps, funcs;	 /* that are whole */
	uint32_t offset;	 /* in the part that is not; 0: at the begin of one */
};

struct remains_joiner {
	unsigned int cpus;
	struct joining of_cpu[];
};

void remains_destroy(struct remains *remains)
{
	if (!remains)
		return;
	free(remains->maps);
	free(remains->funcs);
	free(remains->insns);
	free(remains->jited);
	free(remains);
}

static void let_go(struct joining *joining)
{
	remains_destroy(joining->remains);
	*joining = (struct joining){};
}

int remains_joiner_create(unsigned int cpus, struct remains_joiner **ret)
{
	struct remains_joiner *joiner =
		calloc(1, sizeof(*joiner) + cpus * sizeof(joiner->of_cpu[0]));

	if (!joiner)
		return -ENOMEM;
	joiner->cpus = cpus;
	*ret = joiner;
	return 0;
}

void remains_joiner_destroy(struct remains_joiner *joiner)
{
	for (unsigned int cpu = 0; joiner && cpu < joiner->cpus; cpu++)
		let_go(&joiner->of_cpu[cpu]);
	free(joiner);
}

static int join_head(struct joining *joining, const struct unload_piece *piece)
{
	CLEANUP(remains_cleanup) struct remains *remains = calloc(1, sizeof(*remains));

	/* Of the one before it the rest found no room. */
	let_go(joining);
	if (!remains)
		return -ENOMEM;
	if (piece->len != sizeof(remains->head) || piece->total != piece->len)
		return -EBADMSG;
	memcpy(&remains->head, piece->data, sizeof(remains->head));
	const struct unload_head *head = &remains->head;

	if (!head->funcs || head->funcs > UNLOAD_FUNCS_MAX || head->maps > UNLOAD_MAPS_MAX ||
	    !head->insns || head->insns > INSNS_MAX)
		return -EBADMSG;
	remains->maps = calloc(MAX(head->maps, 1u), sizeof(remains->maps[0]));
	remains->funcs = calloc(head->funcs, sizeof(remains->funcs[0]));
	remains->insns = calloc(head->insns, sizeof(remains->insns[0]));
	if (!remains->maps || !remains->funcs || !remains->insns)
		return -ENOMEM;
	joining->remains = take_ptr(remains);
	return 0;
}

static int join_map(struct joining *joining, const struct unload_piece *piece)
{
	struct remains *remains = joining->remains;

	if (joining->maps == remains->head.maps || joining->funcs || joining->offset ||
	    piece->len != sizeof(remains->maps[0]) || piece->total != piece->len)
		return -EBADMSG;
	memcpy(&remains->maps[joining->maps++], piece->data, sizeof(remains->maps[0]));
	return 0;
}

static int join_code(struct joining *joining, const struct unload_piece *piece)
{
	struct remains *remains = joining->remains;

	if (joining->maps != remains->head.maps || joining->funcs == remains->head.funcs)
		return -EBADMSG;
	struct remains_func *func = &remains->funcs[joining->funcs];

	if (joining->offset == 0) {
		if (!piece->total || remains->jited_len + piece->total > JITED_MAX)
			return -EBADMSG;
		uint8_t *more = realloc(remains->jited, remains->jited_len + piece->total);

		if (!more)
			return -ENOMEM;
		remains->jited = more;
		*func = (struct remains_func){.addr = piece->addr, .len = piece->total};
		memcpy(func->tag, piece->tag, sizeof(func->tag));
	}
	if (piece->total != func->len || piece->addr != func->addr)
		return -EBADMSG;
	memcpy(remains->jited + remains->jited_len + piece->offset, piece->data, piece->len);
	joining->offset += piece->len;
	if (joining->offset == func->len) {
		remains->jited_len += func->len;
		joining->funcs++;
		joining->offset = 0;
	}
	return 0;
}

static int join_insns(struct joining *joining, const struct unload_piece *piece)
{
	struct remains *remains = joining->remains;

	if (joining->funcs != remains->head.funcs ||
	    piece->total != remains->head.insns * sizeof(remains->insns[0]))
		return -EBADMSG;
	memcpy((uint8_t *)remains->insns + piece->offset, piece->data, piece->len);
	joining->offset += piece->len;
	return joining->offset == piece->total;
}

static int join(struct joining *joining, const struct unload_piece *piece)
{
	if (piece->kind == UNLOAD_HEAD)
		return join_head(joining, piece);
	if (!joining->remains)
		return -EBADMSG;
	switch (piece->kind) {
	case UNLOAD_MAP:
		return join_map(joining, piece);
	case UNLOAD_CODE:
		return join_code(joining, piece);
	case UNLOAD_INSNS:
		return join_insns(joining, piece);
	}
	return -EBADMSG;
}

int remains_join(struct remains_joiner *joiner, const void *data, size_t len, struct remains **ret)
{
	const struct unload_piece *piece = data;

	if (len < offsetof(struct unload_piece, data) || piece->cpu >= joiner->cpus)
		return -EBADMSG;
	struct joining *joining = &joiner->of_cpu[piece->cpu];
	int r = -EBADMSG;

	/* What holds for every piece; that the total is right, its kind knows. */
	if (piece->len && piece->len <= len - offsetof(struct unload_piece, data) &&
	    piece->len <= piece->total && piece->offset <= piece->total - piece->len &&
	    (piece->kind == UNLOAD_HEAD || piece->offset == joining->offset))
		r = join(joining, piece);
	if (r == 1)
		*ret = take_ptr(joining->remains);
	if (r != 0)
		let_go(joining);
	return r;
}
