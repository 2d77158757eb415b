/* data_series.c -- tests of time series: order, split, filling, scaling, windows, damage, the made-up one.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"

#include <math.h>

#include "capl/rng.h"
#include "capl/series.h"
#include "data/series/table.h"

static const char *write_csv(const char *text)
{
  write_bytes(in_folder("t.csv"), text, strlen(text));
  return in_folder("t.csv");
}

static capl_series *read_text(const char *text, const capl_series_options *options)
{
  capl_series *series;
  assert_ok(capl_series_read(write_csv(text), options, &series));
  return series;
}

static capl_source *part_of(capl_series *series, capl_series_part part)
{
  capl_source *source;
  assert_ok(capl_source_series_new(series, part, &source));
  return source;
}

/* Ten days: x counts 1..10, y is 10 times as much. */
static const char ten[] = "date,x,y\n2020-01-01,1,10\n2020-01-02,2,20\n2020-01-03,3,30\n2020-01-04,4,40\n2020-01-05,5,50\n"
                          "2020-01-06,6,60\n2020-01-07,7,70\n2020-01-08,8,80\n2020-01-09,9,90\n2020-01-10,10,100\n";
static const char *const only_y[] = {"y"}, *const only_pm25[] = {"pm25"}, *const only_date[] = {"date"};
#define TARGET(names) .targets = names, .n_targets = 1
static const capl_series_options plain = {TARGET(only_y), .window = 2, .train = 0.6, .val = 0.2, .unscaled = true};

/* ---- keys ------------------------------------------------------------------------------------ */

static void keys_are_dates_times_or_numbers(void **state)
{
  (void)state;
  static const char *const growing[] = {"0001-01-01", "1969-12-31", "1999/12/31", "2000-02-29", "2000-03-01",
                                        "2015-01-01", "2015-01-01T00:00:01", "2015-01-01 13", "2015-01-01 13:45",
                                        "2015-01-01 13:45:00.5", "2015-01-01 13:45:59Z", "2015-01-02", "2100-03-01"};
  static const char *const wrong[] = {"", "2015", "2015-02-29", "2015-13-01", "2015-00-10", "2015-01-32", "2015-1-1",
                                      "2015-01-01 24:00", "2015-01-01 13:60", "2015-01-01x", "2015-01/01", "01.02.2015",
                                      "nan", "inf", "1e999", "0x10", "1 2", "yesterday"};
  double before = -INFINITY, at;
  for (size_t i = 0; i < sizeof growing / sizeof growing[0]; i++) {
    assert_int_equal(series_key(growing[i], &at), KEY_DATE);
    assert_true(at > before);
    before = at;
  }
  double a, b;
  assert_true(series_key("2024-12-31", &a) == KEY_DATE && series_key("2015-01-01", &b) == KEY_DATE
              && (a - b) / 86400 == 3652);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    if (series_key(wrong[i], &at) != (i == 1 ? KEY_NUMBER : KEY_NONE)) fail_msg("'%s' is taken for a key", wrong[i]);
  assert_true(series_key("-1.5e3", &at) == KEY_NUMBER && at == -1500);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* All that a part gives, and the names. */
static uint64_t hash_part(capl_series *series, capl_series_part part)
{
  capl_source *source = part_of(series, part);
  float input[512], value;
  uint64_t h = 1;
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    assert_ok(capl_source_read(source, i % 3, i, &(capl_sample){.field = {input, &value}}));
    h = hash_bytes(h, input, capl_field_bytes(capl_source_field(source, 0)));
    h = hash_bytes(h, &value, sizeof value);
    h = hash_bytes(h, capl_source_name(source, i), strlen(capl_source_name(source, i)));
  }
  capl_source_unref(source);
  return h;
}

static double value[4000][CAPL_PM25_COLUMNS];
static char date[4000][11];

