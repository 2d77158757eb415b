/* sheet.c -- drawing on an RGB image.
**
** Compiled without fused multiply-adds: they would round differently from processor to processor.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/sheet.h"

#include <math.h>
#include <string.h>

enum { FRACTION = 16, ONE = 1 << FRACTION, HALF = ONE / 2 }; /* coordinates in letters are 16.16 */

static int smaller(int a, int b)
{
  return a < b ? a : b;
}

static int larger(int a, int b)
{
  return a > b ? a : b;
}

static uint8_t *pixel(const captcha_sheet *sheet, int x, int y)
{
  return sheet->rgb + ((ptrdiff_t)y * sheet->width + x) * 3;
}

static void put(uint8_t *to, captcha_colour colour)
{
  to[0] = colour.rgb[0];
  to[1] = colour.rgb[1];
  to[2] = colour.rgb[2];
}

/* One level toward another, coverage 0..255, rounded. */
static inline uint8_t mix(uint8_t from, uint8_t to, uint32_t coverage)
{
  uint32_t sum = from * (255 - coverage) + to * coverage + 128;
  return (uint8_t)((sum + (sum >> 8)) >> 8);
}

static inline void cover(uint8_t *to, captcha_colour colour, uint32_t coverage)
{
  to[0] = mix(to[0], colour.rgb[0], coverage);
  to[1] = mix(to[1], colour.rgb[1], coverage);
  to[2] = mix(to[2], colour.rgb[2], coverage);
}

float captcha_sine(float degrees)
{
  double turn = (double)degrees / 360;
  turn -= floor(turn + 0.5); /* -0.5 .. 0.5 */
  if (turn > 0.25) turn = 0.5 - turn;
  if (turn < -0.25) turn = -0.5 - turn;
  double x = turn * 6.283185307179586, square = x * x, term = x, sum = x;
  for (int k = 2; k <= 12; k += 2) {
    term = -term * square / (k * (k + 1));
    sum += term;
  }
  return (float)sum;
}

/* ---- grounds --------------------------------------------------------------------------------- */

void captcha_sheet_box(const captcha_sheet *sheet, int x0, int y0, int x1, int y1, captcha_colour colour)
{
  x0 = larger(x0, 0), y0 = larger(y0, 0), x1 = smaller(x1, sheet->width - 1), y1 = smaller(y1, sheet->height - 1);
  if (x0 > x1 || y0 > y1) return;
  uint8_t *first = pixel(sheet, x0, y0);
  for (int x = 0; x <= x1 - x0; x++) put(first + x * 3, colour);
  for (int y = y0 + 1; y <= y1; y++) memcpy(pixel(sheet, x0, y), first, (size_t)(x1 - x0 + 1) * 3);
}

void captcha_sheet_fill(const captcha_sheet *sheet, captcha_colour colour)
{
  captcha_sheet_box(sheet, 0, 0, sheet->width - 1, sheet->height - 1, colour);
}

enum { SHADES = 256 };

static void list_shades(const captcha_stop *stop, captcha_colour shade[SHADES])
{
  for (int i = 0; i < SHADES; i++) {
    float at = (float)i / (SHADES - 1);
    while (stop[1].at < at) stop++;
    float share = (at - stop[0].at) / (stop[1].at - stop[0].at);
    for (int c = 0; c < 3; c++) {
      float from = stop[0].colour.rgb[c], to = stop[1].colour.rgb[c];
      shade[i].rgb[c] = (uint8_t)(from + (to - from) * share + 0.5f);
    }
  }
}

