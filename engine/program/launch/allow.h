/* allow.h -- asks whether a recipe may have what its header says it needs.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_ALLOW_H
#define CAPL_LAUNCH_ALLOW_H

#include "program/job.h"

/* Settles the sandbox of a job, in the process that starts all others: fills the policy, shows what the recipe needs
** beyond what every recipe gets, and asks on a terminal. Answers are kept for these very bytes. Children and ranks are
** set by the environment. -> 0, or the exit status after saying why nothing runs. quiet: another rank says it. */
int allow_settle(capl_job *job, bool quiet);

#endif
