/* launch_ranks.c -- how many processes a job has and who starts them: option, header, device, GPUs, launcher.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>

#include "program/launch/ranks.h"
#include "program/launch/restart.h"
#include "unit.h"

static int gpus_here;

static int gpus(char *why, size_t room)
{
  snprintf(why, room, "%s", gpus_here ? "" : "no driver");
  return gpus_here;
}

static const capl_place alone = {.launch = CAPL_LAUNCH_ONE, .size = 1, .local_size = 1};

static capl_status settle(int asked, int header, const char *device, int n_gpus, const capl_place *place,
                          ranks_decision *d)
{
  gpus_here = n_gpus;
  return ranks_settle(&(ranks_wish){.asked = asked, .header = header, .device = device}, place, gpus, d);
}

static void assert_how(int asked, int header, const char *device, int n_gpus, launch_how how, int ranks)
{
  ranks_decision d;
  assert_ok(settle(asked, header, device, n_gpus, &alone, &d));
  if (d.how != how || d.ranks != ranks)
    fail_msg("--ranks=%d, header %d, device %s, %d GPUs: %d ranks, way %d", asked, header, device ? device : "auto",
             n_gpus, d.ranks, (int)d.how);
}

static void assert_refused(int asked, int header, const char *device, int n_gpus, const char *part)
{
  ranks_decision d;
  assert_int_not_equal(settle(asked, header, device, n_gpus, &alone, &d), CAPL_OK);
  if (!strstr(capl_error_last()->message, part)) fail_msg("%s", capl_error_last()->message);
  assert_true(*capl_error_last()->hint != '\0');
}

enum { NO = RANKS_UNSAID, ALL = RANKS_GPUS };

static void one_rank_is_one_process_whatever_there_is(void **state)
{
  (void)state;
  assert_how(NO, 1, NULL, 8, LAUNCH_ALONE, 1);
  assert_how(1, ALL, NULL, 8, LAUNCH_ALONE, 1);
  assert_how(1, 4, "cpu", 0, LAUNCH_ALONE, 1);
  assert_how(ALL, 1, NULL, 1, LAUNCH_ALONE, 1);
}

static void gpus_get_a_process_each(void **state)
{
  (void)state;
  assert_how(NO, ALL, NULL, 3, LAUNCH_FORK, 3);
  assert_how(ALL, 1, NULL, 3, LAUNCH_FORK, 3);
  assert_how(2, 1, NULL, 3, LAUNCH_FORK, 2);
  assert_how(2, 1, "cuda", 3, LAUNCH_FORK, 2);
}

static void processors_get_ranks_by_mpirun(void **state)
{
  (void)state;
  assert_how(2, 1, NULL, 0, LAUNCH_MPIRUN, 2);
  assert_how(2, ALL, NULL, 0, LAUNCH_MPIRUN, 2);
  assert_how(2, ALL, "cpu", 8, LAUNCH_MPIRUN, 2);
  assert_how(NO, 4, NULL, 0, LAUNCH_MPIRUN, 4);
}

static void a_recipe_for_gpus_is_planned_where_there_is_none(void **state)
{
  (void)state;
  ranks_decision d;
  assert_how(NO, ALL, NULL, 0, LAUNCH_PLAN, 0);
  assert_ok(settle(ALL, 1, "cuda", 0, &alone, &d));
  assert_int_equal(d.how, LAUNCH_PLAN);
  assert_string_equal(d.why, "no driver");
}

static void a_named_device_counts_more_than_the_header(void **state)
{
  (void)state;
  assert_how(NO, ALL, "cpu", 3, LAUNCH_ALONE, 1);
  assert_how(NO, ALL, "cuda:1", 3, LAUNCH_ALONE, 1);
  assert_how(NO, 3, "cuda:1", 3, LAUNCH_ALONE, 1);
}

static void contradictions_name_both_sides(void **state)
{
  (void)state;
  assert_refused(4, 1, NULL, 2, "4 ranks, but this machine has 2 GPUs");
  assert_refused(2, 1, NULL, 1, "2 ranks, but this machine has 1 GPU");
  assert_refused(2, 1, "cuda:1", 2, "--ranks=2 contradicts device cuda:1");
  assert_refused(ALL, 1, "cpu", 2, "--ranks=gpus contradicts device cpu");
  assert_refused(2, 1, "cuda", 0, "2 ranks on GPUs, but there is none: no driver");
}

static void a_launchers_number_counts(void **state)
{
  (void)state;
  const capl_place rank = {.launch = CAPL_LAUNCH_MPI, .rank = 1, .size = 2, .local_rank = 1, .local_size = 2};
  ranks_decision d;
  assert_ok(settle(NO, ALL, NULL, 0, &rank, &d));
  assert_int_equal(d.how, LAUNCH_RANK);
  assert_int_equal(d.ranks, 2);
  assert_ok(settle(2, 1, NULL, 0, &rank, &d));
  assert_int_equal(settle(4, 1, NULL, 0, &rank, &d), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "--ranks=4 contradicts"));
  assert_int_equal(settle(NO, 1, "cuda:1", 2, &rank, &d), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "device cuda:1 is one GPU, but this host has 2 ranks"));
}

static void no_mpirun_starts_inside_an_mpirun_of_one(void **state)
{
  (void)state;
  ranks_decision d;
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  capl_status asked = settle(2, 1, NULL, 0, &alone, &d);
  assert_how(NO, 2, NULL, 0, LAUNCH_ALONE, 1);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  assert_int_equal(asked, CAPL_EVALUE);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void the_option_is_taken_out_of_the_words(void **state)
{
  (void)state;
  char *words[] = {"--epochs=3", "--ranks=2", "--device=cpu"};
  int n = 3, ranks = NO;
  assert_ok(ranks_take(&n, words, &ranks));
  assert_int_equal(n, 2);
  assert_int_equal(ranks, 2);
  assert_string_equal(words[1], "--device=cpu");
  assert_string_equal(ranks_device(n, words), "cpu");
}

static void nonsense_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {"--ranks=0",  "--ranks=-1", "--ranks=1e9", "--ranks=two", "--ranks=", "--ranks=2x",
                                    "--ranks= 2",
                                    "--ranks=4097", "--ranks=99999999999999999999", "--ranks=GPUS", "--ranks=+2",
                                    "--ranks"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char copy[64], *words[] = {copy};
    int n = 1, ranks = NO;
    strcpy(copy, bad[i]);
    if (ranks_take(&n, words, &ranks) != CAPL_EVALUE) fail_msg("%s gives %d ranks", bad[i], ranks);
    assert_int_equal(ranks, NO);
  }
  char *twice[] = {"--ranks=2", "--ranks=2"};
  int n = 2, ranks = NO;
  assert_int_equal(ranks_take(&n, twice, &ranks), CAPL_EVALUE);
}

static void a_number_of_restarts_is_taken_too(void **state)
{
  (void)state;
  char *words[] = {"--epochs=3", "--restart", "20", "--ranks=2"};
  int n = 4, times = 0;
  assert_ok(restart_take(&n, words, &times));
  assert_int_equal(n, 2);
  assert_int_equal(times, 20);
  assert_string_equal(words[1], "--ranks=2");
  assert_ok(restart_take(&n, words, &times));
  assert_int_equal(times, 20);
  static const char *const bad[] = {"--restart=", "--restart=-1", "--restart=often", "--restart=1001", "--restart=2x",
                                    "--restart"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char copy[64], *one[] = {copy};
    int m = 1;
    strcpy(copy, bad[i]);
    if (restart_take(&m, one, &times) != CAPL_EVALUE) fail_msg("%s gives %d restarts", bad[i], times);
  }
}

static void a_crash_is_a_loss_and_an_error_or_a_wish_is_none(void **state)
{
  (void)state;
  static const int lost[] = {75, 137, 139, 134, 135}, others[] = {0, 1, 2, 124, 130, 143, 129, 141};
  for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) assert_true(restart_is_lost(lost[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(restart_is_lost(others[i]));
}

static void ranks_that_are_left_share_the_images_evenly(void **state)
{
  (void)state;
  assert_int_equal(restart_ranks(8, 8), 8);
  assert_int_equal(restart_ranks(8, 7), 4);
  assert_int_equal(restart_ranks(6, 5), 3);
  assert_int_equal(restart_ranks(7, 6), 1);
  assert_int_equal(restart_ranks(4, 9), 4);
  assert_int_equal(restart_ranks(4, 0), 0);
}

int main(void)
{
  unsetenv("OMPI_COMM_WORLD_SIZE");
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_rank_is_one_process_whatever_there_is),
    cmocka_unit_test(gpus_get_a_process_each),
    cmocka_unit_test(processors_get_ranks_by_mpirun),
    cmocka_unit_test(a_recipe_for_gpus_is_planned_where_there_is_none),
    cmocka_unit_test(a_named_device_counts_more_than_the_header),
    cmocka_unit_test(contradictions_name_both_sides),
    cmocka_unit_test(a_launchers_number_counts),
    cmocka_unit_test(no_mpirun_starts_inside_an_mpirun_of_one),
    cmocka_unit_test(the_option_is_taken_out_of_the_words),
    cmocka_unit_test(nonsense_is_refused),
    cmocka_unit_test(a_number_of_restarts_is_taken_too),
    cmocka_unit_test(a_crash_is_a_loss_and_an_error_or_a_wish_is_none),
    cmocka_unit_test(ranks_that_are_left_share_the_images_evenly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
