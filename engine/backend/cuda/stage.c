/* stage.c -- brings a loader's batches to the GPU: page-locked memory, a ring of staging buffers, a stream of copies.
**
** Copies run on cu.copies, beside the arithmetic on cu.stream. Two events per buffer keep the order, one in each
** direction: `arrived` (recorded on cu.copies) holds back the kernels that read the buffer, and signals the host when
** its memory is free again; `made` (recorded on cu.stream) holds back the next copy into the buffer until those kernels
** have ended. Device memory comes from the caching allocator, whose blocks may still be in use by queued work on
** cu.stream, so `made` is recorded once at the beginning too.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/stage.h"

#include <stdlib.h>

#include "backend/cuda/cuda.h"

typedef struct {
  uint8_t *memory;
  cudaEvent_t arrived, made; /* a host that waits for arrived sleeps: loader threads need the cores */
} buffer;

struct capl_feed_stage {
  capl_device *device;
  int n_buffers;
  buffer *buffers;
};

/* ---- memory ---------------------------------------------------------------------------------- */

static capl_status host_get(size_t bytes, void **out)
{
  *out = NULL;
  cudaError_t error = cudaHostAlloc(out, bytes ? bytes : 1, cudaHostAllocDefault);
  if (error == cudaSuccess) return CAPL_OK;
  if (error != cudaErrorMemoryAllocation) return cu_status(error, "asking for page-locked memory");
  cudaGetLastError();
  CAPL_FAIL(CAPL_ENOMEM, "no page-locked memory for %.1f MB of batches", (double)bytes / 1e6);
  capl_error_hint("a smaller batch or prefetch needs less; ulimit -l and the container's memory limit it");
  return CAPL_ENOMEM;
}

static void host_put(void *p)
{
  if (p && cudaFreeHost(p) != cudaSuccess) cudaGetLastError();
}

/* Scratch is memory of the caching allocator that the host need not write to; nothing says it must be short-lived. */
static capl_status memory_get(capl_device *device, size_t bytes, void **out)
{
  return capl_scratch_get(device, bytes, out);
}

static void memory_put(capl_device *device, void *p)
{
  capl_scratch_put(device, p);
}

static capl_status memory_free(capl_device *device, size_t *bytes)
{
  size_t free_bytes = 0, total = 0;
  CU_TRY(cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
  capl_memory_stats stats;
  capl_memory_stats_get(device, &stats);
  *bytes = free_bytes + stats.cached;
  return CAPL_OK;
}

/* ---- staging buffers ------------------------------------------------------------------------- */

static capl_status refuse_in_capture(void)
{
  if (!cu.capturing) return CAPL_OK;
  CAPL_FAIL(CAPL_ESTATE, "a batch was taken from a loader inside a captured step: a CUDA graph replays without the "
                         "host");
  capl_error_hint("take the batch outside and give it to the captured function");
  return CAPL_ESTATE;
}

static capl_status open_buffer(capl_feed_stage *stage, buffer *b, size_t bytes)
{
  void *memory;
  CAPL_TRY(capl_scratch_get(stage->device, bytes, &memory));
  b->memory = memory;
  CU_TRY(cudaEventCreateWithFlags(&b->arrived, cudaEventDisableTiming | cudaEventBlockingSync), "making an event");
  CU_TRY(cudaEventCreateWithFlags(&b->made, cudaEventDisableTiming), "making an event");
  CU_TRY(cudaEventRecord(b->arrived, cu.copies), "recording an event");
  return cu_status(cudaEventRecord(b->made, cu.stream), "recording an event");
}

static void close_buffer(capl_feed_stage *stage, buffer *b)
{
  if (b->arrived) cudaEventDestroy(b->arrived);
  if (b->made) cudaEventDestroy(b->made);
  capl_scratch_put(stage->device, b->memory);
}

/* What was copied to must not be handed to another call, nor host memory be freed, while copies are in flight. When the
** GPU is lost there are none; the error has been reported elsewhere. */
static void stage_close(capl_feed_stage *stage)
{
  if (!stage) return;
  if (cudaStreamSynchronize(cu.copies) != cudaSuccess) cudaGetLastError();
  for (int i = 0; stage->buffers && i < stage->n_buffers; i++) close_buffer(stage, &stage->buffers[i]);
  free(stage->buffers);
  free(stage);
}

static capl_status stage_open(capl_device *device, int n_buffers, size_t bytes, capl_feed_stage **out)
{
  CAPL_TRY(refuse_in_capture());
  capl_feed_stage *stage = calloc(1, sizeof *stage);
  if (!stage) return CAPL_FAIL(CAPL_ENOMEM, "no memory for staging buffers");
  *stage = (capl_feed_stage){.device = device, .n_buffers = n_buffers,
                             .buffers = calloc((size_t)n_buffers, sizeof(buffer))};
  capl_status status = stage->buffers ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for staging buffers");
  for (int i = 0; status == CAPL_OK && i < n_buffers; i++) status = open_buffer(stage, &stage->buffers[i], bytes);
  if (status == CAPL_OK) *out = stage;
  else stage_close(stage);
  return status;
}

static capl_status stage_send(capl_feed_stage *stage, int which, void *to, const void *host, size_t bytes)
{
  buffer *b = &stage->buffers[which];
  CAPL_TRY(refuse_in_capture());
  if (bytes == 0) return CAPL_OK;
  CU_TRY(cudaStreamWaitEvent(cu.copies, b->made, 0), "waiting for a staging buffer");
  CU_TRY(cudaMemcpyAsync(to ? to : b->memory, host, bytes, cudaMemcpyHostToDevice, cu.copies),
         "copying a batch to the GPU");
  return cu_status(cudaEventRecord(b->arrived, cu.copies), "recording an event");
}

static capl_status stage_arrived(capl_feed_stage *stage, int which, bool wait, bool *done)
{
  cudaEvent_t event = stage->buffers[which].arrived;
  *done = false;
  if (wait) CAPL_TRY(refuse_in_capture());
  cudaError_t error = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return CAPL_OK;
  }
  *done = error == cudaSuccess;
  return cu_status(error, "copying a batch to the GPU");
}

static capl_status stage_make(capl_feed_stage *stage, int which, const capl_feed_job *job)
{
  buffer *b = &stage->buffers[which];
  CAPL_TRY(refuse_in_capture());
  CU_TRY(cudaStreamWaitEvent(cu.stream, b->arrived, 0), "waiting for a batch");
  capl_status status = cu_make_batch(stage->device, b->memory, job);
  /* Some kernels may have been queued even if a later one was not. */
  CU_TRY(cudaEventRecord(b->made, cu.stream), "recording an event");
  return status;
}

const capl_feed_ops cu_feed_ops = {
  .host_get = host_get,
  .host_put = host_put,
  .memory_get = memory_get,
  .memory_put = memory_put,
  .memory_free = memory_free,
  .open = stage_open,
  .close = stage_close,
  .send = stage_send,
  .arrived = stage_arrived,
  .make = stage_make,
  .one_hot = cu_one_hot,
};
