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
  capl_tensor *x, *y = NULL;
  FUZZ_CHECK(capl_tensor_new(fuzz_device(), CAPL_F32, 4, (int64_t[]){3, 1, 2, 4}, CAPL_AUTO, &x) == CAPL_OK);
  FUZZ_CHECK(capl_tensor_fill(x, 0.5) == CAPL_OK);
  status = capl_graph_run(graph, x, &y);
  fuzz_status(status);
  if (status == CAPL_OK) capl_tensor_unref(y);
  capl_tensor_unref(x);
  capl_graph_free(graph);
  free(meta);
  return 0;
}
