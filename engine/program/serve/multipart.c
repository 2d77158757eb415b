/* multipart.c -- the image in a form: multipart/form-data, RFC 7578.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "program/serve/body.h"

enum { BOUNDARY = 70, NAME = 128 };

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* ---- headers ----------------------------------------------------------------------------------- */

/* Copies a value, quoted or not, that begins at p; -> where it ends. *fits: it is not longer than room. */
static const char *read_value(const char *p, const char *end, char *out, size_t room, bool *fits)
{
  bool quoted = p < end && *p == '"';
  size_t n = 0;
  *fits = true;
  for (p += quoted; p < end && (quoted ? *p != '"' : *p != ';' && !is_blank(*p)); p++) {
    if (quoted && *p == '\\' && p + 1 < end) p++;
    if (n + 1 < room) out[n++] = *p;
    else *fits = false;
  }
  out[n] = '\0';
  return p < end && quoted ? p + 1 : p;
}

bool header_parameter(const char *header, size_t n, const char *key, char *out, size_t room)
{
  const char *end = header + n, *p = memchr(header, ';', n);
  while (p && p < end) {
    bool fits;
    for (p++; p < end && is_blank(*p); p++) continue;
    const char *word = p;
    while (p < end && *p != '=' && *p != ';') p++;
    size_t length = (size_t)(p - word);
    if (p < end && *p == ';') continue; /* a word without a value */
    if (p == end) break;
    p = read_value(p + 1, end, out, room, &fits);
    if (length == strlen(key) && strncasecmp(word, key, length) == 0) return fits;
    p = memchr(p, ';', (size_t)(end - p));
  }
  return *out = '\0', false;
}

/* The line of a header among those of a part, behind its colon; NULL = there is none. */
static const char *find_header(const char *lines, size_t n, const char *name, size_t *length)
{
  const char *end = lines + n;
  size_t wanted = strlen(name);
  for (const char *p = lines, *line_end; p < end; p = line_end + 2) {
    line_end = memmem(p, (size_t)(end - p), "\r\n", 2);
    if (!line_end) line_end = end;
    if ((size_t)(line_end - p) > wanted && p[wanted] == ':' && strncasecmp(p, name, wanted) == 0)
      return *length = (size_t)(line_end - p) - wanted - 1, p + wanted + 1;
    if (line_end == end) return NULL;
  }
  return NULL;
}

/* ---- parts ------------------------------------------------------------------------------------- */

typedef struct {
  const char *at, *end;      /* what is left of the body */
  char mark[BOUNDARY + 5];   /* CR LF -- boundary */
  size_t length;
} form;

typedef struct {
  char name[NAME];
  bool file;
  const char *data;
  size_t size;
} part;

static int bad(char why[BODY_WHY], const char *what)
{
  snprintf(why, BODY_WHY, "multipart/form-data: %s", what);
  return HTTP_BAD;
}

/* Behind the first boundary, which the body may begin with. */
static bool find_first(form *f)
{
  size_t n = (size_t)(f->end - f->at);
  if (n >= f->length - 2 && memcmp(f->at, f->mark + 2, f->length - 2) == 0) return f->at += f->length - 2, true;
  const char *found = memmem(f->at, n, f->mark, f->length);
  if (found) f->at = found + f->length;
  return found != NULL;
}

/* Behind a boundary: -> 0, or a status. *last: there are no more parts. */
static int next_part(form *f, part *p, bool *last, char why[BODY_WHY])
{
  *last = f->end - f->at >= 2 && memcmp(f->at, "--", 2) == 0;
  if (*last) return 0;
  while (f->at < f->end && is_blank(*f->at)) f->at++;
  if (f->end - f->at < 2 || memcmp(f->at, "\r\n", 2) != 0) return bad(why, "a boundary is not followed by a line break");
  const char *head = f->at + 2, *blank = memmem(f->at, (size_t)(f->end - f->at), "\r\n\r\n", 4);
  if (!blank) return bad(why, "a part has no blank line behind its headers");
  p->data = blank + 4;
  const char *next = memmem(blank + 2, (size_t)(f->end - blank - 2), f->mark, f->length);
  if (!next) return bad(why, "it ends without the closing boundary; was the upload cut?");
  p->size = next > p->data ? (size_t)(next - p->data) : 0;
  f->at = next + f->length;
  size_t n = 0;
  const char *line = blank > head ? find_header(head, (size_t)(blank - head), "Content-Disposition", &n) : NULL;
  char file[NAME];
  if (!line || !header_parameter(line, n, "name", p->name, sizeof p->name)) *p->name = '\0';
  p->file = line && (header_parameter(line, n, "filename", file, sizeof file) || *file);
  return 0;
}

static bool is_image_name(const char *word, const char *name)
{
  return strcmp(word, "image") == 0 || strcmp(word, "file") == 0 || strcmp(word, name) == 0;
}

/* Takes the part if it is the image. */
static int take_part(const part *p, const char *name, body_parts *parts, char why[BODY_WHY])
{
  if (!p->file && !is_image_name(p->name, name)) return 0;
  if (parts->image) return bad(why, "two images; a request has one");
  parts->image = (const uint8_t *)p->data;
  parts->image_bytes = p->size;
  return 0;
}

int multipart_image(const char *type, const char *name, const char *body, size_t size, body_parts *parts,
                    char why[BODY_WHY])
{
  form f = {.at = body, .end = body + size, .mark = "\r\n--"};
  part p;
  bool last = false;
  if (!header_parameter(type, strlen(type), "boundary", f.mark + 4, BOUNDARY + 1) || !f.mark[4])
    return bad(why, "Content-Type has no boundary of 1 to 70 characters");
  f.length = strlen(f.mark);
  if (!find_first(&f)) return bad(why, "the boundary that Content-Type names is not in the body");
  while (!last) {
    int status = next_part(&f, &p, &last, why);
    if (!status && !last) status = take_part(&p, name, parts, why);
    if (status) return status;
  }
  if (parts->image) return 0;
  return bad(why, "no part is a file or has the name \"image\": curl -F image=@FILE URL");
}
