/* text_ctc.c -- tests of CTC decoding: against a count of all paths, within all kinds of limits, and bad input.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "capl/rng.h"
#include "capl/text.h"

enum { MOST_STEPS = 6, MOST_CLASSES = 4, TEXTS = 15625 /* 5^6 */ };

/* ---- all paths of a small problem ---- */

typedef struct {
  capl_ctc_scores s;
  float scores[MOST_STEPS * MOST_CLASSES];
  double sum[TEXTS];       /* probability of each text, by its number */
  double best_path[TEXTS]; /* of its most probable path */
} world;

/* A text's number: its classes plus one as digits, the first one the lowest. */
static int number_of(const int32_t *classes, int64_t length)
{
  int number = 0;
  for (int64_t i = length - 1; i >= 0; i--) number = number * 5 + classes[i] + 1;
  return number;
}

static int64_t text_of(int number, int32_t *classes)
{
  int64_t length = 0;
  for (; number; number /= 5) classes[length++] = number % 5 - 1;
  return length;
}

static double probability(const world *w, int64_t t, int64_t k)
{
  double sum = 0;
  for (int64_t i = 0; i < w->s.K; i++) sum += exp((double)w->scores[t * w->s.K + i]);
  return exp((double)w->scores[t * w->s.K + k]) / sum;
}

static void add_path(world *w, int64_t path)
{
  int32_t classes[MOST_STEPS];
  int64_t length = 0, before = -1;
  double p = 1;
  for (int64_t t = 0; t < w->s.T; t++, path /= w->s.K) {
    int64_t k = path % w->s.K;
    p *= probability(w, t, k);
    if (k != w->s.blank && k != before) classes[length++] = (int32_t)k;
    before = k;
  }
  int number = number_of(classes, length);
  w->sum[number] += p;
  if (p > w->best_path[number]) w->best_path[number] = p;
}

static void fill_world(world *w, int64_t T, int64_t K, int64_t blank, uint64_t seed, float spread)
{
  capl_rng rng;
  int64_t paths = 1;
  memset(w, 0, sizeof *w);
  w->s = (capl_ctc_scores){.scores = w->scores, .T = T, .K = K, .blank = blank};
  capl_rng_init(&rng, seed, 1, 0, 0);
  for (int64_t i = 0; i < T * K; i++) w->scores[i] = spread * (float)capl_rng_u32(&rng) / 4294967296.0f;
  for (int64_t t = 0; t < T; t++) paths *= K;
  for (int64_t path = 0; path < paths; path++) add_path(w, path);
}

static bool keeps_to(const world *w, const capl_ctc_limits *l, int number)
{
  int32_t classes[MOST_STEPS];
  int64_t length = text_of(number, classes);
  if (length < l->min_length || (l->max_length && length > l->max_length)) return false;
  for (int64_t i = 0; i < length; i++) {
    if (l->allowed && !l->allowed[classes[i]]) return false;
    if (l->places && i < l->n_places && !l->places[i * w->s.K + classes[i]]) return false;
  }
  return true;
}

/* The text of the largest value below `below`, -1 if there is none. */
static int best_below(const world *w, const capl_ctc_limits *l, const double *values, double below)
{
  int best = -1;
  for (int i = 0; i < TEXTS; i++)
    if (values[i] > 0 && values[i] < below && keeps_to(w, l, i) && (best < 0 || values[i] > values[best])) best = i;
  return best;
}

/* ---- decoders against them ---- */

static void check_greedy(const world *w, const capl_ctc_limits *l)
{
  int32_t classes[MOST_STEPS], steps[MOST_STEPS];
  float confidences[MOST_STEPS];
  capl_ctc_text text = {.classes = classes, .confidences = confidences, .steps = steps};
  int want = best_below(w, l, w->best_path, 2);
  capl_status status = capl_ctc_greedy(&w->s, l, &text);
  if (want < 0) {
    assert_int_equal(status, CAPL_EVALUE);
    return;
  }
  assert_ok(status);
  assert_int_equal(number_of(classes, text.length), want);
  assert_true(fabs(exp(text.log_prob) - w->sum[want]) < 1e-9);
  for (int64_t i = 0; i < text.length; i++) {
    assert_true(i == 0 || steps[i] > steps[i - 1]);
    assert_true(fabs(confidences[i] - probability(w, steps[i], classes[i])) < 1e-6);
  }
}

