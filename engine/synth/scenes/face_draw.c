/* face_draw.c -- a face from back to front: background, hair behind, neck, clothes, ears, skin, features, hair, things.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "capl/synth.h"
#include "synth/scenes/face.h"
#include "synth/scenes/face_parts.h"
#include "synth/portable_math.h"

/* ---- tools ----------------------------------------------------------------------------------- */

canvas_colour face_darker(canvas_colour c, float share)
{
  return canvas_mix(c, canvas_rgb(c.level[0] * 0.12f, c.level[1] * 0.08f, c.level[2] * 0.1f), share);
}

canvas_colour face_lighter(canvas_colour c, float share)
{
  return canvas_mix(c, canvas_rgb(255, 250, 240), share);
}

float face_x(const face_plan *p, float x, float depth)
{
  float narrow = x * p->turn > 0 ? 0.12f : -0.04f; /* the side it turns to is seen at a slant */
  return x * (1 - narrow * (p->turn < 0 ? -p->turn : p->turn)) + 0.13f * depth * p->turn;
}

void face_fill(const face_part *f, canvas_colour colour, float alpha, int label)
{
  canvas_paint paint = canvas_flat(colour, alpha, label);
  canvas_fill(f->c, f->o, &paint);
}

void face_fill_inside(const face_part *f, canvas_colour colour, float alpha, int class)
{
  canvas_paint paint = canvas_flat(colour, alpha, -1);
  paint.inside = class + 1;
  canvas_fill(f->c, f->o, &paint);
}

void face_fill_lit(const face_part *f, canvas_colour colour, float fall, float noise, float cell_x, float cell_y,
                   int label)
{
  const face_plan *p = f->p;
  canvas_paint paint = canvas_flat(colour, 1, label);
  for (int k = 0; k < 3; k++) paint.fade.level[k] = -fall * colour.level[k];
  paint.from = canvas_place(&p->head, 0, 0);
  paint.along = (canvas_point){-0.5f * p->light / p->px, 0.35f / p->px};
  paint.noise_key = p->key + (uint32_t)label, paint.noise = p->style == CAPL_FACE_DRAWING ? 0 : noise;
  paint.cell_x = portable_clamp(cell_x * p->px, 1.5f, 1000), paint.cell_y = portable_clamp(cell_y * p->px, 1.5f, 1000);
  canvas_fill(f->c, f->o, &paint);
}

void face_spot(const face_part *f, float x, float y, float rx, float ry, canvas_colour colour, float amount, int only)
{
  for (int k = 0; k < 3; k++) colour.level[k] *= amount;
  canvas_spot(f->c, &f->p->head, x, y, rx, ry, 0, colour, only);
}

/* ---- behind the face ------------------------------------------------------------------------- */

static void draw_background(const face_part *f)
{
  const face_plan *p = f->p;
  memset(f->c->mask, CAPL_FACE_BACKGROUND, (size_t)f->c->width * (size_t)f->c->height);
  canvas_gradient(f->c, p->background, 3);
  canvas_clouds(f->c, p->key, (float)f->c->width / 3, 1, 3, canvas_rgb(22, 20, 18));
  canvas_frame still = {.xx = (float)f->c->width, .yy = (float)f->c->width};
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t h = portable_hash(p->key + i);
    float x = (float)(h & 255) / 255, y = (float)(h >> 8 & 255) / 255, r = 0.08f + (float)(h >> 16 & 255) / 900,
        bright = (float)(h >> 24) / 6 - 18;
    canvas_spot(f->c, &still, x, y, r, r, 0.4f, canvas_rgb(bright, bright, bright), -1);
  }
}

