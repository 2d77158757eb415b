/* all_reduce_mpi.c -- the time that MPI alone takes to add up 20 MB of f32 on all ranks, in place;
** bench/dist/all_reduce.lua is the same through capl.
**
** Prints one line of JSON: the median of the rounds, of the slowest rank. Arguments: bytes, rounds.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double once(float *data, int n)
{
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

/* Large pages, as capl's tensors have: copies between processes are twice as fast with them. */
static float *new_data(size_t bytes)
{
  size_t page = (size_t)1 << 21, whole = (bytes + page - 1) / page * page;
  float *data = aligned_alloc(page, whole);
  if (!data) return NULL;
  madvise(data, whole, MADV_HUGEPAGE);
  return memset(data, 0, whole);
}

int main(int argc, char **argv)
{
  int n = (argc > 1 ? atoi(argv[1]) : 20000000) / 4, rounds = argc > 2 ? atoi(argv[2]) : 31, rank;
  float *data = new_data((size_t)n * sizeof *data);
  double *times = calloc((size_t)rounds, sizeof *times), slowest[2];
  if (!data || !times) return 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 3; i++) once(data, n);
  for (int i = 0; i < rounds; i++) times[i] = once(data, n);
  qsort(times, (size_t)rounds, sizeof *times, by_size);
  double mine[2] = {times[rounds / 2], times[0]};
  MPI_Allreduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    printf("{\"step_ms\": %.4f, \"min_ms\": %.4f, \"images\": 1, \"peak_bytes\": %zu}\n", 1e3 * slowest[0],
           1e3 * slowest[1], (size_t)n * sizeof *data);
  MPI_Finalize();
  free(data);
  free(times);
  return 0;
}
