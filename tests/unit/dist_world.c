/* dist_world.c -- a world of one: nothing is sent, what is to be copied is copied, and what cannot be right is refused
** as in any other; launchers whose ranks cannot be joined here.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "capl/capl.h"
#include "capl/dist.h"
#include "unit.h"

static capl_device *ref;
static capl_world *world;

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "RANK", "WORLD_SIZE",
                                        "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CAPL_RANK", "CAPL_WORLD_SIZE",
                                        "CAPL_LOCAL_RANK", "CAPL_LOCAL_SIZE", "PMIX_RANK", "SLURM_PROCID",
                                        "SLURM_NTASKS", "PMI_SIZE"};

static int begin(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

static int join(void **state)
{
  begin(state);
  return capl_world_join(&(capl_world_options){.device = ref}, &world) == CAPL_OK ? 0 : -1;
}

static int leave(void **state)
{
  (void)state;
  capl_world_leave(0);
  return capl_world_get() ? -1 : 0;
}

static capl_tensor *numbers(int ndim, const int64_t *size, capl_dtype dtype, double first)
{
  capl_tensor *t;
  double values[64];
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n *= size[d];
  for (int i = 0; i < n; i++) values[i] = first + i;
  assert_ok(capl_tensor_from_doubles(ref, dtype, ndim, size, values, &t));
  return t;
}

static double element(const capl_tensor *t, int i)
{
  double values[64];
  assert_ok(capl_tensor_to_doubles(t, values));
  return values[i];
}

static void assert_says(capl_status status, capl_status code, const char *text)
{
  assert_int_equal(status, code);
  if (!strstr(capl_error_last()->message, text)) fail_msg("'%s' is not in '%s'", text, capl_error_last()->message);
}

/* ---- a world of one ----------------------------------------------------------------------------- */

static void is_done_at_once(void **state)
{
  (void)state;
  capl_work *work = (capl_work *)&world;
  bool done = false;
  capl_tensor *t = numbers(1, (int64_t[]){3}, CAPL_F32, 5);
  assert_ok(capl_all_reduce(world, t, CAPL_REDUCE_MEAN, &work));
  assert_null(work);
  assert_ok(capl_work_done(work, &done));
  assert_true(done);
  assert_ok(capl_work_wait(work));
  assert_ok(capl_broadcast(world, t, 0, NULL));
  assert_ok(capl_barrier(world));
  assert_float_equal(element(t, 2), 7, 0);
  capl_traffic traffic;
  assert_ok(capl_world_traffic(world, &traffic));
  assert_int_equal(traffic.calls, 0);
  assert_int_equal(traffic.bytes, 0);
  capl_tensor_unref(t);
}

static void parts_are_copied(void **state)
{
  (void)state;
  capl_tensor *part = numbers(2, (int64_t[]){2, 3}, CAPL_I32, 1),
      *whole = numbers(3, (int64_t[]){1, 2, 3}, CAPL_I32, 0);
  assert_ok(capl_all_gather(world, part, whole, NULL));
  assert_float_equal(element(whole, 5), 6, 0);
  capl_tensor *back = numbers(2, (int64_t[]){2, 3}, CAPL_I32, 50);
  assert_ok(capl_reduce_scatter(world, whole, back, CAPL_REDUCE_SUM, NULL));
  assert_float_equal(element(back, 0), 1, 0);
  capl_tensor *got = numbers(2, (int64_t[]){2, 3}, CAPL_I32, 70);
  assert_ok(capl_exchange(world, 0, part, got, NULL));
  assert_float_equal(element(got, 3), 4, 0);
  capl_tensor *all[] = {part, whole, back, got};
  for (int i = 0; i < 4; i++) capl_tensor_unref(all[i]);
}

static void it_tells_itself(void **state)
{
  (void)state;
  capl_messages all;
  assert_ok(capl_world_all_gather_bytes(world, "a\0b", 3, &all));
  assert_int_equal(all.count, 1);
  assert_int_equal(all.len[0], 3);
  assert_memory_equal(all.data[0], "a\0b", 4);
  capl_messages_free(&all);
  assert_string_equal(capl_world_backend(world), "one");
  assert_string_equal(capl_world_host(world, 0), capl_world_place(world)->host);
  assert_string_equal(capl_world_host(world, 1), "");
}

