/* resize.c -- resizing of u8 images, in the two passes of Pillow: columns first, rows after.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/image.h"
#include "data/resample.h"

/* (H,W,C) -> (W,H,C) floats, so that mixing lines mixes columns. */
static void turn_levels(const uint8_t *in, int height, int width, int channels, float *out)
{
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++)
        out[((size_t)x * (size_t)height + (size_t)y) * (size_t)channels + (size_t)c] = *in++;
}

/* Halves go up, as in Pillow. */
static float clamp_round(float v)
{
  v = v > 0 ? v : 0;
  return (float)(int)((v < 255 ? v : 255) + 0.5f);
}

/* (W,H,C) -> (H,W,C), rounded to levels as Pillow does between its passes. */
static void turn_back(const float *in, int height, int width, int channels, float *out)
{
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++)
        *out++ = clamp_round(in[((size_t)x * (size_t)height + (size_t)y) * (size_t)channels + (size_t)c]);
}

static capl_status resize_lines(const float *in, int n_in, int n_out, int length, float *out)
{
  capl_taps taps;
  float shrink = (float)n_in / (float)n_out;
  capl_status status = capl_taps_init(&taps, n_out, shrink);
  if (status == CAPL_OK) {
    capl_taps_set(&taps, n_in, n_out);
    capl_taps_mix(&taps, n_out, in, length, out, length, length);
  }
  capl_taps_fini(&taps);
  return status;
}

/* a, b: room for the turned image before and after each pass. */
static capl_status resize(const uint8_t *in, int in_width, int in_height, int channels, int width, int height, float *a,
                          float *b, uint8_t *out)
{
  turn_levels(in, in_height, in_width, channels, a);
  CAPL_TRY(resize_lines(a, in_width, width, in_height * channels, b));
  turn_back(b, in_height, width, channels, a);
  CAPL_TRY(resize_lines(a, in_height, height, width * channels, b));
  size_t n = (size_t)width * (size_t)height * (size_t)channels;
  for (size_t i = 0; i < n; i++) out[i] = (uint8_t)clamp_round(b[i]);
  return CAPL_OK;
}

static size_t larger(int a, int b)
{
  return (size_t)(a > b ? a : b);
}

capl_status resize_image(const uint8_t *in, int in_width, int in_height, int channels, int width, int height,
                         uint8_t *out)
{
  if (in_width == width && in_height == height) {
    memcpy(out, in, (size_t)width * (size_t)height * (size_t)channels);
    return CAPL_OK;
  }
  if (in_width / FIT_SHRINK_MAX > width || in_height / FIT_SHRINK_MAX > height)
    return CAPL_FAIL(CAPL_EVALUE, "the image is %d x %d px, more than %d times the %d x %d px to fit it to", in_width,
                     in_height, FIT_SHRINK_MAX, width, height);
  size_t n_a = larger(in_width, width) * (size_t)in_height * (size_t)channels;
  size_t n_b = (size_t)width * larger(in_height, height) * (size_t)channels;
  float *room = malloc((n_a + n_b) * sizeof *room);
  capl_status status = room ? resize(in, in_width, in_height, channels, width, height, room, room + n_a, out)
                            : CAPL_FAIL(CAPL_ENOMEM, "no memory to resize an image of %d x %d px", in_width, in_height);
  free(room);
  return status;
}

static int at_least_one(double px) { return px < 1 ? 1 : (int)(px + 0.5); }

resize_area resize_place(const capl_letterbox *how, int in_width, int in_height, int width, int height)
{
  resize_area area = {0, 0, width, height};
  if (!how->on) return area;
  double wide = (double)width / in_width, high = (double)height / in_height;
  if (wide < high) area.height = at_least_one(wide * in_height);
  else area.width = at_least_one(high * in_width);
  if (!how->top_left) area.left = (width - area.width) / 2, area.top = (height - area.height) / 2;
  return area;
}

/* From the last row on, as image and sample lie in one place. */
void resize_surround(const capl_letterbox *how, const resize_area *area, int channels, int width, int height,
                     uint8_t *out)
{
  size_t C = (size_t)channels, row = (size_t)area->width * C, left = (size_t)area->left * C;
  if (area->width == width && area->height == height) return;
  for (int y = height - 1; y >= 0; y--) {
    uint8_t *to = out + (size_t)y * (size_t)width * C;
    bool has_image = y >= area->top && y < area->top + area->height;
    if (has_image) memmove(to + left, out + (size_t)(y - area->top) * row, row);
    for (size_t i = 0; i < (size_t)width * C; i++)
      if (!has_image || i < left || i >= left + row) to[i] = how->fill[i % C];
  }
}

capl_status resize_fit(const capl_letterbox *how, const uint8_t *in, int in_width, int in_height, int channels,
                       int width, int height, uint8_t *out)
{
  resize_area area = resize_place(how, in_width, in_height, width, height);
  CAPL_TRY(resize_image(in, in_width, in_height, channels, area.width, area.height, out));
  resize_surround(how, &area, channels, width, height, out);
  return CAPL_OK;
}

int resize_choose(int in_width, int in_height, int height, const int *widths, int n, int *used)
{
  double wanted = floor((double)in_width * height / in_height + 0.5);
  int w = 0;
  while (w < n - 1 && widths[w] < wanted) w++;
  *used = wanted < 1 ? 1 : wanted < widths[w] ? (int)wanted : widths[w];
  return w;
}

/* Median of the last column of an image (H,W,C) in channel c. */
static uint8_t edge_level(const uint8_t *image, int width, int height, int channels, int c)
{
  int count[256] = {0}, below = 0, level = 0;
  for (int y = 0; y < height; y++)
    count[image[((size_t)y * (size_t)width + (size_t)width - 1) * (size_t)channels + (size_t)c]]++;
  while ((below += count[level]) * 2 < height) level++;
  return (uint8_t)level;
}

/* Rows of `used` pixels become rows of `width`, from the last on as they lie in one place. */
static void spread_rows(uint8_t *out, int used, int width, int height, int channels)
{
  uint8_t edge[3];
  size_t from = (size_t)used * (size_t)channels, to = (size_t)width * (size_t)channels;
  for (int c = 0; c < channels; c++) edge[c] = edge_level(out, used, height, channels, c);
  for (int y = height - 1; y >= 0; y--) {
    memmove(out + (size_t)y * to, out + (size_t)y * from, from);
    for (size_t i = from; i < to; i++) out[(size_t)y * to + i] = edge[i % (size_t)channels];
  }
}

capl_status resize_padded(const uint8_t *in, int in_width, int in_height, int channels, int used, int width, int height,
                          uint8_t *out)
{
  CAPL_TRY(resize_image(in, in_width, in_height, channels, used, height, out));
  if (used < width) spread_rows(out, used, width, height, channels);
  return CAPL_OK;
}

void resize_channels(const uint8_t *in, size_t n_pixels, int in_channels, int channels, uint8_t *out)
{
  if (in_channels == channels) {
    memcpy(out, in, n_pixels * (size_t)channels);
  } else if (channels == 1) {
    for (size_t i = 0; i < n_pixels; i++) out[i] = capl_luma(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
  } else {
    for (size_t i = 0; i < n_pixels; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
  }
}
