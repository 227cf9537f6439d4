/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fuzz target without the fuzzer: feeds it each file of its corpus, and the empty input, once. So
 * every build, with whatever compiler and sanitizer, runs what fuzzing has found so far. Speaks
 * TAP.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	/* Exactly as long as the input, so that a read past its end is seen. */
	_cleanup_free_ uint8_t *data = malloc(st.st_size ? st.st_size : 1);
	if (!data)
		return -ENOMEM;
	for (off_t got = 0; got < st.st_size;) {
		ssize_t n = read(fd, data + got, st.st_size - got);

		if (n <= 0)
			return n ? -errno : -EIO;
		got += n;
	}
	LLVMFuzzerTestOneInput(data, st.st_size);
	return 0;
}

int main(int argc, char **argv)
{
	int cases = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* As a fuzzer hands it: a pointer to nothing, but not NULL. */
	_cleanup_free_ uint8_t *nothing = malloc(1);
	if (!nothing)
		return 1;
	LLVMFuzzerTestOneInput(nothing, 0);
	printf("ok 1 - the empty input\n");
	_cleanup_dir_ DIR *dir = argc > 1 ? opendir(argv[1]) : NULL;
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		int err = replay(dirfd(dir), entry->d_name);
		printf("%sok %d - %s%s%s\n", err ? "not " : "", ++cases, entry->d_name,
		       err ? ": " : "", err ? strerror(-err) : "");
	}
	printf("1..%d\n", cases);
	return 0;
}