static void check_beam(const world *w, const capl_ctc_limits *l)
{
  enum { N = 4 };
  int32_t classes[N][MOST_STEPS];
  capl_ctc_text texts[N];
  int64_t found = -1;
  double below = 2;
  for (int i = 0; i < N; i++) texts[i] = (capl_ctc_text){.classes = classes[i]};
  capl_status status = capl_ctc_beam(&w->s, l, 400, 0, N, texts, &found);
  if (best_below(w, l, w->sum, 2) < 0) {
    assert_int_equal(status, CAPL_EVALUE);
    assert_int_equal(found, 0);
    return;
  }
  assert_ok(status);
  for (int i = 0; i < N; i++) {
    int want = best_below(w, l, w->sum, below);
    if (want < 0) {
      assert_int_equal(found, i);
      return;
    }
    assert_true(found > i);
    assert_int_equal(number_of(classes[i], texts[i].length), want);
    assert_true(fabs(exp(texts[i].log_prob) - w->sum[want]) < 1e-9);
    below = w->sum[want];
  }
}

static const uint8_t no_last[MOST_CLASSES] = {1, 1, 0, 1};
static const uint8_t pattern[2 * MOST_CLASSES] = {1, 0, 0, 0, 0, 1, 1, 1};
static const uint8_t places_3[2 * 3] = {0, 1, 1, 1, 1, 0};
static const capl_ctc_limits limits_4[] = {
  {0}, {.allowed = no_last}, {.min_length = 2}, {.max_length = 1}, {.min_length = 3, .max_length = 3},
  {.min_length = 1, .max_length = 2, .allowed = no_last}, {.places = pattern, .n_places = 2},
  {.min_length = 3, .places = pattern, .n_places = 2}, {.max_length = 3, .places = pattern, .n_places = 2},
  {.min_length = 5, .max_length = 6}, {.max_length = 100},
};

static void check_world(const world *w, const capl_ctc_limits *limits, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    check_greedy(w, &limits[i]);
    check_beam(w, &limits[i]);
  }
}

static void decoders_find_the_best_of_all_paths(void **state)
{
  (void)state;
  world *w = malloc(sizeof *w);
  static const capl_ctc_limits few[] = {{0}, {.min_length = 2}, {.places = places_3, .n_places = 2, .min_length = 1}};
  assert_non_null(w);
  for (uint64_t seed = 0; seed < 4; seed++) {
    fill_world(w, 5, 4, (int64_t)seed, seed, seed % 2 ? 2.0f : 5.0f);
    check_world(w, limits_4, sizeof limits_4 / sizeof *limits_4);
    fill_world(w, 6, 3, 2, seed + 50, 3);
    check_world(w, few, sizeof few / sizeof *few);
    fill_world(w, 4, 2, 0, seed + 90, 3);
    check_world(w, few, 2);
    fill_world(w, 1, 4, 3, seed + 99, 3);
    check_world(w, limits_4, 1);
  }
  free(w);
}

static void every_text_has_the_probability_of_its_paths(void **state)
{
  (void)state;
  world *w = malloc(sizeof *w);
  int32_t classes[MOST_STEPS];
  double log_prob;
  assert_non_null(w);
  fill_world(w, 5, 4, 1, 7, 4);
  for (int number = 0; number < TEXTS; number++) {
    int64_t length = text_of(number, classes);
    if (length > MOST_STEPS || capl_ctc_log_prob(&w->s, classes, length, &log_prob) != CAPL_OK) continue;
    assert_true(fabs(exp(log_prob) - w->sum[number]) < 1e-9);
  }
  free(w);
}

