/* control.h -- a socket from every rank to rank 0: joining, short messages, leaving.
**
** One thread per rank, all signals blocked, owns the sockets; the main thread queues a message and waits for the
** answer. The same thread sends the watchdog's heartbeats (watchdog.h) and diagnoses those of the others.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_CONTROL_H
#define CAPL_DIST_CONTROL_H

#include "capl/dist.h"
#include "dist/watchdog.h"
#include "dist/wire.h"

typedef struct control control;

typedef struct {
  int rank, size;
  const char *host;   /* this rank's name */
  double seconds;     /* time limit for joining; 0 = 60 */
  bool one_host;      /* all ranks are on this host: rank 0 listens there alone */
  const char *secret; /* shared by the ranks of this job. control_listen makes its own */
  watchdog *watchdog;       /* of this process (watchdog_new); outlives the control channel */
} control_options;

/* Joins over sockets that were made before the ranks were forked: rank 0 has one to each of the others, in order of
** ranks from 1; the others have one. Takes the sockets, also when it fails. EIO names the ranks that did not join. */
CAPL_API capl_status control_open_sockets(const control_options *options, const int *sockets, control **out);

/* Joins ranks of one host over a socket that has a name all of them know; processes of other users are refused. */
CAPL_API capl_status control_open_local(const control_options *options, const char *name, control **out);

/* Joins over TCP at an address all ranks were given: rank 0 listens there, the others try until it does. EVALUE without
** a secret of at least CONTROL_SECRET characters: any process that reaches the port could join. */
enum { CONTROL_SECRET = 16 };
CAPL_API capl_status control_open_tcp(const control_options *options, const char *address, int port, control **out);

/* Joins over TCP at an address that rank 0 sends to the others by another channel. where:
** "ADDRESS,ADDRESS…;PORT;SECRET", ended by NUL, in CONTROL_ADDRESS bytes. control_accept takes the listener, also when
** it fails. */
enum { CONTROL_ADDRESS = 1024 };
typedef struct control_listener control_listener;
CAPL_API capl_status control_listen(bool one_host, char *where, control_listener **listener);
CAPL_API capl_status control_accept(control_listener *listener, const control_options *options, control **out);
CAPL_API capl_status control_connect(const control_options *options, const char *where, control **out);

/* Starts the control thread on links that have joined; takes links and members. */
capl_status control_start(const control_options *options, wire *links, rank_identity *members, control **out);

/* Host and process of a rank, as it reported them. Borrowed. */
CAPL_API const rank_identity *control_member(const control *s, int rank);

/* capl_world_all_gather_bytes of a world of two or more. EVALUE above CONTROL_MESSAGE bytes; EIO when a rank is lost
** and nobody has set capl_world_on_lost. */
enum { CONTROL_MESSAGE = 16 << 20 };
CAPL_API capl_status control_all_gather(control *s, const void *mine, size_t len, capl_messages *all);

/* This rank has finished and ends with status; message: the first line of its error, or NULL. With
** status 0 it waits until all ranks have finished, under the watchdog; else it returns at once. Sockets stay open. */
CAPL_API void control_leave(control *s, int status, const char *message);
/* This rank ends with an error. -> whether it should print it: false when rank 0 has ended with the same error. */
CAPL_API bool control_fail(control *s, int status, const char *message);
/* Ends the thread and the sockets; after control_leave. NULL-safe. */
CAPL_API void control_close(control *s);

#endif
