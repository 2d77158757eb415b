/* write.h -- how an op of a saved graph becomes ONNX nodes: one writer each, listed in the file of its family.
**
** Adding an op: a row in its family's list. An op without a writer is an error that names it and its layer.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_ONNX_WRITE_H
#define CAPL_IO_ONNX_WRITE_H

#include "io/graph.h"
#include "io/onnx/build.h"
#include "ops/attrs.h"

/* What is known of a value of the graph. */
typedef struct {
  const char *name; /* in the ONNX graph; NULL = nothing makes it there */
  int maker;        /* its node, -1 = an input or weight */
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM]; /* -1: it follows the batch size or the width */
} onnx_value;

typedef struct {
  onnx_build *b;
  const char *path;
  const capl_graph *graph;
  onnx_value *values; /* of the graph */
} onnx_export;

typedef struct {
  onnx_export *x;     /* NULL: a step of a pointwise program */
  capl_op_id op;
  int number;         /* of the node */
  const graph_node *node;
  const capl_attr *attr;                           /* at the first width, batch as factors */
  int n_in;
  const onnx_value *const *in;                     /* NULL = left out */
  onnx_value *out;                                 /* the writer sets their names */
} onnx_call;

typedef void onnx_writer(onnx_build *b, const onnx_call *c);
typedef struct {
  capl_op_id op;
  onnx_writer *write; /* NULL behind the last */
} onnx_row;
extern const onnx_row onnx_pointwise[], onnx_products[], onnx_norms[], onnx_pools[], onnx_shapes[], onnx_indices[],
  onnx_reductions[], onnx_recurrences[], onnx_attentions[], onnx_samples[];
/* NULL: there is none. */
onnx_writer *onnx_writer_of(capl_op_id op);

/* The export ends: what of this op ONNX has no form for. */
void onnx_fail(onnx_build *b, const onnx_call *c, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Name of input i; ONNX_NONE where it was left out. */
const char *onnx_in(const onnx_call *c, int i);
/* The same in the type of output 0. */
const char *onnx_in_as_out(onnx_build *b, const onnx_call *c, int i);
onnx_type onnx_out_type(const onnx_call *c);
/* The numbers of attribute k (INTS, or one INT) as i64 (n), whatever they follow. */
const char *onnx_sizes(onnx_build *b, const onnx_call *c, int k);
/* Whether an attribute follows the batch size or the width. */
bool onnx_follows(const onnx_call *c, int k);
/* An error where it does: of an ONNX attribute, which is fixed. */
void onnx_need_fixed(onnx_build *b, const onnx_call *c, int k);

/* relu, silu … of x by its op. */
const char *onnx_activate(onnx_build *b, capl_op_id op, const char *x);

#endif
