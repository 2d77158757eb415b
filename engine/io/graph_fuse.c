/* graph_fuse.c -- convolution or linear, bias and activation become one node: what a kernel has in registers is not
** written and read again.
**
** relu behind max_pool2d moves to the convolution before the pooling: both orders give the same.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/backend.h"
#include "io/graph_passes.h"
#include "ops/attrs.h"

/* The node whose result is the only thing that `value` is, and that goes nowhere else; NULL if there is none. */
static graph_node *maker_of(const graph_links *l, int value)
{
  int k = value >= 0 && l->uses[value] == 1 ? l->maker[value] : -1;
  return k >= 0 && graph_one_output(l, &l->g->nodes[k]) ? &l->g->nodes[k] : NULL;
}

/* What a node becomes with the activation: conv2d_act, linear_act. false: nothing. */
static bool with_act(const graph_node *product, const graph_node *act, capl_op_id *op, int *at)
{
  *op = product->op == CAPL_OP_conv2d ? CAPL_OP_conv2d_act : CAPL_OP_linear_act;
  *at = product->op == CAPL_OP_conv2d ? AT(conv2d_act, act) : AT(linear_act, act);
  if (product->op == CAPL_OP_conv2d) return act->op == CAPL_OP_relu || act->op == CAPL_OP_silu;
  return product->op == CAPL_OP_linear && act->op == CAPL_OP_relu;
}

static void set_act(const capl_graph *g, graph_node *node, capl_op_id op, int at, int64_t act)
{
  node->op = op;
  node->attr[at] = CAPL_A_INT(act);
  for (int w = 0; node->by_width && w < g->n_widths; w++) node->by_width[w * CAPL_MAX_ATTR + at] = CAPL_A_INT(act);
}

/* Whether the activation at node k is gone. */
static bool fuse(graph_links *l, const capl_device *device, int k)
{
  graph_node *act = &l->g->nodes[k], *last = act->n_in > 0 ? maker_of(l, act->in[0]) : NULL, *product = last;
  capl_op_id op;
  int at;
  if (last && last->op == CAPL_OP_max_pool2d && act->op == CAPL_OP_relu) product = maker_of(l, last->in[0]);
  if (!product || !with_act(product, act, &op, &at) || !capl_device_has(device, op)) return false;
  set_act(l->g, product, op, at, act->op == CAPL_OP_silu ? NORM_SILU : NORM_RELU);
  last->out[0] = act->out[0];
  graph_remove_node(l->g, k);
  return true;
}

capl_status graph_fuse(capl_graph *g, const capl_device *device)
{
  graph_links links;
  capl_status status = graph_links_new(g, &links);
  for (int k = 0; status == CAPL_OK && k < g->n_nodes;) {
    if (fuse(&links, device, k)) graph_links_count(&links);
    else k++;
  }
  graph_links_free(&links);
  return status;
}
