/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text that grows at its end, and the few notations that every file of the tree shares: fixed-width
 * lower-case hex, seconds with nine decimals, and names with what does not print written \ooo.
 *
 * Failure is sticky: after an allocation failed, further calls do nothing and the taker reports it,
 * so that callers need not check each line they write. Not for sharing between threads.
 */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot.h"

struct text {
	char *data; /* not NUL-terminated */
	size_t len;
	size_t size;
	bool failed;
};

void text_deinit(struct text *text);
#define _cleanup_text_ CLEANUP(text_deinit)

void text_append(struct text *text, const void *data, size_t len);
void text_puts(struct text *text, const char *string);
void text_putc(struct text *text, char c);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(struct text *text, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
/* value as exactly 16 hex digits. */
void text_hex16(struct text *text, uint64_t value);
/* bytes as 2 * len hex digits. */
void text_hexdump(struct text *text, const void *data, size_t len);
/* ns as seconds with nine decimals. */
void text_seconds(struct text *text, uint64_t ns);
/*
 * len bytes of a name or path, blanks, backslashes and bytes that do not print (outside 0x21 to
 * 0x7e) as \ooo: never a blank, a newline or a quote's worth of doubt in a field of a line.
 */
void text_escape(struct text *text, const char *name, size_t len);
/*
 * The same as a file name: `/` is escaped too, and `.`, `..` and the empty name become \056,
 * \056\056 and \000.
 */
void text_escape_file_name(struct text *text, const char *name, size_t len);
/* Makes room for len more bytes and returns where they go, to be added to text->len; or NULL. */
char *text_reserve(struct text *text, size_t len);

/* Makes the text a chunk or a snapshot and leaves it empty. -ENOMEM, also for an earlier failure.
 */
int text_take_chunk(struct text *text, struct chunk **ret);
int text_take_snapshot(struct text *text, struct snapshot **ret);
/* Makes the text a NUL-terminated string of the caller's and leaves it empty. -ENOMEM. */
int text_take_string(struct text *text, char **ret);

/*
 * Undoes text_escape_file_name() in place: \ooo becomes its byte. Returns the new length, or
 * -EINVAL for a backslash that three octal digits up to \377 do not follow, and for a name that is
 * not written as text_escape_file_name() writes it (so that each name has one file name only).
 */
int unescape_file_name(char *name);

#endif
