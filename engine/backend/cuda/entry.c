/* entry.c -- libcapl_cuda's entry: opens the GPU, hands out its memory, moves values between it and the host.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/graph.h"
#include "backend/cuda/native_count.h"
#include "backend/cuda/stage.h"

cu_context cu = {.index = -1};

static const capl_kernel *const families[] = {
  cu_conv_kernels,  cu_matmul_kernels, cu_norm_kernels,    cu_pool_kernels, cu_elementwise_kernels,
  cu_activation_kernels, cu_shape_kernels, cu_reduce_kernels, cu_softmax_kernels, cu_loss_kernels, cu_region_kernels,
  cu_optim_kernels, cu_pointwise_kernels, cu_take_kernels, cu_sample_kernels,
  cu_layer_norm_kernels, cu_ctc_kernels,
  cu_layer_norm_kernels,
  cu_rnn_kernels,
  cu_attention_kernels,
  NULL,
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* After these every further call of this process fails too. */
static bool is_lost(cudaError_t error)
{
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorMisalignedAddress:
  case cudaErrorIllegalInstruction:
  case cudaErrorHardwareStackError:
  case cudaErrorAssert:
  case cudaErrorECCUncorrectable:
  case cudaErrorLaunchTimeout:
  case cudaErrorDevicesUnavailable: return true;
  default: return false;
  }
}

capl_status cu_status(cudaError_t error, const char *doing)
{
  if (error == cudaSuccess) return CAPL_OK;
  cudaGetLastError(); /* what is not sticky must not be met again by the next call */
  if (error == cudaErrorMemoryAllocation) {
    CAPL_FAIL(CAPL_ENOMEM, "cuda:%d has no memory left (%s)", cu.index, doing);
    return CAPL_ENOMEM;
  }
  CAPL_FAIL(CAPL_EDEVICE, "cuda:%d failed (%s): %s (CUDA error %d)", cu.index, doing, cudaGetErrorString(error),
            (int)error);
  if (is_lost(error))
    capl_error_hint("the GPU is lost to this process; start again from the last checkpoint. An earlier op may be the "
                    "cause: CUDA_LAUNCH_BLOCKING=1 makes the failing one report");
  return CAPL_EDEVICE;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static capl_status refuse_in_capture(const char *what)
{
  if (!cu.capturing) return CAPL_OK;
  CAPL_FAIL(CAPL_ESTATE, "%s inside a captured step: a CUDA graph replays without the host", what);
  capl_error_hint("take it out of the function given to capl.capture");
  return CAPL_ESTATE;
}

static capl_status cuda_mem_alloc(size_t bytes, void **out)
{
  /* While a step is being recorded the driver allocates for a thread that says it knows what it does: memory of graphs
  ** is never given back before they are. */
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (cu.capturing) CU_TRY(cudaThreadExchangeStreamCaptureMode(&mode), "allocating");
  capl_status status = cu_status(cudaMalloc(out, bytes ? bytes : 1), "allocating");
  if (cu.capturing) CU_TRY(cudaThreadExchangeStreamCaptureMode(&mode), "allocating");
  return status;
}

/* Waits first: work that is queued may still use the block. */
static void cuda_mem_free(void *p, size_t bytes)
{
  (void)bytes;
  cudaFree(p);
}

static capl_status cuda_mem_info(size_t *card_free, size_t *total)
{
  return cu_status(cudaMemGetInfo(card_free, total), "asking for free memory");
}

static capl_status cuda_mem_fill(void *p, int byte, size_t bytes)
{
  return bytes ? cu_status(cudaMemsetAsync(p, byte, bytes, cu.stream), "filling memory") : CAPL_OK;
}

static capl_status cuda_sync(void)
{
  CAPL_TRY(refuse_in_capture("waiting for the GPU"));
  return cu_status(cudaStreamSynchronize(cu.stream), "waiting for queued work");
}

static capl_status cuda_copy_in(void *device, const void *host, size_t bytes)
{
  CAPL_TRY(refuse_in_capture("values were sent to the GPU"));
  if (bytes == 0) return CAPL_OK;
  CU_TRY(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, cu.stream), "copying to the GPU");
  return cu_status(cudaStreamSynchronize(cu.stream), "copying to the GPU");
}

static capl_status cuda_copy_out(void *host, const void *device, size_t bytes)
{
  CAPL_TRY(refuse_in_capture("values were read from the GPU"));
  if (bytes == 0) return CAPL_OK;
  CU_TRY(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cu.stream), "copying from the GPU");
  return cu_status(cudaStreamSynchronize(cu.stream), "copying from the GPU");
}

static capl_status cuda_copy(capl_tensor *dst, const capl_tensor *src)
{
  bool plain = src->dtype == dst->dtype && capl_tensor_same_layout(src, dst) && capl_tensor_is_dense(src);
  if (!plain) return cu_copy_tensor(dst, src);
  return cu_status(cudaMemcpyAsync(capl_tensor_data(dst), capl_tensor_data(src), capl_tensor_bytes(src),
                                   cudaMemcpyDeviceToDevice, cu.stream),
                   "copying on the GPU");
}

/* ---- the GPU's clock ------------------------------------------------------------------------- */

static cudaEvent_t marks[CAPL_MARKS];

static capl_status cuda_mark(int slot)
{
  if (!marks[slot]) CU_TRY(cudaEventCreate(&marks[slot]), "making an event");
  return cu_status(cudaEventRecord(marks[slot], cu.stream), "taking the time");
}

