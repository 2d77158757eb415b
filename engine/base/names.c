/* names.c -- "did you mean": the nearest of a list of names.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int min3(int a, int b, int c)
{
  int m = a < b ? a : b;
  return m < c ? m : c;
}

/* Cost of writing b for a, in half edits. */
static int replace_cost(char a, char b)
{
  if (a == b) return 0;
  return tolower((unsigned char)a) == tolower((unsigned char)b) ? 1 : 2;
}

int capl_name_distance(const char *a, const char *b)
{
  size_t la = strlen(a), lb = strlen(b);
  if (la > LONGEST || lb > LONGEST) return strcmp(a, b) ? 2 * LONGEST : 0;
  int row[LONGEST + 1];
  for (size_t j = 0; j <= lb; j++) row[j] = (int)j * 2;
  for (size_t i = 1; i <= la; i++) {
    int diagonal = row[0];
    row[0] = (int)i * 2;
    for (size_t j = 1; j <= lb; j++) {
      int above = row[j];
      row[j] = min3(above + 2, row[j - 1] + 2, diagonal + replace_cost(a[i - 1], b[j - 1]));
      diagonal = above;
    }
  }
  return row[lb];
}

void capl_suggest(capl_suggestion *s, const char *candidate)
{
  int distance = capl_name_distance(s->wanted, candidate);
  int tolerated = (int)strlen(s->wanted); /* half of the letters may differ */
  if (distance > tolerated || distance > 8) return;
  if (s->nearest && distance >= s->distance) return;
  s->nearest = candidate;
  s->distance = distance;
}
