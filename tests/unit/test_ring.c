/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records decoded, and rings of plain memory drained: merged by time, losses told once. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ring.h"
#include "core/ring_priv.h"

#define RECORD_MAX 65528

/* A record under construction: header, body, name, padding, sample id. */
struct builder {
	uint8_t bytes[RECORD_MAX];
	size_t len;
};

static void put(struct builder *b, const void *data, size_t len)
{
	assert_true(b->len + len <= sizeof(b->bytes));
	memcpy(b->bytes + b->len, data, len);
	b->len += len;
}

#define PUT(b, type, value)                                                                        \
	do {                                                                                       \
		type put_value = (value);                                                          \
		put(b, &put_value, sizeof(put_value));                                             \
	} while (0)

static void begin(struct builder *b, uint32_t type, uint16_t misc)
{
	b->len = 0;
	PUT(b, uint32_t, type);
	PUT(b, uint16_t, misc);
	PUT(b, uint16_t, 0);
}

/* The name as the kernel writes it: NUL-padded to 8 bytes. */
static void put_name(struct builder *b, const char *name)
{
	put(b, name, strlen(name) + 1);
	while (b->len % 8)
		PUT(b, uint8_t, 0);
}

static void set_size(struct builder *b, uint16_t size)
{
	memcpy(b->bytes + 6, &size, sizeof(size));
}

static void finish(struct builder *b, uint32_t pid, uint32_t tid, uint64_t time)
{
	PUT(b, uint32_t, pid);
	PUT(b, uint32_t, tid);
	PUT(b, uint64_t, time);
	PUT(b, uint32_t, 1);
	PUT(b, uint32_t, 0);
	set_size(b, b->len);
}

static void build_ksymbol(struct builder *b, uint64_t addr, uint32_t len, uint16_t flags,
			  const char *name, uint64_t time)
{
	begin(b, PERF_RECORD_KSYMBOL, 0);
	PUT(b, uint64_t, addr);
	PUT(b, uint32_t, len);
	PUT(b, uint16_t, PERF_RECORD_KSYMBOL_TYPE_BPF);
	PUT(b, uint16_t, flags);
	put_name(b, name);
	finish(b, 811, 812, time);
}

static void build_bpf(struct builder *b, uint16_t type, uint32_t id, uint64_t time)
{
	begin(b, PERF_RECORD_BPF_EVENT, 0);
	PUT(b, uint16_t, type);
	PUT(b, uint16_t, 0);
	PUT(b, uint32_t, id);
	put(b, "\x62\xef\xe5\x9b\x7d\x4f\x5e\xa1", 8);
	finish(b, 811, 811, time);
}

static void build_lost(struct builder *b, uint64_t count, uint64_t time)
{
	begin(b, PERF_RECORD_LOST, 0);
	PUT(b, uint64_t, 7);
	PUT(b, uint64_t, count);
	finish(b, 0, 0, time);
}

static int decode(const struct builder *b, struct record *ret)
{
	/* A copy of its own length, so that a sanitizer sees each byte too many. */
	uint8_t *copy = malloc(b->len);

	assert_non_null(copy);
	memcpy(copy, b->bytes, b->len);
	int r = record_decode(copy, b->len, 3, ret);

	free(copy);
	return r;
}

