/* graph_fold.c -- makes a graph cheaper to run: batch norm disappears in the convolution before it, weights take the
** type they are computed in.
**
** Only weights that nothing else uses are touched. The folded bias moves into the slot of batch norm's own, so that no
** value gets another number. max_pool2d comes before relu: both orders give the same, this one a quarter of the work.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/tape.h"
#include "io/graph_passes.h"
#include "ops/attrs.h"

/* ---- folding ----------------------------------------------------------------------------------- */

static capl_named_tensor *weight_at(const capl_graph *g, int value) { return &g->weights[value - g->n_inputs]; }

/* The weight behind a value if it is one in f32 that only one node uses. */
static capl_tensor *own_weight(const graph_links *f, int value)
{
  const capl_graph *g = f->g;
  if (!graph_is_weight(g, value) || f->uses[value] != 1) return NULL;
  capl_tensor *t = weight_at(g, value)->tensor;
  return t->dtype == CAPL_F32 ? t : NULL;
}

enum { BN_X, BN_WEIGHT, BN_BIAS, BN_MEAN, BN_VAR, BN_INPUTS }; /* inputs of batch_norm, bn_act, bn_act_pool */

static bool is_norm(const graph_node *node)
{
  return node->op == CAPL_OP_batch_norm || node->op == CAPL_OP_bn_act || node->op == CAPL_OP_bn_act_pool;
}

static bool in_training(const graph_node *node)
{
  int k = capl_attr_index(capl_op_get(node->op), "training");
  return node->attr[k].i != 0;
}

/* The product node whose result goes nowhere but into this batch norm, if the two can be one; else NULL. */
static graph_node *product_before(const graph_links *f, const graph_node *norm)
{
  if (!is_norm(norm) || norm->n_in != BN_INPUTS || in_training(norm) || !graph_one_output(f, norm)) return NULL;
  int x = norm->in[BN_X], maker = x >= 0 ? f->maker[x] : -1;
  if (maker < 0 || f->uses[x] != 1) return NULL;
  graph_node *node = &f->g->nodes[maker];
  if ((node->op != CAPL_OP_conv2d && node->op != CAPL_OP_linear) || node->n_in < 2) return NULL;
  capl_tensor *weight = own_weight(f, node->in[1]);
  bool biased = node->n_in > 2 && node->in[2] != GRAPH_ABSENT;
  bool ok = weight && weight->ndim >= 2 && (!biased || own_weight(f, node->in[2]));
  for (int i = BN_WEIGHT; ok && i <= BN_VAR; i++) {
    capl_tensor *t = own_weight(f, norm->in[i]);
    ok = t && t->ndim == 1 && t->size[0] == weight->size[0];
  }
  if (ok && biased) ok = capl_tensor_numel(own_weight(f, node->in[2])) == weight->size[0];
  return ok ? node : NULL;
}

/* Values of the weight in row-major order; NULL without memory. Caller frees. */
static double *values_of(const capl_graph *g, int value)
{
  const capl_tensor *t = weight_at(g, value)->tensor;
  double *values = malloc(((size_t)capl_tensor_numel(t) + 1) * sizeof *values);
  if (values && capl_tensor_to_doubles(t, values) == CAPL_OK) return values;
  free(values);
  return NULL;
}

static capl_status replace_weight(capl_graph *g, int value, const double *values)
{
  capl_named_tensor *slot = weight_at(g, value);
  capl_tensor *old = slot->tensor, *fresh;
  CAPL_TRY(capl_tensor_from_doubles(old->device, old->dtype, old->ndim, old->size, values, &fresh));
  slot->tensor = fresh;
  capl_tensor_unref(old);
  return CAPL_OK;
}

/* w[o,...] *= gamma / sqrt(var + eps); bias: beta + (bias - mean) * the same. p: gamma, beta, mean, var, bias or
** NULL. */
static void fold_numbers(double *w, int64_t outputs, int64_t each, double *const *p, double eps)
{
  for (int64_t o = 0; o < outputs; o++) {
    double scale = p[0][o] / sqrt(p[3][o] + eps);
    for (int64_t i = 0; i < each; i++) w[o * each + i] *= scale;
    p[1][o] += ((p[4] ? p[4][o] : 0) - p[2][o]) * scale;
  }
}

