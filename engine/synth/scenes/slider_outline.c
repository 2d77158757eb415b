/* slider_outline.c -- the style outline: gaps that are bright or merely outlined, pieces that throw a shadow.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/scenes/slider.h"

#include "synth/portable_math.h"

static const float SHADOW = 9; /* px that a piece's shadow reaches */

/* Opacity of the line along the edge. */
static float line_at(const slider_spot *s, float width)
{
  return 0.9f * portable_clamp(0.5f + 0.5f * width - fabsf(s->outside), 0, 1);
}

static void draw_gap(const slider_plan *plan, const slider_place *at, canvas *c)
{
  slider_view v = slider_look(plan, at, 0, c);
  bool bright = plan->bright || plan->confusions & 1u << CAPL_CONFUSION_HIGHLIGHT;
  float width = plan->line + (plan->confusions & 1u << CAPL_CONFUSION_EDGE ? 2 : 0);
  for (int y = v.top; y < v.bottom; y++)
    for (int x = v.left; x < v.right; x++) {
      slider_spot s = slider_see(&v, x, y);
      float line = line_at(&s, width), white = bright ? plan->white * s.cover : 0;
      float dark = bright ? 0 : plan->shadow * portable_decay(s.inside * 0.3f) * s.cover;
      for (int k = 0; k < 3; k++) {
        float *p = slider_level(c, k, x, y);
        *p = portable_mix(portable_mix(*p, 255, white) * (1 - dark), plan->ink, line);
      }
    }
}

/* Below and to the right, as the light comes from the top left. */
static void draw_shadow(const slider_plan *plan, canvas *c)
{
  slider_place at = plan->piece;
  at.x += 2, at.y += 2;
  slider_view v = slider_look(plan, &at, 0, c);
  int far = (int)SHADOW, left = v.left > far ? v.left - far : 0, top = v.top > far ? v.top - far : 0;
  for (int y = top; y < v.bottom + far && y < c->height; y++)
    for (int x = left; x < v.right + far && x < c->width; x++) {
      float away = slider_see(&v, x, y).outside;
      if (away > SHADOW) continue;
      float dark = 0.55f * portable_decay(away > 0 ? away * 0.35f : 0) * (1 - portable_clamp(away / SHADOW, 0, 1));
      for (int k = 0; k < 3; k++) *slider_level(c, k, x, y) *= 1 - dark;
    }
}

/* The pixels that the gap lacks, with a line around them. */
static void draw_piece(const slider_plan *plan, canvas *c)
{
  slider_view v = slider_look(plan, &plan->piece, 0, c);
  int away = (int)(plan->gap.x - plan->piece.x + 0.5f);
  for (int y = v.top; y < v.bottom; y++) {
    const float *noise = slider_noise(plan, &v, y, c);
    for (int x = v.left; x < v.right; x++) {
      slider_spot s = slider_see(&v, x, y);
      float line = line_at(&s, plan->line);
      for (int k = 0; k < 3; k++) {
        float *to = slider_level(c, k, x, y);
        if (s.cover > 0) *to = portable_mix(*to, *slider_level(c, k, x + away, y) + noise[x], s.cover);
        *to = portable_mix(*to, plan->ink, line);
      }
    }
  }
}

void slider_draw_outline(const slider_plan *plan, canvas *c)
{
  draw_shadow(plan, c);
  draw_piece(plan, c); /* while its pixels are still there */
  draw_gap(plan, &plan->gap, c);
  for (int i = 0; i < plan->n_decoys; i++) draw_gap(plan, &plan->decoy[i], c);
}
