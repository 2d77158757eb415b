/* base64.h -- bytes as text of 64 characters, and back.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERVE_BASE64_H
#define CAPL_SERVE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that base64_decode needs room for, of a text of n characters. */
static inline size_t base64_room(size_t n) { return n / 4 * 3 + 3; }

/* Blanks and line breaks are skipped; '=' may be missing at the end. *size: bytes written. false: *wrong is the place
** of a character that does not belong there, or n where the text ends too early. */
bool base64_decode(const char *text, size_t n, uint8_t *out, size_t *size, size_t *wrong);

/* With '=' at the end. Caller frees it with free(). NULL: no memory. */
char *base64_encode(const void *bytes, size_t n);

#endif
