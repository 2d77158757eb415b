/* data_schedule.c -- tests of stages: values at every position, metrics, the same bytes for any threads and on
** resuming. SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "capl/synth.h"
#include "capl/schedule.h"
#include "data_files.h"

enum { BATCH = 4, COUNT = 38, BATCHES = 10 }; /* the last batch of an epoch has 2 */

static capl_source *open_source(bool fixed)
{
  capl_captcha *gen;
  capl_source *source;
  assert_ok(capl_captcha_new("lepture", &(capl_captcha_options){.length = 2, .length_max = 6}, &gen));
  assert_ok(capl_source_captcha_new(gen, 5, 1, COUNT, fixed, &source));
  capl_captcha_unref(gen);
  return source;
}

typedef struct {
  int workers, prefetch;
} how;

static capl_loader *open_loader(const capl_stage *stages, int n, how h)
{
  capl_source *source = open_source(false);
  capl_loader *loader;
  assert_ok(capl_loader_new(source,
                            &(capl_loader_options){.batch = BATCH, .workers = h.workers, .prefetch = h.prefetch,
                                                   .type = CAPL_PIXEL_U8, .shuffle = true, .seed = 9, .stages = stages,
                                                   .n_stages = n},
                            &loader));
  capl_source_unref(source);
  return loader;
}

static capl_stage_values at(const capl_loader *loader, uint64_t step)
{
  capl_stage_values v;
  assert_ok(capl_loader_stage_at(loader, step, &v));
  return v;
}

/* From nothing to rotation and short texts; two epochs of a cosine to more of all; then a metric. */
static const capl_stage plan[] = {
  {.from = CAPL_FROM_EPOCH, .at = 1, .augments = true, .augment = {.noise = {4, 4}}, .eases = true,
   .difficulty = {2, 2, 0.2f, 0.1f, 0}},
  {.from = CAPL_FROM_EPOCH, .at = 2, .ramp = 2, .ramp_in_epochs = true, .shape = CAPL_RAMP_COSINE, .augments = true,
   .augment = {.rotate = {-20, 30}, .scale = {0.8f, 1.2f}, .noise = {0, 16}, .invert = 0.5f}, .eases = true,
   .difficulty = {2, 5, 0.6f, 0.5f, 1}},
  {.from = CAPL_FROM_STEP, .at = 45, .ramp = 10, .eases = true, .difficulty = {0, 0, 1, 1, 1}},
  {.from = CAPL_FROM_METRIC, .ramp = 8, .augments = true, .augment = {.shear = {-8, 8}}},
};
enum { STAGES = sizeof plan / sizeof plan[0] };

/* ---- values ---------------------------------------------------------------------------------- */

static void a_stage_begins_at_its_epoch_or_step(void **state)
{
  (void)state;
  capl_loader *l = open_loader(plan, STAGES, (how){0, 0});
  for (uint64_t step = 0; step < 100; step++) {
    int expected = step < 10 ? 0 : step < 45 ? 1 : 2; /* the metric's never comes */
    assert_int_equal(at(l, step).stage, expected);
  }
  assert_int_equal(capl_loader_stages(l), STAGES);
  capl_loader_free(l);
}

/* a to b as the formula says, in f64. */
static double cosine(double a, double b, double share)
{
  return a + (b - a) * (1 - cos(3.14159265358979323846 * share)) / 2;
}