/* The hair's outer edge on one side, from the top of the head down; further points for what hangs behind the
** shoulders. */
static void draw_hair_behind(const face_part *f)
{
  static const canvas_point cropped[] = {{0, -1.13f}, {0.4f, -1.06f}, {0.68f, -0.82f}, {0.8f, -0.4f}, {0.76f, 0.05f},
                                         {0.5f, 0.3f}};
  static const canvas_point medium[] = {{0, -1.17f}, {0.42f, -1.1f}, {0.74f, -0.84f}, {0.88f, -0.35f}, {0.93f, 0.2f},
                                        {0.92f, 0.7f}, {0.62f, 0.98f}};
  static const canvas_point falling[] = {{0, -1.17f}, {0.42f, -1.1f}, {0.74f, -0.84f}, {0.88f, -0.35f}, {0.95f, 0.3f},
                                         {1.02f, 0.95f}, {0.98f, 1.7f}, {0.5f, 2}};
  static const canvas_point curls[] = {{0, -1.35f}, {0.5f, -1.28f}, {0.92f, -0.95f}, {1.1f, -0.45f}, {1.05f, 0.05f},
                                       {0.82f, 0.38f}};
  static const struct { const canvas_point *point; int n;
                       } shapes[] = {[FACE_SHORT] = {cropped, 6}, [FACE_CURLY] = {curls, 6},
                                     [FACE_MEDIUM] = {medium, 7}, [FACE_LONG] = {falling, 8}};
  const face_plan *p = f->p;
  canvas_point line[16];
  if (p->hair == FACE_BALD) return;
  int n = shapes[p->hair].n;
  for (int i = 0; i < n; i++) {
    canvas_point at = shapes[p->hair].point[i];
    float x = at.x * p->wide * (1 + p->volume), y = at.y < 0 ? at.y * (1 + p->volume) : at.y;
    line[i] = (canvas_point){x - 0.03f * p->turn, y};
    if (i) line[2 * n - 1 - i] = (canvas_point){-x - 0.03f * p->turn, y};
  }
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, line, 2 * n - 1);
  face_fill_lit(f, face_darker(p->hair_colour, 0.35f), 0.15f, p->hair == FACE_CURLY ? 26 : 18,
                p->hair == FACE_CURLY ? 0.06f : 0.025f, p->hair == FACE_CURLY ? 0.06f : 0.5f, CAPL_FACE_HAIR);
}

static void draw_neck(const face_part *f)
{
  const face_plan *p = f->p;
  outline_begin(f->o, &p->head);
  outline_to(f->o, -0.42f, 0.3f);
  outline_to(f->o, 0.42f, 0.3f);
  canvas_frame body = p->body;
  f->o->frame = body;
  outline_to(f->o, 0.4f, 1.05f);
  outline_curve(f->o, 0.42f, 1.2f, 0.7f, 1.32f, 1.1f, 1.42f);
  outline_to(f->o, 1.1f, 2.2f);
  outline_to(f->o, -1.1f, 2.2f);
  outline_to(f->o, -1.1f, 1.42f);
  outline_curve(f->o, -0.7f, 1.32f, -0.42f, 1.2f, -0.4f, 1.05f);
  face_fill_lit(f, face_darker(p->skin, 0.12f), 0.2f, 4, 0.2f, 0.2f, CAPL_FACE_NECK);
  face_spot(f, 0.05f * p->turn, 0.9f, 0.62f, 0.42f, p->skin, -0.4f, CAPL_FACE_NECK);
}

/* Shoulders under cloth, with a round or a pointed neckline. */
static void draw_cloth(const face_part *f)
{
  const face_plan *p = f->p;
  bool pointed = p->neckline > 0.6f;
  float dip = 1.22f + 0.28f * p->neckline, half = 0.43f + 0.1f * p->neckline;
  outline_begin(f->o, &p->body);
  outline_to(f->o, -4, 4);
  outline_to(f->o, -2.1f, 1.95f);
  outline_curve(f->o, -1.5f, 1.5f, -0.9f, 1.32f, -half, 1.13f);
  if (pointed) outline_to(f->o, 0, dip + 0.12f);
  else outline_curve(f->o, -0.3f, dip, 0.3f, dip, half, 1.13f);
  outline_to(f->o, half, 1.13f);
  outline_curve(f->o, 0.9f, 1.32f, 1.5f, 1.5f, 2.1f, 1.95f);
  outline_to(f->o, 4, 4);
  face_fill_lit(f, p->cloth, 0.25f, 9, 0.5f, 0.12f, CAPL_FACE_CLOTH);
  outline_begin(f->o, &p->body);
  canvas_point hem[9];
  for (int i = 0; i < 9; i++) {
    float t = (float)i / 4 - 1, deep = pointed ? 1 - (t < 0 ? -t : t) : 1 - t * t;
    hem[i] = (canvas_point){half * t, 1.14f + deep * (dip - 1.13f) * (pointed ? 1.4f : 0.78f)};
  }
  outline_band(f->o, hem, 9, 0.05f * p->px, 0.8f);
  face_fill(f, face_darker(p->cloth, 0.4f), 0.9f, CAPL_FACE_CLOTH);
}

