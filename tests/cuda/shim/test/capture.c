/* capture.c -- what a real capture refuses the shim refuses, with CUDA's error, and the capture is void then.
** SPDX-License-Identifier: Apache-2.0
*/
#include "device.h"

static cudaEvent_t outside, forked; /* recorded before the capture, in it */
static cudaStream_t other;          /* no part of it */
static cudaGraphExec_t earlier;     /* a graph that was made before */
static float *locked;               /* page-locked, two pages */
static void *plain;                 /* two pages that are not */

static void begin_capture(enum cudaStreamCaptureMode mode)
{
  OK(cudaStreamBeginCapture(stream, mode));
}

static cudaError_t end_capture(cudaGraph_t *graph)
{
  return cudaStreamEndCapture(stream, graph);
}

static void a_graph_repeats_what_was_captured(void **state)
{
  (void)state;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t nodes = 0;
  begin_with_tensors("");
  run(COUNT, 1, 32, 0, 0); /* a capture cannot load it */
  OK(cudaMemsetAsync(y, 0, sizeof out, stream));
  OK(cudaStreamSynchronize(stream));
  begin_capture(cudaStreamCaptureModeThreadLocal);
  OK(launch(COUNT, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 0));
  OK(cudaMemcpyAsync(y + 1, y, sizeof *y, cudaMemcpyDeviceToDevice, stream));
  OK(launch(COUNT, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 0));
  OK(end_capture(&graph));
  OK(cudaGraphGetNodes(graph, NULL, &nodes));
  assert_int_equal(nodes, 3);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamSynchronize(stream));
  fetch(2);
  assert_true(out[0] == 0); /* captured work does not run */
  for (int k = 0; k < 3; k++) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  fetch(2);
  assert_true(out[0] == 6 && out[1] == 5);
  OK(cudaGraphExecDestroy(exec));
}

/* ---- calls in a capture ---------------------------------------------------------------------- */

/* What the calls below need, made before. */
static void prepare(unsigned stream_flags)
{
  cudaGraph_t graph;
  begin_with_tensors("");
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreate(&outside));
  OK(cudaEventCreate(&forked));
  OK(cudaEventRecord(outside, other));
  OK(cudaMallocHost((void **)&locked, 8192));
  OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(y, 0, 4, other));
  OK(cudaStreamEndCapture(other, &graph));
  OK(cudaGraphInstantiate(&earlier, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamCreateWithFlags(&stream, stream_flags));
  OK(cudaDeviceSynchronize());
}

static void clean(void)
{
  OK(cudaEventDestroy(outside));
  OK(cudaEventDestroy(forked));
  OK(cudaGraphExecDestroy(earlier));
}