/* A CSV of the made-up series, rows in the order given. */
static const char *dust_in_order(const uint32_t *order, uint32_t n)
{
  static char text[900000];
  int at = snprintf(text, sizeof text, "date");
  for (int k = 0; k < CAPL_PM25_COLUMNS; k++)
    at += snprintf(text + at, sizeof text - (size_t)at, ",%s", capl_pm25_column(k));
  for (uint32_t i = 0; i < n; i++) {
    at += snprintf(text + at, sizeof text - (size_t)at, "\n%s", date[order[i]]);
    for (int k = 0; k < CAPL_PM25_COLUMNS; k++)
      at += snprintf(text + at, sizeof text - (size_t)at, ",%.10g", value[order[i]][k]);
  }
  return text;
}

static void shuffled_rows_give_the_very_same_batches(void **state)
{
  (void)state;
  enum { DAYS = 1500 };
  static const capl_series_options o = {TARGET(only_pm25), .window = 14};
  static uint32_t order[DAYS];
  uint64_t first[CAPL_SERIES_PARTS] = {0};
  capl_rng rng;
  assert_ok(capl_pm25_make(5, DAYS, value[0], date));
  capl_rng_init(&rng, 1, 2, 3, 4);
  for (uint32_t i = 0; i < DAYS; i++) order[i] = i;
  for (int turn = 0; turn < 4; turn++) {
    capl_series *series = read_text(dust_in_order(order, DAYS), &o);
    for (int part = 0; part < CAPL_SERIES_PARTS; part++) {
      uint64_t h = hash_part(series, (capl_series_part)part);
      if (turn == 0) first[part] = h;
      assert_int_equal(h, first[part]);
    }
    capl_series_unref(series);
    for (uint32_t i = DAYS - 1; i > 0; i--) { /* Fisher and Yates */
      uint32_t k = capl_rng_below(&rng, i + 1), t = order[i];
      order[i] = order[k], order[k] = t;
    }
  }
}

static void a_key_that_occurs_twice_is_named_with_both_lines(void **state)
{
  (void)state;
  capl_series *series;
  char message[700];
  const char *path = write_csv("date,x,y\n2020-01-03,1,1\n2020-01-01,2,2\n2020-01-02,3,3\n\n2020-01-01,4,4\n");
  snprintf(message, sizeof message, "%s: lines 3 and 6 have the same date, 2020-01-01", path);
  assert_fails(capl_series_read(path, &plain, &series), CAPL_EFORMAT, message);
  /* Another spelling of the same moment is the same key. */
  path = write_csv("date,x,y\n2020-01-03 00:00,1,1\n2020/01/03,2,2\n");
  snprintf(message, sizeof message, "%s: lines 2 and 3 have the same date, 2020/01/03", path);
  assert_fails(capl_series_read(path, &plain, &series), CAPL_EFORMAT, message);
}

/* ---- split and windows ----------------------------------------------------------------------- */

static void windows_hold_the_rows_before_their_target_and_never_leave_their_part(void **state)
{
  (void)state;
  capl_series_options o = plain;
  o.window = 1;
  capl_series *series = read_text(ten, &o);
  static const float inputs[] = {1, 2, 3, 4, 5, 7, 9}, values[] = {20, 30, 40, 50, 60, 80, 100};
  static const char *const names[] = {"2020-01-02", "2020-01-03", "2020-01-04", "2020-01-05", "2020-01-06",
                                      "2020-01-08", "2020-01-10"};
  for (int part = 0, k = 0; part < CAPL_SERIES_PARTS; part++) {
    capl_source *source = part_of(series, (capl_series_part)part);
    assert_int_equal(capl_source_count(source), part ? 1 : 5);
    for (uint32_t i = 0; i < capl_source_count(source); i++, k++) {
      float input, y;
      assert_ok(capl_source_read(source, 1, i, &(capl_sample){.field = {&input, &y}}));
      assert_true(input == inputs[k] && y == values[k]);
      assert_string_equal(capl_source_name(source, i), names[k]);
    }
    capl_source_unref(source);
  }
  capl_series_unref(series);
}

