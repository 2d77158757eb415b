/* tune.c -- tests of dnn_tune.c, and of the choice between cuDNN and own kernels: what is timed, how long, what is
** kept. SPDX-License-Identifier: Apache-2.0
*/
#include "played.h"

#include <unistd.h>

/* ---- candidates ---------------------------------------------------------------------------------------------- */

/* As the heuristics of a real convolution: many settings of engine 41, and other engines behind them. */
static void offer_many_of_one_engine(void)
{
  played.candidates = CANDIDATES_MAX;
  for (int i = 1; i <= CANDIDATES_MAX; i++) {
    played.ms[i] = 10;
    played.number[i] = i <= 34 ? 41 : 100 + i;
  }
  cu.autotune = true;
}

static void every_engine_is_timed_before_another_setting_of_one(void **state)
{
  (void)state;
  offer_many_of_one_engine();
  played.ms[38] = 2;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 38);
  int timed = 0;
  for (int i = 1; i <= CANDIDATES_MAX; i++) timed += played.runs[i] > 0;
  assert_int_equal(timed, 32);
  for (int i = 35; i <= CANDIDATES_MAX; i++) assert_true(played.runs[i] > 0);
  assert_true(played.runs[26] > 0 && !played.runs[27]); /* 6 others, then 41 in the order of the heuristics */
}

static void what_takes_over_twice_the_best_is_not_timed_to_the_end(void **state)
{
  (void)state;
  cu.autotune = true;
  played.candidates = 4;
  played.ms[1] = 5, played.ms[2] = 10.5f, played.ms[3] = 9.5f, played.ms[4] = 100;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 1);
  assert_int_equal(played.runs[1], 5 + 1); /* one that loads, one, three; and the record itself */
  assert_int_equal(played.runs[2], 2);
  assert_int_equal(played.runs[3], 5);
  assert_int_equal(played.runs[4], 2);
}

