/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pieces in any order, and the programs that come of them. Each begins with bytes for its kind,
 * CPU and length, and two each for its total and offset.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/remains.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prog *make_known(void)
{
	static const uint8_t tag[BPF_TAG_SIZE] = "known";
	struct prog_func *funcs = calloc(1, sizeof(*funcs));
	struct prog *prog;

	if (!funcs)
		abort();
	funcs->symbol = strdup("bpf_prog_0000000000000000_known");
	if (prog_from_records(1, tag, funcs, 1, 0, &prog) < 0)
		abort();
	return prog;
}

static void check_program(const struct remains *remains)
{
	CLEANUP(prog_cleanup) struct prog *known = make_known(), *prog = NULL;
	struct blob_pool *pool;
	size_t code = 0;

	if (blob_pool_create(&pool) < 0 || prog_from_remains(pool, known, remains, &prog) < 0)
		abort();
	blob_pool_destroy(pool);
	for (size_t i = 0; i < prog->func_count; i++)
		code += prog->funcs[i].len;
	if (prog->func_count != remains->head.funcs || prog->jited->len != code ||
	    prog->map_count != remains->head.maps ||
	    prog->xlated->len != remains->head.insns * sizeof(struct bpf_insn))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct unload_piece piece;
	struct remains_joiner *joiner;
	struct remains *remains;

	if (remains_joiner_create(2, &joiner) < 0)
		abort();
	while (size >= 7) {
		uint16_t total, offset;
		size_t len = MIN((size_t)data[2], size - 7);

		memcpy(&total, data + 3, sizeof(total));
		memcpy(&offset, data + 5, sizeof(offset));
		piece = (struct unload_piece){
			.kind = data[0],
			.cpu = data[1],
			.len = data[2],
			.total = total,
			.offset = offset,
			.addr = 0x1000,
		};
		memcpy(piece.data, data + 7, len);
		if (remains_join(joiner, &piece, offsetof(struct unload_piece, data) + len,
				 &remains) == 1) {
			check_program(remains);
			remains_destroy(remains);
		}
		data += 7 + len;
		size -= 7 + len;
	}
	remains_joiner_destroy(joiner);
	return 0;
}
