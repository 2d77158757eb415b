/* piece.c -- shapes of the pieces of slider captchas.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/synth.h"
#include "synth/scenes/piece.h"

#include "synth/random.h"
#include "synth/portable_math.h"

static const float JIGSAW_SIDE = 1 / 1.4f; /* of the size */
static const float JIGSAW_KNOB = 0.2f;     /* radius, of the side */
static const float CROSS_ARM = 0.38f;       /* half its width, of half the size */
static const float HEART_CORNER = 0.8284f; /* of its square from the middle, of half the size */
static const float MOON_CUT = 0.8f, MOON_AWAY = 0.55f; /* radius and place of the disc cut out, of half the size */

/* ---- distances ------------------------------------------------------------------------------- */

static float box_distance(float x, float y, float wide, float high)
{
  float dx = fabsf(x) - wide, dy = fabsf(y) - high;
  float ox = dx > 0 ? dx : 0, oy = dy > 0 ? dy : 0, inside = dx > dy ? dx : dy;
  return (inside < 0 ? inside : 0) + sqrtf(ox * ox + oy * oy);
}

static float convex_distance(const piece *p, float x, float y)
{
  float far = -1e9f;
  for (int i = 0; i < p->n_sides; i++) {
    float d = p->nx[i] * x + p->ny[i] * y - p->c[i];
    far = d > far ? d : far;
  }
  return far;
}

static float jigsaw_distance(const piece *p, float x, float y)
{
  static const float at_x[] = {0, 1, 0, -1}, at_y[] = {-1, 0, 1, 0};
  float side = p->half * JIGSAW_SIDE, radius = 2 * side * JIGSAW_KNOB, d = box_distance(x, y, side, side);
  for (int i = 0; i < 4; i++) {
    float dx = x - at_x[i] * side, dy = y - at_y[i] * side, knob = sqrtf(dx * dx + dy * dy) - radius;
    if (p->knob[i] > 0 && knob < d) d = knob;
    if (p->knob[i] < 0 && -knob > d) d = -knob;
  }
  return d;
}

/* Inside all lines of a star but one. */
static float star_distance(const piece *p, float x, float y)
{
  float far = -1e9f, second = -1e9f;
  for (int i = 0; i < p->n_sides; i++) {
    float d = p->nx[i] * x + p->ny[i] * y - p->c[i];
    if (d > far) second = far, far = d;
    else if (d > second) second = d;
  }
  return second;
}

static float least(float a, float b)
{
  return a < b ? a : b;
}

static float cross_distance(const piece *p, float x, float y)
{
  float h = p->half, narrow = CROSS_ARM * h;
  return least(box_distance(x, y, h, narrow), box_distance(x, y, narrow, h));
}

/* A square on its corner, and a disc on each of its upper sides. */
static float heart_distance(const piece *p, float x, float y)
{
  float d = p->half * HEART_CORNER, side = fabsf(x), dx = side - 0.5f * d, dy = y + 0.5f * d;
  return least((side + fabsf(y) - d) * 0.70710678f, sqrtf(dx * dx + dy * dy) - d * 0.70710678f);
}

static float moon_distance(const piece *p, float x, float y)
{
  float h = p->half, dx = x - MOON_AWAY * h;
  float d = sqrtf(x * x + y * y) - h, cut = MOON_CUT * h - sqrtf(dx * dx + y * y);
  return cut > d ? cut : d;
}

static float whole_distance(const piece *p, float x, float y)
{
  switch (p->shape) {
  case CAPL_SLIDER_CIRCLE: return sqrtf(x * x + y * y) - p->half;
  case CAPL_SLIDER_SQUARE: return box_distance(x, y, p->half, p->half);
  case CAPL_SLIDER_RECTANGLE: return box_distance(x, y, p->half, 0.7f * p->half);
  case CAPL_SLIDER_ROUNDED: return box_distance(x, y, p->half - p->round, 0.8f * p->half - p->round) - p->round;
  case CAPL_SLIDER_JIGSAW: return jigsaw_distance(p, x, y);
  case CAPL_SLIDER_STAR: return star_distance(p, x, y);
  case CAPL_SLIDER_CROSS: return cross_distance(p, x, y);
  case CAPL_SLIDER_HEART: return heart_distance(p, x, y);
  case CAPL_SLIDER_MOON: return moon_distance(p, x, y);
  default: return convex_distance(p, x, y);
  }
}

