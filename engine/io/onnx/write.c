/* write.c -- finds the writer of an op, and what writers share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

onnx_writer *onnx_writer_of(capl_op_id op)
{
  static const onnx_row *const families[] = {onnx_pointwise, onnx_products, onnx_norms, onnx_pools, onnx_shapes,
                                             onnx_indices, onnx_reductions, onnx_recurrences, onnx_attentions,
                                             onnx_samples};
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (const onnx_row *row = families[f]; row->write; row++)
      if (row->op == op) return row->write;
  return NULL;
}

/* The name of the nearest weight of this node or of those before it: "layer2.0.conv1.weight" -> its layer. */
static void layer_of(const onnx_call *c, char *text, size_t room)
{
  const capl_graph *g = c->x->graph;
  *text = '\0';
  for (int k = c->number; k >= 0; k--)
    for (int i = 0; i < g->nodes[k].n_in; i++) {
      int w = g->nodes[k].in[i] - g->n_inputs;
      if (w < 0 || w >= g->n_weights) continue;
      const char *name = g->weights[w].name, *dot = strrchr(name, '.');
      int n = dot ? (int)(dot - name) : (int)strlen(name);
      snprintf(text, room, "%s %.*s", k == c->number ? "in layer" : "behind layer", n, name);
      return;
    }
}

void onnx_fail(onnx_build *b, const onnx_call *c, const char *format, ...)
{
  char why[256], layer[256];
  va_list list;
  if (b->status != CAPL_OK) return;
  va_start(list, format);
  vsnprintf(why, sizeof why, format, list);
  va_end(list);
  layer_of(c, layer, sizeof layer);
  b->status = CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: the op %s (node %d, %s) cannot be written as ONNX: %s", c->x->path,
                        capl_op_get(c->op)->name, c->number + 1, *layer ? layer : "before the first layer", why);
  capl_error_hint("capl predict and libcapl run the model as it is; another layer in the recipe makes it exportable");
}

/* ---- inputs ------------------------------------------------------------------------------------ */

const char *onnx_in(const onnx_call *c, int i)
{
  return i < c->n_in && c->in[i] && c->in[i]->name ? c->in[i]->name : ONNX_NONE;
}

onnx_type onnx_out_type(const onnx_call *c) { return onnx_type_of(c->out[0].dtype); }

const char *onnx_in_as_out(onnx_build *b, const onnx_call *c, int i)
{
  onnx_type wanted = onnx_out_type(c);
  const char *x = onnx_in(c, i);
  return !*x || onnx_type_of(c->in[i]->dtype) == wanted ? x : onnx_cast(b, x, wanted);
}

/* ---- attributes -------------------------------------------------------------------------------- */

static bool follows_width(const onnx_call *c, int k)
{
  return c->node && c->node->by_width && c->node->follows_width[k];
}

static bool follows_batch(const onnx_call *c, int k) { return c->node && c->node->follows_batch[k]; }
bool onnx_follows(const onnx_call *c, int k) { return follows_width(c, k) || follows_batch(c, k); }

void onnx_need_fixed(onnx_build *b, const onnx_call *c, int k)
{
  if (onnx_follows(c, k))
    onnx_fail(b, c, "its %s follows the %s", capl_op_get(c->op)->attrs[k].name,
              follows_width(c, k) ? "width" : "batch size");
}

/* A table [widths][n] of the numbers that are factors of the batch (or of those that are not), the others 0; its row
** for the width that there is. */
static const char *size_row(onnx_build *b, const onnx_call *c, int k, int n, bool factors)
{
  int W = follows_width(c, k) ? c->x->graph->n_widths : 1;
  bool list = capl_op_get(c->op)->attrs[k].kind == CAPL_ATTR_INTS;
  int64_t *table = onnx_alloc(b, (size_t)W * (size_t)n * sizeof *table);
  for (int w = 0; table && w < W; w++) {
    const capl_attr *a = (W > 1 ? graph_attrs(c->node, w) : c->attr) + k;
    for (int d = 0; d < n; d++) {
      bool factor = follows_batch(c, k) && c->node->follows_batch[k] >> d & 1;
      table[w * n + d] = factor == factors ? (list ? a->v[d] : a->i) : 0;
    }
  }
  if (!table) return "";
  if (W == 1) return onnx_list(b, n, table);
  const char *all = onnx_constant(b, NULL, ONNX_I64, 2, (const int64_t[]){W, n}, table);
  return ONNX(b, "Gather", all, b->width);
}

const char *onnx_sizes(onnx_build *b, const onnx_call *c, int k)
{
  int n = capl_op_get(c->op)->attrs[k].kind == CAPL_ATTR_INTS ? c->attr[k].n : 1;
  const char *fixed = size_row(b, c, k, n, false);
  if (!follows_batch(c, k)) return fixed;
  const char *factors = size_row(b, c, k, n, true), *times = ONNX(b, "Mul", factors, onnx_batch(b));
  return ONNX(b, "Add", fixed, times);
}