/* Bytes as 6.18 wrote them for a load of two instructions. */
static void test_real_record(void **state)
{
	static const uint8_t bytes[] = {
		0x11, 0,    0,	  0,   0,    0,	  0x50, 0,   0xe0, 0x19, 0x02, 0xc0, 0xff, 0xff,
		0xff, 0xff, 0x13, 0,   0,    0,	  1,	0,   0,	   0,	 'b',  'p',  'f',  '_',
		'p',  'r',  'o',  'g', '_',  '6', '2',	'e', 'f',  'e',	 '5',  '9',  'b',  '7',
		'd',  '4',  'f',  '5', 'e',  'a', '1',	0,   0,	   0,	 0,    0,    0,	   0,
		0x2b, 3,    0,	  0,   0x2c, 3,	  0,	0,   0xd2, 4,	 0,    0,    0,	   0,
		0,    0,    1,	  0,   0,    0,	  0,	0,   0,	   0,
	};
	struct record record;

	assert_int_equal(record_decode(bytes, sizeof(bytes), 1, &record), 1);
	assert_int_equal(record.kind, RECORD_KSYMBOL);
	assert_int_equal(record.time, 1234);
	assert_int_equal(record.pid, 811);
	assert_int_equal(record.tid, 812);
	assert_int_equal(record.cpu, 1);
	assert_true(record.ksymbol.addr == 0xffffffffc00219e0);
	assert_int_equal(record.ksymbol.len, 0x13);
	assert_int_equal(record.ksymbol.type, PERF_RECORD_KSYMBOL_TYPE_BPF);
	assert_false(record.ksymbol.unregister);
	assert_string_equal(record.ksymbol.name, "bpf_prog_62efe59b7d4f5ea1");
}

/* Appends what the kernel leaves behind a sample id when others listen too. */
static void add_stale_bytes(struct builder *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		PUT(b, uint8_t, 0xa5);
	set_size(b, b->len);
}

/* The sample id follows the name and its padding, whatever comes after it. */
static void test_name_lengths(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	char name[513];

	assert_non_null(b);
	for (size_t len = 0; len <= 512; len++) {
		struct record record;

		memset(name, 'n', len);
		name[len] = '\0';
		build_ksymbol(b, 0x1000, 64, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, name, 99);
		add_stale_bytes(b, len % 5 * 24);
		if (len > 511) {
			assert_int_equal(decode(b, &record), -EBADMSG);
			continue;
		}
		assert_int_equal(record_decode(b->bytes, b->len, 3, &record), 1);
		assert_int_equal(record.time, 99);
		assert_int_equal(record.pid, 811);
		assert_int_equal(record.tid, 812);
		assert_true(record.ksymbol.unregister);
		assert_string_equal(record.ksymbol.name, name);
	}
	free(b);
}

static void test_bpf_event(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct record record;

	assert_non_null(b);
	build_bpf(b, PERF_BPF_EVENT_PROG_UNLOAD, 114, 5);
	assert_int_equal(decode(b, &record), 1);
	assert_int_equal(record.kind, RECORD_BPF_EVENT);
	assert_int_equal(record.bpf.id, 114);
	assert_int_equal(record.bpf.type, PERF_BPF_EVENT_PROG_UNLOAD);
	assert_memory_equal(record.bpf.tag, "\x62\xef\xe5\x9b\x7d\x4f\x5e\xa1", 8);
	add_stale_bytes(b, 48);
	assert_int_equal(decode(b, &record), 1);
	assert_int_equal(record.time, 5);
	assert_int_equal(record.pid, 811);
	free(b);
}

static void build_fork(struct builder *b, uint32_t type)
{
	begin(b, type, 0);
	PUT(b, uint32_t, 20);
	PUT(b, uint32_t, 10);
	PUT(b, uint32_t, 21);
	PUT(b, uint32_t, 11);
	PUT(b, uint64_t, 6);
	finish(b, 10, 11, 7);
}

