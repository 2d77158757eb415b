/* tag.h -- what several processes print, as whole lines on one output.
**
** A tag gets the bytes of one stream of one rank and hands on lines: rank 0's as they are, those of others behind
** "[rank 1] ". A line is handed on when it is whole; the last one gets the line break that it lacks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_TAG_H
#define CAPL_LAUNCH_TAG_H

#include <stdbool.h>
#include <stddef.h>

enum { TAG_LINE = 1 << 20, TAG_NAME = 96 }; /* a line longer than TAG_LINE is broken there */

typedef struct {
  char name[TAG_NAME]; /* before each line, "" = nothing */
  bool live;           /* parts of lines are handed on at once: a progress bar; needs name "" */
  void (*put)(void *user, const char *text, size_t len);
  void *user;
  char *text; /* the line so far */
  size_t len, room;
} tag;

/* More bytes of the stream. */
void tag_feed(tag *t, const char *bytes, size_t len);
/* The stream has ended. Frees what the tag holds. */
void tag_end(tag *t);

/* An output of this process, a terminal or not. */
typedef struct {
  int fd;
  bool terminal;
  bool *amid; /* the terminal's last line is not over; shared by all outputs on it */
  bool failed; /* something could not be written */
} screen;

/* Writes all of it, as far as that is possible. A bar that stands on the terminal's last line gives way to whole
** lines. */
void screen_put(screen *s, const char *text, size_t len, bool bar);

#endif
