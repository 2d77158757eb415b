/* graph.c -- fuzz target: any text as the graph.json of a model, which is then run.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  if (!folder) folder = tiny_model();
  fuzz_put(folder, "graph.json", data, size);
  capl_graph *graph;
  char *meta;
  capl_status status = capl_model_load(folder, fuzz_device(), &graph, &meta);
  fuzz_status(status);
  if (status != CAPL_OK) return 0;
  capl_tensor *x, *y[CAPL_GRAPH_PORTS_MAX] = {NULL};
  capl_named_tensor in[CAPL_GRAPH_PORTS_MAX];
  FUZZ_CHECK(capl_tensor_new(fuzz_device(), CAPL_F32, 4, (int64_t[]){3, 1, 2, 4}, CAPL_AUTO, &x) == CAPL_OK);
  FUZZ_CHECK(capl_tensor_fill(x, 0.5) == CAPL_OK);
  int n = capl_graph_inputs(graph);
  for (int i = 0; i < n; i++) in[i] = (capl_named_tensor){(char *)capl_graph_input_name(graph, i), x};
  status = capl_graph_run_named(graph, in, n, y);
  fuzz_status(status);
  for (int k = 0; k < capl_graph_outputs(graph); k++) capl_tensor_unref(y[k]);
  capl_tensor_unref(x);
  capl_graph_free(graph);
  free(meta);
  return 0;
}
