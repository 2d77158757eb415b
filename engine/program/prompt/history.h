/* history.h -- lines typed at prompts, in a file that several of them may write at once.
**
** The file is libedit's own kind: one entry a line, odd bytes as \ooo, so that entries of several lines stay whole. An
** entry is added at the end, under a lock; at the start a file that has grown much is written anew without doubles.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_HISTORY_H
#define CAPL_BIND_HISTORY_H

#include <histedit.h>

typedef struct {
  History *list; /* what the line editor walks through */
  char *path;    /* NULL = entries last as long as the prompt */
} capl_history;

/* Reads $CAPL_HISTORY, else capl/history below $XDG_STATE_HOME or ~/.local/state. A file that cannot be read or written
** is none. Returns whether there is memory for a list. */
int capl_history_open(capl_history *h);
/* The newest entry, which takes the place of an equal older one. Spaces at its end go; nothing is no entry. */
void capl_history_add(capl_history *h, const char *text);
void capl_history_close(capl_history *h);

#endif
