/* graph.h -- a recorded forward pass: numbered values, and the op calls between them.
**
** The first values are the inputs, then come the weights, then outputs of nodes in the order of their calls.
** Attributes that follow the batch size hold their factor and have their bit set.
**
** An only input or output may have no name (""); several are in the order of their names. The last dimension of an only
** input may have one of several widths. Attributes that follow it are listed for each: a
** graph runs at the widths that it was traced at and at no other, so whatever rule an op has for odd sizes needs no
** formula. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_GRAPH_H
#define CAPL_IO_GRAPH_H

#include "capl/io.h"
#include "capl/op.h"

enum { GRAPH_ABSENT = -1, /* an optional input left out */ GRAPH_WIDTHS_MAX = 64 };

typedef struct {
  char name[CAPL_GRAPH_NAME_MAX];
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM]; /* [0]: the batch of the trace; the last: the first width */
} graph_input;

typedef struct {
  char name[CAPL_GRAPH_NAME_MAX];
  int value;
} graph_output;

typedef struct {
  capl_op_id op;
  int n_in;
  int *in;
  int out[CAPL_MAX_OUT];
  capl_attr attr[CAPL_MAX_ATTR];
  uint8_t follows_batch[CAPL_MAX_ATTR]; /* bit d: element d of INTS (bit 0: an INT) is a factor of N */
  uint8_t follows_width[CAPL_MAX_ATTR]; /* likewise: it differs from width to width */
  capl_attr *by_width;                  /* NULL, or [n_widths][CAPL_MAX_ATTR]; attr is that of the first */
} graph_node;

struct capl_graph {
  graph_input inputs[CAPL_GRAPH_PORTS_MAX];
  int n_inputs;
  graph_output outputs[CAPL_GRAPH_PORTS_MAX];
  int n_outputs;
  int n_widths;                /* 0: the last dimension is as traced */
  int width[GRAPH_WIDTHS_MAX]; /* that the only input's last dimension may have, ascending */
  capl_named_tensor *weights; /* a tensor may be NULL after graph_optimize: nothing reads it */
  int n_weights;
  graph_node *nodes;
  int n_nodes;
  int n_values;
  bool in_place; /* results may take the memory of inputs that nobody else reads */
};

/* Whether it can name an input or output: an identifier of less than CAPL_GRAPH_NAME_MAX bytes. */
CAPL_API bool graph_name_ok(const char *name);

/* JSON text of everything but the weights' contents; caller frees. */
CAPL_API capl_status graph_to_json(const capl_graph *graph, char **text);
/* The reverse, weights found by name in list (their references move into the graph). Checks every
** number: a graph that passes cannot make capl_graph_run read outside its arrays. */
CAPL_API capl_status graph_from_json(const char *path, const char *text, capl_named_tensor *list, int n,
                                     capl_graph **out);

/* Weights that only 16-bit ops read are cast to low, once. */
CAPL_API capl_status graph_lower(capl_graph *graph, capl_dtype low);
/* What a run takes. */
typedef struct {
  double macs;    /* multiplications of products */
  size_t largest; /* bytes of the largest result of a node */
} graph_cost;
/* Sizes of output o for a batch of images of the w-th width, found without arithmetic, and what a run would take (NULL:
** not asked for). What the ops say of wrong shapes. */
CAPL_API capl_status graph_shape(const capl_graph *graph, int64_t batch, int w, int o, int *ndim, int64_t *size,
                                 graph_cost *cost);
/* capl_graph_run_named; adds what it took to *cost. */
capl_status graph_run_counted(const capl_graph *graph, const capl_named_tensor *inputs, int n, capl_tensor **out,
                              graph_cost *cost);
/* Attributes of a node as traced at the w-th width, factors of the batch not yet multiplied. */
CAPL_API const capl_attr *graph_attrs(const graph_node *node, int w);
/* Room for the attributes at n widths, the new ones being those of the first. ENOMEM. */
CAPL_API capl_status graph_node_widths(graph_node *node, int n_before, int n);

#endif
