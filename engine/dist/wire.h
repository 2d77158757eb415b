/* wire.h -- frames over a socket that never blocks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_WIRE_H
#define CAPL_DIST_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

typedef enum {
  WIRE_HELLO = 1, /* to rank 0: greeting */
  WIRE_MEMBERS,   /* from rank 0: hosts and processes of all ranks, which have joined */
  WIRE_STATUS,    /* heartbeat: a watchdog_status */
  WIRE_GATHER,      /* to rank 0: my message */
  WIRE_GATHERED,       /* from rank 0: the messages of all */
  WIRE_ALL_DONE,       /* from rank 0: all ranks have finished */
  WIRE_DIAGNOSIS,   /* a rank is lost: a watchdog_diagnosis */
} wire_kind;

typedef struct {
  char *data;
  size_t first, len, room; /* len bytes from first on are not used yet */
} wire_bytes;

typedef struct {
  int fd; /* -1 = none, or closed by the peer */
  size_t most; /* bytes of the longest frame that is accepted */
  wire_bytes in, out;
} wire;

typedef struct {
  wire_kind kind;
  const char *data; /* borrowed until wire_took */
  size_t len;
} wire_frame;

/* Takes the socket and makes it non-blocking. */
CAPL_API void wire_open(wire *w, int fd, size_t most);
CAPL_API void wire_close(wire *w);

/* Queues a frame; its payload may be in two parts. false: no memory. */
CAPL_API bool wire_put(wire *w, wire_kind kind, const void *a, size_t a_len, const void *b, size_t b_len);
/* Sends as much as the socket accepts now. false: the peer is gone. */
CAPL_API bool wire_send(wire *w);
/* Reads what has arrived. false: the peer is gone (frames that came before can still be had). */
CAPL_API bool wire_receive(wire *w);
/* The next whole frame. -> 1; 0 = there is none yet; -1 = not a frame of capl: the peer is not trusted. */
CAPL_API int wire_next(wire *w, wire_frame *frame);
CAPL_API void wire_took(wire *w, const wire_frame *frame);

#endif
