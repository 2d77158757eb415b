/* augment.c -- augments a sample: filters, geometry, colour, noise, mixing, erasing, band by band.
**
** A band is a few rows: they are made, mixed and normalized while they lie in the nearest cache. The loops over pixels
** are in augment_rows.c, its random numbers in augment_draw.c.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "data/augment_rows.h"

typedef capl_augment_draw draw;
typedef capl_augment_scratch scratch;

/* ---- scratch --------------------------------------------------------------------------------- */

static capl_status choose_kernels(const augment_kernels **kernels)
{
  capl_isa isa;
  CAPL_TRY(capl_isa_choose(&isa));
  *kernels = &augment_kernels_portable;
#if defined(__x86_64__)
  if (isa == CAPL_ISA_AVX512 && capl_isa_has_vbmi()) *kernels = &augment_kernels_avx512;
  else if (isa != CAPL_ISA_PORTABLE) *kernels = &augment_kernels_avx2;
#endif
  return CAPL_OK;
}

static size_t row_bytes(const scratch *s)
{
  return (size_t)s->width * (size_t)s->channels;
}

capl_status capl_augment_scratch_init(scratch *s, int height, int width, int channels)
{
  size_t w = (size_t)width, h = (size_t)height, c = (size_t)channels;
  *s = (scratch){.width = width, .height = height, .channels = channels};
  CAPL_TRY(choose_kernels(&s->kernels));
  s->stride = (w + 3 + AUGMENT_BEHIND) * c;
  s->padded = calloc(h + 3 + AUGMENT_BEHIND, s->stride);
  s->filtered = malloc(h * w * c);
  s->mixed = malloc(h * w * c);
  s->finished = malloc(h * w * c);
  s->blurred = malloc((w + 2 * AUGMENT_BLUR_MOST) * c + (2 * AUGMENT_BLUR_MOST + 1) * w * c);
  s->band = malloc(AUGMENT_BAND * w * c);
  s->nodes = malloc((size_t)capl_augment_nodes_across(width) * (size_t)capl_augment_nodes_across(height)
                    * 2 * sizeof(int32_t));
  s->lines = malloc(AUGMENT_BAND * (size_t)capl_augment_nodes_across(width) * 2 * sizeof(int32_t));
  s->value = malloc(w * c * sizeof(int32_t));
  if (s->kernels->wants_pairs && c == 1) s->pairs = calloc(h + 2 + AUGMENT_BEHIND, 2 * s->stride);
  if (s->padded && s->filtered && s->mixed && s->finished && s->blurred && s->band && s->nodes && s->lines
      && s->value &&
      (s->pairs || c == 3 || !s->kernels->wants_pairs))
    return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory to augment images of %d x %d px", width, height);
}

void capl_augment_scratch_width(scratch *s, int width)
{
  s->width = width;
  s->stride = (size_t)(width + 3 + AUGMENT_BEHIND) * (size_t)s->channels;
}

void capl_augment_scratch_fini(scratch *s)
{
  free(s->padded);
  free(s->filtered);
  free(s->mixed);
  free(s->finished);
  free(s->blurred);
  free(s->band);
  free(s->nodes);
  free(s->lines);
  free(s->pairs);
  free(s->value);
  *s = (scratch){0};
}

/* ---- the mean -------------------------------------------------------------------------------- */

static float mean_of(const augment_kernels *kernels, const uint8_t *in, size_t n, int channels)
{
  uint64_t sum[3] = {0};
  kernels->sums(in, n * (size_t)channels, sum);
  if (channels == 1) return (float)((double)(sum[0] + sum[1] + sum[2]) / (double)n);
  return (float)((0.299 * (double)sum[0] + 0.587 * (double)sum[1] + 0.114 * (double)sum[2]) / (double)n);
}

float capl_augment_mean(const uint8_t *in, size_t n, int channels)
{
  return mean_of(&augment_kernels_portable, in, n, channels);
}

/* ---- filters --------------------------------------------------------------------------------- */

static int clamp(int value, int least, int most)
{
  return value < least ? least : value > most ? most : value;
}

