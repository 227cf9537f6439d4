/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FUSE file systems that leave whoever asks waiting, for tests and benchmarks. What fails ends the
 * process, with a line that says what.
 */
#ifndef TESTS_DEADFUSE_H
#define TESTS_DEADFUSE_H

/*
 * One of type fuse.`subtype` on path, which nobody ever answers for. Lives as long as the fd and
 * what inherits it.
 */
int mount_dead_fuse(const char *path, const char *subtype);
/*
 * One whose server answers all that is asked, but not READ: every name is a file of 4096 bytes. The
 * server is a child that lives as long as its parent.
 */
void mount_mute_fuse(const char *path);

#endif
