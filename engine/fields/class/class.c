/* class.c -- one class of several: key classes, their names. Output (K): a score for each.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fields/kind.h"

static capl_status read(const field_keys *k, model_field *f)
{
  return keys_names(k, "classes", CAPL_VOCAB_MAX, &f->vocab);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim >= 1 && (int64_t)field_numbers(ndim, size) == capl_vocab_count(f->vocab);
}

static void expects(const model_field *f, char *text, size_t room)
{
  int K = capl_vocab_count(f->vocab);
  snprintf(text, room, "one of %d classes: (N,%d)", K, K);
}

/* Puts class k where its score belongs among the best n so far; of equal ones the first stays first. */
static int keep_best(const double *scores, int32_t k, capl_class_score *top, int n)
{
  int at = n;
  while (at > 0 && scores[k] > scores[top[at - 1].id]) at--;
  if (at == CAPL_TOP_MAX) return n;
  if (n < CAPL_TOP_MAX) n++;
  memmove(top + at + 1, top + at, (size_t)(n - at - 1) * sizeof *top);
  top[at] = (capl_class_score){.id = k};
  return n;
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  (void)place;
  int K = capl_vocab_count(f->vocab), n = 0;
  if (!field_finite(s->numbers, (size_t)K)) return field_not_finite();
  capl_class_score *top = room_alloc(room, CAPL_TOP_MAX * sizeof *top);
  if (!top) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d classes", CAPL_TOP_MAX);
  for (int32_t k = 0; k < K; k++) n = keep_best(s->numbers, k, top, n);
  double sum = 0, most = s->numbers[top[0].id];
  for (int k = 0; k < K; k++) sum += exp(s->numbers[k] - most);
  for (int i = 0; i < n; i++) {
    top[i].name = capl_vocab_name(f->vocab, top[i].id);
    top[i].probability = (float)(exp(s->numbers[top[i].id] - most) / sum);
  }
  out->text = top[0].name, out->confidence = 1 / sum, out->top = top, out->n_top = n;
  return CAPL_OK;
}

const field_kind field_kind_class = {.name = "class", .read = read, .fits = fits, .expects = expects,
                                     .decode = decode};
