/* json.c -- JSON on cJSON: what cJSON takes is looked through before and after, and numbers are written exactly.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MOST_VALUES = 2097152, MOST_DEPTH = 200, NUMBER = 32 /* bytes of a number's text */ };

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
  const json_rules *rules;
  const char *text, *at, *end;
} reader;

/* "manifest.json:3: broken JSON at column 7", of the place at which the reader stands. */
static capl_status broken(const reader *r, const char *what)
{
  const char *name = r->rules->name, *line = r->text;
  unsigned number = r->rules->line ? r->rules->line : 1;
  for (const char *p = r->text; p < r->at; p++)
    if (*p == '\n') number++, line = p + 1;
  int column = (int)(r->at - line) + 1;
  if (name) return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s at column %d", name, number, what, column);
  return CAPL_FAIL(CAPL_EFORMAT, "%s at line %u, column %d", what, number, column);
}

static capl_status too_many(const reader *r, const char *what, int most)
{
  char text[64];
  snprintf(text, sizeof text, "JSON with more than %d %s", most, what);
  return broken(r, text);
}

/* Steps over a text in quotes, up to the last of them. */
static capl_status scan_text(reader *r)
{
  for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
    if ((unsigned char)*r->at < 0x20) return broken(r, "JSON with a control character in a text");
    if (*r->at != '\\' || ++r->at == r->end) continue;
    if (r->end - r->at >= 5 && memcmp(r->at, "u0000", 5) == 0) return broken(r, "JSON with a zero byte in a text");
  }
  return CAPL_OK;
}

static bool leads_with_zero(const reader *r)
{
  const char *p = r->at + (*r->at == '-');
  bool begins = r->at == r->text || !strchr("0123456789.eE+-", r->at[-1]);
  return begins && p + 1 < r->end && p[0] == '0' && isdigit((unsigned char)p[1]);
}