static void longer_windows_and_horizons_reach_further(void **state)
{
  (void)state;
  capl_series_options o = plain;
  o.window = 3, o.horizon = 2, o.train = 1, o.val = 0;
  capl_series *series = read_text(ten, &o);
  capl_source *source = part_of(series, CAPL_SERIES_TRAIN), *none;
  float input[3], y;
  assert_int_equal(capl_source_count(source), 6);
  assert_ok(capl_source_read(source, 0, 5, &(capl_sample){.field = {input, &y}}));
  assert_true(input[0] == 6 && input[1] == 7 && input[2] == 8 && y == 100);
  char message[700];
  snprintf(message, sizeof message, "%s: the test part has 0 rows and no window whose target is known",
           in_folder("t.csv"));
  assert_fails(capl_source_series_new(series, CAPL_SERIES_TEST, &none), CAPL_EVALUE, message);
  capl_source_unref(source);
  capl_series_unref(series);
}

static void features_are_those_asked_for_in_that_order(void **state)
{
  (void)state;
  static const char text[] = "a,date,note,b,y\n1,2020-01-01,hot,10,5\n2,2020-01-02,,20,6\n3,2020-01-03,\"cold, "
                             "wet\",30,7\n";
  static const char *const wanted[] = {"y", "b", "a"};
  capl_series_options o = {TARGET(only_y), .features = wanted, .n_features = 3, .window = 2, .train = 1,
                           .unscaled = true};
  capl_series *series = read_text(text, &o);
  double mean, deviation;
  for (int i = 0; i < 3; i++) assert_string_equal(capl_series_feature(series, i, &mean, &deviation), wanted[i]);
  assert_null(capl_series_feature(series, 3, &mean, &deviation));
  capl_source *source = part_of(series, CAPL_SERIES_TRAIN);
  float input[6], y;
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.field = {input, &y}}));
  static const float expected[] = {5, 10, 1, 6, 20, 2};
  assert_memory_equal(input, expected, sizeof expected);
  assert_true(y == 7);
  capl_source_unref(source);
  capl_series_unref(series);
}

/* A row without one of them is no target; the order is that of the options, and a target may be a feature. */
static void several_targets_stand_side_by_side(void **state)
{
  (void)state;
  static const char text[] = "date,a,y,b,x\n2020-01-01,1,10,5,7\n2020-01-02,2,20,6,9\n2020-01-03,3,,7,8\n"
                             "2020-01-04,4,40,8,6\n";
  static const char *const targets[] = {"x", "y"}, *const feature[] = {"x"};
  for (int chosen = 0; chosen < 2; chosen++) {
    capl_series_options o = {.targets = targets, .n_targets = 2, .window = 1, .train = 1, .unscaled = true};
    if (chosen) o.features = feature, o.n_features = 1;
    capl_series *series = read_text(text, &o);
    capl_source *source = part_of(series, CAPL_SERIES_TRAIN);
    float input[2], values[2];
    assert_int_equal(capl_source_count(source), 2);
    assert_ok(capl_source_read(source, 0, 1, &(capl_sample){.field = {input, values}}));
    assert_true(values[0] == 6 && values[1] == 40 && input[0] == (chosen ? 8 : 3));
    double mean, deviation;
    for (int i = 0; i < 2; i++) assert_string_equal(capl_series_target(series, i, &mean, &deviation), targets[i]);
    capl_source_unref(source);
    capl_series_unref(series);
  }
  capl_series *none;
  static const char *const twice[] = {"y", "y"};
  assert_fails(capl_series_read(in_folder("t.csv"), &(capl_series_options){.targets = twice, .n_targets = 2}, &none),
               CAPL_EVALUE, "y is a target twice");
}

/* ---- filling and scaling --------------------------------------------------------------------- */

static void missing_numbers_are_the_one_before_or_the_mean_of_train(void **state)
{
  (void)state;
  static const char text[] = "date,x,y\n1,,1\n2,4,2\n3,,\n4,8,4\n5,NA,5\n6,,6\n";
  static const float expected[] = {6, 4, 4, 8, 8};
  capl_series_options o = {TARGET(only_y), .window = 1, .train = 1, .unscaled = true};
  capl_series *series = read_text(text, &o);
  capl_series_facts f;
  capl_series_facts_get(series, &f);
  assert_int_equal(f.filled, 5);
  assert_int_equal(f.untold, 1);
  assert_int_equal(f.irregular, 0);
  assert_int_equal(f.holes, 0);
  capl_source *source = part_of(series, CAPL_SERIES_TRAIN);
  assert_int_equal(capl_source_count(source), 4); /* not the one whose target is missing */
  for (uint32_t i = 0; i < 4; i++) {
    float input, y;
    assert_ok(capl_source_read(source, 0, i, &(capl_sample){.field = {&input, &y}}));
    assert_true(input == expected[i < 1 ? i : i + 1] && y == (i < 1 ? 2 : (float)i + 3));
  }
  capl_source_unref(source);
  capl_series_unref(series);
}

