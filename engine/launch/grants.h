/* grants.h -- what a job that loads a recipe may use, by the user's words, the header and the command.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_GRANTS_H
#define CAPL_LAUNCH_GRANTS_H

#include "bind/worker.h"

/* Whether a job runs in the sandbox: it loads a recipe, and nobody trusts that. */
bool grants_wanted(const capl_job *job);

/* Whether the header asks for more than a recipe gets unasked, the user's words counted. needs: what, in words. */
bool grants_exceed(const capl_job *job, char *needs, size_t room);

/* Fills the policy (sandbox/policy.h). header: what that asks for as well. EVALUE, EIO: a place that cannot be given away. */
capl_status grants_give(const capl_job *job, bool header);

/* Takes back what was made for the job and stayed empty. */
void grants_tidy(void);

#endif
