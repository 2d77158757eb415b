/* face_parts.c -- brows, eyes, nose, mouth and glasses.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/synth.h"
#include "synth/scenes/face_parts.h"

#include "synth/portable_math.h"

/* ---- eyes ------------------------------------------------------------------------------------ */

void face_brow(const face_part *f, int side)
{
  const face_plan *p = f->p;
  float sign = side ? 1.0f : -1.0f, y = -0.3f + p->brow_height;
  const float x[] = {0.13f, 0.24f, 0.36f, 0.46f, 0.54f}, rise[] = {0.03f, -0.02f, -0.05f, -0.03f, 0.03f};
  canvas_point line[5];
  for (int i = 0; i < 5; i++) line[i] = (canvas_point){face_x(p, sign * x[i], 0.9f), y + rise[i] - p->eye_tilt * x[i]};
  outline_begin(f->o, &p->head);
  outline_band(f->o, line, 5, p->brow_width * p->px, 0.35f);
  canvas_colour colour = canvas_mix(face_darker(p->hair_colour, 0.35f), p->skin, 0.15f);
  face_fill_lit(f, colour, 0.1f, 14, 0.02f, 0.02f, side ? CAPL_FACE_RIGHT_BROW : CAPL_FACE_LEFT_BROW);
}

/* The upper edge of an eye from corner to corner, t 0..1; lift 1 is the lid itself. */
static canvas_point lid(const face_plan *p, float sign, float t, float lift)
{
  float x = 0.32f + 0.155f * p->eye_size * (2 * t - 1), arch = 4 * t * (1 - t);
  float y = -0.04f - p->eye_tilt * (2 * t - 1) - lift * arch * 0.095f * p->eye_open * p->eye_size;
  return (canvas_point){face_x(p, sign * x, 0.9f), y};
}

static void eye_outline(const face_part *f, float sign)
{
  enum { N = 12 };
  outline_begin(f->o, &f->p->head);
  for (int i = 0; i <= N; i++) {
    canvas_point at = lid(f->p, sign, (float)i / N, 1);
    outline_to(f->o, at.x, at.y);
  }
  for (int i = N - 1; i > 0; i--) {
    canvas_point at = lid(f->p, sign, (float)i / N, -0.62f);
    outline_to(f->o, at.x, at.y);
  }
}

static void lid_line(const face_part *f, float sign, float lift, float width, canvas_colour colour, float alpha,
                     int label)
{
  canvas_point line[9];
  for (int i = 0; i < 9; i++) line[i] = lid(f->p, sign, (float)i / 8, lift);
  outline_begin(f->o, &f->p->head);
  outline_band(f->o, line, 9, width * f->p->px, 0.4f);
  face_fill(f, colour, alpha, label);
}

static void disc(const face_part *f, float x, float y, float r, canvas_colour colour, float alpha, int inside)
{
  outline_begin(f->o, &f->p->head);
  outline_ellipse(f->o, x, y, r, r);
  face_fill_inside(f, colour, alpha, inside);
}

void face_eye(const face_part *f, int side)
{
  const face_plan *p = f->p;
  float sign = side ? 1.0f : -1.0f, r = 0.088f * p->eye_size;
  int class = side ? CAPL_FACE_RIGHT_EYE : CAPL_FACE_LEFT_EYE;
  float x = face_x(p, sign * 0.32f, 0.9f) + 0.035f * p->gaze, y = -0.055f - 0.01f * p->eye_open;
  eye_outline(f, sign);
  face_fill(f, canvas_rgb(238, 234, 228), 1, class);
  disc(f, x, y, r, face_darker(p->iris, 0.5f), 1, class);
  disc(f, x, y, 0.82f * r, p->iris, 1, class);
  disc(f, x, y, 0.42f * r, canvas_rgb(12, 10, 10), 1, class);
  disc(f, x - 0.3f * r, y - 0.35f * r, 0.2f * r, canvas_rgb(255, 255, 255), 0.9f, class);
  lid_line(f, sign, 1, 0.035f, canvas_rgb(30, 20, 18), 0.9f, class);
  lid_line(f, sign, -0.62f, 0.012f, face_darker(p->skin, 0.5f), 0.5f, -1);
  lid_line(f, sign, 1.55f, 0.016f, face_darker(p->skin, 0.45f), 0.6f, -1);
}