/* Lines are those of the file, whatever the order of its rows; months are equal. */
static void holes_are_counted_and_the_first_has_its_line(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint32_t irregular, holes, line;
  } cases[] = {{"date,x,y\n2020-01-06,1,1\n2020-01-01,1,1\n2020-01-02,1,1\n2020-01-05,1,1\n2020-01-09,1,1\n", 2, 2, 5},
               {"date,x,y\n2020-01-01,1,1\n2020-02-01,1,1\n2020-03-01,1,1\n", 1, 0, 0}};
  capl_series_options o = {TARGET(only_y), .window = 1, .train = 1};
  for (int i = 0; i < 2; i++) {
    capl_series *series = read_text(cases[i].text, &o);
    capl_series_facts f;
    capl_series_facts_get(series, &f);
    assert_int_equal(f.irregular, cases[i].irregular);
    assert_int_equal(f.holes, cases[i].holes);
    assert_int_equal(f.hole_line, cases[i].line);
    capl_series_unref(series);
  }
}

static void numbers_are_scaled_by_what_train_says(void **state)
{
  (void)state;
  capl_series_options o = plain;
  o.window = 1, o.unscaled = false;
  capl_series *series = read_text(ten, &o);
  double mean, deviation, of_mean, of_deviation, expected = sqrt(35.0 / 12); /* of 1..6 */
  assert_string_equal(capl_series_target(series, 0, &of_mean, &of_deviation), "y");
  assert_null(capl_series_target(series, 1, &mean, &deviation));
  capl_series_feature(series, 0, &mean, &deviation);
  assert_true(mean == 3.5 && fabs(deviation - expected) < 1e-12);
  assert_true(of_mean == 35 && fabs(of_deviation - 10 * expected) < 1e-12);
  capl_source *source = part_of(series, CAPL_SERIES_TEST);
  float input, y;
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.field = {&input, &y}}));
  assert_true(fabs((double)y * of_deviation + of_mean - 100) < 1e-5);
  assert_true(fabs((double)input * deviation + mean - 9) < 1e-5);
  capl_source_unref(source);
  capl_series_unref(series);
}

/* What train gives must not move by a hair when val and test change, even beyond reason. */
static void nothing_of_val_or_test_reaches_train(void **state)
{
  (void)state;
  static const capl_series_options o = {TARGET(only_pm25)};
  static uint32_t order[400];
  double a[2], b[2];
  assert_ok(capl_pm25_make(6, 400, value[0], date));
  for (uint32_t i = 0; i < 400; i++) order[i] = i;
  capl_series *series = read_text(dust_in_order(order, 400), &o);
  uint64_t train = hash_part(series, CAPL_SERIES_TRAIN), test = hash_part(series, CAPL_SERIES_TEST);
  capl_series_target(series, 0, &a[0], &a[1]);
  capl_series_unref(series);
  for (int i = 280; i < 400; i++)
    for (int k = 0; k < CAPL_PM25_COLUMNS; k++) value[i][k] = 1e6 + i;
  series = read_text(dust_in_order(order, 400), &o);
  capl_series_target(series, 0, &b[0], &b[1]);
  assert_int_equal(hash_part(series, CAPL_SERIES_TRAIN), train);
  assert_int_not_equal(hash_part(series, CAPL_SERIES_TEST), test);
  assert_true(a[0] == b[0] && a[1] == b[1]);
  capl_series_unref(series);
}

static void a_column_that_never_changes_is_only_moved(void **state)
{
  (void)state;
  capl_series_options o = {TARGET(only_y), .window = 1, .train = 1};
  capl_series *series = read_text("date,x,y\n1,0.1,1\n2,0.1,2\n3,0.1,3\n", &o);
  capl_source *source = part_of(series, CAPL_SERIES_TRAIN);
  float input, y;
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.field = {&input, &y}}));
  assert_true(fabsf(input) < 1e-6f);
  capl_source_unref(source);
  capl_series_unref(series);
}

