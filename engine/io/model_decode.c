/* model_decode.c -- what a model's output for one image says: a text, and how sure the model is of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capl/text.h"
#include "io/model_run.h"

/* Class of the greatest of K numbers (first of ties), and its softmax value; -1 when one is no number. */
static int best_class(const double *row, int classes, double *share)
{
  int best = 0;
  double sum = 0;
  for (int k = 0; k < classes; k++) {
    if (!isfinite(row[k])) return -1;
    if (row[k] > row[best]) best = k;
  }
  for (int k = 0; k < classes; k++) sum += exp(row[k] - row[best]);
  *share = 1 / sum;
  return best;
}

static void not_finite(const capl_model *m, capl_reading *reading)
{
  *reading = (capl_reading){.status = CAPL_EVALUE};
  snprintf(reading->error, sizeof reading->error, "%s: the model's output for this image is not finite", model_path(m));
}

static void add_character(capl_reading *reading, int *n, char character, double share)
{
  if (*n == CAPL_READING_MAX) return;
  reading->text[*n] = character;
  reading->sure[(*n)++] = (float)share;
}

/* A character at each place. */
static void decode_places(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  int n = 0;
  *reading = (capl_reading){.confidence = 1};
  for (int t = 0; t < steps; t++) {
    double share = 0;
    int k = best_class(output + (size_t)t * (size_t)meta->classes, meta->classes, &share);
    if (k < 0) return not_finite(m, reading);
    add_character(reading, &n, meta->charset[k], share);
    reading->confidence *= share;
  }
}

/* Scores as text.h takes them; false when one is no number. */
static bool to_floats(const double *from, size_t n, float *to)
{
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(from[i])) return false;
    to[i] = (float)from[i];
  }
  return true;
}

/* The best path's text, as sure as all its paths together are probable. room: n steps' scores and what they are read as. */
static void read_paths(const capl_model *m, const double *output, size_t n, float *room, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  size_t all = n * (size_t)meta->classes;
  if (!to_floats(output, all, room)) return not_finite(m, reading);
  capl_ctc_scores scores = {.scores = room, .T = (int64_t)n, .K = meta->classes, .blank = meta->characters};
  capl_ctc_text text = {.confidences = room + all, .classes = (int32_t *)(void *)(room + all + n)};
  capl_status status = capl_ctc_greedy(&scores, NULL, &text);
  if (status != CAPL_OK) return model_reading_fail(reading, status, capl_error_last()->message);
  *reading = (capl_reading){.confidence = exp(text.log_prob)};
  int length = 0;
  for (int64_t i = 0; i < text.length; i++) add_character(reading, &length, meta->charset[text.classes[i]], text.confidences[i]);
}

static void decode_paths(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  size_t n = (size_t)steps;
  float *room = malloc(n * ((size_t)model_meta_of(m)->classes + 2) * sizeof *room); /* scores, confidences, classes */
  if (room) read_paths(m, output, n, room, reading);
  else model_reading_fail(reading, CAPL_ENOMEM, "no memory to decode this image's output");
  free(room);
}

void model_decode(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  bool paths = model_meta_of(m)->decoding == META_CTC;
  (paths ? decode_paths : decode_places)(m, output, model_steps(m, w), reading);
}
