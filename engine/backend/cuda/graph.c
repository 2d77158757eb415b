/* graph.c -- a step recorded from the stream into a CUDA graph, and launched again and again.
**
** Capture is thread-local: loader threads may go on talking to the driver. What a graph cannot hold (waiting, copies
** from ordinary host memory, asking for memory) the backend's own functions refuse while cu.capturing is set; the
** driver would refuse it too, and void the capture.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/graph.h"

#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/graph.h"
#include "backend/cuda/nccl.h"

/* Graphs let go while another one was recorded, when nothing may wait. */
typedef struct left_over {
  struct left_over *next;
  void *graph;
} left_over;

static left_over *left;

static void destroy(void *graph)
{
  cudaStreamSynchronize(cu.stream); /* launches still queued use it */
  cudaGraphExecDestroy(graph);
  if (--cu.graphs == 0) cu.graph_age++;
}

/* Without memory to note it the graph stays until the process ends. */
static void leave(void *graph)
{
  left_over *one = malloc(sizeof *one);
  if (!one) return;
  *one = (left_over){left, graph};
  left = one;
}

static void destroy_left(void)
{
  while (left) {
    left_over *one = left;
    left = one->next;
    destroy(one->graph);
    free(one);
  }
}

capl_status cu_capture_begin(void)
{
  CAPL_TRY(cu_record_collectives()); /* a recording cannot wait for what was queued before it */
  CU_TRY(cudaStreamBeginCapture(cu.stream, cudaStreamCaptureModeThreadLocal), "beginning to record a step");
  cu.capturing = true;
  return CAPL_OK;
}

/* The recording as something launchable. */
static capl_status instantiate(cudaGraph_t recorded, void **graph)
{
  cudaGraphExec_t exec;
  capl_status status = cu_status(cudaGraphInstantiate(&exec, recorded, 0), "making a recorded step launchable");
  if (status == CAPL_OK) status = cu_status(cudaGraphUpload(exec, cu.stream), "uploading a recorded step");
  if (status == CAPL_OK) *graph = exec;
  return status;
}

/* Ends the recording whatever happens: a stream that records forever can do nothing else. */
static capl_status end_recording(cudaGraph_t *recorded)
{
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  capl_status status = cu_status(cudaStreamEndCapture(cu.stream, recorded), "ending the recording of a step");
  if (status == CAPL_OK || cudaStreamIsCapturing(cu.stream, &state) != cudaSuccess) return status;
  if (state != cudaStreamCaptureStatusNone && cudaStreamEndCapture(cu.stream, recorded) != cudaSuccess)
    cudaGetLastError();
  return status;
}

capl_status cu_capture_end(void **graph)
{
  cudaGraph_t recorded = NULL;
  capl_status joined = cu_recorded_collectives(); /* all that forked from the stream has to come back to it */
  cu.capturing = false;
  capl_status status = end_recording(&recorded);
  if (joined != CAPL_OK) status = joined;
  if (status == CAPL_OK && graph) status = instantiate(recorded, graph);
  if (recorded) cudaGraphDestroy(recorded);
  if (status == CAPL_OK && graph) cu.graphs++;
  else if (cu.graphs == 0) cu.graph_age++;
  destroy_left(); /* the new one is counted: its plans stay */
  return graph ? status : CAPL_OK;
}

static capl_status set_offset(int64_t offset)
{
  set_number_args args = {cu.rng_delta, offset};
  return cu_launch(cu_graph_kernels_table[GRAPH_SET_NUMBER], 1, 32, 0, &args);
}

/* Plain steps find 0 there, so it is put back behind the graph. */
capl_status cu_capture_launch(void *graph, int64_t offset)
{
  CAPL_TRY(cu_join_collectives());
  if (offset) CAPL_TRY(set_offset(offset));
  CU_TRY(cudaGraphLaunch(graph, cu.stream), "launching a recorded step");
  return offset ? set_offset(0) : CAPL_OK;
}

void cu_capture_free(void *graph)
{
  if (cu.capturing) leave(graph);
  else destroy(graph);
}