/* ---- damage ---------------------------------------------------------------------------------- */

typedef struct {
  const char *text, *message; /* %s: the path */
  capl_status code;
} damage;

static void damaged_tables_are_told_with_line_and_column(void **state)
{
  (void)state;
  static const damage all[] = {
    {"", "%s is empty; its first line should name the columns", CAPL_EFORMAT},
    {"date,x,y\n", "%s: the train part has 0 of 0 rows; a window of 2 and a target 1 later need 3", CAPL_EVALUE},
    {"x,y\n1,2\n", "%s has no column date", CAPL_EVALUE},
    {"date,x,Y\n1,2,3\n", "%s has no column y; did you mean Y?", CAPL_EVALUE},
    {"date,x,y\n2020-01-01,1,2\n2020-01-02,1\n", "%s:3: has 2 fields, the header 3", CAPL_EFORMAT},
    {"date,x,y\n2020-01-01,1,2\n2020-02-30,1,2\n", "%s:3: date: '2020-02-30' is no date and no number", CAPL_EFORMAT},
    {"date,x,y\n2020-01-01,1,2\n17,1,2\n", "%s:3: date: '17' is a number, the rows before have a date", CAPL_EFORMAT},
    {"date,x,y\n,1,2\n", "%s:2: date: '' is no date and no number", CAPL_EFORMAT},
    {"date,x,y\n2020-01-01,1,two\n", "%s:2: column 3, y: 'two' is no number", CAPL_EFORMAT},
    {"date,x,y\n2020-01-01,1,\"2\n", "%s:2: the quote of field 3 is never closed", CAPL_EFORMAT},
    {"date,x,x\n2020-01-01,1,2\n", "%s:1: columns 2 and 3 are both called x", CAPL_EFORMAT},
    {"date,x,y\n1,,1\n2,,2\n3,,3\n4,5,4\n5,5,5\n", "%s: x has no number in the 3 rows of train", CAPL_EVALUE},
    {"date,x,y\n1,1,1\n2,2,2\n3,-1e300,3\n4,1,1\n5,1,1\n6,1,1\n", "%s:4: x is -1e+300; numbers here are at most 1e30",
     CAPL_EFORMAT},
    {"date,y\n1,1\n2,2\n", "%s has no column beside its key and y; features = {\"y\"} foretells it from itself",
     CAPL_EVALUE},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    capl_series *series = NULL;
    capl_series_options o = plain;
    char message[800];
    if (i > 10) o.val = 0, o.window = 1;
    snprintf(message, sizeof message, all[i].message, write_csv(all[i].text));
    assert_fails(capl_series_read(in_folder("t.csv"), &o, &series), all[i].code, message);
    assert_null(series);
  }
}

/* A file cut at any byte is read or refused with a message, never more. */
static void a_table_may_end_anywhere(void **state)
{
  (void)state;
  const char *name = in_folder("t.csv");
  capl_series_options o = {TARGET(only_y), .window = 1, .train = 1};
  int good = 0;
  for (size_t n = 0; n < sizeof ten; n++) {
    capl_series *series;
    write_bytes(in_folder("t.csv"), ten, n);
    capl_status status = capl_series_read(in_folder("t.csv"), &o, &series);
    if (status == CAPL_OK) capl_series_unref(series), good++;
    else assert_memory_equal(capl_error_last()->message, name, strlen(name));
  }
  assert_in_range(good, 9, 60);
}

static void bad_options_are_refused(void **state)
{
  (void)state;
  capl_series *series;
  write_csv(ten);
  const char *path = in_folder("t.csv");
  static const char *const key[] = {"date"};
  assert_fails(capl_series_read(path, &(capl_series_options){0}, &series), CAPL_EVALUE,
               "a series needs a target column");
  assert_fails(capl_series_read(path, &(capl_series_options){TARGET(only_y), .window = -1}, &series), CAPL_EVALUE,
               "window is -1 rows; it must be 1..65536");
  assert_fails(capl_series_read(path, &(capl_series_options){TARGET(only_y), .train = 0.7, .val = 0.5}, &series),
               CAPL_EVALUE, "shares of train and val are 0.7 and 0.5; train is above 0, and together they are at "
                            "most 1");
  assert_fails(capl_series_read(path, &(capl_series_options){TARGET(only_y), .features = key, .n_features = 1},
                                &series), CAPL_EVALUE, "date is the key; it cannot be a feature");
  assert_fails(capl_series_read(path, &(capl_series_options){TARGET(only_date)}, &series), CAPL_EVALUE,
               "date is the key; it cannot be the target");
}