static void draw_necklace(const face_part *f)
{
  const face_plan *p = f->p;
  if (!p->necklace) return;
  canvas_point line[11];
  for (int i = 0; i < 11; i++) {
    float t = (float)i / 5 - 1;
    line[i] = (canvas_point){0.44f * t, 1.36f - 0.24f * t * t};
  }
  outline_begin(f->o, &p->body);
  outline_band(f->o, line, 11, 0.035f * p->px, 1);
  face_fill(f, canvas_rgb(226, 190, 96), 1, CAPL_FACE_NECKLACE);
  outline_begin(f->o, &p->body);
  outline_ellipse(f->o, 0, 1.4f, 0.045f, 0.055f);
  face_fill(f, canvas_rgb(238, 214, 150), 1, CAPL_FACE_NECKLACE);
}

static void draw_ear(const face_part *f, int side)
{
  const face_plan *p = f->p;
  float sign = side ? 1.0f : -1.0f, facing = 1 + 0.5f * p->turn * -sign; /* the one on the far side hides */
  float x = sign * (0.755f * p->wide) - 0.05f * p->turn, rx = 0.105f * facing;
  if (rx < 0.06f) return;
  outline_begin(f->o, &p->head);
  outline_ellipse(f->o, x, 0.07f, rx, 0.2f);
  face_fill_lit(f, face_darker(p->skin, 0.06f), 0.15f, 3, 0.2f, 0.2f, side ? CAPL_FACE_RIGHT_EAR : CAPL_FACE_LEFT_EAR);
  outline_begin(f->o, &p->head);
  outline_ellipse(f->o, x + sign * 0.012f, 0.06f, rx * 0.55f, 0.12f);
  face_fill_inside(f, face_darker(p->skin, 0.4f), 0.55f, side ? CAPL_FACE_RIGHT_EAR : CAPL_FACE_LEFT_EAR);
  if (!p->earring[side]) return;
  outline_begin(f->o, &p->head);
  outline_ellipse(f->o, x + sign * 0.02f, 0.32f, 0.038f, 0.06f);
  face_fill(f, canvas_rgb(230, 205, 130), 1, CAPL_FACE_EARRING);
}

/* ---- the skin -------------------------------------------------------------------------------- */

