/* job.h -- what a process is given to do: its command, its recipe, its place among the ranks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_PROGRAM_JOB_H
#define CAPL_PROGRAM_JOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "program/header.h"
#include "program/recipe_file.h"

typedef struct {
  const char *program; /* as it was called, for hints that name a next command */
  const char *command; /* "run", "check", …; "repl" for none */
  const char *usage;   /* of the command, for its --help */
  const char *help;
  const char *recipe;  /* path, NULL for commands without one */
  capl_recipe_file file; /* its text, which is what runs */
  int argc;            /* the command's further words */
  char **argv;
  bool verbose;        /* tracebacks with errors */
  bool interactive;    /* -i: a prompt when the recipe has ended or failed */
  bool trusted;        /* --trust: no sandbox */
  bool exposed;        /* reads what strangers send: in the sandbox without a recipe, too */
  bool confined;       /* the recipe is loaded in the sandbox, with the policy of launch/grants.c */
  bool allowed;        /* --allow: what the header says it needs is granted unasked */
  capl_header header;  /* all zero without a recipe */
  const char *ranks_word;  /* --ranks=N as it was said, NULL = it was not */
  int ranks;               /* processes of this job, or those it would have: check */
  int rank;                /* which of them this is */
  const char *plan_reason; /* why a run that needs GPUs can only be planned here; NULL = it runs */
  struct time_hold *hold; /* shared likewise: that this job is held by somebody at a prompt; NULL = nobody looks */
  char *run_folder;    /* shared: CAPL_POLICY_PATH bytes for the folder that the worker has made for its run, "" =
                       ** none */
  atomic_bool *saving; /* shared by both processes: the worker was asked to end and is saving; NULL = nobody looks */
} capl_job;

#endif
