/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The effect of each record, whatever the order in which they come: see kstate.h. */
#include "core/kstate_internal.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>

#include "core/carry.h"

/* History goes back as far for a process that takes over. */
static void keep_history_since(struct kstate *state)
{
	uint64_t *kept = &carry_root()->history_since;

	if (carry_is_inherited() && *kept)
		state->history_since = MIN(state->history_since, *kept);
	*kept = state->history_since;
}

int kstate_init(struct kstate *state, struct blob_pool *pool, uint64_t events_bytes, uint64_t now,
		const struct kstate_ops *ops, void *arg)
{
	*state = (struct kstate){.ops = ops, .arg = arg, .pool = pool, .history_since = now};
	/* Numbers that no process before this one has given. */
	for (int i = 0; i < KSTATE_PARTS; i++)
		state->parts[i].generation = (carry_root()->generation << 40) + 1;
	int r = symtab_create(&state->symbols);

	if (r == 0)
		r = history_create(&state->history);
	if (r == 0)
		r = progset_create(pool, &state->programs);
	if (r == 0)
		r = eventlog_create(events_bytes, &state->events);
	if (r == 0 && carry_is_inherited())
		r = kstate_restore_programs(state);
	if (r < 0)
		kstate_deinit(state);
	else
		keep_history_since(state);
	return r;
}

void kstate_deinit(struct kstate *state)
{
	for (size_t i = 0; i < state->pending_count; i++)
		free(state->pending[i].symbol);
	eventlog_destroy(state->events);
	progset_destroy(state->programs);
	history_destroy(state->history);
	symtab_destroy(state->symbols);
	*state = (struct kstate){};
}

void kstate_changed(struct kstate *state, enum kstate_part part, uint64_t time)
{
	state->parts[part].generation++;
	state->parts[part].changed_unix = time + state->mono_to_unix;
}

void kstate_begin_line(struct text *line, uint64_t time)
{
	text_reserve(line, 160);
	text_seconds(line, time);
	text_putc(line, ' ');
}

void kstate_end_line(struct kstate *state, struct text *line, uint64_t time)
{
	text_putc(line, '\n');
	eventlog_append(state->events, line->failed ? "" : line->data, line->failed ? 0 : line->len,
			time + state->mono_to_unix);
	if (line->failed)
		state->out_of_memory++;
}

void kstate_vlog(struct kstate *state, uint64_t time, const char *format, va_list args)
{
	_cleanup_text_ struct text line = {};

	kstate_begin_line(&line, time);
	text_vprintf(&line, format, args);
	kstate_end_line(state, &line, time);
}

void kstate_log(struct kstate *state, uint64_t time, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	kstate_vlog(state, time, format, args);
	va_end(args);
}

void kstate_apply(struct kstate *state, const struct record *record)
{
	switch (record->kind) {
	case RECORD_KSYMBOL:
		kstate_apply_ksymbol(state, record);
		break;
	case RECORD_BPF_EVENT:
		if (record->bpf.type == PERF_BPF_EVENT_PROG_LOAD)
			kstate_apply_load(state, record);
		else if (record->bpf.type == PERF_BPF_EVENT_PROG_UNLOAD)
			kstate_apply_unload(state, record);
		break;
	case RECORD_LOST:
		state->lost_records += record->lost.count;
		kstate_log(state, record->time, "lost records=%" PRIu64 " cpu=%" PRIu32,
			   record->lost.count, record->cpu);
		break;
	default:
		break;
	}
}

uint64_t kstate_expire(struct kstate *state, uint64_t now, uint64_t retain_ns,
		       uint64_t retain_bytes)
{
	struct prog *oldest;
	uint64_t due = UINT64_MAX;

	/* A time that the clock never reaches is for ever. */
	retain_ns = MIN(retain_ns, UINT64_MAX - now);

	while ((oldest = progset_oldest_retained(state->programs))) {
		uint64_t unloaded = atomic_load(&oldest->unloaded_mono);
		size_t bytes =
			progset_retained_bytes(state->programs) + history_bytes(state->history);

		if (bytes <= retain_bytes && now - MIN(now, unloaded) < retain_ns) {
			due = unloaded + retain_ns;
			break;
		}
		kstate_evict(state, oldest->id, now);
	}
	if (now > retain_ns) {
		history_expire(state->history, now - retain_ns);
		state->history_since = MAX(state->history_since, now - retain_ns);
	}
	/* Images alone can fill the bound too: then half of their time goes. */
	while (!oldest && history_bytes(state->history) > retain_bytes) {
		uint64_t first = history_oldest(state->history);
		uint64_t middle = first + (now - MIN(now, first)) / 2 + 1;

		history_expire(state->history, middle);
		state->history_since = MAX(state->history_since, middle);
	}
	carry_root()->history_since = state->history_since;
	uint64_t first = history_oldest(state->history);

	return first ? MIN(due, first + retain_ns) : due;
}
