/* csv.c -- tables of text, cut up in place.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/policy.h"

static const size_t SIZE_LIMIT = (size_t)1 << 31;

/* ---- the bytes ------------------------------------------------------------------------------- */

/* The line that a byte is on. */
static uint32_t line_at(const csv *t, const char *byte)
{
  uint32_t line = 1;
  for (const char *p = t->bytes; p < byte; p++) line += *p == '\n' || (*p == '\r' && p[1] != '\n');
  return line;
}

/* Settles what the bytes are, which lie in t->bytes with a NUL behind them. */
static capl_status check_bytes(csv *t, size_t size)
{
  t->at = t->bytes;
  t->end = t->bytes + size;
  t->next_line = 1;
  if (size >= 2 && (memcmp(t->bytes, "\xff\xfe", 2) == 0 || memcmp(t->bytes, "\xfe\xff", 2) == 0))
    return CAPL_FAIL(CAPL_EFORMAT, "%s is text in UTF-16; save it as UTF-8", t->name);
  if (size >= 4 && (memcmp(t->bytes, "\x89PNG", 4) == 0 || memcmp(t->bytes, "\xff\xd8\xff", 3) == 0))
    return CAPL_FAIL(CAPL_EFORMAT, "%s is an image, not a table of text; name the folder that it lies in", t->name);
  if (size >= 3 && memcmp(t->bytes, "\xef\xbb\xbf", 3) == 0) t->at += 3;
  const char *nul = memchr(t->bytes, 0, size);
  if (nul)
    return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: holds a NUL byte; it is damaged or no text", t->name, line_at(t, nul));
  return CAPL_OK;
}

static capl_status begin(csv *t, const char *name, size_t size, csv_style style)
{
  *t = (csv){.style = style, .name = strdup(name)};
  if (!t->name) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its name", name);
  if (!t->style.separator) t->style.separator = ',';
  if (size > SIZE_LIMIT) return CAPL_FAIL(CAPL_EVALUE, "%s has %zu bytes; a table has at most 2 GiB", name, size);
  t->bytes = malloc(size + 1);
  if (!t->bytes) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its %zu bytes", name, size);
  t->bytes[size] = 0;
  return CAPL_OK;
}

capl_status csv_from(csv *t, const void *bytes, size_t size, const char *name, csv_style style)
{
  CAPL_TRY(begin(t, name, size, style));
  if (size) memcpy(t->bytes, bytes, size);
  return check_bytes(t, size);
}

/* All of it; a file that shrinks meanwhile is as long as it then is. */
static capl_status read_bytes(csv *t, int file, size_t *size)
{
  size_t got = 0;
  while (got < *size) {
    ssize_t n = read(file, t->bytes + got, *size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", t->name, capl_errno_text(errno));
    if (n == 0) break;
    got += (size_t)n;
  }
  *size = got;
  t->bytes[got] = 0;
  return CAPL_OK;
}

static capl_status read_file(csv *t, const char *path, int file, csv_style style)
{
  struct stat s;
  if (fstat(file, &s) != 0) return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", path, capl_errno_text(errno));
  if (!S_ISREG(s.st_mode))
    return CAPL_FAIL(CAPL_EIO, "%s: is a %s, not a file", path, S_ISDIR(s.st_mode) ? "folder" : "pipe or device");
  size_t size = (size_t)s.st_size;
  CAPL_TRY(begin(t, path, size, style));
  CAPL_TRY(read_bytes(t, file, &size));
  return check_bytes(t, size);
}

capl_status csv_open(csv *t, const char *path, csv_style style)
{
  *t = (csv){0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for who may write to a pipe */
  capl_status status = capl_policy_opened(file, path);
  if (file < 0) return status ? status : CAPL_FAIL(CAPL_EIO, "%s: cannot be opened: %s", path, capl_errno_text(errno));
  if (status == CAPL_OK) status = read_file(t, path, file, style);
  close(file);
  return status;
}

void csv_fini(csv *t)
{
  free(t->column);
  free(t->field);
  free(t->bytes);
  free(t->name);
  *t = (csv){0};
}

/* ---- records --------------------------------------------------------------------------------- */

/* Goes past one line end, if there is one. */
static bool pass_line_end(csv *t)
{
  if (t->at == t->end || (*t->at != '\n' && *t->at != '\r')) return false;
  if (t->at[0] == '\r' && t->at[1] == '\n') t->at++;
  t->at++;
  t->next_line++;
  return true;
}

static capl_status check_length(const csv *t, const char *from, const char *to)
{
  if (to - from <= CSV_FIELD_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: field %d is longer than %d bytes; is a quote missing?", t->name, t->line,
                   t->n_fields + 1, CSV_FIELD_MAX);
}

/* From behind the opening quote to behind the closing one; doubled quotes become one. *length: bytes that are left. */
static capl_status read_quoted(csv *t, char **text, size_t *length)
{
  uint32_t opened = t->next_line;
  char *to = *text = ++t->at;
  for (;; to++, t->at++) {
    if (t->at == t->end)
      return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: the quote of field %d is never closed", t->name, opened, t->n_fields + 1);
    if (*t->at == '"' && *++t->at != '"') break;
    if (*t->at == '\n' || (*t->at == '\r' && t->at[1] != '\n')) t->next_line++;
    *to = *t->at;
    CAPL_TRY(check_length(t, *text, to));
  }
  *length = (size_t)(to - *text);
  return CAPL_OK;
}

static bool ends_field(const csv *t)
{
  return t->at == t->end || *t->at == t->style.separator || *t->at == '\n' || *t->at == '\r';
}

static capl_status read_plain(csv *t, char **text, size_t *length)
{
  *text = t->at;
  while (!ends_field(t)) t->at++;
  *length = (size_t)(t->at - *text);
  return check_length(t, *text, t->at);
}

static capl_status keep_field(csv *t, char *text)
{
  if (t->n_fields == CSV_FIELDS_MAX)
    return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: has more than %d fields", t->name, t->line, CSV_FIELDS_MAX);
  if (t->n_fields == t->capacity) {
    int capacity = t->capacity ? 2 * t->capacity : 16;
    char **field = realloc(t->field, (size_t)capacity * sizeof *field);
    if (!field) return CAPL_FAIL(CAPL_ENOMEM, "%s:%u: no memory for %d fields", t->name, t->line, capacity);
    t->field = field;
    t->capacity = capacity;
  }
  t->field[t->n_fields++] = text;
  return CAPL_OK;
}

/* One field and what ends it; *last: that is the record's end. The end's byte becomes the field's NUL once it has been
** looked at: behind a quoted field there is room anyway. */
static capl_status read_field(csv *t, bool *last)
{
  char *text;
  size_t length;
  bool quoted = !t->style.plain && t->at < t->end && *t->at == '"';
  CAPL_TRY(quoted ? read_quoted(t, &text, &length) : read_plain(t, &text, &length));
  if (!ends_field(t))
    return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: text after the closing quote of field %d", t->name, t->next_line,
                     t->n_fields + 1);
  CAPL_TRY(keep_field(t, text));
  *last = t->at == t->end || *t->at != t->style.separator;
  if (*last) pass_line_end(t);
  else t->at++;
  text[length] = 0;
  return CAPL_OK;
}

static capl_status check_width(const csv *t)
{
  if (!t->column || t->n_fields == t->n_columns) return CAPL_OK;
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: has %d field%s, the header %d", t->name, t->line, t->n_fields,
                   t->n_fields == 1 ? "" : "s", t->n_columns);
}