static void draw_skin(const face_part *f)
{
  static const canvas_point side[] = {{0, -1}, {0.31f, -0.95f}, {0.55f, -0.78f}, {0.69f, -0.42f}, {0.735f, 0},
                                      {0.69f, 0.32f}, {0.57f, 0.62f}, {0.36f, 0.87f}, {0.14f, 0.985f}};
  enum { N = sizeof side / sizeof side[0] };
  const face_plan *p = f->p;
  canvas_point line[2 * N];
  for (int i = 0; i < N; i++) {
    float x = side[i].x * p->wide * (i > 5 ? p->jaw : 1), y = side[i].y;
    line[i] = (canvas_point){x + 0.02f * p->turn, y};
    if (i) line[2 * N - 1 - i] = (canvas_point){-x + 0.02f * p->turn, y};
  }
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, line, 2 * N - 1);
  face_fill_lit(f, p->skin, 0.16f, 4, 0.25f, 0.25f, CAPL_FACE_SKIN);
  face_spot(f, 0, -0.75f, 0.85f, 0.35f, p->skin, p->hair == FACE_BALD ? 0.06f : -0.22f, CAPL_FACE_SKIN);
  for (int s = -1; s <= 1; s += 2) {
    face_spot(f, (float)s * 0.78f * p->wide, 0.35f, 0.32f, 0.9f, p->skin, -0.2f, CAPL_FACE_SKIN);
    face_spot(f, face_x(p, (float)s * 0.4f, 0.7f), 0.32f, 0.24f, 0.2f, canvas_rgb(60, -14, -6), 0.3f, CAPL_FACE_SKIN);
    face_spot(f, face_x(p, (float)s * 0.32f, 0.9f), -0.05f, 0.27f, 0.19f, p->skin, -0.16f, CAPL_FACE_SKIN);
  }
  face_spot(f, 0.15f * p->turn, -0.45f, 0.4f, 0.2f, p->skin, 0.08f, CAPL_FACE_SKIN);
  face_spot(f, 0.1f * p->turn, 0.9f, 0.2f, 0.12f, p->skin, 0.08f, CAPL_FACE_SKIN);
}

static void draw_beard(const face_part *f)
{
  const face_plan *p = f->p;
  if (p->beard <= 0) return;
  canvas_paint paint = canvas_flat(face_darker(p->hair_colour, 0.2f), p->beard, -1);
  paint.inside = CAPL_FACE_SKIN + 1;
  paint.noise_key = p->key + 99, paint.noise = 22, paint.cell_x = 2, paint.cell_y = 3;
  static const canvas_point shape[] = {{-0.8f, 0.15f}, {-0.6f, 0.35f}, {-0.42f, 0.5f}, {-0.2f, 0.5f}, {0, 0.48f},
                                       {0.2f, 0.5f}, {0.42f, 0.5f}, {0.6f, 0.35f}, {0.8f, 0.15f}, {0.75f, 0.7f},
                                       {0.4f, 1.1f}, {0, 1.15f}, {-0.4f, 1.1f}, {-0.75f, 0.7f}};
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, shape, sizeof shape / sizeof shape[0]);
  canvas_fill(f->c, f->o, &paint);
}

/* ---- hair and hat in front ------------------------------------------------------------------- */

static void fill_hair(const face_part *f, canvas_colour colour)
{
  bool curly = f->p->hair == FACE_CURLY;
  face_fill_lit(f, colour, 0.2f, curly ? 30 : 24, curly ? 0.07f : 0.02f, curly ? 0.07f : 0.4f, CAPL_FACE_HAIR);
}

/* From ear to ear over the forehead: the outer edge, then back along the hairline, which the parting pulls up. */
static void draw_fringe(const face_part *f)
{
  const face_plan *p = f->p;
  if (p->hair == FACE_BALD) return;
  static const canvas_point outer[] = {{-0.77f, 0.08f}, {-0.82f, -0.42f}, {-0.66f, -0.92f}, {-0.3f, -1.12f},
                                       {0, -1.15f}, {0.3f, -1.12f}, {0.66f, -0.92f}, {0.82f, -0.42f}, {0.77f, 0.08f}};
  static const float inner_x[] = {0.71f, 0.67f, 0.48f, 0.2f, 0, -0.2f, -0.48f, -0.67f, -0.71f};
  canvas_point line[18];
  float top = -0.42f - 0.32f * p->hairline;
  for (int i = 0; i < 9; i++) {
    float lift = outer[i].y < 0 ? 1 + p->volume : 1;
    line[i] = (canvas_point){outer[i].x * p->wide * (1 + 0.6f * p->volume) - 0.02f * p->turn, outer[i].y * lift};
    float x = inner_x[i] * p->wide, away = x - 0.4f * p->part, side = x * x / (0.5f * p->wide * p->wide);
    float y = top - 0.16f * (1 - portable_clamp(away * away * 6, 0, 1)) * (p->part > 0 ? p->part : -p->part);
    y = portable_mix(y, -0.03f, portable_clamp(side * side, 0, 1));
    line[9 + i] = (canvas_point){x + 0.03f * p->turn, y};
  }
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, line, 18);
  fill_hair(f, p->hair_colour);
  face_spot(f, -0.3f * p->light, -0.95f, 0.42f, 0.14f, face_lighter(p->hair_colour, 0.5f), 0.18f, CAPL_FACE_HAIR);
}