void face_glasses(const face_part *f)
{
  const face_plan *p = f->p;
  canvas_colour metal = p->dark_glasses ? canvas_rgb(20, 18, 18)
      : canvas_mix(p->hat_colour, canvas_rgb(30, 26, 26), 0.7f);
  float ry = p->round_glasses ? 0.2f : 0.15f, rim = 0.02f, turn = (float)(2 * STEADY_PI);
  for (int s = -1; s <= 1; s += 2) {
    float x = face_x(p, (float)s * 0.33f, 1), rx = 0.215f;
    outline_begin(f->o, &p->head);
    outline_ellipse(f->o, x, -0.03f, rx, ry);
    face_fill(f, p->dark_glasses ? canvas_rgb(24, 24, 30) : canvas_rgb(225, 238, 245), p->dark_glasses ? 0.93f : 0.16f,
              CAPL_FACE_GLASSES);
    outline_begin(f->o, &p->head); /* a ring: once around outside, once back inside */
    outline_arc(f->o, x, -0.03f, rx + rim, ry + rim, 0, turn);
    outline_arc(f->o, x, -0.03f, rx - rim, ry - rim, turn, 0);
    face_fill(f, metal, 1, CAPL_FACE_GLASSES);
    outline_begin(f->o, &p->head);
    outline_band(f->o, (canvas_point[]){{x + (float)s * rx, -0.06f}, {(float)s * 0.76f * p->wide, -0.03f}}, 2,
                 0.04f * p->px, 1);
    face_fill(f, metal, 1, CAPL_FACE_GLASSES);
  }
  float left = face_x(p, -0.33f, 1) + 0.2f, right = face_x(p, 0.33f, 1) - 0.2f, middle = 0.5f * (left + right);
  outline_begin(f->o, &p->head);
  outline_band(f->o, (canvas_point[]){{left, -0.05f}, {middle, -0.085f}, {right, -0.05f}}, 3, 0.04f * p->px, 1);
  face_fill(f, metal, 1, CAPL_FACE_GLASSES);
}

/* ---- nose ------------------------------------------------------------------------------------ */

void face_nose(const face_part *f)
{
  const face_plan *p = f->p;
  float w = p->nose_wide, low = p->nose_long, at = face_x(p, 0, 1.1f), tip = face_x(p, 0, 1.5f);
  canvas_point line[] = {{at - 0.055f * w, -0.1f}, {at, -0.13f}, {at + 0.055f * w, -0.1f}, {tip + 0.075f * w, 0.12f},
                         {tip + 0.165f * w, 0.31f + low}, {tip + 0.14f * w, 0.385f + low}, {tip, 0.41f + low},
                         {tip - 0.14f * w, 0.385f + low}, {tip - 0.165f * w, 0.31f + low}, {tip - 0.075f * w, 0.12f}};
  outline_begin(f->o, &p->head);
  outline_smooth(f->o, line, sizeof line / sizeof line[0]);
  face_fill_lit(f, face_lighter(p->skin, 0.05f), 0.16f, 3, 0.25f, 0.25f, CAPL_FACE_NOSE);
  float away = p->light > 0 ? -1 : 1; /* the side in shadow */
  face_spot(f, tip + away * 0.14f * w, 0.2f, 0.12f, 0.3f, p->skin, -0.22f, CAPL_FACE_NOSE);
  face_spot(f, tip + away * 0.2f * w, 0.34f + low, 0.12f, 0.14f, p->skin, -0.18f, CAPL_FACE_SKIN);
  face_spot(f, tip, 0.42f + low, 0.2f, 0.06f, p->skin, -0.35f, CAPL_FACE_NOSE);
  face_spot(f, tip, 0.43f + low, 0.16f, 0.08f, p->skin, -0.2f, CAPL_FACE_SKIN);
  face_spot(f, tip - away * 0.02f, 0.27f + low, 0.07f, 0.08f, canvas_rgb(255, 250, 240), 0.12f, CAPL_FACE_NOSE);
  for (int s = -1; s <= 1; s += 2) {
    outline_begin(f->o, &p->head);
    outline_ellipse(f->o, tip + (float)s * 0.075f * w, 0.375f + low, 0.038f * w, 0.02f);
    face_fill_inside(f, face_darker(p->skin, 0.75f), 0.8f, CAPL_FACE_NOSE);
  }
}

