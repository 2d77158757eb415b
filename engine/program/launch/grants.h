/* grants.h -- what a job that loads a recipe may use, by the user's words, the header and the command.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_GRANTS_H
#define CAPL_LAUNCH_GRANTS_H

#include "program/job.h"

/* Whether a job runs in the sandbox: it loads a recipe, and nobody trusts that, or it reads what strangers send. */
bool grants_wanted(const capl_job *job);

/* Fills the policy (sandbox/policy.h) with what the recipe gets unasked and by the user's words. EVALUE, EIO: a place
** that cannot be given away. */
capl_status grants_give(const capl_job *job);

enum { GRANTS_MOST = CAPL_HEADER_TEXT, GRANTS_SHOWN = 16, GRANTS_TEXT = 8000 };

/* What the header asks for beyond that, as it was found at one moment: what is shown, kept and granted is this. */
typedef struct {
  char *paths[GRANTS_MOST]; /* to read, links followed */
  int count;
  double seconds, output; /* 0 = no more than usual */
  char *text;             /* a line for each, "" = nothing is asked for */
  char sha256[65];        /* of all of it */
} grants_asked;

/* EVALUE: more than can be shown in one question; EIO: a place that cannot be found out. Forget it afterwards in any
** case. */
capl_status grants_ask(const capl_job *job, grants_asked *a);
/* Adds it to the policy: the very places that were asked for, wherever their links lead by now. */
capl_status grants_give_asked(const capl_job *job, const grants_asked *a);
void grants_forget(grants_asked *a);

/* Takes back what was made for the job and stayed empty. */
void grants_tidy(const capl_job *job);

#endif