/* Tasks are those that the record is about, not those that wrote it. */
static void test_task_records(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct record record;

	assert_non_null(b);
	build_fork(b, PERF_RECORD_FORK);
	assert_int_equal(decode(b, &record), 1);
	assert_int_equal(record.kind, RECORD_FORK);
	assert_int_equal(record.pid, 20);
	assert_int_equal(record.tid, 21);
	assert_int_equal(record.task.ppid, 10);
	assert_int_equal(record.time, 7);
	build_fork(b, PERF_RECORD_EXIT);
	assert_int_equal(decode(b, &record), 1);
	assert_int_equal(record.kind, RECORD_EXIT);

	begin(b, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	PUT(b, uint32_t, 30);
	PUT(b, uint32_t, 31);
	put_name(b, "fifteen bytes..");
	finish(b, 40, 41, 8);
	assert_int_equal(record_decode(b->bytes, b->len, 3, &record), 1);
	assert_int_equal(record.kind, RECORD_COMM);
	assert_int_equal(record.pid, 30);
	assert_int_equal(record.tid, 31);
	assert_true(record.comm.exec);
	assert_string_equal(record.comm.comm, "fifteen bytes..");
	free(b);
}

/* The kernel's pid of a task that was reaped is -1. */
static void test_reaped_task(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct record record;

	assert_non_null(b);
	build_lost(b, 3, 5);
	b->len -= 24;
	finish(b, UINT32_MAX, UINT32_MAX, 5);
	assert_int_equal(decode(b, &record), 1);
	assert_int_equal(record.pid, 0);
	assert_int_equal(record.tid, 0);
	free(b);
}

static void build_mmap2(struct builder *b, uint16_t misc, uint64_t inode, const char *path)
{
	begin(b, PERF_RECORD_MMAP2, misc);
	PUT(b, uint32_t, 50);
	PUT(b, uint32_t, 51);
	PUT(b, uint64_t, 0x7f0000000000);
	PUT(b, uint64_t, 0x2000);
	PUT(b, uint64_t, 0x1000);
	PUT(b, uint32_t, inode ? 8 : 0);
	PUT(b, uint32_t, inode ? 1 : 0);
	PUT(b, uint64_t, inode);
	PUT(b, uint64_t, 0);
	PUT(b, uint32_t, 5);
	PUT(b, uint32_t, 2);
	put_name(b, path);
	finish(b, 50, 51, 9);
}

static void test_mmap2(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct record record;
	char path[4096];

	assert_non_null(b);
	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	build_mmap2(b, 0, 4711, path);
	assert_int_equal(record_decode(b->bytes, b->len, 0, &record), 1);
	assert_int_equal(record.kind, RECORD_MMAP2);
	assert_int_equal(record.pid, 50);
	assert_true(record.mmap.addr == 0x7f0000000000);
	assert_int_equal(record.mmap.len, 0x2000);
	assert_int_equal(record.mmap.offset, 0x1000);
	assert_int_equal(record.mmap.major, 8);
	assert_int_equal(record.mmap.minor, 1);
	assert_int_equal(record.mmap.inode, 4711);
	assert_int_equal(record.mmap.prot, 5);
	assert_int_equal(record.mmap.flags, 2);
	assert_string_equal(record.mmap.path, path);
	assert_int_equal(record.time, 9);
	build_mmap2(b, 0, 0, "//anon");
	assert_int_equal(decode(b, &record), 0);
	build_mmap2(b, PERF_RECORD_MISC_MMAP_BUILD_ID, 4711, "/lib/x");
	assert_int_equal(decode(b, &record), -EBADMSG);
	free(b);
}

/* Kinds that nobody asked for are passed over, however short. */
static void test_other_kinds(void **state)
{
	static const uint32_t kinds[] = {PERF_RECORD_THROTTLE,
					 PERF_RECORD_UNTHROTTLE,
					 PERF_RECORD_SAMPLE,
					 PERF_RECORD_LOST_SAMPLES,
					 0,
					 1000};
	struct builder *b = malloc(sizeof(*b));
	struct record record;

	assert_non_null(b);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		begin(b, kinds[i], 0);
		set_size(b, b->len);
		assert_int_equal(decode(b, &record), 0);
	}
	free(b);
}