static void few_engines_that_must_be_compiled_are_timed(void **state)
{
  (void)state;
  cu.autotune = true;
  played.candidates = CANDIDATES_MAX;
  for (int i = 1; i <= CANDIDATES_MAX; i++) played.compiled[i] = true, played.ms[i] = (float)(100 - i);
  assert_ok(run(conv, 0));
  assert_int_equal(played.plans_made, 2);
  need_written(DNN_Y, 0, 2);
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

static char listed[16][512];

static int read_list(const char *path)
{
  int n = 0;
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (n < 16 && fgets(listed[n], sizeof listed[n], f)) n++;
  fclose(f);
  unlink(path);
  return n;
}

static void need_row(int i, const char *rest)
{
  char want[512];
  snprintf(want, sizeof want, "{\"record\": \"%s\", %s}\n", conv, rest);
  assert_string_equal(listed[i], want);
}

static void all_candidates_of_a_record_are_listed_on_request(void **state)
{
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/capl-engines-%d.jsonl", (int)getpid());
  cu.autotune = true;
  assert_ok(run(conv, 0)); /* from disk next time, were it not for the list */
  restart();
  setenv("CAPL_DNN_ENGINES", path, 1);
  played.candidates = 5;
  for (int i = 1; i <= 5; i++) played.ms[i] = (float)i * 8;
  played.compiled[1] = played.compiled[3] = played.compiled[5] = true;
  played.free = (size_t)256 << 20;
  played.workspace[1] = (int64_t)65 << 20; /* more than it may take */
  played.broken[4] = true;
  played.number[5] = 2;
  assert_ok(run(conv, 0));
  unsetenv("CAPL_DNN_ENGINES");
  need_written(DNN_Y, 0, 2);
  assert_int_equal(played.runs[5], 5);
  assert_int_equal(read_list(path), 5);
  need_row(0, "\"engine\": 1, \"candidate\": 0, \"workspace\": 68157440, \"ms\": 8.000000, \"chosen\": false, "
              "\"compiled\": true, \"notes\": []");
  need_row(1, "\"engine\": 2, \"candidate\": 1, \"workspace\": 0, \"ms\": 16.000000, \"chosen\": true, "
              "\"compiled\": false, \"notes\": [\"TENSOR_CORE\"]");
  need_row(3, "\"engine\": 4, \"candidate\": 3, \"workspace\": 0, \"ms\": null, \"error\": \"candidate 4\", "
              "\"chosen\": false, \"compiled\": false, \"notes\": []");
}

/* With autotune off, with a cold cache, with a warm one. */
static void what_runs_a_record_is_listed_with_how_it_was_found(void **state)
{
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/capl-plans-%d.jsonl", (int)getpid());
  setenv("CAPL_DNN_PLANS", path, 1);
  played.candidates = 3;
  played.ms[1] = 9, played.ms[2] = 7, played.ms[3] = 8;
  played.workspace[2] = 4096;
  assert_ok(run(conv, 0));
  cu.autotune = true;
  restart();
  assert_ok(run(conv, 0));
  assert_ok(run(conv, 0));
  restart();
  assert_ok(run(conv, 0));
  unsetenv("CAPL_DNN_PLANS");
  assert_int_equal(read_list(path), 3);
  need_row(0, "\"engine\": 1, \"workspace\": 0, \"how\": \"first\"");
  need_row(1, "\"engine\": 2, \"workspace\": 4096, \"how\": \"tuned\"");
  need_row(2, "\"engine\": 2, \"workspace\": 4096, \"how\": \"loaded\"");
}

/* ---- own kernels ----------------------------------------------------------------------------------------------- */

static int own_runs;

static capl_status run_native(const void *data)
{
  (void)data;
  own_runs++;
  played.now += played.ms[OWN];
  return CAPL_OK;
}

static bool faster(const char *text)
{
  dnn_pointers p;
  capl_device *device;
  bool yes;
  assert_ok(capl_device_open("ref", &device));
  assert_ok(dnn_faster(device, prepare(text, 0, &p), &p, &(dnn_work){run_native, NULL}, &yes));
  return yes;
}

static void own_kernels_run_a_norm_unless_cudnn_was_timed_to_be_faster(void **state)
{
  (void)state;
  own_runs = 0;
  played.ms[OWN] = 4, played.ms[1] = 3, played.ms[2] = 5;
  assert_false(faster(norm)); /* no autotune: nothing is timed */
  cu.autotune = true;
  assert_false(faster("batch_norm f32 x=2,4,3,3 y=2,4,3,3 running deterministic"));
  cu.capturing = true;
  assert_false(faster(norm)); /* nor in a recorded step, and that is not remembered */
  cu.capturing = false;
  assert_int_equal(own_runs + played.executed, 0);
  assert_true(faster(norm));
  assert_false(faster("batch_norm_grad f32 x=2,4,3,3 y=2,4,3,3") && played.ms[OWN] < 3);
  played.ms[OWN] = 2;
  assert_false(faster("batch_norm f32 x=2,4,3,2 y=2,4,3,2 running"));
}

static void own_kernels_are_listed_where_they_run(void **state)
{
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/capl-plans-%d.jsonl", (int)getpid());
  setenv("CAPL_DNN_PLANS", path, 1);
  cu.autotune = true;
  played.ms[OWN] = 1, played.ms[1] = 3, played.ms[2] = 5;
  assert_false(faster(norm));
  assert_false(faster(norm));
  restart();
  assert_false(faster(norm)); /* remembered */
  unsetenv("CAPL_DNN_PLANS");
  assert_int_equal(read_list(path), 3);
  assert_non_null(strstr(listed[0], "\"how\": \"tuned\"")); /* cuDNN's best, for the trial */
  for (int i = 1; i < 3; i++)
    assert_non_null(strstr(listed[i], "\"engine\": \"own\", \"workspace\": 0, \"how\": \"faster\""));
}

static void timing_a_norm_leaves_its_running_statistics_alone(void **state)
{
  (void)state;
  cu.autotune = true;
  faster(norm);
  assert_true(played.executed > 0);
  for (int i = 0; i < ROOM; i++)
    if (memory[DNN_RUNNING_MEAN][i] != 100 + DNN_RUNNING_MEAN || memory[DNN_RUNNING_VAR][i] != 100 + DNN_RUNNING_VAR)
      fail_msg("byte %d was written", i);
}

static void the_choice_is_remembered_in_memory_and_on_disk(void **state)
{
  (void)state;
  cu.autotune = true;
  played.ms[OWN] = 4, played.ms[1] = 3, played.ms[2] = 5;
  assert_true(faster(norm));
  own_runs = played.executed = 0;
  assert_true(faster(norm));
  cu.capturing = true;
  assert_true(faster(norm));
  cu.capturing = false;
  restart();
  assert_true(faster(norm));
  assert_int_equal(own_runs + played.executed, 0);
  assert_ok(run(norm, 0));
  need_written(DNN_Y, 0, 1);
}

/* Each is compiled for a second or two: images of 16 widths must not take minutes. */
static void few_norms_of_one_process_are_timed(void **state)
{
  (void)state;
  cu.autotune = true;
  own_runs = 0;
  played.ms[OWN] = 1, played.ms[1] = 3, played.ms[2] = 5;
  for (int width = 1; width <= 20; width++) {
    char text[96];
    snprintf(text, sizeof text, "batch_norm f32 x=2,4,1,%d y=2,4,1,%d running", width, width);
    assert_false(faster(text));
  }
  assert_int_equal(own_runs, 6 * 5);
  for (int width = 1; width <= 8; width++) { /* engines of convolutions are ready made */
    char text[96];
    snprintf(text, sizeof text, "conv2d f32 x=1,1,4,%d y=1,3,4,%d kernel=3,3 padding=1,1", width, width);
    assert_false(faster(text));
  }
  assert_int_equal(own_runs, 6 * 5 + 8 * 5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(every_engine_is_timed_before_another_setting_of_one),
    TEST(what_takes_over_twice_the_best_is_not_timed_to_the_end),
    TEST(few_engines_that_must_be_compiled_are_timed),
    TEST(all_candidates_of_a_record_are_listed_on_request),
    TEST(what_runs_a_record_is_listed_with_how_it_was_found),
    TEST(own_kernels_are_listed_where_they_run),
    TEST(own_kernels_run_a_norm_unless_cudnn_was_timed_to_be_faster),
    TEST(timing_a_norm_leaves_its_running_statistics_alone),
    TEST(the_choice_is_remembered_in_memory_and_on_disk),
    TEST(few_norms_of_one_process_are_timed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