/* ---- mouth ----------------------------------------------------------------------------------- */

typedef struct {
  float x, y, wide, smile;
} mouth_frame;

/* Across the mouth, t -1..1: the corners are up when it smiles. */
static canvas_point mouth_at(const mouth_frame *m, float t, float down)
{
  return (canvas_point){m->x + m->wide * t, m->y + down - 0.07f * m->smile * (t * t - 0.4f)};
}

/* What lies between two edges, each as deep as its middle says; bow: how deep the upper edge's middle is notched. */
static void lip_outline(const face_part *f, const mouth_frame *m, float upper, float lower, float bow)
{
  enum { N = 14 };
  outline_begin(f->o, &f->p->head);
  for (int i = 0; i <= N; i++) {
    float t = 2 * (float)i / N - 1, arch = (1 - t * t), notch = bow * portable_clamp(1 - t * t * 20, 0, 1);
    canvas_point at = mouth_at(m, t, upper * arch + notch);
    outline_to(f->o, at.x, at.y);
  }
  for (int i = N; i >= 0; i--) {
    float t = 2 * (float)i / N - 1;
    canvas_point at = mouth_at(m, t, lower * (1 - t * t));
    outline_to(f->o, at.x, at.y);
  }
}

void face_mouth(const face_part *f)
{
  const face_plan *p = f->p;
  float open = p->mouth_open, lip = 0.075f * p->lip;
  mouth_frame m = {.x = face_x(p, 0, 1.1f), .y = 0.625f, .wide = p->mouth_wide, .smile = p->smile};
  if (open > 0) {
    lip_outline(f, &m, -0.5f * open, 0.5f * open, 0);
    face_fill(f, canvas_rgb(70, 22, 26), 1, CAPL_FACE_MOUTH);
    m.wide *= 0.86f;
    lip_outline(f, &m, -0.5f * open, 0.05f * open, 0);
    face_fill_inside(f, canvas_rgb(240, 236, 226), 1, CAPL_FACE_MOUTH);
    m.wide = p->mouth_wide;
  }
  lip_outline(f, &m, -0.5f * open - lip, -0.5f * open, 0.03f * p->lip);
  face_fill_lit(f, p->lips, 0.15f, 4, 0.03f, 0.1f, CAPL_FACE_UPPER_LIP);
  lip_outline(f, &m, 0.5f * open, 0.5f * open + 1.25f * lip, 0);
  face_fill_lit(f, face_lighter(p->lips, 0.12f), 0.15f, 4, 0.03f, 0.1f, CAPL_FACE_LOWER_LIP);
  face_spot(f, m.x, m.y + 0.5f * open + 0.6f * lip, 0.4f * m.wide, 0.4f * lip, canvas_rgb(255, 245, 240), 0.18f,
            CAPL_FACE_LOWER_LIP);
  face_spot(f, m.x, m.y + 0.5f * open + 1.6f * lip, 0.7f * m.wide, 0.07f, p->skin, -0.2f, CAPL_FACE_SKIN);
  if (open > 0) return;
  canvas_point line[9];
  for (int i = 0; i < 9; i++) line[i] = mouth_at(&m, 1.04f * ((float)i / 4 - 1), 0);
  outline_begin(f->o, &p->head);
  outline_band(f->o, line, 9, 0.02f * p->px, 0.3f);
  face_fill(f, face_darker(p->lips, 0.7f), 0.85f, -1);
}
