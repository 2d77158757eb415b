/* text.h -- texts from outside made fit to show: file names, labels, reasons of the system.
**
** A file name may hold anything but '/' and NUL: line breaks, commands to the terminal, bytes of another encoding.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_TEXT_H
#define CAPL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

/* Bytes of the UTF-8 character at p, 1..4; 0 = no valid one. p: NUL-ended. */
CAPL_API int capl_text_char(const char *p);
/* Whether all of a NUL-ended text is UTF-8. */
CAPL_API bool capl_text_is_utf8(const char *text);

/* Copies from to to: control characters, those that turn a line's direction, and bytes that are no UTF-8 come out as
** \x1b, line breaks and tabs as \n and \t unless lines. What does not fit into room bytes (16 at least) is left out in
** the middle, where a … stands. */
CAPL_API void capl_text_show(char *to, size_t room, const char *from, bool lines);

/* The same for one character, also for a zero byte: it comes out in piece, its length in *n -> the bytes it takes from
** p. */
CAPL_API int capl_text_show_char(const char *p, bool lines, char piece[16], size_t *n);

/* The system's reason for errno value err, with what to do about it where that is known. Static, or the thread's. */
CAPL_API const char *capl_errno_text(int err);

#endif
