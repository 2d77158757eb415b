/* augment.c -- rotate, scale, shift, shear, contrast, brightness, invert and noise in one pass over u8 images.
**
** Per sample a row of parameters is drawn (each op from its own Philox stream, so that switching one on does not
** shift the others). Geometry is one inverse affine map in 16.16 coordinates with 8-bit fractions: integers up to
** the colour step, hence the same bytes on every machine. Colour is one multiplication and addition per value.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capl/rng.h"
#include "data/streams.h"

/* ORDER ops: an op's place is the number of its random stream; append only. */
typedef enum { ROTATE, SCALE, TRANSLATE_X, TRANSLATE_Y, SHEAR, CONTRAST, BRIGHTNESS, NOISE, INVERT, N_OPS } op;

enum { FRACTION = 16, ONE = 1 << FRACTION };

typedef capl_augment_draw draw;

/* ---- options --------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  size_t offset;
  float least, most;
} limit;

/* ORDER ops, those that have a range */
static const limit limits[] = {
  {"rotate", offsetof(capl_augment_options, rotate), -360, 360},
  {"scale", offsetof(capl_augment_options, scale), 0.05f, 20},
  {"translate_x", offsetof(capl_augment_options, translate_x), -1, 1},
  {"translate_y", offsetof(capl_augment_options, translate_y), -1, 1},
  {"shear", offsetof(capl_augment_options, shear), -80, 80},
  {"contrast", offsetof(capl_augment_options, contrast), 0, 100},
  {"brightness", offsetof(capl_augment_options, brightness), 0, 100},
  {"noise", offsetof(capl_augment_options, noise), 0, 255},
};
_Static_assert(sizeof limits / sizeof limits[0] == INVERT, "every op with a range has a limit");

static capl_range range_of(const capl_augment_options *options, op which)
{
  return *(const capl_range *)((const char *)options + limits[which].offset);
}

static bool is_on(capl_range range)
{
  return range.lo != 0 || range.hi != 0;
}

static capl_status check_range(const limit *limit, capl_range range)
{
  if (!is_on(range)) return CAPL_OK;
  if (!isfinite(range.lo) || !isfinite(range.hi)) return CAPL_FAIL(CAPL_EVALUE, "augment: %s is not a finite range", limit->name);
  if (range.lo > range.hi) return CAPL_FAIL(CAPL_EVALUE, "augment: %s runs backwards: %g to %g", limit->name, range.lo, range.hi);
  if (range.lo >= limit->least && range.hi <= limit->most) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: %s is %g to %g; it must lie within %g to %g", limit->name, range.lo, range.hi,
                   limit->least, limit->most);
}

capl_status capl_augment_check(const capl_augment_options *options)
{
  for (int which = 0; which < INVERT; which++) {
    CAPL_TRY(check_range(&limits[which], range_of(options, (op)which)));
  }
  if (options->invert >= 0 && options->invert <= 1) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: invert is %g; a probability is 0 to 1", options->invert);
}

/* ---- drawing parameters ---------------------------------------------------------------------- */

typedef struct {
  const capl_augment_options *options;
  uint64_t seed;
  uint32_t epoch, sample;
} origin;

static capl_rng stream(const origin *from, op which)
{
  capl_rng rng;
  capl_rng_init(&rng, from->seed, from->sample, from->epoch, CAPL_STREAM_AUGMENT + which);
  return rng;
}

static float pick(const origin *from, op which, float when_off)
{
  capl_range range = range_of(from->options, which);
  if (!is_on(range)) return when_off;
  capl_rng rng = stream(from, which);
  return range.lo + (range.hi - range.lo) * capl_rng_float(&rng);
}

static double radians(double degrees)
{
  return degrees * 3.14159265358979323846 / 180;
}

