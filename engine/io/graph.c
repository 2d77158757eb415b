/* graph.c -- running a recorded forward pass at any batch size and at each of its widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"

void capl_graph_free(capl_graph *graph)
{
  if (!graph) return;
  capl_named_tensors_free(graph->weights, graph->n_weights);
  for (int k = 0; graph->nodes && k < graph->n_nodes; k++) {
    free(graph->nodes[k].in);
    free(graph->nodes[k].by_width);
  }
  free(graph->nodes);
  free(graph);
}

/* ---- running --------------------------------------------------------------------------------- */

const capl_attr *graph_attrs(const graph_node *node, int w)
{
  return node->by_width ? node->by_width + (size_t)w * CAPL_MAX_ATTR : node->attr;
}

/* attr of a node for batch n at width w. */
static void bind_sizes(const graph_node *node, int64_t n, int w, capl_attr *attr)
{
  memcpy(attr, graph_attrs(node, w), sizeof node->attr);
  for (int k = 0; k < CAPL_MAX_ATTR; k++) {
    if (!node->follows_batch[k]) continue;
    bool list = capl_op_get(node->op)->attrs[k].kind == CAPL_ATTR_INTS;
    if (!list) attr[k].i *= n;
    for (int d = 0; list && d < attr[k].n; d++)
      if (node->follows_batch[k] >> d & 1) attr[k].v[d] *= n;
  }
}

static capl_status run_node(const graph_node *node, int64_t batch, int w, capl_tensor **values, capl_tensor **in)
{
  for (int i = 0; i < node->n_in; i++) in[i] = node->in[i] == GRAPH_ABSENT ? NULL : values[node->in[i]];
  capl_attr attr[CAPL_MAX_ATTR];
  bind_sizes(node, batch, w, attr);
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

/* Number of the width that an input has, -1 = none of them. */
static int width_of(const capl_graph *g, const capl_tensor *x)
{
  int64_t width = x->ndim ? x->size[x->ndim - 1] : 0;
  if (g->n_widths == 0) return width == g->input_size[g->input_ndim - 1] || g->input_ndim == 1 ? 0 : -1;
  for (int w = 0; w < g->n_widths; w++)
    if (g->width[w] == width) return w;
  return -1;
}

/* ",1,50,96|128|160)": the input's sizes behind N. */
static void describe_sizes(const capl_graph *g, char *buf, size_t room)
{
  size_t n = 0;
  for (int d = 1; d < g->input_ndim; d++)
    n += (size_t)snprintf(buf + n, n < room ? room - n : 0, ",%lld", (long long)g->input_size[d]);
  for (int w = 1; w < g->n_widths && n < room; w++) n += (size_t)snprintf(buf + n, room - n, "|%d", g->width[w]);
  if (n < room) snprintf(buf + n, room - n, ")");
}

static capl_status check_input(const capl_graph *g, const capl_tensor *x, int *w)
{
  bool fits = x->ndim == g->input_ndim && x->dtype == g->input_dtype;
  for (int d = 1; fits && d < x->ndim - 1; d++) fits = x->size[d] == g->input_size[d];
  *w = fits ? width_of(g, x) : -1;
  if (*w >= 0) return CAPL_OK;
  char given[160], wanted[640];
  describe_sizes(g, wanted, sizeof wanted);
  return CAPL_FAIL(CAPL_ESHAPE, "the model takes (N%s %s, the input is %s", wanted, capl_dtype_name(g->input_dtype),
                   capl_tensor_describe(x, given, sizeof given));
}

static capl_status run_all(const capl_graph *g, capl_tensor *input, int w, capl_tensor **values, int *last,
                           capl_tensor **in)
{
  values[0] = capl_tensor_ref(input);
  for (int k = 0; k < g->n_weights; k++) values[1 + k] = capl_tensor_ref(g->weights[k].tensor);
  last_uses(g, last);
  for (int k = 0; k < g->n_nodes; k++) {
    CAPL_TRY(run_node(&g->nodes[k], input->size[0], w, values, in));
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
  int w;
  CAPL_TRY(check_input(g, input, &w));
  size_t n = (size_t)g->n_values;
  capl_tensor **values = calloc(n, sizeof *values), **in = calloc((size_t)widest_call(g), sizeof *in);
  int *last = calloc(n, sizeof *last);
  capl_status status = CAPL_OK;
  if (!values || !in || !last) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to run a graph of %d values", g->n_values);
  bool before = capl_grad_set_enabled(false);
  if (status == CAPL_OK) status = run_all(g, input, w, values, last, in);
  capl_grad_set_enabled(before);
  if (status == CAPL_OK) *out = capl_tensor_ref(values[g->output]);
  for (size_t v = 0; values && v < n; v++) capl_tensor_unref(values[v]);
  free(values);
  free(in);
  free(last);
  return status;
}
