/* mux.c -- the output of ranks on its way through mpirun.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/mux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char mark[] = "\036capl";
enum { MARK = sizeof mark - 1 };

/* ---- writing --------------------------------------------------------------------------------- */

void mux_pipe(int fd)
{
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags | O_DIRECT); /* anything but a pipe refuses */
}

static void write_piece(int fd, const char *text, size_t len)
{
  for (;;) {
    if (write(fd, text, len) >= 0 || (errno != EINTR && errno != EAGAIN)) return;
    if (errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
  }
}

void mux_write(int fd, int rank, char stream, const char *text, size_t len)
{
  char piece[FRAME_BYTES + 1];
  do {
    size_t n = len < FRAME_BYTES - FRAME_HEAD ? len : FRAME_BYTES - FRAME_HEAD;
    snprintf(piece, sizeof piece, "%s%c%05d%04d", mark, stream, rank, (int)n);
    memcpy(piece + FRAME_HEAD, text, n);
    write_piece(fd, piece, FRAME_HEAD + n);
    text += n;
    len -= n;
  } while (len > 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int number(const char *digits, int n)
{
  int value = 0;
  for (int i = 0; i < n; i++) {
    if (digits[i] < '0' || digits[i] > '9') return -1;
    value = 10 * value + (digits[i] - '0');
  }
  return value;
}

static void drop(frame_reader *r, size_t n)
{
  r->len -= n;
  memmove(r->text, r->text + n, r->len);
}

/* Bytes at the end of what is there that may begin a mark. */
static size_t begun(const frame_reader *r)
{
  size_t n = r->len < MARK ? r->len : MARK - 1;
  while (n > 0 && memcmp(r->text + r->len - n, mark, n) != 0) n--;
  return n;
}

/* Hands on what stands first. false = it is not whole. */
static bool take_first(frame_reader *r)
{
  char *head = memmem(r->text, r->len, mark, MARK);
  size_t before = head ? (size_t)(head - r->text) : r->len - begun(r);
  if (before > 0) {
    r->other(r->user, r->text, before);
    drop(r, before);
    return true;
  }
  if (r->len < FRAME_HEAD) return false;
  int rank = number(r->text + 6, 5), n = number(r->text + 11, 4);
  if (rank < 0 || n < 0 || n > FRAME_BYTES - FRAME_HEAD) { /* somebody's text that only looks like a frame */
    r->other(r->user, r->text, MARK);
    drop(r, MARK);
    return true;
  }
  if (r->len < (size_t)FRAME_HEAD + (size_t)n) return false;
  r->frame(r->user, rank, r->text[5], r->text + FRAME_HEAD, (size_t)n);
  drop(r, (size_t)FRAME_HEAD + (size_t)n);
  return true;
}

void mux_feed(frame_reader *r, const char *bytes, size_t len)
{
  while (len > 0) {
    size_t room = sizeof r->text - r->len, n = len < room ? len : room;
    memcpy(r->text + r->len, bytes, n);
    r->len += n;
    bytes += n;
    len -= n;
    while (r->len > 0 && take_first(r)) continue;
  }
}

void mux_end(frame_reader *r)
{
  if (r->len > 0) r->other(r->user, r->text, r->len);
  r->len = 0;
}