void captcha_sheet_gradient(const captcha_sheet *sheet, const captcha_stop *stop, captcha_spot toward)
{
  captcha_colour shade[SHADES];
  list_shades(stop, shade);
  float last_x = (float)(sheet->width - 1), last_y = (float)(sheet->height - 1);
  float span = fabsf(toward.x) * last_x + fabsf(toward.y) * last_y;
  int step_x = (int)(toward.x / span * (SHADES - 1) * ONE), step_y = (int)(toward.y / span * (SHADES - 1) * ONE);
  int start = (step_x < 0 ? -step_x * (sheet->width - 1) : 0) + (step_y < 0 ? -step_y * (sheet->height - 1) : 0);
  for (int y = 0; y < sheet->height; y++) {
    uint8_t *row = pixel(sheet, 0, y);
    int at = start + y * step_y + HALF;
    for (int x = 0; x < sheet->width; x++, at += step_x) put(row + x * 3, shade[smaller(at >> FRACTION, SHADES - 1)]);
  }
}

void captcha_sheet_grain(const captcha_sheet *sheet, float deviation, capl_rng *rng)
{
  int scale = (int)(deviation * 627); /* two bytes added vary by 104.5; 16 bits are shifted out */
  int n = sheet->width * sheet->height;
  uint32_t bits = 0;
  for (int i = 0; i < n; i++) {
    bits = i & 1 ? bits >> 16 : capl_rng_u32(rng);
    int more = (((int)(bits & 255) + (int)(bits >> 8 & 255) - 255) * scale) >> 16;
    for (int c = 0; c < 3; c++) {
      int level = sheet->rgb[i * 3 + c] + more;
      sheet->rgb[i * 3 + c] = (uint8_t)smaller(larger(level, 0), 255);
    }
  }
}

/* ---- lines ----------------------------------------------------------------------------------- */

void captcha_sheet_dot(const captcha_sheet *sheet, int x, int y, captcha_colour colour)
{
  if (x >= 0 && x < sheet->width && y >= 0 && y < sheet->height) put(pixel(sheet, x, y), colour);
}

void captcha_sheet_line(const captcha_sheet *sheet, int x0, int y0, int x1, int y1, captcha_colour colour)
{
  int dx = x1 > x0 ? x1 - x0 : x0 - x1, dy = y1 > y0 ? y0 - y1 : y1 - y0;
  int right = x0 < x1 ? 1 : -1, down = y0 < y1 ? 1 : -1, error = dx + dy;
  for (;;) {
    captcha_sheet_dot(sheet, x0, y0, colour);
    if (x0 == x1 && y0 == y1) return;
    int twice = 2 * error;
    if (twice >= dy) error += dy, x0 += right;
    if (twice <= dx) error += dx, y0 += down;
  }
}

/* In steps of less than a pixel; the point is turned step by step instead of by sines. */
void captcha_sheet_ellipse(const captcha_sheet *sheet, int x, int y, int half_w, int half_h, captcha_colour colour)
{
  int steps = (int)(7.5f * (float)larger(half_w, half_h)) + 8;
  float turn_cos = captcha_sine(90 - 360.0f / (float)steps), turn_sin = captcha_sine(360.0f / (float)steps);
  float c = 1, s = 0;
  for (int i = 0; i < steps; i++) {
    captcha_sheet_dot(sheet, x + (int)floorf((float)half_w * c + 0.5f), y + (int)floorf((float)half_h * s + 0.5f),
                      colour);
    float turned = c * turn_cos - s * turn_sin;
    s = s * turn_cos + c * turn_sin;
    c = turned;
  }
}

typedef struct {
  captcha_spot from;
  float dx, dy, length; /* of the way from its beginning to its end */
  float radius, growth; /* px at the beginning; px more at the end */
  bool soft;
} stroke;

/* Coverage of the pixel whose centre is (x, y), 0..255. */
static inline uint32_t stroke_coverage(const stroke *s, float x, float y)
{
  float rx = x - s->from.x, ry = y - s->from.y;
  float share = s->length > 0 ? (rx * s->dx + ry * s->dy) / (s->length * s->length) : 0;
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  float ex = rx - share * s->dx, ey = ry - share * s->dy;
  float inside = s->radius + share * s->growth - sqrtf(ex * ex + ey * ey);
  if (!s->soft) return inside >= 0 ? 255 : 0;
  inside += 0.5f;
  return inside <= 0 ? 0 : inside >= 1 ? 255 : (uint32_t)(inside * 255 + 0.5f);
}