/* A lock that falls from the temple in front of the ear. */
static void draw_strap(const face_part *f, int side)
{
  const face_plan *p = f->p;
  if (!p->strap[side]) return;
  float sign = side ? 1.0f : -1.0f, low = p->hair == FACE_LONG ? 1.75f : 0.95f, w = p->wide * (1 + 0.5f * p->volume);
  canvas_point line[] = {{0.5f * w, -0.85f}, {0.82f * w, -0.5f}, {0.9f * w, 0}, {0.95f * w, 0.5f},
                         {0.97f * w, low - 0.1f}, {0.8f * w, low}, {0.62f * w, low - 0.1f}, {0.64f * w, 0.6f},
                         {0.69f * w, 0.15f}, {0.67f * w, -0.3f}};
  enum { N = sizeof line / sizeof line[0] };
  for (int i = 0; i < N; i++) line[i].x *= sign;
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, line, N);
  fill_hair(f, face_darker(p->hair_colour, 0.08f));
}

static void draw_hat(const face_part *f)
{
  const face_plan *p = f->p;
  if (p->hat == FACE_BARE) return;
  float w = p->wide * (1.06f + 0.6f * p->volume), high = 1.22f + p->volume;
  outline_begin(f->o, &p->head);
  outline_to(f->o, -0.84f * w, -0.42f);
  outline_curve(f->o, -0.92f * w, -high * 1.1f, -0.45f * w, -high * 1.15f, 0, -high * 1.15f);
  outline_curve(f->o, 0.45f * w, -high * 1.15f, 0.92f * w, -high * 1.1f, 0.84f * w, -0.42f);
  outline_curve(f->o, 0.4f * w, -0.62f, -0.4f * w, -0.62f, -0.84f * w, -0.42f);
  face_fill_lit(f, p->hat_colour, 0.25f, p->hat == FACE_BEANIE ? 16 : 6, 0.03f, p->hat == FACE_BEANIE ? 0.5f : 0.2f,
                CAPL_FACE_HAT);
  outline_begin(f->o, &p->head);
  canvas_point rim[9];
  for (int i = 0; i < 9; i++) {
    float t = (float)i / 4 - 1;
    rim[i] = (canvas_point){0.86f * w * t + (p->hat == FACE_CAP ? 0.12f * p->turn : 0), -0.55f + 0.12f * t * t};
  }
  outline_band(f->o, rim, 9, (p->hat == FACE_CAP ? 0.17f : 0.24f) * p->px, p->hat == FACE_CAP ? 0.3f : 0.9f);
  face_fill_lit(f, face_darker(p->hat_colour, 0.3f), 0.2f, 8, 0.03f, 0.3f, CAPL_FACE_HAT);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void face_draw(const face_plan *plan, canvas *c, outline *o)
{
  face_part f = {plan, c, o};
  draw_background(&f);
  draw_hair_behind(&f);
  draw_neck(&f);
  draw_cloth(&f);
  draw_necklace(&f);
  for (int side = 0; side < 2; side++) draw_ear(&f, side);
  draw_skin(&f);
  draw_beard(&f);
  for (int side = 0; side < 2; side++) face_brow(&f, side), face_eye(&f, side);
  face_nose(&f);
  face_mouth(&f);
  draw_fringe(&f);
  for (int side = 0; side < 2; side++) draw_strap(&f, side);
  if (plan->glasses) face_glasses(&f);
  draw_hat(&f);
  if (plan->style == CAPL_FACE_DRAWING) face_ink(plan, c);
  else canvas_grain(c, plan->key, plan->grain);
}
