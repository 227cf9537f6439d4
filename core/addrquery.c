/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of addr/: see addrquery.h. */
#include "core/addrquery.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/cleanup.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Each parser moves *at past what it took. */
static int parse_addr(const char **at, uint64_t *ret)
{
	const char *s = *at;
	uint64_t value = 0;
	int digits = 0;

	if (s[0] == '0' && (s[1] | 0x20) == 'x')
		s += 2;
	for (int digit; (digit = hex_digit(*s)) >= 0; s++) {
		if (++digits > 16)
			return -EINVAL;
		value = value << 4 | (unsigned int)digit;
	}
	if (!digits)
		return -EINVAL;
	*at = s;
	*ret = value;
	return 0;
}

static int parse_decimal(const char **at, uint64_t *ret)
{
	const char *s = *at;
	uint64_t value = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -EINVAL;
	}
	if (s == *at)
		return -EINVAL;
	*at = s;
	*ret = value;
	return 0;
}

/* The decimals of a second as ns: "5" is 500000000. */
static int parse_fraction(const char **at, uint64_t *ret)
{
	const char *start = *at;
	int r = parse_decimal(at, ret);

	if (r < 0)
		return r;
	if (*at - start > 9)
		return -EINVAL;
	for (ptrdiff_t i = *at - start; i < 9; i++)
		*ret *= 10;
	return 0;
}

static int parse_time(const char **at, uint64_t *ret)
{
	uint64_t fraction = 0;
	int r = parse_decimal(at, ret);

	if (r < 0)
		return r;
	if (strncmp(*at, "ns", 2) == 0) {
		*at += 2;
	} else {
		if (**at == '.') {
			(*at)++;
			r = parse_fraction(at, &fraction);
			if (r < 0)
				return r;
		}
		if (__builtin_mul_overflow(*ret, NSEC_PER_SEC, ret) ||
		    __builtin_add_overflow(*ret, fraction, ret))
			return -EINVAL;
	}
	/* The one value that stands for the present, where a time is asked for. */
	return *ret == UINT64_MAX ? -EINVAL : 0;
}

int addrquery_parse(const char *name, struct addrquery *ret)
{
	struct addrquery query = {};
	int r = parse_addr(&name, &query.addr);

	if (r < 0)
		return r;
	if (strncmp(name, "-1", 2) == 0) {
		if (query.addr == 0)
			return -EINVAL;
		query.addr--;
		name += 2;
	}
	if (*name == '@') {
		name++;
		query.has_time = true;
		r = parse_time(&name, &query.time);
		if (r < 0)
			return r;
	}
	if (*name)
		return -EINVAL;
	*ret = query;
	return 0;
}
