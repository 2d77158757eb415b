/* nccl_comm.h -- a communicator: how ranks meet, and how they part.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_NCCL_COMM_H
#define CAPL_CUDA_NCCL_COMM_H

#include "backend/cuda/nccl_library.h"
#include "capl/dist.h"

/* NULL-safe texts of what NCCL says; CAPL_OK for NCCL_SUCCESS. doing: "all_reduce". */
capl_status nccl_status(const nccl_library *lib, nccl_comm comm, nccl_result result, const char *doing);

/* Every rank of the world calls it; *out is ready for collectives on cu's GPU, of which the first was done on `on`.
** When one rank cannot, all fail and name it. Never waits longer than NCCL_PATIENCE for the others. */
capl_status nccl_comm_open(capl_world *world, const nccl_library *lib, cudaStream_t on, nccl_comm *out);
typedef enum {
  NCCL_IN_ORDER, /* waits for all that is queued, and leaves */
  NCCL_LEFT,     /* waits too; the communicator stays until the process ends, for recorded steps still have its calls,
                 ** and NCCL's way to leave waits until those steps are freed */
  NCCL_AT_ONCE,  /* gives up what is under way, from any thread */
  NCCL_ENDS
} nccl_ending;

/* A library that does not come back is left alone. */
void nccl_comm_end(const nccl_library *lib, nccl_comm comm, cudaStream_t on, nccl_ending how);

enum { NCCL_PATIENCE = 60, NCCL_LAST_PATIENCE = 3 }; /* seconds */

#endif
