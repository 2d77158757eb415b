/* unicode.h -- what libutf8proc knows of characters: normal form C, case, width, which ones are visible.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELDS_UNICODE_H
#define CAPL_FIELDS_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "capl/field.h"

enum { UNICODE_BYTES = 4 /* of a character in UTF-8 */, UNICODE_LAST = 0x10ffff };

/* The code point at p, NUL-ended UTF-8, and its bytes; -1 and 0 bytes where p is no UTF-8. */
CAPL_API int32_t unicode_at(const char *p, int *bytes);
/* UTF-8 of a code point, NUL-ended -> its bytes; 0 for a surrogate or beyond the last. */
int unicode_write(int32_t code, char to[UNICODE_BYTES + 1]);
/* Assigned, and neither a blank, a line break, a control character nor one without a shape. */
bool unicode_is_visible(int32_t code);
/* Characters of a text; one byte that is no UTF-8 counts as one. */
int unicode_count(const char *text);

#endif
