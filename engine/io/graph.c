/* graph.c -- running a recorded forward pass at any batch size and at each of its widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/tape.h"
#include "ops/run_kernel.h"
#include "tensor/storage.h"

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

/* Ops whose result may take the place of their first input, element by element. */
static bool is_elementwise(capl_op_id op)
{
  switch (op) {
  case CAPL_OP_relu: case CAPL_OP_silu: case CAPL_OP_gelu: case CAPL_OP_leaky_relu: case CAPL_OP_elu:
  case CAPL_OP_hardsigmoid: case CAPL_OP_hardswish: case CAPL_OP_clamp: case CAPL_OP_affine: case CAPL_OP_tanh:
  case CAPL_OP_add: case CAPL_OP_sub: case CAPL_OP_mul: return true;
  default: return false;
  }
}

/* Whether nobody but this node reads the memory of its first input, which the host's kernels may then write. in: other
** operands are alike, so that each element is read before it is written. */
static bool may_be_in_place(const graph_node *node, int k, const int *last, capl_tensor *const *in)
{
  capl_tensor *x = in[0];
  if (!is_elementwise(node->op) || last[node->in[0]] != k || !x->device->backend->host_memory) return false;
  if (x->refs != 1 || x->storage->refs != 1 || !capl_tensor_is_dense(x)) return false;
  if (x->dtype != CAPL_F32 && capl_op_get(node->op)->amp == CAPL_AMP_F32) return false; /* its result is f32 */
  for (int i = 1; i < node->n_in; i++)
    if (!in[i] || in[i]->dtype != x->dtype || !capl_tensor_same_layout(in[i], x)) return false;
  return true;
}

static void count_cost(const graph_node *node, capl_tensor **in, const capl_attr *attr, capl_tensor **out,
                       graph_cost *cost)
{
  const capl_op *op = capl_op_get(node->op);
  capl_call call = {.op = op, .in = in, .n_in = node->n_in, .out = out, .attr = attr, .id = node->op};
  if (!cost) return;
  if (op->macs) cost->macs += op->macs(&call);
  for (int o = 0; o < op->n_out; o++)
    if (capl_tensor_bytes(out[o]) > cost->largest) cost->largest = capl_tensor_bytes(out[o]);
}

/* Bits of the outputs that no node reads. */
static uint32_t unread_outputs(const graph_node *node, const int *last)
{
  uint32_t bits = 0;
  for (int o = 0; o < capl_op_get(node->op)->n_out; o++)
    if (last[node->out[o]] < 0) bits |= 1u << o;
  return bits;
}

static capl_status run_node(const capl_graph *g, int k, int64_t batch, int w, const int *last, capl_tensor **values,
                            capl_tensor **in, graph_cost *cost)
{
  const graph_node *node = &g->nodes[k];
  for (int i = 0; i < node->n_in; i++) in[i] = node->in[i] == GRAPH_ABSENT ? NULL : values[node->in[i]];
  capl_attr attr[CAPL_MAX_ATTR];
  bind_sizes(node, batch, w, attr);
  if (g->in_place && may_be_in_place(node, k, last, in)) {
    CAPL_TRY(op_call_into(node->op, in, node->n_in, attr, in));
    values[node->out[0]] = capl_tensor_ref(in[0]);
    return CAPL_OK;
  }
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  CAPL_TRY(op_call_unread(node->op, in, node->n_in, attr, unread_outputs(node, last), out));
  for (int o = 0; o < capl_op_get(node->op)->n_out; o++) values[node->out[o]] = out[o];
  count_cost(node, in, attr, out, cost);
  return CAPL_OK;
}

