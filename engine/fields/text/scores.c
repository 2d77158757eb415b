/* scores.c -- scores as log probabilities, and what they say of a text that is known.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fields/text/ctc.h"

/* ---- memory ---- */

void ctc_room_free(void *room)
{
  free(*(void **)room);
}

void ctc_table_fini(ctc_table *table)
{
  free(table->log_prob);
}

capl_status ctc_room_get(int64_t count, size_t size, const char *what, void *out)
{
  static const int64_t most_bytes = (int64_t)1 << 30;
  void *room = NULL;
  if (count <= most_bytes / (int64_t)size) room = calloc((size_t)count + 1, size);
  if (!room) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %" PRId64 " %s", count, what);
  memcpy(out, &room, sizeof room);
  return CAPL_OK;
}

const capl_ctc_limits ctc_no_limits;

/* ---- normalized scores ---- */

static capl_status check_sizes(const capl_ctc_scores *s)
{
  if (s->T < 0 || s->K < 1)
    return CAPL_FAIL(CAPL_EVALUE, "scores of %" PRId64 " time steps and %" PRId64 " classes", s->T, s->K);
  if (s->blank < 0 || s->blank >= s->K)
    return CAPL_FAIL(CAPL_EVALUE, "blank is class %" PRId64 ", classes are 0 to %" PRId64, s->blank, s->K - 1);
  return CAPL_OK;
}

static capl_status normalize_step(const capl_ctc_scores *s, int64_t t, double *row, double *prob)
{
  const float *from = s->scores + t * (s->step ? s->step : s->K);
  int64_t class_step = s->class_step ? s->class_step : 1;
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < s->K; k++) {
    row[k] = (double)from[k * class_step];
    if (!(row[k] < INFINITY))
      return CAPL_FAIL(CAPL_EVALUE, "the score of class %" PRId64 " at time step %" PRId64 " is %s", k, t,
                       row[k] != row[k] ? "not a number" : "infinite");
    if (row[k] > most) most = row[k];
  }
  if (most == -INFINITY) return CAPL_FAIL(CAPL_EVALUE, "all scores at time step %" PRId64 " are -infinity", t);
  for (int64_t k = 0; k < s->K; k++) sum += prob[k] = exp(row[k] - most);
  double total = most + log(sum);
  for (int64_t k = 0; k < s->K; k++) row[k] -= total, prob[k] /= sum;
  return CAPL_OK;
}

capl_status ctc_table_init(ctc_table *table, const capl_ctc_scores *s)
{
  *table = (ctc_table){0};
  CAPL_TRY(check_sizes(s));
  *table = (ctc_table){.T = s->T, .K = s->K, .blank = s->blank};
  if (s->T > INT64_MAX / s->K) return CAPL_FAIL(CAPL_ENOMEM, "no memory for so many scores");
  int64_t all = s->T * s->K;
  CAPL_TRY(ctc_room_get(all, 2 * sizeof(double), "scores", &table->log_prob));
  table->prob = table->log_prob + all;
  for (int64_t at = 0, t = 0; t < s->T; t++, at += s->K)
    CAPL_TRY(normalize_step(s, t, table->log_prob + at, table->prob + at));
  return CAPL_OK;
}

capl_status ctc_check_limits(const ctc_table *table, const capl_ctc_limits *limits)
{
  if (limits->min_length < 0 || limits->max_length < 0
      || (limits->max_length && limits->min_length > limits->max_length))
    return CAPL_FAIL(CAPL_EVALUE, "a text of %" PRId64 " to %" PRId64 " characters", limits->min_length,
                     limits->max_length);
  if (limits->min_length > table->T) {
    CAPL_FAIL(CAPL_EVALUE, "a text of %" PRId64 " characters needs as many time steps, there are %" PRId64,
              limits->min_length, table->T);
    capl_error_hint("more time steps come from wider images or fewer strides along the width");
    return CAPL_EVALUE;
  }
  return CAPL_OK;
}

/* ---- a text that is known ---- */

/* State s of 2 * length + 1: its class. */
static int64_t class_of(const ctc_table *table, const int32_t *classes, int64_t s)
{
  return s % 2 ? classes[s / 2] : table->blank;
}

static bool may_skip_to(const int32_t *classes, int64_t s)
{
  return s % 2 && s >= 2 && classes[s / 2] != classes[s / 2 - 1];
}

/* One step of the forward recursion; row: what was, and becomes what is. From the last state on, so that it can be in
** place. */
static void forward_step(const ctc_table *table, const int32_t *classes, int64_t states, int64_t t, double *row)
{
  for (int64_t s = states - 1; s >= 0; s--) {
    double sum = row[s];
    if (s >= 1) sum = ctc_log_add(sum, row[s - 1]);
    if (may_skip_to(classes, s)) sum = ctc_log_add(sum, row[s - 2]);
    row[s] = sum + ctc_at(table, t, class_of(table, classes, s));
  }
}

