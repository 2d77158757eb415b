/* resample.c -- bicubic taps and the mixing of lines.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/resample.h"

#include <math.h>
#include <stdlib.h>

static const float support = 2.0f; /* px on each side, before widening */

capl_status capl_taps_init(capl_taps *taps, int max_out, float max_shrink)
{
  int max_taps = 2 * (int)ceilf(support * fmaxf(max_shrink, 1.0f)) + 2;
  *taps = (capl_taps){.max_out = max_out, .max_taps = max_taps};
  taps->first = malloc((size_t)max_out * sizeof *taps->first);
  taps->count = malloc((size_t)max_out * sizeof *taps->count);
  taps->weight = malloc((size_t)max_out * (size_t)max_taps * sizeof *taps->weight);
  if (taps->first && taps->count && taps->weight) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d x %d resampling taps", max_out, max_taps);
}

void capl_taps_fini(capl_taps *taps)
{
  free(taps->first);
  free(taps->count);
  free(taps->weight);
}

static float cubic(float x)
{
  x = fabsf(x);
  if (x < 1) return (1.5f * x - 2.5f) * x * x + 1;
  if (x < 2) return ((-0.5f * x + 2.5f) * x - 4) * x + 2;
  return 0;
}

void capl_taps_set(capl_taps *taps, int n_in, int n_out)
{
  float scale = (float)n_in / (float)n_out;
  float widen = scale < 1 ? 1 : scale;
  for (int i = 0; i < n_out; i++) {
    float centre = ((float)i + 0.5f) * scale;
    int first = (int)(centre - support * widen + 0.5f);
    int end = (int)(centre + support * widen + 0.5f);
    if (first < 0) first = 0;
    if (end > n_in) end = n_in;
    if (end - first > taps->max_taps) end = first + taps->max_taps;
    float *weight = taps->weight + i * taps->max_taps, sum = 0;
    for (int k = first; k < end; k++) sum += weight[k - first] = cubic(((float)k - centre + 0.5f) / widen);
    for (int k = first; k < end; k++) weight[k - first] /= sum;
    taps->first[i] = first;
    taps->count[i] = end - first;
  }
}

/* Four lines at a time: nearly every output line of an enlargement has exactly four. */
static void set4(const float *w, const float *restrict in, int stride, float *restrict out, int length)
{
  const float *a = in, *b = a + stride, *c = b + stride, *d = c + stride;
  for (int i = 0; i < length; i++) out[i] = w[0] * a[i] + w[1] * b[i] + w[2] * c[i] + w[3] * d[i];
}

static void add1(float w, const float *restrict in, float *restrict out, int length)
{
  for (int i = 0; i < length; i++) out[i] += w * in[i];
}

void capl_taps_mix(const capl_taps *taps, int n_out, const float *in, int in_stride, float *out, int out_stride,
                   int length)
{
  for (int i = 0; i < n_out; i++) {
    const float *weight = taps->weight + i * taps->max_taps;
    const float *line = in + (size_t)taps->first[i] * (size_t)in_stride;
    float *to = out + (size_t)i * (size_t)out_stride;
    int k = 0;
    if (taps->count[i] >= 4) {
      set4(weight, line, in_stride, to, length);
      k = 4;
    } else {
      for (int j = 0; j < length; j++) to[j] = 0;
    }
    for (; k < taps->count[i]; k++) add1(weight[k], line + (size_t)k * (size_t)in_stride, to, length);
  }
}
