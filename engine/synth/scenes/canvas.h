/* canvas.h -- drawing for generated scenes: outlines, soft spots, noise, on three planes of levels.
**
** A canvas holds R, G and B as float planes of levels 0..255 (loops over a row vectorize), and beside them a class per
** pixel for scenes that have a mask. Coordinates are px, y down, pixel (x, y) covers x..x+1, y..y+1. Shapes are
** outlines, filled with the exact share of each pixel that they cover; a mask takes a pixel that is covered by half or
** more. C leaves open in which order a call's arguments are evaluated: random numbers are drawn one a statement, or in
** one function. Nothing here allocates: canvas_open takes memory that lives with the calling thread.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_CANVAS_H
#define CAPL_DATA_SCENES_CANVAS_H

#include <stdbool.h>

#include "capl/data.h"
#include "capl/rng.h"

enum { OUTLINE_POINTS = 768, CANVAS_ROWS = 8 };

typedef struct {
  int width, height;
  float *plane[3]; /* (H,W) each */
  uint8_t *mask;   /* (H,W); NULL = the scene has none */
  float *row[CANVAS_ROWS]; /* (W + 2) each: 0 and 1 are the filler's, the others for whoever draws */
} canvas;

typedef struct {
  float x, y;
} canvas_point;

typedef struct {
  float level[3]; /* 0..255, may be outside until canvas_write */
} canvas_colour;

/* Where an outline's own coordinates lie on the canvas: x' = xx x + xy y + x0. */
typedef struct {
  float xx, xy, x0, yx, yy, y0;
} canvas_frame;

/* A closed outline in px. Points past the last room are left out. */
typedef struct {
  canvas_frame frame; /* applied as points are added */
  int n;
  canvas_point point[OUTLINE_POINTS];
} outline;

/* How a shape is filled. */
typedef struct {
  canvas_colour colour;
  float alpha;         /* 0..1 */
  int label;           /* class for the mask, -1 = leaves it as it is */
  int inside;          /* class + 1 of the mask that it stays within, 0 = it goes anywhere */
  canvas_colour fade;  /* added times the distance from `from` along `along`, a vector in 1/px */
  canvas_point from, along;
  uint32_t noise_key;
  float noise;            /* up to so many levels, 0 = none */
  float cell_x, cell_y;   /* px of the noise's cells */
} canvas_paint;

/* Takes its planes from scratch, which grows to the canvas_bytes of that size. mask may be NULL. ENOMEM. */
capl_status canvas_open(canvas *c, int width, int height, uint8_t *mask, capl_image *scratch);
size_t canvas_bytes(int width, int height);
/* Rounds to (H,W,channels) u8; 1 channel is luma. */
void canvas_write(const canvas *c, int channels, uint8_t *pixels);

/* ---- outlines -------------------------------------------------------------------------------- */

/* Turned by radians (positive = counter-clockwise on the screen), enlarged by scale, moved to (x, y). */
canvas_frame canvas_turned(float radians, float scale, float x, float y);
canvas_point canvas_place(const canvas_frame *frame, float x, float y);

void outline_begin(outline *o, const canvas_frame *frame);
void outline_to(outline *o, float x, float y);
/* Cubic Bezier from the last point. */
void outline_curve(outline *o, float x1, float y1, float x2, float y2, float x, float y);
/* A whole ellipse, or the part of it between two angles (radians, clockwise on the screen from three o'clock). */
void outline_ellipse(outline *o, float x, float y, float rx, float ry);
void outline_arc(outline *o, float x, float y, float rx, float ry, float from, float to);
/* A closed smooth curve through points in their own coordinates (Catmull-Rom). */
void outline_smooth(outline *o, const canvas_point *through, int n);
/* An open line of the points, made into a band of that width in px, tapering to taper (0..1) of it at both ends. */
void outline_band(outline *o, const canvas_point *line, int n, float width, float taper);

/* ---- filling --------------------------------------------------------------------------------- */

canvas_colour canvas_rgb(float red, float green, float blue);
canvas_colour canvas_mix(canvas_colour a, canvas_colour b, float share);
/* a flat paint */
canvas_paint canvas_flat(canvas_colour colour, float alpha, int label);

void canvas_fill(canvas *c, const outline *o, const canvas_paint *paint);
/* Darkens (amount < 0) or lightens by levels in an ellipse that fades out from `core` (0..1) of its radius. only: class
** of the mask that it stays within, -1 = it goes anywhere. */
void canvas_spot(canvas *c, const canvas_frame *frame, float x, float y, float rx, float ry, float core,
                 canvas_colour amount, int only);
/* A vertical run of colours, evenly spaced: n >= 2 of them. */
void canvas_gradient(canvas *c, const canvas_colour *colour, int n);
/* hue in turns, saturation and value 0..1. */
canvas_colour canvas_hsv(float hue, float saturation, float value);
/* One with each of the three uniform in its range. */
canvas_colour canvas_roll_hsv(capl_rng *rng, float hue_lo, float hue_hi, float saturation_lo, float saturation_hi,
                              float value_lo, float value_hi);

/* ---- noise ----------------------------------------------------------------------------------- */

/* One row of smooth value noise, added to row[0..n): amplitude times -1..1; x and y in px, a cell is cell_x by cell_y
** px. */
void canvas_noise_row(uint32_t key, float x, float y, int n, float cell_x, float cell_y, float amplitude, float *row);
/* Noise of several sizes, each half as large and half as strong as the one before, added as share of amount: -1..1 or
** so. stretch: how many times as wide as high its cells are. */
void canvas_clouds(canvas *c, uint32_t key, float cell, float stretch, int octaves, canvas_colour amount);
/* Gaussian-like grain of that deviation on all planes alike, a little on each alone. */
void canvas_grain(canvas *c, uint32_t key, float deviation);

#endif
