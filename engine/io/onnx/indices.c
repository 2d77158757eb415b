/* indices.c -- elements by index.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

static void along(onnx_build *b, const onnx_call *c) { onnx_int(b, "axis", c->attr[AT(gather, dim)].i); }
SAME_PLACE(gather, scatter, dim);
SAME_PLACE(gather, scatter_add, dim);
SAME_PLACE(gather, index_select, dim);

static void write_gather(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "GatherElements", onnx_in(c, 0), onnx_in(c, 1));
  along(b, c);
}

static void write_scatter(onnx_build *b, const onnx_call *c)
{
  const char *src = onnx_in(c, 2);
  if (!*src) {
    const char *shape = ONNX(b, "Shape", onnx_in(c, 1));
    src = ONNX(b, "Expand", onnx_number(b, onnx_out_type(c), c->attr[AT(scatter, value)].f), shape);
  }
  c->out[0].name = ONNX(b, "ScatterElements", onnx_in(c, 0), onnx_in(c, 1), src);
  along(b, c);
}

static void write_scatter_add(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "ScatterElements", onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2));
  along(b, c);
  onnx_word(b, "reduction", "add");
}

static void write_index_select(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Gather", onnx_in(c, 0), onnx_in(c, 1));
  along(b, c);
}

static void write_embedding(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Gather", onnx_in(c, 0), onnx_in(c, 1));
}

const onnx_row onnx_indices[] = {
  {CAPL_OP_gather, write_gather}, {CAPL_OP_scatter, write_scatter}, {CAPL_OP_scatter_add, write_scatter_add},
  {CAPL_OP_index_select, write_index_select}, {CAPL_OP_embedding, write_embedding}, {0, NULL},
};