static capl_status fold_weights(capl_graph *g, const graph_node *product, const graph_node *norm)
{
  const capl_tensor *weight = weight_at(g, product->in[1])->tensor;
  bool biased = product->n_in > 2 && product->in[2] != GRAPH_ABSENT;
  double eps = norm->attr[capl_attr_index(capl_op_get(norm->op), "eps")].f;
  double *w = values_of(g, product->in[1]), *p[5] = {NULL};
  bool ok = w != NULL;
  for (int i = 0; i < 4; i++) ok = (p[i] = values_of(g, norm->in[BN_WEIGHT + i])) && ok;
  if (biased) ok = (p[4] = values_of(g, product->in[2])) && ok;
  capl_status status = ok ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to fold the model's batch norm");
  if (ok) {
    int64_t outputs = weight->size[0];
    fold_numbers(w, outputs, outputs ? capl_tensor_numel(weight) / outputs : 0, p, eps);
    status = replace_weight(g, product->in[1], w);
  }
  if (status == CAPL_OK) status = replace_weight(g, norm->in[BN_BIAS], p[1]);
  for (int i = 0; i < 5; i++) free(p[i]);
  free(w);
  return status;
}

/* The product reads the folded bias. */
static capl_status take_bias(graph_node *product, int bias)
{
  if (product->n_in < 3) {
    int *in = realloc(product->in, 3 * sizeof *in);
    if (!in) return CAPL_FAIL(CAPL_ENOMEM, "no memory to fold the model's batch norm");
    product->in = in;
    product->n_in = 3;
  }
  product->in[2] = bias;
  return CAPL_OK;
}

static void set_node(graph_node *node, capl_op_id op, int in, int out)
{
  node->op = op;
  node->n_in = 1;
  node->in[0] = in;
  node->out[0] = out;
  memset(node->follows_batch, 0, sizeof node->follows_batch);
  memset(node->follows_width, 0, sizeof node->follows_width);
  free(node->by_width);
  node->by_width = NULL;
  capl_attr_defaults(capl_op_get(op), node->attr);
}

/* What is left of a batch norm whose arithmetic has moved into the product before it. nodes has room for one more. */
static capl_status reduce_norm(capl_graph *g, graph_node *product, int k)
{
  graph_node *norm = &g->nodes[k];
  int x = norm->in[BN_X], y = norm->out[0], first = norm->out[1], index = norm->out[3];
  if (norm->op == CAPL_OP_batch_norm) {
    product->out[0] = y;
    graph_remove_node(g, k);
    return CAPL_OK;
  }
  if (norm->op == CAPL_OP_bn_act) {
    set_node(norm, norm->attr[NORM_ACT].i == NORM_SILU ? CAPL_OP_silu : CAPL_OP_relu, x, y);
    return CAPL_OK;
  }
  int *in = calloc(1, sizeof *in);
  if (!in) return CAPL_FAIL(CAPL_ENOMEM, "no memory to fold the model's batch norm");
  memmove(norm + 1, norm, (size_t)(g->n_nodes++ - k) * sizeof *norm);
  norm->by_width = NULL; /* moved with the rest */
  set_node(&norm[1], CAPL_OP_relu, first, y);
  norm->in = in;
  set_node(norm, CAPL_OP_max_pool2d, x, first);
  norm->out[1] = index;
  return capl_attr_parse(capl_op_get(CAPL_OP_max_pool2d), norm->attr, "kernel", "2");
}

static capl_status fold_all(graph_links *f)
{
  capl_graph *g = f->g;
  for (int k = 0; k < g->n_nodes; k++) {
    graph_links_count(f);
    graph_node *norm = &g->nodes[k], *product = product_before(f, norm);
    if (!product) continue;
    int bias = norm->in[BN_BIAS];
    CAPL_TRY(fold_weights(g, product, norm));
    CAPL_TRY(take_bias(product, bias));
    CAPL_TRY(reduce_norm(g, product, k));
  }
  return CAPL_OK;
}

capl_status graph_fold(capl_graph *g, const capl_device *device)
{
  (void)device;
  graph_links links;
  graph_node *nodes = realloc(g->nodes, 2 * ((size_t)g->n_nodes + 1) * sizeof *nodes);
  if (!nodes) return CAPL_FAIL(CAPL_ENOMEM, "no memory to fold the model's batch norm");
  g->nodes = nodes;
  capl_status status = graph_links_new(g, &links);
  if (status == CAPL_OK) status = fold_all(&links);
  graph_links_free(&links);
  return status;
}

/* ---- types --------------------------------------------------------------------------------------- */

