/* cuda_runtime_api.h -- the part of CUDA's runtime interface that the cuda backend uses, on the host.
**
** Names, numbers and meanings are CUDA's (docs.nvidia.com/cuda/cuda-runtime-api); what a call does here, and how it is
** made to fail, is in tests/cuda/shim/README.md.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_CUDA_RUNTIME_API_H
#define SHIM_CUDA_RUNTIME_API_H

#include <stddef.h>

#include "vector_types.h"

#define CUDART_VERSION 13000
#define SHIM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
#define SHIM_ERROR(name, number, text) name = number,
#include "shim_errors.def"
#undef SHIM_ERROR
} cudaError_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMemoryPoolsSupported = 115
};

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  size_t sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor;
  int maxBlocksPerMultiProcessor, l2CacheSize, memoryBusWidth, asyncEngineCount, ECCEnabled, integrated;
  int pciBusID, pciDeviceID, pciDomainID;
  struct {
    char bytes[16];
  } uuid;
};

typedef struct shim_stream *cudaStream_t;
typedef struct shim_event *cudaEvent_t;
typedef struct shim_graph *cudaGraph_t;
typedef struct shim_graph_exec *cudaGraphExec_t;
typedef struct shim_graph_node *cudaGraphNode_t;
typedef void (*cudaHostFn_t)(void *user);

/* ---- devices and errors ---------------------------------------------------------------------- */

SHIM_API cudaError_t cudaGetDeviceCount(int *count);
SHIM_API cudaError_t cudaSetDevice(int index);
SHIM_API cudaError_t cudaGetDevice(int *index);
SHIM_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int index);
SHIM_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int index);
SHIM_API cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int index);
SHIM_API cudaError_t cudaDeviceSynchronize(void);
SHIM_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
SHIM_API cudaError_t cudaDriverGetVersion(int *version);
SHIM_API cudaError_t cudaRuntimeGetVersion(int *version);
SHIM_API cudaError_t cudaGetLastError(void);
SHIM_API cudaError_t cudaPeekAtLastError(void);
SHIM_API const char *cudaGetErrorString(cudaError_t error);
SHIM_API const char *cudaGetErrorName(cudaError_t error);

/* ---- memory ---------------------------------------------------------------------------------- */

enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4 };
enum { cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2,
      cudaHostRegisterReadOnly = 8 };

SHIM_API cudaError_t cudaMalloc(void **out, size_t bytes);
SHIM_API cudaError_t cudaFree(void *p);
SHIM_API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
SHIM_API cudaError_t cudaMallocHost(void **out, size_t bytes);
SHIM_API cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags);
SHIM_API cudaError_t cudaFreeHost(void *p);
SHIM_API cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags);
SHIM_API cudaError_t cudaHostUnregister(void *p);
SHIM_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
SHIM_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                                     cudaStream_t stream);
SHIM_API cudaError_t cudaMemset(void *p, int byte, size_t bytes);
SHIM_API cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t stream);

/* ---- streams and events ---------------------------------------------------------------------- */

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaEventRecordDefault = 0, cudaEventWaitDefault = 0 };

SHIM_API cudaError_t cudaStreamCreate(cudaStream_t *out);
SHIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags);
SHIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority);
SHIM_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
SHIM_API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
SHIM_API cudaError_t cudaStreamQuery(cudaStream_t stream);
SHIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
SHIM_API cudaError_t cudaEventCreate(cudaEvent_t *out);
SHIM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags);
SHIM_API cudaError_t cudaEventDestroy(cudaEvent_t event);
SHIM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
SHIM_API cudaError_t cudaEventQuery(cudaEvent_t event);
SHIM_API cudaError_t cudaEventSynchronize(cudaEvent_t event);
SHIM_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
SHIM_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user);

/* ---- kernels --------------------------------------------------------------------------------- */

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

SHIM_API cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                      cudaStream_t stream);
SHIM_API cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute which, int value);
SHIM_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel);
SHIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                                   size_t shared);

/* ---- capture --------------------------------------------------------------------------------- */

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};

SHIM_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
SHIM_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
SHIM_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
SHIM_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
SHIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
SHIM_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
SHIM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
/* nodes == NULL: only counts. */
SHIM_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
SHIM_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
SHIM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif
