/* model_decode.c -- what a model's output for one image says: a text, and how sure the model is of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>

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

/* Adds a character; one that goes on over several time steps is as sure as it is at its best. */
static int add_character(capl_reading *reading, int n, bool goes_on, char character, double share)
{
  if (goes_on) {
    if (n > 0 && share > reading->sure[n - 1]) reading->sure[n - 1] = (float)share;
    return n;
  }
  if (n == CAPL_READING_MAX) return n;
  reading->text[n] = character;
  reading->sure[n] = (float)share;
  return n + 1;
}

void model_decode(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  int n = 0, before = -1, steps = model_steps(m, w);
  *reading = (capl_reading){.confidence = 1};
  for (int t = 0; t < steps; t++) {
    double share = 0;
    int k = best_class(output + (size_t)t * (size_t)meta->classes, meta->classes, &share);
    if (k < 0) return not_finite(m, reading);
    bool goes_on = meta->decoding == META_CTC && k == before;
    if (k < meta->characters) n = add_character(reading, n, goes_on, meta->charset[k], share);
    reading->confidence *= share;
    before = k;
  }
}