/* The inverse of: shear rows, scale, rotate, shift, about the centre of the image. */
static void draw_geometry(const origin *from, int height, int width, draw *d)
{
  double angle = radians(pick(from, ROTATE, 0)), shear = tan(radians(pick(from, SHEAR, 0)));
  double scale = pick(from, SCALE, 1);
  double shift_x = pick(from, TRANSLATE_X, 0) * width, shift_y = pick(from, TRANSLATE_Y, 0) * height;
  double c = cos(angle) / scale, s = sin(angle) / scale;
  double centre_x = (width - 1) / 2.0, centre_y = (height - 1) / 2.0;
  double *m = d->map;
  /* Rows run downwards, so turning back counter-clockwise is (c, -s; s, c). */
  m[3] = s;
  m[4] = c;
  m[0] = c - shear * m[3];
  m[1] = -s - shear * m[4];
  m[2] = centre_x - m[0] * (centre_x + shift_x) - m[1] * (centre_y + shift_y);
  m[5] = centre_y - m[3] * (centre_x + shift_x) - m[4] * (centre_y + shift_y);
  d->moves = angle != 0 || shear != 0 || scale != 1 || shift_x != 0 || shift_y != 0;
}

static uint64_t sum_of(const uint8_t *level, size_t n)
{
  enum { BLOCK = 1 << 16 }; /* its sum fits 32 bits, which vectorise */
  uint64_t sum = 0;
  for (size_t from = 0; from < n; from += BLOCK) {
    size_t end = from + BLOCK < n ? from + BLOCK : n;
    uint32_t block = 0;
    for (size_t i = from; i < end; i++) block += level[i];
    sum += block;
  }
  return sum;
}

float capl_augment_mean(const uint8_t *in, size_t n, int channels)
{
  if (channels == 1) return (float)((double)sum_of(in, n) / (double)n);
  uint64_t red = 0, green = 0, blue = 0;
  for (size_t i = 0; i < n; i++) {
    red += in[3 * i];
    green += in[3 * i + 1];
    blue += in[3 * i + 2];
  }
  return (float)((0.299 * (double)red + 0.587 * (double)green + 0.114 * (double)blue) / (double)n);
}

bool capl_augment_needs_mean(const capl_augment_options *options)
{
  return is_on(options->contrast);
}

static void draw_colour(const origin *from, float mean, draw *d)
{
  float contrast = pick(from, CONTRAST, 1), brightness = pick(from, BRIGHTNESS, 1);
  d->gain = contrast * brightness;
  d->lift = contrast != 1 ? (1 - contrast) * mean * brightness : 0;
  capl_rng rng = stream(from, INVERT);
  if (from->options->invert > 0 && capl_rng_float(&rng) < from->options->invert) {
    d->gain = -d->gain;
    d->lift = 255 - d->lift;
  }
  d->noise = pick(from, NOISE, 0);
  rng = stream(from, NOISE);
  (void)capl_rng_u32(&rng); /* the first number chose the strength */
  d->noise_key = capl_rng_u32(&rng);
}

draw capl_augment_roll(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample, int height,
                       int width, float mean)
{
  origin from = {options, seed, epoch, sample};
  draw d = {0};
  draw_geometry(&from, height, width, &d);
  draw_colour(&from, mean, &d);
  d.any = d.moves || d.gain != 1 || d.lift != 0 || d.noise > 0;
  return d;
}

/* ---- scratch --------------------------------------------------------------------------------- */

capl_status capl_augment_scratch_init(capl_augment_scratch *scratch, int height, int width, int channels)
{
  size_t w = (size_t)width;
  *scratch = (capl_augment_scratch){.width = width, .height = height, .channels = channels};
  scratch->padded = malloc((w + 3) * (size_t)(height + 3) * (size_t)channels);
  scratch->at = malloc(w * sizeof(int32_t));
  scratch->part_x = malloc(w * sizeof(int32_t));
  scratch->part_y = malloc(w * sizeof(int32_t));
  scratch->value = malloc(w * (size_t)channels * sizeof(int32_t));
  if (scratch->padded && scratch->at && scratch->part_x && scratch->part_y && scratch->value) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory to augment images of %d x %d px", width, height);
}