/* The columns of row y (its centre) that the stroke may reach, within first..last. */
static void stroke_columns(const stroke *s, float y, float reach, int *first, int *last)
{
  if (fabsf(s->dy) < 0.01f * s->length || s->length == 0) return;
  float middle = s->from.x + (y - s->from.y) * s->dx / s->dy;
  float half = reach * s->length / fabsf(s->dy);
  *first = larger(*first, (int)floorf(fmaxf(middle - half, -1e6f)));
  *last = smaller(*last, (int)ceilf(fminf(middle + half, 1e6f)));
}

void captcha_sheet_stroke(const captcha_sheet *sheet, captcha_spot from, captcha_spot to, float width0, float width1,
                          bool soft, captcha_colour colour)
{
  float dx = to.x - from.x, dy = to.y - from.y;
  stroke s = {from, dx, dy, sqrtf(dx * dx + dy * dy), width0 / 2, (width1 - width0) / 2, soft};
  float reach = fmaxf(width0, width1) / 2 + 1;
  int top = larger((int)floorf(fminf(from.y, to.y) - reach), 0);
  int bottom = smaller((int)ceilf(fmaxf(from.y, to.y) + reach), sheet->height - 1);
  int left = larger((int)floorf(fminf(from.x, to.x) - reach), 0);
  int right = smaller((int)ceilf(fmaxf(from.x, to.x) + reach), sheet->width - 1);
  for (int y = top; y <= bottom; y++) {
    int first = left, last = right;
    stroke_columns(&s, (float)y + 0.5f, reach, &first, &last);
    for (int x = first; x <= last; x++) {
      uint32_t coverage = stroke_coverage(&s, (float)x + 0.5f, (float)y + 0.5f);
      if (coverage) cover(pixel(sheet, x, y), colour, coverage);
    }
  }
}

/* ---- letters --------------------------------------------------------------------------------- */

void captcha_sheet_letter(const captcha_sheet *sheet, const captcha_letter *letter, int x, int y, captcha_colour colour)
{
  int left = x + letter->left, top = y - letter->top;
  int first_x = larger(0, -left), end_x = smaller(letter->width, sheet->width - left);
  int first_y = larger(0, -top), end_y = smaller(letter->height, sheet->height - top);
  if (first_x >= end_x) return;
  for (int v = first_y; v < end_y; v++) {
    const uint8_t *from = letter->coverage + (v + 1) * (letter->width + 2) + 1;
    uint8_t *to = pixel(sheet, left, top + v);
    for (int u = first_x; u < end_x; u++) {
      if (from[u]) cover(to + u * 3, colour, from[u]);
    }
  }
}

/* Coverage at (u,v) of the bordered ink, 0..255. */
static inline uint32_t bilinear(const captcha_letter *letter, int u, int v)
{
  int stride = letter->width + 2;
  const uint8_t *p = letter->coverage + (v >> FRACTION) * stride + (u >> FRACTION);
  uint32_t fu = (uint32_t)u >> 8 & 255, fv = (uint32_t)v >> 8 & 255;
  uint32_t above = p[0] * (256 - fu) + p[1] * fu;
  uint32_t below = p[stride] * (256 - fu) + p[stride + 1] * fu;
  return (above * (256 - fv) + below * fv + 0x8000) >> 16;
}

/* Pixels first..last of a row look along a straight line in the letter: from (u,v) on with constant steps. */
static void posed_row(const captcha_letter *letter, uint8_t *row, int n, int u, int v, int du, int dv,
                      captcha_colour colour)
{
  uint32_t limit_u = (uint32_t)(letter->width + 1) << FRACTION, limit_v = (uint32_t)(letter->height + 1) << FRACTION;
  for (int i = 0; i < n; i++, u += du, v += dv) {
    if ((uint32_t)u >= limit_u || (uint32_t)v >= limit_v) continue;
    uint32_t coverage = bilinear(letter, u, v);
    if (coverage) cover(row + i * 3, colour, coverage);
  }
}

