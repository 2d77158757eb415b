/* assume.c -- reads CAPL_ASSUME, by a table of its keys.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/assume.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "base/names.h"

static const char *const bf16_words[] = {"slow", "native", NULL};
static const char *const isa_words[] = {"portable", "avx2", "avx512", NULL}; /* ORDER capl_isa */
static const char *const winograd_words[] = {"never", "always", NULL};
static const char *const none[] = {"none", NULL};

/* Values are words, which count from 0, or whole numbers up to most, or bytes. */
static const struct {
  const char *key, *values;
  const char *const *words;
  int64_t least, most;
} keys[] = {
  [CAPL_ASSUME_BF16] = {.key = "bf16", .values = "native or slow", .words = bf16_words},
  [CAPL_ASSUME_ISA] = {.key = "isa", .values = "avx512, avx2 or portable", .words = isa_words},
  [CAPL_ASSUME_WINOGRAD] = {.key = "winograd", .values = "always or never", .words = winograd_words},
  [CAPL_ASSUME_CORES] = {.key = "cores", .values = "a whole number from 1 to 1024", .least = 1, .most = 1024},
  [CAPL_ASSUME_MEMORY] = {.key = "memory", .values = "a number of MB, GB or TB, as 2GB"},
  [CAPL_ASSUME_LANDLOCK] = {.key = "landlock", .values = "a whole number from 0 to 7", .least = 0, .most = 7},
  [CAPL_ASSUME_SECCOMP] = {.key = "seccomp", .values = "none", .words = none},
  [CAPL_ASSUME_GPU] = {.key = "gpu", .values = "none", .words = none},
};

/* One KEY=VALUE of the list. What is cut off was too long to be known. */
typedef struct {
  char key[24], value[24];
  bool complete; /* it has a "=" */
} part;

/* Takes the next part from *at, which is moved behind it; false at the end. Blanks around parts are left out. */
static bool next_part(const char **at, part *p)
{
  *at += strspn(*at, ", ");
  if (!**at) return false;
  size_t length = strcspn(*at, ", "), name = strcspn(*at, "=, ");
  p->complete = name < length;
  snprintf(p->key, sizeof p->key, "%.*s", (int)name, *at);
  snprintf(p->value, sizeof p->value, "%.*s", p->complete ? (int)(length - name - 1) : 0, *at + name + p->complete);
  *at += length;
  return true;
}

static int find_key(const char *name)
{
  int k = 0;
  while (k < CAPL_ASSUME_KEYS && strcmp(keys[k].key, name) != 0) k++;
  return k;
}

/* ---- values ---- */

static bool read_word(const char *const *words, const char *text, int64_t *value)
{
  for (int i = 0; words[i]; i++) {
    if (strcmp(words[i], text) != 0) continue;
    *value = i;
    return true;
  }
  return false;
}

static bool read_whole(const char *text, int64_t least, int64_t most, int64_t *value)
{
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || text[digits]) return false;
  *value = atoll(text);
  return *value >= least && *value <= most;
}

static bool read_bytes(const char *text, int64_t *value)
{
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
  char *end;
  if (!isdigit((unsigned char)*text)) return false;
  double n = strtod(text, &end);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit) == 0) *value = (int64_t)(n * units[i].bytes);
    if (strcmp(end, units[i].unit) == 0) return n > 0 && n < 1e6;
  }
  return false;
}

static bool read_value(int k, const char *text, int64_t *value)
{
  if (keys[k].words) return read_word(keys[k].words, text, value);
  return keys[k].most ? read_whole(text, keys[k].least, keys[k].most, value) : read_bytes(text, value);
}

/* ---- errors ---- */

static void suggest(capl_suggestion s, const char *what)
{
  if (s.nearest) capl_error_hint("did you mean %s%s?", s.nearest, what);
}

static capl_status unknown_key(const part *p)
{
  char list[120] = "";
  capl_suggestion s = {.wanted = p->key};
  for (int k = 0; k < CAPL_ASSUME_KEYS; k++) {
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s%s", k ? ", " : "", keys[k].key);
    capl_suggest(&s, keys[k].key);
  }
  CAPL_FAIL(CAPL_EVALUE, "CAPL_ASSUME has no key '%s'; its keys are %s", p->key, list);
  suggest(s, "=…");
  return CAPL_EVALUE;
}

static capl_status bad_value(int k, const part *p)
{
  if (!p->complete)
    return CAPL_FAIL(CAPL_EVALUE, "CAPL_ASSUME: %s needs a value: %s=…, %s", p->key, p->key, keys[k].values);
  capl_suggestion s = {.wanted = p->value};
  CAPL_FAIL(CAPL_EVALUE, "CAPL_ASSUME: %s is '%s'; it is %s", p->key, p->value, keys[k].values);
  for (int i = 0; keys[k].words && keys[k].words[i]; i++) capl_suggest(&s, keys[k].words[i]);
  suggest(s, "");
  return CAPL_EVALUE;
}

static capl_status check_isa(int64_t isa)
{
  capl_isa here = capl_isa_of_processor();
  if (isa <= (int64_t)here) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "CAPL_ASSUME: isa is %s, this processor has %s only", isa_words[isa], isa_words[here]);
  capl_error_hint("an instruction set cannot be assumed; those up to %s can be chosen", isa_words[here]);
  return CAPL_EUNSUPPORTED;
}

/* ---- asking ---- */

const char *capl_assume_text(void)
{
  const char *text = getenv("CAPL_ASSUME");
  return text && *text ? text : NULL;
}

capl_status capl_assume_check(void)
{
  bool seen[CAPL_ASSUME_KEYS] = {false};
  const char *at = capl_assume_text();
  for (part p; at && next_part(&at, &p);) {
    int64_t value;
    int k = find_key(p.key);
    if (k == CAPL_ASSUME_KEYS) return unknown_key(&p);
    if (!read_value(k, p.value, &value)) return bad_value(k, &p);
    if (seen[k]) return CAPL_FAIL(CAPL_EVALUE, "CAPL_ASSUME sets %s twice", p.key);
    seen[k] = true;
    if (k == CAPL_ASSUME_ISA) CAPL_TRY(check_isa(value));
  }
  return CAPL_OK;
}

bool capl_assumed(capl_assume_key key, int64_t *value)
{
  const char *at = capl_assume_text();
  for (part p; at && next_part(&at, &p);)
    if (find_key(p.key) == (int)key) return read_value((int)key, p.value, value);
  return false;
}
