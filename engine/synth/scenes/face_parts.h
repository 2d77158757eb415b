/* face_parts.h -- what the drawing of heads and of features share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_FACE_PARTS_H
#define CAPL_DATA_SCENES_FACE_PARTS_H

#include "synth/scenes/face.h"

typedef struct {
  const face_plan *p;
  canvas *c;
  outline *o;
} face_part;

canvas_colour face_darker(canvas_colour c, float share);
canvas_colour face_lighter(canvas_colour c, float share);
/* Where a feature at x lies once the head has turned; depth: how far it stands out, about 1. */
float face_x(const face_plan *p, float x, float depth);

/* Fill the outline: flat; only where the mask holds a class, which stays; lit from one side and above, with noise whose
** cells are of that size in the face's units. */
void face_fill(const face_part *f, canvas_colour colour, float alpha, int label);
void face_fill_inside(const face_part *f, canvas_colour colour, float alpha, int class);
void face_fill_lit(const face_part *f, canvas_colour colour, float fall, float noise, float cell_x, float cell_y,
                   int label);
/* Soft light (amount > 0) or shadow within a class. */
void face_spot(const face_part *f, float x, float y, float rx, float ry, canvas_colour colour, float amount, int only);

/* side: 0 left, 1 right */
void face_brow(const face_part *f, int side);
void face_eye(const face_part *f, int side);
void face_nose(const face_part *f);
void face_mouth(const face_part *f);
void face_glasses(const face_part *f);

/* Makes a drawing of what was painted: a few flat shades, lines where classes of the mask meet. */
void face_ink(const face_plan *p, canvas *c);

#endif
