/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The providers as a program, position-independent or not: says that it runs, and waits. */
#include <unistd.h>

#include "provider.h"

int main(void)
{
	char c = kstest_fire(1) == 0;

	return write(1, &c, 1) != 1 || read(0, &c, 1) != 0;
}