/* A row with its border repeated on both sides, blurred across. */
static void blur_row(const draw *d, const scratch *s, const uint8_t *row, uint8_t *out)
{
  size_t c = (size_t)s->channels, n = row_bytes(s), border = (size_t)d->blur_radius * c;
  uint8_t *wide = s->blurred;
  for (size_t i = 0; i < border; i += c) {
    memcpy(wide + i, row, c);
    memcpy(wide + border + n + i, row + n - c, c);
  }
  memcpy(wide + border, row, n);
  s->kernels->blur_across(d, wide, s->channels, n, out);
}

/* in may be filtered itself: a row is read before a row above it is written. */
static void blur(const draw *d, const scratch *s, const uint8_t *in)
{
  int radius = d->blur_radius, taps = 2 * radius + 1, made = 0;
  size_t n = row_bytes(s);
  uint8_t *ring = s->blurred + ((size_t)s->width + 2 * AUGMENT_BLUR_MOST) * (size_t)s->channels;
  const uint8_t *row[2 * AUGMENT_BLUR_MOST + 1];
  for (int y = 0; y < s->height; y++) {
    for (; made <= y + radius && made < s->height; made++)
      blur_row(d, s, in + (size_t)made * n, ring + (size_t)(made % taps) * n);
    for (int k = 0; k < taps; k++) row[k] = ring + (size_t)(clamp(y - radius + k, 0, s->height - 1) % taps) * n;
    s->kernels->blur_down(d, row, n, s->filtered + (size_t)y * n);
  }
}

/* The levels that geometry reads. */
static const uint8_t *filter(const draw *d, const scratch *s, const uint8_t *in)
{
  if (d->gamma != 1) {
    uint8_t table[256];
    size_t n = row_bytes(s) * (size_t)s->height;
    capl_augment_gamma(d->gamma, table);
    s->kernels->look_up(table, in, n, s->filtered);
    in = s->filtered;
  }
  if (d->blur_radius > 0) {
    blur(d, s, in);
    in = s->filtered;
  }
  return in;
}

void augment_pad(const uint8_t *in, int height, int width, int channels, int outside, size_t stride, uint8_t *out)
{
  size_t c = (size_t)channels, inner = (size_t)width * c;
  for (int y = -1; y <= height + 1; y++) {
    uint8_t *to = out + (size_t)(y + 1) * stride;
    const uint8_t *from = in + (size_t)clamp(y, 0, height - 1) * inner;
    if (outside >= 0) {
      memset(to, outside, inner + 3 * c);
      if (y >= 0 && y < height) memcpy(to + c, from, inner);
      continue;
    }
    memcpy(to, from, c);
    memcpy(to + c, from, inner);
    memcpy(to + c + inner, from + inner - c, c);
    memcpy(to + 2 * c + inner, from + inner - c, c);
  }
}

static void pad(const capl_augment_options *options, const uint8_t *in, const scratch *s)
{
  augment_pad(in, s->height, s->width, s->channels, options->fill ? options->fill_value : -1, s->stride, s->padded);
}

/* Each pixel and the one below it side by side: one load then reads four neighbours. */
static void pair_rows(const scratch *s)
{
  size_t n = (size_t)s->width + 3;
  for (int y = 0; y < s->height + 2; y++) {
    const uint8_t *restrict above = s->padded + (size_t)y * s->stride, *restrict below = above + s->stride;
    uint8_t *restrict to = s->pairs + (size_t)y * 2 * s->stride;
    for (size_t x = 0; x < n; x++) {
      to[2 * x] = above[x];
      to[2 * x + 1] = below[x];
    }
  }
}

/* ---- where a row reads from ------------------------------------------------------------------ */

/* Between the nodes above and below row y. */
static void begin_line(const augment_job *job, int y, int32_t *restrict line)
{
  int n = 2 * capl_augment_nodes_across(job->width), below = y % AUGMENT_CELL;
  const int32_t *node = job->nodes + (ptrdiff_t)(y / AUGMENT_CELL) * n;
  for (int i = 0; i < n; i++) line[i] = node[i] + ((node[n + i] - node[i]) >> 3) * below;
}

