/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who keeps a BPF program loaded: open files, pins, links and maps, as far as the kernel tells.
 *
 * Every question is put to the system anew: nothing is remembered, and nothing costs before it is
 * asked. The answer walks /proc, every bpffs and the ids of links and maps, so it takes
 * milliseconds, and it is not of one moment. Takes no lock.
 *
 * Not seen: attachments that have no link (cgroups, tc filters, sockets, XDP by netlink), and
 * files of processes in another branch of the pid namespaces.
 */
#ifndef CORE_HOLDERS_H
#define CORE_HOLDERS_H

#include "core/prog.h"
#include "core/text.h"

/*
 * Writes a line a holder:
 *
 *	fd PID COMM FD		an open file of the program, of a link to it, or a perf event
 *				that it is attached to
 *	pin PATH		the program or a link to it, in a bpffs
 *	link ID TYPE TARGET	TARGET is `-` where the kernel does not tell
 *	map ID			a map that can run it: prog_array, devmap, cpumap, sockmap,
 *				struct_ops
 *
 * What this process may not see is left out. -ENOMEM.
 */
int holders_write(const struct prog *prog, struct text *text);

#endif