float piece_distance(const piece *p, float x, float y)
{
  float d = whole_distance(p, x, y);
  if (p->hole <= 0) return d;
  float hole = p->hole * whole_distance(p, p->x + (x - p->x) / p->hole, p->y + (y - p->y) / p->hole);
  return -hole > d ? -hole : d;
}

void piece_extent(const piece *p, const canvas_frame *frame, float box[4])
{
  float scale = sqrtf(frame->xx * frame->xx + frame->yx * frame->yx);
  for (int i = 0; i < p->n_discs; i++) {
    canvas_point at = canvas_place(frame, p->disc_x[i], p->disc_y[i]);
    float r = p->disc_r[i] * scale;
    box[0] = i && box[0] < at.x - r ? box[0] : at.x - r;
    box[1] = i && box[1] < at.y - r ? box[1] : at.y - r;
    box[2] = i && box[2] > at.x + r ? box[2] : at.x + r;
    box[3] = i && box[3] > at.y + r ? box[3] : at.y + r;
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

static void add_disc(piece *p, float x, float y, float r)
{
  p->disc_x[p->n_discs] = x;
  p->disc_y[p->n_discs] = y;
  p->disc_r[p->n_discs++] = r;
}

static void add_corners(piece *p, float wide, float high, float round)
{
  for (int i = 0; i < 4; i++)
    add_disc(p, (i & 1 ? 1.0f : -1.0f) * (wide - round), (i & 2 ? 1.0f : -1.0f) * (high - round), round);
}

/* The sides of a polygon whose corners go clockwise on the screen, and its centre of mass. */
static void make_sides(piece *p, const float *x, const float *y, int n)
{
  float area = 0, sum_x = 0, sum_y = 0;
  p->n_sides = n;
  for (int i = 0; i < n; i++) {
    int k = (i + 1) % n;
    float dx = x[k] - x[i], dy = y[k] - y[i], length = sqrtf(dx * dx + dy * dy), cross = x[i] * y[k] - x[k] * y[i];
    p->nx[i] = dy / length;
    p->ny[i] = -dx / length;
    p->c[i] = p->nx[i] * x[i] + p->ny[i] * y[i];
    add_disc(p, x[i], y[i], 0);
    area += cross;
    sum_x += (x[i] + x[k]) * cross;
    sum_y += (y[i] + y[k]) * cross;
  }
  p->x = sum_x / (3 * area);
  p->y = sum_y / (3 * area);
}

/* n corners on a circle; or, each up to `loose` of a step away from its even place, 5 to n of them turned anyhow. */
static void make_polygon(piece *p, int n, float turn, float loose, capl_rng *rng)
{
  if (loose > 0) n = random_between(rng, 5, n), turn = random_uniform(rng, 0, 1);
  float x[PIECE_SIDES], y[PIECE_SIDES];
  for (int i = 0; i < n; i++) {
    float place = (float)i + turn + (loose > 0 ? random_uniform(rng, -loose, loose) : 0);
    double angle = 2 * STEADY_PI * (double)(place / (float)n);
    x[i] = p->half * (float)portable_cos(angle);
    y[i] = p->half * (float)portable_sin(angle);
  }
  make_sides(p, x, y, n);
}

/* A half disc more outside a side, or less inside it, moves the centre of mass. */
static void make_jigsaw(piece *p, int variant)
{
  static const float at_x[] = {0, 1, 0, -1}, at_y[] = {-1, 0, 1, 0};
  float side = p->half * JIGSAW_SIDE, radius = 2 * side * JIGSAW_KNOB, disc = 0.5f * (float)STEADY_PI * radius * radius;
  float middle = 4 * radius / (3 * (float)STEADY_PI), area = 4 * side * side, x = 0, y = 0;
  add_corners(p, side, side, 0);
  for (int i = 0; i < 4; i++, variant /= 3) {
    p->knob[i] = variant % 3 - 1;
    float sign = (float)p->knob[i], far = side + sign * middle;
    if (p->knob[i] > 0) add_disc(p, at_x[i] * side, at_y[i] * side, radius);
    area += sign * disc;
    x += sign * disc * far * at_x[i];
    y += sign * disc * far * at_y[i];
  }
  p->x = x / area;
  p->y = y / area;
}

static void make_triangle(piece *p)
{
  float h = p->half, low = 0.866f * h;
  make_sides(p, (const float[]){0, h, -h}, (const float[]){-low, low, low}, 3);
}

/* Five tips; its lines pass the middle at cos 72 degrees of a tip's distance. */
static void make_star(piece *p)
{
  p->n_sides = 5;
  for (int i = 0; i < 5; i++) {
    double angle = 2 * STEADY_PI * (0.2 * i - 0.25);
    float x = (float)portable_cos(angle), y = (float)portable_sin(angle);
    p->nx[i] = x, p->ny[i] = y, p->c[i] = 0.30901699f * p->half;
    add_disc(p, p->half * x, p->half * y, 0);
  }
}

static void make_heart(piece *p)
{
  float d = p->half * HEART_CORNER, discs = 0.5f * (float)STEADY_PI; /* areas, of d * d; the square's is 2 */
  p->y = -d * (0.5f + 2 / (3 * (float)STEADY_PI)) * discs / (2 + discs);
  add_disc(p, 0, d, 0);
  for (int i = -1; i <= 1; i += 2) add_disc(p, 0.5f * d * (float)i, -0.5f * d, d * 0.70710678f);
}

/* Its centre of mass by rows; it reaches as far as its horns and some discs that touch the outer edge. */
static void make_moon(piece *p)
{
  enum { ROWS = 128, DISCS = 5 };
  float h = p->half, r = MOON_CUT * h, away = MOON_AWAY * h, area = 0, sum = 0, small = 0.15f * h;
  for (int i = 0; i < ROWS; i++) {
    float y = h * (2 * ((float)i + 0.5f) / ROWS - 1), right = sqrtf(h * h - y * y), left = -right;
    if (fabsf(y) < r) right = least(right, away - sqrtf(r * r - y * y));
    area += right - left;
    sum += 0.5f * (right - left) * (right + left);
  }
  p->x = sum / area;
  float horn = (h * h - r * r + away * away) / (2 * away), high = sqrtf(h * h - horn * horn);
  add_disc(p, horn, -high, 0);
  add_disc(p, horn, high, 0);
  for (int i = 0; i < DISCS; i++) {
    double angle = STEADY_PI * (0.5 + 0.25 * i);
    add_disc(p, (h - small) * (float)portable_cos(angle), (h - small) * (float)portable_sin(angle), small);
  }
}

void piece_make(piece *p, int shape, float size, int variant, capl_rng *rng)
{
  *p = (piece){.shape = shape, .half = 0.5f * size, .round = 0.12f * size};
  switch (shape) {
  case CAPL_SLIDER_CIRCLE: add_disc(p, 0, 0, p->half); break;
  case CAPL_SLIDER_SQUARE: add_corners(p, p->half, p->half, 0); break;
  case CAPL_SLIDER_RECTANGLE: add_corners(p, p->half, 0.7f * p->half, 0); break;
  case CAPL_SLIDER_ROUNDED: add_corners(p, p->half, 0.8f * p->half, p->round); break;
  case CAPL_SLIDER_TRIANGLE: make_triangle(p); break;
  case CAPL_SLIDER_HEXAGON: make_polygon(p, 6, 0, 0, rng); break;
  case CAPL_SLIDER_POLYGON: make_polygon(p, PIECE_SIDES, 0, 0.3f, rng); break;
  case CAPL_SLIDER_JIGSAW: make_jigsaw(p, variant); break;
  case CAPL_SLIDER_STAR: make_star(p); break;
  case CAPL_SLIDER_CROSS:
    add_corners(p, p->half, CROSS_ARM * p->half, 0);
    add_corners(p, CROSS_ARM * p->half, p->half, 0);
    break;
  case CAPL_SLIDER_HEART: make_heart(p); break;
  case CAPL_SLIDER_MOON: make_moon(p); break;
  default: break;
  }
  p->depth = -whole_distance(p, p->x, p->y);
}
