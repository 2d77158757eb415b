/* piece.h -- shapes of the pieces of slider captchas, as distances to their edge.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_PIECE_H
#define CAPL_DATA_SCENES_PIECE_H

#include "capl/rng.h"
#include "capl/synth.h"
#include "synth/scenes/canvas.h"

enum { PIECE_SIDES = 8, JIGSAW_VARIANTS = 81 /* each side flat, out or in */ };

/* In its own coordinates: px about the middle of its box, y down. */
typedef struct {
  int shape;
  float half;           /* half the size */
  float round;          /* radius of the corners */
  int n_sides;          /* of convex shapes: those points whose nx x + ny y is at most c, for all sides; of a star: for
                        ** all sides but one */
  float nx[PIECE_SIDES], ny[PIECE_SIDES], c[PIECE_SIDES];
  int knob[4];          /* jigsaw: top, right, bottom, left: 0 flat, 1 out, -1 in */
  int n_discs;          /* the shape reaches as far as these do: its corners, knobs, roundings */
  float disc_x[PIECE_SIDES], disc_y[PIECE_SIDES], disc_r[PIECE_SIDES];
  float x, y;           /* centre of mass */
  float depth;          /* distance from there to the edge, as piece_distance has it */
  float hole;           /* the middle is cut out in this share of the size; 0 = it is not */
} piece;

/* variant: which jigsaw, 0..80. They are for polygons. */
void piece_make(piece *p, int shape, float size, int variant, capl_rng *rng);
/* px to the edge from the point (x, y), negative inside. */
float piece_distance(const piece *p, float x, float y);
/* left, top, right, bottom of the shape as it lies in the frame, which may turn and scale it. */
void piece_extent(const piece *p, const canvas_frame *frame, float box[4]);

#endif
