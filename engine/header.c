/* header.c -- reads a recipe's header lines and says exactly what is wrong with them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _POSIX_C_SOURCE 200809L
#include "header.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/names.h"

enum { RECIPE_BYTES = 16 << 20 }; /* far more than anybody writes; a data file given by mistake has more */

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

/* What a recipe may say it needs. ORDER needs */
static const char *const need_names[] = {"ranks", "read", "minutes", NULL};
static capl_status (*const need_set[])(const reader *r, const char *value) = {need_ranks, need_read, need_minutes};

static capl_status read_needs(reader *r, char *text)
{
  bool seen[3] = {false};
  for (char *save = NULL, *item = strtok_r(text, " \t", &save); item; item = strtok_r(NULL, " \t", &save)) {
    char *value = strchr(item, '=');
    if (value) *value++ = '\0';
    int i = 0;
    while (need_names[i] && strcmp(need_names[i], item) != 0) i++;
    if (!need_names[i]) return unknown_key(r, "need", item, need_names);
    if (!value) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: '%s' has no value; write %s=…", r->path, r->line, item, item);
    if (seen[i]) return CAPL_FAIL(CAPL_EVALUE, "%s:%d: '%s' is given twice", r->path, r->line, item);
    seen[i] = true;
    CAPL_TRY(need_set[i](r, value));
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
  if (version > CAPL_RECIPE_VERSION)
    return CAPL_FAIL(CAPL_EVALUE, "%s:%d: the recipe is written for version %ld, this program reads version %d",
                     r->path, r->line, version, CAPL_RECIPE_VERSION);
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

static capl_status read_lines(FILE *file, reader *r)
{
  char *line = NULL;
  size_t size = 0;
  capl_status status = CAPL_OK;
  while (status == CAPL_OK && getline(&line, &size, file) >= 0) {
    bool marked = r->line == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0; /* some editors begin UTF-8 so */
    if (!in_header(line + 3 * marked, ++r->line)) break;
    status = read_line(r, line + 3 * marked);
  }
  free(line);
  return status;
}

/* A recipe is read twice and as a whole: pipes and devices cannot be one. Asked before the file is opened, which
** a pipe would answer only when somebody writes. */
static capl_status need_text_file(const char *path)
{
  struct stat info;
  if (stat(path, &info) != 0) return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: %s", path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it is a folder", path);
  if (!S_ISREG(info.st_mode))
    return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it is a pipe or a device, not a file", path);
  if (info.st_size > RECIPE_BYTES)
    return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it has %lld bytes, a recipe is a text of at most %d", path,
                     (long long)info.st_size, RECIPE_BYTES);
  return CAPL_OK;
}

capl_status capl_header_read(const char *path, capl_header *header)
{
  *header = (capl_header){.ranks = 1};
  CAPL_TRY(need_text_file(path));
  FILE *file = fopen(path, "r");
  if (!file) return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: %s", path, strerror(errno));
  reader r = {.path = path, .header = header};
  capl_status status = read_lines(file, &r);
  fclose(file);
  CAPL_TRY(status);
  if (!r.seen_capl) {
    CAPL_FAIL(CAPL_EFORMAT, "%s: this recipe has no header", path);
    capl_error_hint("put these two lines on top of it:\n  --- capl: %d\n  --- needs: minutes=30", CAPL_RECIPE_VERSION);
    return CAPL_EFORMAT;
  }
  return CAPL_OK;
}
