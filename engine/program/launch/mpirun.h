/* mpirun.h -- Open MPI's launcher: how it is called, and which of its own words the user gets to see.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_MPIRUN_H
#define CAPL_LAUNCH_MPIRUN_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

/* Path of Open MPI's mpirun. EUNSUPPORTED with the line that installs it. */
capl_status mpirun_find(int ranks, char *path, size_t room);

/* Its exit status when a host cannot be reached any more. */
enum { MPIRUN_LOST_HOST = 205 };

/* What it needs in the environment and does not find there. */
capl_status mpirun_environment(void);

/* The words of its call, NULL at the end: argv[0..argc) is what each rank runs. The array is the caller's; NULL without
** memory. */
const char **mpirun_command(const char *path, int ranks, int argc, const char *const *argv);

/* What mpirun itself says goes on line by line, but for its notes on ranks that have ended, which say again, at length,
** what the ranks have said. Start with zeros and the call set. */
typedef struct {
  void (*put)(void *user, const char *line, size_t len);
  void *user;
  char text[8192]; /* the line, or the note, so far */
  size_t len;
  bool note;       /* between two lines of dashes */
} mpirun_words;

void mpirun_words_feed(mpirun_words *w, const char *text, size_t len);
/* mpirun has ended: what is left goes on. */
void mpirun_words_end(mpirun_words *w);

#endif