static void a_cosine_ramp_moves_every_range_as_the_formula_says(void **state)
{
  (void)state;
  capl_loader *l = open_loader(plan, STAGES, (how){0, 0});
  for (uint64_t step = 10; step <= 30; step++) {
    capl_stage_values v = at(l, step);
    double share = (double)(step - 10) / 20;
    assert_float_equal(v.share, share, 1e-12);
    assert_float_equal(v.augment.rotate.lo, cosine(0, -20, share), 1e-5);
    assert_float_equal(v.augment.rotate.hi, cosine(0, 30, share), 1e-5);
    if (share > 0) { /* off until then */
      assert_float_equal(v.augment.scale.lo, cosine(1, 0.8, share), 1e-6);
      assert_float_equal(v.augment.scale.hi, cosine(1, 1.2, share), 1e-6);
    }
    assert_float_equal(v.augment.noise.lo, cosine(4, 0, share), 1e-5);
    assert_float_equal(v.augment.noise.hi, cosine(4, 16, share), 1e-5);
    assert_float_equal(v.augment.invert, cosine(0, 0.5, share), 1e-6);
    assert_float_equal(v.difficulty.charset_share, cosine(0.2, 0.6, share), 1e-6);
    assert_float_equal(v.difficulty.noise, cosine(0.1, 0.5, share), 1e-6);
    assert_float_equal(v.difficulty.warp, cosine(0, 1, share), 1e-6);
    assert_int_equal(v.difficulty.length_lo, 2);
    assert_int_equal(v.difficulty.length_hi, (int)floor(cosine(2, 5, share) + 0.5 + 1e-9));
  }
  capl_loader_free(l);
}

static void a_linear_ramp_takes_what_is_switched_off_to_where_it_changes_nothing(void **state)
{
  (void)state;
  capl_loader *l = open_loader(plan, STAGES, (how){0, 0});
  for (uint64_t step = 45; step < 60; step++) {
    capl_stage_values v = at(l, step);
    double share = step < 55 ? (double)(step - 45) / 10 : 1;
    assert_int_equal(v.augments, share < 1);
    assert_float_equal(v.difficulty.charset_share, 0.6 + 0.4 * share, 1e-6);
    assert_int_equal(v.difficulty.length_hi, (int)floor(5 + share + 0.5));
    if (share == 1) continue;
    assert_float_equal(v.augment.rotate.hi, 30 * (1 - share), 1e-5);
    assert_float_equal(v.augment.scale.lo, 0.8 + 0.2 * share, 1e-6);
    assert_float_equal(v.augment.noise.hi, 16 * (1 - share), 1e-5);
  }
  capl_loader_free(l);
}

static void ranges_keep_their_ends_exactly(void **state)
{
  (void)state;
  capl_loader *l = open_loader(plan, STAGES, (how){0, 0});
  capl_knob k;
  for (int i = 0; capl_augment_knob(i, &k); i++) {
    size_t bytes = k.kind == CAPL_KNOB_RANGE ? sizeof(capl_range) : sizeof(float);
    const char *first = (const char *)&plan[0].augment + k.offset, *second = (const char *)&plan[1].augment + k.offset;
    capl_stage_values begin = at(l, 10), end = at(l, 30);
    assert_memory_equal((const char *)&begin.augment + k.offset, first, bytes);
    assert_memory_equal((const char *)&end.augment + k.offset, second, bytes);
  }
  capl_loader_free(l);
}

