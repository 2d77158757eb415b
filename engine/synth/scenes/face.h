/* face.h -- one drawn face: its random numbers, before it is drawn.
**
** A face has its own coordinates: the middle of the head is (0, 0), the chin (0, 1), the temples about (-0.75, 0) and
** (0.75, 0), y down. Left and right are the picture's.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_FACE_H
#define CAPL_DATA_SCENES_FACE_H

#include "capl/synth.h"
#include "synth/scenes/canvas.h"

typedef enum { FACE_BALD, FACE_SHORT, FACE_CURLY, FACE_MEDIUM, FACE_LONG } face_hair;
typedef enum { FACE_BARE, FACE_CAP, FACE_BEANIE } face_hat;

typedef struct {
  canvas_frame head, body; /* where they lie on the canvas */
  float turn;              /* -1..1: looks to the left or the right */
  float px;                /* of one unit */
  canvas_colour skin, hair_colour, lips, iris, cloth, background[3];
  float light;             /* -1..1: from which side */
  float wide, jaw;         /* of the head, about 1 */
  face_hair hair;
  float volume, hairline, part; /* how far the hair stands off; how high it begins on the forehead, 0..1; -1..1 */
  float eye_open, eye_size, eye_tilt, gaze, brow_height, brow_width;
  float nose_wide, nose_long;
  float mouth_wide, mouth_open, smile, lip;
  float neckline;
  float beard;             /* 0 = none */
  face_hat hat;
  canvas_colour hat_colour;
  bool glasses, dark_glasses, necklace, earring[2], round_glasses;
  bool strap[2];           /* a lock of hair in front of the ear */
  uint32_t key;            /* of its textures */
  float grain;
  capl_face_style style;
  bool ink_only;           /* a drawing in black and white */
} face_plan;

void face_roll(face_plan *plan, int size, capl_face_style style, capl_rng *rng);
/* Covers the canvas and its mask. */
void face_draw(const face_plan *plan, canvas *c, outline *o);

#endif
