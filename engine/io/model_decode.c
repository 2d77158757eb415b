/* model_decode.c -- what a model's output for one image says: a text or a class, and how sure the model is of it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/text.h"
#include "io/model_run.h"

/* ---- what is looked for ------------------------------------------------------------------------ */

static capl_status no_such_character(const model_meta *meta, const char *wrong)
{
  char all[128];
  return CAPL_FAIL(CAPL_EVALUE, "the model reads no '%s': its charset is %s", wrong,
                   capl_vocab_describe(meta->vocab, all, sizeof all));
}

static capl_status allow(const model_meta *meta, const capl_vocab *characters, uint8_t *allowed)
{
  for (int32_t i = 0; i < capl_vocab_count(characters); i++) {
    const char *name = capl_vocab_name(characters, i);
    int32_t id = capl_vocab_find(meta->vocab, name, strlen(name));
    if (id < 0) return no_such_character(meta, name);
    allowed[id] = 1;
  }
  if (meta->classes > meta->characters) allowed[meta->characters] = 1; /* the blank */
  return CAPL_OK;
}

/* *allowed: caller frees. */
static capl_status read_characters(const model_meta *meta, const char *spec, uint8_t **allowed)
{
  capl_vocab *characters;
  *allowed = NULL;
  if (!spec) return CAPL_OK;
  CAPL_TRY(capl_vocab_charset(spec, &characters));
  uint8_t *flags = calloc((size_t)meta->classes, 1);
  capl_status status = flags ? allow(meta, characters, flags)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for the characters to read");
  capl_vocab_unref(characters);
  if (status == CAPL_OK) *allowed = flags;
  else free(flags);
  return status;
}

/* How anything else is read has no options. */
static capl_status no_text(const capl_model *m, const capl_model_decoding *o)
{
  static const char *const gives[] = {"texts", "classes", "numbers", "points"}; /* ORDER capl_model_kind */
  if (o->beam == 0 && !o->characters && o->length_min == 0 && o->length_max == 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "beam, characters and length are for texts; %s gives %s", model_path(m),
                   gives[model_meta_of(m)->kind]);
}

static capl_status check_lengths(const capl_model *m, const capl_model_decoding *o)
{
  const model_meta *meta = model_meta_of(m);
  int least = o->length_min, most = o->length_max, steps = model_steps(m, model_widths(m) - 1);
  if (least < 0 || most < 0 || (most > 0 && least > most))
    return CAPL_FAIL(CAPL_EVALUE, "a text has no %d to %d characters", least, most);
  if (meta->decoding == META_ARGMAX) {
    bool fits = least <= meta->length && (most == 0 || most >= meta->length);
    return fits ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "the model reads %d characters off each image, not %d to %d",
                                      meta->length, least, most);
  }
  if (least <= steps && most <= CAPL_READING_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE,
                   "texts of %d to %d characters: the model has %d time steps, and a text %d characters at most", least,
                   most, steps, CAPL_READING_MAX);
}