/* Position of the last node that reads each value; the outputs are read at the end. */
static void last_uses(const capl_graph *g, int *last)
{
  for (int v = 0; v < g->n_values; v++) last[v] = -1;
  for (int k = 0; k < g->n_nodes; k++)
    for (int i = 0; i < g->nodes[k].n_in; i++)
      if (g->nodes[k].in[i] >= 0) last[g->nodes[k].in[i]] = k;
  for (int o = 0; o < g->n_outputs; o++) last[g->outputs[o].value] = g->n_nodes;
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

/* ---- inputs ------------------------------------------------------------------------------------ */

bool graph_name_ok(const char *name)
{
  size_t n = name ? strlen(name) : 0;
  if (n == 0 || n >= CAPL_GRAPH_NAME_MAX || (name[0] >= '0' && name[0] <= '9')) return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

int capl_graph_inputs(const capl_graph *g) { return g->n_inputs; }
const char *capl_graph_input_name(const capl_graph *g, int i) { return g->inputs[i].name; }
int capl_graph_outputs(const capl_graph *g) { return g->n_outputs; }
const char *capl_graph_output_name(const capl_graph *g, int i) { return g->outputs[i].name; }

/* Number of the width that the only input has, 0 where there are no widths, -1 = none of them. */
static int width_of(const capl_graph *g, const capl_tensor *x)
{
  for (int w = 0; w < g->n_widths; w++)
    if (g->width[w] == x->size[x->ndim - 1]) return w;
  return g->n_widths ? -1 : 0;
}

/* ",1,50,96|128|160)": an input's sizes behind N. */
static void describe_sizes(const capl_graph *g, const graph_input *input, char *buf, size_t room)
{
  size_t n = 0;
  *buf = '\0';
  for (int d = 1; d < input->ndim; d++)
    n += (size_t)snprintf(buf + n, n < room ? room - n : 0, ",%lld", (long long)input->size[d]);
  for (int w = 1; w < g->n_widths && n < room; w++) n += (size_t)snprintf(buf + n, room - n, "|%d", g->width[w]);
  if (n < room) snprintf(buf + n, room - n, ")");
}

/* *w: the width by number. */
static capl_status check_input(const capl_graph *g, int i, const capl_tensor *x, int *w)
{
  const graph_input *input = &g->inputs[i];
  bool fits = x->ndim == input->ndim && x->dtype == input->dtype;
  int fixed = fits && g->n_widths ? x->ndim - 1 : x->ndim;
  for (int d = 1; fits && d < fixed; d++) fits = x->size[d] == input->size[d];
  *w = fits ? width_of(g, x) : -1;
  if (*w >= 0) return CAPL_OK;
  char given[160], wanted[640];
  describe_sizes(g, input, wanted, sizeof wanted);
  return CAPL_FAIL(CAPL_ESHAPE, "the model takes (N%s %s%s%s, the input is %s", wanted, capl_dtype_name(input->dtype),
                   *input->name ? " as " : "", input->name, capl_tensor_describe(x, given, sizeof given));
}

static int find_input(const capl_graph *g, const char *name)
{
  for (int i = 0; i < g->n_inputs; i++)
    if (strcmp(g->inputs[i].name, name ? name : "") == 0) return i;
  return -1;
}

/* The inputs in the graph's order; x is all NULL. */
static capl_status order_inputs(const capl_graph *g, const capl_named_tensor *list, int n, capl_tensor **x)
{
  for (int k = 0; k < n; k++) {
    int i = find_input(g, list[k].name);
    if (i < 0 && !*g->inputs[0].name)
      return CAPL_FAIL(CAPL_EVALUE, "the model takes one tensor without a name, not '%.80s'", list[k].name);
    if (i < 0 && (!list[k].name || !*list[k].name))
      return CAPL_FAIL(CAPL_EVALUE, "the model takes its inputs by name; the first is '%s'", g->inputs[0].name);
    if (i < 0)
      return CAPL_FAIL(CAPL_EVALUE, "the model has no input '%.80s'; its first is '%s'", list[k].name,
                       g->inputs[0].name);
    if (x[i]) return CAPL_FAIL(CAPL_EVALUE, "the input '%s' is given twice", g->inputs[i].name);
    x[i] = list[k].tensor;
  }
  for (int i = 0; i < g->n_inputs; i++)
    if (!x[i]) return CAPL_FAIL(CAPL_EVALUE, "the model needs the input '%s'", g->inputs[i].name);
  return CAPL_OK;
}

static capl_status check_inputs(const capl_graph *g, capl_tensor *const *x, int *w)
{
  for (int i = 0; i < g->n_inputs; i++) {
    CAPL_TRY(check_input(g, i, x[i], w));
    if (x[i]->size[0] != x[0]->size[0])
      return CAPL_FAIL(CAPL_ESHAPE, "the input '%s' is of %lld samples, '%s' of %lld", g->inputs[i].name,
                       (long long)x[i]->size[0], g->inputs[0].name, (long long)x[0]->size[0]);
  }
  return CAPL_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static capl_status run_all(const capl_graph *g, capl_tensor *const *x, int w, capl_tensor **values, int *last,
                           capl_tensor **in, graph_cost *cost)
{
  int64_t batch = x[0]->size[0];
  for (int i = 0; i < g->n_inputs; i++) values[i] = capl_tensor_ref(x[i]);
  for (int k = 0; k < g->n_weights; k++) values[g->n_inputs + k] = capl_tensor_ref(g->weights[k].tensor);
  last_uses(g, last);
  for (int k = 0; k < g->n_nodes; k++) {
    CAPL_TRY(run_node(g, k, batch, w, last, values, in, cost));
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

/* x: one for each input, checked. cost: NULL, or is added to. */
static capl_status run_graph(const capl_graph *g, capl_tensor *const *x, int w, capl_tensor **out, graph_cost *cost)
{
  size_t n = (size_t)g->n_values;
  capl_tensor **values = calloc(n, sizeof *values), **in = calloc((size_t)widest_call(g), sizeof *in);
  int *last = calloc(n, sizeof *last);
  capl_status status = CAPL_OK;
  if (!values || !in || !last) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to run a graph of %d values", g->n_values);
  bool before = capl_grad_set_enabled(false);
  if (status == CAPL_OK) status = run_all(g, x, w, values, last, in, cost);
  capl_grad_set_enabled(before);
  for (int o = 0; status == CAPL_OK && o < g->n_outputs; o++) out[o] = capl_tensor_ref(values[g->outputs[o].value]);
  for (size_t v = 0; values && v < n; v++) capl_tensor_unref(values[v]);
  free(values);
  free(in);
  free(last);
  return status;
}

capl_status graph_run_counted(const capl_graph *g, const capl_named_tensor *inputs, int n, capl_tensor **out,
                              graph_cost *cost)
{
  capl_tensor *x[CAPL_GRAPH_PORTS_MAX] = {NULL};
  int w = 0;
  CAPL_TRY(order_inputs(g, inputs, n, x));
  CAPL_TRY(check_inputs(g, x, &w));
  return run_graph(g, x, w, out, cost);
}

capl_status capl_graph_run_named(const capl_graph *g, const capl_named_tensor *inputs, int n, capl_tensor **out)
{
  return graph_run_counted(g, inputs, n, out, NULL);
}

capl_status capl_graph_run(const capl_graph *g, capl_tensor *input, capl_tensor **out)
{
  int w = 0;
  if (g->n_inputs != 1 || g->n_outputs != 1)
    return CAPL_FAIL(CAPL_EVALUE, "the model has %d inputs and %d outputs, each with a name; here is one of both",
                     g->n_inputs, g->n_outputs);
  CAPL_TRY(check_inputs(g, &input, &w));
  return run_graph(g, &input, w, out, NULL);
}
