/* tape.c -- recording: one node per differentiable op call.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tape/tape.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/storage.h"

static _Thread_local bool recording = true;
static _Thread_local uint64_t sequence;
static _Thread_local bool noting, noted; /* what would be recorded if recording were on */

bool capl_grad_set_enabled(bool enabled)
{
  bool before = recording;
  recording = enabled;
  return before;
}

bool capl_grad_enabled(void)
{
  return recording;
}

static bool wants_gradient(const capl_tensor *t)
{
  return t && (t->requires_grad || t->node) && capl_dtype_is_float(t->dtype);
}

bool tape_wants(const capl_op *op, capl_tensor *const *in, int n_in)
{
  if (!(recording || noting) || !op->grad) return false;
  for (int i = 0; i < n_in; i++)
    if (wants_gradient(in[i])) return noted = true, recording;
  return false;
}

bool capl_grad_note(bool on)
{
  bool before = noted;
  noting = on;
  noted = false;
  return before;
}

uint64_t tape_sequence(void)
{
  return sequence;
}

/* t without its past; without its values too unless keep is set. */
static capl_status without_history(capl_tensor *t, bool keep, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_alias(t, t->ndim, t->size, t->stride, t->offset, out));
  if (keep) return CAPL_OK;
  capl_storage_unref((*out)->storage);
  (*out)->storage = NULL;
  return CAPL_OK;
}

/* The node and its per-input lists are one block; lists of wider elements come first, for alignment. */
capl_node *node_new(const capl_op *op, int n_in)
{
  size_t n = (size_t)n_in;
  capl_node *node = calloc(1, sizeof *node + n * (sizeof *node->edges + sizeof *node->in_version +
                                                  sizeof *node->in + sizeof *node->needs));
  if (!node) return NULL;
  node->refs = 1;
  node->op = op;
  node->n_in = n_in;
  node->edges = (capl_edge *)(node + 1);
  node->in_version = (uint64_t *)(node->edges + n);
  node->in = (capl_tensor **)(node->in_version + n);
  node->needs = (bool *)(node->in + n);
  return node;
}

static void link_past(capl_node *node, int i, capl_tensor *t)
{
  if (!wants_gradient(t)) return;
  node->needs[i] = true;
  node->edges[i].output = t->node_output;
  if (t->node) {
    node->edges[i].node = t->node;
    t->node->refs++;
  } else {
    node->edges[i].leaf = capl_tensor_ref(t);
  }
}

static bool bit(uint32_t mask, int i)
{
  return i < 32 && (mask >> i & 1u);
}

capl_status node_keep(capl_node *node, capl_tensor *const *in, uint32_t save_in, capl_tensor *const *out,
                      uint32_t save_out)
{
  for (int i = 0; i < node->n_in; i++) {
    if (!in[i]) continue;
    CAPL_TRY(without_history(in[i], bit(save_in, i), &node->in[i]));
    if (node->in[i]->storage) node->in_version[i] = node->in[i]->storage->version;
  }
  for (int k = 0; k < node->op->n_out; k++) CAPL_TRY(without_history(out[k], bit(save_out, k), &node->out[k]));
  return CAPL_OK;
}

void node_link(capl_node *node, capl_tensor *const *history, capl_tensor *const *out)
{
  node->sequence = ++sequence;
  const char *label = capl_profile_label_get();
  node->label = label ? strdup(label) : NULL;
  for (int i = 0; i < node->n_in; i++) link_past(node, i, history[i]);
  for (int k = 0; k < node->op->n_out; k++) {
    if (bit(node->op->index_outs, k) || !capl_dtype_is_float(out[k]->dtype)) continue;
    out[k]->node = node;
    out[k]->node_output = k;
    node->refs++;
  }
  capl_node_unref(node); /* the outputs hold it now */
}

capl_status tape_record(const capl_call *call, capl_tensor *const *history)
{
  capl_node *node = node_new(call->op, call->n_in);
  if (!node) return CAPL_FAIL(CAPL_ENOMEM, "no memory to record %s", call->op->name);
  capl_status status = node_keep(node, call->in, call->op->save_in, call->out, call->op->save_out);
  if (status != CAPL_OK) {
    capl_node_unref(node);
    return status;
  }
  memcpy(node->attr, call->attr, sizeof node->attr);
  node_link(node, history, call->out);
  return CAPL_OK;
}

void node_release(capl_node *node)
{
  for (int i = 0; i < node->n_in; i++) {
    capl_tensor_unref(node->in[i]);
    node->in[i] = NULL;
  }
  segment_free(node->segment);
  node->segment = NULL;
  for (int k = 0; k < CAPL_MAX_OUT; k++) {
    capl_tensor_unref(node->out[k]);
    capl_tensor_unref(node->dy[k]);
    node->out[k] = node->dy[k] = NULL;
  }
}

static void node_free(capl_node *node)
{
  node_release(node);
  for (int i = 0; i < node->n_in; i++) {
    capl_node_unref(node->edges[i].node);
    capl_tensor_unref(node->edges[i].leaf);
  }
  free(node->label);
  free(node);
}

void capl_node_unref(capl_node *node)
{
  /* Freeing a node drops its past: a worklist instead of recursion, as a graph may be very deep. */
  static _Thread_local capl_node *doomed;
  static _Thread_local bool draining;
  if (!node || --node->refs > 0) return;
  node->next = doomed;
  doomed = node;
  if (draining) return;
  draining = true;
  while (doomed) {
    capl_node *head = doomed;
    doomed = head->next;
    node_free(head);
  }
  draining = false;
}

capl_status capl_tensor_detach(capl_tensor *t, capl_tensor **out)
{
  return without_history(t, true, out);
}
