/* ledger.c -- the ledger counts what the nodes of a graph read and write, page by page.
**
** CAPL_SHIM_LEDGER is set where this starts (CMakeLists.txt).
** SPDX-License-Identifier: Apache-2.0
*/
#include <unistd.h>

#include "device.h"

enum { PAGE = 4096, FLOATS = PAGE / sizeof(float) };

static char text[4096]; /* of the ledger */

static void read_ledger(void)
{
  char name[512];
  snprintf(name, sizeof name, "%s.%d", getenv("CAPL_SHIM_LEDGER"), (int)getpid());
  FILE *file = fopen(name, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  unlink(name);
}

static void pages_of_each_node_are_counted(void **state)
{
  (void)state;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  begin_with_tensors("");
  y = (float *)(((uintptr_t)y + PAGE - 1) / PAGE * PAGE);
  run(SCALE, 1, 32, 0, 32); /* a capture cannot load it */
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(launch(SCALE, (dim3){2 * FLOATS / 32, 1, 1}, (dim3){32, 1, 1}, 0, 2 * FLOATS));
  OK(cudaMemsetAsync(y, 0, 1, stream));
  OK(cudaMemcpyAsync(y, x, 3 * PAGE, cudaMemcpyDeviceToDevice, stream));
  OK(launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 0));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  fetch(FLOATS);
  assert_true(out[FLOATS - 1] == in[FLOATS - 1]);
  read_ledger();
  assert_string_equal(text, "graph\n8192 8192 scale(test_args)\n0 4096 set\n12288 12288 copy\n0 0 scale(test_args)\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(pages_of_each_node_are_counted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
