/* series.c -- fuzz target: any bytes as a CSV file of a time series. The first byte chooses window, horizon and columns.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include <math.h>

/* Every number of every window is finite: what is missing was filled. */
static void check_part(capl_series *series, capl_series_part part, int width)
{
  capl_source *source;
  capl_status status = capl_source_series_new(series, part, &source);
  fuzz_status(status);
  if (status != CAPL_OK) return;
  float *input = malloc(((size_t)width + 1) * sizeof *input), value[2] = {0};
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    FUZZ_CHECK(capl_source_read(source, 0, i, &(capl_sample){.field = {input, value}}) == CAPL_OK);
    FUZZ_CHECK(capl_source_name(source, i) && isfinite(value[0]) && isfinite(value[1]));
    for (int k = 0; k < width; k++) FUZZ_CHECK(isfinite(input[k]));
  }
  free(input);
  capl_source_unref(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const features[] = {"y", "x"};
  if (size == 0) return 0;
  capl_series *series;
  capl_series_options o = {.targets = features, .n_targets = 1 + (data[0] >> 6 & 1), .window = 1 + (data[0] & 3), .horizon = 1 + (data[0] >> 2 & 1), .unscaled = data[0] >> 3 & 1};
  if (data[0] & 16) o.features = features, o.n_features = 2;
  if (data[0] & 32) o.train = 1;
  capl_status status = capl_series_read(fuzz_file(data + 1, size - 1), &o, &series);
  fuzz_status(status);
  if (status != CAPL_OK) return 0;
  capl_series_facts facts;
  capl_series_facts_get(series, &facts);
  for (int part = 0; part < CAPL_SERIES_PARTS; part++) check_part(series, (capl_series_part)part, o.window * facts.n_features);
  capl_series_unref(series);
  return 0;
}
