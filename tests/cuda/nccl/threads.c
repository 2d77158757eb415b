/* threads.c -- preloaded, lets two threads call MPI: capl's library asks for one, the stand-in for NCCL is another.
** SPDX-License-Identifier: Apache-2.0
*/
#include <mpi.h>

__attribute__((visibility("default"))) int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
  (void)required;
  return PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided);
}