static void what_cannot_be_right_is_refused(void **state)
{
  (void)state;
  capl_tensor *t = numbers(2, (int64_t[]){4, 3}, CAPL_F32, 0), *view,
      *whole = numbers(2, (int64_t[]){2, 4}, CAPL_F32, 0);
  assert_ok(capl_tensor_alias(t, 1, (int64_t[]){4}, (int64_t[]){3}, 0, &view));
  assert_says(capl_all_reduce(world, view, CAPL_REDUCE_SUM, NULL), CAPL_ESHAPE,
              "(4) f32 ref has gaps or repeats in memory");
  assert_says(capl_broadcast(world, t, 1, NULL), CAPL_EVALUE, "there is no rank 1; there are 0 to 0");
  assert_says(capl_exchange(world, 0, t, t, NULL), CAPL_EVALUE, "into the same memory");
  assert_says(capl_exchange(world, 0, t, whole, NULL), CAPL_ESHAPE, "sends (4,3) f32 ref and receives (2,4) f32 ref");
  assert_says(capl_all_gather(world, t, whole, NULL), CAPL_ESHAPE,
              "(2,4) f32 ref is not 1 contiguous parts like (4,3) f32 ref");
  capl_tensor *bytes = numbers(1, (int64_t[]){4}, CAPL_U8, 0), *whole_numbers = numbers(1, (int64_t[]){4}, CAPL_I64, 0);
  assert_says(capl_all_reduce(world, bytes, CAPL_REDUCE_SUM, NULL), CAPL_EDTYPE, "tensors of u8 are not reduced");
  assert_says(capl_all_reduce(world, whole_numbers, CAPL_REDUCE_MEAN, NULL), CAPL_EDTYPE, "the mean of i64 is no i64");
  capl_world *again;
  assert_says(capl_world_join(&(capl_world_options){.device = ref}, &again), CAPL_ESTATE,
              "has joined its ranks already");
  assert_ptr_equal(again, world);
  capl_tensor *all[] = {t, view, whole, bytes, whole_numbers};
  for (int i = 0; i < 5; i++) capl_tensor_unref(all[i]);
}

/* ---- ranks that cannot be joined ---------------------------------------------------------------- */

static void set(const char *const *pairs)
{
  for (; *pairs; pairs += 2) setenv(pairs[0], pairs[1], 1);
}

static void assert_no_world(capl_status code, const char *message, const char *hint)
{
  capl_world *none;
  assert_says(capl_world_join(&(capl_world_options){.device = ref, .recipe = "r.lua"}, &none), code, message);
  if (!strstr(capl_error_last()->hint, hint)) fail_msg("'%s' is not in '%s'", hint, capl_error_last()->hint);
  assert_null(none);
  assert_null(capl_world_get());
}

static void ranks_of_torchrun_on_processors_are_told_of_mpirun(void **state)
{
  (void)state;
  set((const char *const[]){"RANK", "1", "WORLD_SIZE", "3", "LOCAL_RANK", "1", "MASTER_ADDR", "localhost",
                            "MASTER_PORT", "29500", NULL});
  assert_no_world(CAPL_EUNSUPPORTED, "3 ranks that torchrun started are on device ref, where they need MPI",
                  "capl r.lua --device=cpu --ranks=3, or mpirun -n 3 capl r.lua");
}

static void forked_ranks_on_processors_are_told_of_mpirun(void **state)
{
  (void)state;
  set((const char *const[]){"CAPL_RANK", "0", "CAPL_WORLD_SIZE", "2", "CAPL_LOCAL_RANK", "0", "CAPL_LOCAL_SIZE", "2",
                            NULL});
  assert_no_world(CAPL_EUNSUPPORTED, "2 ranks that capl started are on device ref", "mpirun -n 2 capl r.lua");
}

static void contradicting_variables_make_no_world(void **state)
{
  (void)state;
  set((const char *const[]){"OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_RANK", "2", NULL});
  assert_no_world(CAPL_EVALUE, "OMPI_COMM_WORLD_RANK", "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(is_done_at_once, join, leave),
    cmocka_unit_test_setup_teardown(parts_are_copied, join, leave),
    cmocka_unit_test_setup_teardown(it_tells_itself, join, leave),
    cmocka_unit_test_setup_teardown(what_cannot_be_right_is_refused, join, leave),
    cmocka_unit_test_setup(ranks_of_torchrun_on_processors_are_told_of_mpirun, begin),
    cmocka_unit_test_setup(forked_ranks_on_processors_are_told_of_mpirun, begin),
    cmocka_unit_test_setup(contradicting_variables_make_no_world, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
