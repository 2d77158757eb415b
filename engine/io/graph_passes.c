/* graph_passes.c -- the passes over an opened graph, in order, and what they share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/graph_passes.h"

#include <stdlib.h>
#include <string.h>

/* graph.c decides for each call. */
static capl_status let_in_place(capl_graph *g, const capl_device *device)
{
  (void)device;
  g->in_place = true;
  return CAPL_OK;
}

static const struct {
  const char *name;
  capl_status (*run)(capl_graph *graph, const capl_device *device);
} passes[] = {
  {"constants", graph_constants},
  {"batch norm", graph_fold},
  {"activations", graph_fuse},
  {"unused weights", graph_drop_unused},
  {"results in place", let_in_place},
};

capl_status graph_optimize(capl_graph *g, const capl_device *device)
{
  for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
    capl_status status = passes[k].run(g, device);
    if (status != CAPL_OK) {
      capl_error_context("while the model's graph was made cheaper to run: %s", passes[k].name);
      return status;
    }
  }
  return CAPL_OK;
}

/* ---- shared ------------------------------------------------------------------------------------ */

void graph_links_count(graph_links *l)
{
  capl_graph *g = l->g;
  for (int v = 0; v < g->n_values; v++) l->uses[v] = 0, l->maker[v] = -1;
  for (int k = 0; k < g->n_nodes; k++) {
    for (int i = 0; i < g->nodes[k].n_in; i++)
      if (g->nodes[k].in[i] >= 0) l->uses[g->nodes[k].in[i]]++;
    for (int o = 0; o < capl_op_get(g->nodes[k].op)->n_out; o++) l->maker[g->nodes[k].out[o]] = k;
  }
  for (int o = 0; o < g->n_outputs; o++) l->uses[g->outputs[o].value]++;
}

capl_status graph_links_new(capl_graph *g, graph_links *l)
{
  *l = (graph_links){.g = g, .uses = calloc((size_t)g->n_values, sizeof *l->uses),
                     .maker = calloc((size_t)g->n_values, sizeof *l->maker)};
  if (!l->uses || !l->maker) return CAPL_FAIL(CAPL_ENOMEM, "no memory to open a graph of %d values", g->n_values);
  graph_links_count(l);
  return CAPL_OK;
}

void graph_links_free(graph_links *l)
{
  free(l->uses);
  free(l->maker);
}

bool graph_one_output(const graph_links *l, const graph_node *node)
{
  for (int o = 1; o < capl_op_get(node->op)->n_out; o++)
    if (l->uses[node->out[o]] > 0) return false;
  return true;
}

void graph_remove_node(capl_graph *g, int k)
{
  free(g->nodes[k].in);
  free(g->nodes[k].by_width);
  memmove(&g->nodes[k], &g->nodes[k + 1], (size_t)(--g->n_nodes - k) * sizeof *g->nodes);
}
