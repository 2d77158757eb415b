/* header.c -- reads a recipe's header lines and says exactly what is wrong with them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _POSIX_C_SOURCE 200809L
#include "program/header.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "capl/capl.h"
#include "program/recipe_file.h"

/* ---- one line -------------------------------------------------------------------------------- */

typedef struct {
  const char *path;
  int line;
  bool seen_capl, seen_needs;
  capl_header *header;
} reader;

static capl_status unknown_key(const reader *r, const char *kind, const char *key, const char *const *list)
{
  capl_suggestion s = {.wanted = key};
  for (; *list; list++) capl_suggest(&s, *list);
  if (!s.nearest) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: unknown %s '%s'", r->path, r->line, kind, key);
  return CAPL_FAIL(CAPL_EVALUE, "%s:%d: unknown %s '%s'; did you mean '%s'?", r->path, r->line, kind, key, s.nearest);
}

static capl_status need_ranks(const reader *r, const char *value)
{
  char *end;
  long n = strtol(value, &end, 10);
  if (strcmp(value, "gpus") == 0)
    r->header->ranks = 0;
  else if (*value && !*end && n >= 1 && n <= 4096)
    r->header->ranks = (int)n;
  else
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: ranks is a number of processes or 'gpus', not '%s'", r->path, r->line,
                     value);
  return CAPL_OK;
}

static capl_status need_read(const reader *r, const char *value)
{
  if (!*value)
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: read names folders, separated by commas", r->path, r->line);
  if (strlen(value) >= CAPL_HEADER_TEXT)
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: read is longer than %d characters", r->path, r->line,
                     CAPL_HEADER_TEXT - 1);
  strcpy(r->header->read, value);
  return CAPL_OK;
}

static capl_status need_minutes(const reader *r, const char *value)
{
  char *end;
  double minutes = strtod(value, &end);
  if (!*value || *end || !(minutes > 0) || !isfinite(minutes))
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: minutes is a number above 0, not '%s'", r->path, r->line, value);
  r->header->minutes = minutes;
  return CAPL_OK;
}

/* "8GB", "500 MB" without the blank -> bytes; 0 = it is no such text. */
static double bytes_of(const char *value)
{
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  char *end;
  double number = isdigit((unsigned char)*value) ? strtod(value, &end) : 0;
  for (size_t i = 0; number > 0 && i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0 && number * units[i].bytes <= 1e18) return number * units[i].bytes;
  return 0;
}

static capl_status need_bytes(const reader *r, const char *name, const char *value, double *out)
{
  *out = bytes_of(value);
  if (*out >= 1e6) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s:%d: %s is an amount such as 500MB, 8GB or 1TB, not '%s'", r->path, r->line, name,
                   value);
}

static capl_status need_memory(const reader *r,
                               const char *value) { return need_bytes(r, "memory", value, &r->header->memory); }
static capl_status need_output(const reader *r,
                               const char *value) { return need_bytes(r, "output", value, &r->header->output); }

/* A recipe for a later program: what is here cannot know what it says. */
static capl_status too_new(const reader *r, const char *what, const char *version)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%s:%d: the recipe needs %s %s or newer, this is capl %s", r->path, r->line, what,
            version, capl_version());
  capl_error_hint("update capl: in its checkout git pull and scripts/build, else fetch the newest release; capl "
                  "--version shows what "
                  "is installed");
  return CAPL_EUNSUPPORTED;
}

enum { VERSION_PARTS = 3 };

/* "0.9" -> {0, 9, 0}; false = no version. */
static bool version_parts(const char *text, long part[VERSION_PARTS])
{
  for (int i = 0; i < VERSION_PARTS; i++) {
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    part[i] = strtol(text, &end, 10);
    if (end - text > 6) return false;
    text = end;
    if (*text == '.' && i + 1 < VERSION_PARTS) text++;
    else break;
  }
  return *text == '\0';
}

static capl_status need_program(const reader *r, const char *value)
{
  long wanted[VERSION_PARTS] = {0}, here[VERSION_PARTS] = {0};
  if (!version_parts(value, wanted))
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: version is that of a program, such as %s, not '%s'", r->path, r->line,
                     capl_version(), value);
  strcpy(r->header->program, value);
  version_parts(capl_version(), here);
  for (int i = 0; i < VERSION_PARTS; i++)
    if (wanted[i] != here[i]) return wanted[i] > here[i] ? too_new(r, "capl", value) : CAPL_OK;
  return CAPL_OK;
}

/* What a recipe may say it needs. */
static const struct {
  const char *name;
  capl_status (*set)(const reader *r, const char *value);
} needs[] = {{"ranks", need_ranks}, {"read", need_read}, {"minutes", need_minutes}, {"memory", need_memory},
           {"output", need_output}, {"version", need_program}};
enum { N_NEEDS = sizeof needs / sizeof *needs };