/* The same of probabilities, and the text's in the end: no logarithms, tens of times as fast. */
static double forward(const ctc_table *table, const int32_t *classes, int64_t states, double *row)
{
  row[0] = 1;
  for (int64_t t = 0; t < table->T; t++) {
    const double *prob = table->prob + t * table->K;
    for (int64_t s = states - 1; s >= 0; s--) {
      double sum = row[s] + (s >= 1 ? row[s - 1] : 0) + (may_skip_to(classes, s) ? row[s - 2] : 0);
      row[s] = sum * prob[class_of(table, classes, s)];
    }
  }
  return row[states - 1] + (states > 1 ? row[states - 2] : 0);
}

/* A probability beside which all that is lost below the smallest double is nothing. */
static const double SAFE = 1e-250;

capl_status ctc_text_log_prob(const ctc_table *table, const int32_t *classes, int64_t length, double *out)
{
  int64_t states = 2 * length + 1;
  CTC_ROOM double *row = NULL;
  CAPL_TRY(ctc_room_get(states, sizeof(double), "states", &row));
  double plain = forward(table, classes, states, row);
  *out = log(plain);
  if (plain > SAFE) return CAPL_OK;
  row[0] = 0;
  for (int64_t s = 1; s < states; s++) row[s] = -INFINITY;
  for (int64_t t = 0; t < table->T; t++) forward_step(table, classes, states, t, row);
  *out = states > 1 ? ctc_log_add(row[states - 1], row[states - 2]) : row[0];
  return CAPL_OK;
}

capl_status capl_ctc_log_prob(const capl_ctc_scores *s, const int32_t *classes, int64_t length, double *out)
{
  CTC_TABLE table;
  CAPL_TRY(ctc_table_init(&table, s));
  for (int64_t i = 0; i < length; i++)
    if (classes[i] < 0 || classes[i] >= s->K || classes[i] == s->blank)
      return CAPL_FAIL(CAPL_EVALUE, "character %" PRId64 " of the text is class %d, which is %s", i, (int)classes[i],
                       classes[i] == s->blank ? "the blank" : "no class");
  return ctc_text_log_prob(&table, classes, length, out);
}

/* The text's most probable path: back[t][s] is how many states it moved on to be in s at time t. */
static void align(const ctc_table *table, const int32_t *classes, int64_t states, double *row, uint8_t *back)
{
  row[0] = 0;
  for (int64_t s = 1; s < states; s++) row[s] = -INFINITY;
  for (int64_t t = 0; t < table->T; t++)
    for (int64_t s = states - 1; s >= 0; s--) {
      int moved = 0;
      if (s >= 1 && row[s - 1] > row[s]) moved = 1;
      if (may_skip_to(classes, s) && row[s - 2] > row[s - moved]) moved = 2;
      back[t * states + s] = (uint8_t)moved;
      row[s] = row[s - moved] + ctc_at(table, t, class_of(table, classes, s));
    }
}

static void note_character(const ctc_table *table, capl_ctc_text *text, int64_t i, int64_t t)
{
  float probability = (float)exp(ctc_at(table, t, text->classes[i]));
  if (text->confidences && probability < text->confidences[i]) return;
  if (text->confidences) text->confidences[i] = probability;
  if (text->steps) text->steps[i] = (int32_t)t;
}

static capl_status describe_characters(const ctc_table *table, capl_ctc_text *text)
{
  int64_t states = 2 * text->length + 1;
  CTC_ROOM double *row = NULL;
  CTC_ROOM uint8_t *back = NULL;
  CTC_ROOM float *own = NULL; /* confidences nobody asked for, yet steps follow from them */
  capl_ctc_text whole = *text;
  CAPL_TRY(ctc_room_get(states, sizeof *row, "states", &row));
  CAPL_TRY(ctc_room_get(table->T * states, 1, "steps of a path", &back));
  if (!text->confidences) CAPL_TRY(ctc_room_get(text->length, sizeof *own, "characters", &own));
  if (own) whole.confidences = own;
  for (int64_t i = 0; i < text->length; i++) whole.confidences[i] = 0;
  for (int64_t i = 0; text->steps && i < text->length; i++) text->steps[i] = 0;
  align(table, text->classes, states, row, back);
  int64_t s = states > 1 && row[states - 2] > row[states - 1] ? states - 2 : states - 1;
  for (int64_t t = table->T - 1; t >= 0; t--) {
    if (s % 2) note_character(table, &whole, s / 2, t);
    s -= back[t * states + s];
  }
  return CAPL_OK;
}

capl_status ctc_describe(const ctc_table *table, capl_ctc_text *text)
{
  CAPL_TRY(ctc_text_log_prob(table, text->classes, text->length, &text->log_prob));
  return text->confidences || text->steps ? describe_characters(table, text) : CAPL_OK;
}

/* ---- greedy, as it is called ---- */

capl_status capl_ctc_greedy(const capl_ctc_scores *s, const capl_ctc_limits *limits, capl_ctc_text *out)
{
  CTC_TABLE table;
  CAPL_TRY(ctc_table_init(&table, s));
  if (!limits) limits = &ctc_no_limits;
  CAPL_TRY(ctc_check_limits(&table, limits));
  CAPL_TRY(ctc_best_path(&table, limits, out->classes, &out->length));
  return ctc_describe(&table, out);
}
