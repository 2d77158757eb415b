/* dist_place.c -- what a process learns from its launcher: each launcher's variables, and those that contradict each
** other. SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capl/dist.h"
#include "unit.h"

/* Leaves only these variables: "A=1 B=2". */
static void environment(const char *text)
{
  char copy[512], *save = NULL;
  clearenv();
  strcpy(copy, text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    *value = '\0';
    setenv(word, value + 1, 1);
  }
}

static void assert_place(const char *variables, capl_launch launch, int rank, int size, int local_rank, int local_size)
{
  capl_place p;
  environment(variables);
  if (capl_place_detect(&p) != CAPL_OK) fail_msg("%s: %s", variables, capl_error_last()->message);
  if (p.launch != launch || p.rank != rank || p.size != size || p.local_rank != local_rank
      || p.local_size != local_size)
    fail_msg("%s: launch %d, rank %d of %d, %d of %d here", variables, (int)p.launch, p.rank, p.size, p.local_rank,
             p.local_size);
}

static void assert_refused(const char *variables, capl_status status, const char *part)
{
  capl_place p = {.rank = 77};
  environment(variables);
  assert_int_equal(capl_place_detect(&p), status);
  if (!strstr(capl_error_last()->message, part)) fail_msg("%s: %s", variables, capl_error_last()->message);
  assert_int_equal(p.rank, 77); /* left alone */
}

static void a_process_without_variables_is_alone(void **state)
{
  (void)state;
  assert_place("HOME=/", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
  assert_place("RANK=3", CAPL_LAUNCH_ONE, 0, 1, 0, 1); /* a common name, by itself it says nothing */
  assert_place("WORLD_SIZE=1", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
  char host[256] = "";
  capl_place p;
  gethostname(host, sizeof host - 1);
  assert_int_equal(capl_place_detect(&p), CAPL_OK);
  assert_string_equal(p.host, host);
}

static void each_launcher_is_understood(void **state)
{
  (void)state;
  assert_place("CAPL_RANK=2 CAPL_WORLD_SIZE=3 CAPL_LOCAL_RANK=2 CAPL_LOCAL_SIZE=3", CAPL_LAUNCH_LOCAL, 2, 3, 2, 3);
  assert_place("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "
               "OMPI_COMM_WORLD_LOCAL_SIZE=4",
               CAPL_LAUNCH_MPI, 5, 8, 1, 4);
  assert_place("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500",
               CAPL_LAUNCH_TORCHRUN, 3, 4, 1, 2);
  assert_place("PMIX_RANK=5 SLURM_PROCID=5 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=1 SLURM_NODEID=2 "
               "SLURM_STEP_TASKS_PER_NODE=2(x3),1",
               CAPL_LAUNCH_MPI, 5, 7, 1, 2);
}

static void a_size_of_one_is_no_world(void **state)
{
  (void)state;
  assert_place("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
  assert_place("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=a MASTER_PORT=1", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
  assert_place("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
}

static void the_innermost_launcher_counts(void **state)
{
  (void)state;
  assert_place("TORCHELASTIC_RUN_ID=x RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1 "
               "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMIX_RANK=1",
               CAPL_LAUNCH_TORCHRUN, 9, 16, 1, 8);
  assert_place("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_RANK=0 SLURM_PROCID=0 "
               "SLURM_STEP_NUM_TASKS=1",
               CAPL_LAUNCH_MPI, 0, 2, 0, 1);
  assert_place("RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a MASTER_PORT=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
               CAPL_LAUNCH_TORCHRUN, 1, 2, 0, 1); /* torchrun's variables, written into a Slurm script */
}

static void a_batch_script_of_slurm_is_no_rank(void **state)
{
  (void)state;
  assert_place("SLURM_JOB_ID=1 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
  assert_place("SLURM_JOB_ID=1 SLURM_NTASKS=4", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
}

static void slurm_without_pmix_is_refused(void **state)
{
  (void)state;
  assert_refused("SLURM_PROCID=0 SLURM_STEP_ID=3 SLURM_NTASKS=2", CAPL_EUNSUPPORTED,
                 "SLURM_NTASKS is 2, but Slurm has started");
  assert_non_null(strstr(capl_error_last()->hint, "srun --mpi=pmix"));
  assert_non_null(strstr(capl_error_last()->hint, "salloc -n 2"));
}

static void another_mpi_is_refused(void **state)
{
  (void)state;
  assert_refused("PMI_RANK=0 PMI_SIZE=2", CAPL_EUNSUPPORTED, "MPICH");
  assert_place("PMI_RANK=0 PMI_SIZE=1", CAPL_LAUNCH_ONE, 0, 1, 0, 1);
}

static void contradictions_are_named(void **state)
{
  (void)state;
  assert_refused("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0", CAPL_EVALUE,
                 "OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=2");
  assert_refused("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 RANK=1 WORLD_SIZE=4",
                 CAPL_EVALUE, "rank 0 of 2 by OMPI_COMM_WORLD_RANK and _SIZE, rank 1 of 4 by RANK and WORLD_SIZE");
  assert_refused("CAPL_RANK=0 CAPL_WORLD_SIZE=2 CAPL_LOCAL_RANK=1 CAPL_LOCAL_SIZE=1", CAPL_EVALUE,
                 "CAPL_LOCAL_RANK=1 and CAPL_LOCAL_SIZE=1");
}

static void missing_variables_are_named(void **state)
{
  (void)state;
  assert_refused("OMPI_COMM_WORLD_SIZE=2", CAPL_EVALUE, "OMPI_COMM_WORLD_RANK is not");
  assert_refused("WORLD_SIZE=4", CAPL_EVALUE, "WORLD_SIZE is set, but RANK is not");
  assert_refused("RANK=0 WORLD_SIZE=4", CAPL_EVALUE, "LOCAL_RANK is not");
  assert_refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=0", CAPL_EVALUE, "MASTER_ADDR is not set");
  assert_refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=a", CAPL_EVALUE, "MASTER_PORT is not");
  assert_refused("CAPL_RANK=0", CAPL_EVALUE, "CAPL_WORLD_SIZE is not");
}

static void nonsense_is_shown(void **state)
{
  (void)state;
  assert_refused("OMPI_COMM_WORLD_RANK=one OMPI_COMM_WORLD_SIZE=2", CAPL_EVALUE, "OMPI_COMM_WORLD_RANK is 'one'");
  assert_refused("RANK=-1 WORLD_SIZE=2", CAPL_EVALUE, "RANK is '-1'");
  assert_refused("RANK=0 WORLD_SIZE=99999999999999999999", CAPL_EVALUE, "WORLD_SIZE is '99999999999999999999'");
  assert_refused("RANK=0 WORLD_SIZE=2\033[2J", CAPL_EVALUE, "'2\\x1b[2J'");
  assert_refused("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a MASTER_PORT=70000", CAPL_EVALUE,
                 "MASTER_PORT is '70000'");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_process_without_variables_is_alone), cmocka_unit_test(each_launcher_is_understood),
    cmocka_unit_test(a_size_of_one_is_no_world),            cmocka_unit_test(the_innermost_launcher_counts),
    cmocka_unit_test(a_batch_script_of_slurm_is_no_rank),   cmocka_unit_test(slurm_without_pmix_is_refused),
    cmocka_unit_test(another_mpi_is_refused),               cmocka_unit_test(contradictions_are_named),
    cmocka_unit_test(missing_variables_are_named),          cmocka_unit_test(nonsense_is_shown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
