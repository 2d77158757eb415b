/* graph.c -- running a recorded forward pass, and making its batch size free.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/graph.h"

#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"

void capl_graph_free(capl_graph *graph)
{
  if (!graph) return;
  capl_named_tensors_free(graph->weights, graph->n_weights);
  for (int k = 0; graph->nodes && k < graph->n_nodes; k++) free(graph->nodes[k].in);
  free(graph->nodes);
  free(graph);
}

/* ---- batch ----------------------------------------------------------------------------------- */

/* One number of two traces: equal, or both the same multiple of their batch. */
static bool merge_number(int64_t *a, int64_t b, int64_t batch_a, int64_t batch_b, bool *follows)
{
  *follows = *a != b;
  if (!*follows) return true;
  if (*a % batch_a || b % batch_b || *a / batch_a != b / batch_b) return false;
  *a /= batch_a;
  return true;
}

static capl_status merge_node(graph_node *a, const graph_node *b, int64_t batch_a, int64_t batch_b)
{
  const capl_op *op = capl_op_get(a->op);
  if (a->op != b->op || a->n_in != b->n_in)
    return CAPL_FAIL(CAPL_EVALUE, "the model calls other ops for another batch size (%s, then %s)", op->name,
                     capl_op_get(b->op)->name);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    capl_attr_kind kind = op->attrs[k].kind;
    int n = kind == CAPL_ATTR_INTS ? a->attr[k].n : 1;
    bool same = n == (kind == CAPL_ATTR_INTS ? b->attr[k].n : 1);
    for (int d = 0; same && d < n; d++) {
      int64_t *x = kind == CAPL_ATTR_INTS ? &a->attr[k].v[d] : &a->attr[k].i;
      int64_t y = kind == CAPL_ATTR_INTS ? b->attr[k].v[d] : b->attr[k].i;
      bool follows;
      same = merge_number(x, y, batch_a, batch_b, &follows);
      if (follows) a->follows_batch[k] |= (uint8_t)(1u << d);
    }
    if (!same)
      return CAPL_FAIL(CAPL_EVALUE, "%s of %s does not scale with the batch size", op->attrs[k].name, op->name);
  }
  return CAPL_OK;
}

capl_status capl_graph_merge_batch(capl_graph *a, const capl_graph *b)
{
  int64_t batch_a = a->input_size[0], batch_b = b->input_size[0];
  if (a->n_nodes != b->n_nodes || a->n_values != b->n_values || batch_a == batch_b || batch_a < 1 || batch_b < 1)
    return CAPL_FAIL(CAPL_EVALUE, "the model makes %d op calls for a batch of %lld and %d for one of %lld",
                     a->n_nodes, (long long)batch_a, b->n_nodes, (long long)batch_b);
  for (int k = 0; k < a->n_nodes; k++) CAPL_TRY(merge_node(&a->nodes[k], &b->nodes[k], batch_a, batch_b));
  return CAPL_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* attr of a node for batch n. */
static void bind_batch(const graph_node *node, int64_t n, capl_attr *attr)
{
  memcpy(attr, node->attr, sizeof node->attr);
  for (int k = 0; k < CAPL_MAX_ATTR; k++) {
    if (!node->follows_batch[k]) continue;
    bool list = capl_op_get(node->op)->attrs[k].kind == CAPL_ATTR_INTS;
    if (!list) attr[k].i *= n;
    for (int d = 0; list && d < attr[k].n; d++)
      if (node->follows_batch[k] >> d & 1) attr[k].v[d] *= n;
  }
}

static capl_status run_node(const graph_node *node, int64_t batch, capl_tensor **values, capl_tensor **in)
{
  for (int i = 0; i < node->n_in; i++) in[i] = node->in[i] == GRAPH_ABSENT ? NULL : values[node->in[i]];
  capl_attr attr[CAPL_MAX_ATTR];
  bind_batch(node, batch, attr);
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  CAPL_TRY(capl_op_call(node->op, in, node->n_in, attr, out));
  for (int k = 0; k < capl_op_get(node->op)->n_out; k++) values[node->out[k]] = out[k];
  return CAPL_OK;
}

/* Position of the last node that reads each value; the output is read at the end. */
static void last_uses(const capl_graph *g, int *last)
{
  for (int v = 0; v < g->n_values; v++) last[v] = -1;
  for (int k = 0; k < g->n_nodes; k++)
    for (int i = 0; i < g->nodes[k].n_in; i++)
      if (g->nodes[k].in[i] >= 0) last[g->nodes[k].in[i]] = k;
  last[g->output] = g->n_nodes;
}

static void drop_unused(const graph_node *node, int k, const int *last, capl_tensor **values)
{
  for (int i = 0; i < node->n_in; i++) {
    int v = node->in[i];
    if (v < 0 || last[v] != k || !values[v]) continue;
    capl_tensor_unref(values[v]);
    values[v] = NULL;
  }
  for (int o = 0; o < capl_op_get(node->op)->n_out; o++) {
    int v = node->out[o];
    if (last[v] >= 0) continue;
    capl_tensor_unref(values[v]);
    values[v] = NULL;
  }
}

static capl_status check_input(const capl_graph *g, const capl_tensor *x)
{
  bool fits = x->ndim == g->input_ndim && x->dtype == g->input_dtype;
  for (int d = 1; fits && d < x->ndim; d++) fits = x->size[d] == g->input_size[d];
  if (fits) return CAPL_OK;
  char given[160], wanted[128];
  capl_shape_describe(g->input_ndim - 1, g->input_size + 1, wanted, sizeof wanted);
  return CAPL_FAIL(CAPL_ESHAPE, "the model takes (N,%s %s, the input is %s", wanted + 1,
                   capl_dtype_name(g->input_dtype), capl_tensor_describe(x, given, sizeof given));
}

static capl_status run_all(const capl_graph *g, capl_tensor *input, capl_tensor **values, int *last, capl_tensor **in)
{
  values[0] = capl_tensor_ref(input);
  for (int k = 0; k < g->n_weights; k++) values[1 + k] = capl_tensor_ref(g->weights[k].tensor);
  last_uses(g, last);
  for (int k = 0; k < g->n_nodes; k++) {
    CAPL_TRY(run_node(&g->nodes[k], input->size[0], values, in));
    drop_unused(&g->nodes[k], k, last, values);
  }
  return CAPL_OK;
}

static int widest_call(const capl_graph *g)
{
  int most = 1;
  for (int k = 0; k < g->n_nodes; k++)
    if (g->nodes[k].n_in > most) most = g->nodes[k].n_in;
  return most;
}

capl_status capl_graph_run(const capl_graph *g, capl_tensor *input, capl_tensor **out)
{
  CAPL_TRY(check_input(g, input));
  size_t n = (size_t)g->n_values;
  capl_tensor **values = calloc(n, sizeof *values), **in = calloc((size_t)widest_call(g), sizeof *in);
  int *last = calloc(n, sizeof *last);
  capl_status status = CAPL_OK;
  if (!values || !in || !last) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to run a graph of %d values", g->n_values);
  bool before = capl_grad_set_enabled(false);
  if (status == CAPL_OK) status = run_all(g, input, values, last, in);
  capl_grad_set_enabled(before);
  if (status == CAPL_OK) *out = capl_tensor_ref(values[g->output]);
  for (size_t v = 0; values && v < n; v++) capl_tensor_unref(values[v]);
  free(values);
  free(in);
  free(last);
  return status;
}
