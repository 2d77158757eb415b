/* run.c -- tests of dnn_run.c: which plan is run, what it is given, and what is kept.
** SPDX-License-Identifier: Apache-2.0
*/
#include "played.h"

#include <unistd.h>

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void the_first_engine_that_takes_a_record_runs_it(void **state)
{
  (void)state;
  played.broken[1] = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  assert_ok(run(conv, 0)); /* from the table */
  assert_int_equal(played.plans_made, 2);
  assert_int_equal(played.executed, 2);
  assert_int_equal(played.plans_live, 1);
}

static void a_large_workspace_is_taken_only_where_there_is_no_other(void **state)
{
  (void)state;
  played.workspace[1] = (int64_t)3 << 30;
  played.workspace[2] = 1 << 20;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  assert_int_equal(played.plans_live, 1);
}

static void the_fastest_engine_is_kept_and_found_again_on_disk(void **state)
{
  (void)state;
  cu.autotune = true;
  played.candidates = 5;
  for (int i = 1; i <= 5; i++) played.ms[i] = 10;
  played.ms[4] = 3;
  played.broken[2] = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 4);
  assert_int_equal(played.plans_live, 1);
  assert_int_equal(dnn_statistics_get().tuned, 1);
  restart();
  played.plans_made = 0;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 4);
  assert_int_equal(played.plans_made, 0);
  assert_int_equal(played.loaded, 1);
  restart();
  cu.autotune = false; /* a plan chosen by timing is not the heuristics' choice */
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 1);
}

static void run_width(int width)
{
  char text[128];
  snprintf(text, sizeof text, "conv2d f32 x=1,2,4,%d y=1,3,4,%d kernel=3,3 padding=1,1", width, width);
  assert_ok(run(text, 0));
}

static void timing_ends_when_it_took_too_long_and_goes_on_in_the_next_run(void **state)
{
  (void)state;
  cu.autotune = true;
  played.candidates = 2;
  played.ms[1] = 10, played.ms[2] = 3;
  played.pause = 0.12;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  played.pause = 0;
  run_width(20); /* half a second is over */
  need_written(DNN_Y, 0, 1);
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "the next run goes on timing"));
  restart();
  run_width(20);
  need_written(DNN_Y, 0, 2);
}

static void deterministic_records_take_the_order_of_the_heuristics(void **state)
{
  (void)state;
  cu.autotune = true;
  played.ms[1] = 9;
  played.ms[2] = 1;
  char text[128];
  snprintf(text, sizeof text, "%s deterministic", conv);
  assert_ok(run(text, 0));
  need_written(DNN_Y, 0, 1);
  assert_int_equal(played.executed, 1); /* nothing was timed */
}

static void tensors_at_any_address_are_read_and_written_in_place(void **state)
{
  (void)state;
  for (int off = 0; off < 32; off += 4) {
    assert_ok(run(conv, off));
    need_written(DNN_Y, off, 1);
    need_written(DNN_X, off, 100 + DNN_X); /* as it was */
  }
}

static void running_statistics_are_two_tensors_and_one_memory(void **state)
{
  (void)state;
  for (int off = 0; off < 32; off += 4) {
    assert_ok(run(norm, off));
    need_written(DNN_RUNNING_MEAN, off, 1);
    need_written(DNN_RUNNING_VAR, off, 1);
    need_written(DNN_Y, off, 1);
    assert_ptr_not_equal(pointer_of(DNN_RUNNING_MEAN + 1), pointer_of(DNN_UID_NEW_MEAN));
  }
  assert_true(played.eps == 0.25f && played.momentum == 0.5f);
}

static void timing_does_not_update_running_statistics_twice(void **state)
{
  (void)state;
  cu.autotune = true;
  played.ms[1] = played.ms[2] = 1;
  assert_ok(run(norm, 0)); /* the stand-in checks that each execution read the old ones */
  assert_true(played.executed > 2);
}

static void a_record_without_engine_is_refused_and_remembered(void **state)
{
  (void)state;
  played.candidates = 0;
  lines = 0;
  assert_int_equal(run(conv, 0), CAPL_EUNSUPPORTED);
  assert_int_equal(run(conv, 0), CAPL_EUNSUPPORTED);
  assert_non_null(strstr(capl_error_last()->message, "cuDNN has no engine for conv2d f32"));
  assert_int_equal(lines, 1);
  cu.capability = 75;
  assert_int_equal(run(norm, 0), CAPL_EUNSUPPORTED);
  assert_non_null(strstr(capl_error_last()->message, "norms have engines since sm_80"));
  assert_int_equal(run("batch_norm bf16 x=2,4,3,3 y=2,4,3,3", 0), CAPL_EUNSUPPORTED);
}

