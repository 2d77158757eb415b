/* text.c -- texts from outside made fit to show: file names, labels, reasons of the system.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- characters ------------------------------------------------------------------------------ */

/* Bytes that the first one announces. */
static int announced(unsigned char first)
{
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0; /* a later byte, or an overlong form */
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

int capl_text_char(const char *text)
{
  const unsigned char *p = (const unsigned char *)text;
  int n = announced(p[0]);
  for (int i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
  return n > 1 && (overlong || outside) ? 0 : n;
}

bool capl_text_is_utf8(const char *text)
{
  for (int n; *text; text += n)
    if (!(n = capl_text_char(text))) return false;
  return true;
}

/* What turns the direction of a line or breaks it: U+061C, U+200E, U+200F, U+2028..U+202E, U+2066..U+2069. A path shown
** with one of these reads as another. */
static bool turns_the_line(const unsigned char *p)
{
  if (p[0] == 0xd8) return p[1] == 0x9c;
  if (p[0] != 0xe2) return false;
  return p[1] == 0x80 ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae) : p[1] == 0x81 && p[2] >= 0xa6
      && p[2] <= 0xa9;
}

/* 0x00..0x1f, 0x7f, and U+0080..U+009F, which terminals obey too. */
static bool is_control(const unsigned char *p)
{
  return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0) || turns_the_line(p);
}

int capl_text_show_char(const char *p, bool lines, char piece[16], size_t *n)
{
  int bytes = capl_text_char(p);
  if (bytes > 0 && (!is_control((const unsigned char *)p) || (lines && (*p == '\n' || *p == '\t')))) {
    memcpy(piece, p, (size_t)bytes);
    *n = (size_t)bytes;
    return bytes;
  }
  const char *format = *p == '\n' ? "\\n" : *p == '\t' ? "\\t" : "\\x%02x";
  *n = (size_t)snprintf(piece, 16, format, (unsigned)(unsigned char)*p);
  return 1;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static size_t shown_length(const char *from, bool lines)
{
  char piece[16];
  size_t total = 0, n;
  while (*from) {
    from += capl_text_show_char(from, lines, piece, &n);
    total += n;
  }
  return total;
}

void capl_text_show(char *to, size_t room, const char *from, bool lines)
{
  static const char gap[] = " … ";
  size_t total = shown_length(from, lines), at = 0, n;
  bool fits = total < room, left_out = false;
  size_t half = fits ? total : (room - sizeof gap) / 2;
  char piece[16];
  while (*from) {
    from += capl_text_show_char(from, lines, piece, &n);
    if (fits || at + n <= half || at >= total - half) {
      memcpy(to, piece, n);
      to += n;
    } else if (!left_out) {
      left_out = true;
      memcpy(to, gap, sizeof gap - 1);
      to += sizeof gap - 1;
    }
    at += n;
  }
  *to = '\0';
}

/* ---- the system's reasons -------------------------------------------------------------------- */

const char *capl_errno_text(int err)
{
  switch (err) {
  case ENOSPC: return "the disk is full (No space left on device); free some space there";
  case EDQUOT: return "your share of the disk is used up (Disk quota exceeded); free some space there";
  case EFBIG: return "larger than the file size limit (File too large); see ulimit -f";
  case EMFILE: return "Too many open files; see ulimit -n";
  default: return strerror(err);
  }
}
