/* names.c -- "did you mean": the nearest of a list of names.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/names.h"

#include <ctype.h>
#include <stdbool.h>
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

/* Whether b has a's two letters the other way round: one slip of the fingers. */
static bool is_swapped(const char *a, const char *b) { return a[0] == b[1] && a[1] == b[0] && a[0] != a[1]; }

int capl_name_distance(const char *a, const char *b)
{
  size_t la = strlen(a), lb = strlen(b);
  if (la > LONGEST || lb > LONGEST) return strcmp(a, b) ? 2 * LONGEST : 0;
  int rows[3][LONGEST + 1]; /* costs of the first i letters, of i - 1 and of i - 2 */
  for (size_t j = 0; j <= lb; j++) rows[0][j] = (int)j * 2;
  for (size_t i = 1; i <= la; i++) {
    int *row = rows[i % 3], *former = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = (int)i * 2;
    for (size_t j = 1; j <= lb; j++) {
      row[j] = min3(former[j] + 2, row[j - 1] + 2, former[j - 1] + replace_cost(a[i - 1], b[j - 1]));
      if (i > 1 && j > 1 && is_swapped(a + i - 2, b + j - 2) && before[j - 2] + 2 < row[j]) row[j] = before[j - 2] + 2;
    }
  }
  return rows[la % 3][lb];
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