static void no_plan_is_made_inside_a_captured_step(void **state)
{
  (void)state;
  cu.capturing = true;
  assert_int_equal(run(conv, 0), CAPL_ESTATE);
  assert_non_null(strstr(capl_error_last()->message, "no plan for conv2d f32 x=1,2,4,4"));
  assert_non_null(strstr(capl_error_last()->hint, "run the step once"));
  assert_int_equal(played.plans_made, 0);
  cu.capturing = false;
  assert_ok(run(conv, 0));
  cu.capturing = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 1);
}

/* Images of another width. */
static void plans_are_kept_up_to_a_limit_and_the_oldest_go(void **state)
{
  (void)state;
  for (int width = 1; width <= 8; width++) run_width(width);
  run_width(1); /* used again, so 2 to 5 and the median are the older ones */
  run_width(9);
  assert_int_equal(played.plans_live, 4);
  assert_int_equal(played.waited, 1);
  int read = played.loaded;
  run_width(1);
  run_width(7);
  assert_int_equal(played.loaded, read);
  run_width(2); /* from the disk */
  assert_int_equal(played.loaded, read + 1);
  for (int width = 1; width <= 40; width++) {
    run_width(width);
    assert_true(played.plans_live <= 8);
  }
}

static void plans_of_recorded_steps_stay_while_there_is_one(void **state)
{
  (void)state;
  run_width(1);
  cu.capturing = true;
  run_width(1);
  cu.capturing = false;
  cu.graphs = 1;
  for (int width = 2; width <= 40; width++) run_width(width);
  int read = played.loaded;
  cu.capturing = true;
  run_width(1); /* still there */
  cu.capturing = false;
  cu.graphs = 0, cu.graph_age++;
  for (int width = 2; width <= 40; width++) run_width(width);
  read = played.loaded;
  run_width(1);
  assert_int_equal(played.loaded, read + 1);
}

static void a_kept_plan_that_cudnn_does_not_read_is_made_again(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  played.text_refused = true;
  lines = 0;
  assert_ok(run(conv, 0));
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "is of no use and is made again: this plan is not for me"));
  restart();
  played.text_refused = false;
  assert_ok(run(conv, 0));
  assert_int_equal(played.loaded, 1); /* the one that was made again */
}

static void other_versions_of_cudnn_have_plans_of_their_own(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  played.version += 100;
  assert_ok(run(conv, 0));
  assert_int_equal(played.loaded, 0);
}

/* By dnn_try, as ops run records. */
static capl_status try(const char *text, bool *done)
{
  dnn_pointers p;
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  return dnn_try(device, prepare(text, 0, &p), &p, done);
}

static void a_cudnn_that_is_too_old_is_an_error_and_not_a_lack_of_engines(void **state)
{
  (void)state;
  bool done;
  played.version = 90001;
  const char *want = "device cuda is not available: cuDNN 9.0.1 is installed, capl needs 9.1.0 or a later 9.x";
  assert_fails(dnn_check(), CAPL_EUNSUPPORTED, want);
  assert_fails(try(conv, &done), CAPL_EUNSUPPORTED, want);
  assert_false(done);
  played.version = 100000;
  assert_int_equal(try(conv, &done), CAPL_EUNSUPPORTED);
  played.version = 90100;
  assert_ok(try(conv, &done));
  assert_true(done);
}

static void no_engine_is_an_answer(void **state)
{
  (void)state;
  bool done = true;
  played.candidates = 0;
  assert_ok(try(conv, &done));
  assert_false(done);
}

static void a_plan_from_disk_that_does_not_run_is_made_again(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  played.failing = 1;
  played.broken[1] = true; /* so that the new plan is another one */
  lines = 0;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "is of no use and is made again: cuDNN: running a plan"));
  assert_int_equal(played.plans_live, 1);
  restart();
  assert_ok(run(conv, 0)); /* the disk has the new one */
  need_written(DNN_Y, 0, 2);
  assert_int_equal(played.loaded, 2);
}

static void it_is_made_again_once(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  played.failing = 2;
  assert_int_equal(run(conv, 0), CAPL_EDEVICE);
  assert_int_equal(played.plans_made, 2);
  assert_ok(run(conv, 0));
  played.failing = 1;
  assert_int_equal(run(conv, 0), CAPL_EDEVICE); /* it has run before: not the plan's fault */
  assert_int_equal(played.plans_made, 2);
}

