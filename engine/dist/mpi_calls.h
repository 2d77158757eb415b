/* mpi_calls.h -- one collective by MPI, as the thread of libcapl_mpi makes it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_MPI_CALLS_H
#define CAPL_DIST_MPI_CALLS_H

#include <stdatomic.h>

#include "capl/dist.h"

typedef enum { JOB_ALL_REDUCE, JOB_BROADCAST, JOB_ALL_GATHER, JOB_REDUCE_SCATTER, JOB_EXCHANGE } mpi_kind;

typedef struct {
  mpi_kind kind;
  const void *in;
  void *out;
  size_t count; /* elements where dtypes matter, else bytes; of one rank */
  capl_dtype dtype;
  capl_reduction reduction;
  int rank; /* root or peer */
} mpi_job;

/* All of these are called by one thread. EIO: MPI's words. EUNSUPPORTED: MPI has another world than the launcher. */
capl_status mpi_begin(const capl_place *place);
capl_status mpi_run(const mpi_job *job);
void mpi_end(void);

/* "Open MPI v4.1.4". Before mpi_begin too. */
const char *mpi_version(void);

/* Set by another thread: nobody will answer any more. What waits for other ranks then ends with EIO. */
extern atomic_bool mpi_given_up;

#endif
