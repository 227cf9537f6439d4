/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What pin.c (a process held) and pinkeep.c (what of that outlives this process) share. */
#ifndef CORE_PIN_INTERNAL_H
#define CORE_PIN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/pin.h"

struct pin {
	atomic_uint refs;
	struct held_files *files;
	const struct root_policy *policy;
	const struct pidns *ns;
	pid_t pid; /* in ns, as all numbers that are read there */
	pid_t own_pid;
	uint64_t start_ticks;
	uint64_t started_unix;
	uint64_t pinned_unix;

	pthread_mutex_t lock;
	bool released;
	int pidfd;
	int proc_fd; /* -1 once the exit is known */
	struct pin_exit exit;
	struct root *root;
	struct held_file *exe;
	struct snapshot *texts[PIN_TEXTS];
	struct pin_mapping *mappings;
	size_t mapping_count;

	/* Of pinkeep.c. */
	struct pin_saved *saved; /* NULL: it goes with this process */
	const struct keeper *keeper;
};

int pin_create(const struct pidns *ns, pid_t pid, struct held_files *files,
	       const struct root_policy *policy, struct pin **ret);
/* Opens pidfd and proc_fd. -ESRCH: there is no such process any more. */
int pin_find_process(struct pin *pin);
/* Frees mappings and gives their files back. */
void pin_free_mappings(struct pin_mapping *mappings, size_t count);

/*
 * With the lock held, where a pin has something new: before what it had is given back. They do
 * nothing for one that goes with this process.
 */
void pinkeep_text(struct pin *pin, enum pin_text text);
void pinkeep_mappings(struct pin *pin);
void pinkeep_root(struct pin *pin);
void pinkeep_exe(struct pin *pin);
void pinkeep_exit(struct pin *pin);
/* Nothing of it is to outlive this process any more. */
void pinkeep_drop(struct pin *pin);

#endif
