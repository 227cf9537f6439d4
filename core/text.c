/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A growing text and the notations that the tree's files share: see text.h. */
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

void text_deinit(struct text *text)
{
	free(text->data);
	*text = (struct text){};
}

char *text_reserve(struct text *text, size_t len)
{
	if (text->failed)
		return NULL;
	if (len > text->size - text->len) {
		size_t size = MAX(MAX(text->size * 2, text->len + len), (size_t)256);
		char *data = realloc(text->data, size);

		if (!data) {
			text->failed = true;
			return NULL;
		}
		text->data = data;
		text->size = size;
	}
	return text->data + text->len;
}

void text_append(struct text *text, const void *data, size_t len)
{
	char *at = len ? text_reserve(text, len) : NULL;

	if (!at)
		return;
	memcpy(at, data, len);
	text->len += len;
}

void text_puts(struct text *text, const char *string)
{
	text_append(text, string, strlen(string));
}

void text_putc(struct text *text, char c)
{
	text_append(text, &c, 1);
}

void text_vprintf(struct text *text, const char *format, va_list args)
{
	va_list again;

	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (len < 0) {
		text->failed = true;
		return;
	}
	/* One byte more, for the NUL that vsnprintf() insists on. */
	char *at = text_reserve(text, (size_t)len + 1);

	if (!at)
		return;
	vsnprintf(at, (size_t)len + 1, format, args);
	text->len += len;
}

void text_printf(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_vprintf(text, format, args);
	va_end(args);
}

void text_hex16(struct text *text, uint64_t value)
{
	char *at = text_reserve(text, 16);

	if (!at)
		return;
	for (int i = 15; i >= 0; i--, value >>= 4)
		at[i] = hex_digits[value & 0xf];
	text->len += 16;
}

void text_hexdump(struct text *text, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++) {
		char pair[2] = {hex_digits[bytes[i] >> 4], hex_digits[bytes[i] & 0xf]};

		text_append(text, pair, sizeof(pair));
	}
}

void text_seconds(struct text *text, uint64_t ns)
{
	text_printf(text, "%" PRIu64 ".%09" PRIu64, ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
}

static void escape_byte(struct text *text, unsigned char c)
{
	char escaped[4] = {'\\', '0' + (c >> 6), '0' + ((c >> 3) & 7), '0' + (c & 7)};

	text_append(text, escaped, sizeof(escaped));
}

static bool is_plain(unsigned char c, char also)
{
	return c > ' ' && c <= '~' && c != '\\' && (!also || c != (unsigned char)also);
}

static void escape(struct text *text, const char *name, size_t len, char also)
{
	for (size_t i = 0; i < len;) {
		size_t plain = 0;

		while (i + plain < len && is_plain(name[i + plain], also))
			plain++;
		text_append(text, name + i, plain);
		i += plain;
		if (i < len)
			escape_byte(text, name[i++]);
	}
}

void text_escape(struct text *text, const char *name, size_t len)
{
	escape(text, name, len, 0);
}

void text_escape_file_name(struct text *text, const char *name, size_t len)
{
	if (len == 0)
		escape_byte(text, 0);
	else if (len <= 2 && memcmp(name, "..", len) == 0)
		for (size_t i = 0; i < len; i++)
			escape_byte(text, '.');
	else
		escape(text, name, len, '/');
}

int text_take_chunk(struct text *text, struct chunk **ret)
{
	if (text->failed) {
		text_deinit(text);
		return -ENOMEM;
	}
	/* Give back the room that was not needed: chunks live long. */
	char *data = text->len ? realloc(text->data, text->len) : text->data;
	size_t len = text->len;

	if (!data)
		data = text->data;
	*text = (struct text){};
	return chunk_take(data, len, ret);
}

int text_take_snapshot(struct text *text, struct snapshot **ret)
{
	struct chunk *chunk;
	int r = text_take_chunk(text, &chunk);

	if (r < 0)
		return r;
	r = snapshot_from_chunks(&chunk, 1, ret);
	chunk_unref(chunk);
	return r;
}

int text_take_string(struct text *text, char **ret)
{
	text_putc(text, '\0');
	if (text->failed) {
		text_deinit(text);
		return -ENOMEM;
	}
	*ret = text->data;
	*text = (struct text){};
	return 0;
}

static int octal_escape(const char *s)
{
	int value = 0;

	for (int i = 1; i <= 3; i++) {
		if (s[i] < '0' || s[i] > '7')
			return -EINVAL;
		value = value * 8 + (s[i] - '0');
	}
	return value <= 0377 ? value : -EINVAL;
}

int unescape_file_name(char *name)
{
	_cleanup_text_ struct text back = {};
	_cleanup_free_ char *written = strdup(name);
	size_t written_len = strlen(name), len = 0;

	if (!written)
		return -ENOMEM;
	if (strcmp(name, "\\000") != 0) {
		for (const char *s = written; *s;) {
			int c = (unsigned char)*s;

			if (*s == '\\') {
				c = octal_escape(s);
				if (c < 0)
					return c;
				s += 3;
			}
			name[len++] = c;
			s++;
		}
	}
	name[len] = '\0';
	text_escape_file_name(&back, name, len);
	if (back.failed)
		return -ENOMEM;
	if (back.len != written_len || memcmp(back.data, written, written_len) != 0)
		return -EINVAL;
	return len;
}
