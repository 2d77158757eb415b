/* model_decode.c -- what a model's output for one image says: a text, and how sure the model is of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/text.h"
#include "io/model_run.h"

/* ---- what is looked for ------------------------------------------------------------------------ */

void model_decoding_fini(model_decoding *d)
{
  free(d->scores);
  free(d->classes);
  free(d->sure);
  *d = (model_decoding){0};
}

static capl_status set_characters(const model_meta *meta, const char *spec, model_decoding *d)
{
  char characters[CAPL_CHARSET_MAX + 1];
  memset(d->allowed, spec == NULL, sizeof d->allowed);
  d->limited = spec != NULL;
  if (!spec) return CAPL_OK;
  CAPL_TRY(capl_charset_expand(spec, characters));
  for (const char *c = characters; *c; c++) {
    const char *at = strchr(meta->charset, *c);
    if (!at) return CAPL_FAIL(CAPL_EVALUE, "the model reads no '%c': its charset is %s", *c, meta->charset);
    d->allowed[at - meta->charset] = 1;
  }
  d->allowed[meta->characters] = 1; /* the blank */
  return CAPL_OK;
}

static capl_status check_lengths(const capl_model *m, const capl_model_decoding *o)
{
  const model_meta *meta = model_meta_of(m);
  int least = o->length_min, most = o->length_max, steps = model_steps(m, model_widths(m) - 1);
  if (least < 0 || most < 0 || (most > 0 && least > most)) return CAPL_FAIL(CAPL_EVALUE, "a text has no %d to %d characters", least, most);
  if (meta->decoding == META_ARGMAX) {
    bool fits = least <= meta->length && (most == 0 || most >= meta->length);
    return fits ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "the model reads %d characters off each image, not %d to %d", meta->length, least, most);
  }
  if (least <= steps && most <= CAPL_READING_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "texts of %d to %d characters: the model has %d time steps, and a text %d characters at most", least, most,
                   steps, CAPL_READING_MAX);
}

/* Room for one image of the greatest width. */
static capl_status search_room(const capl_model *m, model_decoding *d)
{
  int w = model_widths(m) - 1;
  d->scores = malloc((size_t)model_outputs(m, w) * sizeof *d->scores);
  d->classes = malloc((size_t)model_steps(m, w) * sizeof *d->classes);
  d->sure = malloc((size_t)model_steps(m, w) * sizeof *d->sure);
  return d->scores && d->classes && d->sure ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to look for texts");
}

capl_status capl_model_decoding_set(capl_model *m, const capl_model_decoding *o)
{
  model_decoding *d = model_decoding_of(m);
  bool ctc = model_meta_of(m)->decoding == META_CTC;
  model_decoding_fini(d);
  if (!o) return CAPL_OK;
  if (o->beam < 0 || o->beam > 4096) return CAPL_FAIL(CAPL_EVALUE, "a beam has 1 to 4096 texts, not %d", o->beam);
  if (o->beam > 0 && !ctc) return CAPL_FAIL(CAPL_EVALUE, "a beam search is for CTC; this model has a character at each place");
  CAPL_TRY(check_lengths(m, o));
  CAPL_TRY(set_characters(model_meta_of(m), o->characters, d));
  d->beam = o->beam;
  d->length_min = o->length_min;
  d->length_max = o->length_max;
  d->searching = ctc && (o->beam > 0 || d->limited || o->length_min > 0 || o->length_max > 0);
  capl_status status = d->searching ? search_room(m, d) : CAPL_OK;
  if (status != CAPL_OK) model_decoding_fini(d);
  return status;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* Class of the greatest of K numbers (first of ties), and its softmax value; -1 when one is no number. */
static int best_class(const double *row, int classes, const uint8_t *allowed, double *share)
{
  int best = 0;
  while (allowed && best < classes - 1 && !allowed[best]) best++;
  double sum = 0;
  for (int k = 0; k < classes; k++) {
    if (!isfinite(row[k])) return -1;
    if (row[k] > row[best] && (!allowed || allowed[k])) best = k;
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

/* At each place or time step the class with the greatest score. */
static void decode_path(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  const model_decoding *d = model_decoding_of(m);
  int n = 0, before = -1, steps = model_steps(m, w);
  for (int t = 0; t < steps; t++) {
    double share = 0;
    int k = best_class(output + (size_t)t * (size_t)meta->classes, meta->classes, d->limited ? d->allowed : NULL, &share);
    if (k < 0) {
      not_finite(m, reading);
      return;
    }
    bool goes_on = meta->decoding == META_CTC && k == before;
    if (k < meta->characters) n = add_character(reading, n, goes_on, meta->charset[k], share);
    reading->confidence *= share;
    before = k;
  }
}

static void take_text(const model_meta *meta, const capl_ctc_text *text, capl_reading *reading)
{
  reading->confidence = exp(text->log_prob);
  for (int64_t i = 0; i < text->length && i < CAPL_READING_MAX; i++) {
    reading->text[i] = meta->charset[text->classes[i]];
    reading->sure[i] = text->confidences[i];
  }
}

/* The most probable text within the limits; its confidence is the probability of all its paths. */
static void decode_search(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  const model_decoding *d = model_decoding_of(m);
  int n = model_outputs(m, w);
  for (int i = 0; i < n; i++) d->scores[i] = (float)output[i];
  capl_ctc_scores scores = {.scores = d->scores, .T = model_steps(m, w), .K = meta->classes, .blank = meta->characters};
  capl_ctc_limits limits = {.min_length = d->length_min, .max_length = d->length_max, .allowed = d->limited ? d->allowed : NULL};
  capl_ctc_text text = {.classes = d->classes, .confidences = d->sure};
  int64_t found;
  capl_status status = d->beam > 0 ? capl_ctc_beam(&scores, &limits, d->beam, 0, 1, &text, &found) : capl_ctc_greedy(&scores, &limits, &text);
  if (status == CAPL_OK) {
    take_text(meta, &text, reading);
    return;
  }
  *reading = (capl_reading){.status = status};
  snprintf(reading->error, sizeof reading->error, "%.400s: %.600s", model_path(m), capl_error_last()->message);
}

void model_decode(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  *reading = (capl_reading){.confidence = 1};
  if (model_decoding_of(m)->searching) decode_search(m, output, w, reading);
  else decode_path(m, output, w, reading);
}
