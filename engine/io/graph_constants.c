/* graph_constants.c -- what only depends on weights is computed once, when the model is opened.
**
** A recurrent layer puts the weights of its directions side by side on every call: here they become one weight, which
** kernels can keep packed.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"
#include "io/graph_passes.h"

/* A result is the same whenever it is computed: no random numbers, nothing written, no size of the input in it. */
static bool is_repeatable(const graph_node *node)
{
  const capl_op *op = capl_op_get(node->op);
  if (op->mutates || op->step_groups || node->by_width) return false;
  for (int a = 0; a < CAPL_MAX_ATTR && op->attrs[a].name; a++)
    if (op->attrs[a].stream || node->follows_batch[a] || node->follows_width[a]) return false;
  return true;
}

static bool is_constant(const capl_graph *g, const graph_node *node)
{
  if (node->n_in == 0 || !is_repeatable(node)) return false;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != GRAPH_ABSENT && !graph_is_weight(g, node->in[i])) return false;
  return true;
}

static int moved(int value, int from, int to)
{
  if (value == from) return to;
  return value >= to && value < from ? value + 1 : value;
}

/* Value `from` becomes the last weight; those between move up by one. */
static void renumber(capl_graph *g, int from)
{
  int to = g->n_inputs + g->n_weights;
  for (int k = 0; k < g->n_nodes; k++) {
    for (int i = 0; i < g->nodes[k].n_in; i++) g->nodes[k].in[i] = moved(g->nodes[k].in[i], from, to);
    for (int o = 0; o < capl_op_get(g->nodes[k].op)->n_out; o++)
      g->nodes[k].out[o] = moved(g->nodes[k].out[o], from, to);
  }
  for (int o = 0; o < g->n_outputs; o++) g->outputs[o].value = moved(g->outputs[o].value, from, to);
}

/* Output o of node k becomes a weight. t: its value, one more reference is taken. */
static capl_status make_weight(capl_graph *g, int k, int o, capl_tensor *t)
{
  capl_named_tensor *list = realloc(g->weights, ((size_t)g->n_weights + 1) * sizeof *list);
  char *name = strdup("constant");
  if (list) g->weights = list;
  if (!list || !name) return free(name), CAPL_FAIL(CAPL_ENOMEM, "no memory for a constant of the graph");
  renumber(g, g->nodes[k].out[o]);
  g->weights[g->n_weights++] = (capl_named_tensor){name, capl_tensor_ref(t)};
  return CAPL_OK;
}

static capl_status compute(graph_links *l, int k)
{
  capl_graph *g = l->g;
  graph_node *node = &g->nodes[k];
  const capl_op *op = capl_op_get(node->op);
  capl_tensor *out[CAPL_MAX_OUT] = {NULL}, **in = calloc((size_t)node->n_in, sizeof *in);
  if (!in) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a constant of the graph");
  for (int i = 0; i < node->n_in; i++)
    in[i] = node->in[i] == GRAPH_ABSENT ? NULL : g->weights[node->in[i] - g->n_inputs].tensor;
  capl_status status = capl_op_call(node->op, in, node->n_in, node->attr, out);
  free(in);
  for (int o = 0; status == CAPL_OK && o < op->n_out; o++) {
    if (l->uses[node->out[o]] > 0) status = make_weight(g, k, o, out[o]);
    graph_links_count(l);
  }
  for (int o = 0; o < op->n_out; o++) capl_tensor_unref(out[o]);
  return status;
}

static capl_status compute_all(graph_links *l)
{
  capl_graph *g = l->g;
  for (int k = 0; k < g->n_nodes;) {
    if (!is_constant(g, &g->nodes[k])) {
      k++;
      continue;
    }
    CAPL_TRY(compute(l, k));
    graph_remove_node(g, k);
    graph_links_count(l);
  }
  return CAPL_OK;
}

capl_status graph_constants(capl_graph *g, const capl_device *device)
{
  (void)device;
  graph_links links;
  capl_status status = graph_links_new(g, &links);
  bool grad = capl_grad_set_enabled(false);
  capl_dtype low = capl_autocast_set(CAPL_F32);
  if (status == CAPL_OK) status = compute_all(&links);
  capl_autocast_set(low);
  capl_grad_set_enabled(grad);
  graph_links_free(&links);
  return status;
}

capl_status graph_drop_unused(capl_graph *g, const capl_device *device)
{
  (void)device;
  graph_links links;
  capl_status status = graph_links_new(g, &links);
  for (int k = 0; status == CAPL_OK && k < g->n_weights; k++) {
    if (links.uses[g->n_inputs + k] > 0) continue;
    capl_tensor_unref(g->weights[k].tensor);
    g->weights[k].tensor = NULL;
  }
  graph_links_free(&links);
  return status;
}
