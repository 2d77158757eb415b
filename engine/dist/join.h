/* join.h -- how the ranks of a control channel find each other: sockets with a greeting on both sides.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_JOIN_H
#define CAPL_DIST_JOIN_H

#include "dist/watchdog.h"
#include "dist/wire.h"

enum { JOIN_SECRET = 16 };

typedef struct {
  int rank, size;
  const char *host;
  double seconds;
  bool same_user; /* clients of another user are refused; for Unix sockets */
  unsigned char secret[JOIN_SECRET];
} join_options;

/* Rank 0: reads the greetings of clients of listener (a listening socket, or -1) and of the size - 1 sockets
** given (or NULL), until all ranks are there. links and members have size places; links[0] stays unused. Sockets and
** listener stay the caller's when it fails: links that were taken are closed. */
capl_status join_server(const join_options *o, int listener, const int *sockets, wire *links, rank_identity *members);

/* Another rank: greets rank 0 at the other end of a link that is open, and waits until all ranks are there. */
capl_status join_client(const join_options *o, wire *link, rank_identity *members, double deadline);

/* Whether the process at the other end of a socket of this host is of the same user. */
bool join_same_user(int fd);

#endif
