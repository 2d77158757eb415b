/* canvas.c -- filling outlines, gradients, noise.
**
** An outline is filled a row at a time: each edge adds, to the pixels it passes, the change in covered area that it
** makes, and a running sum over the row gives every pixel's share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/scenes/canvas.h"

#include <string.h>

#include "synth/random.h"
#include "data/image.h"
#include "synth/portable_math.h"

/* ---- the canvas ------------------------------------------------------------------------------ */

size_t canvas_bytes(int width, int height)
{
  return (3 * (size_t)width * (size_t)height + CANVAS_ROWS * ((size_t)width + 2)) * sizeof(float) + 64;
}

capl_status canvas_open(canvas *c, int width, int height, uint8_t *mask, capl_image *scratch)
{
  CAPL_TRY(capl_image_resize(scratch, (int)canvas_bytes(width, height), 1, 1));
  float *at = (float *)(void *)(scratch->pixels + (64 - (uintptr_t)scratch->pixels % 64) % 64);
  *c = (canvas){.width = width, .height = height, .mask = mask};
  for (int k = 0; k < 3; k++, at += (size_t)width * (size_t)height) c->plane[k] = at;
  for (int k = 0; k < CANVAS_ROWS; k++, at += width + 2) c->row[k] = at;
  return CAPL_OK;
}

static inline uint8_t to_level(float x)
{
  return (uint8_t)(portable_clamp(x, 0, 255) + 0.5f);
}

void canvas_write(const canvas *c, int channels, uint8_t *pixels)
{
  size_t n = (size_t)c->width * (size_t)c->height;
  const float *red = c->plane[0], *green = c->plane[1], *blue = c->plane[2];
  if (channels == 1) {
    for (size_t i = 0; i < n; i++) pixels[i] = capl_luma(to_level(red[i]), to_level(green[i]), to_level(blue[i]));
    return;
  }
  for (size_t i = 0; i < n; i++) {
    pixels[3 * i] = to_level(red[i]);
    pixels[3 * i + 1] = to_level(green[i]);
    pixels[3 * i + 2] = to_level(blue[i]);
  }
}

/* ---- colours --------------------------------------------------------------------------------- */

canvas_colour canvas_rgb(float red, float green, float blue)
{
  return (canvas_colour){{red, green, blue}};
}

canvas_colour canvas_mix(canvas_colour a, canvas_colour b, float share)
{
  for (int k = 0; k < 3; k++) a.level[k] = portable_mix(a.level[k], b.level[k], share);
  return a;
}

canvas_colour canvas_hsv(float hue, float saturation, float value)
{
  canvas_colour c;
  for (int k = 0; k < 3; k++) {
    float place = (hue + (float)(3 - k) / 3) * 6; /* of six parts of the circle: two up, one each way, two down */
    place -= 6 * (float)portable_floor(place / 6);
    float away = place < 3 ? place : 6 - place; /* 0 = this colour, 3 = its opposite */
    c.level[k] = 255 * value * (1 - saturation * portable_clamp(away - 1, 0, 1));
  }
  return c;
}

canvas_colour canvas_roll_hsv(capl_rng *rng, float hue_lo, float hue_hi, float saturation_lo, float saturation_hi,
                              float value_lo, float value_hi)
{
  float hue = random_uniform(rng, hue_lo, hue_hi), saturation = random_uniform(rng, saturation_lo, saturation_hi);
  return canvas_hsv(hue, saturation, random_uniform(rng, value_lo, value_hi));
}

canvas_paint canvas_flat(canvas_colour colour, float alpha, int label)
{
  return (canvas_paint){.colour = colour, .alpha = alpha, .label = label};
}

/* ---- filling --------------------------------------------------------------------------------- */

/* The columns of a row that edges touched: lo..hi, both included. */
typedef struct {
  float *change;
  int lo, hi, width;
} cover;

static void touch(cover *c, int lo, int hi)
{
  if (lo < c->lo) c->lo = lo;
  if (hi > c->hi) c->hi = hi;
}

