/* text.c -- texts: a character at each of `length` places, or time steps that CTC reads. Keys charset, decoding,
** length; of CTC blank, length_min, length_max. Output (T,K), of places also in fewer dims; K: the charset, of CTC with
** the blank behind it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/text.h"
#include "fields/kind.h"

enum { ARGMAX, CTC, STEPS_MAX = 1 << 16 };

typedef struct {
  int decoding;
  int characters, classes; /* of the vocabulary; K */
  int length_min, length;
  int64_t steps; /* of the greatest width */
  struct {
    int beam, length_min, length_max;
    uint8_t *allowed; /* [K] flags; NULL = all are; owned */
  } set;
} text_own;

/* ---- the description --------------------------------------------------------------------------- */

/* Ranges mean nothing here: a '-' is a '-'. */
static capl_status read_charset(const field_keys *k, model_field *f, text_own *t)
{
  const cJSON *charset = keys_get(k, "charset");
  capl_status read = CAPL_EFORMAT;
  if (cJSON_IsString(charset)) read = capl_vocab_symbols(charset->valuestring, &f->vocab);
  if (read == CAPL_ENOMEM) return read;
  if (read != CAPL_OK)
    return keys_wrong(k, "charset", "1 to 65536 different visible characters", charset);
  t->characters = t->classes = capl_vocab_count(f->vocab);
  return CAPL_OK;
}

/* Texts of length_min to length_max characters; the blank is the class behind the charset, and said for readers. */
static capl_status read_ctc(const field_keys *k, text_own *t)
{
  const cJSON *blank = keys_get(k, "blank");
  char wanted[96];
  t->classes = t->characters + 1;
  snprintf(wanted, sizeof wanted, "%d, the class after the %d characters of the charset", t->characters, t->characters);
  if (!cJSON_IsNumber(blank) || blank->valuedouble != t->characters) return keys_wrong(k, "blank", wanted, blank);
  CAPL_TRY(keys_whole(k, "length_max", CAPL_LABEL_MAX, &t->length));
  CAPL_TRY(keys_whole(k, "length_min", CAPL_LABEL_MAX, &t->length_min));
  if (t->length_min > t->length) return keys_wrong(k, "length_min", "at most length_max", keys_get(k, "length_min"));
  return CAPL_OK;
}

static capl_status read(const field_keys *k, model_field *f)
{
  static const char *const words[] = {"argmax", "ctc", NULL};
  text_own *t = f->own;
  CAPL_TRY(keys_word(k, "decoding", words, &t->decoding));
  CAPL_TRY(read_charset(k, f, t));
  if (t->decoding == CTC) return read_ctc(k, t);
  CAPL_TRY(keys_whole(k, "length", CAPL_LABEL_MAX, &t->length));
  t->length_min = t->length;
  return CAPL_OK;
}

static void fini(model_field *f) { free(((text_own *)f->own)->set.allowed); }

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  text_own *t = f->own;
  int64_t numbers = (int64_t)field_numbers(ndim, size);
  if (t->decoding == ARGMAX) return ndim >= 1 && numbers == (int64_t)t->length * t->classes;
  if (ndim != 2 || size[1] != t->classes || size[0] < 1 || size[0] > STEPS_MAX) return false;
  if (size[0] > t->steps) t->steps = size[0];
  return true;
}

static void expects(const model_field *f, char *text, size_t room)
{
  const text_own *t = f->own;
  if (t->decoding == CTC)
    snprintf(text, room, "time steps of %d characters and a blank: (N,T,%d)", t->characters, t->classes);
  else snprintf(text, room, "%d characters out of a charset of %d: (N,%d,%d)", t->length, t->classes, t->length, t->classes);
}

/* ---- options of reading ------------------------------------------------------------------------ */

static capl_status allow(const model_field *f, const capl_vocab *characters, uint8_t *allowed)
{
  const text_own *t = f->own;
  char all[128];
  for (int32_t i = 0; i < capl_vocab_count(characters); i++) {
    const char *name = capl_vocab_name(characters, i);
    int32_t id = capl_vocab_find(f->vocab, name, strlen(name));
    if (id < 0) return CAPL_FAIL(CAPL_EVALUE, "the model reads no '%s': its charset is %s", name,
                                 capl_vocab_describe(f->vocab, all, sizeof all));
    allowed[id] = 1;
  }
  if (t->classes > t->characters) allowed[t->characters] = 1; /* the blank */
  return CAPL_OK;
}

/* *allowed: caller frees. */
static capl_status read_characters(const model_field *f, const char *spec, uint8_t **allowed)
{
  const text_own *t = f->own;
  capl_vocab *characters;
  *allowed = NULL;
  if (!spec) return CAPL_OK;
  CAPL_TRY(capl_vocab_charset(spec, &characters));
  uint8_t *flags = calloc((size_t)t->classes, 1);
  capl_status status = flags ? allow(f, characters, flags)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for the characters to read");
  capl_vocab_unref(characters);
  if (status == CAPL_OK) *allowed = flags;
  else free(flags);
  return status;
}

static capl_status check_lengths(const text_own *t, const capl_text_decoding *o)
{
  int least = o->length_min, most = o->length_max;
  if (least < 0 || most < 0 || (most > 0 && least > most))
    return CAPL_FAIL(CAPL_EVALUE, "a text has no %d to %d characters", least, most);
  if (t->decoding == ARGMAX) {
    bool fitting = least <= t->length && (most == 0 || most >= t->length);
    return fitting ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "the model reads %d characters off each image, not %d to %d",
                                         t->length, least, most);
  }
  if (least <= t->steps && most <= CAPL_READING_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE,
                   "texts of %d to %d characters: the model has %d time steps, and a text %d characters at most", least,
                   most, (int)t->steps, CAPL_READING_MAX);
}

