/* place.c -- what the launcher has left in the environment: which of how many processes this one is.
**
** The innermost launcher counts: torchrun may run inside srun, capl's own ranks inside anything. A size of one is no
** world, whoever started it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "capl/dist.h"

enum { MOST_NUMBER = 65535 }; /* of ranks, and of ports */

/* ---- numbers of the environment --------------------------------------------------------------- */

static const char *env(const char *name)
{
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static capl_status read_number(const char *name, const char *text, int least, int *out)
{
  char *end, shown[64];
  errno = 0;
  long n = strtol(text, &end, 10);
  if (end != text && !*end && errno == 0 && n >= least && n <= MOST_NUMBER) return *out = (int)n, CAPL_OK;
  capl_text_show(shown, sizeof shown, text, false);
  return CAPL_FAIL(CAPL_EVALUE, "%s is '%s', not a whole number from %d to %d", name, shown, least, MOST_NUMBER);
}

/* The number in a variable, or fallback where it is not set. */
static capl_status optional(const char *name, int least, int fallback, int *out)
{
  *out = fallback;
  return env(name) ? read_number(name, env(name), least, out) : CAPL_OK;
}

static capl_status required(const char *name, int least, const char *because, int *out)
{
  if (env(name)) return read_number(name, env(name), least, out);
  CAPL_FAIL(CAPL_EVALUE, "%s is set, but %s is not", because, name);
  capl_error_hint("start all ranks with one launcher, or take %s out of the environment: unset %s", because, because);
  return CAPL_EVALUE;
}

static capl_status below(const char *small, int n, const char *large, int limit)
{
  if (n < limit) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s=%d and %s=%d contradict each other: ranks count from 0", small, n, large, limit);
}

/* ---- one launcher each ------------------------------------------------------------------------ */

/* Names of the variables that hold the four numbers. */
typedef struct {
  capl_launch launch;
  const char *rank, *size, *local_rank, *local_size;
} variables;

static capl_status read_all(const variables *v, capl_place *out)
{
  capl_place p = *out;
  p.launch = v->launch;
  CAPL_TRY(required(v->size, 1, v->rank, &p.size));
  CAPL_TRY(required(v->rank, 0, v->size, &p.rank));
  CAPL_TRY(below(v->rank, p.rank, v->size, p.size));
  if (p.size == 1) return CAPL_OK; /* alone, as out says already */
  CAPL_TRY(required(v->local_rank, 0, v->size, &p.local_rank));
  CAPL_TRY(optional(v->local_size, 1, p.local_rank + 1, &p.local_size));
  CAPL_TRY(below(v->local_rank, p.local_rank, v->local_size, p.local_size));
  CAPL_TRY(below(v->local_rank, p.local_rank, v->size, p.size));
  *out = p;
  return CAPL_OK;
}

static const variables of_capl = {CAPL_LAUNCH_LOCAL, "CAPL_RANK", "CAPL_WORLD_SIZE", "CAPL_LOCAL_RANK",
                                  "CAPL_LOCAL_SIZE"};
static const variables of_open_mpi = {CAPL_LAUNCH_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
static const variables of_torchrun = {CAPL_LAUNCH_TORCHRUN, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

static capl_status from_torchrun(capl_place *out)
{
  CAPL_TRY(read_all(&of_torchrun, out));
  if (out->launch != CAPL_LAUNCH_TORCHRUN) return CAPL_OK;
  int port;
  if (!env("MASTER_ADDR")) {
    CAPL_FAIL(CAPL_EVALUE, "WORLD_SIZE is %d, but MASTER_ADDR is not set", out->size);
    capl_error_hint("MASTER_ADDR names the host of rank 0, MASTER_PORT a free port there; torchrun sets both");
    return CAPL_EVALUE;
  }
  CAPL_TRY(required("MASTER_PORT", 1, "MASTER_ADDR", &port));
  return CAPL_OK;
}

/* mpirun's variables; those of torchrun beside them (set by hand, or by a container) must say the same. */
static capl_status from_open_mpi(capl_place *out)
{
  CAPL_TRY(read_all(&of_open_mpi, out));
  if (!env("RANK") || !env("WORLD_SIZE")) return CAPL_OK;
  int size, rank;
  CAPL_TRY(read_number("WORLD_SIZE", env("WORLD_SIZE"), 1, &size));
  CAPL_TRY(read_number("RANK", env("RANK"), 0, &rank));
  if (size == out->size && rank == out->rank) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "rank %d of %d by OMPI_COMM_WORLD_RANK and _SIZE, rank %d of %d by RANK and WORLD_SIZE",
            out->rank, out->size, rank, size);
  capl_error_hint("two launchers contradict each other; take the other's variables away: unset RANK WORLD_SIZE");
  return CAPL_EVALUE;
}

/* ---- Slurm ------------------------------------------------------------------------------------ */

/* Tasks of the srun this process is one of, with the variable that says so; 1 in a batch script and beside srun, where
** SLURM_NTASKS only says what was asked for. */
static capl_status slurm_tasks(const char **name, int *tasks)
{
  *name = env("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  bool in_step = env("SLURM_STEP_NUM_TASKS") || env("SLURM_STEP_ID") || env("SLURM_STEPID");
  if (!in_step || !env("SLURM_PROCID")) return *tasks = 1, CAPL_OK;
  return optional(*name, 1, 1, tasks);
}

/* The n-th number of Slurm's "4(x2),3": tasks on each node. 0 = it is not there. */
static int tasks_of_node(const char *text, int n)
{
  while (text && *text) {
    char *end;
    long tasks = strtol(text, &end, 10), times = 1;
    if (end == text || tasks < 1 || tasks > MOST_NUMBER) return 0;
    if (strncmp(end, "(x", 2) == 0) times = strtol(end + 2, &end, 10), end += *end == ')';
    if (n < times) return (int)tasks;
    n -= (int)(times < MOST_NUMBER ? times : MOST_NUMBER);
    text = *end == ',' ? end + 1 : NULL;
  }
  return 0;
}

static capl_status from_srun(const char *size_name, capl_place *out)
{
  const variables v = {CAPL_LAUNCH_MPI, "PMIX_RANK", size_name, "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"};
  const char *per_node = env("SLURM_STEP_TASKS_PER_NODE");
  capl_place p = *out;
  int node;
  CAPL_TRY(required(v.rank, 0, v.size, &p.rank));
  CAPL_TRY(required(v.size, 1, v.rank, &p.size));
  CAPL_TRY(below(v.rank, p.rank, v.size, p.size));
  CAPL_TRY(required(v.local_rank, 0, v.size, &p.local_rank));
  CAPL_TRY(optional("SLURM_NODEID", 0, 0, &node));
  p.launch = v.launch;
  p.local_size = tasks_of_node(per_node, node);
  if (p.local_size <= p.local_rank) p.local_size = p.local_rank + 1;
  *out = p;
  return CAPL_OK;
}

static capl_status without_pmix(const char *name, int tasks)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%s is %d, but Slurm has started the tasks without PMIx", name, tasks);
  capl_error_hint("start them with: srun --mpi=pmix …, or let capl do it in an allocation: salloc -n %d capl RECIPE "
                  "--ranks=%d",
                  tasks, tasks);
  return CAPL_EUNSUPPORTED;
}

/* ---- whose word counts ------------------------------------------------------------------------ */

/* Another MPI library's launcher, whose ranks would all take themselves for alone. */
static capl_status refuse_pmi(void)
{
  int size;
  CAPL_TRY(optional("PMI_SIZE", 1, 1, &size));
  if (size == 1) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "PMI_SIZE is %d: the ranks were started by the mpirun of MPICH or of Intel MPI", size);
  capl_error_hint("capl speaks with Open MPI: mpirun.openmpi -n %d …, or capl RECIPE --ranks=%d", size, size);
  return CAPL_EUNSUPPORTED;
}

static capl_status detect(capl_place *out)
{
  const char *name;
  int tasks;
  bool torch = env("RANK") && env("WORLD_SIZE");
  if (env("CAPL_RANK") || env("CAPL_WORLD_SIZE")) return read_all(&of_capl, out);
  if (torch && env("TORCHELASTIC_RUN_ID")) return from_torchrun(out);
  if (env("OMPI_COMM_WORLD_SIZE") || env("OMPI_COMM_WORLD_RANK")) return from_open_mpi(out);
  if (torch) return from_torchrun(out);
  CAPL_TRY(slurm_tasks(&name, &tasks));
  if (tasks > 1) return env("PMIX_RANK") ? from_srun(name, out) : without_pmix(name, tasks);
  /* says that RANK is missing */
  if (env("WORLD_SIZE") && strcmp(env("WORLD_SIZE"), "1") != 0) return from_torchrun(out);
  return refuse_pmi();
}

capl_status capl_place_detect(capl_place *out)
{
  capl_place p = {.launch = CAPL_LAUNCH_ONE, .size = 1, .local_size = 1};
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof host - 1) != 0 || !*host) strcpy(host, "localhost");
  capl_text_show(p.host, sizeof p.host, host, false);
  CAPL_TRY(detect(&p));
  *out = p;
  return CAPL_OK;
}