/* ---- the made-up series ---------------------------------------------------------------------- */

static double mean_of(int from, int to, int month)
{
  double sum = 0, n = 0;
  for (int i = from; i < to; i++)
    if (!month || atoi(date[i] + 5) == month) sum += value[i][CAPL_PM25_pm25], n++;
  return sum / n;
}

static void the_made_up_series_has_the_air_of_a_city(void **state)
{
  (void)state;
  enum { DAYS = 3653 };
  for (uint64_t seed = 1; seed <= 5; seed++) {
    assert_ok(capl_pm25_make(seed, DAYS, value[0], date));
    assert_string_equal(date[0], "2015-01-01");
    assert_string_equal(date[DAYS - 1], "2024-12-31");
    double mean = mean_of(0, DAYS, 0), same = 0, all = 0, lowest = 1e9, highest = 0;
    for (int i = 0; i < DAYS; i++) {
      double dust = value[i][CAPL_PM25_pm25];
      if (i) same += (dust - mean) * (value[i - 1][CAPL_PM25_pm25] - mean);
      all += (dust - mean) * (dust - mean);
      lowest = fmin(lowest, dust), highest = fmax(highest, dust);
      assert_true(value[i][CAPL_PM25_d2m] < value[i][CAPL_PM25_t2m]);
      for (int k = 0; k < CAPL_PM25_COLUMNS; k++) assert_true(isfinite(value[i][k]));
    }
    assert_true(mean > 40 && mean < 60 && lowest >= 3 && highest <= 400 && highest > 200);
    assert_true(same / all > 0.5 && same / all < 0.85);
    assert_true(mean_of(0, DAYS, 1) > 1.6 * mean_of(0, DAYS, 7));
    assert_true(mean_of(0, 1096, 0) > mean_of(DAYS - 1096, DAYS, 0));
  }
}

static void a_seed_makes_the_same_series_for_ever(void **state)
{
  (void)state;
  assert_ok(capl_pm25_make(42, 1000, value[0], date));
  uint64_t h = hash_bytes(hash_bytes(1, value, 1000 * sizeof value[0]), date, 1000 * sizeof date[0]);
  if (h != 0x00c875a280cf0482) fail_msg("the series has hash 0x%016llx", (unsigned long long)h);
  assert_fails(capl_pm25_make(42, 0, value[0], date), CAPL_EVALUE, "0 days; it must be 1..100000");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(keys_are_dates_times_or_numbers),
    cmocka_unit_test(shuffled_rows_give_the_very_same_batches),
    cmocka_unit_test(a_key_that_occurs_twice_is_named_with_both_lines),
    cmocka_unit_test(windows_hold_the_rows_before_their_target_and_never_leave_their_part),
    cmocka_unit_test(longer_windows_and_horizons_reach_further),
    cmocka_unit_test(features_are_those_asked_for_in_that_order),
    cmocka_unit_test(several_targets_stand_side_by_side),
    cmocka_unit_test(missing_numbers_are_the_one_before_or_the_mean_of_train),
    cmocka_unit_test(numbers_are_scaled_by_what_train_says),
    cmocka_unit_test(nothing_of_val_or_test_reaches_train),
    cmocka_unit_test(a_column_that_never_changes_is_only_moved),
    cmocka_unit_test(damaged_tables_are_told_with_line_and_column),
    cmocka_unit_test(a_table_may_end_anywhere),
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(holes_are_counted_and_the_first_has_its_line),
    cmocka_unit_test(the_made_up_series_has_the_air_of_a_city),
    cmocka_unit_test(a_seed_makes_the_same_series_for_ever),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
