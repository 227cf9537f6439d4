/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What went wrong: see complain.h. */
#include "fs/complain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void complain(const struct text *error, int r)
{
	const char *what_to_do = "";

	if (r == -EMFILE)
		what_to_do = "; raise this process's limit (ulimit -n)";
	else if (r == -ENFILE)
		what_to_do = "; raise the system's limit (sysctl fs.file-max)";
	if (error->len && !error->failed)
		fprintf(stderr, "ksymfs: %.*s%s\n", (int)error->len, error->data, what_to_do);
	else
		fprintf(stderr, "ksymfs: cannot go on: %s%s\n", strerror(-r), what_to_do);
}