capl_status capl_model_decoding_set(capl_model *m, const capl_model_decoding *o)
{
  model_decoding *d = model_decoding_of(m);
  bool ctc = model_meta_of(m)->decoding == META_CTC;
  uint8_t *allowed;
  free(d->allowed);
  *d = (model_decoding){0};
  if (!o) return CAPL_OK;
  if (model_meta_of(m)->kind != CAPL_MODEL_TEXT) return no_text(m, o);
  if (o->beam < 0 || o->beam > 4096) return CAPL_FAIL(CAPL_EVALUE, "a beam has 1 to 4096 texts, not %d", o->beam);
  if (o->beam > 0 && !ctc)
    return CAPL_FAIL(CAPL_EVALUE, "a beam search is for CTC; this model has a character at each place");
  CAPL_TRY(check_lengths(m, o));
  CAPL_TRY(read_characters(model_meta_of(m), o->characters, &allowed));
  *d = (model_decoding){o->beam, o->length_min, o->length_max, allowed};
  return CAPL_OK;
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

/* Appends class k's symbol; at `to` the text ends. */
static void add_character(const model_meta *meta, capl_reading *reading, char **to, int32_t k, double share)
{
  if (reading->length == CAPL_READING_MAX) return;
  *to = stpcpy(*to, capl_vocab_name(meta->vocab, k));
  reading->sure[reading->length++] = (float)share;
}

/* A character at each place. */
static void decode_places(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  const model_decoding *d = model_decoding_of(m);
  char *to = reading->text;
  *reading = (capl_reading){.confidence = 1};
  for (int t = 0; t < steps; t++) {
    double share = 0;
    int k = best_class(output + (size_t)t * (size_t)meta->classes, meta->classes, d->allowed,
                       &share);
    if (k < 0) return not_finite(m, reading);
    add_character(meta, reading, &to, k, share);
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

/* The best path's text, or the beam's, within the limits; as sure as all its paths together are probable. room: scores
** of n steps, and what they are read as. */
static void read_paths(const capl_model *m, const double *output, size_t n, float *room, capl_reading *reading)
{
  const model_meta *meta = model_meta_of(m);
  const model_decoding *d = model_decoding_of(m);
  size_t all = n * (size_t)meta->classes;
  if (!to_floats(output, all, room)) return not_finite(m, reading);
  capl_ctc_scores scores = {.scores = room, .T = (int64_t)n, .K = meta->classes, .blank = meta->characters};
  capl_ctc_text text = {.confidences = room + all, .classes = (int32_t *)(void *)(room + all + n)};
  capl_ctc_limits limits = {.min_length = d->length_min, .max_length = d->length_max,
                            .allowed = d->allowed};
  int64_t found;
  capl_status status = d->beam > 0 ? capl_ctc_beam(&scores, &limits, d->beam, 0, 1, &text, &found)
      : capl_ctc_greedy(&scores, &limits, &text);
  if (status != CAPL_OK) return model_reading_fail(reading, status, capl_error_last()->message);
  *reading = (capl_reading){.confidence = exp(text.log_prob)};
  char *to = reading->text;
  for (int64_t i = 0; i < text.length; i++)
    add_character(meta, reading, &to, text.classes[i], text.confidences[i]);
}

static void decode_paths(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  size_t n = (size_t)steps;
  float *room = malloc(n * ((size_t)model_meta_of(m)->classes + 2) * sizeof *room); /* scores, confidences, classes */
  if (room) read_paths(m, output, n, room, reading);
  else model_reading_fail(reading, CAPL_ENOMEM, "no memory to decode this image's output");
  free(room);
}

/* ---- classes ----------------------------------------------------------------------------------- */

/* Puts class k where its score belongs among the best so far; of equal ones the first stays first. */
static void keep_best(const double *scores, int32_t k, capl_reading *reading)
{
  int at = reading->n_top;
  while (at > 0 && scores[k] > scores[reading->top[at - 1].id]) at--;
  if (at == CAPL_TOP_MAX) return;
  if (reading->n_top < CAPL_TOP_MAX) reading->n_top++;
  memmove(reading->top + at + 1, reading->top + at, (size_t)(reading->n_top - at - 1) * sizeof *reading->top);
  reading->top[at] = (capl_class_score){.id = k};
}

static void decode_class(const capl_model *m, const double *scores, int steps, capl_reading *reading)
{
  (void)steps;
  const model_meta *meta = model_meta_of(m);
  double sum = 0;
  *reading = (capl_reading){.length = 1};
  for (int32_t k = 0; k < meta->classes; k++) {
    if (!isfinite(scores[k])) return not_finite(m, reading);
    keep_best(scores, k, reading);
  }
  double most = scores[reading->top[0].id];
  for (int k = 0; k < meta->classes; k++) sum += exp(scores[k] - most);
  for (int i = 0; i < reading->n_top; i++) {
    capl_class_score *c = &reading->top[i];
    c->name = capl_vocab_name(meta->vocab, c->id);
    c->probability = (float)(exp(scores[c->id] - most) / sum);
  }
  snprintf(reading->text, sizeof reading->text, "%s", reading->top[0].name);
  reading->confidence = 1 / sum;
  reading->sure[0] = (float)reading->confidence;
}

/* ---- numbers and points ------------------------------------------------------------------------ */

static void decode_numbers(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  (void)steps;
  const model_meta *meta = model_meta_of(m);
  *reading = (capl_reading){.n_values = meta->classes};
  for (int k = 0; k < meta->classes; k++) {
    if (!isfinite(output[k])) return not_finite(m, reading);
    reading->values[k] = output[k] * meta->std[k] + meta->mean[k];
  }
}

/* In px of the model's input; model_run.c brings them to those of the image. */
static void decode_points(const capl_model *m, const double *output, int steps, capl_reading *reading)
{
  (void)steps;
  *reading = (capl_reading){.n_values = 2 * model_meta_of(m)->classes};
  for (int k = 0; k < reading->n_values; k++) {
    if (!isfinite(output[k])) return not_finite(m, reading);
    reading->values[k] = output[k];
  }
}

typedef void decoder(const capl_model *m, const double *output, int steps, capl_reading *reading);

void model_decode(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  static decoder *const of_kind[] = {decode_places, decode_class, decode_numbers, decode_points}; /* ORDER
                                                                                                  ** capl_model_kind */
  const model_meta *meta = model_meta_of(m);
  bool paths = meta->kind == CAPL_MODEL_TEXT && meta->decoding == META_CTC;
  (paths ? decode_paths : of_kind[meta->kind])(m, output, model_steps(m, w), reading);
}
