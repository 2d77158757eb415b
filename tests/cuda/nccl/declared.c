/* declared.c -- the engine's own declarations of NCCL against NCCL's header, where there is one: this only has to
** compile. SPDX-License-Identifier: Apache-2.0
*/
#include <nccl.h>

#include "backend/cuda/nccl_library.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)
SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_AVG, ncclAvg);
SAME(NCCL_UINT8, ncclUint8);
SAME(NCCL_INT32, ncclInt32);
SAME(NCCL_INT64, ncclInt64);
SAME(NCCL_FLOAT16, ncclFloat16);
SAME(NCCL_FLOAT32, ncclFloat32);
SAME(NCCL_FLOAT64, ncclFloat64);
SAME(NCCL_BFLOAT16, ncclBfloat16);
SAME(sizeof(nccl_id), sizeof(ncclUniqueId));

/* Their names in our list of functions: each of theirs has to fit as it is. */
#define nccl_result ncclResult_t
#define nccl_id ncclUniqueId
#define nccl_type ncclDataType_t
#define nccl_op ncclRedOp_t
#define X(name, arguments) extern nccl_result(*take_##name) arguments; nccl_result(*take_##name) arguments = nccl##name;
NCCL_FUNCTIONS(X)
#undef X
extern const char *(*take_error_string)(nccl_result), *(*take_last_error)(nccl_comm);
const char *(*take_error_string)(nccl_result) = ncclGetErrorString, *(*take_last_error)(nccl_comm) = ncclGetLastError;
