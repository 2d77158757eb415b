/* standin.c -- what place.c will do, as far as ranks that mpirun started need it; it wins where both are linked.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <unistd.h>

#include "dist/world.h"

#define WEAK __attribute__((weak))

static int number(const char *name, int otherwise)
{
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

WEAK capl_status capl_place_detect(capl_place *out)
{
  *out = (capl_place){.launch = CAPL_LAUNCH_ONE, .size = 1, .local_size = 1};
  gethostname(out->host, sizeof out->host - 1);
  out->size = number("OMPI_COMM_WORLD_SIZE", 1);
  if (out->size <= 1) return CAPL_OK;
  out->launch = CAPL_LAUNCH_MPI;
  out->rank = number("OMPI_COMM_WORLD_RANK", 0);
  out->local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  out->local_size = number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  return CAPL_OK;
}
