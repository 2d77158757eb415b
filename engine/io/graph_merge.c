/* graph_merge.c -- traces of one model at several batch sizes and widths become one graph.
**
** Two traces must make the same calls of the same ops. Numbers that differ follow the batch size, as factors, or the
** width, as a list. What a model computes in Lua from a size and gives to no op stays as it was, so constants must
** agree. SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/graph.h"

/* ---- constants --------------------------------------------------------------------------------- */

static bool same_numbers(const capl_tensor *a, const capl_tensor *b)
{
  enum { MOST = 1 << 16 }; /* larger ones are not computed from a size */
  int64_t n = capl_tensor_numel(a);
  if (a->storage == b->storage || n > MOST) return true;
  double *x = malloc(((size_t)n + 1) * sizeof *x), *y = malloc(((size_t)n + 1) * sizeof *y);
  bool same = !x || !y || capl_tensor_to_doubles(a, x) != CAPL_OK || capl_tensor_to_doubles(b, y) != CAPL_OK ||
              memcmp(x, y, (size_t)n * sizeof *x) == 0;
  free(x);
  free(y);
  return same;
}

/* Tensors that forward makes itself, not parameters. what: "batch size" or "width". */
static capl_status check_constants(const capl_graph *a, const capl_graph *b, const char *what)
{
  bool same = a->n_weights == b->n_weights;
  for (int k = 0; same && k < a->n_weights; k++) {
    const capl_tensor *x = a->weights[k].tensor, *y = b->weights[k].tensor;
    same = x->ndim == y->ndim && x->dtype == y->dtype
        && memcmp(x->size, y->size, (size_t)x->ndim * sizeof *x->size) == 0;
    if (same && same_numbers(x, y)) continue;
    char one[160], other[160];
    CAPL_FAIL(CAPL_EVALUE, "the model makes a tensor that follows the %s: %s, then %s", what,
              capl_tensor_describe(x, one, sizeof one), capl_tensor_describe(y, other, sizeof other));
    capl_error_hint("a model file holds such a tensor once; leave it to an op (as an optional state, an attribute), "
                    "or keep the "
                    "largest as a buffer and narrow it");
    return CAPL_EVALUE;
  }
  return same ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "the model reads other weights for another %s", what);
}

static capl_status check_calls(const graph_node *a, const graph_node *b, const char *what)
{
  if (a->op == b->op && a->n_in == b->n_in && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0)
    return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "the model calls other ops for another %s (%s, then %s)", what,
                   capl_op_get(a->op)->name, capl_op_get(b->op)->name);
}

/* ---- batch ------------------------------------------------------------------------------------- */

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
  CAPL_TRY(check_calls(a, b, "batch size"));
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
    if (!same || a->attr[k].f != b->attr[k].f)
      return CAPL_FAIL(CAPL_EVALUE, "%s of %s does not scale with the batch size", op->attrs[k].name, op->name);
  }
  return CAPL_OK;
}

/* The names of one list of inputs or outputs, as "points, text". */
static const char *join_names(const capl_graph *g, bool outputs, char *buf, size_t room)
{
  size_t n = 0;
  *buf = '\0';
  for (int i = 0; i < (outputs ? g->n_outputs : g->n_inputs) && n < room; i++)
    n += (size_t)snprintf(buf + n, room - n, "%s%s", i ? ", " : "", outputs ? g->outputs[i].name : g->inputs[i].name);
  return *buf ? buf : "one without a name";
}

static capl_status check_ports(const capl_graph *a, const capl_graph *b, const char *what)
{
  char one[512], other[512];
  for (int outputs = 0; outputs < 2; outputs++) {
    join_names(a, outputs, one, sizeof one);
    join_names(b, outputs, other, sizeof other);
    if ((outputs ? a->n_outputs == b->n_outputs : a->n_inputs == b->n_inputs) && strcmp(one, other) == 0) continue;
    return CAPL_FAIL(CAPL_EVALUE, "the model has other %s for another %s (%s, then %s)", outputs ? "outputs" : "inputs",
                     what, one, other);
  }
  for (int o = 0; o < a->n_outputs; o++)
    if (a->outputs[o].value != b->outputs[o].value)
      return CAPL_FAIL(CAPL_EVALUE, "the model takes its output %s from another op for another %s", a->outputs[o].name,
                       what);
  return CAPL_OK;
}

