/* charset.c -- from "0-9A-Z" to the list of characters a recogniser tells apart.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "capl/field.h"

static bool usable(unsigned char c)
{
  return c > ' ' && c < 0x7f;
}

static capl_status append(char *expanded, int *n, unsigned char c, const char *spec)
{
  if (!usable(c)) return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" holds byte 0x%02x; classes are printable ASCII "
                                   "characters other than space", spec, c);
  if (memchr(expanded, c, (size_t)*n)) return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" holds '%c' twice", spec, c);
  expanded[(*n)++] = (char)c;
  return CAPL_OK;
}

capl_status capl_charset_expand(const char *spec, char expanded[CAPL_CHARSET_MAX + 1])
{
  if (!spec || !*spec) return CAPL_FAIL(CAPL_EVALUE, "the charset is empty");
  int n = 0;
  for (const unsigned char *p = (const unsigned char *)spec; *p; p++) {
    unsigned char first = *p, last = *p;
    if (p[1] == '-' && p[2]) {
      last = p[2];
      p += 2;
    }
    if (last < first)
      return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\": the range %c-%c runs backwards", spec, first, last);
    for (int c = first; c <= last; c++) CAPL_TRY(append(expanded, &n, (unsigned char)c, spec));
  }
  expanded[n] = '\0';
  return CAPL_OK;
}
