/* series.c -- numbers at each of several steps: keys series, their names, steps, mean and std. Output and input (T,D),
** scaled as kind numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>

#include "fields/numbers/scaled.h"

enum { STEPS_MAX = 1 << 16 };

typedef struct {
  scaled scale; /* first: what scaled.h knows */
  int steps;
} series_own;

static capl_status read(const field_keys *k, model_field *f)
{
  CAPL_TRY(scaled_read(k, "series", f));
  return keys_whole(k, "steps", STEPS_MAX, &((series_own *)f->own)->steps);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim == 2 && size[0] == ((series_own *)f->own)->steps && size[1] == capl_vocab_count(f->vocab);
}

static void expects(const model_field *f, char *text, size_t room)
{
  int T = ((const series_own *)f->own)->steps, D = capl_vocab_count(f->vocab);
  snprintf(text, room, "%d steps of %d numbers: (N,%d,%d)", T, D, T, D);
}

const field_kind field_kind_series = {.name = "series", .own_size = sizeof(series_own), .read = read,
                                      .fini = scaled_fini, .fits = fits, .expects = expects, .decode = scaled_decode,
                                      .encode = scaled_encode};