static capl_status unknown_need(const reader *r, const char *name)
{
  const char *names[N_NEEDS + 1] = {NULL};
  for (int i = 0; i < N_NEEDS; i++) names[i] = needs[i].name;
  return unknown_key(r, "need", name, names);
}

/* The version comes first: an older program does not know what else a newer one may need. */
static capl_status check_program(const reader *r, const char *text)
{
  char value[24];
  for (const char *at = text; (at = strstr(at, "version=")); at++) {
    if (at > text && !isblank((unsigned char)at[-1])) continue;
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at + 8, " \t"), at + 8);
    return need_program(r, value);
  }
  return CAPL_OK;
}

static capl_status read_needs(reader *r, char *text)
{
  CAPL_TRY(check_program(r, text));
  bool seen[N_NEEDS] = {false};
  for (char *save = NULL, *item = strtok_r(text, " \t", &save); item; item = strtok_r(NULL, " \t", &save)) {
    char *value = strchr(item, '=');
    if (value) *value++ = '\0';
    int i = 0;
    while (i < N_NEEDS && strcmp(needs[i].name, item) != 0) i++;
    if (i == N_NEEDS) return unknown_need(r, item);
    if (!value) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: '%s' has no value; write %s=…", r->path, r->line, item, item);
    if (seen[i]) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: '%s' is given twice", r->path, r->line, item);
    seen[i] = true;
    CAPL_TRY(needs[i].set(r, value));
  }
  return CAPL_OK;
}

static capl_status read_version(reader *r, const char *text)
{
  char *end;
  long version = strtol(text, &end, 10);
  if (!*text || *end || version < 1)
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: the version is a whole number, not '%s'; this program reads version %d",
                     r->path, r->line, text, CAPL_RECIPE_VERSION);
  if (version > CAPL_RECIPE_VERSION) return too_new(r, "a capl that reads recipes of version", text);
  r->header->version = (int)version;
  return CAPL_OK;
}

/* "--- key: value" -> key and value; false for any other line. Prose after three dashes is no key: a key is
** one word of small letters directly followed by a colon. */
static bool split_line(char *line, char **key, char **value)
{
  if (strncmp(line, "--- ", 4) != 0) return false;
  char *p = line + 4;
  *key = p;
  while (islower((unsigned char)*p)) p++;
  if (p == *key || *p != ':') return false;
  *p++ = '\0';
  while (*p == ' ' || *p == '\t') p++;
  *value = p;
  for (p += strlen(p); p > *value && isspace((unsigned char)p[-1]);) *--p = '\0';
  return true;
}

static capl_status read_line(reader *r, char *line)
{
  static const char *const keys[] = {"capl", "needs", NULL};
  char *key, *value;
  if (!split_line(line, &key, &value)) return CAPL_OK;
  bool *seen = strcmp(key, "capl") == 0 ? &r->seen_capl : strcmp(key, "needs") == 0 ? &r->seen_needs : NULL;
  if (!seen) return unknown_key(r, "header key", key, keys);
  if (*seen) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: '--- %s:' is given twice", r->path, r->line, key);
  *seen = true;
  return seen == &r->seen_capl ? read_version(r, value) : read_needs(r, value);
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool in_header(const char *line, int number)
{
  if (number == 1 && strncmp(line, "#!", 2) == 0) return true;
  line += strspn(line, " \t\r\n");
  return !*line || strncmp(line, "--", 2) == 0;
}

static capl_status read_lines(const char *text, size_t size, reader *r)
{
  capl_status status = CAPL_OK;
  if (size >= 3 && strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3; /* some editors begin UTF-8 so */
  while (size > 0 && status == CAPL_OK) {
    const char *end = memchr(text, '\n', size);
    size_t n = end ? (size_t)(end - text) + 1 : size;
    char *line = strndup(text, n);
    if (!line) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a line of %s", r->path);
    bool more = in_header(line, ++r->line);
    if (more && memchr(text, '\0', n))
      status = CAPL_FAIL(CAPL_EFORMAT, "%s:%d: there is a zero byte in the header", r->path, r->line);
    else if (more) status = read_line(r, line);
    free(line);
    if (!more) break;
    text += n, size -= n;
  }
  return status;
}

capl_status capl_header_parse(const char *path, const char *text, size_t size, capl_header *header)
{
  *header = (capl_header){.ranks = 1};
  reader r = {.path = path, .header = header};
  CAPL_TRY(read_lines(text, size, &r));
  if (!r.seen_capl) {
    CAPL_FAIL(CAPL_EFORMAT, "%s: this recipe has no header", path);
    capl_error_hint("put these two lines on top of it:\n  --- capl: %d\n  --- needs: minutes=30", CAPL_RECIPE_VERSION);
    return CAPL_EFORMAT;
  }
  return CAPL_OK;
}
