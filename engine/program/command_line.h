/* command_line.h -- reads the words of a call: options of capl itself, the command, its recipe. The rest is the
** command's.
**
**   capl [-v] [-i] [--minutes=N] [--ranks=N] [--restart=N] [--trust] [--allow] [COMMAND | RECIPE] [words]
**
** A command with a recipe finds it wherever it stands among the words, and its options reach Lua as --key=value,
** however they were written: such commands have no other plain words, so a plain word behind --key is its value. Words
** behind -- stay as they are. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_COMMAND_LINE_H
#define CAPL_COMMAND_LINE_H

#include "program/commands.h"
#include "program/launch/launch.h"

typedef struct {
  launch l;
  double minutes;      /* from --minutes; below 0 = not given */
  bool help;           /* the page of the command is wanted, which needs no recipe */
  char *ranks;         /* the word --ranks=N before the command, or NULL */
  char *restart;       /* likewise --restart=N */
  char ranks_word[24]; /* the same, wherever it stood */
  char shipped[4096];  /* path of a recipe that was named as captcha and found beside the program */
} command_line;

/* Returns 0, or the exit status of the program after saying what is wrong. The words stay the caller's. */
int command_line_read(int argc, char **argv, command_line *c);

#endif
