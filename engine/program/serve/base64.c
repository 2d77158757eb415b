/* base64.c -- bytes as text of 64 characters, and back.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/serve/base64.h"

#include <stdlib.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0..63; -1 = none of them. */
static int value_of(char c)
{
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Behind the letters: blanks, and as many '=' as the last group of four lacks, or none. */
static bool check_end(const char *text, size_t n, size_t at, unsigned count, size_t *wrong)
{
  unsigned lacking = (4 - count % 4) % 4, found = 0;
  for (; at < n; at++) {
    if (is_blank(text[at])) continue;
    if (text[at] != '=' || found == lacking) return *wrong = at, false;
    found++;
  }
  if (lacking == 3 || (found > 0 && found < lacking)) return *wrong = n, false;
  return true;
}

bool base64_decode(const char *text, size_t n, uint8_t *out, size_t *size, size_t *wrong)
{
  size_t at = 0, used = 0;
  unsigned count = 0;
  uint32_t bits = 0;
  for (; at < n && text[at] != '='; at++) {
    int value = value_of(text[at]);
    if (value < 0 && is_blank(text[at])) continue;
    if (value < 0) return *wrong = at, false;
    bits = bits << 6 | (uint32_t)value;
    if (count++ % 4 == 0) continue;
    out[used++] = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
  }
  *size = used;
  return check_end(text, n, at, count % 4, wrong);
}

char *base64_encode(const void *bytes, size_t n)
{
  const uint8_t *from = bytes;
  char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;
  for (size_t i = 0; text && i < n; i += 3) {
    uint32_t bits = (uint32_t)from[i] << 16;
    if (i + 1 < n) bits |= (uint32_t)from[i + 1] << 8;
    if (i + 2 < n) bits |= from[i + 2];
    for (int k = 0; k < 4; k++) *to++ = i + (size_t)k <= n ? letters[bits >> (18 - 6 * k) & 63] : '=';
  }
  if (text) *to = '\0';
  return text;
}
