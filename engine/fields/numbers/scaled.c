/* scaled.c -- numbers with names, each with its mean and standard deviation.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields/numbers/scaled.h"

#include <stdlib.h>

capl_status scaled_read(const field_keys *k, const char *key, model_field *f)
{
  scaled *own = f->own;
  CAPL_TRY(keys_names(k, key, SCALED_MAX, &f->vocab));
  int D = capl_vocab_count(f->vocab);
  own->mean = malloc((size_t)D * sizeof *own->mean);
  own->std = malloc((size_t)D * sizeof *own->std);
  if (!own->mean || !own->std) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the scaling of %d numbers", D);
  CAPL_TRY(keys_numbers(k, "mean", D, false, 0, own->mean));
  return keys_numbers(k, "std", D, true, 1, own->std);
}

void scaled_fini(model_field *f)
{
  scaled *own = f->own;
  free(own->mean);
  free(own->std);
}

capl_status scaled_decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  (void)place;
  const scaled *own = f->own;
  size_t D = (size_t)capl_vocab_count(f->vocab), n = field_numbers(s->ndim, s->size);
  if (!field_finite(s->numbers, n)) return field_not_finite();
  double *values = room_alloc(room, n * sizeof *values);
  if (!values) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %zu numbers", n);
  for (size_t i = 0; i < n; i++) values[i] = s->numbers[i] * own->std[i % D] + own->mean[i % D];
  out->values = values, out->n_values = (int)n, out->per_row = (int)D;
  return CAPL_OK;
}

void scaled_encode(const model_field *f, const float *in, size_t n, float *out)
{
  const scaled *own = f->own;
  size_t D = (size_t)capl_vocab_count(f->vocab);
  for (size_t i = 0; i < n; i++) out[i] = (float)(((double)in[i] - own->mean[i % D]) / own->std[i % D]);
}
