/* shim.h -- what tests and stand-ins may ask of the shim beyond CUDA's own interface.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_H
#define SHIM_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues work that a vendor library would do: run(record) is called when the stream gets there, with device memory
** readable and writable; later for each replay when the stream is being captured. record: bytes that are copied now;
** name: for the ledger.
** run returns 0, or the CUDA error that the GPU is lost with; it must not call the runtime. */
SHIM_API cudaError_t shim_enqueue(cudaStream_t stream, int (*run)(const void *record), const void *record, size_t bytes,
                                  const char *name);

/* Reads something of every page, as the ledger counts: for work that is left out but for what it writes. */
static inline void shim_touch(const void *at, size_t bytes)
{
  enum { PAGE = 4096 };
  const volatile char *byte = (const volatile char *)at;
  for (size_t i = 0; i < bytes; i += PAGE) (void)byte[i];
  if (bytes) (void)byte[bytes - 1];
}

/* Runs what is queued on the stream, unless it is being captured; a GPU goes on by itself. */
SHIM_API cudaError_t shim_go_on(cudaStream_t stream);

/* Adds a line to the trace that CAPL_SHIM_TRACE asks for (README.md); nothing otherwise. */
SHIM_API void shim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number by which the trace calls a stream, in order of making; 0 is the legacy stream. */
SHIM_API int shim_stream_number(cudaStream_t stream);
/* Whether the stream is being captured. */
SHIM_API int shim_stream_captured(cudaStream_t stream);

/* How often the runtime was asked since the process started. */
typedef struct {
  uint64_t calls;    /* all of them, as CAPL_SHIM_FAIL counts */
  uint64_t launches; /* kernels, and work by shim_enqueue */
  uint64_t waits;    /* the host waited for a stream, an event or the device, or read device memory directly */
  uint64_t allocations, frees; /* cudaMalloc, cudaFree */
  uint64_t live_bytes;         /* of cudaMalloc */
  uint64_t graph_launches, live_graphs; /* live: ready to be launched */
  uint64_t strays; /* calls that would have started another GPU than the process chose first */
} shim_counts;
SHIM_API void shim_counts_get(shim_counts *out);

/* The at-th call from now fails with code, and all later ones if on; code 0: none. As CAPL_SHIM_FAIL. */
SHIM_API void shim_fail(int code, uint64_t at, int on);
/* Calls that CAPL_SHIM_FAIL would count: all, or for code 2 allocations. */
SHIM_API uint64_t shim_calls(int code);

/* Text of the last fault the shim found in a kernel or a launch (deadlock, first use in a capture, ...); "" = none. */
SHIM_API const char *shim_fault(void);

/* The settings of the environment again, and no sticky error any more: a test starts afresh. Queued work is dropped. */
SHIM_API void shim_reset(void);

#ifdef __cplusplus
}
#endif
#endif