static capl_status cuda_between(int from, int to, double *seconds)
{
  float milliseconds = 0;
  CAPL_TRY(refuse_in_capture("waiting for the GPU"));
  if (!marks[from] || !marks[to]) return CAPL_FAIL(CAPL_ESTATE, "mark %d was not taken", marks[from] ? to : from);
  CU_TRY(cudaEventSynchronize(marks[to]), "waiting for queued work");
  CU_TRY(cudaEventElapsedTime(&milliseconds, marks[from], marks[to]), "taking the time");
  *seconds = 1e-3 * milliseconds;
  return CAPL_OK;
}

/* ---- the backend ----------------------------------------------------------------------------- */

/* Device memory of zeros. */
static capl_status make_zeros(size_t bytes, void **out)
{
  CU_TRY(cudaMalloc(out, bytes), "allocating");
  return cu_status(cudaMemsetAsync(*out, 0, bytes, cu.stream), "filling memory");
}

static capl_status open_streams(void)
{
  CU_TRY(cudaStreamCreateWithFlags(&cu.stream, cudaStreamNonBlocking), "making a stream");
  CU_TRY(cudaStreamCreateWithFlags(&cu.copies, cudaStreamNonBlocking), "making a stream");
  CAPL_TRY(make_zeros(sizeof *cu.rng_delta, (void **)&cu.rng_delta));
  return make_zeros(CU_COUNTERS * sizeof *cu.counters, (void **)&cu.counters);
}

static capl_status cuda_open(int index)
{
  device_facts facts;
  cu.index = index; /* for messages, too */
  CAPL_TRY(device_choose(index, &facts));
  CAPL_TRY(dnn_check()); /* a version that does not fit is no reason for slow kernels */
  cu.capability = facts.capability;
  cu.multiprocessors = facts.multiprocessors;
  cu.autotune = true;
  return open_streams();
}

static const char *cuda_describe(void)
{
  static char text[256];
  device_facts facts;
  if (device_facts_get(cu.index, &facts) != CAPL_OK) return "lost";
  device_describe(&facts, text, sizeof text);
  return text;
}

static capl_status cuda_identity(char *bus_id, size_t len, uint8_t uuid[16])
{
  struct cudaDeviceProp properties;
  CU_TRY(cudaGetDeviceProperties(&properties, cu.index), "asking about the GPU");
  memcpy(uuid, properties.uuid.bytes, 16);
  return cu_status(cudaDeviceGetPCIBusId(bus_id, (int)len, cu.index), "asking where the GPU is");
}

static capl_dtype cuda_auto_precision(const char **why)
{
  *why = cu.capability >= 80   ? "this GPU multiplies bf16 at many times the rate of f32"
         : cu.capability >= 70 ? "this GPU multiplies fp16 at many times the rate of f32, and has no bf16"
                               : "this GPU has no tensor cores";
  return cu.capability >= 80 ? CAPL_BF16 : cu.capability >= 70 ? CAPL_F16 : CAPL_F32;
}

static uint32_t cuda_precisions(void)
{
  uint32_t fp32 = CAPL_BIT(CAPL_PRECISION_fp32), fp16 = CAPL_BIT(CAPL_PRECISION_fp16);
  if (cu.capability < 70) return fp32;
  return cu.capability < 80 ? fp16 | fp32 : fp16 | fp32 | CAPL_BIT(CAPL_PRECISION_bf16) | CAPL_BIT(CAPL_PRECISION_tf32);
}

static capl_status cuda_set_switch(const char *name, bool on)
{
  bool *which = !strcmp(name, "tf32")            ? &cu.tf32
                : !strcmp(name, "deterministic") ? &cu.deterministic
                : !strcmp(name, "autotune")      ? &cu.autotune
                                                 : NULL;
  if (!which)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuda has no switch '%s'; it has tf32, deterministic, autotune", name);
  if (which == &cu.tf32 && on && cu.capability < 80)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "this GPU has no tf32: its compute capability is %d.%d, tf32 needs 8.0",
                     cu.capability / 10, cu.capability % 10);
  *which = on;
  return CAPL_OK;
}

static void cuda_reserve(const capl_call *call, capl_out_spec *out)
{
  cu_norm_reserve(call, out);
  cu_conv_reserve(call, out);
}

static const capl_backend backend = {
  .abi = CAPL_BACKEND_ABI,
  .name = "cuda",
  .host_memory = false,
  .arithmetic = true,
  .families = families,
  .open = cuda_open,
  .mem_alloc = cuda_mem_alloc,
  .mem_free = cuda_mem_free,
  .mem_fill = cuda_mem_fill,
  .sync = cuda_sync,
  .describe = cuda_describe,
  .auto_precision = cuda_auto_precision,
  .precisions = cuda_precisions,
  .copy_in = cuda_copy_in,
  .copy_out = cuda_copy_out,
  .copy = cuda_copy,
  .fill = cu_fill_tensor,
  .copy_many = cu_copy_many,
  .capture_begin = cu_capture_begin,
  .capture_end = cu_capture_end,
  .capture_launch = cu_capture_launch,
  .capture_free = cu_capture_free,
  .fetch_begin = cu_fetch_begin,
  .fetch_done = cu_fetch_done,
  .fetch_end = cu_fetch_end,
  .pace = cu_pace,
  .mem_info = cuda_mem_info,
  .identity = cuda_identity,
  .report = device_report,
  .mark = cuda_mark,
  .between = cuda_between,
  .set_switch = cuda_set_switch,
  .feed = &cu_feed_ops,
  .count = device_count,
  .own_kernels = native_count_report,
  .reserve = cuda_reserve,
};

CAPL_API const capl_backend *capl_backend_cuda_entry(void);

CAPL_API const capl_backend *capl_backend_cuda_entry(void)
{
  return &backend;
}
