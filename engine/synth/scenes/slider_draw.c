/* slider_draw.c -- the piece cut out, its gap shaded, decoys: slider captchas on their background.
**
** Everything goes by the distance to the shape's edge and the direction from its middle: gaps are dark and darker
** towards the edge, as if the light came from the top left; pieces have a bright rim.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "synth/scenes/slider.h"
#include "synth/portable_math.h"

slider_view slider_look(const slider_plan *plan, const slider_place *at, int margin, const canvas *c)
{
  float box[4];
  slider_box(plan, at, box);
  slider_view v = {.shape = &plan->shape, .x = at->x, .y = at->y, .scale = at->scale};
  v.cos = (float)portable_cos((double)at->radians), v.sin = (float)portable_sin((double)at->radians);
  v.left = (int)portable_clamp(box[0] - 1, (float)margin, (float)c->width);
  v.top = (int)portable_clamp(box[1] - 1, (float)margin, (float)c->height);
  v.right = (int)portable_clamp(box[2] + 2, 0, (float)(c->width - margin));
  v.bottom = (int)portable_clamp(box[3] + 2, 0, (float)(c->height - margin));
  return v;
}

slider_spot slider_see(const slider_view *v, int column, int row)
{
  float dx = ((float)column + 0.5f - v->x) / v->scale, dy = ((float)row + 0.5f - v->y) / v->scale;
  float x = v->cos * dx - v->sin * dy, y = v->sin * dx + v->cos * dy, d = piece_distance(v->shape, x, y) * v->scale;
  slider_spot s = {.cover = portable_clamp(0.5f - d, 0, 1), .outside = d, .inside = d < 0 ? -d : 0};
  s.deep = portable_clamp(s.inside / (v->shape->depth * v->scale), 0, 1);
  float away = sqrtf(dx * dx + dy * dy), slant = (dx + dy) * 0.70710678f / (away > 0.5f ? away : 0.5f);
  s.top_left = slant < 0 ? -slant : 0;
  s.bottom_right = slant > 0 ? slant : 0;
  return s;
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static float gap_shade(const slider_plan *plan, const slider_spot *s)
{
  float lobe = s->top_left > s->bottom_right ? s->top_left : s->bottom_right, edge = 1 - s->deep, shade;
  if (plan->confusions & 1u << CAPL_CONFUSION_HIGHLIGHT)
    shade = portable_mix(20, 40, plan->light) + portable_mix(40, 60, plan->light) * edge
        + portable_mix(15, 30, plan->light) * lobe;
  else
    shade = -plan->dark * (40 + 50 * edge + 20 * lobe);
  if (plan->confusions & 1u << CAPL_CONFUSION_EDGE && s->inside < plan->edge_width)
    shade += plan->edge * portable_decay(plan->edge_decay * s->inside / plan->edge_width * 2);
  return shade * s->cover;
}

static void shade_gap(const slider_plan *plan, const slider_view *v, canvas *c)
{
  for (int y = v->top; y < v->bottom; y++)
    for (int x = v->left; x < v->right; x++) {
      slider_spot s = slider_see(v, x, y);
      if (s.cover <= 0) continue;
      float shade = gap_shade(plan, &s);
      for (int k = 0; k < 3; k++) {
        float *p = slider_level(c, k, x, y);
        *p = portable_clamp(*p + shade, 0, 255);
      }
    }
}

/* One row of 3x3 Gaussian weights (deviation 0.8 px), with the rows above and here as they were. */
static void blur_row(const float *above, const float *here, const float *below, const float *cover, int left, int right,
                     float *to)
{
  const float side = 0.2391f, middle = 0.5218f;
  for (int x = left; x < right; x++) {
    float a = side * (above[x - 1] + above[x + 1]) + middle * above[x];
    float b = side * (here[x - 1] + here[x + 1]) + middle * here[x];
    float d = side * (below[x - 1] + below[x + 1]) + middle * below[x];
    to[x] = portable_mix(to[x], side * (a + d) + middle * b, cover[x]);
  }
}

/* Softens what is inside. Rows 0 and 1 + 2k, 2 + 2k of the canvas: cover, and plane k's row above and this one as they
** were. */
static void blur_gap(const slider_view *v, canvas *c)
{
  size_t from = (size_t)v->left - 1, bytes = (size_t)(v->right - v->left + 2) * sizeof(float);
  for (int k = 0; k < 3; k++) memcpy(c->row[1 + 2 * k] + from, slider_level(c, k, (int)from, v->top - 1), bytes);
  for (int y = v->top; y < v->bottom; y++) {
    for (int x = v->left; x < v->right; x++) c->row[0][x] = slider_see(v, x, y).cover;
    for (int k = 0; k < 3; k++) {
      float *here = c->row[2 + 2 * k], *above = c->row[1 + 2 * k];
      memcpy(here + from, slider_level(c, k, (int)from, y), bytes);
      blur_row(above, here, slider_level(c, k, 0, y + 1), c->row[0], v->left, v->right, slider_level(c, k, 0, y));
      c->row[1 + 2 * k] = here;
      c->row[2 + 2 * k] = above;
    }
  }
}

static void draw_gap(const slider_plan *plan, const slider_place *at, canvas *c)
{
  slider_view v = slider_look(plan, at, 1, c); /* blurring looks at the neighbours */
  shade_gap(plan, &v, c);
  blur_gap(&v, c);
}

/* ---- the piece ------------------------------------------------------------------------------- */

/* Opacity of the white on a piece: a rim of 6 px that dies away, brighter towards the light and against it. */
static float rim(const slider_spot *s)
{
  if (s->inside > 6) return 0;
  float e = portable_decay(s->inside * (2 / 3.0f)), fall = 2 * e / (1 + e); /* 1 - tanh(inside / 3) */
  float lobes = s->top_left * s->top_left * s->top_left + 1.2f * s->bottom_right * s->bottom_right * s->bottom_right;
  return portable_clamp(fall * (0.4f + 0.5f * lobes), 0, 0.7f);
}

const float *slider_noise(const slider_plan *plan, const slider_view *v, int y, canvas *c)
{
  float *noise = c->row[1];
  memset(noise, 0, (size_t)c->width * sizeof *noise);
  if (plan->confusions & 1u << CAPL_CONFUSION_NOISE)
    canvas_noise_row(plan->noise_key, (float)v->left, (float)y, v->right - v->left, 10, 10, plan->noise,
                     noise + v->left);
  return noise;
}

static void draw_piece(const slider_plan *plan, canvas *c)
{
  slider_view v = slider_look(plan, &plan->piece, 0, c);
  int away = (int)(plan->gap.x - plan->piece.x + 0.5f);
  for (int y = v.top; y < v.bottom; y++) {
    const float *noise = slider_noise(plan, &v, y, c);
    for (int x = v.left; x < v.right; x++) {
      slider_spot s = slider_see(&v, x, y);
      float white = rim(&s);
      if (s.cover > 0)
        for (int k = 0; k < 3; k++) {
          float *to = slider_level(c, k, x, y), from = *slider_level(c, k, x + away, y) + noise[x];
          float level = portable_mix(from, 255, white);
          *to = portable_mix(*to, level, s.cover);
        }
    }
  }
}

void slider_draw(const slider_plan *plan, canvas *c)
{
  if (plan->style == CAPL_SLIDER_OUTLINE) {
    slider_draw_outline(plan, c);
    return;
  }
  draw_piece(plan, c); /* while its pixels are still there */
  draw_gap(plan, &plan->gap, c);
  for (int i = 0; i < plan->n_decoys; i++) draw_gap(plan, &plan->decoy[i], c);
}
