/* mux.h -- the output of ranks on its way through mpirun.
**
** mpirun mixes what its ranks print with words of its own. A rank that capl has started this way therefore sends
** everything through its standard error, each piece behind a head that says whose it is:
**   \036capl S RRRRR LLLL   S = '1' or '2': the stream; 's': "1" while the rank saves; 'f': the run's folder; 'x': its
**   exit status. Then the rank, and how many bytes follow
** A piece has FRAME_BYTES at most with its head, and is written at once: pipes and mpirun hand it on undivided.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_FRAME_H
#define CAPL_LAUNCH_FRAME_H

#include <stddef.h>

enum { FRAME_HEAD = 15, FRAME_BYTES = 4000 };

/* Makes a pipe hand on each piece as it was written, also when several wait in it. */
void mux_pipe(int fd);
/* Writes text to fd as one frame or several. */
void mux_write(int fd, int rank, char stream, const char *text, size_t len);

/* Takes a stream of frames apart. Start with zeros and the calls set. */
typedef struct {
  void (*frame)(void *user, int rank, char stream, const char *text, size_t len);
  void (*other)(void *user, const char *text, size_t len); /* what stands between frames */
  void *user;
  char text[2 * FRAME_BYTES];
  size_t len;
} frame_reader;

void mux_feed(frame_reader *r, const char *bytes, size_t len);
/* The stream has ended: a broken frame is handed to other. */
void mux_end(frame_reader *r);

#endif
