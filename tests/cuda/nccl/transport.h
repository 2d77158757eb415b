/* transport.h -- how the stand-in for NCCL moves bytes between processes: over MPI where the process has begun it, else
** through a file in shared memory (ranks that capl forked on this machine).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef FAKE_NCCL_TRANSPORT_H
#define FAKE_NCCL_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  int rank, size;
  bool mpi;
  atomic_bool given_up; /* set by another thread: every wait ends at once */
  unsigned char *shared;
  size_t rounds;
  char name[64];
} transport;

/* false: the others cannot be reached. name: the same on every rank, no other job's. */
bool transport_open(transport *t, int rank, int size, const char *name);
void transport_close(transport *t);
/* all = every rank's bytes, in the order of ranks. false: given up. */
bool transport_gather(transport *t, const void *mine, void *all, size_t bytes);
/* theirs = what peer gives; peer names this rank in the same call. Through shared memory between two ranks alone. */
bool transport_swap(transport *t, int peer, const void *mine, void *theirs, size_t bytes);

#endif
