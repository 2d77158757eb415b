/* commands.h -- the one list of what the program can do.
**
** Help, "did you mean", completion, the man page and docs/commands.md are made of it. A new command is a row in
** commands.c and a module lua/capl/cli/NAME.lua, which states its options (lua/capl/cli/init.lua).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_COMMANDS_H
#define CAPL_COMMANDS_H

#include <stdbool.h>

#include "base/names.h"

/* Whether a command's first word is a recipe, which the supervisor takes out of the words and reads the header of. */
typedef enum {
  RECIPE_NONE,
  RECIPE_NEEDED,
  RECIPE_OR_RUN,  /* or the folder of a run, which stays among the words */
  RECIPE_STAYS,   /* brought to the front of the words if there is one; its header is not read here */
} command_recipe;

/* What it does with --ranks=N. */
typedef enum { RANKS_NO, RANKS_STARTS, RANKS_PLANS } command_ranks;

typedef struct {
  const char *name;
  const char *group; /* heading in the list of commands; rows of a group stand together */
  const char *usage; /* forms parted by " | " */
  const char *help;  /* one sentence without a full stop */
  command_recipe recipe;
  command_ranks ranks;
  bool confined; /* runs in the sandbox without a recipe, for it reads what strangers send */
} capl_command;

/* An option of capl itself, which stands before the command. */
typedef struct {
  const char *name;
  const char *value; /* what stands behind =, or NULL */
  const char *help;
} capl_global;

const capl_global *capl_globals(int *n);

/* All commands, *n in number. */
const capl_command *capl_commands(int *n);

/* NULL = there is none of that name. */
const capl_command *capl_command_find(const char *name);

/* What took the place of a command, a form of one ("bench dist") or an option ("--key") that is gone, or NULL;
** docs/removed.md lists them. */
const char *capl_gone(const char *word);

/* Adds the names that a user may write to a suggestion. */
void capl_commands_suggest(capl_suggestion *s);

#endif