/* An edge that stays within one column covers the part of it to its right. */
static void add_within(cover *c, int column, float x0, float x1, float height)
{
  float left = 0.5f * (x0 + x1) - (float)column;
  c->change[column] += height - height * left;
  c->change[column + 1] += height * left;
  touch(c, column, column + 1);
}

/* An edge over several columns is cut at each of them. */
static void add_across(cover *c, float x0, float x1, float height)
{
  float lo = x0 < x1 ? x0 : x1, hi = x0 < x1 ? x1 : x0, slope = height / (hi - lo);
  int last = portable_floor(hi);
  for (int column = portable_floor(lo); column <= last && lo < hi; column++) {
    float to = hi < (float)(column + 1) ? hi : (float)(column + 1);
    add_within(c, column, lo, to, slope * (to - lo));
    lo = to;
  }
}

/* The part of an edge inside row y; what lies left or right of the canvas counts at its border. */
static void add_edge(cover *c, canvas_point a, canvas_point b, float y)
{
  float sign = 1;
  if (a.y > b.y) {
    canvas_point t = a;
    a = b, b = t, sign = -1;
  }
  float top = a.y > y ? a.y : y, bottom = b.y < y + 1 ? b.y : y + 1;
  if (top >= bottom) return;
  float slope = (b.x - a.x) / (b.y - a.y), width = (float)c->width;
  float x0 = portable_clamp(a.x + slope * (top - a.y), 0, width),
      x1 = portable_clamp(a.x + slope * (bottom - a.y), 0, width);
  if (portable_floor(x0) == portable_floor(x1)) add_within(c, portable_floor(x0), x0, x1, sign * (bottom - top));
  else add_across(c, x0, x1, sign * (bottom - top));
}

/* Changes of area into covered shares, times alpha. */
static void settle(cover *c, float alpha)
{
  float sum = 0;
  for (int x = c->lo; x <= c->hi; x++) {
    sum += c->change[x];
    float share = sum < 0 ? -sum : sum;
    c->change[x] = (share < 1 ? share : 1) * alpha;
  }
}

static void paint_mask(const canvas *c, const cover *covered, int y, const canvas_paint *paint)
{
  uint8_t *restrict mask = c->mask + (size_t)y * (size_t)c->width;
  const float *restrict share = covered->change;
  float half = 0.5f * paint->alpha;
  uint8_t label = (uint8_t)paint->label;
  for (int x = covered->lo; x <= covered->hi; x++) mask[x] = share[x] >= half ? label : mask[x];
}

/* Nothing of it outside a class. */
static void keep_inside(const canvas *c, const cover *covered, int y, int label)
{
  const uint8_t *restrict mask = c->mask + (size_t)y * (size_t)c->width;
  float *restrict share = covered->change;
  for (int x = covered->lo; x <= covered->hi; x++) share[x] = mask[x] == label ? share[x] : 0;
}

static void paint_row(const canvas *c, const cover *covered, int y, const canvas_paint *p)
{
  const float *restrict share = covered->change;
  float *restrict noise = c->row[1];
  int lo = covered->lo, hi = covered->hi;
  if (p->noise != 0) {
    memset(noise + lo, 0, (size_t)(hi - lo + 1) * sizeof *noise);
    canvas_noise_row(p->noise_key, (float)lo, (float)y, hi - lo + 1, p->cell_x, p->cell_y, p->noise, noise + lo);
  }
  for (int k = 0; k < 3; k++) {
    float *restrict to = c->plane[k] + (size_t)y * (size_t)c->width;
    float fade = p->fade.level[k] * p->along.x;
    float level = p->colour.level[k] + p->fade.level[k]
        * ((0.5f - p->from.x) * p->along.x + ((float)y + 0.5f - p->from.y) * p->along.y);
    if (p->noise != 0)
      for (int x = lo; x <= hi; x++) to[x] += (level + fade * (float)x + noise[x] - to[x]) * share[x];
    else
      for (int x = lo; x <= hi; x++) to[x] += (level + fade * (float)x - to[x]) * share[x];
  }
  if (c->mask && p->label >= 0) paint_mask(c, covered, y, p);
}