capl_status capl_graph_merge_batch(capl_graph *a, const capl_graph *b)
{
  int64_t batch_a = a->inputs[0].size[0], batch_b = b->inputs[0].size[0];
  CAPL_TRY(check_ports(a, b, "batch size"));
  if (a->n_nodes != b->n_nodes || a->n_values != b->n_values || batch_a == batch_b || batch_a < 1 || batch_b < 1)
    return CAPL_FAIL(CAPL_EVALUE, "the model makes %d op calls for a batch of %lld and %d for one of %lld",
                     a->n_nodes, (long long)batch_a, b->n_nodes, (long long)batch_b);
  CAPL_TRY(check_constants(a, b, "batch size"));
  for (int k = 0; k < a->n_nodes; k++) CAPL_TRY(merge_node(&a->nodes[k], &b->nodes[k], batch_a, batch_b));
  return CAPL_OK;
}

/* ---- width ------------------------------------------------------------------------------------- */

capl_status graph_node_widths(graph_node *node, int n_before, int n)
{
  int from = node->by_width ? n_before : 0;
  capl_attr *sets = realloc(node->by_width, (size_t)n * sizeof node->attr);
  if (!sets) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a graph of %d widths", n);
  node->by_width = sets;
  for (int w = from; w < n; w++) memcpy(sets + (size_t)w * CAPL_MAX_ATTR, node->attr, sizeof node->attr);
  return CAPL_OK;
}

/* One number at two widths; *now: what it is at b's, a factor of the batch where it is one at a's. */
static bool at_width(int64_t b, bool follows_batch, int64_t batch, int64_t *now)
{
  *now = follows_batch ? b / batch : b;
  return !follows_batch || b % batch == 0;
}

/* Writes the attributes that b has into attr; same: none differs from a's. */
static capl_status attrs_at_width(graph_node *a, const graph_node *b, int64_t batch, capl_attr *attr, bool *same)
{
  const capl_op *op = capl_op_get(a->op);
  memcpy(attr, a->attr, sizeof a->attr);
  *same = true;
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    bool list = op->attrs[k].kind == CAPL_ATTR_INTS, number = list || op->attrs[k].kind == CAPL_ATTR_INT;
    int n = list ? a->attr[k].n : 1;
    bool fits = a->attr[k].f == b->attr[k].f && n == (list ? b->attr[k].n : 1)
        && (number || a->attr[k].i == b->attr[k].i);
    for (int d = 0; fits && number && d < n; d++) {
      int64_t *x = list ? &attr[k].v[d] : &attr[k].i, before = *x;
      fits = at_width(list ? b->attr[k].v[d] : b->attr[k].i, a->follows_batch[k] >> d & 1, batch, x);
      if (*x == before) continue;
      a->follows_width[k] |= (uint8_t)(1u << d);
      *same = false;
    }
    if (!fits)
      return CAPL_FAIL(CAPL_EVALUE, "%s of %s follows the width in a way that a graph cannot hold", op->attrs[k].name,
                       op->name);
  }
  return CAPL_OK;
}

static capl_status merge_node_width(capl_graph *g, graph_node *a, const graph_node *b)
{
  capl_attr attr[CAPL_MAX_ATTR];
  bool same;
  CAPL_TRY(check_calls(a, b, "width"));
  CAPL_TRY(attrs_at_width(a, b, g->inputs[0].size[0], attr, &same));
  if (same && !a->by_width) return CAPL_OK;
  CAPL_TRY(graph_node_widths(a, g->n_widths, g->n_widths + 1));
  memcpy(a->by_width + (size_t)g->n_widths * CAPL_MAX_ATTR, attr, sizeof attr);
  return CAPL_OK;
}

capl_status capl_graph_merge_width(capl_graph *a, const capl_graph *b)
{
  const graph_input *x = &a->inputs[0], *y = &b->inputs[0];
  int last = x->ndim - 1;
  CAPL_TRY(check_ports(a, b, "width"));
  if (a->n_inputs > 1)
    return CAPL_FAIL(CAPL_EVALUE, "a graph of %d inputs has one width; several are for one input alone", a->n_inputs);
  if (a->n_nodes != b->n_nodes || a->n_values != b->n_values || x->ndim != y->ndim || last < 1)
    return CAPL_FAIL(CAPL_EVALUE, "the model makes %d op calls at a width of %lld and %d at %lld", a->n_nodes,
                     (long long)x->size[last], b->n_nodes, (long long)y->size[last]);
  if (a->n_widths == 0) a->width[a->n_widths++] = (int)x->size[last];
  if (a->n_widths == GRAPH_WIDTHS_MAX || y->size[last] <= a->width[a->n_widths - 1])
    return CAPL_FAIL(CAPL_EVALUE, "widths of a graph ascend, and there are %d at most; %lld is none after %d",
                     GRAPH_WIDTHS_MAX, (long long)y->size[last], a->width[a->n_widths - 1]);
  CAPL_TRY(check_constants(a, b, "width"));
  for (int k = 0; k < a->n_nodes; k++) CAPL_TRY(merge_node_width(a, &a->nodes[k], &b->nodes[k]));
  a->width[a->n_widths++] = (int)y->size[last];
  return CAPL_OK;
}