static float between(float a, float b, float share)
{
  return a + (b - a) * share;
}

static float farthest_push(const captcha_pose *pose)
{
  float most = 0;
  for (int i = 0; i < 4; i++) most = fmaxf(most, fmaxf(fabsf(pose->push[i].x), fabsf(pose->push[i].y)));
  return most;
}

static int to_fixed(float value)
{
  return (int)(value * ONE);
}

void captcha_sheet_posed(const captcha_sheet *sheet, const captcha_letter *letter, const captcha_pose *pose,
                         captcha_colour colour)
{
  float c = captcha_sine(90 - pose->degrees), s = captcha_sine(pose->degrees), more = farthest_push(pose) + 1;
  float half_w = (float)letter->width / 2, half_h = (float)letter->height / 2;
  float reach_x = (fabsf(c) * half_w + fabsf(s) * half_h + more) * pose->squeeze;
  float reach_y = fabsf(s) * half_w + fabsf(c) * half_h + more;
  int left = larger((int)floorf(pose->centre.x - reach_x), 0);
  int right = smaller((int)ceilf(pose->centre.x + reach_x), sheet->width - 1);
  int top = larger((int)floorf(pose->centre.y - reach_y), 0);
  int bottom = smaller((int)ceilf(pose->centre.y + reach_y), sheet->height - 1);
  float across = ((float)left + 0.5f - pose->centre.x) / pose->squeeze;
  for (int y = top; y <= bottom && left <= right; y++) {
    float down = (float)y + 0.5f - pose->centre.y, share_y = (down + reach_y) / (2 * reach_y);
    captcha_spot west = {between(pose->push[0].x, pose->push[2].x, share_y),
                         between(pose->push[0].y, pose->push[2].y, share_y)};
    captcha_spot east = {between(pose->push[1].x, pose->push[3].x, share_y),
                         between(pose->push[1].y, pose->push[3].y, share_y)};
    float slope_x = (east.x - west.x) / (2 * reach_x), slope_y = (east.y - west.y) / (2 * reach_x);
    float share_x = (float)left + 0.5f - pose->centre.x + reach_x;
    /* Half a pixel to the sample's corner, one for the border. */
    float u = c * across - s * down + half_w + 0.5f + west.x + slope_x * share_x;
    float v = s * across + c * down + half_h + 0.5f + west.y + slope_y * share_x;
    posed_row(letter, pixel(sheet, left, y), right - left + 1, to_fixed(u), to_fixed(v),
              to_fixed(c / pose->squeeze + slope_x), to_fixed(s / pose->squeeze + slope_y), colour);
  }
}

/* ---- the whole sheet ------------------------------------------------------------------------- */

static void smooth_row(const uint8_t *restrict above, const uint8_t *restrict middle, const uint8_t *restrict below,
                       uint8_t *restrict out, int n)
{
  for (int i = 3; i < n - 3; i++) {
    uint32_t sum = (uint32_t)above[i - 3] + above[i] + above[i + 3] + middle[i - 3] + 5u * middle[i] + middle[i + 3] +
                   below[i - 3] + below[i] + below[i + 3];
    out[i] = (uint8_t)((sum + 6) * 20165 >> 18); /* a thirteenth */
  }
}

void captcha_sheet_smooth(const captcha_sheet *sheet, uint8_t *above)
{
  int n = sheet->width * 3;
  uint8_t *middle = above + n;
  memcpy(above, sheet->rgb, (size_t)n);
  for (int y = 1; y < sheet->height - 1; y++) {
    uint8_t *row = pixel(sheet, 0, y);
    memcpy(middle, row, (size_t)n);
    smooth_row(above, middle, row + n, row, n);
    memcpy(above, middle, (size_t)n);
  }
}

void captcha_sheet_luma(const captcha_sheet *sheet, uint8_t *gray)
{
  int n = sheet->width * sheet->height;
  for (int i = 0; i < n; i++) {
    const uint8_t *p = sheet->rgb + i * 3;
    gray[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000) >> 16);
  }
}
