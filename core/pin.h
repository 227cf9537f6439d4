/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One process held open: what /proc/PID shows of it, still there when it is gone.
 *
 * Held are its root with the mount namespace (root.h), its executable and the files it has mapped
 * (heldfile.h), and the texts of some files. While it lives a pin looks again when it is asked or
 * told to; what it saw last is what stays.
 *
 * The process is known by a pidfd and by a directory fd on /proc/PID that was opened while that
 * pidfd said that it lives. Both mean that process for ever, so whoever gets its pid later is never
 * seen.
 *
 * Any thread may call anything. A pin's lock is held while /proc is read; it is taken before those
 * of held files and roots, and after a pin set's.
 */
#ifndef CORE_PIN_H
#define CORE_PIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/heldfile.h"
#include "core/pidns.h"
#include "core/root.h"
#include "core/snapshot.h"

struct pin;

/* PID@STARTTICKS, or PID. */
#define PIN_NAME_SIZE 36

enum pin_text {
	PIN_MAPS,
	PIN_STATUS,
	PIN_MOUNTINFO,
	PIN_COMM_TEXT,
	PIN_CMDLINE,
	PIN_CGROUPS,
	PIN_TEXTS,
};
/* The name of such a file in /proc/PID. */
const char *pin_text_name(enum pin_text text);

/*
 * Holds the process that has the number pid in ns. -ESRCH if there is none, or none with a memory
 * map: kernel threads and zombies. -EINVAL for what is no pid, -EMFILE, -ENFILE, -ENOMEM. `ns`,
 * `files` and `policy` outlive the pin.
 */
int pin_open(const struct pidns *ns, pid_t pid, struct held_files *files,
	     const struct root_policy *policy, struct pin **ret);
struct pin *pin_ref(struct pin *pin);
void pin_unref(struct pin *pin); /* NULL is fine */
DEFINE_CLEANUP(pin, struct pin *, pin_unref)
#define _cleanup_pin_ CLEANUP(pin_cleanup)

/* Lets go of all that is held, though references remain: from here on everything is -ESTALE. */
void pin_release(struct pin *pin);
bool pin_is_released(struct pin *pin);

pid_t pin_pid(const struct pin *pin);
/* Its number in our own pid namespace, which records have. */
pid_t pin_own_pid(const struct pin *pin);
/* Field starttime of /proc/PID/stat: with the pid, what nobody else has. */
uint64_t pin_start_ticks(const struct pin *pin);
/* CLOCK_REALTIME ns. */
uint64_t pin_started_unix(const struct pin *pin);
uint64_t pin_pinned_unix(const struct pin *pin);
/* It was pinned by another process, then. Before anybody else has it. */
void pin_set_pinned_unix(struct pin *pin, uint64_t unix_ns);

/* Readable once the process has exited, all its threads. -1 when released. Belongs to pin. */
int pin_pidfd(struct pin *pin);
/* Asks the kernel, and takes note of an exit. */
bool pin_is_alive(struct pin *pin);

struct pin_exit {
	bool exited;
	uint64_t unix_ns; /* when it was noticed; 0 while alive */
	bool has_status;
	int status; /* as wait(2) has it */
};
void pin_exit(struct pin *pin, struct pin_exit *ret);

/* What to look at again. */
enum pin_look {
	PIN_LOOK_MAPS = 1 << 0, /* the maps, and the files mapped */
	PIN_LOOK_ROOT = 1 << 1,
	PIN_LOOK_TEXTS = 1 << 2, /* all other texts but cmdline */
	PIN_LOOK_EXE = 1 << 3,
	PIN_LOOK_ALL = (1 << 4) - 1,
};
/* Looks again, if the process lives. */
void pin_look(struct pin *pin, unsigned int what);

/*
 * Looks at the command line, which pin_open() leaves empty. It is read from the process's own
 * memory, and blocks for as long as the process likes if that memory is a file of a server that
 * does not answer (or userfaultfd): never to be called by a thread that serves others.
 */
void pin_look_cmdline(struct pin *pin);

/* The bytes of one text; looks before, which blocks for PIN_CMDLINE as pin_look_cmdline() does.
 * -ESTALE, -ENOMEM. */
int pin_text(struct pin *pin, enum pin_text text, struct snapshot **ret);
/* What was seen last, without looking. */
int pin_last_text(struct pin *pin, enum pin_text text, struct snapshot **ret);

/* The root as it was seen last. A reference of the caller's. -ESTALE. */
int pin_root(struct pin *pin, struct root **ret);
/* -ENOENT where it could not be held. */
int pin_exe(struct pin *pin, struct held_file **ret);

/* An fd to read the process's memory by; the caller's. -ESRCH once it has exited. */
int pin_open_memory(struct pin *pin, int *ret_fd);

struct pin_mapping {
	char name[36]; /* as in map_files */
	uint64_t start, end;
	dev_t dev; /* as maps has them */
	uint64_t inode;
	struct held_file *file; /* NULL where it could not be held */
};
struct pin_mappings {
	struct pin_mapping *mappings;
	size_t count;
};
/* Every mapping of a file, by address, as it was seen last; files are referenced. */
int pin_mappings(struct pin *pin, struct pin_mappings *ret);
void pin_mappings_deinit(struct pin_mappings *mappings);
#define _cleanup_pin_mappings_ CLEANUP(pin_mappings_deinit)
/* The file of one of them. -ENOENT. */
int pin_mapped_file(struct pin *pin, const char *name, struct held_file **ret);

#endif
