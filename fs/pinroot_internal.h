/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What pinroot.c (trees and lookups), pincall.c, pinattr.c and pinfile.c (open files) share. */
#ifndef FS_PINROOT_INTERNAL_H
#define FS_PINROOT_INTERNAL_H

#include <pthread.h>

#include "core/offload.h"
#include "fs/handle.h"
#include "fs/pinnode.h"
#include "fs/pinroot.h"

/* Threads for what other people's file systems can hold up. */
#define PINROOT_WORKERS 64
/* A call that takes longer hangs. */
#define PINCALL_STUCK_NS NSEC_PER_SEC

/* A process's root, and what else is held of it, as long as it is the same root. */
struct pintree {
	struct pinroot *pinroot;
	struct pintree *next; /* among those that are not dead */
	unsigned int refs;
	struct pin *pin;
	struct root *root; /* NULL when dead */
	uint64_t number;   /* root_number() */
	bool dead;
	struct pinnode *exe;
};

struct pinroot {
	struct session *session;
	struct pinset *pins;
	struct offload *offload; /* for lookups: see pinlook.c */
	struct pinnodes nodes;
	struct pinnode *hidden;
	struct timespec created;
	size_t resumed_nodes, resumed_files; /* taken over from another process */

	/* Of trees and calls. Before that of the nodes. */
	pthread_mutex_t lock;
	struct pintree *trees;
	struct pincall *calls; /* in progress */
	pthread_cond_t left;   /* one has ended */
	uint64_t refused;      /* calls, because too many hung */

	struct handles handles;
	/* Of what open files share. Before that of the nodes. */
	pthread_mutex_t file_lock;
};

/* A request, from its arrival on a worker to its answer. */
struct pincall {
	struct pinroot *pinroot;
	struct pinnode *node;
	struct pintree *tree; /* NULL for the hidden directory, as is root */
	struct root *root;
	struct held_file *file; /* of a held one */
	struct pincall *next;
	uint64_t since; /* CLOCK_MONOTONIC ns */

	/* The directory that the call has an fd of. */
	struct pinnode *dir_node;
	struct root_dir dir;
	struct text path;
};

/* pincall.c */
/* -ESTALE: no such node, or what it belongs to is gone; -EBUSY. */
int pincall_begin(struct pincall *call, void *pinroot, uint64_t id);
void pincall_end(struct pincall *call);
/* Makes it a call into this tree, for one that began above all trees. As pincall_begin(). */
int pincall_join(struct pincall *call, struct pintree *tree);
#define _cleanup_pincall_ CLEANUP(pincall_end)
#define PINCALL_NONE                                                                               \
	(struct pincall)                                                                           \
	{                                                                                          \
	}

/* Makes call->dir the directory that node is, which is the call's node or its parent. */
int pincall_use_dir(struct pincall *call, struct pinnode *node);
/* An O_PATH fd of the call's node, a file; the caller's. */
int pincall_open(struct pincall *call, int *ret_fd);
/* Is it for want of fds that something failed? Then room has been made, and once more is worth it.
 */
bool pinroot_make_room(struct pinroot *pinroot, int r);

/* pinroot.c */
/* The tree of what a pin has as its root now; the caller's reference. */
int pinroot_get_tree(struct pinroot *pinroot, struct pin *pin, struct pintree **ret);
/* Keeps a node for as long as it is the one of the executable. Takes the caller's reference. */
void pinroot_set_exe(struct pinroot *pinroot, struct pintree *tree, struct pinnode *node);

/* pinleft.c: makes the nodes again that another process has left. */
void pinleft_resume(struct pinroot *pinroot);

/* Attributes of a node that is no entry of a root. */
int pinroot_stat_node(struct pincall *call, struct pinnode *node, struct stat *attr);

/*
 * pinlook.c: what there is in the directory call->dir, and if it is a link, where that is shown to
 * lead: a string of the caller's, also on failure, or NULL. -ETIMEDOUT.
 */
int pincall_look(struct pincall *call, const char *name, struct root_entry *ret, char **ret_target);

/* pinattr.c */
/* target: of a link, or NULL. */
void pinattr_fill_entry(const struct root_entry *entry, const char *target, struct stat *ret);
void pinattr_fill(const struct statx *stx, struct stat *ret);
void pinattr_fill_dir(const struct pincall *call, const struct pinnode *node, struct stat *ret);
double pinattr_timeout(const struct stat *attr);
uint64_t pinattr_ino(dev_t dev, uint64_t ino);
int pinroot_getattr(void *pinroot, uint64_t id, const struct view_caller *caller, struct stat *ret,
		    double *ret_timeout);
int pinroot_readlink(void *pinroot, uint64_t id, const struct view_caller *caller, char **ret);
ssize_t pinroot_getxattr(void *pinroot, uint64_t id, const struct view_caller *caller,
			 const char *name, void *buf, size_t size);
ssize_t pinroot_listxattr(void *pinroot, uint64_t id, const struct view_caller *caller, void *buf,
			  size_t size);
int pinroot_statfs(void *pinroot, uint64_t id, struct statvfs *ret);

/* pinfile.c */
int pinfile_open(void *pinroot, uint64_t id, const struct view_caller *caller,
		 struct fuse_file_info *fi, int32_t *ret_backing);
ssize_t pinfile_read(void *pinroot, uint64_t id, uint64_t fh, uint64_t offset, void *buf,
		     size_t len);
void pinfile_release(void *pinroot, uint64_t id, uint64_t fh);
int pinfile_opendir(void *pinroot, uint64_t id, const struct view_caller *caller,
		    struct fuse_file_info *fi);
int pinfile_readdir(void *pinroot, uint64_t id, uint64_t fh, uint64_t offset,
		    struct foreign_listing *listing);
/* Closes what is open of a tree. */
void pinfiles_drop(struct pinroot *pinroot, const struct pintree *tree);
void pinfile_destroy_handle(struct handle *handle);
/* Takes over what another process had open of the nodes that are there again. */
void pinfiles_resume(struct pinroot *pinroot);
/* What an open file of this node is like now. -ENOENT: none is open. */
int pinfile_stat(struct pinroot *pinroot, struct pinnode *node, struct statx *ret);

#endif
