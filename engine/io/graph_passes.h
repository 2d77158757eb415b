/* graph_passes.h -- what makes the graph of an opened model cheaper to run. graph_passes.c has the table of the passes.
**
** A pass changes a graph in memory; the model file stays as it was written. Numbers agree with those of the graph as it
** was within 1e-5 of the largest in fp32.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_GRAPH_PASSES_H
#define CAPL_IO_GRAPH_PASSES_H

#include "io/graph.h"

/* All passes in order. device: where the graph will run. ENOMEM, and what ops say. */
CAPL_API capl_status graph_optimize(capl_graph *graph, const capl_device *device);

/* ---- the passes ------------------------------------------------------------------------------- */

/* Nodes that read weights only are computed now; their results become weights (graph_constants.c). */
CAPL_API capl_status graph_constants(capl_graph *graph, const capl_device *device);
/* Batch norm moves into the convolution or linear before it where nothing else needs either (graph_fold.c). */
CAPL_API capl_status graph_fold(capl_graph *graph, const capl_device *device);
/* A convolution or linear and the activation behind it become one node where the device has the op (graph_fuse.c). */
CAPL_API capl_status graph_fuse(capl_graph *graph, const capl_device *device);
/* Weights that no node reads any more are freed: their tensors become NULL (graph_constants.c). */
CAPL_API capl_status graph_drop_unused(capl_graph *graph, const capl_device *device);

/* ---- for passes ------------------------------------------------------------------------------- */

/* Who uses what, per value. */
typedef struct {
  capl_graph *g;
  int *uses;  /* inputs of nodes and outputs of the graph */
  int *maker; /* its node, -1 = input or weight */
} graph_links;

/* ENOMEM. The caller frees them, also after that. */
capl_status graph_links_new(capl_graph *graph, graph_links *links);
void graph_links_free(graph_links *links);
/* Counts again after a change. */
void graph_links_count(graph_links *links);
static inline bool graph_is_weight(const capl_graph *g, int value)
{
  return value >= g->n_inputs && value < g->n_inputs + g->n_weights;
}
/* Whether only the first output of a node is read. */
bool graph_one_output(const graph_links *links, const graph_node *node);
/* Frees node k and closes the gap. */
void graph_remove_node(capl_graph *graph, int k);

#endif