capl_status csv_next(csv *t, bool *more)
{
  while (pass_line_end(t)) continue;
  t->n_fields = 0;
  t->line = t->next_line;
  *more = t->at < t->end;
  for (bool last = !*more; !last;) CAPL_TRY(read_field(t, &last));
  return *more ? check_width(t) : CAPL_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

static char *without_blanks(char *text)
{
  while (is_blank(*text)) text++;
  char *end = text + strlen(text);
  while (end > text && is_blank(end[-1])) end--;
  *end = 0;
  return text;
}

static capl_status check_names(const csv *t)
{
  char name[200];
  for (int i = 0; i < t->n_columns; i++)
    for (int k = 0; k < i; k++) {
      if (!*t->column[i] || strcmp(t->column[i], t->column[k]) != 0) continue;
      capl_text_show(name, sizeof name, t->column[i], false);
      return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: columns %d and %d are both called %s", t->name, t->line, k + 1, i + 1,
                       name);
    }
  return CAPL_OK;
}

capl_status csv_header(csv *t)
{
  bool more;
  CAPL_TRY(csv_next(t, &more));
  if (!more) return CAPL_FAIL(CAPL_EFORMAT, "%s is empty; its first line should name the columns", t->name);
  t->column = t->field; /* the next record gets an array of its own */
  t->n_columns = t->n_fields;
  t->field = NULL;
  t->capacity = t->n_fields = 0;
  for (int i = 0; i < t->n_columns; i++) t->column[i] = without_blanks(t->column[i]);
  return check_names(t);
}

int csv_column(const csv *t, const char *name)
{
  for (int i = 0; i < t->n_columns; i++)
    if (strcmp(t->column[i], name) == 0) return i;
  return -1;
}

capl_status csv_no_column(const csv *t, const char *name, const char *option)
{
  char names[300] = "", shown[300];
  for (int i = 0; i < t->n_columns; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", t->column[i]);
  }
  capl_text_show(shown, sizeof shown, names, false);
  CAPL_FAIL(CAPL_EFORMAT, "%s:1: no column is called %s; there are: %s", t->name, name, shown);
  capl_error_hint("%s of data.list names the column%s", option,
                  strcmp(option, "path") == 0 ? "; a time series has a target: data.series, capl data --target=COLUMN" : "");
  return CAPL_EFORMAT;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is_missing(const char *text, size_t length)
{
  static const char *const words[] = {"", "-", "na", "n/a", "nan", "null", "none"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strlen(words[i]) == length && strncasecmp(words[i], text, length) == 0) return true;
  return false;
}

static capl_status no_number(const csv *t, int i, const char *why)
{
  char text[120], name[120] = "";
  capl_text_show(text, sizeof text, t->field[i], false);
  if (i < t->n_columns) capl_text_show(name, sizeof name, t->column[i], false);
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: column %d%s%s: '%s' %s", t->name, t->line, i + 1, *name ? ", " : "", name,
                   text, why);
}

capl_status csv_number(const csv *t, int i, double *value, bool *missing)
{
  const char *text = t->field[i];
  while (is_blank(*text)) text++;
  size_t length = strlen(text);
  while (length && is_blank(text[length - 1])) length--;
  *value = 0;
  *missing = is_missing(text, length);
  if (*missing) return CAPL_OK;
  /* strtod takes hexadecimal numbers and infinities too, which no table means. */
  if (strspn(text, "0123456789+-.eE") < length) return no_number(t, i, "is no number");
  char *end;
  *value = strtod_l(text, &end, newlocale(LC_ALL_MASK, "C", NULL)); /* glibc has that one for ever */
  if (end != text + length) return no_number(t, i, "is no number");
  return isfinite(*value) ? CAPL_OK : no_number(t, i, "is too large");
}