/* Every record cut short at every length that a header can say, and names without an end. */
static void test_malformed(void **state)
{
	struct builder *whole = malloc(sizeof(*whole)), *b = malloc(sizeof(*b));
	struct record record;

	assert_true(whole && b);
	for (int kind = 0; kind < 5; kind++) {
		size_t enough;

		switch (kind) {
		case 0:
			build_ksymbol(whole, 1, 1, 0, "", 1);
			break;
		case 1:
			build_bpf(whole, 1, 1, 1);
			break;
		case 2:
			build_lost(whole, 1, 1);
			break;
		case 3:
			build_fork(whole, PERF_RECORD_FORK);
			break;
		default:
			build_mmap2(whole, 0, 1, "");
			break;
		}
		enough = whole->len;
		for (size_t len = 0; len < enough; len++) {
			*b = *whole;
			b->len = len;
			if (len >= 8)
				set_size(b, len);
			assert_int_equal(decode(b, &record), -EBADMSG);
		}
	}
	/* A size that is not the record's. */
	build_bpf(b, 1, 1, 1);
	set_size(b, b->len - 8);
	assert_int_equal(decode(b, &record), -EBADMSG);
	/* A name that runs into the sample id. */
	build_ksymbol(b, 1, 1, 0, "1234567", 1);
	b->bytes[24 + 7] = '8';
	assert_int_equal(decode(b, &record), -EBADMSG);
	free(whole);
	free(b);
}

/* Rings of plain memory, one page of data each; what read() would say comes from a pipe. */
struct fake {
	struct rings *rings;
	int lost_pipe[2];
};

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static void fake_open(struct fake *fake, unsigned int count)
{
	struct rings *rings = calloc(1, sizeof(*rings) + count * sizeof(rings->slots[0]));

	assert_non_null(rings);
	rings->data_size = page_size();
	rings->counts_lost = true;
	rings->epoll_fd = -1;
	rings->max_cpus = count;
	rings->active = calloc(count, sizeof(rings->active[0]));
	assert_non_null(rings->active);
	assert_int_equal(pipe(fake->lost_pipe), 0);
	for (unsigned int i = 0; i < count; i++) {
		void *map = aligned_alloc(page_size(), ring_map_size(rings));

		assert_non_null(map);
		memset(map, 0, ring_map_size(rings));
		rings->slots[i].page = map;
		rings->slots[i].data = (uint8_t *)map + page_size();
		rings->slots[i].cpu = i;
		rings->slots[i].fd = fake->lost_pipe[0];
		rings->slots[i].left_at = UINT64_MAX;
		rings->slots[i].joined = malloc(RING_RECORD_MAX);
		assert_non_null(rings->slots[i].joined);
	}
	rings->count = count;
	fake->rings = rings;
}

static void fake_close(struct fake *fake)
{
	for (unsigned int i = 0; i < fake->rings->count; i++) {
		free(fake->rings->slots[i].page);
		free(fake->rings->slots[i].joined);
	}
	close(fake->lost_pipe[0]);
	close(fake->lost_pipe[1]);
	free(fake->rings->active);
	free(fake->rings);
}

/* Writes as the kernel does; false: no room. */
static bool fake_write(struct fake *fake, unsigned int cpu, const struct builder *b)
{
	struct ring *ring = &fake->rings->slots[cpu];
	size_t size = fake->rings->data_size;
	uint64_t head = ring->page->data_head;

	if (head + b->len - ring->page->data_tail > size)
		return false;
	for (size_t i = 0; i < b->len; i++)
		((uint8_t *)ring->data)[(head + i) % size] = b->bytes[i];
	ring->page->data_head = head + b->len;
	return true;
}

static void fake_lost_count(struct fake *fake, uint64_t lost)
{
	struct event_count count = {.lost = lost};

	assert_int_equal(write(fake->lost_pipe[1], &count, sizeof(count)), sizeof(count));
}

struct seen {
	size_t count;
	uint64_t last_time;
	uint64_t lost;
	size_t lost_records;
	bool out_of_order;
	const struct rings *pending_of; /* checked in each call, if set */
	bool not_pending;
	char last_name[512];
};