/* One character in T steps of two equal classes: it begins and ends at any of them. */
static void long_texts_have_probabilities_below_any_double(void **state)
{
  (void)state;
  enum { MOST = 4000 };
  static float zeros[2 * MOST];
  for (int64_t T = 250; T <= MOST; T *= 2) {
    double log_prob, t = (double)T;
    capl_ctc_scores s = {.scores = zeros, .T = T, .K = 2, .blank = 1};
    assert_ok(capl_ctc_log_prob(&s, (int32_t[]){0}, 1, &log_prob));
    assert_true(fabs(log_prob - (log(t * (t + 1) / 2) - t * log(2))) < 1e-9 * t);
  }
}

static void a_narrow_beam_is_never_worse_than_greedy(void **state)
{
  (void)state;
  enum { T = 30, K = 12 };
  float scores[T * K];
  int32_t greedy_classes[T], classes[T];
  capl_rng rng;
  capl_rng_init(&rng, 5, 1, 0, 0);
  for (int round = 0; round < 10; round++) {
    capl_ctc_limits limits = {.min_length = round % 3 * 4, .max_length = round % 2 ? 12 : 0};
    capl_ctc_scores s = {.scores = scores, .T = T, .K = K, .blank = K - 1};
    capl_ctc_text greedy = {.classes = greedy_classes}, text = {.classes = classes};
    int64_t found;
    for (int i = 0; i < T * K; i++) scores[i] = 6.0f * (float)capl_rng_u32(&rng) / 4294967296.0f;
    assert_ok(capl_ctc_greedy(&s, &limits, &greedy));
    assert_ok(capl_ctc_beam(&s, &limits, 3, 2, 1, &text, &found));
    assert_int_equal(found, 1);
    assert_true(text.log_prob >= greedy.log_prob);
    assert_true(text.length >= limits.min_length && (!limits.max_length || text.length <= limits.max_length));
  }
}

/* ---- what comes in ---- */

static void equal_characters_need_a_blank_between_them(void **state)
{
  (void)state;
  static const float l = -1e9f;
  float aa[] = {0, l, 0, l, 0, l}, a_a[] = {0, l, l, 0, 0, l}; /* classes: a, blank */
  int32_t classes[3];
  float confidences[3];
  capl_ctc_text text = {.classes = classes, .confidences = confidences};
  capl_ctc_scores s = {.scores = aa, .T = 3, .K = 2, .blank = 1};
  assert_ok(capl_ctc_greedy(&s, NULL, &text));
  assert_int_equal(text.length, 1);
  s.scores = a_a;
  assert_ok(capl_ctc_greedy(&s, NULL, &text));
  assert_int_equal(text.length, 2);
  assert_true(confidences[0] == 1 && confidences[1] == 1 && fabs(text.log_prob) < 1e-6);
}

static void strides_are_followed(void **state)
{
  (void)state;
  /* [K][T] of a larger table: blank is class 2 */
  float scores[3][5] = {{9, 9, 0, 0, 7}, {0, 0, 0, 9, 7}, {0, 0, 9, 0, 7}};
  int32_t classes[4];
  capl_ctc_text text = {.classes = classes};
  capl_ctc_scores s = {.scores = scores[0], .T = 4, .K = 3, .step = 1, .class_step = 5, .blank = 2};
  assert_ok(capl_ctc_greedy(&s, NULL, &text));
  assert_int_equal(text.length, 2);
  assert_int_equal(classes[0], 0);
  assert_int_equal(classes[1], 1);
}

