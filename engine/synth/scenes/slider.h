/* slider.h -- one slider captcha: its random numbers, before it is drawn.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_SLIDER_H
#define CAPL_DATA_SCENES_SLIDER_H

#include "capl/synth.h"
#include "synth/scenes/canvas.h"
#include "synth/scenes/piece.h"

typedef struct {
  float x, y, radians, scale; /* where the piece's own coordinates lie on the canvas; turned counter-clockwise */
} slider_place;

typedef struct {
  int width, height; /* of the canvas */
  uint32_t background;
  int size;          /* px of the piece, as drawn */
  unsigned confusions; /* bits */
  piece shape;
  slider_place gap, piece, decoy[CAPL_SLIDER_DECOYS];
  int n_decoys;
  uint32_t noise_key;
  float noise, dark, light, edge, edge_width, edge_decay; /* how strong each effect is */
  capl_slider_style style;
  bool bright;             /* outline: the gap is white in this share, not merely outlined */
  float white, line, ink, shadow; /* px of the line, and its level */
} slider_plan;

/* A pixel as a shape sees it. */
typedef struct {
  float cover;          /* share that is inside */
  float outside;        /* px to the edge, negative inside */
  float inside;         /* px from the edge, 0 outside */
  float deep;           /* 0 at the edge, 1 in the middle */
  float top_left, bottom_right; /* 1 in that direction from the middle, 0 across it and beyond */
} slider_spot;

/* A shape in its place. */
typedef struct {
  const piece *shape;
  float x, y, cos, sin, scale;
  int left, top, right, bottom; /* pixels it may touch */
} slider_view;

void slider_roll(slider_plan *plan, const capl_slider_options *options, uint64_t seed, capl_rng *rng);
/* On a canvas that holds the background. */
void slider_draw(const slider_plan *plan, canvas *c);
/* The same in the style outline. */
void slider_draw_outline(const slider_plan *plan, canvas *c);
/* margin: px of the canvas's edge that are left out, for those who look at neighbours. */
slider_view slider_look(const slider_plan *plan, const slider_place *at, int margin, const canvas *c);
slider_spot slider_see(const slider_view *v, int column, int row);
/* Noise of the piece in a row of its view, in row[1] of the canvas; 0 without that confusion. */
const float *slider_noise(const slider_plan *plan, const slider_view *v, int y, canvas *c);

static inline float *slider_level(const canvas *c, int plane, int x, int y)
{
  return c->plane[plane] + (size_t)y * (size_t)c->width + x;
}

/* Centre of mass of the shape as it lies there. */
canvas_point slider_centre(const slider_plan *plan, const slider_place *at);
/* left, top, right, bottom of it. */
void slider_box(const slider_plan *plan, const slider_place *at, float box[4]);

#endif
