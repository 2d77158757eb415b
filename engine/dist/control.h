/* control.h -- a socket from every rank to rank 0: joining, short messages, leaving.
**
** One thread per rank, all signals blocked, owns the sockets; the program's thread hands messages over and sleeps until
** they are answered. The same thread sends what the watchdog knows (watchdog.h) and judges by what the others send.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_CONTROL_H
#define CAPL_DIST_CONTROL_H

#include "capl/dist.h"
#include "dist/watchdog.h"
#include "dist/wire.h"

typedef struct star star;

typedef struct {
  int rank, size;
  const char *host;   /* this rank's, as it is to be called */
  double seconds;     /* that the others have to join; 0 = 60 */
  bool one_host;      /* all ranks are on this host: rank 0 listens there alone */
  const char *secret; /* what only this job's ranks know. star_listen makes one of its own */
  watch *watch;       /* of this process (watch_new); outlives the star */
} star_options;

/* Joins over sockets that were made before the ranks were forked: rank 0 has one to each of the others, in order of
** ranks from 1; the others have one. Takes the sockets, also when it fails. EIO names the ranks that did not join. */
CAPL_API capl_status star_open_sockets(const star_options *options, const int *sockets, star **out);

/* Joins ranks of one host over a socket that has a name all of them know; who is another user's is no rank. */
CAPL_API capl_status star_open_local(const star_options *options, const char *name, star **out);

/* Joins over TCP at an address all ranks were given: rank 0 listens there, the others try until it does. EVALUE without
** a secret of at least STAR_SECRET characters: whoever reaches the port could be a rank. */
enum { STAR_SECRET = 16 };
CAPL_API capl_status star_open_tcp(const star_options *options, const char *address, int port, star **out);

/* Joins over TCP where rank 0 tells the others by another way where it listens. where: "ADDRESS,ADDRESS…;PORT;SECRET",
** ended by NUL, in STAR_WHERE bytes. star_accept takes the door, also when it fails. */
enum { STAR_WHERE = 1024 };
typedef struct star_door star_door;
CAPL_API capl_status star_listen(bool one_host, char *where, star_door **door);
CAPL_API capl_status star_accept(star_door *door, const star_options *options, star **out);
CAPL_API capl_status star_connect(const star_options *options, const char *where, star **out);

/* Starts the star's thread on links that have joined; takes links and members. */
capl_status star_start(const star_options *options, wire *links, watch_member *members, star **out);

/* Host and process of a rank, as it says itself. Borrowed. */
CAPL_API const watch_member *star_member(const star *s, int rank);

/* capl_world_tell of a world of two or more. EVALUE above STAR_MESSAGE bytes; EIO when a rank is lost and nobody has
** asked (capl_world_on_lost) to be told of it. */
enum { STAR_MESSAGE = 16 << 20 };
CAPL_API capl_status star_tell(star *s, const void *mine, size_t len, capl_messages *all);

/* This rank has done its work and is about to end with status; message: the first line of its error, or NULL. With
** status 0 it waits until all the others have done theirs, and is watched while it does; else it returns at once.
** Sockets stay. */
CAPL_API void star_leave(star *s, int status, const char *message);
/* This rank ends with an error. -> whether it should say it: false when rank 0 has ended with the very same one. */
CAPL_API bool star_fail(star *s, int status, const char *message);
/* Ends the thread and the sockets; after star_leave. NULL-safe. */
CAPL_API void star_close(star *s);

#endif
