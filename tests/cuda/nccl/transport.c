/* transport.c -- see transport.h. Both ways gather everything from everybody: for tests, not for speed.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "transport.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef FAKE_NCCL_MPI
#include <mpi.h>
#endif

static void nap(void)
{
  nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* ---- MPI ------------------------------------------------------------------------------------- */

#ifdef FAKE_NCCL_MPI
enum { TAG = 7701, MAX_RANKS = 64 };

/* MPI was begun by capl, which calls it from another thread: threads.c, preloaded, allows both. */
static bool mpi_usable(int size)
{
  int begun = 0, level = 0, ranks = 0;
  MPI_Initialized(&begun);
  if (!begun) return false;
  MPI_Query_thread(&level);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (level < MPI_THREAD_MULTIPLE)
    fprintf(stderr, "stand-in for NCCL: MPI is for one thread here; LD_PRELOAD=libmpi_threads.so\n");
  return level == MPI_THREAD_MULTIPLE && ranks == size && size <= MAX_RANKS;
}

static bool wait_for(transport *t, int n, MPI_Request *requests)
{
  int done = 0;
  while (!done) {
    if (t->given_up || MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return false;
    if (!done) nap();
  }
  return true;
}

static bool mpi_gather(transport *t, const void *mine, unsigned char *all, size_t bytes)
{
  MPI_Request requests[2 * MAX_RANKS];
  int n = 0;
  for (int r = 0; r < t->size; r++) {
    if (r == t->rank) continue;
    MPI_Irecv(all + (size_t)r * bytes, (int)bytes, MPI_BYTE, r, TAG, MPI_COMM_WORLD, &requests[n++]);
    MPI_Isend(mine, (int)bytes, MPI_BYTE, r, TAG, MPI_COMM_WORLD, &requests[n++]);
  }
  memmove(all + (size_t)t->rank * bytes, mine, bytes);
  return wait_for(t, n, requests);
}

static bool mpi_swap(transport *t, int peer, const void *mine, void *theirs, size_t bytes)
{
  MPI_Request requests[2];
  MPI_Irecv(theirs, (int)bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(mine, (int)bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[1]);
  return wait_for(t, 2, requests);
}
#else
static bool mpi_usable(int size) { return size < 0; }

static bool mpi_gather(transport *t, const void *mine, unsigned char *all, size_t bytes)
{
  return t == NULL || mine == NULL || all == NULL || bytes == 0;
}

static bool mpi_swap(transport *t, int peer, const void *mine, void *theirs, size_t bytes)
{
  return t == NULL || peer < 0 || mine == NULL || theirs == NULL || bytes == 0;
}
#endif

/* ---- shared memory --------------------------------------------------------------------------- */

enum { PIECE = 1 << 20 };

static size_t shared_bytes(const transport *t)
{
  return 4096 + (size_t)t->size * PIECE;
}

/* Rank by rank, how many barriers it has reached. */
static _Atomic size_t *reached(const transport *t, int rank)
{
  return (_Atomic size_t *)(void *)(t->shared + 64 * (size_t)rank);
}

static bool barrier(transport *t)
{
  *reached(t, t->rank) = ++t->rounds;
  for (int r = 0; r < t->size; r++)
    while (*reached(t, r) < t->rounds) {
      if (t->given_up) return false;
      nap();
    }
  return true;
}

static bool shared_open(transport *t, const char *name)
{
  snprintf(t->name, sizeof t->name, "/%s", name);
  int file = shm_open(t->name, O_RDWR | O_CREAT, 0600);
  if (file < 0) return false;
  bool sized = ftruncate(file, (off_t)shared_bytes(t)) == 0;
  t->shared = sized ? mmap(NULL, shared_bytes(t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (t->shared == MAP_FAILED) return t->shared = NULL, false;
  bool met = barrier(t);
  shm_unlink(t->name);
  return met;
}

static bool shared_gather(transport *t, const unsigned char *mine, unsigned char *all, size_t bytes)
{
  unsigned char *pieces = t->shared + 4096;
  for (size_t at = 0; at < bytes; at += PIECE) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    memcpy(pieces + (size_t)t->rank * PIECE, mine + at, n);
    if (!barrier(t)) return false;
    for (int r = 0; r < t->size; r++) memcpy(all + (size_t)r * bytes + at, pieces + (size_t)r * PIECE, n);
    if (!barrier(t)) return false;
  }
  return true;
}

/* ---- either ---------------------------------------------------------------------------------- */

bool transport_open(transport *t, int rank, int size, const char *name)
{
  *t = (transport){.rank = rank, .size = size};
  if (size == 1) return true;
  t->mpi = mpi_usable(size);
  return t->mpi || (size <= 64 && shared_open(t, name));
}

void transport_close(transport *t)
{
  if (t->shared) munmap(t->shared, shared_bytes(t));
  t->shared = NULL;
}

bool transport_gather(transport *t, const void *mine, void *all, size_t bytes)
{
  if (t->size > 1) return t->mpi ? mpi_gather(t, mine, all, bytes) : shared_gather(t, mine, all, bytes);
  memmove(all, mine, bytes);
  return true;
}

bool transport_swap(transport *t, int peer, const void *mine, void *theirs, size_t bytes)
{
  if (t->mpi) return mpi_swap(t, peer, mine, theirs, bytes);
  if (t->size != 2 || peer == t->rank) return false;
  unsigned char *both = malloc(2 * bytes);
  bool ok = both && shared_gather(t, mine, both, bytes);
  if (ok) memcpy(theirs, both + (size_t)peer * bytes, bytes);
  free(both);
  return ok;
}