static void rows_of(const outline *o, int height, int *top, int *bottom)
{
  float lo = o->point[0].y, hi = lo;
  for (int i = 1; i < o->n; i++) {
    if (o->point[i].y < lo) lo = o->point[i].y;
    if (o->point[i].y > hi) hi = o->point[i].y;
  }
  *top = lo < 0 ? 0 : lo >= (float)height ? height : portable_floor(lo);
  *bottom = hi < 0 ? 0 : hi >= (float)height ? height : portable_floor(hi) + 1;
}

void canvas_fill(canvas *c, const outline *o, const canvas_paint *paint)
{
  int top, bottom;
  if (o->n < 3) return;
  rows_of(o, c->height, &top, &bottom);
  memset(c->row[0], 0, ((size_t)c->width + 2) * sizeof(float));
  for (int y = top; y < bottom; y++) {
    cover covered = {.change = c->row[0], .lo = c->width, .hi = -1, .width = c->width};
    for (int i = 0; i < o->n; i++) add_edge(&covered, o->point[i], o->point[i + 1 < o->n ? i + 1 : 0], (float)y);
    if (covered.hi < covered.lo) continue;
    int touched = covered.hi;
    if (covered.hi >= c->width) covered.hi = c->width - 1; /* the sum's rest, right of the canvas */
    settle(&covered, paint->alpha);
    if (c->mask && paint->inside) keep_inside(c, &covered, y, paint->inside - 1);
    paint_row(c, &covered, y, paint);
    memset(covered.change + covered.lo, 0, (size_t)(touched - covered.lo + 1) * sizeof(float));
  }
}

/* ---- spots and gradients --------------------------------------------------------------------- */

/* Columns or rows lo..hi-1 of size that lie within reach of at. */
static void reach(float at, float far, int size, int *lo, int *hi)
{
  *lo = (int)portable_clamp(at - far, 0, (float)size);
  *hi = (int)portable_clamp(at + far + 1, 0, (float)size);
}

void canvas_spot(canvas *c, const canvas_frame *f, float x, float y, float rx, float ry, float core,
                 canvas_colour amount, int only)
{
  canvas_point at = canvas_place(f, x, y);
  float determinant = f->xx * f->yy - f->xy * f->yx, largest = rx > ry ? rx : ry;
  float far_x = largest * (fabsf(f->xx) + fabsf(f->xy)), far_y = largest * (fabsf(f->yx) + fabsf(f->yy));
  float ux = f->yy / determinant / rx, uy = -f->xy / determinant / rx;
  float vx = -f->yx / determinant / ry, vy = f->xx / determinant / ry, sharp = 1 / (1 - core * core);
  int left, right, top, bottom;
  reach(at.x, far_x, c->width, &left, &right);
  reach(at.y, far_y, c->height, &top, &bottom);
  for (int row = top; row < bottom; row++) {
    float *restrict weight = c->row[0];
    float dy = (float)row + 0.5f - at.y;
    const uint8_t *mask = c->mask ? c->mask + (size_t)row * (size_t)c->width : NULL;
    for (int column = left; column < right; column++) {
      float dx = (float)column + 0.5f - at.x, u = ux * dx + uy * dy, v = vx * dx + vy * dy;
      float t = portable_clamp((1 - (u * u + v * v)) * sharp, 0, 1);
      weight[column] = t * t * (3 - 2 * t);
    }
    if (mask && only >= 0)
      for (int column = left; column < right; column++) weight[column] = mask[column] == only ? weight[column] : 0;
    for (int k = 0; k < 3; k++) {
      float *restrict to = c->plane[k] + (size_t)row * (size_t)c->width, level = amount.level[k];
      for (int column = left; column < right; column++) to[column] += level * weight[column];
    }
  }
}