/* What a call inside a capture gives; the capture must be void then, and further work refused. */
static cudaError_t inside(cudaError_t (*call)(void), enum cudaStreamCaptureMode mode, unsigned stream_flags)
{
  cudaGraph_t graph;
  prepare(stream_flags);
  begin_capture(mode);
  OK(cudaEventRecord(forked, stream));
  cudaError_t error = call();
  assert_int_equal(cudaMemsetAsync(y, 0, 4, stream), error ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  assert_int_equal(end_capture(&graph), error ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  if (graph) OK(cudaGraphDestroy(graph));
  OK(cudaStreamSynchronize(stream)); /* the stream is an ordinary one again */
  clean();
  return error;
}

static cudaError_t allocate(void) { return cudaMalloc((void **)&x, 4); }
static cudaError_t give_back(void) { return cudaFree(x); }
static cudaError_t lock_pages(void) { return cudaMallocHost((void **)&x, 4); }
static cudaError_t unlock_pages(void) { return cudaFreeHost(locked); }
static cudaError_t register_pages(void) { return cudaHostRegister(plain, 8192, 0); }
static cudaError_t unregister_pages(void) { return cudaHostUnregister(plain); }
static cudaError_t wait_stream(void) { return cudaStreamSynchronize(stream); }
static cudaError_t ask_stream(void) { return cudaStreamQuery(stream); }
static cudaError_t wait_other_stream(void) { return cudaStreamSynchronize(other); }
static cudaError_t ask_other_stream(void) { return cudaStreamQuery(other); }
static cudaError_t destroy_stream(void) { return cudaStreamDestroy(stream); }
static cudaError_t wait_device(void) { return cudaDeviceSynchronize(); }
static cudaError_t wait_event(void) { return cudaEventSynchronize(outside); }
static cudaError_t ask_event(void) { return cudaEventQuery(outside); }
static cudaError_t wait_captured(void) { return cudaEventSynchronize(forked); }
static cudaError_t ask_captured(void) { return cudaEventQuery(forked); }
static cudaError_t time_captured(void) { return cudaEventElapsedTime(out, outside, forked); }
static cudaError_t take_time(void) { return cudaEventElapsedTime(out, outside, outside); }
static cudaError_t depend_on_outside(void) { return cudaStreamWaitEvent(stream, outside, 0); }
static cudaError_t pageable(void) { return cudaMemcpyAsync(y, in, 4, cudaMemcpyHostToDevice, stream); }
static cudaError_t copy_out(void) { return cudaMemcpy(out, y, 4, cudaMemcpyDeviceToHost); }
static cudaError_t fill_now(void) { return cudaMemset(y, 0, 4); }
static cudaError_t launch_graph(void) { return cudaGraphLaunch(earlier, stream); }
static cudaError_t upload_graph(void) { return cudaGraphUpload(earlier, stream); }
static cudaError_t destroy_graph(void) { return cudaGraphExecDestroy(earlier); }
static cudaError_t use_legacy(void) { return cudaMemsetAsync(y, 0, 4, NULL); }
static cudaError_t record_legacy(void) { return cudaEventRecord(outside, NULL); }
static cudaError_t wait_legacy(void) { return cudaStreamSynchronize(NULL); }
static cudaError_t fill(void) { return cudaMemsetAsync(y, 0, 4, stream); }
static cudaError_t copy_locked(void) { return cudaMemcpyAsync(y, locked, 4, cudaMemcpyHostToDevice, stream); }
static cudaError_t work_elsewhere(void) { return cudaMemsetAsync(y, 0, 4, other); }
static cudaError_t record_elsewhere(void) { return cudaEventRecord(outside, other); }

typedef struct {
  cudaError_t (*call)(void);
  cudaError_t error;
} refusal;

/* A capture of one thread, as the engine makes. */
static void a_capture_forbids_what_cuda_forbids(void **state)
{
  (void)state;
  static cudaError_t (*const unsupported[])(void) = {
    allocate,     give_back,         lock_pages,       unlock_pages, register_pages, unregister_pages, wait_stream,
    ask_stream,   wait_other_stream, ask_other_stream, destroy_stream, wait_device,  wait_event,       ask_event,
    take_time,    pageable,          copy_out,         fill_now,     launch_graph,   upload_graph,     destroy_graph,
  };
  static const refusal others[] = {
    {wait_captured, cudaErrorCapturedEvent},
    {ask_captured, cudaErrorCapturedEvent},
    {time_captured, cudaErrorCapturedEvent},
    {depend_on_outside, cudaErrorStreamCaptureIsolation},
  };
  static cudaError_t (*const allowed[])(void) = {fill, copy_locked, work_elsewhere, record_elsewhere, use_legacy};
  plain = aligned_alloc(4096, 8192);
  for (size_t k = 0; k < sizeof unsupported / sizeof *unsupported; k++)
    assert_int_equal(inside(unsupported[k], cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking),
                     cudaErrorStreamCaptureUnsupported);
  for (size_t k = 0; k < sizeof others / sizeof *others; k++)
    assert_int_equal(inside(others[k].call, cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking), others[k].error);
  for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
    OK(inside(allowed[k], cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking));
  free(plain);
}

/* Allocating becomes possible; what concerns the captured stream, its events or the whole device does not. */
static void a_relaxed_capture_forbids_less(void **state)
{
  (void)state;
  static cudaError_t (*const allowed[])(void) = {allocate, give_back, lock_pages, wait_event, ask_event,
                                                 wait_other_stream};
  static const refusal refusals[] = {
    {wait_stream, cudaErrorStreamCaptureUnsupported},
    {wait_device, cudaErrorStreamCaptureUnsupported},
    {ask_captured, cudaErrorCapturedEvent},
  };
  for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
    OK(inside(allowed[k], cudaStreamCaptureModeRelaxed, cudaStreamNonBlocking));
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++)
    assert_int_equal(inside(refusals[k].call, cudaStreamCaptureModeRelaxed, cudaStreamNonBlocking), refusals[k].error);
}

static void the_legacy_stream_must_not_wait_for_a_captured_one(void **state)
{
  (void)state;
  static cudaError_t (*const calls[])(void) = {use_legacy, record_legacy, wait_legacy};
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
    assert_int_equal(inside(calls[k], cudaStreamCaptureModeThreadLocal, cudaStreamDefault),
                     cudaErrorStreamCaptureImplicit);
}

static void other_streams_join_a_capture_and_must_come_back(void **state)
{
  (void)state;
  cudaEvent_t fork_, join;
  cudaGraph_t graph;
  begin_with_tensors("");
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreate(&fork_));
  OK(cudaEventCreate(&join));
  for (int joined = 0; joined < 2; joined++) {
    begin_capture(cudaStreamCaptureModeThreadLocal);
    OK(cudaEventRecord(fork_, stream));
    OK(cudaStreamWaitEvent(other, fork_, 0));
    OK(cudaMemsetAsync(y, 0, 4, other));
    OK(cudaEventRecord(join, other));
    if (joined) OK(cudaStreamWaitEvent(stream, join, 0));
    assert_int_equal(end_capture(&graph), joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    assert_int_equal(cudaEventQuery(join), cudaErrorCapturedEvent); /* of a capture that is over */
    assert_int_equal(cudaStreamWaitEvent(stream, join, 0), cudaErrorCapturedEvent);
  }
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(fork_));
  OK(cudaEventDestroy(join));
}

