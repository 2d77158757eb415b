/* nccl_library.h -- NCCL's interface as far as the engine uses it, and the library that has it, loaded when first
** wanted.
**
** NCCL's own header is not needed to build: names, numbers and meanings are those of its version 2, which later
** versions of it keep (docs.nvidia.com/deeplearning/nccl). tests/cuda/nccl compares them with the header where there is
** one. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_NCCL_LIBRARY_H
#define CAPL_CUDA_NCCL_LIBRARY_H

#include <cuda_runtime_api.h>

#include "capl/error.h"

typedef struct ncclComm *nccl_comm;

typedef struct {
  char internal[128];
} nccl_id;

typedef enum {
  NCCL_SUCCESS = 0,
  NCCL_UNHANDLED_CUDA_ERROR = 1,
  NCCL_SYSTEM_ERROR = 2,
  NCCL_INVALID_ARGUMENT = 4,
  NCCL_INVALID_USAGE = 5,
  NCCL_REMOTE_ERROR = 6,
  NCCL_IN_PROGRESS = 7,
} nccl_result;
typedef enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_AVG = 4 } nccl_op;
typedef enum {
  NCCL_UINT8 = 1,
  NCCL_INT32 = 2,
  NCCL_INT64 = 4,
  NCCL_FLOAT16 = 6,
  NCCL_FLOAT32 = 7,
  NCCL_FLOAT64 = 8,
  NCCL_BFLOAT16 = 9,
} nccl_type;

/* Version 2.14: averages, bf16 and captured collectives are all there. */
enum { NCCL_OLDEST = 21400 };

/* X(name without "nccl", arguments): every function used; each returns nccl_result. */
#define NCCL_FUNCTIONS(X) \
  X(GetUniqueId, (nccl_id * id)) \
  X(CommInitRank, (nccl_comm * comm, int ranks, nccl_id id, int rank)) \
  X(CommDestroy, (nccl_comm comm)) \
  X(CommAbort, (nccl_comm comm)) \
  X(CommGetAsyncError, (nccl_comm comm, nccl_result * error)) \
  X(AllReduce, (const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm comm, cudaStream_t on)) \
  X(Broadcast, (const void *in, void *out, size_t count, nccl_type type, int root, nccl_comm comm, cudaStream_t on)) \
  X(AllGather, (const void *in, void *out, size_t in_count, nccl_type type, nccl_comm comm, cudaStream_t on)) \
  X(ReduceScatter, (const void *in, void *out, size_t out_count, nccl_type type, nccl_op op, nccl_comm comm, \
                    cudaStream_t on)) \
  X(Send, (const void *data, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on)) \
  X(Recv, (void *data, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on)) \
  X(GroupStart, (void)) \
  X(GroupEnd, (void))

typedef struct {
  int version; /* 22809 for 2.28.9 */
#define X(name, arguments) nccl_result(*name) arguments;
  NCCL_FUNCTIONS(X)
#undef X
  const char *(*GetErrorString)(nccl_result result);
  const char *(*GetLastError)(nccl_comm comm);
} nccl_library;

/* The library, loaded by the first call. EUNSUPPORTED: none, or too old; the hint installs one. */
capl_status nccl_load(const nccl_library **out);
/* "2.28.9", or why there is none. Loads nothing for good. */
const char *nccl_version_text(char *buf, size_t len);
/* 22809 -> "2.28.9" */
const char *nccl_number_text(int version, char *buf, size_t len);

#endif