static void see(const struct record *record, void *arg)
{
	struct seen *seen = arg;

	seen->count++;
	if (record->time < seen->last_time)
		seen->out_of_order = true;
	seen->last_time = record->time;
	if (seen->pending_of && !rings_pending(seen->pending_of))
		seen->not_pending = true;
	if (record->kind == RECORD_LOST) {
		seen->lost += record->lost.count;
		seen->lost_records++;
	} else if (record->kind == RECORD_KSYMBOL) {
		strcpy(seen->last_name, record->ksymbol.name);
	}
}

/* Records of every length cross the ring's end at every place, many times around. */
static void test_wrap_around(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	struct seen seen = {};
	char name[512];

	assert_non_null(b);
	fake_open(&fake, 1);
	for (size_t i = 0; i < 4000; i++) {
		size_t len = i * 7 % 512;

		memset(name, 'a' + i % 26, len);
		name[len] = '\0';
		build_ksymbol(b, i, 1, 0, name, i + 1);
		assert_true(fake_write(&fake, 0, b));
		assert_true(rings_pending(fake.rings));
		assert_int_equal(rings_drain(fake.rings, see, &seen), 1);
		assert_false(rings_pending(fake.rings));
		assert_string_equal(seen.last_name, name);
		assert_int_equal(seen.last_time, i + 1);
	}
	assert_int_equal(seen.count, 4000);
	assert_int_equal(seen.lost, 0);
	assert_int_equal(fake.rings->stats.malformed, 0);
	fake_close(&fake);
	free(b);
}

/* Each ring is in order; random interleavings of four come out in one order. */
static void test_merge(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	unsigned int random = 1;

	assert_non_null(b);
	fake_open(&fake, 4);
	fake.rings->counts_lost = false;
	for (int round = 0; round < 500; round++) {
		struct seen seen = {.pending_of = fake.rings};
		size_t written = 0;

		for (uint64_t time = 1; time <= 40; time++) {
			random = random * 1103515245 + 12345;
			build_bpf(b, 1, time, time);
			written += fake_write(&fake, (random >> 16) % 4, b);
		}
		assert_int_equal(rings_drain(fake.rings, see, &seen), written);
		assert_int_equal(seen.count, written);
		assert_false(seen.out_of_order);
		assert_false(seen.not_pending);
		assert_false(rings_pending(fake.rings));
	}
	fake_close(&fake);
	free(b);
}

static size_t fill(struct fake *fake, struct builder *b, uint64_t time)
{
	size_t written = 0;

	build_bpf(b, 1, 1, time);
	while (fake_write(fake, 0, b))
		written++;
	return written;
}

/* read() tells of a loss first; the LOST record that follows tells of it again, and of more. */
static void test_losses_told_once(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	struct seen seen = {};

	assert_non_null(b);
	fake_open(&fake, 1);
	seen.pending_of = fake.rings;
	size_t full = fill(&fake, b, 1);

	fake_lost_count(&fake, 12);
	assert_int_equal(rings_drain(fake.rings, see, &seen), full + 1);
	assert_int_equal(seen.lost, 12);
	assert_int_equal(seen.lost_records, 1);
	assert_false(seen.not_pending);
	assert_false(rings_pending(fake.rings));

	build_lost(b, 12, 2);
	assert_true(fake_write(&fake, 0, b));
	assert_int_equal(rings_drain(fake.rings, see, &seen), 0);
	assert_int_equal(seen.lost, 12);
	assert_false(rings_pending(fake.rings));

	build_lost(b, 5, 3);
	assert_true(fake_write(&fake, 0, b));
	assert_int_equal(rings_drain(fake.rings, see, &seen), 1);
	assert_int_equal(seen.lost, 17);

	/* Nothing new: read() says what LOST records have said. */
	fill(&fake, b, 4);
	fake_lost_count(&fake, 17);
	rings_drain(fake.rings, see, &seen);
	assert_int_equal(seen.lost, 17);
	fill(&fake, b, 5);
	fake_lost_count(&fake, 20);
	rings_drain(fake.rings, see, &seen);
	assert_int_equal(seen.lost, 20);

	struct rings_stats stats;

	rings_stats(fake.rings, &stats);
	assert_int_equal(stats.lost, 20);
	assert_int_equal(stats.records, seen.count);
	fake_close(&fake);
	free(b);
}