static capl_status set_decoding(model_field *f, const capl_text_decoding *o)
{
  text_own *t = f->own;
  uint8_t *allowed;
  if (o->beam < 0 || o->beam > 4096) return CAPL_FAIL(CAPL_EVALUE, "a beam has 1 to 4096 texts, not %d", o->beam);
  if (o->beam > 0 && t->decoding != CTC)
    return CAPL_FAIL(CAPL_EVALUE, "a beam search is for CTC; this model has a character at each place");
  CAPL_TRY(check_lengths(t, o));
  CAPL_TRY(read_characters(f, o->characters, &allowed));
  free(t->set.allowed);
  t->set.beam = o->beam, t->set.length_min = o->length_min, t->set.length_max = o->length_max;
  t->set.allowed = allowed;
  return CAPL_OK;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* A text as it is put together: room for `most` symbols. */
typedef struct {
  char *text, *to;
  float *sure;
  int length;
} writing;

static capl_status begin(int64_t most, base_room **room, writing *w)
{
  size_t n = (size_t)(most < CAPL_READING_MAX ? most : CAPL_READING_MAX);
  w->to = w->text = room_alloc(room, 4 * n + 1);
  w->sure = room_alloc(room, n * sizeof *w->sure + 1);
  return w->text && w->sure ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a text of %zu characters", n);
}

/* Appends class k's symbol; at its end the text is cut. */
static void add_character(const model_field *f, writing *w, int32_t k, double share)
{
  if (w->length == CAPL_READING_MAX) return;
  w->to = stpcpy(w->to, capl_vocab_name(f->vocab, k));
  w->sure[w->length++] = (float)share;
}

static void finish(const writing *w, double confidence, capl_output *out)
{
  out->text = w->text, out->length = w->length, out->sure = w->sure, out->confidence = confidence;
}

/* Class of the greatest of K numbers (first of ties), and its softmax value. */
static int best_class(const double *row, int classes, const uint8_t *allowed, double *share)
{
  int best = 0;
  while (allowed && best < classes - 1 && !allowed[best]) best++;
  double sum = 0;
  for (int k = 0; k < classes; k++)
    if (row[k] > row[best] && (!allowed || allowed[k])) best = k;
  for (int k = 0; k < classes; k++) sum += exp(row[k] - row[best]);
  *share = 1 / sum;
  return best;
}

/* A character at each place. */
static capl_status decode_places(const model_field *f, const double *numbers, base_room **room, capl_output *out)
{
  const text_own *t = f->own;
  writing w = {0};
  double confidence = 1, share;
  CAPL_TRY(begin(t->length, room, &w));
  for (int i = 0; i < t->length; i++) {
    int k = best_class(numbers + (size_t)i * (size_t)t->classes, t->classes, t->set.allowed, &share);
    add_character(f, &w, k, share);
    confidence *= share;
  }
  return finish(&w, confidence, out), CAPL_OK;
}

/* The best path's text, or the beam's, within the limits; as sure as all its paths together are probable. scratch: for
** the scores of T steps, and what they are read as. */
static capl_status read_paths(const model_field *f, const double *numbers, int64_t T, float *scratch, base_room **room,
                              capl_output *out)
{
  const text_own *t = f->own;
  size_t all = (size_t)T * (size_t)t->classes;
  for (size_t i = 0; i < all; i++) scratch[i] = (float)numbers[i];
  capl_ctc_scores scores = {.scores = scratch, .T = T, .K = t->classes, .blank = t->characters};
  capl_ctc_text text = {.confidences = scratch + all, .classes = (int32_t *)(void *)(scratch + all + T)};
  capl_ctc_limits limits = {.min_length = t->set.length_min, .max_length = t->set.length_max,
                            .allowed = t->set.allowed};
  int64_t found;
  CAPL_TRY(t->set.beam > 0 ? capl_ctc_beam(&scores, &limits, t->set.beam, 0, 1, &text, &found)
                           : capl_ctc_greedy(&scores, &limits, &text));
  writing w = {0};
  CAPL_TRY(begin(text.length, room, &w));
  for (int64_t i = 0; i < text.length; i++) add_character(f, &w, text.classes[i], (double)text.confidences[i]);
  return finish(&w, exp(text.log_prob), out), CAPL_OK;
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  const text_own *t = f->own;
  (void)place;
  if (!field_finite(s->numbers, field_numbers(s->ndim, s->size))) return field_not_finite();
  if (t->decoding == ARGMAX) return decode_places(f, s->numbers, room, out);
  size_t n = (size_t)s->size[0];
  float *scratch = malloc(n * ((size_t)t->classes + 2) * sizeof *scratch); /* scores, confidences, classes */
  capl_status status = scratch ? read_paths(f, s->numbers, s->size[0], scratch, room, out)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory to decode this image's output");
  free(scratch);
  return status;
}

const field_kind field_kind_text = {.name = "text", .own_size = sizeof(text_own), .spelled = true, .first = true,
                                    .read = read, .fini = fini, .fits = fits, .expects = expects,
                                    .decode = decode, .decoding = set_decoding};
