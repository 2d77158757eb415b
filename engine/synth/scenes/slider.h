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
} slider_plan;

void slider_roll(slider_plan *plan, const capl_slider_options *options, uint64_t seed, capl_rng *rng);
/* On a canvas that holds the background. */
void slider_draw(const slider_plan *plan, canvas *c);
/* Centre of mass of the shape as it lies there. */
canvas_point slider_centre(const slider_plan *plan, const slider_place *at);
/* left, top, right, bottom of it. */
void slider_box(const slider_plan *plan, const slider_place *at, float box[4]);

#endif