/* ---- kernels in a capture -------------------------------------------------------------------- */

static cudaError_t first_launch(void) { return launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 4); }

static cudaError_t launch_loaded(void)
{
  return launch(COUNT, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 0);
}

/* CUDA loads a kernel when it is first needed, which a capture forbids. */
static void a_capture_cannot_load_kernels(void **state)
{
  (void)state;
  cudaGraph_t graph;
  struct cudaFuncAttributes attributes;
  assert_int_equal(inside(first_launch, cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking),
                   cudaErrorStreamCaptureUnsupported);
  assert_non_null(strstr(shim_fault(), "scale(test_args) would be loaded while a step is captured"));
  OK(inside(first_launch, cudaStreamCaptureModeRelaxed, cudaStreamNonBlocking));
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  OK(inside(first_launch, cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking));
  unsetenv("CUDA_MODULE_LOADING");
  for (int loaded_by_asking = 0; loaded_by_asking < 2; loaded_by_asking++) {
    prepare(cudaStreamNonBlocking);
    if (loaded_by_asking) OK(cudaFuncGetAttributes(&attributes, shim_test_table[COUNT].kernel));
    else OK(launch_loaded());
    begin_capture(cudaStreamCaptureModeThreadLocal);
    OK(launch_loaded());
    OK(end_capture(&graph));
    OK(cudaGraphDestroy(graph));
    clean();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_graph_repeats_what_was_captured),
    cmocka_unit_test(a_capture_forbids_what_cuda_forbids),
    cmocka_unit_test(a_relaxed_capture_forbids_less),
    cmocka_unit_test(the_legacy_stream_must_not_wait_for_a_captured_one),
    cmocka_unit_test(other_streams_join_a_capture_and_must_come_back),
    cmocka_unit_test(a_capture_cannot_load_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