void canvas_gradient(canvas *c, const canvas_colour *colour, int n)
{
  for (int y = 0; y < c->height; y++) {
    float place = ((float)y + 0.5f) / (float)c->height * (float)(n - 1);
    int i = (int)place < n - 1 ? (int)place : n - 2;
    canvas_colour mixed = canvas_mix(colour[i], colour[i + 1], place - (float)i);
    for (int k = 0; k < 3; k++) {
      float *to = c->plane[k] + (size_t)y * (size_t)c->width;
      for (int x = 0; x < c->width; x++) to[x] = mixed.level[k];
    }
  }
}

/* ---- noise ----------------------------------------------------------------------------------- */

static inline float corner(uint32_t row_key, int column)
{
  return (float)(int32_t)portable_hash(row_key + (uint32_t)column) * 0x1p-31f;
}

void canvas_noise_row(uint32_t key, float x, float y, int n, float cell_x, float cell_y, float amplitude,
                      float *restrict row)
{
  float v = y / cell_y, per_x = 1 / cell_x;
  int line = portable_floor(v), column = portable_floor(x * per_x);
  float down = v - (float)line;
  down = down * down * (3 - 2 * down);
  uint32_t above = portable_hash(key ^ (uint32_t)line * 0x9e3779b9u),
      below = portable_hash(key ^ (uint32_t)(line + 1) * 0x9e3779b9u);
  float right = portable_mix(corner(above, column), corner(below, column), down);
  for (int i = 0; i < n; column++) {
    float left = right, cell = (float)column;
    right = portable_mix(corner(above, column + 1), corner(below, column + 1), down);
    float wide = (cell + 1) * cell_x - x, first = left * amplitude, more = (right - left) * amplitude;
    int end = wide >= (float)n ? n : (int)wide + 1;
    if (end > n) end = n;
    for (; i < end; i++) {
      float u = portable_clamp((x + (float)i) * per_x - cell, 0, 1);
      row[i] += first + more * (u * u * (3 - 2 * u));
    }
  }
}

void canvas_clouds(canvas *c, uint32_t key, float cell, float stretch, int octaves, canvas_colour amount)
{
  float *restrict noise = c->row[0];
  for (int y = 0; y < c->height; y++) {
    float size = cell, strength = 1;
    memset(noise, 0, (size_t)c->width * sizeof *noise);
    for (int i = 0; i < octaves; i++, size *= 0.5f, strength *= 0.5f)
      canvas_noise_row(key + (uint32_t)i * 0x9e3779b9u, 0, (float)y, c->width, size * stretch, size, strength, noise);
    for (int k = 0; k < 3; k++) {
      float *restrict to = c->plane[k] + (size_t)y * (size_t)c->width, level = amount.level[k];
      for (int x = 0; x < c->width; x++) to[x] += level * noise[x];
    }
  }
}

/* Four uniform bytes of a hash, summed: near enough to a bell, deviation 147.8. */
static inline float bell(uint32_t h)
{
  return (float)(int)((h & 255) + (h >> 8 & 255) + (h >> 16 & 255) + (h >> 24)) - 510;
}

void canvas_grain(canvas *c, uint32_t key, float deviation)
{
  float common = deviation * (0.9f / 147.8f), own = deviation * (0.45f / 73.9f); /* a byte's own deviation */
  float *restrict red = c->plane[0], *restrict green = c->plane[1], *restrict blue = c->plane[2];
  size_t n = (size_t)c->width * (size_t)c->height;
  for (size_t i = 0; i < n; i++) {
    uint32_t h = portable_hash(key + (uint32_t)i), each = h * 0x9e3779b1u;
    float all = common * bell(h);
    red[i] += all + own * ((float)(int)(each >> 24) - 127.5f);
    green[i] += all + own * ((float)(int)(each >> 16 & 255) - 127.5f);
    blue[i] += all + own * ((float)(int)(each >> 8 & 255) - 127.5f);
  }
}