static void a_workspace_may_take_an_eighth_of_what_is_free(void **state)
{
  (void)state;
  cu.autotune = true;
  played.ms[1] = 1, played.ms[2] = 9;
  played.workspace[1] = (int64_t)200 << 20;
  played.free = (size_t)1 << 30;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  restart();
  played.free = (size_t)4 << 30;
  assert_ok(run("conv2d f32 x=1,2,4,4 y=1,3,4,4 kernel=3,3 padding=1,1", 0)); /* a new one */
  need_written(DNN_Y, 0, 1);
  restart();
  played.free = (size_t)1 << 30; /* the plan on disk wants more than there is now */
  assert_ok(run("conv2d f32 x=1,2,4,4 y=1,3,4,4 kernel=3,3 padding=1,1", 0));
  need_written(DNN_Y, 0, 2);
  restart();
  played.free = (size_t)4 << 30; /* and is not replaced by the slower one */
  assert_ok(run("conv2d f32 x=1,2,4,4 y=1,3,4,4 kernel=3,3 padding=1,1", 0));
  need_written(DNN_Y, 0, 1);
}

static void what_is_free_does_not_decide_where_the_choice_must_be_the_same(void **state)
{
  (void)state;
  char text[128];
  snprintf(text, sizeof text, "%s deterministic", conv);
  played.workspace[1] = (int64_t)200 << 20;
  played.free = (size_t)1 << 30;
  assert_ok(run(text, 0));
  need_written(DNN_Y, 0, 1);
}

static void a_failed_execution_is_an_error_that_leaves_nothing_behind(void **state)
{
  (void)state;
  capl_device *device;
  capl_memory_stats before, after;
  assert_ok(capl_device_open("ref", &device));
  assert_ok(run(norm, 4));
  capl_memory_stats_get(device, &before);
  played.failing = 1;
  assert_int_equal(run(norm, 4), CAPL_EDEVICE);
  capl_memory_stats_get(device, &after);
  assert_int_equal(after.live, before.live);
}

static void products_count_by_the_engine_that_ran(void **state)
{
  (void)state;
  uint64_t tf32 = capl_counter_get("tf32_kernels"), fp32 = capl_counter_get("fp32_kernels");
  char text[128];
  snprintf(text, sizeof text, "%s tf32", conv);
  assert_ok(run(text, 0)); /* engine 1: no tensor cores */
  played.broken[1] = true;
  snprintf(text, sizeof text, "%s tf32 deterministic", conv);
  assert_ok(run(text, 0)); /* engine 2 has them */
  assert_int_equal(capl_counter_get("tf32_kernels") - tf32, 1);
  assert_int_equal(capl_counter_get("fp32_kernels") - fp32, 1);
}

static void the_gpu_is_described_where_the_environment_asks_for_it(void **state)
{
  (void)state;
  char path[128], text[64] = "";
  snprintf(path, sizeof path, "/tmp/capl-dnn-device-%d.json", (int)getpid());
  setenv("CAPL_DNN_DEVICE", path, 1);
  assert_ok(run(conv, 0));
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(text, sizeof text, f));
  fclose(f);
  unlink(path);
  assert_string_equal(text, "{\"deviceVer\":900}\n");
  restart();
  setenv("CAPL_DNN_DEVICE", "/tmp/no/such/folder/device.json", 1);
  lines = 0;
  assert_ok(run(conv, 0)); /* a record runs all the same */
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "/tmp/no/such/folder/device.json cannot be written"));
  unsetenv("CAPL_DNN_DEVICE");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(the_first_engine_that_takes_a_record_runs_it),
    TEST(a_large_workspace_is_taken_only_where_there_is_no_other),
    TEST(the_fastest_engine_is_kept_and_found_again_on_disk),
    TEST(timing_ends_when_it_took_too_long_and_goes_on_in_the_next_run),
    TEST(deterministic_records_take_the_order_of_the_heuristics),
    TEST(tensors_at_any_address_are_read_and_written_in_place),
    TEST(running_statistics_are_two_tensors_and_one_memory),
    TEST(timing_does_not_update_running_statistics_twice),
    TEST(a_record_without_engine_is_refused_and_remembered),
    TEST(no_plan_is_made_inside_a_captured_step),
    TEST(plans_are_kept_up_to_a_limit_and_the_oldest_go),
    TEST(plans_of_recorded_steps_stay_while_there_is_one),
    TEST(a_kept_plan_that_cudnn_does_not_read_is_made_again),
    TEST(other_versions_of_cudnn_have_plans_of_their_own),
    TEST(a_cudnn_that_is_too_old_is_an_error_and_not_a_lack_of_engines),
    TEST(no_engine_is_an_answer),
    TEST(a_plan_from_disk_that_does_not_run_is_made_again),
    TEST(it_is_made_again_once),
    TEST(a_workspace_may_take_an_eighth_of_what_is_free),
    TEST(what_is_free_does_not_decide_where_the_choice_must_be_the_same),
    TEST(a_failed_execution_is_an_error_that_leaves_nothing_behind),
    TEST(products_count_by_the_engine_that_ran),
    TEST(the_gpu_is_described_where_the_environment_asks_for_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