int32_t *augment_line(const augment_job *job, int k)
{
  return job->lines + (ptrdiff_t)k * 2 * capl_augment_nodes_across(job->width);
}

augment_course augment_course_of(const augment_job *job, int y, int32_t *line)
{
  const double *m = job->draw->map;
  if (job->draw->bends) {
    begin_line(job, y, line);
    return augment_course_on(line, 0);
  }
  return (augment_course){llrint((m[1] * y + m[2]) * AUGMENT_ONE) + AUGMENT_ONE,
                          llrint((m[4] * y + m[5]) * AUGMENT_ONE) + AUGMENT_ONE, (int32_t)lrint(m[0] * AUGMENT_ONE),
                          (int32_t)lrint(m[3] * AUGMENT_ONE)};
}

augment_job augment_job_of(const draw *d, scratch *s)
{
  const float unit = 1.0f / AUGMENT_ONE;
  augment_job job = {.draw = d, .width = s->width, .height = s->height, .channels = s->channels, .padded = s->padded,
                     .stride = s->stride, .pairs = s->pairs, .nodes = s->nodes, .lines = s->lines, .value = s->value,
                     .gain = d->gain * unit, .lift = d->lift};
  for (int i = 0; i < 9; i++) job.colour[i] = d->colour[i] * unit;
  if (d->bends) capl_augment_nodes(d, s->height, s->width, s->nodes);
  return job;
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* What happens to rows of levels once they are coloured. */
typedef struct {
  const draw *draw;     /* for mixing and erasing; NULL = neither */
  const uint8_t *other; /* levels of the sample it is mixed with */
  uint8_t erased;
  const capl_conversion *to; /* NULL = levels are kept as they are */
  uint8_t *out;              /* (H,W,C) levels, or values of to's type */
} finish;

static void overwrite(const scratch *s, capl_area a, int y, const uint8_t *other, int level, uint8_t *row)
{
  size_t c = (size_t)s->channels;
  if (y < a.y0 || y >= a.y1) return;
  size_t from = (size_t)a.x0 * c, n = (size_t)(a.x1 - a.x0) * c;
  if (other) memcpy(row + from, other + (size_t)y * row_bytes(s) + from, n);
  else memset(row + from, level, n);
}

static void finish_rows(const scratch *s, const finish *f, int y, int rows, uint8_t *levels)
{
  size_t n = row_bytes(s);
  const draw *d = f->draw;
  for (int k = 0; d && k < rows; k++) {
    uint8_t *row = levels + (size_t)k * n;
    if (d->mixing == CAPL_MIXUP) s->kernels->blend(f->other + (size_t)(y + k) * n, d->share, n, row);
    if (d->mixing == CAPL_CUTMIX) overwrite(s, d->cut, y + k, f->other, 0, row);
    overwrite(s, d->erased, y + k, NULL, f->erased, row);
  }
  if (!f->to) return;
  uint8_t *out = f->out + (size_t)y * n * capl_pixel_bytes(f->to->type);
  bool stream = capl_convert_streams((size_t)s->height * n * capl_pixel_bytes(f->to->type));
  capl_convert_part(f->to, levels, (size_t)rows * (size_t)s->width, s->channels, stream, out);
}

/* A draw's image, band by band. */
static void paint(const capl_augment_options *options, const draw *d, const uint8_t *in, scratch *s, const finish *f)
{
  size_t n = row_bytes(s);
  in = filter(d, s, in);
  bool warps = d->moves || (d->blends && s->channels == 3);
  if (warps) pad(options, in, s);
  if (warps && s->pairs) pair_rows(s);
  augment_job job = augment_job_of(d, s);
  for (int y = 0; y < s->height; y += AUGMENT_BAND) {
    int rows = s->height - y < AUGMENT_BAND ? s->height - y : AUGMENT_BAND;
    size_t at = (size_t)y * n;
    uint8_t *levels = f->to ? s->band : f->out + at;
    if (warps) s->kernels->warp(&job, y, rows, levels);
    else s->kernels->still(&job, in + at, (uint32_t)at, (size_t)rows * n, levels);
    finish_rows(s, f, y, rows, levels);
  }
}

/* ---- one sample ------------------------------------------------------------------------------ */

static draw roll(const capl_augment_options *options, const capl_augment_case *which, const scratch *s,
                 const uint8_t *in)
{
  size_t n_pixels = (size_t)s->height * (size_t)s->width;
  float mean = capl_augment_needs_mean(options) ? mean_of(s->kernels, in, n_pixels, s->channels) : 0;
  return capl_augment_roll(options, which->seed, which->epoch, which->sample, s->height, s->width, mean);
}

/* Standardizing needs the whole image first. */
static void paint_whole(const capl_augment_options *options, const draw *d, const uint8_t *in, scratch *s, finish f)
{
  const capl_conversion *to = f.to;
  bool late = to && to->norm == CAPL_NORM_STANDARDIZE && to->type != CAPL_PIXEL_U8;
  uint8_t *out = f.out;
  if (late) f.to = NULL, f.out = s->finished;
  paint(options, d, in, s, &f);
  if (late) capl_convert(to, s->finished, (size_t)s->height * (size_t)s->width, s->channels, out);
}

static void copy_sample(const capl_augment_layout *layout, const capl_sample *in, const capl_conversion *to,
                        const capl_sample *out)
{
  size_t n = (size_t)layout->height * (size_t)layout->width;
  if (to) capl_convert(to, in->pixels, n, layout->channels, out->pixels);
  else memcpy(out->pixels, in->pixels, n * (size_t)layout->channels);
  for (int i = 0; i < layout->n_fields; i++) {
    if (in->field[i] && out->field[i]) memcpy(out->field[i], in->field[i], capl_field_bytes(&layout->field[i]));
  }
}

capl_augment_result capl_augment_sample(const capl_augment_options *options, const capl_augment_case *which,
                                        const capl_augment_layout *layout, const capl_sample *in,
                                        const capl_sample *partner, uint32_t partner_id, const capl_conversion *to,
                                        scratch *s, const capl_sample *out)
{
  draw d = roll(options, which, s, in->pixels), other = {0};
  finish f = {.draw = &d, .erased = options->erase_value, .to = to, .out = out->pixels};
  if (!partner) d.mixing = CAPL_MIX_NONE, d.mix = 1, d.any = d.alone;
  if (!d.any) {
    copy_sample(layout, in, to, out);
    return (capl_augment_result){false, 1};
  }
  if (d.mixing != CAPL_MIX_NONE) {
    other = roll(options, &(capl_augment_case){which->seed, which->epoch, partner_id}, s, partner->pixels);
    paint(options, &other, partner->pixels, s, &(finish){.out = s->mixed});
    f.other = s->mixed;
  }
  paint_whole(options, &d, in->pixels, s, f);
  augment_fields(options, layout, &d, in, &other, d.mixing != CAPL_MIX_NONE ? partner : NULL, s, out);
  return (capl_augment_result){true, d.mix};
}

bool capl_augment_run(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                      const uint8_t *in, scratch *s, uint8_t *out)
{
  capl_augment_layout layout = {.width = s->width, .height = s->height, .channels = s->channels};
  capl_sample from = {.pixels = (uint8_t *)in}, to = {.pixels = out};
  return capl_augment_sample(options, &(capl_augment_case){seed, epoch, sample}, &layout, &from, NULL, 0, NULL, s,
                             &to).changed;
}

capl_status capl_augment_image(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                               const uint8_t *in, int height, int width, int channels, uint8_t *out, bool *changed)
{
  CAPL_TRY(capl_augment_check(options));
  if (width < 1 || height < 1 || width > 16384 || height > 16384 || (channels != 1 && channels != 3)) {
    return CAPL_FAIL(CAPL_EVALUE, "augment: cannot work on %d x %d px of %d channels", width, height, channels);
  }
  capl_augment_scratch s;
  capl_status status = capl_augment_scratch_init(&s, height, width, channels);
  if (status == CAPL_OK) {
    bool any = capl_augment_run(options, seed, epoch, sample, in, &s, out);
    if (changed) *changed = any;
  }
  capl_augment_scratch_fini(&s);
  return status;
}
