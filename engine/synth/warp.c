/* warp.c -- one letter of a captcha, by the three steps of the classic style.
**
** The steps are those the style is known by, each with its own sampling and its rounding to 8 bits, because the jagged,
** slightly bold edge they leave is what a recognizer learns: rotation (bilinear), stretch to the cell plus its growth
** (bicubic), quadrilateral (nearest). Measured on such images, a network trained on smoothly sampled letters loses 12
** points. Here is the geometry; draw/letter.c has the pixels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/warp.h"

#include <math.h>
#include <stdlib.h>

/* ---- scratch --------------------------------------------------------------------------------- */

/* Lines past the last are read for taps that weigh nothing, and two registers at the end of the alpha. */
static capl_status allocate(capl_warp_scratch *s)
{
  size_t lines = (size_t)(s->side + s->across.max_taps + 1), side = (size_t)s->side;
  s->plane = draw_room(lines * side * sizeof *s->plane);
  s->other = draw_room(lines * side * sizeof *s->other);
  s->alpha = draw_room(side * side + 128);
  s->strips = draw_room((glyph_strips_room(s->side) + 63) / 64 * 64);
  if (s->plane && s->other && s->alpha && s->strips) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw letters of %d px", s->side);
}

capl_status capl_warp_scratch_init(capl_warp_scratch *s, const capl_glyph_bounds *bounds)
{
  *s = (capl_warp_scratch){.side = draw_padded(bounds->side)};
  CAPL_TRY(draw_kernels_choose(&s->draw));
  CAPL_TRY(draw_taps_init(&s->across, s->side, bounds->shrink));
  CAPL_TRY(draw_taps_init(&s->down, s->side, bounds->shrink));
  return allocate(s);
}

void capl_warp_scratch_fini(capl_warp_scratch *s)
{
  free(s->plane);
  free(s->other);
  free(s->alpha);
  free(s->strips);
  draw_taps_fini(&s->across);
  draw_taps_fini(&s->down);
}

/* ---- one letter ------------------------------------------------------------------------------ */

/* Taylor's series, to the 19th power. */
void capl_sine_cosine(double radians, double *sine, double *cosine)
{
#define TERM(n) {1.0 / ((n) * ((n) - 1)), 1.0 / ((n) * ((n) + 1))}
  static const double term[][2] = {TERM(18), TERM(16), TERM(14), TERM(12), TERM(10), TERM(8), TERM(6), TERM(4),
                                   TERM(2)};
#undef TERM
  double square = radians * radians, s = 1, c = 1;
  for (size_t i = 0; i < sizeof term / sizeof term[0]; i++) {
    c = 1 - c * square * term[i][0];
    s = 1 - s * square * term[i][1];
  }
  *sine = radians * s;
  *cosine = c;
}

/* Without the calls that ceil and floor are where the processor may be an old one. */
static int up(double x)
{
  int whole = (int)x;
  return whole + (whole < x);
}

static int down(double x)
{
  int whole = (int)x;
  return whole - (whole > x);
}

/* Pixels of a turned w x h box along one axis: its corners' extent about the centre, outermost pixels included. */
static int extent(double w, double h, double cos_part, double sin_part)
{
  double reach = (w * fabs(cos_part) + h * fabs(sin_part)) / 2, centre = w / 2;
  return up(centre + reach) - down(centre - reach);
}

/* The ink turns about its centre, which is that of the plane. */
static draw_turn turn_of(const capl_glyph *glyph, const int8_t *strips, double angle, int opacity)
{
  double sine, cosine, w = glyph->ink_w, h = glyph->ink_h;
  capl_sine_cosine(angle, &sine, &cosine);
  draw_turn t = {.strips = strips, .strip_bytes = glyph->strip_bytes, .ink_w = glyph->ink_w,
                 .ink_h = glyph->ink_h, .cos = cosine, .sin = sine, .opacity = opacity,
                 .width = extent(w, h, cosine, sine), .height = extent(h, w, cosine, sine)};
  double x = 0.5 - t.width / 2.0, y = 0.5 - t.height / 2.0;
  t.u = cosine * x + sine * y + w / 2;
  t.v = cosine * y - sine * x + h / 2;
  return t;
}

/* One coordinate of the quadrilateral's corners, in the cell's px. */
static draw_map map_corners(double nw, double sw, double se, double ne, const capl_glyph *cell)
{
  double w = cell->cell_w, h = cell->cell_h;
  return (draw_map){nw, (ne - nw) / w, (sw - nw) / h, (se - sw - ne + nw) / (w * h)};
}

static int least(int a, int b)
{
  return a < b ? a : b;
}

/* The part of the cell at (left, top) that is on the canvas. */
static draw_place place_on(const capl_canvas *canvas, const capl_glyph *cell, int left, int top)
{
  draw_place p = {.x0 = left < 0 ? -left : 0, .x1 = least(cell->cell_w, canvas->width - left),
                  .y0 = top < 0 ? -top : 0, .y1 = least(cell->cell_h, canvas->height - top), .dest_step = canvas->step};
  p.dest = canvas->coverage + (ptrdiff_t)(left + p.x0) * canvas->step + top + p.y0;
  return p;
}

void capl_warp_draw(const capl_warp *warp, const capl_ink *ink, capl_warp_scratch *s, const capl_canvas *canvas,
                    int left, int top)
{
  const capl_glyph *cell = warp->glyph;
  draw_sheet sheet = {.alpha = s->alpha, .width = cell->cell_w + abs(warp->x1) + abs(warp->x2),
                      .height = cell->cell_h + abs(warp->y1) + abs(warp->y2)};
  if (!cell->strips) glyph_strips(cell, s->strips);
  draw_turn turn = turn_of(cell, cell->strips ? cell->strips : s->strips, warp->angle, ink->opacity);
  s->draw->turn(&turn, s->plane, s->side);
  s->draw->taps(&s->across, turn.width, sheet.width, 1 << 14);
  s->draw->taps(&s->down, turn.height, sheet.height, 1 << 14);
  s->draw->stretch(&s->across, &s->down, turn.height, s->plane, s->other, s->side, &sheet);

  int w = sheet.width, h = sheet.height;
  draw_place place = place_on(canvas, cell, left, top);
  place.cover = ink->cover;
  place.u = map_corners(warp->x1, -warp->x1, w + warp->x2, w - warp->x2, cell);
  place.v = map_corners(warp->y1, h - warp->y2, h + warp->y2, -warp->y1, cell);
  s->draw->place(&place, &sheet);
}
