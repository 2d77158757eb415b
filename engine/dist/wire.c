/* wire.c -- frames over a socket that never blocks.
**
** A frame is {magic, kind, length} and its bytes. Lengths come from the other side, so a buffer grows with the bytes
** that have come, never ahead of them, and a frame longer than expected ends the connection.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "dist/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x6c706163, CHUNK = 16 << 10 }; /* "capl" */

typedef struct {
  uint32_t magic, kind;
  uint64_t len;
} header;

void wire_open(wire *w, int fd, size_t most)
{
  *w = (wire){.fd = fd, .most = most};
  if (fd < 0) return;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void wire_close(wire *w)
{
  if (w->fd >= 0) close(w->fd);
  free(w->in.data);
  free(w->out.data);
  *w = (wire){.fd = -1};
}

/* ---- buffers ---------------------------------------------------------------------------------- */

static bool reserve(wire_bytes *b, size_t more)
{
  if (b->first && (b->len == 0 || b->first + b->len + more > b->room)) {
    memmove(b->data, b->data + b->first, b->len);
    b->first = 0;
  }
  if (b->len + more <= b->room) return true;
  size_t room = b->room ? b->room : CHUNK;
  while (room < b->len + more) room *= 2;
  char *data = realloc(b->data, room);
  if (!data) return false;
  b->data = data;
  b->room = room;
  return true;
}

static void append(wire_bytes *b, const void *data, size_t len)
{
  if (len) memcpy(b->data + b->first + b->len, data, len);
  b->len += len;
}

static void drop(wire_bytes *b, size_t len)
{
  b->first += len;
  b->len -= len;
  if (b->len) return;
  b->first = 0;
  if (b->room <= 4 * CHUNK) return;
  free(b->data); /* one long message does not keep its memory for ever */
  *b = (wire_bytes){0};
}

/* ---- sending and receiving -------------------------------------------------------------------- */

bool wire_put(wire *w, wire_kind kind, const void *a, size_t a_len, const void *b, size_t b_len)
{
  if (w->fd < 0) return true; /* no reader; the sender learns of it from wire_receive */
  header h = {.magic = MAGIC, .kind = (uint32_t)kind, .len = a_len + b_len};
  if (!reserve(&w->out, sizeof h + a_len + b_len)) return false;
  append(&w->out, &h, sizeof h);
  append(&w->out, a, a_len);
  append(&w->out, b, b_len);
  return true;
}

bool wire_send(wire *w)
{
  while (w->fd >= 0 && w->out.len) {
    ssize_t n = send(w->fd, w->out.data + w->out.first, w->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    drop(&w->out, (size_t)n);
  }
  return w->fd >= 0;
}

bool wire_receive(wire *w)
{
  /* At most what one frame may be: a peer that never stops sending cannot fill the memory. */
  while (w->fd >= 0 && w->in.len <= w->most + sizeof(header)) {
    if (!reserve(&w->in, CHUNK)) return false;
    ssize_t n = recv(w->fd, w->in.data + w->in.first + w->in.len, w->in.room - w->in.first - w->in.len, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    w->in.len += (size_t)n;
  }
  return w->fd >= 0;
}

int wire_next(wire *w, wire_frame *frame)
{
  header h;
  if (w->in.len < sizeof h) return 0;
  memcpy(&h, w->in.data + w->in.first, sizeof h);
  if (h.magic != MAGIC || h.kind < WIRE_HELLO || h.kind > WIRE_DIAGNOSIS || h.len > w->most) return -1;
  if (w->in.len - sizeof h < h.len) return 0;
  *frame = (wire_frame){(wire_kind)h.kind, w->in.data + w->in.first + sizeof h, (size_t)h.len};
  return 1;
}

void wire_took(wire *w, const wire_frame *frame)
{
  drop(&w->in, sizeof(header) + frame->len);
}