static void every_number_of_an_augmentation_is_moved(void **state)
{
  (void)state;
  /* All that is not a knob of its own belongs to one: skip and alpha; the rest is no number. */
  capl_augment_options from = {0}, to = {.mixup = {0.4f, 0.2f}, .cutmix = {1, 0.4f}}, half;
  int n = 0;
  capl_knob k;
  for (; capl_augment_knob(n, &k); n++) {
    char *at = (char *)&to + k.offset;
    if (k.kind == CAPL_KNOB_RANGE) *(capl_range *)at = (capl_range){.lo = 0.5f, .hi = 0.75f};
    else *(float *)at = 0.5f;
    if (k.op >= 0) to.skip[k.op] = 0.25f;
  }
  assert_int_equal(n, CAPL_AUGMENT_OPS - 1 + 3); /* crop_aspect, mixup and cutmix have no op of their own */
  capl_augment_between(&from, &to, 0.5, &half);
  for (int i = 0; capl_augment_knob(i, &k); i++) {
    const char *at = (const char *)&half + k.offset;
    if (k.kind == CAPL_KNOB_RANGE) {
      assert_float_equal(((const capl_range *)(const void *)at)->lo, (k.idle.lo + 0.5) / 2, 1e-6);
      assert_float_equal(((const capl_range *)(const void *)at)->hi, (k.idle.hi + 0.75) / 2, 1e-6);
    } else {
      assert_float_equal(*(const float *)(const void *)at, 0.25, 1e-6);
    }
    if (k.op >= 0) assert_float_equal(half.skip[k.op], 0.25, 0);
  }
  assert_float_equal(half.mixup.alpha, 0.4, 1e-6);
  assert_ok(capl_augment_check(&half));
  to.skip[CAPL_AUGMENT_ROTATE] = 0.75f;
  capl_augment_between(&half, &to, 0.5, &half);
  assert_float_equal(half.skip[CAPL_AUGMENT_ROTATE], 0.5, 1e-6);
  to.class_swaps = (capl_swaps){.declared = true, .count = 1, .pair = {{4, 5}}};
  capl_augment_between(&to, &(capl_augment_options){.noise = {1, 2}}, 0.5, &half);
  assert_float_equal(half.flip, 0.25, 1e-6); /* as long as there are flips, their swaps are */
  assert_int_equal(half.class_swaps.pair[0][1], 5);
  capl_augment_between(&to, NULL, 0.5, &half);
  assert_float_equal(half.mixup.alpha, 0.4, 1e-6);
  assert_float_equal(half.skip[CAPL_AUGMENT_ROTATE], 0.75, 0);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void take(capl_loader *l, int n)
{
  capl_batch b;
  for (int i = 0; i < n; i++) assert_ok(capl_loader_next(l, &b));
}

static void a_metric_takes_effect_at_a_fixed_distance(void **state)
{
  (void)state;
  for (int prefetch = 1; prefetch <= 3; prefetch++) {
    uint64_t step = 0;
    capl_loader *l = open_loader(plan, STAGES, (how){2, prefetch});
    assert_ok(capl_loader_epoch(l, 7));
    take(l, 3);
    assert_int_equal(capl_loader_step(l), 63);
    assert_ok(capl_loader_reached(l, 3, &step));
    assert_int_equal(step, 63 + prefetch + 2);
    assert_int_equal(at(l, step - 1).stage, 2);
    assert_int_equal(at(l, step).stage, 3);
    assert_float_equal(at(l, step + 4).augment.shear.hi, 4, 1e-6);
    assert_fails(capl_loader_reached(l, 3, &step), CAPL_EVALUE, prefetch == 1   ? "stage 4 has begun, after 66 steps"
                                                                : prefetch == 2 ? "stage 4 has begun, after 67 steps"
                                                                                : "stage 4 has begun, after 68 steps");
    capl_loader_free(l);
  }
}

static void near_the_end_of_an_epoch_a_metric_waits_for_the_next(void **state)
{
  (void)state;
  uint64_t step = 0;
  capl_loader *l = open_loader(plan, STAGES, (how){0, 2});
  assert_ok(capl_loader_epoch(l, 6));
  take(l, 9);
  assert_ok(capl_loader_reached(l, 3, &step));
  assert_int_equal(step, 6 * BATCHES);
  capl_loader_free(l);
}

static void a_ramp_starts_from_what_an_unfinished_one_had_come_to(void **state)
{
  (void)state;
  uint64_t step = 0;
  const capl_stage stages[] = {
    {.from = CAPL_FROM_EPOCH, .at = 1},
    {.from = CAPL_FROM_STEP, .at = 10, .ramp = 20, .augments = true, .augment = {.rotate = {-40, 40}}},
    {.from = CAPL_FROM_METRIC, .ramp = 10, .augments = true, .augment = {.rotate = {-10, 10}}},
  };
  capl_loader *l = open_loader(stages, 3, (how){0, 2});
  assert_ok(capl_loader_epoch(l, 2));
  take(l, 6);
  assert_ok(capl_loader_reached(l, 2, &step));
  assert_int_equal(step, 20);
  assert_float_equal(at(l, 20).augment.rotate.hi, 20, 1e-5);
  assert_float_equal(at(l, 25).augment.rotate.hi, 15, 1e-5);
  assert_float_equal(at(l, 30).augment.rotate.hi, 10, 1e-5);
  capl_loader_free(l);
}

static void an_overtaken_metric_is_told(void **state)
{
  (void)state;
  uint64_t step = 0;
  const capl_stage stages[] = {
    {.from = CAPL_FROM_EPOCH, .at = 1},
    {.from = CAPL_FROM_METRIC, .augments = true, .augment = {.rotate = {-5, 5}}},
    {.from = CAPL_FROM_EPOCH, .at = 2},
  };
  capl_loader *l = open_loader(stages, 3, (how){0, 2});
  assert_ok(capl_loader_epoch(l, 2));
  assert_fails(capl_loader_reached(l, 1, &step), CAPL_EVALUE,
               "stage 2 comes too late: stage 3 has begun, after 10 steps");
  assert_fails(capl_loader_reached(l, 2, &step), CAPL_EVALUE, "stage 3 waits for no metric");
  assert_fails(capl_loader_reached(l, 3, &step), CAPL_EVALUE, "there is no stage 4; the schedule has 3");
  capl_loader_free(l);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A run over epochs that hashes each batch; the metric is met before batch number `met` (-1 = never). */
typedef struct {
  capl_loader *loader;
  int met, n; /* n: batches read so far */
} run;

static run begin_run(how h, int met)
{
  run r = {open_loader(plan, STAGES, h), met, 0};
  assert_ok(capl_loader_epoch(r.loader, 1));
  return r;
}

static uint64_t hash_batch(const run *r, const capl_batch *b)
{
  const capl_source *s = capl_loader_source(r->loader);
  size_t pixels = (size_t)capl_source_width(s) * (size_t)capl_source_height(s), letters = (size_t)capl_source_length(s);
  return hash_bytes(1, b->images, (size_t)b->count * pixels) ^ hash_bytes(2, b->labels,
      (size_t)b->count * letters * sizeof *b->labels);
}

/* The next batch, of the next epoch where one ends. */
static uint64_t next_hash(run *r)
{
  capl_batch b;
  uint64_t step;
  if (r->n == r->met) assert_ok(capl_loader_reached(r->loader, 3, &step));
  assert_ok(capl_loader_next(r->loader, &b));
  if (b.count == 0) {
    assert_ok(capl_loader_epoch(r->loader, (uint64_t)(r->n / BATCHES + 1)));
    assert_ok(capl_loader_next(r->loader, &b));
  }
  r->n++;
  return hash_batch(r, &b);
}

static void run_plan(how h, int n, int met, uint64_t *hash)
{
  run r = begin_run(h, met);
  for (int i = 0; i < n; i++) hash[i] = next_hash(&r);
  capl_loader_free(r.loader);
}

enum { LENGTH = 6 * BATCHES }; /* batches of a run */

static void batches_are_the_same_for_any_number_of_threads(void **state)
{
  (void)state;
  static const int met[] = {1, 13, 47, 50, 58};
  for (size_t m = 0; m < sizeof met / sizeof met[0]; m++) {
    uint64_t expected[LENGTH], got[LENGTH];
    run_plan((how){0, 2}, LENGTH, met[m], expected);
    for (int workers = 1; workers <= 5; workers += 2) {
      run_plan((how){workers, 2}, LENGTH, met[m], got);
      assert_memory_equal(got, expected, sizeof got);
    }
  }
}

static void a_stage_changes_what_the_batches_hold(void **state)
{
  (void)state;
  uint64_t without[LENGTH], with[LENGTH];
  run_plan((how){0, 2}, LENGTH, 46, with);
  run_plan((how){0, 2}, LENGTH, -1, without);
  for (int i = 0; i < LENGTH; i++) assert_int_equal(with[i] == without[i], i <= 50); /* its ramp begins at 50 */
}

/* Stops after `stop` batches and goes on in a loader of its own, which learns of the metric if that comes later. */
static void check_resuming(int met, int stop, const uint64_t *expected)
{
  run first = begin_run((how){3, 2}, met), second = {open_loader(plan, STAGES, (how){1, 2}), met, stop};
  uint64_t since[STAGES];
  capl_loader_state where;
  for (int i = 0; i < stop; i++) assert_int_equal(next_hash(&first), expected[i]);
  capl_loader_since(first.loader, since);
  capl_loader_state_get(first.loader, &where);
  assert_ok(capl_loader_since_set(second.loader, since));
  assert_ok(capl_loader_state_set(second.loader, &where));
  for (int i = stop; i < LENGTH; i++) assert_int_equal(next_hash(&second), expected[i]);
  capl_loader_free(first.loader);
  capl_loader_free(second.loader);
}

static void a_run_resumed_anywhere_gives_the_same_batches(void **state)
{
  (void)state;
  uint32_t dice = 12345;
  for (int trial = 0; trial < 12; trial++) {
    uint64_t expected[LENGTH];
    dice = dice * 1664525 + 1013904223;
    int met = (int)(dice >> 8) % LENGTH, stop = 1 + (int)(dice >> 20) % (LENGTH - 1);
    run_plan((how){0, 2}, LENGTH, met, expected);
    check_resuming(met, stop, expected);
    check_resuming(met, met > 0 ? met : 1, expected); /* just before it is met, and just after */
    check_resuming(met, met + 1 < LENGTH ? met + 1 : met, expected);
  }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(const capl_stage *stages, int n, const char *text)
{
  capl_source *source = open_source(false);
  capl_loader *loader = NULL;
  assert_fails(capl_loader_new(source, &(capl_loader_options){.batch = BATCH, .stages = stages, .n_stages = n},
                               &loader), CAPL_EVALUE, text);
  capl_source_unref(source);
}

#define FIRST {.from = CAPL_FROM_EPOCH, .at = 1}
#define REFUSE(text, ...)                                        \
  do {                                                           \
    const capl_stage stages[] = {__VA_ARGS__};                   \
    refuse(stages, (int)(sizeof stages / sizeof stages[0]), text); \
  } while (0)

static void stages_that_contradict_each_other_are_told(void **state)
{
  (void)state;
  REFUSE("stage 1 starts with the run and has no ramp", {.from = CAPL_FROM_EPOCH, .at = 2});
  REFUSE("stage 1 starts with the run and has no ramp", {.from = CAPL_FROM_EPOCH, .at = 1, .ramp = 3});
  REFUSE("stage 3 starts after 20 steps, not later than stage 2, after 20", FIRST, {.from = CAPL_FROM_STEP, .at = 20},
         {.from = CAPL_FROM_EPOCH, .at = 3});
  REFUSE("the ramp of stage 2 takes 30 steps, but stage 3 starts 20 steps after it", FIRST,
         {.from = CAPL_FROM_EPOCH, .at = 2, .ramp = 3, .ramp_in_epochs = true}, {.from = CAPL_FROM_EPOCH, .at = 4});
  REFUSE("stage 2 starts at epoch 0, which does not exist", FIRST, {.from = CAPL_FROM_EPOCH, .at = 0});
  REFUSE("stage 2: its ramp takes -1 steps; it is a number from 0 on", FIRST,
         {.from = CAPL_FROM_STEP, .at = 5, .ramp = -1});
  REFUSE("augment: noise runs backwards: 9 to 2", FIRST,
         {.from = CAPL_FROM_STEP, .at = 5, .augments = true, .augment = {.noise = {9, 2}}});
}

static void a_difficulty_the_source_has_not_is_told(void **state)
{
  (void)state;
  REFUSE("stage 2: length is 1 to 3; the source draws 2 to 6 characters", FIRST,
         {.from = CAPL_FROM_STEP, .at = 5, .eases = true, .difficulty = {1, 3, 1, 1, 1}});
  REFUSE("stage 2: warp is 1.5; it is a share, 0 to 1", FIRST,
         {.from = CAPL_FROM_STEP, .at = 5, .eases = true, .difficulty = {2, 3, 1, 1, 1.5f}});
  const capl_stage easy = {.from = CAPL_FROM_EPOCH, .at = 1, .eases = true, .difficulty = {0, 0, 0.5f, 1, 1}};
  capl_source *source = open_source(true);
  capl_loader *loader = NULL;
  assert_fails(capl_loader_new(source, &(capl_loader_options){.batch = BATCH, .stages = &easy, .n_stages = 1}, &loader),
               CAPL_EVALUE, "stage 1: the source is fixed, the same images in every epoch, and difficulty would "
                            "change them");
  capl_source_unref(source);
}

static void epochs_of_an_endless_source_are_told(void **state)
{
  (void)state;
  capl_captcha *gen;
  capl_source *source;
  capl_loader *loader = NULL;
  const capl_stage stages[] = {FIRST, {.from = CAPL_FROM_EPOCH, .at = 2}};
  assert_ok(capl_captcha_new("lepture", NULL, &gen));
  assert_ok(capl_source_captcha_new(gen, 5, 1, 0, false, &source));
  assert_fails(capl_loader_new(source, &(capl_loader_options){.batch = BATCH, .stages = stages, .n_stages = 2},
                               &loader), CAPL_EVALUE,
               "stage 2 counts epochs, but the source is endless: its first epoch does not end");
  capl_source_unref(source);
  capl_captcha_unref(gen);
}

static void a_state_of_other_stages_is_told(void **state)
{
  (void)state;
  capl_loader *l = open_loader(plan, STAGES, (how){1, 2});
  capl_batch b;
  uint64_t since[STAGES];
  capl_loader_since(l, since);
  since[1]++;
  assert_fails(capl_loader_since_set(l, since), CAPL_EVALUE,
               "stage 2 starts after 10 steps, in the state after 11: the state is of another schedule");
  assert_fails(capl_loader_next(l, &b), CAPL_ESTATE, "no epoch has been begun; call capl_loader_epoch first");
  capl_loader_free(l);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_stage_begins_at_its_epoch_or_step),
    cmocka_unit_test(a_cosine_ramp_moves_every_range_as_the_formula_says),
    cmocka_unit_test(a_linear_ramp_takes_what_is_switched_off_to_where_it_changes_nothing),
    cmocka_unit_test(ranges_keep_their_ends_exactly),
    cmocka_unit_test(every_number_of_an_augmentation_is_moved),
    cmocka_unit_test(a_metric_takes_effect_at_a_fixed_distance),
    cmocka_unit_test(near_the_end_of_an_epoch_a_metric_waits_for_the_next),
    cmocka_unit_test(a_ramp_starts_from_what_an_unfinished_one_had_come_to),
    cmocka_unit_test(an_overtaken_metric_is_told),
    cmocka_unit_test(batches_are_the_same_for_any_number_of_threads),
    cmocka_unit_test(a_stage_changes_what_the_batches_hold),
    cmocka_unit_test(a_run_resumed_anywhere_gives_the_same_batches),
    cmocka_unit_test(stages_that_contradict_each_other_are_told),
    cmocka_unit_test(a_difficulty_the_source_has_not_is_told),
    cmocka_unit_test(epochs_of_an_endless_source_are_told),
    cmocka_unit_test(a_state_of_other_stages_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