/* A record that does not parse is a loss; one whose size is wrong takes the rest with it. */
static void test_malformed_in_ring(void **state)
{
	static const uint16_t bad_sizes[] = {0, 4, 7, 65528, 44};
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	struct seen seen = {};

	assert_non_null(b);
	fake_open(&fake, 1);
	build_bpf(b, 1, 1, 1);
	assert_true(fake_write(&fake, 0, b));
	build_ksymbol(b, 1, 1, 0, "1234567", 2);
	b->bytes[24 + 7] = '8';
	assert_true(fake_write(&fake, 0, b));
	build_bpf(b, 1, 1, 3);
	assert_true(fake_write(&fake, 0, b));
	assert_int_equal(rings_drain(fake.rings, see, &seen), 3);
	assert_int_equal(seen.lost, 1);
	assert_false(seen.out_of_order);
	for (size_t i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		build_bpf(b, 1, 1, 4);
		set_size(b, bad_sizes[i]);
		assert_true(fake_write(&fake, 0, b));
		assert_true(fake_write(&fake, 0, b));
		assert_int_equal(rings_drain(fake.rings, see, &seen), 1);
		assert_int_equal(seen.lost, 2 + i);
		assert_false(rings_pending(fake.rings));
	}
	/* A head that no record ends at, and the way back. */
	struct ring *ring = &fake.rings->slots[0];

	for (int i = 0; i < 2; i++) {
		ring->page->data_head += 4;
		assert_int_equal(rings_drain(fake.rings, see, &seen), 1);
	}
	/* One that is further than the ring is long, over a record that would be too. */
	build_bpf(b, 1, 1, 5);
	set_size(b, 65528);
	assert_true(fake_write(&fake, 0, b));
	ring->page->data_head += 65536;
	fake_lost_count(&fake, 0);
	assert_int_equal(rings_drain(fake.rings, see, &seen), 1);
	assert_false(rings_pending(fake.rings));

	struct rings_stats stats;

	rings_stats(fake.rings, &stats);
	assert_int_equal(stats.malformed, 4 + ARRAY_SIZE(bad_sizes));
	assert_int_equal(stats.lost, 0);
	fake_close(&fake);
	free(b);
}

struct follower {
	struct fake *fake;
	unsigned int calls;
	unsigned int idle;   /* calls that are to take nothing */
	unsigned int refill; /* calls that find another record afterwards */
	struct builder *b;
	struct seen seen;
};

static void follow(void *arg)
{
	struct follower *follower = arg;

	follower->calls++;
	if (follower->idle) {
		follower->idle--;
		return;
	}
	rings_drain(follower->fake->rings, see, &follower->seen);
	if (follower->refill) {
		follower->refill--;
		assert_true(fake_write(follower->fake, 0, follower->b));
	}
}