/* Whether every node that reads the value computes in the low type. */
static bool only_low(const capl_graph *g, int value)
{
  bool used = false;
  for (int k = 0; k < g->n_nodes; k++)
    for (int i = 0; i < g->nodes[k].n_in; i++) {
      if (g->nodes[k].in[i] != value) continue;
      if (capl_op_get(g->nodes[k].op)->amp != CAPL_AMP_LOW) return false;
      used = true;
    }
  return used;
}

static capl_status cast(capl_tensor **t, capl_dtype dtype)
{
  capl_attr attr[CAPL_MAX_ATTR];
  const capl_op *op = capl_op_get(CAPL_OP_cast);
  capl_tensor *out;
  capl_attr_defaults(op, attr);
  CAPL_TRY(capl_attr_set_word(op, attr, "dtype", capl_dtype_name(dtype)));
  CAPL_TRY(capl_op_call(CAPL_OP_cast, t, 1, attr, &out));
  capl_tensor_unref(*t);
  *t = out;
  return CAPL_OK;
}

capl_status graph_lower(capl_graph *g, capl_dtype low)
{
  bool before = capl_grad_set_enabled(false);
  capl_status status = CAPL_OK;
  for (int k = 0; status == CAPL_OK && k < g->n_weights; k++)
    if (g->weights[k].tensor && g->weights[k].tensor->dtype == CAPL_F32 && only_low(g, g->n_inputs + k))
      status = cast(&g->weights[k].tensor, low);
  capl_grad_set_enabled(before);
  return status;
}

/* ---- shapes without numbers ---------------------------------------------------------------------- */

static capl_status meta_like(capl_device *meta, const capl_tensor *t, capl_tensor **out)
{
  *out = NULL;
  return t ? capl_tensor_new(meta, t->dtype, t->ndim, t->size, CAPL_AUTO, out) : CAPL_OK;
}

static capl_status meta_input(capl_device *meta, const capl_graph *g, int i, int64_t batch, int w, capl_tensor **x)
{
  const graph_input *input = &g->inputs[i];
  int64_t size[CAPL_MAX_NDIM];
  memcpy(size, input->size, sizeof size);
  size[0] = batch;
  if (g->n_widths > 0) size[input->ndim - 1] = g->width[w];
  return capl_tensor_new(meta, input->dtype, input->ndim, size, CAPL_AUTO, x);
}

/* shell: g with weights of no contents yet. y: every output. */
static capl_status run_meta(capl_graph *shell, const capl_graph *g, int64_t batch, int w, capl_tensor **y,
                            graph_cost *cost)
{
  capl_device *meta;
  capl_named_tensor x[CAPL_GRAPH_PORTS_MAX] = {{NULL, NULL}};
  CAPL_TRY(capl_device_open("meta", &meta));
  for (; shell->n_weights < g->n_weights; shell->n_weights++)
    CAPL_TRY(meta_like(meta, g->weights[shell->n_weights].tensor, &shell->weights[shell->n_weights].tensor));
  capl_status status = CAPL_OK;
  for (int i = 0; status == CAPL_OK && i < g->n_inputs; i++) {
    x[i].name = shell->inputs[i].name;
    status = meta_input(meta, g, i, batch, w, &x[i].tensor);
  }
  if (status == CAPL_OK) status = graph_run_counted(shell, x, g->n_inputs, y, cost);
  for (int i = 0; i < g->n_inputs; i++) capl_tensor_unref(x[i].tensor);
  return status;
}

capl_status graph_shape(const capl_graph *g, int64_t batch, int w, int o, int *ndim, int64_t *size,
                        graph_cost *cost)
{
  capl_tensor *y[CAPL_GRAPH_PORTS_MAX] = {NULL};
  capl_graph shell = *g;
  shell.n_weights = 0;
  shell.weights = calloc((size_t)g->n_weights + 1, sizeof *shell.weights);
  if (!shell.weights) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the shapes of a graph");
  if (cost) *cost = (graph_cost){0};
  capl_status status = run_meta(&shell, g, batch, w, y, cost);
  if (status == CAPL_OK) {
    *ndim = y[o]->ndim;
    memcpy(size, y[o]->size, sizeof y[o]->size);
  }
  for (int k = 0; k < g->n_outputs; k++) capl_tensor_unref(y[k]);
  capl_named_tensors_free(shell.weights, shell.n_weights);
  return status;
}
