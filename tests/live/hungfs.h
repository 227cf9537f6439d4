/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A FUSE file system of one file that can stop to answer, as a dead server does. Its process is a
 * child; whatever hangs in it ends with it.
 */
#ifndef TESTS_LIVE_HUNGFS_H
#define TESTS_LIVE_HUNGFS_H

struct hungfs;

/* Mounts on an empty directory a file that has the bytes of `source`. */
struct hungfs *hungfs_start(const char *dir, const char *source);
/* The path of that file; the caller frees. */
char *hungfs_path(const struct hungfs *hungfs);
void hungfs_hang(struct hungfs *hungfs);
void hungfs_answer(struct hungfs *hungfs);
void hungfs_stop(struct hungfs *hungfs);

#endif