/* Who follows the rings goes on as long as they move, and gives up when they do not. */
static void test_follow(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	struct follower moving = {.fake = &fake, .b = b, .refill = 1000};
	struct follower slow = {.fake = &fake, .b = b, .idle = 3};
	struct follower stuck = {.fake = &fake, .b = b, .idle = UINT_MAX};

	assert_non_null(b);
	fake_open(&fake, 2);
	build_bpf(b, 1, 1, 1);
	assert_true(fake_write(&fake, 0, b));
	assert_true(rings_follow(fake.rings, follow, &moving));
	assert_int_equal(moving.calls, 1001);
	assert_int_equal(moving.seen.count, 1001);

	/* One from the future is left once. */
	build_bpf(b, 1, 1, UINT64_MAX);
	assert_true(fake_write(&fake, 1, b));
	assert_true(rings_follow(fake.rings, follow, &slow));
	assert_int_equal(slow.calls, 5);
	assert_int_equal(slow.seen.count, 1);

	assert_true(fake_write(&fake, 1, b));
	assert_false(rings_follow(fake.rings, follow, &stuck));
	assert_in_range(stuck.calls, 2, 16);
	assert_true(rings_pending(fake.rings));
	stuck.idle = 0;
	assert_true(rings_follow(fake.rings, follow, &stuck));
	fake_close(&fake);
	free(b);
}

/* Loads are found where they lie, also across the ring's end; what was taken is not looked at. */
static void test_find_loads(void **state)
{
	struct builder *b = malloc(sizeof(*b));
	struct fake fake;
	struct seen seen = {};
	uint64_t from = 0;
	uint32_t ids[8];

	assert_non_null(b);
	fake_open(&fake, 2);
	assert_int_equal(rings_find_loads(fake.rings, 0, &from, ids, 8), 0);
	assert_int_equal(rings_find_loads(fake.rings, 7, &from, ids, 8), 0);
	for (uint32_t i = 1; i <= 4000; i += 2) {
		build_ksymbol(b, i, 1, 0, "a symbol's name", i);
		/* Longer than what is looked at. */
		add_stale_bytes(b, i % 64 * 8);
		assert_true(fake_write(&fake, 0, b));
		build_bpf(b, PERF_BPF_EVENT_PROG_LOAD, i, i);
		add_stale_bytes(b, i % 32 * 8);
		assert_true(fake_write(&fake, 0, b));
		build_bpf(b, PERF_BPF_EVENT_PROG_UNLOAD, i, i);
		assert_true(fake_write(&fake, 0, b));
		build_bpf(b, PERF_BPF_EVENT_PROG_LOAD, i + 1, i);
		assert_true(fake_write(&fake, 0, b));
		assert_int_equal(rings_find_loads(fake.rings, 0, &from, ids, 1), 1);
		assert_int_equal(ids[0], i);
		assert_int_equal(rings_find_loads(fake.rings, 0, &from, ids, 8), 1);
		assert_int_equal(ids[0], i + 1);
		assert_int_equal(rings_find_loads(fake.rings, 0, &from, ids, 8), 0);
		assert_int_equal(rings_drain(fake.rings, see, &seen), 4);
	}
	build_bpf(b, PERF_BPF_EVENT_PROG_LOAD, 7, 5000);
	assert_true(fake_write(&fake, 0, b));
	from = 0;
	assert_int_equal(rings_find_loads(fake.rings, 0, &from, ids, 8), 1);
	assert_int_equal(ids[0], 7);

	/* Nothing is found behind one whose size is wrong. */
	set_size(b, 4);
	assert_true(fake_write(&fake, 1, b));
	set_size(b, b->len);
	assert_true(fake_write(&fake, 1, b));
	from = 0;
	assert_int_equal(rings_find_loads(fake.rings, 1, &from, ids, 8), 0);
	assert_int_equal(from, fake.rings->slots[1].page->data_head);
	fake_close(&fake);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_record),	 cmocka_unit_test(test_name_lengths),
		cmocka_unit_test(test_bpf_event),	 cmocka_unit_test(test_task_records),
		cmocka_unit_test(test_reaped_task),	 cmocka_unit_test(test_mmap2),
		cmocka_unit_test(test_other_kinds),	 cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_wrap_around),	 cmocka_unit_test(test_merge),
		cmocka_unit_test(test_losses_told_once), cmocka_unit_test(test_malformed_in_ring),
		cmocka_unit_test(test_follow),		 cmocka_unit_test(test_find_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
