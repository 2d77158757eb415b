/* tag.c -- what several processes print, as whole lines on one output.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/tag.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lines ----------------------------------------------------------------------------------- */

/* Room for n more bytes. Without memory the line goes as far as it has come. */
static bool make_room(tag *t, size_t n)
{
  if (t->len + n <= t->room) return true;
  size_t room = t->room ? t->room : 256;
  while (room < t->len + n) room *= 2;
  char *text = realloc(t->text, room);
  if (!text) return false;
  t->text = text;
  t->room = room;
  return true;
}

static void keep(tag *t, const char *bytes, size_t n)
{
  if (!make_room(t, n)) return;
  memcpy(t->text + t->len, bytes, n);
  t->len += n;
}

static void hand_on(tag *t)
{
  t->put(t->user, t->text, t->len);
  t->len = 0;
}

/* Another rank's bars and colours would spoil the line of rank 0: what a carriage return or an escape would do is
** shown. */
static void keep_shown(tag *t, const char *bytes, size_t n)
{
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    bool plain = (c >= ' ' && c != 127) || c == '\t' || c == '\n';
    if (plain || (c == '\r' && i + 1 < n && bytes[i + 1] == '\n'))
      keep(t, bytes + i, c != '\r');
    else
      keep(t, (char[]){'\\', 'x', digits[c >> 4], digits[c & 15]}, 4);
  }
}

/* Part of a line, its end included. */
static void add(tag *t, const char *bytes, size_t n)
{
  if (!*t->name) return keep(t, bytes, n);
  if (t->len == 0) keep(t, t->name, strlen(t->name));
  keep_shown(t, bytes, n);
}

void tag_feed(tag *t, const char *bytes, size_t len)
{
  while (len > 0) {
    const char *end = memchr(bytes, '\n', len);
    size_t n = end ? (size_t)(end - bytes) + 1 : len;
    if (n > TAG_LINE / 8) n = TAG_LINE / 8, end = NULL;
    add(t, bytes, n);
    bool full = t->len > TAG_LINE / 2;
    if (full && !end && !t->live) keep(t, "\n", 1);
    if (t->len > 0 && (end || full || t->live)) hand_on(t);
    bytes += n;
    len -= n;
  }
}

void tag_end(tag *t)
{
  if (t->len > 0) {
    keep(t, "\n", 1);
    hand_on(t);
  }
  free(t->text);
  t->text = NULL;
  t->len = t->room = 0;
}

/* ---- the output ------------------------------------------------------------------------------ */

/* false = nobody reads on, or the disk is full: the ranks go on all the same. */
static bool write_all(int fd, const char *text, size_t len)
{
  while (len > 0) {
    ssize_t n = write(fd, text, len);
    if (n < 0 && errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
    if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (n > 0) text += n, len -= (size_t)n;
  }
  return true;
}

void screen_put(screen *s, const char *text, size_t len, bool bar)
{
  if (len == 0) return;
  if (s->terminal && *s->amid && !bar) write_all(s->fd, "\r\033[K", 4);
  if (!write_all(s->fd, text, len)) s->failed = true;
  if (s->terminal) *s->amid = text[len - 1] != '\n';
}