/* What cJSON lets pass; and what would take much memory or stack, before it does. */
static capl_status scan(reader *r)
{
  const json_rules *rules = r->rules;
  int values = 1, depth = 0;
  int most_values = rules->most_values ? rules->most_values : MOST_VALUES,
      most_depth = rules->most_depth ? rules->most_depth : MOST_DEPTH;
  if (rules->most_bytes && (size_t)(r->end - r->text) > rules->most_bytes)
    return too_many(r, "bytes", (int)rules->most_bytes);
  for (; r->at < r->end; r->at++) {
    char c = *r->at;
    if (c == '"') CAPL_TRY(scan_text(r));
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    values += c == ',' || c == '[' || c == '{';
    if (values > most_values) return too_many(r, "values", most_values);
    if (depth > most_depth) return too_many(r, "levels", most_depth);
    if (c == '\0') return broken(r, "JSON with a zero byte");
    if ((c == '-' || c == '0') && leads_with_zero(r)) return broken(r, "JSON with a number that starts with 0");
  }
  return CAPL_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

bool json_twice(const cJSON *object, const char **key)
{
  size_t n = 0;
  const cJSON *child;
  const char **keys = malloc(((size_t)cJSON_GetArraySize(object) + 1) * sizeof *keys);
  *key = NULL;
  if (!keys) return false;
  cJSON_ArrayForEach(child, object) keys[n++] = child->string;
  qsort(keys, n, sizeof *keys, by_text);
  for (size_t i = 1; i < n && !*key; i++)
    if (strcmp(keys[i], keys[i - 1]) == 0) *key = keys[i];
  free(keys);
  return true;
}

/* Whether the text in quotes that the reader has read to its end is a key. */
static bool is_key(const reader *r)
{
  const char *p = r->at + 1;
  while (p < r->end && (unsigned char)*p <= ' ') p++;
  return p < r->end && *p == ':';
}

/* Goes to value number n of a text without mistakes, 0 = the whole, in the order of the text: to its key, if any. */
static void go_to(reader *r, int n)
{
  const char *begin = NULL;
  for (r->at = r->text; r->at < r->end; r->at++) {
    char c = *r->at;
    if (!strchr("\"[{-0123456789tfn", c)) continue;
    begin = begin ? begin : r->at;
    if (c == '"') (void)scan_text(r);
    if (c == '"' && is_key(r)) continue;
    if (n-- == 0) break;
    begin = NULL;
    if (strchr("\"[{", c)) continue;
    while (r->at + 1 < r->end && strchr("0123456789+-.eEalrsu", r->at[1])) r->at++; /* the rest of a number or a word */
  }
  r->at = begin ? begin : r->text;
}

/* Counts the values of a tree up to one of them: its number, in *n. */
static bool count_to(const cJSON *item, const cJSON *tree, int *n)
{
  const cJSON *child;
  if (item == tree) return true;
  ++*n;
  cJSON_ArrayForEach(child, tree)
    if (count_to(item, child, n)) return true;
  return false;
}

static capl_status broken_at(reader *r, const cJSON *root, const cJSON *item, const char *what)
{
  int n = 0;
  count_to(item, root, &n);
  go_to(r, n);
  return broken(r, what);
}

/* The second child with that key. */
static const cJSON *second_of(const cJSON *object, const char *key)
{
  const cJSON *child, *found = NULL;
  cJSON_ArrayForEach(child, object) {
    if (strcmp(child->string, key) != 0) continue;
    if (found) return child;
    found = child;
  }
  return found;
}

/* What can be seen only once the text has become values. */
static capl_status check_values(reader *r, const cJSON *root, const cJSON *item)
{
  const char *twice = NULL;
  const cJSON *child;
  char key[100], what[160];
  if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
    return broken_at(r, root, item, "JSON with a number that is too large");
  if (r->rules->no_null && cJSON_IsNull(item)) {
    capl_text_show(key, sizeof key, item->string ? item->string : "", false);
    snprintf(what, sizeof what, "JSON with %s%s%snull, which is not allowed here,", item->string ? "\"" : "", key,
             item->string ? "\" = " : "");
    return broken_at(r, root, item, what);
  }
  if (r->rules->unique && cJSON_IsObject(item) && !json_twice(item, &twice))
    return CAPL_FAIL(CAPL_ENOMEM, "no memory to read JSON");
  if (twice) {
    capl_text_show(key, sizeof key, twice, false);
    snprintf(what, sizeof what, "JSON with the key \"%s\" twice", key);
    return broken_at(r, root, second_of(item, twice), what);
  }
  cJSON_ArrayForEach(child, item) CAPL_TRY(check_values(r, root, child));
  return CAPL_OK;
}

/* Behind the value there are blanks only. */
static bool ends_there(reader *r)
{
  while (r->at < r->end && strchr(" \t\r\n", *r->at)) r->at++;
  return r->at == r->end;
}

/* cJSON does not say that it found no memory, which must not pass for a broken file; and it prints what it could not
** build without the part that failed. */
static _Thread_local bool no_memory;

static void *remember_failure(size_t n)
{
  void *p = malloc(n);
  no_memory = no_memory || !p;
  return p;
}

__attribute__((constructor)) static void set_hooks(void)
{
  cJSON_InitHooks(&(cJSON_Hooks){remember_failure, free});
}

static cJSON *parse(reader *r)
{
  no_memory = false;
  return cJSON_ParseWithLengthOpts(r->text, (size_t)(r->end - r->text), &r->at, false);
}

capl_status json_read(const json_rules *rules, const char *text, size_t len, cJSON **out)
{
  static const json_rules none;
  reader r = {rules ? rules : &none, text, text, text + len};
  *out = NULL;
  CAPL_TRY(scan(&r));
  r.at = text;
  JSON_OWNED *root = parse(&r);
  if (!root && no_memory)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the JSON of %s", r.rules->name ? r.rules->name : "a text");
  if (!root || !ends_there(&r)) return broken(&r, "broken JSON");
  CAPL_TRY(check_values(&r, root, root));
  *out = root;
  root = NULL;
  return CAPL_OK;
}

bool json_whole(const cJSON *item, double low, double high, int64_t *out)
{
  if (!cJSON_IsNumber(item)) return false;
  double v = item->valuedouble;
  if (!(v >= low && v <= high) || v != floor(v)) return false;
  *out = (int64_t)v;
  return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* text: NUMBER bytes. */
static void number_text(char *text, double x, int digits)
{
  bool whole = x == floor(x) && fabs(x) < 0x1p53;
  if (!isfinite(x)) snprintf(text, NUMBER, "null");
  else if (whole) snprintf(text, NUMBER, "%.0f", x);
  else snprintf(text, NUMBER, "%.*g", digits ? digits : 15, x);
  if (isfinite(x) && !whole && !digits && strtod(text, NULL) != x) snprintf(text, NUMBER, "%.17g", x);
}

/* cJSON's own numbers lose what lies beyond 15 digits where that is within its tolerance. */
static bool make_exact(cJSON *item)
{
  char text[NUMBER];
  cJSON *child;
  if (cJSON_IsNumber(item)) {
    number_text(text, item->valuedouble, 0);
    item->valuestring = strdup(text);
    item->type = (item->type & ~0xff) | cJSON_Raw;
    return item->valuestring != NULL;
  }
  cJSON_ArrayForEach(child, item)
    if (!make_exact(child)) return false;
  return true;
}

char *json_print(cJSON *root, bool lines)
{
  bool built = make_exact(root) && !no_memory;
  no_memory = false;
  if (!built) return NULL;
  return lines ? cJSON_Print(root) : cJSON_PrintUnformatted(root);
}

void json_put_number(FILE *out, double x, int digits)
{
  char text[NUMBER];
  number_text(text, x, digits);
  fputs(text, out);
}

void json_put_text(FILE *out, const char *text, size_t len)
{
  fputc('"', out);
  for (const char *p = text; p < text + len;) {
    static const char plain[] = "\"\\\n\r\t", letter[] = "\"\\nrt";
    const char *found = *p ? strchr(plain, *p) : NULL;
    int n = capl_text_char(p);
    if (found) fprintf(out, "\\%c", letter[found - plain]);
    else if (iscntrl((unsigned char)*p)) fprintf(out, "\\u%04x", (unsigned)*p);
    else if (n == 0) fputs("\xef\xbf\xbd", out);
    else fwrite(p, 1, (size_t)n, out);
    p += n ? n : 1;
  }
  fputc('"', out);
}
