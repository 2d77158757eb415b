/* report_trials.c -- trials of a sweep: the best is blue, failed ones are red; what makes no picture.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "unit.h"

static const report_drawing *drawing;
static const double numbers[] = {1, 10, 100}, places[] = {0, 1, 0};
static const char *const labels[] = {"relu", "a name that is much longer than its place on the axis"};
static const report_setting settings[] = {{.name = "lr", .log = true, .at = numbers},
                                          {.name = "act", .at = places, .labels = labels, .n_labels = 2}};

static int open_drawing(void **state)
{
  (void)state;
  return report_open(&drawing) == CAPL_OK ? 0 : -1;
}

static report_picture draw(const report_trials *trials)
{
  report_picture picture;
  assert_ok(drawing->trials(trials, &picture));
  return picture;
}

/* Pixels of a colour below the title and the legend. */
static int count(const report_picture *p, uint32_t rgb)
{
  int n = 0;
  for (int i = p->width * 60; i < p->width * p->height; i++) {
    const uint8_t *at = p->pixels + 3 * i;
    n += ((uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2]) == rgb;
  }
  return n;
}

/* Height of the highest pixel of the best trial's blue in the plots. */
static int highest_blue(const report_picture *p)
{
  for (int y = 60; y < p->height; y++)
    for (int x = 0; x < p->width; x++)
      if (memcmp(p->pixels + 3 * (y * p->width + x), "\x00\x72\xb2", 3) == 0) return y;
  return p->height;
}

static void the_best_trial_is_blue_whichever_way_is_better(void **state)
{
  (void)state;
  const double values[] = {0.2, 0.9, 0.5};
  report_trials t = {.metric = "val_exact", .value = values, .n_trials = 3, .settings = settings, .n_settings = 2};
  report_picture more = draw(&t);
  t.less = true;
  report_picture less = draw(&t);
  assert_true(count(&more, 0x0072b2) > 50 && count(&less, 0x0072b2) > 50);
  assert_true(highest_blue(&more) + 80 < highest_blue(&less));
  report_picture_fini(&more);
  report_picture_fini(&less);
}

static void a_trial_that_was_chosen_is_the_best_one_whatever_its_value(void **state)
{
  (void)state;
  static const double worst_last[] = {0.9, 0.8, 0.1};
  report_trials t = {.title = "t", .metric = "exact", .n_trials = 3, .value = worst_last, .n_settings = 2, .settings = settings};
  report_picture by_value = draw(&t);
  t.chosen = 3;
  report_picture chosen = draw(&t);
  assert_true(highest_blue(&by_value) + 80 < highest_blue(&chosen));
  report_picture_fini(&by_value);
  report_picture_fini(&chosen);
}

static void without_a_figure_there_is_no_best_one(void **state)
{
  (void)state;
  const double values[] = {NAN, INFINITY, NAN};
  report_picture p = draw(&(report_trials){.metric = "m", .value = values, .n_trials = 3, .settings = settings, .n_settings = 2});
  assert_int_equal(count(&p, 0x0072b2), 0);
  report_picture_fini(&p);
}

static void settings_without_a_place_are_refused(void **state)
{
  (void)state;
  const double values[] = {1, 2, 3}, zero[] = {1, 0, 2};
  report_setting bad[] = {{.name = "lr", .log = true, .at = zero}};
  report_trials t = {.metric = "m", .value = values, .n_trials = 3, .settings = bad, .n_settings = 1};
  report_picture p;
  assert_fails(drawing->trials(&t, &p), CAPL_EVALUE, "setting lr of trial 2 is 0, which has no place on its axis");
  bad[0] = (report_setting){.name = "act", .at = numbers, .labels = labels, .n_labels = 2};
  assert_fails(drawing->trials(&t, &p), CAPL_EVALUE, "setting act of trial 2 has no label");
  t.n_trials = 0;
  assert_fails(drawing->trials(&t, &p), CAPL_EVALUE, "1 to 10000 trials are drawn, not 0");
}

static void one_trial_and_many_settings_are_drawn(void **state)
{
  (void)state;
  const double value = 0.5;
  report_setting many[REPORT_MAX_SETTINGS];
  for (int k = 0; k < REPORT_MAX_SETTINGS; k++) many[k] = settings[0];
  report_picture p = draw(&(report_trials){.metric = "m", .value = &value, .n_trials = 1, .settings = many, .n_settings = REPORT_MAX_SETTINGS});
  assert_true(p.height > 1500);
  report_picture_fini(&p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_best_trial_is_blue_whichever_way_is_better),
    cmocka_unit_test(a_trial_that_was_chosen_is_the_best_one_whatever_its_value),
    cmocka_unit_test(without_a_figure_there_is_no_best_one),
    cmocka_unit_test(settings_without_a_place_are_refused),
    cmocka_unit_test(one_trial_and_many_settings_are_drawn),
  };
  return cmocka_run_group_tests(tests, open_drawing, NULL);
}