static void nothing_is_an_empty_text(void **state)
{
  (void)state;
  float zeros[8] = {0}, blanks[8] = {0, 9, 0, 9, 0, 9, 0, 9};
  int32_t classes[8];
  int64_t found;
  capl_ctc_text text = {.classes = classes};
  capl_ctc_scores no_time = {.scores = zeros, .T = 0, .K = 3}, one_class = {.scores = zeros, .T = 8, .K = 1},
                  only_blanks = {.scores = blanks, .T = 4, .K = 2, .blank = 1};
  const capl_ctc_scores *all[] = {&no_time, &one_class, &only_blanks};
  for (int i = 0; i < 3; i++) {
    text.length = 5;
    assert_ok(capl_ctc_greedy(all[i], NULL, &text));
    assert_int_equal(text.length, 0);
    text.length = 5;
    assert_ok(capl_ctc_beam(all[i], NULL, 4, 0, 1, &text, &found));
    assert_int_equal(found, 1);
    assert_int_equal(text.length, 0);
  }
  assert_true(fabs(text.log_prob - 4 * log(exp(9) / (1 + exp(9)))) < 1e-9);
}

static void bad_input_is_named(void **state)
{
  (void)state;
  float scores[6] = {0, 1, 2, 3, 4, 5};
  int32_t classes[3];
  int64_t found;
  double log_prob;
  uint8_t nothing[2] = {0, 0};
  capl_ctc_text text = {.classes = classes};
  capl_ctc_scores s = {.scores = scores, .T = 3, .K = 2, .blank = 1};
#define GREEDY(...) capl_ctc_greedy(&s, &(capl_ctc_limits){__VA_ARGS__}, &text)
  assert_fails(GREEDY(.min_length = 4), CAPL_EVALUE, "a text of 4 characters needs as many time steps, there are 3");
  assert_fails(GREEDY(.min_length = 3), CAPL_EVALUE,
               "no text of 3 time steps keeps to the limits of length and characters");
  assert_fails(GREEDY(.min_length = 1, .allowed = nothing), CAPL_EVALUE,
               "no text of 3 time steps keeps to the limits of length and characters");
  assert_fails(GREEDY(.min_length = 2, .max_length = 1), CAPL_EVALUE, "a text of 2 to 1 characters");
  assert_fails(capl_ctc_beam(&s, NULL, 0, 0, 1, &text, &found), CAPL_EVALUE,
               "a beam of width 0 over 0 classes for 1 texts");
  s.blank = 2;
  assert_fails(GREEDY(0), CAPL_EVALUE, "blank is class 2, classes are 0 to 1");
  s.blank = 1;
  assert_fails(capl_ctc_log_prob(&s, (int32_t[]){0, 1}, 2, &log_prob), CAPL_EVALUE,
               "character 1 of the text is class 1, which is the blank");
  scores[3] = NAN;
  assert_fails(GREEDY(0), CAPL_EVALUE, "the score of class 1 at time step 1 is not a number");
  assert_fails(capl_ctc_beam(&s, NULL, 2, 0, 1, &text, &found), CAPL_EVALUE,
               "the score of class 1 at time step 1 is not a number");
  scores[3] = INFINITY;
  assert_fails(GREEDY(0), CAPL_EVALUE, "the score of class 1 at time step 1 is infinite");
  scores[2] = scores[3] = -INFINITY;
  assert_fails(GREEDY(0), CAPL_EVALUE, "all scores at time step 1 are -infinity");
  s.T = 1 << 20;
  s.K = 1 << 20;
  assert_int_equal(GREEDY(0), CAPL_ENOMEM);
  s.K = 0;
  assert_fails(GREEDY(0), CAPL_EVALUE, "scores of 1048576 time steps and 0 classes");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(decoders_find_the_best_of_all_paths),
    cmocka_unit_test(every_text_has_the_probability_of_its_paths),
    cmocka_unit_test(long_texts_have_probabilities_below_any_double),
    cmocka_unit_test(a_narrow_beam_is_never_worse_than_greedy),
    cmocka_unit_test(equal_characters_need_a_blank_between_them),
    cmocka_unit_test(strides_are_followed),
    cmocka_unit_test(nothing_is_an_empty_text),
    cmocka_unit_test(bad_input_is_named),
  };
  return cmocka_run_group_tests_name("ctc decoding", tests, NULL, NULL);
}
