/* sheet.h -- an RGB image to draw on: letters, lines, strokes, ellipses, dots, smoothing.
**
** Everything that decides a pixel is integer arithmetic, or float arithmetic of single IEEE operations, so that an
** image has the same bytes on every processor. Whatever lies outside the sheet is not drawn.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SHEET_H
#define CAPL_DATA_SHEET_H

#include <stdbool.h>

#include "capl/rng.h"
#include "synth/letters.h"

typedef struct {
  int width, height;
  uint8_t *rgb; /* H,W,3 */
} captcha_sheet;

typedef struct {
  uint8_t rgb[3];
} captcha_colour;

typedef struct {
  float x, y; /* px; (0.5, 0.5) is the centre of the first pixel */
} captcha_spot;

void captcha_sheet_fill(const captcha_sheet *sheet, captcha_colour colour);
typedef struct {
  float at; /* 0..1, rising from stop to stop; the first is 0, the last 1 */
  captcha_colour colour;
} captcha_stop;
/* From stop to stop in the direction (toward.x, toward.y), corner to corner. toward is not (0, 0). */
void captcha_sheet_gradient(const captcha_sheet *sheet, const captcha_stop *stop, captcha_spot toward);
/* Adds gray noise of this standard deviation, in levels: the sum of two uniform numbers. */
void captcha_sheet_grain(const captcha_sheet *sheet, float deviation, capl_rng *rng);

void captcha_sheet_dot(const captcha_sheet *sheet, int x, int y, captcha_colour colour);
/* x0..x1, y0..y1, both included. */
void captcha_sheet_box(const captcha_sheet *sheet, int x0, int y0, int x1, int y1, captcha_colour colour);
/* One pixel wide, by Bresenham's steps. */
void captcha_sheet_line(const captcha_sheet *sheet, int x0, int y0, int x1, int y1, captcha_colour colour);
/* Outline one pixel wide; centre and half axes in px. */
void captcha_sheet_ellipse(const captcha_sheet *sheet, int x, int y, int half_w, int half_h, captcha_colour colour);
/* A line with round ends whose width goes from width0 to width1 px. soft: antialiased. */
void captcha_sheet_stroke(const captcha_sheet *sheet, captcha_spot from, captcha_spot to, float width0, float width1,
                          bool soft, captcha_colour colour);

/* The letter with its origin at (x, y): on the base line, left of the letter. */
void captcha_sheet_letter(const captcha_sheet *sheet, const captcha_letter *letter, int x, int y,
                          captcha_colour colour);

/* A letter turned, squeezed and pushed out of shape. */
typedef struct {
  captcha_spot centre;   /* where the middle of its ink goes */
  float degrees;         /* counter-clockwise */
  float squeeze;         /* factor of its width after turning, at most 1 */
  captcha_spot push[4];  /* px by which the corners NW, NE, SW, SE look elsewhere in the letter */
} captcha_pose;
void captcha_sheet_posed(const captcha_sheet *sheet, const captcha_letter *letter, const captcha_pose *pose,
                         captcha_colour colour);

/* 3x3 mean with the centre counted five times; the border stays as it is. above: room for two rows (2 * W * 3). */
void captcha_sheet_smooth(const captcha_sheet *sheet, uint8_t *above);
/* Luma of the sheet, (H,W). */
void captcha_sheet_luma(const captcha_sheet *sheet, uint8_t *gray);

/* Sine of an angle in degrees, to 1e-7; the cosine is the sine of 90 more. */
float captcha_sine(float degrees);

#endif
