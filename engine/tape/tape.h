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

/* An empty node for n_in inputs, and what it keeps of its inputs and outputs; for those that are no call. */
capl_node *node_new(const capl_op *op, int n_in);
capl_status node_keep(capl_node *node, capl_tensor *const *in, uint32_t save_in, capl_tensor *const *out,
                      uint32_t save_out);
/* Numbers the node, links it to the history of its inputs and the outputs to it, and lets go of the caller's
** reference. */
void node_link(capl_node *node, capl_tensor *const *history, capl_tensor *const *out);
/* The number of the last node of this thread. */
uint64_t tape_sequence(void);

/* Segments (segment.c). */
void segment_free(struct capl_segment *segment);
/* Whether the node runs calls again that are not known before. */
bool segment_runs_calls(const capl_node *node);
/* Whether it is run again with 16-bit products of dtype. */
bool segment_has(const struct capl_segment *segment, capl_dtype dtype);
/* Walks the calls after `first` that led to out, from gradients dy of them; what is older gets its gradient for
** later. */
capl_status backward_within(capl_tensor *const *out, capl_tensor *const *dy, int n, uint64_t first);

/* Frees what a node keeps for its gradient rule. */
void node_release(capl_node *node);

#endif