void capl_augment_scratch_fini(capl_augment_scratch *scratch)
{
  free(scratch->padded);
  free(scratch->at);
  free(scratch->part_x);
  free(scratch->part_y);
  free(scratch->value);
  *scratch = (capl_augment_scratch){0};
}

static int clamp(int value, int least, int most)
{
  return value < least ? least : value > most ? most : value;
}

/* The source with one pixel of surroundings before and two after each side, so that sampling tests no bounds. */
static void pad(const capl_augment_options *options, const uint8_t *in, capl_augment_scratch *s)
{
  size_t c = (size_t)s->channels, row_bytes = (size_t)(s->width + 3) * c, inner = (size_t)s->width * c;
  for (int y = -1; y <= s->height + 1; y++) {
    uint8_t *to = s->padded + (size_t)(y + 1) * row_bytes;
    const uint8_t *from = in + (size_t)clamp(y, 0, s->height - 1) * inner;
    if (options->fill) {
      memset(to, options->fill_value, row_bytes);
      if (y >= 0 && y < s->height) memcpy(to + c, from, inner);
      continue;
    }
    memcpy(to, from, c);
    memcpy(to + c, from, inner);
    memcpy(to + c + inner, from + inner - c, c);
    memcpy(to + 2 * c + inner, from + inner - c, c);
  }
}

/* ---- one row --------------------------------------------------------------------------------- */

/* coordinate[x] = start + x * step in the padded source, kept within one pixel of the source: beyond it nothing
** changes. 64 bits are needed only far outside; 32 vectorise. */
static void follow(double from, double step, int last, int n, int32_t *restrict coordinate)
{
  int64_t start = llrint(from * ONE);
  int32_t pace = (int32_t)lrint(step * ONE), most = (last + 1) << FRACTION;
  int64_t end = start + (int64_t)pace * n;
  if (llabs(start) < INT32_MAX / 2 && llabs(end) < INT32_MAX / 2) {
    int32_t first = (int32_t)start + ONE;
    for (int x = 0; x < n; x++) {
      int32_t at = first + x * pace;
      at = at > 0 ? at : 0;
      coordinate[x] = at < most ? at : most;
    }
  } else {
    for (int x = 0; x < n; x++) {
      int64_t at = start + ONE + (int64_t)x * pace;
      coordinate[x] = (int32_t)(at < 0 ? 0 : at > most ? most : at);
    }
  }
}

/* Where output row y reads from. */
static void locate_row(const draw *d, int y, capl_augment_scratch *s)
{
  int32_t *restrict at = s->at, *restrict u = s->part_x, *restrict v = s->part_y;
  int stride = s->width + 3, channels = s->channels;
  follow(d->map[1] * y + d->map[2], d->map[0], s->width, s->width, u);
  follow(d->map[4] * y + d->map[5], d->map[3], s->height, s->width, v);
  for (int x = 0; x < s->width; x++) {
    at[x] = ((v[x] >> FRACTION) * stride + (u[x] >> FRACTION)) * channels;
    u[x] = u[x] >> 8 & 255;
    v[x] = v[x] >> 8 & 255;
  }
}

/* Gray is worth its own loop: the general one spends as much on counting channels. */
static void sample_gray(const capl_augment_scratch *s, int32_t *restrict value)
{
  int stride = s->width + 3;
  for (int x = 0; x < s->width; x++) {
    const uint8_t *p = s->padded + s->at[x];
    int fx = s->part_x[x], fy = s->part_y[x];
    int above = p[0] * (256 - fx) + p[1] * fx;
    int below = p[stride] * (256 - fx) + p[stride + 1] * fx;
    value[x] = above * (256 - fy) + below * fy;
  }
}

