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
  WIRE_HELLO = 1, /* to rank 0: who I am */
  WIRE_MEMBERS,   /* from rank 0: who all are; the star is complete */
  WIRE_STATUS,    /* heartbeat: a watch_status */
  WIRE_TELL,      /* to rank 0: my message */
  WIRE_ALL,       /* from rank 0: those of all */
  WIRE_BYE,       /* from rank 0: everybody's is */
  WIRE_VERDICT,   /* a rank is lost: a watch_verdict */
} wire_kind;

typedef struct {
  char *data;
  size_t first, len, room; /* len bytes from first on are not used yet */
} wire_bytes;

typedef struct {
  int fd; /* -1 = none, or closed by the other side */
  size_t most; /* bytes of the longest frame that is taken */
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

/* Appends a frame to what is to be sent; its payload may be in two parts. false: no memory. */
CAPL_API bool wire_put(wire *w, wire_kind kind, const void *a, size_t a_len, const void *b, size_t b_len);
/* Sends what the socket takes now. false: the other side is gone. */
CAPL_API bool wire_send(wire *w);
/* Reads what is there. false: the other side is gone (frames that came before can still be had). */
CAPL_API bool wire_receive(wire *w);
/* The next whole frame. -> 1; 0 = there is none yet; -1 = no frame of ours: whoever sent it is not to be trusted. */
CAPL_API int wire_next(wire *w, wire_frame *frame);
CAPL_API void wire_took(wire *w, const wire_frame *frame);

#endif
