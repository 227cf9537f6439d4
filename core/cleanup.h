/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scope guards: what a function takes for its own use it gives back on every way out, without a
 * goto. A guard's variable is set before the first return, to NULL or -1 where nothing is held yet.
 */
#ifndef CORE_CLEANUP_H
#define CORE_CLEANUP_H

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A guard that is never read is still used, which clang does not see. */
#define CLEANUP(func) __attribute__((cleanup(func), unused))

/* Makes NAME_cleanup(), which hands a variable of pointer type to func unless it is NULL. */
#define DEFINE_CLEANUP(name, type, func)                                                           \
	static inline void name##_cleanup(type *p)                                                 \
	{                                                                                          \
		if (*p)                                                                            \
			func(*p);                                                                  \
	}

static inline void free_cleanup(void *p)
{
	free(*(void **)p);
}

static inline void fd_cleanup(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

DEFINE_CLEANUP(file, FILE *, fclose)
DEFINE_CLEANUP(dir, DIR *, closedir)
DEFINE_CLEANUP(unlock, pthread_mutex_t *, pthread_mutex_unlock)

#define _cleanup_free_ CLEANUP(free_cleanup)
#define _cleanup_fd_   CLEANUP(fd_cleanup)
#define _cleanup_file_ CLEANUP(file_cleanup)
#define _cleanup_dir_  CLEANUP(dir_cleanup)

static inline pthread_mutex_t *lock_mutex(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

/*
 * A mutex that inherits priority, for what real-time threads take too: who holds it while they wait
 * runs as they do, and not when nobody else wants to. A kernel without CONFIG_FUTEX_PI has plain
 * ones only.
 */
static inline void inheriting_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	if (pthread_mutex_init(mutex, &attr) != 0)
		pthread_mutex_init(mutex, NULL);
	pthread_mutexattr_destroy(&attr);
}

/* Holds a mutex to the end of the scope: `LOCKED(&table->lock);` */
#define LOCKED_NAME(line) locked_##line
#define LOCKED_LINE(mutex, line)                                                                   \
	pthread_mutex_t *LOCKED_NAME(line) CLEANUP(unlock_cleanup) = lock_mutex(mutex)
#define LOCKED_EXPAND(mutex, line) LOCKED_LINE(mutex, line)
#define LOCKED(mutex)		   LOCKED_EXPAND(mutex, __LINE__)

/* Hands a guarded value to a new owner: `*ret = take_ptr(name);` */
#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) _taken = (p);                                                        \
		(p) = NULL;                                                                        \
		_taken;                                                                            \
	})

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define NSEC_PER_SEC UINT64_C(1000000000)

#endif
