/* damage.h -- puts every value of a JSON file to the test: replaced by what an attacker or a bad disk might put there.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_DAMAGE_H
#define CAPL_TESTS_DAMAGE_H

#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const replacements[] = {
  "0", "1", "-1", "2", "3", "7", "255", "1048576", "1048577", "2147483647", "4294967296", "4611686018427387904",
  "9007199254740992", "-9007199254740992", "1e300", "-1e300", "0.5", "null", "true", "\"x\"", "\"i64\"", "\"matmul\"",
  "\"sum\"", "\"expand\"", "[]", "{}", "[1]", "[0,0]", "[-1,-1]", "[1,2,3,4,5,6]", "[1,2,3,4,5,6,7]", "{\"batch\": 1}",
  "{\"batch\": 16777216}", "{\"batch\": -1}",
};
enum { REPLACEMENTS = sizeof replacements / sizeof *replacements };

static inline char *read_text(const char *path, size_t *len)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  *len = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  return text;
}

static inline void write_parts(const char *path, const char *head, size_t n, const char *middle, const char *tail)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(head, 1, n, file);
  fputs(middle, file);
  fputs(tail, file);
  fclose(file);
}

/* Length of the value that begins here (a word, number, text, list or object); 0 where none does. */
static inline size_t value_length(const char *p)
{
  if (*p == '"') return strcspn(p + 1, "\"") + 2;
  if (*p != '[' && *p != '{') return strspn(p, "-+.0123456789eE") + strspn(p, "abcdefghijklmnopqrstuvwxyz");
  size_t n = 0;
  int depth = 0;
  do {
    depth += (p[n] == '[' || p[n] == '{') - (p[n] == ']' || p[n] == '}');
    n++;
  } while (depth > 0 && p[n]);
  return n;
}

/* Replaces one value of the file after the other and calls attempt(user), which returns whether the damage went
** unnoticed; the file is sound again afterwards. Tries every step-th pair of value and replacement, all of them with
** CAPL_FUZZ=1. */
static inline void damage_every_value(const char *path, int step, bool (*attempt)(const char *user), const char *user)
{
  size_t len;
  char *text = read_text(path, &len);
  int tried = 0, ran = 0, at = 0;
  if (getenv("CAPL_FUZZ")) step = 1;
  for (size_t i = 0; i < len;) {
    size_t n = value_length(text + i);
    for (int k = 0; n && k < REPLACEMENTS; k++) {
      if (at++ % step) continue;
      write_parts(path, text, i, replacements[k], text + i + n);
      ran += attempt(user);
      tried++;
    }
    bool list = text[i] == '[' || text[i] == '{'; /* its members come next */
    i += n && !list ? n : 1;
  }
  write_parts(path, text, len, "", "");
  free(text);
  assert_true(tried > 100 && ran < tried);
}

#endif
