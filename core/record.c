/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One perf record from bytes to fields: see record_decode() in ring.h.
 *
 * Rings are opened with sample_id_all, so a record is a header, a body that its type gives, and
 * the sample id (who, when, where), which lies behind the body. It need not lie at the record's
 * end: where several perf events listen on a CPU, perf_event_ksymbol_output() and
 * perf_event_bpf_output() make the record of each but the first longer than what they write to it
 * (they add to header.size for each and never set it back), and what follows is old ring memory.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "core/ring.h"

/* KSYM_NAME_LEN of 6.1 and later; it was 128 before. */
#define NAME_MAX_BYTES 511

/* Names are padded with NULs to a multiple of this. */
#define NAME_ALIGN sizeof(uint64_t)

/* What PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU leave behind a record's body. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
};

struct ksymbol_body {
	uint64_t addr;
	uint32_t len;
	uint16_t type;
	uint16_t flags;
	char name[];
};

struct bpf_body {
	uint16_t type;
	uint16_t flags;
	uint32_t id;
	uint8_t tag[8];
};

struct lost_body {
	uint64_t id;
	uint64_t lost;
};

struct comm_body {
	uint32_t pid, tid;
	char comm[];
};

struct task_body {
	uint32_t pid, ppid;
	uint32_t tid, ptid;
	uint64_t time;
};

struct mmap2_body {
	uint32_t pid, tid;
	uint64_t addr, len, offset;
	uint32_t major, minor;
	uint64_t inode, inode_generation;
	uint32_t prot, flags;
	char path[];
};

/* A task that was reaped already is (u32)-1 to the kernel: perf_event_pid_type(). */
static uint32_t task_id(uint32_t id)
{
	return id == UINT32_MAX ? 0 : id;
}

static void set_task(struct record *record, uint32_t pid, uint32_t tid)
{
	record->pid = task_id(pid);
	record->tid = task_id(tid);
}

/* The NUL-terminated string at offset of a body, of at most max bytes; NULL if it is none. */
static const char *body_string(const uint8_t *body, size_t len, size_t offset, size_t max,
			       size_t *ret_end)
{
	const char *string = (const char *)body + offset;
	const char *end = memchr(string, '\0', MIN(len - offset, max + 1));

	if (!end)
		return NULL;
	*ret_end = offset + ((size_t)(end - string) / NAME_ALIGN + 1) * NAME_ALIGN;
	return string;
}

static int decode_ksymbol(const uint8_t *body, size_t len, struct record *ret, size_t *ret_end)
{
	struct ksymbol_body head;

	if (len <= sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	ret->kind = RECORD_KSYMBOL;
	ret->ksymbol.addr = head.addr;
	ret->ksymbol.len = head.len;
	ret->ksymbol.type = head.type;
	ret->ksymbol.unregister = head.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	ret->ksymbol.name = body_string(body, len, sizeof(head), NAME_MAX_BYTES, ret_end);
	return ret->ksymbol.name ? 1 : -EBADMSG;
}

static int decode_bpf(const uint8_t *body, size_t len, struct record *ret, size_t *ret_end)
{
	struct bpf_body head;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	ret->kind = RECORD_BPF_EVENT;
	ret->bpf.id = head.id;
	ret->bpf.type = head.type;
	memcpy(ret->bpf.tag, head.tag, sizeof(head.tag));
	*ret_end = sizeof(head);
	return 1;
}

static int decode_lost(const uint8_t *body, size_t len, struct record *ret, size_t *ret_end)
{
	struct lost_body head;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	ret->kind = RECORD_LOST;
	ret->lost.count = head.lost;
	*ret_end = sizeof(head);
	return 1;
}

static int decode_comm(const uint8_t *body, size_t len, uint16_t misc, struct record *ret,
		       size_t *ret_end)
{
	struct comm_body head;

	if (len <= sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	ret->kind = RECORD_COMM;
	set_task(ret, head.pid, head.tid);
	ret->comm.exec = misc & PERF_RECORD_MISC_COMM_EXEC;
	ret->comm.comm = body_string(body, len, sizeof(head), NAME_MAX_BYTES, ret_end);
	return ret->comm.comm ? 1 : -EBADMSG;
}

static int decode_task(const uint8_t *body, size_t len, enum record_kind kind, struct record *ret,
		       size_t *ret_end)
{
	struct task_body head;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	ret->kind = kind;
	set_task(ret, head.pid, head.tid);
	ret->task.ppid = task_id(head.ppid);
	*ret_end = sizeof(head);
	return 1;
}

static int decode_mmap2(const uint8_t *body, size_t len, uint16_t misc, struct record *ret,
			size_t *ret_end)
{
	struct mmap2_body head;

	/* A build id in place of device and inode comes only to those who ask for it. */
	if (len <= sizeof(head) || misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	/* Anonymous memory, the stack, the vDSO: no file. */
	if (!head.inode && !head.major && !head.minor)
		return 0;
	ret->kind = RECORD_MMAP2;
	set_task(ret, head.pid, head.tid);
	ret->mmap.addr = head.addr;
	ret->mmap.len = head.len;
	ret->mmap.offset = head.offset;
	ret->mmap.major = head.major;
	ret->mmap.minor = head.minor;
	ret->mmap.inode = head.inode;
	ret->mmap.prot = head.prot;
	ret->mmap.flags = head.flags;
	ret->mmap.path = body_string(body, len, sizeof(head), len, ret_end);
	return ret->mmap.path ? 1 : -EBADMSG;
}

static int decode_body(const struct perf_event_header *header, const uint8_t *body, size_t len,
		       struct record *ret, size_t *ret_end)
{
	switch (header->type) {
	case PERF_RECORD_KSYMBOL:
		return decode_ksymbol(body, len, ret, ret_end);
	case PERF_RECORD_BPF_EVENT:
		return decode_bpf(body, len, ret, ret_end);
	case PERF_RECORD_LOST:
		return decode_lost(body, len, ret, ret_end);
	case PERF_RECORD_COMM:
		return decode_comm(body, len, header->misc, ret, ret_end);
	case PERF_RECORD_FORK:
		return decode_task(body, len, RECORD_FORK, ret, ret_end);
	case PERF_RECORD_EXIT:
		return decode_task(body, len, RECORD_EXIT, ret, ret_end);
	case PERF_RECORD_MMAP2:
		return decode_mmap2(body, len, header->misc, ret, ret_end);
	default:
		return 0;
	}
}

int record_decode(const void *data, size_t len, uint32_t cpu, struct record *ret)
{
	struct perf_event_header header;
	struct sample_id id;
	size_t end = 0;

	if (len < sizeof(header))
		return -EBADMSG;
	memcpy(&header, data, sizeof(header));
	if (header.size != len || len % sizeof(uint64_t))
		return -EBADMSG;
	const uint8_t *body = (const uint8_t *)data + sizeof(header);

	*ret = (struct record){.cpu = cpu};
	int r = decode_body(&header, body, len - sizeof(header), ret, &end);

	if (r <= 0)
		return r;
	if (end + sizeof(id) > len - sizeof(header))
		return -EBADMSG;
	memcpy(&id, body + end, sizeof(id));
	ret->time = id.time;
	/* Records about a task name it themselves; the sample id names who made them. */
	if (ret->kind == RECORD_KSYMBOL || ret->kind == RECORD_BPF_EVENT ||
	    ret->kind == RECORD_LOST)
		set_task(ret, id.pid, id.tid);
	return 1;
}
