/* numbers.c -- numbers in their units: keys numbers, their names, mean and std. Output (D): value = output * std +
** mean; as an input (value - mean) / std.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields/numbers/scaled.h"

#include <stdio.h>

static capl_status read(const field_keys *k, model_field *f) { return scaled_read(k, "numbers", f); }

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim >= 1 && (int64_t)field_numbers(ndim, size) == capl_vocab_count(f->vocab);
}

static void expects(const model_field *f, char *text, size_t room)
{
  int D = capl_vocab_count(f->vocab);
  snprintf(text, room, "%d numbers: (N,%d)", D, D);
}

const field_kind field_kind_numbers = {.name = "numbers", .own_size = sizeof(scaled), .read = read, .fini = scaled_fini,
                                       .fits = fits, .expects = expects, .decode = scaled_decode,
                                       .encode = scaled_encode};
