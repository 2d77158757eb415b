/* classes.c -- several classes at once: keys classes, their names, and threshold (0.5). Output (K): the logit of each;
** an image has those whose sigmoid is at least threshold.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields/kind.h"

typedef struct {
  double threshold;
} classes_own;

static capl_status read(const field_keys *k, model_field *f)
{
  CAPL_TRY(keys_names(k, "classes", CAPL_VOCAB_MAX, &f->vocab));
  return keys_number(k, "threshold", 0, 1, 0.5, &((classes_own *)f->own)->threshold);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim >= 1 && (int64_t)field_numbers(ndim, size) == capl_vocab_count(f->vocab);
}

static void expects(const model_field *f, char *text, size_t room)
{
  int K = capl_vocab_count(f->vocab);
  snprintf(text, room, "any of %d classes: (N,%d)", K, K);
}

static int by_probability(const void *a, const void *b)
{
  const capl_class_score *x = a, *y = b;
  if (x->probability != y->probability) return x->probability < y->probability ? 1 : -1;
  return x->id - y->id;
}

/* "first, second"; NULL: no memory */
static const char *join(const capl_class_score *top, int n, base_room **room)
{
  size_t bytes = 1;
  for (int i = 0; i < n; i++) bytes += strlen(top[i].name) + 2;
  char *text = room_alloc(room, bytes), *to = text;
  for (int i = 0; text && i < n; i++) to = stpcpy(stpcpy(to, i ? ", " : ""), top[i].name);
  return text;
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  (void)place;
  double threshold = ((classes_own *)f->own)->threshold;
  int K = capl_vocab_count(f->vocab), n = 0;
  if (!field_finite(s->numbers, (size_t)K)) return field_not_finite();
  capl_class_score *top = room_alloc(room, (size_t)K * sizeof *top);
  double *all = room_alloc(room, (size_t)K * sizeof *all);
  if (!top || !all) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d classes", K);
  out->confidence = 1;
  for (int32_t k = 0; k < K; k++) {
    double p = all[k] = 1 / (1 + exp(-s->numbers[k]));
    bool there = p >= threshold;
    out->confidence *= there ? p : 1 - p;
    if (there) top[n++] = (capl_class_score){k, capl_vocab_name(f->vocab, k), (float)p};
  }
  qsort(top, (size_t)n, sizeof *top, by_probability);
  out->top = top, out->n_top = n, out->text = join(top, n, room);
  out->values = all, out->n_values = K, out->per_row = 1;
  return out->text ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the names of %d classes", n);
}

const field_kind field_kind_classes = {.name = "classes", .own_size = sizeof(classes_own), .read = read, .fits = fits,
                                       .expects = expects, .decode = decode};
