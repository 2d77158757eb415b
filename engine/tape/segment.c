/* segment.c -- parts of the forward pass that keep their inputs alone and are run again in the backward pass.
**
** A segment is a node like any other, whose rule runs its part again with recording on. The fresh nodes hang on the
** same history as the first run's inputs, so the walk inside the segment adds every gradient where, and in the order in
** which, the walk outside would have: the bits are the same.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "tape/tape.h"

typedef struct capl_segment {
  capl_segment_fn fn;
  void *user;
  void (*drop)(void *user);
  capl_dtype low; /* autocast of the first run */
} capl_segment;

/* Input i of a node as its call met it: with the values that were kept and the history of then. */
static capl_status as_it_was(const capl_node *node, int i, capl_tensor **out)
{
  const capl_edge *edge = &node->edges[i];
  capl_tensor *kept = node->in[i];
  if (edge->leaf) return *out = capl_tensor_ref(edge->leaf), CAPL_OK;
  CAPL_TRY(capl_tensor_alias(kept, kept->ndim, kept->size, kept->stride, kept->offset, out));
  if (!edge->node) return CAPL_OK;
  (*out)->node = edge->node;
  (*out)->node_output = edge->output;
  edge->node->refs++;
  return CAPL_OK;
}

/* Runs the part again: recorded, under the autocast of the first time. */
static capl_status run_again(const capl_segment *s, capl_tensor *const *in, int n_in, capl_tensor **out, int n_out)
{
  bool recorded = capl_grad_set_enabled(true);
  capl_dtype low = capl_autocast_set(s->low);
  capl_status status = s->fn(s->user, in, n_in, out, n_out);
  capl_autocast_set(low);
  capl_grad_set_enabled(recorded);
  return status;
}

/* The rule of the node. dx stays empty: the walk inside gives the inputs' gradients to their makers itself. */
static capl_status segment_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  (void)dx;
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  capl_tensor **in = calloc((size_t)node->n_in + 1, sizeof *in);
  if (!in) return CAPL_FAIL(CAPL_ENOMEM, "no memory to run a part of the forward pass again");
  capl_status status = CAPL_OK;
  uint64_t first = tape_sequence();
  for (int i = 0; i < node->n_in && status == CAPL_OK; i++) status = as_it_was(node, i, &in[i]);
  if (status == CAPL_OK) status = run_again(node->segment, in, node->n_in, out, node->op->n_out);
  for (int i = 0; i < node->n_in; i++) capl_tensor_unref(in[i]);
  free(in);
  if (status == CAPL_OK) status = backward_within(out, dy, node->op->n_out, first);
  for (int k = 0; k < CAPL_MAX_OUT; k++) capl_tensor_unref(out[k]);
  return status;
}

#define SEGMENT(n) {.name = "checkpoint", .n_out = (n), .grad = segment_grad}
static const capl_op segment_ops[] = {SEGMENT(1), SEGMENT(2), SEGMENT(3), SEGMENT(4), SEGMENT(5), SEGMENT(6)};
_Static_assert(sizeof segment_ops / sizeof *segment_ops == CAPL_MAX_OUT, "one for each number of outputs");

static capl_status new_segment(capl_segment s, capl_segment **out)
{
  *out = malloc(sizeof **out);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory to remember a part of the forward pass");
  **out = s;
  return CAPL_OK;
}

capl_status capl_segment_record(capl_tensor *const *in, int n_in, capl_tensor *const *out, int n_out,
                                capl_segment_fn fn, void *user, void (*drop)(void *user))
{
  capl_node *node = NULL;
  capl_status status = CAPL_OK;
  if (n_out < 1 || n_out > CAPL_MAX_OUT || n_in > 31)
    status = CAPL_FAIL(CAPL_EVALUE, "checkpoint: at most 31 tensors go in and 1 to %d come out, not %d and %d",
                       CAPL_MAX_OUT, n_in, n_out);
  if (status == CAPL_OK && !(node = node_new(&segment_ops[n_out - 1], n_in)))
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory to record a part of the forward pass");
  if (status == CAPL_OK) status = node_keep(node, in, ~0u, out, 0);
  if (status == CAPL_OK) status = new_segment((capl_segment){fn, user, drop, capl_autocast_get()}, &node->segment);
  if (status == CAPL_OK) return node_link(node, in, out), CAPL_OK;
  capl_node_unref(node);
  drop(user);
  return status;
}

void segment_free(capl_segment *segment)
{
  if (!segment) return;
  segment->drop(segment->user);
  free(segment);
}

bool segment_runs_calls(const capl_node *node)
{
  return node->segment && node->op->grad == segment_grad;
}

/* ---- gradients by a rule of the caller's ------------------------------------------------------- */

/* The rule of the node is the segment's fn: from the outputs' gradients those of the inputs. */
static capl_status given_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return node->segment->fn(node->segment->user, dy, node->op->n_out, dx, node->n_in);
}

#define GIVEN(n) {.name = "function", .n_out = (n), .grad = given_grad}
static const capl_op given_ops[] = {GIVEN(1), GIVEN(2), GIVEN(3), GIVEN(4), GIVEN(5), GIVEN(6)};
_Static_assert(sizeof given_ops / sizeof *given_ops == CAPL_MAX_OUT, "one for each number of outputs");

capl_status capl_gradient_record(capl_tensor *const *in, int n_in, capl_tensor *const *out, int n_out,
                                 capl_segment_fn fn, void *user, void (*drop)(void *user))
{
  capl_node *node = NULL;
  capl_status status = CAPL_OK;
  if (n_out < 1 || n_out > CAPL_MAX_OUT || n_in > 31)
    status = CAPL_FAIL(CAPL_EVALUE,
                       "a gradient of its own: at most 31 tensors go in and 1 to %d come out, not %d and %d",
                       CAPL_MAX_OUT, n_in, n_out);
  if (status == CAPL_OK && !(node = node_new(&given_ops[n_out - 1], n_in)))
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory to record a function");
  if (status == CAPL_OK) status = node_keep(node, in, 0, out, 0);
  if (status == CAPL_OK) status = new_segment((capl_segment){fn, user, drop, capl_autocast_get()}, &node->segment);
  if (status == CAPL_OK) return node_link(node, in, out), CAPL_OK;
  capl_node_unref(node);
  drop(user);
  return status;
}

bool segment_has(const capl_segment *segment, capl_dtype dtype)
{
  return segment->low == dtype;
}
