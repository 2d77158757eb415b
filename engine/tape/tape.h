/* tape.h -- what the dispatcher needs of the tape.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TAPE_TAPE_H
#define CAPL_TAPE_TAPE_H

#include "capl/tape.h"

/* Whether a call with these inputs is to be recorded. */
bool tape_wants(const capl_op *op, capl_tensor *const *in, int n_in);

/* Records a finished call. history: the inputs as given (their past); call->in: the same values as
** the kernel saw them. Links the outputs to the new node. */
capl_status tape_record(const capl_call *call, capl_tensor *const *history);

/* Frees what a node keeps for its gradient rule. */
void node_release(capl_node *node);

#endif