static void sample_colours(const capl_augment_scratch *s, int32_t *restrict value)
{
  int c = s->channels, stride = (s->width + 3) * c;
  for (int x = 0; x < s->width; x++) {
    const uint8_t *p = s->padded + s->at[x];
    int fx = s->part_x[x], fy = s->part_y[x];
    for (int k = 0; k < c; k++) {
      int above = p[k] * (256 - fx) + p[k + c] * fx;
      int below = p[k + stride] * (256 - fx) + p[k + stride + c] * fx;
      value[x * c + k] = above * (256 - fy) + below * fy;
    }
  }
}

static void sample_row(capl_augment_scratch *s)
{
  if (s->channels == 1) {
    sample_gray(s, s->value);
  } else {
    sample_colours(s, s->value);
  }
}

static void copy_row(const uint8_t *row, capl_augment_scratch *s)
{
  for (int i = 0; i < s->width * s->channels; i++) s->value[i] = row[i] << FRACTION;
}

static inline float clip(float level)
{
  level = level > 0 ? level : 0;
  return level < 255 ? level : 255;
}

static void colour_row(const draw *d, const int32_t *restrict value, int n, uint8_t *restrict out)
{
  float gain = d->gain * (1.0f / ONE), lift = d->lift;
  for (int i = 0; i < n; i++) out[i] = (uint8_t)(int)(clip((float)value[i] * gain + lift) + 0.5f);
}

/* A counter well stirred (a 32-bit integer hash by multiplication and shifts). */
static inline uint32_t stir(uint32_t x)
{
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

/* The sum of four random bytes: mean 510, deviation 147.8, close enough to a normal for pixel noise. */
static inline float bell(uint32_t counter, uint32_t key)
{
  uint32_t r = stir(stir(counter) + key);
  int sum = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24));
  return (float)(sum - 510) * (1 / 147.8f);
}

static void noisy_row(const draw *d, const int32_t *restrict value, int n, uint32_t first, uint8_t *restrict out)
{
  float gain = d->gain * (1.0f / ONE), lift = d->lift, sigma = d->noise;
  for (int i = 0; i < n; i++) {
    float level = clip((float)value[i] * gain + lift) + sigma * bell(first + (uint32_t)i, d->noise_key);
    out[i] = (uint8_t)(int)(clip(level) + 0.5f);
  }
}

/* ---- one image ------------------------------------------------------------------------------- */

bool capl_augment_run(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample, const uint8_t *in,
                      capl_augment_scratch *s, uint8_t *out)
{
  size_t n_pixels = (size_t)s->height * (size_t)s->width;
  float mean = capl_augment_needs_mean(options) ? capl_augment_mean(in, n_pixels, s->channels) : 0;
  draw d = capl_augment_roll(options, seed, epoch, sample, s->height, s->width, mean);
  int row = s->width * s->channels;
  if (!d.any) {
    memcpy(out, in, (size_t)s->height * (size_t)row);
    return false;
  }
  if (d.moves) pad(options, in, s);
  for (int y = 0; y < s->height; y++) {
    size_t start = (size_t)y * (size_t)row;
    if (d.moves) {
      locate_row(&d, y, s);
      sample_row(s);
    } else {
      copy_row(in + start, s);
    }
    if (d.noise > 0) {
      noisy_row(&d, s->value, row, (uint32_t)start, out + start);
    } else {
      colour_row(&d, s->value, row, out + start);
    }
  }
  return true;
}

capl_status capl_augment_image(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                               const uint8_t *in, int height, int width, int channels, uint8_t *out, bool *changed)
{
  CAPL_TRY(capl_augment_check(options));
  if (width < 1 || height < 1 || width > 16384 || height > 16384 || (channels != 1 && channels != 3)) {
    return CAPL_FAIL(CAPL_EVALUE, "augment: cannot work on %d x %d px of %d channels", width, height, channels);
  }
  capl_augment_scratch scratch;
  capl_status status = capl_augment_scratch_init(&scratch, height, width, channels);
  if (status == CAPL_OK) {
    bool any = capl_augment_run(options, seed, epoch, sample, in, &scratch, out);
    if (changed) *changed = any;
  }
  capl_augment_scratch_fini(&scratch);
  return status;
}
